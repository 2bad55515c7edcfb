"""Options and arguments of commands: click's, with sections in the help, and help for arguments."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

__all__ = [
    "OPTIONS",
    "Argument",
    "Option",
    "argument",
    "at_most_one",
    "config_pair",
    "json_option",
    "option",
    "yes_option",
]

F = TypeVar("F", bound=Callable[..., object])
OPTIONS = "options"


class Option(click.Option):
    """An option; those of a `section` stand together in the help."""

    def __init__(self, *args: Any, section: str = OPTIONS, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.section = section


class Argument(click.Argument):
    """An argument; `words` say what it is."""

    def __init__(self, *args: Any, words: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.words = words


def option(*names: str, **settings: object) -> Callable[[F], F]:
    """Give a command an option. `settings` are click's, and `section`."""
    return click.option(*names, cls=Option, **settings)


def argument(name: str, metavar: str, words: str, **settings: object) -> Callable[[F], F]:
    """Give a command an argument. `settings` are click's."""
    return click.argument(name, cls=Argument, metavar=metavar, words=words, **settings)


def json_option(function: F) -> F:
    """Give a command the option --json, which means the same for all."""
    return option("--json", "as_json", is_flag=True, help="print JSON: one object a line")(function)


def yes_option(function: F) -> F:
    """Give a command the option --yes."""
    return option("--yes", "-y", "is_agreed", is_flag=True, help="do not ask")(function)


def config_pair(text: str) -> tuple[str, str]:
    """`retention.ms=1000` -> ("retention.ms", "1000")."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, as in retention.ms=604800000")
    return name.strip(), value.strip()


def at_most_one(given: Mapping[str, object], *, is_needed: bool = False) -> None:
    """Hold options that exclude each other, by name, to one. None and False are not given. Raises UsageError."""
    names = [name for name, value in given.items() if value is not None and value is not False]
    if len(names) > 1:
        raise click.UsageError(f"{names[1]} is not allowed with {names[0]}: give one of them")
    if is_needed and not names:
        raise click.UsageError(f"one of {', '.join(given)} is required")
