"""The reading half of `pylog consume`: where it begins and stops, and which records are wanted.

Within a partition records come in the order of their offsets, from the start of its range up to its stop. What is
appended after the command began belongs to the next run, unless it follows.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass

import click

from pylog.cli.arguments import Moment, moment
from pylog.cli.output import check_reader, say
from pylog.cli.params import at_most_one
from pylog.client.consumer.consumer import Consumer
from pylog.errors import CorruptBatch, CorruptRecord, OffsetOutOfRange
from pylog.record import ConsumerRecord, TopicPartition
from pylog.runtime.clock import SystemClock

__all__ = ["Offset", "PrintedRecords", "ReadRange", "offset", "read"]

POLL_MS = 500
BATCH = 5000
FOREVER = 1 << 63

Offset = int | tuple[str, Moment]
"""An offset, minus how many of the last, or ("s", start) and ("e", end) by time."""


def offset(text: str) -> Offset:
    """`17`, `-10`, and as kcat has it `s@TIME`, `e@TIME`. Raises BadParameter."""
    if text[:2] in ("s@", "e@"):
        return text[0], moment(text[2:])
    try:
        return int(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no offset: give a number, -N for the last N, or s@TIME and e@TIME"
        ) from error


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Where reading begins and stops. None: at the ends that the partitions have now."""

    from_beginning: bool = False
    start: int | None = None
    since: Moment | None = None
    until: Moment | None = None
    until_offset: int | None = None

    @classmethod
    def of(
        cls, from_beginning: bool, offsets: tuple[Offset, ...], since: Moment | None, until: Moment | None,
        until_offset: int | None,
    ) -> "ReadRange":  # fmt: skip
        """The range that options say. Raises UsageError where they exclude each other."""
        starts = [one for one in offsets if isinstance(one, int)]
        by_time = [one for one in offsets if isinstance(one, tuple)]
        if len(offsets) > 2 or len(starts) > 1 or len({kind for kind, _ in by_time}) < len(by_time):
            raise click.UsageError("--offset: give one start, and one end")
        times = dict(by_time)
        start = starts[0] if starts else None
        at_most_one({"--from-beginning": from_beginning, "--offset N": start, "--offset s@": times.get("s"),
                     "--since": since})  # fmt: skip
        at_most_one({"--until-offset": until_offset, "--offset e@": times.get("e"), "--until": until})
        return cls(from_beginning, start, since or times.get("s"), until or times.get("e"), until_offset)

    @property
    def has_start(self) -> bool:
        """Whether it was said where reading begins."""
        return self.from_beginning or self.start is not None or self.since is not None

    def seek(self, consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
        """Let an assigned consumer begin there. Raises OffsetOutOfRange."""
        if self.from_beginning:
            consumer.seek_to_beginning(*ends)
            return
        if self.start is not None:
            starts = consumer.beginning_offsets(list(ends))
            found = {key: _at(key, self.start, starts[key], end) for key, end in ends.items()}
        else:
            found = _by_time(consumer, ends, self.since)
        for key, at in found.items():
            consumer.seek(key, at)

    def stops(self, consumer: Consumer, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset of each partition that is not read."""
        if self.until_offset is not None:
            return {key: min(end, self.until_offset) for key, end in ends.items()}
        return _by_time(consumer, ends, self.until)


def _by_time(consumer: Consumer, ends: dict[TopicPartition, int], at: Moment | None) -> dict[TopicPartition, int]:
    """The offsets of the first records of that time or later; the ends without such records, or without a time."""
    if at is None:
        return dict(ends)
    found = consumer.offsets_for_times(dict.fromkeys(ends, at.at(SystemClock())))
    return {key: min(end, one.offset) if (one := found.get(key)) is not None else end for key, end in ends.items()}


def _at(partition: TopicPartition, offset: int, start: int, end: int) -> int:
    if offset < 0:
        return max(start, end + offset)
    if not start <= offset <= end:
        raise OffsetOutOfRange(
            f"offset {offset} of {partition.topic}-{partition.partition} is not there: it has [{start}, {end}); "
            "give one of these, --from-beginning, or --partition for another partition"
        )
    return offset


@dataclass(frozen=True, slots=True)
class PrintedRecords:
    """The records to print, and their number. The pattern is looked for in values as UTF-8 text."""

    key: bytes | None
    pattern: re.Pattern[str] | None
    limit: int | None

    @property
    def is_any(self) -> bool:
        """Whether no filter was given."""
        return self.key is None and self.pattern is None

    def __call__(self, record: ConsumerRecord) -> bool:
        """True for a record with the key and the text that are asked for."""
        if self.key is not None and record.key != self.key:
            return False
        if self.pattern is None:
            return True
        # A byte that is no UTF-8 is a character of its own, the one that the command line has for it.
        text = (record.value or b"").decode("utf-8", "surrogateescape")
        return self.pattern.search(text) is not None

    def batch(self, found: int) -> int:
        """The number of records to ask for, where so many are found by now."""
        return BATCH if self.limit is None or not self.is_any else min(BATCH, self.limit - found)


def read(
    consumer: Consumer,
    stops: dict[TopicPartition, int] | None,
    wanted: PrintedRecords,
    *,
    commits: bool,
    skips: bool = False,
) -> Generator[list[ConsumerRecord]]:
    """The wanted records up to `stops` (None: for ever), as they come.

    `commits`: what was handed out is committed when the next records are asked for. Write and flush before you ask. A
    partition that gives nothing keeps the position at which the group has begun, which is committed, too (Kafka).
    `skips`: damaged records are said and left out. Raises CorruptBatch or CorruptRecord for them without it.
    """
    found, given = 0, set[TopicPartition]()
    while (wanted.limit is None or found < wanted.limit) and not _is_over(consumer, stops):
        try:
            records = consumer.poll(timeout_ms=POLL_MS, max_records=wanted.batch(found))
        except (CorruptBatch, CorruptRecord) as error:
            if not skips:
                raise
            say(f"skipped: {error}")
            consumer.skip()
            continue
        if not records:
            check_reader()
            continue
        most = None if wanted.limit is None else wanted.limit - found
        chosen, done = _choose(records, stops, wanted, most)
        found += len(chosen)
        yield chosen
        if commits:
            given |= {TopicPartition(record.topic, record.partition) for record in records}
            _commit(consumer, done, given)
    if commits:
        _commit(consumer, {}, given)


def _commit(consumer: Consumer, done: dict[TopicPartition, int], given: set[TopicPartition]) -> None:
    """Commit what is done, and the positions of partitions that are not `given`, which have given no record."""
    others = {key: consumer.position(key) for key in consumer.assignment() - given}
    given |= others.keys()
    if others or done:
        consumer.commit({**others, **done})


def _choose(
    records: list[ConsumerRecord], stops: dict[TopicPartition, int] | None, wanted: PrintedRecords, most: int | None
) -> tuple[list[ConsumerRecord], dict[TopicPartition, int]]:
    """The wanted records, and the offset of each partition behind the last one that was looked at."""
    chosen: list[ConsumerRecord] = []
    done: dict[TopicPartition, int] = {}
    is_any = wanted.is_any
    number, topic, stop, last = -1, "", FOREVER, -1
    for record in records:
        offset = record.offset
        if record.partition != number or record.topic != topic:
            if last >= 0:
                done[TopicPartition(topic, number)] = last + 1
            number, topic, last = record.partition, record.topic, -1
            stop = FOREVER if stops is None else stops.get(TopicPartition(topic, number), 0)
        if offset >= stop:
            continue
        last = offset
        if is_any or wanted(record):
            chosen.append(record)
            if len(chosen) == most:
                break
    if last >= 0:
        done[TopicPartition(topic, number)] = last + 1
    return chosen, done


def _is_over(consumer: Consumer, stops: dict[TopicPartition, int] | None) -> bool:
    """Whether each partition that the consumer has is read up to its stop; those that are, are read no further, as are
    partitions that a member of a group got and that came later.
    """
    if stops is None:
        return False
    assigned = consumer.assignment()
    paused = consumer.paused()
    done = [key for key in assigned - paused if consumer.position(key) >= stops.get(key, 0)]
    consumer.pause(*done)
    return bool(assigned) and len(paused) + len(done) == len(assigned)
