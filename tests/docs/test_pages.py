"""The tutorial does what it says, block by block, in one session."""

import re
from pathlib import Path

import pytest

import pylog

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_every_block_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TUTORIAL.read_text(encoding="utf-8")
    session: dict[str, object] = {}
    try:
        for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            line = text[: found.start(1)].count("\n")
            exec(compile("\n" * line + found[1], str(TUTORIAL), "exec"), session)
    finally:
        log = session.get("log")
        if isinstance(log, pylog.Log):
            log.close()
