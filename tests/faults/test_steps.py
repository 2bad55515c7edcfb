"""A small run of the campaign of faults at each step (`campaign`); and writes that lie, it finds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED faults below Python: LD_PRELOAD is Linux's"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="SKIPPED faults below Python: there is no C compiler"),
]


def campaign(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.campaign", *arguments], cwd=ROOT, text=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))} | environment,
    )  # fmt: skip


def test_a_fault_at_some_step_of_a_repair_loses_nothing() -> None:
    ran = campaign("10", "--jobs", "1", "--only", "repair")
    assert ran.returncode == 0 and "10 steps with a fault" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.planted
def test_failed_writes_that_report_success_are_detected() -> None:
    # Two or three of twenty are found, and once it was none: how many steps there are differs from run to run.
    ran = campaign("60", "--jobs", "1", "--only", "pairs", PYLOG_FAIL_LIES="1")
    assert ran.returncode == 1 and "FAILED pairs" in ran.stdout, ran.stdout + ran.stderr
