"""The parts of commands that `pylog group` and `pylog share` have in common: where a group goes on, and its end."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pylog.cli import completion as complete
from pylog.cli.arguments import partitions_of, topic_partition
from pylog.cli.output import Column, agreed, print_line, print_table, say, tell
from pylog.cli.params import option
from pylog.client.admin.offset_moves import OffsetMove
from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text

__all__ = ["Where", "chosen", "forget", "move", "number_text", "topics_option"]

F = TypeVar("F", bound=Callable[..., object])
Where = tuple[tuple[str, int | None], ...]
"""The partitions that --topic names."""

COLUMNS = (Column("topic"), Column("partition", True), Column("before", True), Column("after", True))


def topics_option(words: str, *, required: bool = False) -> Callable[[F], F]:
    """Give a command the option --topic TOPIC[:P]."""
    return option(
        "--topic", "where", type=topic_partition, multiple=True, metavar="TOPIC[:P]", required=required, help=words,
        shell_complete=complete.topics,
    )  # fmt: skip


def chosen(log: AnyLog, where: Where) -> list[TopicPartition] | None:
    """The partitions that were named, or None. Raises UnknownTopicOrPartition."""
    return [key for name, number in where for key in partitions_of(log, name, number)] if where else None


def number_text(number: int | None) -> str:
    """A number, or - for none."""
    return "-" if number is None else count_text(number)


def move(
    name: str, what: str, reset: Callable[[bool], dict[TopicPartition, OffsetMove]], *, dry_run: bool, is_agreed: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Show where a group would go on, and let it do so where that is agreed to; the exit code. `reset` is given
    whether it changes nothing.
    """
    changes = reset(True)
    if not changes:
        say(f"group {name} has {what} nothing: give --topic")
        return 1
    if as_json:
        for key, change in changes.items():
            print_line(json_line({"group": name, **key._asdict(), **change._asdict()}))
    else:
        print_table(COLUMNS, [(key.topic, str(key.partition), *map(number_text, one)) for key, one in changes.items()])
    if dry_run:
        say("nothing was changed: this was a dry run")
        return 0
    doing = f"letting group {name} go on there"
    if not is_agreed and not agreed(doing, doing.capitalize(), "yes"):
        return 1
    reset(False)
    say(f"group {name} goes on there")
    return 0


def forget(log: AnyLog, names: Iterable[str], *, as_json: bool) -> int:
    """Delete groups and tell of each; the exit code."""
    errors = log.admin.delete_groups(names)
    for name, error in errors.items():
        if error is None:
            tell(as_json, {"group": name, "deleted": True}, f"deleted group {name}")
        else:
            say(str(error))
    return 1 if any(errors.values()) else 0
