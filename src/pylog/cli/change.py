"""`pylog topic alter | trim | clean | move | delete`: what changes a topic that is there. All own the directory.

`trim` and `delete` take records away for good: they ask on a terminal, and want --yes elsewhere.
"""

import argparse
from typing import Any

import pylog
from pylog.cli.arguments import (
    Parser,
    add_log,
    bootstrap,
    config_pair,
    count,
    examples,
    log_paths,
    natural,
    topic_options,
)
from pylog.cli.opening import changing, looking, owned
from pylog.cli.output import agreed, count_text, plural, print_line, say, size_text
from pylog.client_half import ClientHalf
from pylog.errors import NotLocal

__all__ = ["add"]


def add(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Add the subcommands of `topic` that change one."""
    _add_alter(verbs)
    _add_trim(verbs)
    _add_clean(verbs)
    _add_move(verbs)
    _add_delete(verbs)


def _add_alter(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "alter",
        help="change configs, add partitions",
        description="Set configs of a topic, take them back to their defaults, add partitions.",
        epilog=examples((
            "pylog topic alter clicks --config retention.ms=604800000 --delete-config segment.bytes",
            "pylog topic alter clicks --partitions 12",
        )),
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", help="the topic")
    parser.add_argument(
        "--config", "-c", type=config_pair, action="append", default=[], metavar="NAME=VALUE",
        help="set a config; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--delete-config", action="append", default=[], metavar="NAME", help="back to its default; may be repeated"
    )
    parser.add_argument(
        "--partitions", "-p", type=count, metavar="N", help="how many in all; keys go to other partitions then"
    )
    add_log(parser)
    parser.set_defaults(run=alter, parser=parser)


def _add_trim(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "trim",
        help="delete the records of a partition before an offset",
        description="Let a partition start at an offset; what lies before it is gone for good.",
        epilog=examples((
            "pylog topic trim clicks --partition 0 --before-offset 1000 --yes",
            "pylog topic trim clicks --partition 0",
        )),
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", help="the topic")
    parser.add_argument("--partition", type=natural, required=True, metavar="P", help="the partition")
    parser.add_argument("--before-offset", type=natural, metavar="O", help="the new start (default: the end)")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_log(parser)
    parser.set_defaults(run=trim, parser=parser)


def _add_clean(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "clean",
        help="apply retention and compaction now",
        description="Drop the segments that no topic has to keep, and compact the topics that are compacted.",
        epilog=examples(("pylog topic clean", "pylog topic clean users")),
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="compact this topic alone (default: all)")
    add_log(parser)
    parser.set_defaults(run=clean, parser=parser)


def _add_move(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "move",
        help="move a partition into another log directory",
        description="Copy a partition into another directory of the log, and remove it where it lies now.",
        epilog=examples(("pylog topic move clicks --partition 0 --to /disk2/log --log /disk1/log,/disk2/log",)),
    )
    parser.add_argument("name", metavar="NAME", help="the topic")
    parser.add_argument("--partition", type=natural, required=True, metavar="P", help="the partition")
    parser.add_argument("--to", required=True, metavar="PATH", help="one of the log's directories")
    add_log(parser)
    parser.set_defaults(run=move, parser=parser)


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


def alter(args: argparse.Namespace) -> int:
    """Run `topic alter`."""
    if not (args.config or args.delete_config or args.partitions):
        args.parser.error("nothing to change: give --config, --delete-config or --partitions")
    with changing(args) as log:
        if args.config or args.delete_config:
            log.alter_config(args.name, topic_options(args), delete=args.delete_config)
            changed = [f"{name}={value}" for name, value in args.config]
            changed += [f"{name} back to its default" for name in args.delete_config]
            print_line(f"altered topic {args.name}: {', '.join(changed)}")
        if args.partitions:
            log.create_partitions(args.name, args.partitions)
            print_line(f"topic {args.name} has {plural(args.partitions, 'partition')} now")
    return 0


def trim(args: argparse.Namespace) -> int:
    """Run `topic trim`."""
    key = pylog.TopicPartition(args.name, args.partition)
    with looking(args) as log:
        partition = _partition(log, key)
        upto = partition.high_watermark if args.before_offset is None else args.before_offset
        lost = max(0, min(upto, partition.next_offset) - partition.start_offset)
    what = f"{plural(lost, 'record')} of {args.name}-{args.partition} before offset {count_text(upto)}"
    if not args.yes and not agreed(f"deleting {what}", f"Delete {what}", "yes"):
        return 1
    with changing(args) as log:
        start = log.delete_records({key: upto})[key]
    print_line(f"{args.name}-{args.partition} starts at offset {count_text(start)} now")
    return 0


def _partition(log: ClientHalf[Any], key: pylog.TopicPartition) -> Any:
    topic = log.topic(key.topic)
    try:
        return topic[key.partition]
    except IndexError as error:
        raise ValueError(str(error)) from None


def clean(args: argparse.Namespace) -> int:
    """Run `topic clean`."""
    if bootstrap(args) is not None:
        raise NotLocal("cleaning needs the files of the log: give --log, where they lie and no server runs")
    with owned(log_paths(args)) as log:
        dropped = {} if args.name is not None else log.apply_retention()
        cleaned = log.clean(args.name)
    for key, number in sorted(dropped.items()):
        print_line(f"{key.topic}-{key.partition}: dropped {plural(number, 'segment')}")
    for key, done in sorted(cleaned.items()):
        print_line(
            f"{key.topic}-{key.partition}: kept {plural(done.records_kept, 'record')} of "
            f"{count_text(done.records_read)}, {size_text(done.bytes_kept)} of {size_text(done.bytes_read)}"
        )
    if not dropped and not cleaned:
        say("there was nothing to clean")
    return 0


def move(args: argparse.Namespace) -> int:
    """Run `topic move`."""
    with changing(args) as log:
        log.move_partition(args.name, args.partition, args.to)
        print_line(f"{args.name}-{args.partition} lies in {args.to} now")
    return 0


def delete(args: argparse.Namespace) -> int:
    """Run `topic delete`."""
    with looking(args) as log:
        facts = _facts(log, args.name)
    if not args.yes and not agreed(f"deleting {args.name} ({facts})", f"Delete topic {args.name} ({facts})", args.name):
        return 1
    with changing(args) as log:
        log.delete_topic(args.name)
    print_line(f"deleted topic {args.name}")
    return 0


def _facts(log: ClientHalf[Any], name: str) -> str:
    topic = log.topic(name)
    records = sum(partition.next_offset - partition.start_offset for partition in topic)
    size = sum(partition.size for partition in topic)
    return f"{plural(len(topic), 'partition')}, {plural(records, 'record')}, {size_text(size)}"
