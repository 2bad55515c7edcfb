"""The `pylog` command: a thin skin over the public API and `pylog.inspect`.

    pylog topic create|list|describe|delete     pylog segment dump FILE
    pylog produce TOPIC [FILE...]               pylog verify
    pylog consume TOPIC...                      pylog repair [TOPIC[:PARTITION]]
    pylog group list|describe|seek|delete       pylog txn list|describe|producers|hanging|abort
    pylog share list|describe|offsets|reset|delete
    pylog schedule list|send|cancel|run
    pylog user list|set|delete                  pylog serve
    pylog acl add|list|remove                   pylog quota list|set|remove
    pylog config describe|alter                 pylog follow --from HOST:PORT [TOPIC...]
    pylog version                               pylog top
    pylog ui                                    pylog pipeline list|run JOB
    pylog completion bash|zsh|fish

One file per group of commands; its `command` is what click runs (`commands`). What leaves the
program:

    0    done, also when the reader of the output has gone (`| head -1`)
    1    an error, said in one line on stderr that tells what to do; `verify` and `segment dump`: also damage found
    2    wrong usage
    130  interrupted (Ctrl-C); what was sent until then was written. `top`, `serve`, `follow` and `ui` run until then: 0

Commands that only look (`list`, `describe`, `consume`, `top`, `verify`, `segment dump`) lock nothing and work while
another process owns the log. With `--bootstrap` all but those that need files (`verify`, `repair`, `segment`, `serve`,
`follow`, `topic clean`) work against a server that runs.
"""

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

import pylog
from pylog.cli.commands import COMPLETION, CommandGroup
from pylog.cli.interrupts import interrupted_later
from pylog.cli.output import say, show_misuse
from pylog.cli.place import LogPlace
from pylog.errors import DirectoryLocked, PylogError

__all__ = ["main", "root"]

WRONG_USAGE = 2
INTERRUPTED = 130
COMMANDS = (
    "topic", "produce", "consume", "group", "share", "schedule", "txn", "user", "acl", "quota", "config", "serve",
    "follow", "top", "ui", "pipeline", "segment", "verify", "repair", "version", "completion",
)  # fmt: skip


class _Said(logging.Handler):
    """A log handler that prints the library's log records (a torn tail that was cut, a partition that failed) in the
    command's own words.
    """

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    `argv` has no name of the program (default: `sys.argv`). Gives the exit code, and never raises for an error that a
    user can do something about.
    """
    logger = logging.getLogger("pylog")
    if not any(isinstance(handler, _Said) for handler in logger.handlers):
        logger.addHandler(_Said(logging.WARNING))
        logger.propagate = False
    if sys.stdout is None:
        say("stdout is closed, so there is no place for what this command writes: send it to /dev/null")
        return 1
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except DirectoryLocked as error:
        owner = "another process" if error.pid is None or error.pid < 0 else f"process {error.pid}"
        say(
            f"{owner} owns this log: stop it, or wait; list, describe, consume and verify work beside it, and where it "
            "serves the log, every command does with --bootstrap"
        )
    except (PylogError, ValueError, ImportError) as error:
        say(str(error) or type(error).__name__)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{place}{error.strerror or error}")
    return 1


def _run(words: Sequence[str]) -> int:
    instruction = os.environ.get(COMPLETION)
    if instruction:
        from pylog.cli.completion import answer

        return answer(root, instruction)
    try:
        with root.make_context("pylog", list(words), obj=LogPlace()) as ctx:
            code: int = root.invoke(ctx)
            return code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as wrong:
        show_misuse(wrong)
        return WRONG_USAGE


class _Root(CommandGroup):
    """The command line. A command is loaded when it is named: to load all is for help, and for what is near."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with interrupted_later():
            found: click.Command = import_module(f"pylog.cli.{cmd_name}").command
        return found


root = click.version_option(pylog.__version__, prog_name="pylog", message="%(prog)s %(version)s")(
    _Root(
        "pylog",
        help="Kafka's log as a library: topics, partitions and offsets in a directory, no server.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
        examples=(
            "export PYLOG_LOG=data",
            "pylog topic create clicks --partitions 6",
            "pylog produce clicks access.log --key-separator ' '",
            "pylog consume clicks --from-beginning --max-records 10 --format json",
            "pylog topic describe clicks",
            "pylog verify",
        ),
    )
)
"""The command line as a whole."""


def _forget_stdout() -> None:
    """Nobody reads our output any more: let the interpreter's last flush go nowhere, instead of failing."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        # stdout is no file (a test reads it): there is nothing that could fail later.
        return
