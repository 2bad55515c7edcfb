"""Examples of docstrings, typed at a Python prompt."""

import ast
import asyncio
import inspect
import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from doctest import ELLIPSIS, DocTestParser, Example, OutputChecker
from pathlib import Path
from traceback import format_exception_only
from typing import Any

import pytest

from support.pages import blocks

__all__ = ["Prompt", "ends_with_example"]

PARSER, CHECKER = DocTestParser(), OutputChecker()


def ends_with_example(docstring: str) -> bool:
    """Whether the last paragraph is what a prompt shows."""
    return re.search(r"\n\n>>> [^\n]+(\n[^\n]+)*\Z", docstring) is not None


class Prompt:
    """A Python prompt that has typed the first block of a page. `await` is taken as by `python -m asyncio`."""

    def __init__(self, page: Path, loop: asyncio.Runner, **names: object) -> None:
        self._loop = loop
        self.names: dict[str, Any] = dict(names)
        (line, block), *_ = blocks(page, "python")
        exec(compile("\n" * line + block, str(page), "exec"), self.names)
        self._log = self.names["log"]

    def wrong(self, name: str, docstring: str) -> Iterator[str]:
        """Type the examples of a docstring; each that is not true."""
        for example in PARSER.get_examples(docstring):
            got = self._typed(example)
            wanted = example.exc_msg or example.want
            if not CHECKER.check_output(wanted, got, ELLIPSIS):
                yield f"{name}: >>> {example.source}  expected {wanted!r}\n  got      {got!r}"

    def _typed(self, example: Example) -> str:
        code = compile(example.source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as out, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "displayhook", lambda value: None if value is None else print(repr(value)))
            try:
                result = eval(code, self.names)
                if code.co_flags & inspect.CO_COROUTINE:
                    self._loop.run(result)
            except Exception as error:  # noqa: BLE001 - the prompt shows it
                return format_exception_only(error)[-1]
        return out.getvalue()

    def close(self) -> None:
        """Close what was opened: a log, which closes its clients, before these."""
        for one in [*self.names.values(), self._log]:
            if type(one).__module__.startswith("pylog.") and hasattr(one, "close"):
                closing = one.close()
                if inspect.iscoroutine(closing):
                    self._loop.run(closing)
