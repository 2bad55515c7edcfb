"""`pylog consume TOPIC...`: records come out, as lines.

Where it starts: at the end unless told (`--from-beginning`, `--offset`, `--since`). Where it stops: at the ends that
the partitions had when it began, so a script gets an answer; with `--follow` never, with `--max-records` after so
many.

Only looks: nothing is locked or committed, so any number of these run beside an owner. Within a partition records
come in the order of their offsets; across partitions there is no order, as in Kafka.
"""

import argparse
import sys
from typing import Any

from pylog.cli.arguments import Parser, add_log, count, examples, moment, natural
from pylog.cli.opening import looking
from pylog.cli.output import check_reader, is_terminal, say, write
from pylog.cli.template import Renderer, renderer
from pylog.client.consumer.consumer import Consumer
from pylog.client_half import ClientHalf
from pylog.errors import OffsetOutOfRange, UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock

__all__ = ["add"]

POLL_MS = 500
BATCH = 5000


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `consume`."""
    parser = commands.add_parser(
        "consume",
        help="print records",
        description=(
            "Print records, from the end unless told otherwise. Without --follow it stops at the ends that the\n"
            "partitions had when it started; so say --from-beginning, --offset or --since, or --follow, or both."
        ),
        epilog=examples((
            "pylog consume clicks --from-beginning",
            "pylog consume clicks --bootstrap 127.0.0.1:9092 --follow",
            "pylog consume clicks --offset -10                       # the last 10 of each partition",
            "pylog consume clicks --since 10m --follow --format json | jq .value",
            "pylog consume clicks --from-beginning --format '{partition}:{offset} {timestamp:%H:%M:%S} {key}'",
        )) + "\n\n" + FORMATS,
    )  # fmt: skip
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the topics")
    _add_range(parser)
    parser.add_argument(
        "--isolation-level", choices=("read_uncommitted", "read_committed"), default="read_uncommitted",
        help="read_committed leaves out open and aborted transactions (default: read_uncommitted)",
    )  # fmt: skip
    parser.add_argument(
        "--format",
        default="raw",
        metavar="FORMAT",
        type=renderer,
        help="raw, json, or a template, see below (default: raw)",
    )
    add_log(parser)
    parser.set_defaults(run=run, parser=parser)


def _add_range(parser: Parser) -> None:
    """Add the options that say where reading begins and ends."""
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--from-beginning", "-b", action="store_true", help="start with the first record there is")
    start.add_argument(
        "--offset", "-o", type=_offset, metavar="N", help="start at offset N, or -N: the last N of each partition"
    )
    start.add_argument(
        "--since", "-s", type=moment, metavar="TIME",
        help="start with the first record of that time or later: 10m or 2h ago, ISO 8601 (UTC), or ms since 1970",
    )  # fmt: skip
    parser.add_argument("--partition", "-p", type=natural, metavar="N", help="this partition alone")
    parser.add_argument("--max-records", "-n", type=count, metavar="N", help="stop after N records")
    parser.add_argument(
        "--follow", "-f", action="store_true", help="wait for more records instead of stopping at the end"
    )


FORMATS = """formats:
  raw        the value as it is, and a line feed
  json       one object a line: topic, partition, offset, timestamp (ms), key, value, headers; bytes are strings
             where they are UTF-8, else {"base64": "..."}; null stays null
  template   text with {topic} {partition} {offset} {timestamp} {key} {value} {headers}; \\n and \\t are understood,
             {offset:>8} pads and {timestamp:%Y-%m-%d %H:%M} shows UTC; null is empty"""


def _offset(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no offset: give a number, or -N for the last N") from error


def run(args: argparse.Namespace) -> int:
    """Run `consume`."""
    with looking(args) as log:
        chosen = _chosen(log, args.topics, args.partition)
        # "none": an offset that is not there any more (an owner's retention) is an error, never a silent jump.
        with log.consumer(auto_offset_reset="none", isolation_level=args.isolation_level) as consumer:
            consumer.assign(chosen)
            ends = consumer.end_offsets(chosen)
            _start(args, consumer, chosen, ends)
            if args.follow:
                _follow(consumer, args.format, args.max_records)
            else:
                _drain(consumer, args.format, args.max_records, ends)
    return 0


def _chosen(log: ClientHalf[Any], topics: list[str], partition: int | None) -> list[TopicPartition]:
    known = log.topics(internal=True)
    chosen = []
    for name in dict.fromkeys(topics):
        if name not in known:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}: `pylog topic list` shows those there are")
        partitions = len(log.topic(name))
        if partition is not None and partition >= partitions:
            raise UnknownTopicOrPartition(
                f"topic {name!r} has no partition {partition}: it has {partitions}, from 0 on"
            )
        numbers = range(partitions) if partition is None else (partition,)
        chosen += [TopicPartition(name, number) for number in numbers]
    return chosen


def _start(
    args: argparse.Namespace, consumer: Consumer, chosen: list[TopicPartition], ends: dict[TopicPartition, int]
) -> None:
    if args.from_beginning:
        consumer.seek_to_beginning(*chosen)
        return
    if args.since is not None:
        since = args.since.at(SystemClock())
        found = consumer.offsets_for_times(dict.fromkeys(chosen, since))
        for partition in chosen:
            at = found.get(partition)
            consumer.seek(partition, ends[partition] if at is None else at.offset)
        return
    if args.offset is not None:
        starts = consumer.beginning_offsets(chosen)
        for partition in chosen:
            consumer.seek(partition, _seek(partition, args.offset, starts[partition], ends[partition]))
        return
    for partition in chosen:
        consumer.seek(partition, ends[partition])
    if not args.follow:
        say(
            "this starts and stops at the end: give --from-beginning, --offset or --since, or --follow to wait for more"
        )


def _seek(partition: TopicPartition, offset: int, start: int, end: int) -> int:
    if offset < 0:
        return max(start, end + offset)
    if not start <= offset <= end:
        raise OffsetOutOfRange(
            f"offset {offset} of {partition.topic}-{partition.partition} is not there: it has [{start}, {end}); "
            "give one of these, --from-beginning, or --partition for another partition"
        )
    return offset


def _follow(consumer: Consumer, render: Renderer, limit: int | None) -> None:
    printed = 0
    while limit is None or printed < limit:
        records = consumer.poll(timeout_ms=POLL_MS, max_records=_allowed(limit, printed))
        if records:
            write(b"".join(map(render, records)), flush=True)
            printed += len(records)
        else:
            check_reader()


def _drain(consumer: Consumer, render: Renderer, limit: int | None, ends: dict[TopicPartition, int]) -> None:
    """Print up to `ends`. What is appended meanwhile belongs to the next run."""
    left = {partition: end for partition, end in ends.items() if consumer.position(partition) < end}
    consumer.pause(*(partition for partition in ends if partition not in left))
    flush = is_terminal(sys.stdout)
    printed = 0
    while left and (limit is None or printed < limit):
        records = consumer.poll(timeout_ms=POLL_MS, max_records=_allowed(limit, printed))
        wanted = [record for record in records if record.offset < ends[TopicPartition(record.topic, record.partition)]]
        write(b"".join(map(render, wanted)), flush=flush)
        printed += len(wanted)
        done = [partition for partition, end in left.items() if consumer.position(partition) >= end]
        for partition in done:
            del left[partition]
        if done:
            consumer.pause(*done)


def _allowed(limit: int | None, printed: int) -> int:
    return BATCH if limit is None else min(BATCH, limit - printed)
