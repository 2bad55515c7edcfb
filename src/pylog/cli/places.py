"""`pylog topic offsets | dirs`: where things are: offsets by time, and partitions in directories. Both only look."""

from typing import Literal, get_args

from pylog.cli import completion as complete
from pylog.cli.arguments import Moment, moment, partitions_of, topic_partition
from pylog.cli.commands import command
from pylog.cli.opening import looking
from pylog.cli.output import Column, print_line, print_table, say
from pylog.cli.params import argument, json_option, option
from pylog.cli.place import LogPlace
from pylog.protocol.isolation import IsolationLevel
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, size_text

__all__ = ["dirs", "offsets"]

End = Literal["earliest", "latest", "max_timestamp"]
ENDS: tuple[End, ...] = get_args(End)


def _when(text: str) -> End | Moment:
    return next((end for end in ENDS if end == text), None) or moment(text)


@command(
    "offsets",
    short_help="the offsets of a topic at a time, or at an end",
    examples=("pylog topic offsets clicks", "pylog topic offsets clicks:0 --at 2h --json"),
)
@argument("what", "NAME[:P]", "the topic, or one partition of it", type=topic_partition, shell_complete=complete.topics)
@option(
    "--at", type=_when, default="latest", metavar="WHEN",
    help=f"{', '.join(ENDS)}, 2h (ago) or ISO 8601 (default: latest)",
)  # fmt: skip
@option("--read-committed", is_flag=True, help="the end that readers of committed records see, for latest")
@json_option
def offsets(
    place: LogPlace, what: tuple[str, int | None], at: End | Moment, read_committed: bool, as_json: bool
) -> int:
    """An offset of each partition: an end, or the first record, in offset order, not older than a time."""
    spec = at.at(SystemClock()) if isinstance(at, Moment) else at
    isolation: IsolationLevel = "read_committed" if read_committed else "read_uncommitted"
    with looking(place) as log:
        keys = partitions_of(log, *what)
        found = log.admin.list_offsets(dict.fromkeys(keys, spec), isolation_level=isolation)
    if as_json:
        for key, part in found.items():
            facts = {"offset": part.offset, "timestamp": part.timestamp, "leader_epoch": part.leader_epoch}
            print_line(json_line({**key._asdict(), **facts}))
        return 0
    columns = (Column("topic"), Column("partition", True), Column("offset", True), Column("timestamp", True))
    rows = [
        (key.topic, str(key.partition), *("-" if number < 0 else text(number) for number, text in facts))
        for key, part in found.items()
        for facts in [((part.offset, count_text), (part.timestamp, str))]
    ]
    print_table(columns, rows)
    return 0


@command(
    "dirs", short_help="the log's directories and what lies in them", examples=("pylog topic dirs --log disk1,disk2",)
)
@json_option
def dirs(place: LogPlace, as_json: bool) -> int:
    """The log directories, and how many bytes of records each partition has there."""
    with looking(place) as log:
        found = log.admin.describe_log_dirs()
    if as_json:
        for one in found:
            parts = [{**key._asdict(), "bytes": size} for key, size in sorted(one.partitions.items())]
            print_line(json_line({"path": one.path, "partitions": parts}))
        return 0
    rows = [
        (one.path, f"{key.topic}-{key.partition}", size_text(size))
        for one in found
        for key, size in sorted(one.partitions.items())
    ]
    if rows:
        print_table((Column("directory"), Column("partition"), Column("bytes", True)), rows)
    else:
        say("nothing lies there yet")
    return 0
