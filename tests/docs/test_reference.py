"""The examples of the reference: each call that docs/reference/python.md shows has one, and each is true.

An example is what a Python prompt shows, at the end of a docstring. It begins with the names of the page's first block,
and that of a method with those of its class's example.
"""

import asyncio
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, is_typeddict

import pytest

from support.prompt import Prompt, ends_with_example

PAGE = Path(__file__).parents[2] / "docs/reference/python.md"
DIRECTIVE = re.compile(r"^\.\. auto(function|class|module):: ([\w.]+)\n((?: {3}:.*\n)*)", re.MULTILINE)
MODULES = "pylog pylog.aio pylog.metrics pylog.schema_registry pylog.serde pylog.testing pylog.workers".split()


@dataclass(frozen=True)
class Shown:
    """A function or a class of the page, and the methods that it shows."""

    name: str
    what: Any
    methods: tuple[str, ...] = ()

    @property
    def docstring(self) -> str:
        """The docstring of the function or the class."""
        return inspect.getdoc(self.what) or ""

    @property
    def of_methods(self) -> dict[str, str]:
        """The docstrings of the methods."""
        return {f"{self.name}.{name}": inspect.getdoc(getattr(self.what, name)) or "" for name in self.methods}

    @property
    def calls(self) -> dict[str, str]:
        """The docstrings that need an example: those of a function, of a method, and of a class with methods."""
        is_value = isinstance(self.what, type) and not self.methods
        return {} if is_value else {self.name: self.docstring, **self.of_methods}


def named(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def is_call(what: Any) -> bool:
    """False for a module, a constant, an error, and the types that stand in signatures alone."""
    is_error = isinstance(what, type) and issubclass(what, BaseException)
    return callable(what) and not (is_error or is_typeddict(what) or getattr(what, "_is_protocol", False))


def methods_of(kind: type, options: dict[str, str]) -> Iterator[str]:
    """The methods that autodoc shows: public ones, with a docstring of their own or of a base."""
    if "no-members" in options:
        return
    chosen, hidden = options.get("members"), options.get("exclude-members", "").split(", ")
    kinds = kind.__mro__ if "inherited-members" in options else [kind]
    names = chosen.split(", ") if chosen else [name for one in kinds for name in vars(one)]
    for name in dict.fromkeys(names):
        if (not name.startswith("_") and name not in hidden and inspect.isroutine(getattr(kind, name))
                and inspect.getdoc(getattr(kind, name))):  # fmt: skip
            yield name


@cache
def shown() -> tuple[Shown, ...]:
    things = []
    for kind, name, lines in DIRECTIVE.findall(PAGE.read_text(encoding="utf-8")):
        options = {key: value.strip() for key, value in re.findall(r":([\w-]+):(.*)", lines)}
        if kind != "module":
            what = named(name)
            things.append(Shown(name, what, tuple(methods_of(what, options)) if kind == "class" else ()))
    return tuple(things)


def wrong_examples(loop: asyncio.Runner, thing: Shown) -> Iterator[str]:
    """What is not true of the examples of a function or a class; each method begins behind the example of its class."""
    for name, docstring in (thing.of_methods or {thing.name: ""}).items():
        prompt = Prompt(PAGE, loop)
        try:
            yield from prompt.wrong(thing.name, thing.docstring)
            yield from prompt.wrong(name, docstring)
        finally:
            prompt.close()


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("thing", [one for one in shown() if ">>> " in one.docstring], ids=lambda thing: thing.name)
def test_the_examples_are_true(thing: Shown, loop: asyncio.Runner) -> None:
    wrong = list(wrong_examples(loop, thing))
    assert not wrong, "\n".join(wrong)


def test_an_example_that_is_not_true_is_told(loop: asyncio.Runner) -> None:
    def wrong() -> None:
        """Three examples.

        >>> log.topics()
        ['orders']
        >>> len(log.topics())
        2
        >>> await pylog.aio.open(7)
        """

    told = list(wrong_examples(loop, Shown("wrong", wrong)))
    assert ["2" in told[0], "TypeError" in told[1]] == [True, True] and len(told) == 2


def test_each_call_has_an_example_at_its_end() -> None:
    calls = {name: docstring for thing in shown() for name, docstring in thing.calls.items()}
    without = [name for name, docstring in calls.items() if not ends_with_example(docstring)]
    assert len(calls) > 250
    assert not without


def test_the_page_shows_all_that_is_public() -> None:
    known = {thing.name for thing in shown()}
    public = {f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}
    assert not {name for name in public - known if is_call(named(name))}
