"""`pylog topic create | list | describe | delete`: the catalogue of a log.

`create` and `delete` own the directory while they run; `list` and `describe` only look, and work beside an owner.
What `describe` shows of a partition are half-open ends: start is the first offset there is, end, durable and high
watermark the first there is not.
"""

import argparse
import sys

import pylog
from pylog.cli.arguments import Parser, add_log, config_pair, count, examples, log_path
from pylog.cli.output import (
    Column,
    count_text,
    duration_text,
    is_terminal,
    json_line,
    plural,
    print_line,
    print_table,
    say,
    size_text,
)
from pylog.log import Log
from pylog.views import TopicView

__all__ = ["add"]

MAKE_ONE = "make one with `pylog topic create NAME`"
ALWAYS_SHOWN = (
    "cleanup.policy",
    "compression.type",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "max.message.bytes",
)
PARTITION_COLUMNS = (
    Column("partition", True), Column("start", True), Column("end", True), Column("durable", True),
    Column("high watermark", True), Column("records", True), Column("size", True), Column("segments", True),
)  # fmt: skip


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `topic` and its subcommands."""
    group = commands.add_parser(
        "topic", help="create, list, describe and delete topics", description="The topics of a log."
    )
    add_log(group)
    verbs = group.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    _add_create(verbs)
    _add_list(verbs)
    _add_describe(verbs)
    _add_delete(verbs)


def _add_create(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "create",
        help="make a topic, and the log's directory where there is none",
        description="Make a topic. The log's directory is made if it does not exist.",
        epilog=examples((
            "pylog topic create clicks --log data",
            "pylog topic create flights --partitions 6 --config compression.type=zstd --config retention.ms=604800000",
        )),
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", help="1 to 249 characters of a-z A-Z 0-9 . _ -")
    parser.add_argument("--partitions", "-p", type=count, default=1, metavar="N", help="how many (default: 1)")
    parser.add_argument(
        "--config", "-c", type=config_pair, action="append", default=[], metavar="NAME=VALUE",
        help="a topic config by its Kafka name; may be repeated",
    )  # fmt: skip
    add_log(parser)
    parser.set_defaults(run=create, parser=parser)


def _add_list(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "list", help="the names of all topics", description="The names of all topics, one a line."
    )
    parser.add_argument("--internal", action="store_true", help="also Kafka's own topics, whose names begin with __")
    add_log(parser)
    parser.set_defaults(run=list_names, parser=parser)


def _add_describe(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "describe",
        help="configs and partitions of a topic, or of all",
        description="Configs, and per partition offsets, size, segments. An end is the first offset not there.",
        epilog=examples(("pylog topic describe flights", "pylog topic describe --json | jq .partitions[].end")),
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the topic (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line and topic, with all configs")
    add_log(parser)
    parser.set_defaults(run=describe, parser=parser)


def _add_delete(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "delete",
        help="remove a topic and all its records",
        description="Remove a topic and all its records, for good. Asks on a terminal; elsewhere --yes must be given.",
        epilog=examples(("pylog topic delete clicks --yes",)),
    )
    parser.add_argument("name", metavar="NAME", help="the topic")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_log(parser)
    parser.set_defaults(run=delete, parser=parser)


# --- running --------------------------------------------------------------------------------------------------------


def create(args: argparse.Namespace) -> int:
    """Run `topic create`."""
    with pylog.open(log_path(args), mode="own") as log:
        topic = log.create_topic(args.name, partitions=args.partitions, config=dict(args.config))
        print_line(f"created topic {topic.name} with {plural(len(topic), 'partition')}")
    return 0


def list_names(args: argparse.Namespace) -> int:
    """Run `topic list`."""
    with pylog.open(log_path(args), mode="read") as log:
        names = log.topics(internal=args.internal)
        for name in names:
            print_line(name)
        if not names:
            say(f"there are no topics in {log.path}: {MAKE_ONE}")
    return 0


def describe(args: argparse.Namespace) -> int:
    """Run `topic describe`."""
    with pylog.open(log_path(args), mode="read") as log:
        names = [args.name] if args.name is not None else log.topics()
        for number, name in enumerate(names):
            topic = log.topic(name)
            if args.json:
                print_line(json_line(_as_json(topic)))
                continue
            if number > 0:
                print_line("")
            _print_topic(topic)
        if not names:
            say(f"there are no topics in {log.path}: {MAKE_ONE}")
    return 0


def delete(args: argparse.Namespace) -> int:
    """Run `topic delete`."""
    path = log_path(args)
    with pylog.open(path, mode="read") as log:
        _confirmed_facts = _facts(log, args.name)
    if not args.yes and not _agreed(args.name, _confirmed_facts):
        return 1
    with pylog.open(path, mode="own") as log:
        log.delete_topic(args.name)
    print_line(f"deleted topic {args.name}")
    return 0


def _facts(log: Log, name: str) -> str:
    topic = log.topic(name)
    records = sum(partition.next_offset - partition.start_offset for partition in topic)
    size = sum(partition.size for partition in topic)
    return f"{plural(len(topic), 'partition')}, {plural(records, 'record')}, {size_text(size)}"


def _agreed(name: str, facts: str) -> bool:
    if not is_terminal(sys.stdin):
        say(f"deleting {name} ({facts}) cannot be undone: give --yes if that is what you want")
        return False
    print(
        f"Delete topic {name} ({facts})? This cannot be undone. Type its name to go on: ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip() == name:
        return True
    say("nothing was deleted")
    return False


# --- showing --------------------------------------------------------------------------------------------------------


def _as_json(topic: TopicView) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": str(topic.id),
        "overrides": dict(topic.overrides),
        "configs": topic.config.to_kafka(),
        "partitions": [
            {
                "partition": partition.partition,
                "start": partition.start_offset,
                "end": partition.next_offset,
                "durable": partition.durable_offset,
                "high_watermark": partition.high_watermark,
                "size": partition.size,
                "segments": [
                    {
                        "base": segment.base_offset,
                        "next": segment.next_offset,
                        "size": segment.size,
                        "path": segment.path,
                    }
                    for segment in partition.segments
                ],
            }
            for partition in topic
        ],
    }


def _print_topic(topic: TopicView) -> None:
    rows = []
    records = size = 0
    for partition in topic:
        there = partition.next_offset - partition.start_offset
        records += there
        size += partition.size
        rows.append((
            str(partition.partition), count_text(partition.start_offset), count_text(partition.next_offset),
            count_text(partition.durable_offset), count_text(partition.high_watermark), count_text(there),
            size_text(partition.size), count_text(len(partition.segments)),
        ))  # fmt: skip
    print_line(f"topic {topic.name}: {plural(len(topic), 'partition')}, {plural(records, 'record')}, {size_text(size)}")
    print_line(f"  id {topic.id}")
    configs = topic.config.to_kafka()
    names = [name for name in ALWAYS_SHOWN if name in configs]
    names += sorted(name for name in topic.overrides if name not in names)
    width = max(len(name) for name in names)
    for name in names:
        value = configs.get(name, topic.overrides.get(name, ""))
        origin = "set" if name in topic.overrides else "default"
        print_line(f"  {name.ljust(width)}  {value}{_for_people(name, value)}  ({origin})")
    print_table(PARTITION_COLUMNS, rows, indent=2)


def _for_people(name: str, value: str) -> str:
    """What a raw config value amounts to, where that helps."""
    if not value.lstrip("-").isdigit():
        return ""
    number = int(value)
    if number < 0:
        return " = no limit" if name.startswith("retention.") else ""
    if number > 2**62:
        return " = for ever"
    if name.endswith(".ms") and number >= 1000:
        return f" = {duration_text(number)}"
    if name.endswith(".bytes") and number >= 1024:
        return f" = {size_text(number)}"
    return ""
