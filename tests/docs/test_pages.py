"""These pages do what they say, block by block, each page in one session."""

import re
from pathlib import Path

import pytest

import pylog

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["data", "tutorial", "types"])
def test_every_block_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    session: dict[str, object] = {}
    try:
        for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            line = text[: found.start(1)].count("\n")
            exec(compile("\n" * line + found[1], str(page), "exec"), session)
    finally:
        log = session.get("log")
        if isinstance(log, pylog.Log):
            log.close()
