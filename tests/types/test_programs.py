"""mypy and pyright over programs as users write them: right ones pass, and each line marked "refused" does not.

pyright is what completes and checks in editors (Pylance). It runs in node, and is skipped where there is none.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = pytest.mark.types

PROGRAMS = Path(__file__).parent / "programs"
Lines = dict[str, set[int]]
"""The numbers of lines, by the file's name."""


@pytest.fixture(scope="module")
def refused() -> Lines:
    """The lines that say that they are refused."""
    return {
        path.name: {
            number
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if line.endswith("# refused")
        }
        for path in PROGRAMS.glob("*.py")
    }


def run(*command: str | Path) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=PROGRAMS, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def assert_same(found: Lines, refused: Lines, output: str) -> None:
    for name, lines in refused.items():
        assert found.get(name, set()) == lines, f"{name}\n{output}"


def test_there_are_right_programs_and_wrong_ones(refused: Lines) -> None:
    assert {name for name, lines in refused.items() if not lines} == {path.name for path in PROGRAMS.glob("right_*.py")}
    assert len(refused["wrong.py"]) > 20


def test_mypy_refuses_what_is_wrong_and_nothing_else(refused: Lines) -> None:
    output = run("mypy", "--strict", "--config-file=../mypy.ini", "--output=json", f"--cache-dir={os.devnull}", ".")
    found: Lines = defaultdict(set)
    for one in map(json.loads, output.splitlines()):
        if one["severity"] == "error":
            found[one["file"]].add(one["line"])
    assert_same(found, refused, output)


@pytest.mark.skipif(shutil.which("node") is None, reason="PYRIGHT WAS NOT RUN: it needs node, which is not installed")
def test_pyright_refuses_what_is_wrong_and_nothing_else(refused: Lines) -> None:
    output = run("pyright", "--outputjson", "--pythonpath", sys.executable)
    found: Lines = defaultdict(set)
    for one in json.loads(output)["generalDiagnostics"]:
        if one["severity"] == "error":
            found[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    assert_same(found, refused, output)
