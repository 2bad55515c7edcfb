"""Step 3: read the topic back, from the start and from a point in time, and hold every record against the CSV.

Each value is turned back into its line of the CSV. The lines of the log and the lines of the file must agree in number
and in checksum; key, timestamp and header of each record must be those of its line. Within a partition, offsets must
be without a gap.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pylog
from pylog.client.consumer.consumer import Consumer

from .data import HEADERS, TOPIC, Checksum, Source, key_and_time_of, line_of
from .report import Advance, MismatchError, Report, expect

CHRISTMAS_EVE = datetime(2013, 12, 24, 5, tzinfo=UTC)  # midnight in New York


def replay_flights(report: Report, log: pylog.Log, source: Source) -> None:
    """Replay from the start and from Christmas Eve; compare."""
    report.step("Replay and reconcile")
    report.say(
        "A consumer reads the topic from the start. Each record is turned back into its line of the CSV; number and "
        "checksum of all lines must be those of the file."
    )
    expected = Checksum()
    for line in source.lines:
        expected.add(line)
    with log.consumer(TOPIC, auto_offset_reset="earliest", max_poll_records=5000) as consumer:
        times = _reconcile(report, consumer, source, expected)
        _replay_from(report, consumer, times, round(CHRISTMAS_EVE.timestamp() * 1000))


def _poll_to_end(consumer: Consumer, advance: Advance) -> Iterator[list[pylog.ConsumerRecord]]:
    """What `poll` gives, until every partition is at the end it had when this began."""
    ends = consumer.end_offsets(consumer.assignment())
    while any(consumer.position(key) < end for key, end in ends.items()):
        records = consumer.poll(timeout_ms=1000)
        expect(bool(records), "poll gave nothing although the ends are not reached")
        yield records
        advance(len(records))


def _reconcile(
    report: Report, consumer: Consumer, source: Source, expected: Checksum
) -> dict[tuple[str, int], list[int]]:
    """Compare all records with the CSV; gives the timestamps of each partition, in the order of their offsets."""
    found = Checksum()
    times: dict[tuple[str, int], list[int]] = {key: [] for key in consumer.assignment()}
    sent_with = key_and_time_of(source)
    reading = 0.0
    with report.progress("reading and comparing", len(source.lines)) as advance:
        started = time.perf_counter()
        for records in _poll_to_end(consumer, advance):
            reading += time.perf_counter() - started
            for record in records:
                seen = times[record.topic, record.partition]
                line = line_of(record.value or b"{}")
                found.add(line)
                _check(record, line, *sent_with(line), len(seen))
                seen.append(record.timestamp)
            started = time.perf_counter()
    report.figure("records a second", f"{found.count / reading:,.0f}  (polling alone; the comparison takes longer)")
    report.figure("the CSV", f"{expected.count:,} lines,   checksum {expected.text}")
    report.figure("the log", f"{found.count:,} records, checksum {found.text}")
    expect(found.count == expected.count, f"the CSV has {expected.count:,} lines, the log {found.count:,} records")
    expect(found.text == expected.text, "the checksum of the log is not that of the CSV")
    report.proved("every record is its line of the CSV, with the right key, timestamp and header")
    return times


def _check(record: pylog.ConsumerRecord, line: str, key: bytes | None, timestamp_ms: int, offset: int) -> None:
    """Raises MismatchError unless everything beside the value is as it was sent."""
    for what, found, sent in (
        ("offset", record.offset, offset),
        ("key", record.key, key),
        ("timestamp", record.timestamp, timestamp_ms),
        ("headers", record.headers, HEADERS),
    ):
        if found != sent:
            where = f"{record.topic}-{record.partition} offset {record.offset} ({line})"
            raise MismatchError(f"{where}: the {what} is {found!r}, not {sent!r}")


def _replay_from(report: Report, consumer: Consumer, times: dict[tuple[str, int], list[int]], since_ms: int) -> None:
    """Ask for the first record of a time or later in each partition, go there and read on."""
    report.say(
        f"Then from a point in time, {CHRISTMAS_EVE:%d %B %Y}: offsets_for_times gives the first record of each "
        "partition that is not older. The file lists its months as 1, 10, 11, 12, 2..., so older flights follow behind."
    )
    wanted = {key: next((n for n, at in enumerate(seen) if at >= since_ms), None) for key, seen in times.items()}
    answers = consumer.offsets_for_times(dict.fromkeys(consumer.assignment(), since_ms))
    for key, answer in answers.items():
        offset = None if answer is None else answer.offset
        expect(offset == wanted[key], f"{key.topic}-{key.partition}: found offset {offset}, not {wanted[key]}")
    total = 0
    for key, answer in answers.items():
        consumer.seek(key, answer.offset if answer is not None else len(times[key]))
        total += len(times[key]) - consumer.position(key)
    count = since = 0
    with report.progress("reading from there", total) as advance:
        for records in _poll_to_end(consumer, advance):
            count += len(records)
            since += sum(record.timestamp >= since_ms for record in records)
    expected = sum(at >= since_ms for seen in times.values() for at in seen)
    expect(count == total, f"{count:,} of {total:,} records came")
    expect(since == expected, f"{since:,} of the {expected:,} flights of that time or later came")
    offsets = ", ".join(str(answer.offset) if answer else "none" for _, answer in sorted(answers.items()))
    report.figure("begins at offsets", offsets)
    report.proved(f"{count:,} records from there on; among them all {since:,} flights of that day or later")
