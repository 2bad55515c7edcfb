"""The blocks of a page of the docs."""

import re
from pathlib import Path

__all__ = ["blocks"]

BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The blocks of a page in a language, and the lines that they begin in; the language of a shell's is ""."""
    text = page.read_text(encoding="utf-8")
    return [(text[: one.start(2)].count("\n"), one[2]) for one in BLOCK.finditer(text) if one[1] == language]
