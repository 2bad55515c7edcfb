"""Where the log of a command is, as its options say.

`--log PATH` may stand before or after the command; without it the environment variable PYLOG_LOG says where the log
is. `--bootstrap HOST:PORT`, in its place, names a server that runs, and `--command-config FILE` has lines like
`security.protocol=SASL_SSL` for it. All three fill one `Place` for the whole command line: the last word counts.
"""

import os
from dataclasses import dataclass
from typing import Any

import click

from pylog.cli.params import Option

__all__ = ["SECTION", "Place", "file_options", "keep", "log_options", "split_paths", "text_lines"]

SECTION = "the log"
ENVIRONMENT = "PYLOG_LOG"


@dataclass(slots=True)
class Place:
    """What was given of the options. The methods raise UsageError where these do not go together."""

    log: str | None = None
    bootstrap: str | None = None
    command_config: str | None = None

    @property
    def servers(self) -> str | None:
        """The server that was named by --bootstrap, if one was."""
        if self.bootstrap is not None and self.log is not None:
            raise click.UsageError("give --log, for a directory, or --bootstrap, for a server that runs, not both")
        if self.bootstrap is None and self.command_config is not None:
            raise click.UsageError("--command-config says how to log in to a server: it needs --bootstrap")
        return self.bootstrap

    @property
    def path(self) -> str:
        """The directory that was named, by --log or by PYLOG_LOG."""
        self.refuse_bootstrap()
        path = self.log or os.environ.get(ENVIRONMENT, "")
        if not path:
            raise click.UsageError(
                f"no log was named: give --log PATH or set {ENVIRONMENT}, or --bootstrap HOST:PORT where it may"
            )
        return path

    @property
    def paths(self) -> list[str]:
        """The directories that were named, the one with the list of topics first."""
        return split_paths(self.path)

    def __str__(self) -> str:
        return self.servers or self.path

    def refuse_bootstrap(self) -> None:
        """Raise UsageError where --bootstrap was given: the command needs the files."""
        if self.bootstrap is not None:
            raise click.UsageError("this command needs the files of the log: give --log PATH, not --bootstrap")

    def properties(self) -> dict[str, str]:
        """The configs in the file of --command-config, as Kafka's tools have them. Raises OSError, ValueError."""
        found = {}
        for number, line in enumerate(text_lines(self.command_config) if self.command_config is not None else (), 1):
            text = line.strip()
            if not text or text[0] in "#!":
                continue
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"{self.command_config}, line {number}: {text!r} is not NAME=VALUE")
            found[name.strip()] = value.strip()
        return found


def split_paths(text: str) -> list[str]:
    """Directories with commas. A path that exists is one, whatever is in its name."""
    return [text] if os.path.exists(text) else [one.strip() for one in text.split(",")]


def text_lines(path: str) -> list[str]:
    """The lines of a text file that an option names. Raises OSError, ValueError."""
    with open(path, encoding="utf-8") as file:
        try:
            return file.read().splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no text in UTF-8: {error}") from error


def log_options() -> list[click.Parameter]:
    """The options that say where the log is. They may be given to a command or in front of it."""
    return [
        _log(),
        _option(
            "--bootstrap", metavar="HOST:PORT",
            help="a server that runs, pylog's or Kafka's, in place of --log; several with commas",
        ),
        _option(
            "--command-config", metavar="FILE", type=click.Path(),
            help="with --bootstrap: lines of configs, as security.protocol=SASL_SSL, sasl.mechanism=..., "
            "sasl.username=...",
        ),
    ]  # fmt: skip


def file_options() -> list[click.Parameter]:
    """The option --log alone: the command needs the files, and says so to --bootstrap."""
    return [_log(), _option("--bootstrap", hidden=True)]


def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let the place of the command line have the value of an option (a callback of click)."""
    if value is not None and param.name is not None:
        setattr(ctx.ensure_object(Place), param.name, value)


def _log() -> Option:
    return _option(
        "--log", metavar="PATH", type=click.Path(),
        help=f"the log's directory; all of several with commas (default: ${ENVIRONMENT})",
    )  # fmt: skip


def _option(name: str, **settings: Any) -> Option:
    return Option([name], expose_value=False, callback=keep, section=SECTION, **settings)
