"""Completion in a shell: topics, groups, transactional ids and users of the log, and names of configs.

    eval "$(pylog completion bash)"        in ~/.bashrc; zsh and fish alike

What that prints makes the shell run `pylog` with `_PYLOG_COMPLETE` and the words so far in its environment, and take a
candidate a line. The functions here have the form of click's `shell_complete`. The log is looked at as `topic list`
does: nothing is locked. One that is not there, or a server that does not answer within a second, completes nothing.
"""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import get_completion_class, shell_complete

from pylog.cli import commands
from pylog.cli.opening import looking
from pylog.cli.output import write
from pylog.cli.params import argument
from pylog.cli.place import LogPlace
from pylog.config import GroupConfig, NodeConfig, TopicConfig
from pylog.config.dynamic import dynamic_kinds
from pylog.errors import PylogError
from pylog.handles.any_log import AnyLog

__all__ = [
    "altered_configs", "answer", "command", "groups", "node_configs", "share_groups", "topic_configs", "topics",
    "transactional_ids", "users",
]  # fmt: skip

SHELLS = ("bash", "zsh", "fish")
PATIENCE_MS = 1000

Ask = Callable[[AnyLog], Iterable[str]]


@commands.command(
    "completion",
    short_help="print what makes a shell complete",
    examples=(
        "eval \"$(pylog completion bash)\"                                  # in ~/.bashrc",
        "eval \"$(pylog completion zsh)\"                                   # in ~/.zshrc, after compinit",
        "pylog completion fish > ~/.config/fish/completions/pylog.fish",
    ),
)  # fmt: skip
@argument("shell", "SHELL", "bash (4.4 or newer), zsh or fish", type=click.Choice(SHELLS))
def command(place: LogPlace, shell: str) -> int:
    """Print what makes a shell complete commands, options, topics, groups and configs."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    write(kind(command, {}, "pylog", commands.COMPLETION).source().encode() + b"\n")
    return 0


def answer(root: click.Command, instruction: str) -> int:
    """Print what the shell asks for; the exit code."""
    return shell_complete(root, {}, "pylog", commands.COMPLETION, instruction)


def topics(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The topics; Kafka's own where the word begins as theirs do."""
    return _ask(ctx, word, lambda log: log.topics(internal=word.startswith("_")))


def groups(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The groups."""
    return _ask(ctx, word, lambda log: (one.group_id for one in log.admin.list_groups()))


def share_groups(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The share groups."""
    return _ask(ctx, word, lambda log: (one.group_id for one in log.admin.list_groups(types=["share"])))


def transactional_ids(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The transactional ids."""
    return _ask(ctx, word, lambda log: (one.transactional_id for one in log.admin.list_transactions()))


def users(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The users of the log."""
    return _ask(ctx, word, lambda log: log.admin.users())


def topic_configs(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The configs of a topic, by Kafka's names."""
    return [name for name in sorted(TopicConfig().to_kafka()) if name.startswith(word)]


def node_configs(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The configs of a node, by Kafka's names."""
    return [name for name in sorted(NodeConfig().to_kafka()) if name.startswith(word)]


def altered_configs(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """The configs of a group, or of a node that can be altered while it runs, by Kafka's names."""
    names = GroupConfig.kinds() if ctx.params.get("group") is not None else dynamic_kinds()
    return [name for name in sorted(names) if name.startswith(word)]


def _ask(ctx: click.Context, word: str, ask: Ask) -> list[str]:
    place = ctx.ensure_object(LogPlace)
    try:
        with looking(place, patience_ms=PATIENCE_MS) as log:
            # A name that does not print cannot be typed, and would be written to the terminal as it is.
            return sorted(name for name in ask(log) if name.startswith(word) and name.isprintable())
    except (PylogError, OSError, ValueError, click.UsageError):
        # A shell that completes has no place for errors: the command itself will say what is wrong.
        return []
