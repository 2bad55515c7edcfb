"""Where the log of a command is, as its options say.

`--log PATH` may stand before or after the command; without it the environment variable PYLOG_LOG says where the log
is. `--bootstrap HOST:PORT`, or PYLOG_BOOTSTRAP, in its place names a server that runs. `-X NAME=VALUE` and the lines of
`--command-config FILE` are configs of the connection to it, and of a command's producer or consumer. All of them fill
one `LogPlace` for the whole command line: the last word counts.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from pylog.cli.params import Option, config_pair

if TYPE_CHECKING:
    from pylog.config.options import Config

__all__ = [
    "SECTION", "LogPlace", "file_options", "keep", "keep_configs", "log_options", "split_paths", "text_lines",
]  # fmt: skip

SECTION = "the log"
LOG = "PYLOG_LOG"
BOOTSTRAP = "PYLOG_BOOTSTRAP"


@dataclass(slots=True)
class LogPlace:
    """The place that the options name. The methods raise UsageError where these do not go together."""

    log: str | None = None
    bootstrap: str | None = None
    command_config: str | None = None
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> str | None:
        """The server that was named: by --bootstrap, or by PYLOG_BOOTSTRAP where no --log was given."""
        if self.log is not None:
            if self.bootstrap is not None:
                raise click.UsageError("give --log, for a directory, or --bootstrap, for a server that runs, not both")
            return None
        if self.bootstrap is not None:
            return self.bootstrap
        named = os.environ.get(BOOTSTRAP) or None
        if named is not None and os.environ.get(LOG):
            raise click.UsageError(f"{LOG} and {BOOTSTRAP} are both set: give --log PATH or --bootstrap HOST:PORT")
        return named

    @property
    def path(self) -> str:
        """The directory that was named, by --log or by PYLOG_LOG."""
        self.refuse_bootstrap()
        path = self.log or os.environ.get(LOG, "")
        if not path:
            raise click.UsageError(
                f"no log was named: give --log PATH or set {LOG}, or where a server may be asked, give --bootstrap "
                f"HOST:PORT or set {BOOTSTRAP}"
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
        """The configs in the file of --command-config, as Kafka's tools have them, and those of -X.

        Raises OSError, ValueError.
        """
        found = {}
        for number, line in enumerate(text_lines(self.command_config) if self.command_config is not None else (), 1):
            text = line.strip()
            if not text or text[0] in "#!":
                continue
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"{self.command_config}, line {number}: {text!r} is not NAME=VALUE")
            found[name.strip()] = value.strip()
        # Kafka's names have dots; underscores stand for them, as in Python.
        return {name.replace("_", "."): value for name, value in {**found, **self.configs}.items()}

    def connection_configs(self, client: "type[Config] | None" = None) -> dict[str, str]:
        """The configs of the connection to the server. Those of a `client` alone are left out.

        Raises OSError, ValueError; UsageError where there is no server.
        """
        if client is None:
            if self.servers is None and (self.configs or self.command_config is not None):
                raise click.UsageError("--command-config or -X says how to reach a server: it needs --bootstrap")
            return self.properties()
        found = self.properties()
        if not found:
            return {}
        from pylog.config.connection import ConnectionConfig

        found = {name: value for name, value in found.items() if name in ConnectionConfig.kinds()}
        alone = [name for name in found if name not in client.kinds()]
        if alone and self.servers is None:
            raise click.UsageError(f"{alone[0]} is a config of a connection: it needs --bootstrap")
        return found

    def client_configs(self, kind: "type[Config]", options: Iterable[str] = ()) -> dict[str, object]:
        """The configs of a producer or consumer, by the names of its arguments. `options`: these have an option of the
        command. Raises OSError, ValueError; UsageError for one of `options`.
        """
        found = self.properties()
        if not found:
            return {}
        from pylog.config.connection import ConnectionConfig

        own, of_connection = kind.kinds(), ConnectionConfig.kinds()
        for name in options:
            if name in found:
                raise click.UsageError(f"{name}: the command has an option for it, see --help")
        return {
            name.replace(".", "_"): value
            for name, value in found.items() if name in own or name not in of_connection
        }  # fmt: skip


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
            help=f"a server that runs, pylog's or Kafka's, in place of --log; several with commas (default: "
            f"${BOOTSTRAP})",
        ),
        _option(
            "--command-config", metavar="FILE", type=click.Path(),
            help="lines of configs of the connection: security.protocol=SASL_SSL, sasl.mechanism=..., "
            "sasl.username=...",
        ),
        Option(
            ["-X", "client_configs"], metavar="NAME=VALUE", type=config_pair, multiple=True, expose_value=False,
            callback=keep_configs, section=SECTION,
            help="one such config, or one of the producer or consumer (linger.ms=50); may be repeated",
        ),
    ]  # fmt: skip


def file_options() -> list[click.Parameter]:
    """The option --log alone: the command needs the files, and says so to --bootstrap."""
    return [_log(), _option("--bootstrap", hidden=True)]


def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let the place of the command line have the value of an option (a callback of click)."""
    if value is not None and param.name is not None:
        setattr(ctx.ensure_object(LogPlace), param.name, value)


def keep_configs(ctx: click.Context, param: click.Parameter, pairs: tuple[tuple[str, str], ...]) -> None:
    """Let the place of the command line have these configs (a callback of click)."""
    ctx.ensure_object(LogPlace).configs.update(pairs)


def _log() -> Option:
    return _option(
        "--log", metavar="PATH", type=click.Path(),
        help=f"the log's directory; all of several with commas (default: ${LOG})",
    )  # fmt: skip


def _option(name: str, **settings: object) -> Option:
    return Option([name], expose_value=False, callback=keep, section=SECTION, **settings)
