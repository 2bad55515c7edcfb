"""These pages do what they say, block by block, each page in one session. The command takes the lines shown for it."""

import logging
import shlex
from pathlib import Path

import pytest

import pylog
from pylog.cli import main
from pylog.cli.commands import Command
from support.pages import blocks

DOCS = Path(__file__).parents[2] / "docs"
ELSEWHERE = {"hosts", "testing"}
"""Pages whose blocks need two hosts (`examples/warm_standby.py` is run) or are files (`test_testing.py`)."""
FILES = {page.relative_to(DOCS).with_suffix("").as_posix(): page for page in DOCS.rglob("*.md")}


PAGES = sorted(name for name, page in FILES.items() if blocks(page, "python") and name not in ELSEWHERE)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    levels = {logger: logger.level for logger in loggers()}
    try:
        for line, block in blocks(FILES[name], "python"):
            exec(compile("\n" * line + block, f"{name}.md", "exec"), session)
    finally:
        log = session.get("log")
        if isinstance(log, pylog.Log):
            log.close()
        for logger in loggers():
            logger.setLevel(levels.get(logger, logging.NOTSET))


def loggers() -> list[logging.Logger]:
    """Those of pylog that have been made."""
    made = logging.root.manager.loggerDict.items()
    return [one for name, one in made if isinstance(one, logging.Logger) and name.startswith("pylog")]


def commands() -> list[str]:
    """The lines of the command in blocks that are not Python, those that go on below made one."""
    shown = "".join(block.replace("\\\n", " ") for page in FILES.values() for _, block in blocks(page, ""))
    return sorted({line for line in shown.splitlines() if line.startswith("pylog ")})


@pytest.mark.parametrize("line", commands())
def test_the_command_takes_a_line_that_a_page_shows(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The words are parsed, and the command itself is not run.
    monkeypatch.setattr(Command, "invoke", lambda command, ctx: 0)
    words = shlex.split(line, comments=True)
    while words:
        end = next((at for at, word in enumerate(words) if word in ("|", ">")), len(words))
        program, *rest = words[:end]
        assert program != "pylog" or main(rest) == 0
        # What stands behind > is a file.
        words = words[end + 1 :] if words[end:] and words[end] == "|" else []
