"""The README does what it says: every block, in order, each by itself, and all of them twice in the same directory."""

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from pylog.cli import main
from support.pages import blocks

README = Path(__file__).parents[2] / "README.md"


def run_python(line: int, block: str) -> None:
    """A block of Python as a program of its own: a name that an earlier block has made is not there."""
    exec(compile("\n" * line + block, str(README), "exec"), {})


def run_shell(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """A line of the command, in this process; `printf TEXT |` before it gives its input."""
    words = shlex.split(line, comments=True)
    if words[0] == "export":
        name, _, value = words[1].partition("=")
        monkeypatch.setenv(name, value)
        return 0
    typed = ""
    if words[0] == "printf":
        assert words[2] == "|", line
        typed, words = words[1].replace("\\n", "\n"), words[3:]
    assert words[0] == "pylog", line
    # Ctrl-C ends what follows the log; here that much does.
    words += ["--max-records", "3"] if "--follow" in words else []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
    try:
        return main(words[1:])
    except SystemExit as leaving:
        assert isinstance(leaving.code, int)
        return leaving.code


def test_every_block_of_the_readme_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    python = [(line, block) for line, block in blocks(README, "python") if "pyspark" not in block]
    lines = [line for _, block in blocks(README, "") if "PYLOG_LOG" in block for line in block.splitlines()]
    assert len(python) >= 3 and len(lines) >= 8
    for _ in range(2):
        for at, block in python:
            run_python(at, block)
        for line in lines:
            assert run_shell(line, monkeypatch) == 0, line


def test_the_first_block_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(*blocks(README, "python")[0])
    (shown,) = [block for _, block in blocks(README, "") if block.startswith("RecordMetadata")]
    without_time = re.compile(r"timestamp=\d+")
    assert without_time.sub("", capsys.readouterr().out) == without_time.sub("", shown)
