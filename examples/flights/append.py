"""Step 1: create a topic and append every flight to it, through a producer with zstd batches."""

import itertools
import os
import time

import pylog
from pylog.handles.views import TopicView

from .data import HEADERS, PARTITIONS, TOPIC, Source, read_flights
from .report import Report, bytes_text, expect

CHUNK = 4096
PRODUCER = {"compression_type": "zstd", "linger_ms": 200, "batch_size": 1 << 18}
DAY_MS = 86_400_000
TOPIC_CONFIG = {
    "segment.bytes": 1 << 20,
    # Kafka also begins a new segment when event time has moved on by segment.ms, a week unless told otherwise. This
    # file jumps through a whole year, and a segment for each week of it would only be small.
    "segment.ms": 366 * DAY_MS,
}


def append_flights(report: Report, log: pylog.Log, source: Source) -> None:
    """Append all flights and say how fast and how small."""
    total = len(source.lines)
    report.step(f"Append {total:,} flights")
    report.say(
        f"Topic {TOPIC!r} gets {PARTITIONS} partitions. Each line of the CSV becomes one record: the aircraft is the "
        "key, the line as JSON the value, the scheduled departure the timestamp. Batches are compressed with zstd, and "
        "each one is on the disk before it is acknowledged."
    )
    topic = log.create_topic(TOPIC, partitions=PARTITIONS, config=TOPIC_CONFIG)
    value_bytes = without_key = 0
    sending = 0.0
    futures = []
    began = time.perf_counter()
    with report.progress("appending flights", total) as advance, log.producer(**PRODUCER) as producer:
        flights = read_flights(source)
        while chunk := list(itertools.islice(flights, CHUNK)):
            value_bytes += sum(len(flight.value) for flight in chunk)
            without_key += sum(flight.key is None for flight in chunk)
            started = time.perf_counter()
            for value, key, timestamp_ms in chunk:
                futures.append(producer.send(TOPIC, value, key, timestamp_ms=timestamp_ms, headers=HEADERS))
            sending += time.perf_counter() - started
            advance(len(chunk))
        started = time.perf_counter()
        producer.flush()
        sending += time.perf_counter() - started
    whole = time.perf_counter() - began
    for future in futures:
        future.result()  # raises what went wrong with a record
    stored = sum(partition.next_offset - partition.start_offset for partition in topic)
    expect(stored == total, f"the CSV has {total:,} flights, the topic has {stored:,} records")
    expect(
        all(partition.durable_offset == partition.next_offset for partition in topic),
        "records were acknowledged that are not durable",
    )
    report.figure(
        "records a second", f"{total / sending:,.0f}  ({total / whole:,.0f} with reading the CSV and making JSON)"
    )
    _say_sizes(report, topic, source, value_bytes)
    report.figure("flights without aircraft", f"{without_key:,}: these records have no key")
    report.proved(f"all {total:,} records are acknowledged and durable")


def _say_sizes(report: Report, topic: TopicView, source: Source, value_bytes: int) -> None:
    total = len(source.lines)
    log_bytes = sum(partition.size for partition in topic)
    segments = [segment for partition in topic for segment in partition.segments]
    index_bytes = sum(
        os.path.getsize(os.path.join(partition.path, name))
        for partition in topic
        for name in os.listdir(partition.path)
        if name.endswith(("index",))
    )
    report.figure(
        "bytes a record",
        f"{log_bytes / total:.1f} on disk;  the CSV {source.csv_bytes / total:.1f}, as one zip file "
        f"{source.zip_bytes / total:.1f};  the JSON {value_bytes / total:.1f}",
    )
    report.figure(
        "on disk", f"{bytes_text(log_bytes)} in {len(segments)} segments, and {bytes_text(index_bytes)} of indexes"
    )
