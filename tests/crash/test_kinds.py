"""A sample of every kind of file as every kind of thing; `make kinds` has all of it."""

import os
import subprocess
import sys
from pathlib import Path

STRIDE = 227
ROOT = Path(__file__).parents[2]


def test_a_hostile_directory_gives_errors_and_loses_nothing() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.kinds", str(STRIDE)], cwd=ROOT, env=environment, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0 and "cases: 0 failures" in ran.stdout, ran.stdout + ran.stderr
