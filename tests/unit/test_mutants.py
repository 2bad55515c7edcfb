"""Each fault of `mutants` is found by its test, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.mutant import Mutant
from unit.mutants import MUTANTS

HERE = Path(__file__).parent
TESTS_FAILED = 1


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_a_planted_fault_fails_its_test(mutant: Mutant) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "support.planted"]
    done = subprocess.run(
        [*command, f"{HERE / MUTANTS[mutant]}"],
        cwd=HERE.parent.parent, env={**os.environ, "PYTHONPATH": str(HERE.parent), "PLANTED": mutant.title},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == TESTS_FAILED, done.stdout + done.stderr
