"""`pylog topic offsets | dirs`: where things are: offsets by time, and partitions in directories. Both only look."""

import argparse

from pylog.cli.arguments import Parser, add_log, examples, moment, partitions_of, topic_partition
from pylog.cli.opening import looking
from pylog.cli.output import Column, count_text, json_line, print_line, print_table, say, size_text
from pylog.protocol.isolation import IsolationLevel
from pylog.runtime.clock import SystemClock

__all__ = ["add"]

ENDS = ("earliest", "latest", "max_timestamp")


def add(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Add the subcommands of `topic` that say where things are."""
    parser = verbs.add_parser(
        "offsets",
        help="the offsets of a topic at a time, or at an end",
        description="An offset of each partition: an end, or the first record, in offset order, not older than a time.",
        epilog=examples(("pylog topic offsets clicks", "pylog topic offsets clicks:0 --at 2h --json")),
    )
    parser.add_argument("name", type=topic_partition, metavar="NAME[:P]", help="the topic, or one partition of it")
    parser.add_argument(
        "--at", default="latest", metavar="WHEN", help=f"{', '.join(ENDS)}, 2h (ago) or ISO 8601 (default: latest)"
    )
    parser.add_argument(
        "--read-committed", action="store_true", help="the end that readers of committed records see, for latest"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line and partition")
    add_log(parser)
    parser.set_defaults(run=offsets, parser=parser)
    parser = verbs.add_parser(
        "dirs",
        help="the log's directories and what lies in them",
        description="The log directories, and how many bytes of records each partition has there.",
        epilog=examples(("pylog topic dirs --log disk1,disk2",)),
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line and directory")
    add_log(parser)
    parser.set_defaults(run=dirs, parser=parser)


def offsets(args: argparse.Namespace) -> int:
    """Run `topic offsets`."""
    try:
        spec = args.at if args.at in ENDS else moment(args.at).at(SystemClock())
    except argparse.ArgumentTypeError as error:
        args.parser.error(f"--at: {error}")
    isolation: IsolationLevel = "read_committed" if args.read_committed else "read_uncommitted"
    with looking(args) as log:
        keys = partitions_of(log, *args.name)
        found = log.admin.list_offsets(dict.fromkeys(keys, spec), isolation_level=isolation)
    if args.json:
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


def dirs(args: argparse.Namespace) -> int:
    """Run `topic dirs`."""
    with looking(args) as log:
        found = log.admin.describe_log_dirs()
    if args.json:
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
