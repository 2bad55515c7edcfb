"""The commands of click that `pylog` has: each is given the place of the log, and shows examples below its help.

A function below `@command(...)` is the command: its docstring is the help, its first argument the `LogPlace`, the
others are the values of its options and arguments, and what it returns is the exit code. A `CommandGroup` has commands
below it.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import click

from pylog.cli.output import print_line
from pylog.cli.params import OPTIONS, Argument
from pylog.cli.place import SECTION, LogPlace, file_options, log_options

__all__ = ["COMPLETION", "Command", "CommandGroup", "command"]

COMPLETION = "_PYLOG_COMPLETE"
"""The variable of the environment by which a shell asks for completions, as click forms it."""

_pass_place = click.make_pass_decorator(LogPlace, ensure=True)


class Command(click.Command):
    """A command with the options that say where the log is, or with `on_files` the one that says where its files are.

    `examples` and `notes` stand below its help as they are written.
    """

    def __init__(
        self, *args: Any, on_files: bool = False, examples: Sequence[str] = (), notes: str = "", **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.params += file_options() if on_files else log_options()
        shown = "examples:\n" + "\n".join(f"  {line}" for line in examples) if examples else ""
        self.below = "\n\n".join(filter(None, (shown, notes)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, and the options by section; those of the log in full for `pylog` itself alone."""
        sections: dict[str, list[tuple[str, str]]] = {"arguments": [], OPTIONS: []}
        for param in self.get_params(ctx):
            if isinstance(param, Argument):
                sections["arguments"].append((param.metavar or "", param.words))
            elif (record := param.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(param, "section", OPTIONS), []).append(record)
        of_log = sections.pop(SECTION, []) if ctx.parent is not None else []
        for name, rows in sections.items():
            if rows:
                with formatter.section(name):
                    formatter.write_dl(rows)
        if of_log:
            formatter.write(f"\nthe log: {', '.join(names.split()[0] for names, _ in of_log)}; see `pylog --help`\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and notes, unwrapped."""
        if self.below:
            formatter.write(f"\n{self.below}\n")


class CommandGroup(Command, click.Group):
    """A command with others below it."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, subcommand_metavar="COMMAND ...", no_args_is_help=False, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; without one the help is the answer."""
        if not args and not ctx.resilient_parsing:
            for line in ctx.get_help().splitlines():
                print_line(line)
            ctx.exit()
        return super().parse_args(ctx, args)

    def verb(self, name: str, **settings: object) -> Callable[[Callable[..., int]], Command]:
        """Make a command below this one of a function, as `command` does."""

        def add(function: Callable[..., int]) -> Command:
            made = command(name, **settings)(function)
            self.add_command(made)
            return made

        return add

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        rows = [(name, found.short_help or "") for name, found in self._shown(ctx)]
        with formatter.section("commands"):
            formatter.write_dl(rows)
        super().format_options(ctx, formatter)

    def _shown(self, ctx: click.Context) -> list[tuple[str, click.Command]]:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, one) for name, one in found if one is not None and not one.hidden]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which they were added."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names. Raises UsageError, which says what is near."""
        word, names = args[0], self.list_commands(ctx)
        if not ctx.resilient_parsing and word not in names and not word.startswith("-"):
            near = get_close_matches(word, names, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(names)}"
            ctx.fail(f"there is no command {word!r}: {hint}")
        return super().resolve_command(ctx, args)


def command(name: str, **settings: object) -> Callable[[Callable[..., int]], Command]:
    """Make a command of a function. `settings` are those of `Command`; `short_help` stands in the list of commands."""

    def make(function: Callable[..., int]) -> Command:
        return click.command(name, cls=Command, **settings)(_pass_place(function))

    return make
