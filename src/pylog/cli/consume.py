"""`pylog consume TOPIC...`: records come out, as lines.

Where it starts: at the end unless told (`--from-beginning`, `--offset`, `--since`). Where it stops: at the ends that
the partitions had when it began, so a script gets an answer; with `--follow` never, with `--max-records` after so
many.

Only looks: nothing is locked or committed, so any number of these run beside an owner. Within a partition records
come in the order of their offsets; across partitions there is no order, as in Kafka.
"""

import sys
from collections.abc import Sequence
from typing import Any

import click

from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.arguments import Moment, count, moment, natural
from pylog.cli.opening import looking
from pylog.cli.output import check_reader, is_terminal, say, write
from pylog.cli.params import argument, at_most_one, option
from pylog.cli.place import Place
from pylog.cli.template import Renderer, renderer
from pylog.client.consumer.consumer import Consumer
from pylog.client_half import ClientHalf
from pylog.errors import OffsetOutOfRange, UnknownTopicOrPartition
from pylog.protocol.isolation import IsolationLevel
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock

__all__ = ["command"]

POLL_MS = 500
BATCH = 5000


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
        raise click.BadParameter(f"{text!r} is no offset: give a number, or -N for the last N") from error


@commands.command(
    "consume",
    short_help="print records",
    examples=(
        "pylog consume clicks --from-beginning",
        "pylog consume clicks --bootstrap 127.0.0.1:9092 --follow",
        "pylog consume clicks --offset -10                       # the last 10 of each partition",
        "pylog consume clicks --since 10m --follow --format json | jq .value",
        "pylog consume clicks --from-beginning --format '{partition}:{offset} {timestamp:%H:%M:%S} {key}'",
    ),
    notes=FORMATS,
)
@argument("topics", "TOPIC...", "the topics", nargs=-1, required=True, shell_complete=complete.topics)
@option("--from-beginning", "-b", is_flag=True, help="start with the first record there is")
@option("--offset", "-o", type=_offset, metavar="N", help="start at offset N, or -N: the last N of each partition")
@option(
    "--since", "-s", type=moment, metavar="TIME",
    help="start with the first record of that time or later: 10m or 2h ago, ISO 8601 (UTC), or ms since 1970",
)  # fmt: skip
@option("--partition", "-p", type=natural, metavar="N", help="this partition alone")
@option("--max-records", "-n", type=count, metavar="N", help="stop after N records")
@option("--follow", "-f", is_flag=True, help="wait for more records instead of stopping at the end")
@option(
    "--isolation-level", "isolation", type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    help="read_committed leaves out open and aborted transactions (default: read_uncommitted)",
)  # fmt: skip
@option(
    "--format", "render", default="raw", metavar="FORMAT", type=renderer,
    help="raw, json, or a template, see below (default: raw)",
)  # fmt: skip
def command(
    place: Place, topics: tuple[str, ...], from_beginning: bool, offset: int | None, since: Moment | None,
    partition: int | None, max_records: int | None, follow: bool, isolation: IsolationLevel, render: Renderer,
) -> int:  # fmt: skip
    """Print records, from the end unless told otherwise.

    Without --follow it stops at the ends that the partitions had when it started; so say --from-beginning, --offset
    or --since, or --follow, or both.
    """
    at_most_one({"--from-beginning": from_beginning, "--offset": offset, "--since": since})
    with looking(place) as log:
        chosen = _chosen(log, topics, partition)
        # "none": an offset that is not there any more (an owner's retention) is an error, never a silent jump.
        with log.consumer(auto_offset_reset="none", isolation_level=isolation) as consumer:
            consumer.assign(chosen)
            ends = consumer.end_offsets(chosen)
            if not _start(consumer, ends, from_beginning, offset, since) and not follow:
                say(
                    "this starts and stops at the end: give --from-beginning, --offset or --since, or --follow to wait "
                    "for more"
                )
            if follow:
                _follow(consumer, render, max_records)
            else:
                _drain(consumer, render, max_records, ends)
    return 0


def _chosen(log: ClientHalf[Any], topics: Sequence[str], partition: int | None) -> list[TopicPartition]:
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
    consumer: Consumer, ends: dict[TopicPartition, int], from_beginning: bool, offset: int | None, since: Moment | None
) -> bool:
    """Go where reading begins; False: at the ends, as nothing was said."""
    if from_beginning:
        consumer.seek_to_beginning(*ends)
    elif since is not None:
        found = consumer.offsets_for_times(dict.fromkeys(ends, since.at(SystemClock())))
        for partition, end in ends.items():
            at = found.get(partition)
            consumer.seek(partition, end if at is None else at.offset)
    elif offset is not None:
        starts = consumer.beginning_offsets(list(ends))
        for partition, end in ends.items():
            consumer.seek(partition, _seek(partition, offset, starts[partition], end))
    else:
        for partition, end in ends.items():
            consumer.seek(partition, end)
        return False
    return True


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
