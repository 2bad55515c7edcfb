"""Step 5: a server in this process serves the topic, and confluent-kafka, another client, reads all of it."""

import time

import confluent_kafka

import pylog

from .data import TOPIC, Checksum, Source, line_of
from .report import Report, expect

BATCH = 10_000
WAIT_SECONDS = 10.0


def serve_flights(report: Report, log: pylog.Log, source: Source) -> None:
    """Read the topic through the wire, and compare number and checksum with the CSV."""
    report.step("Serve it to a Kafka client")
    report.say(
        "A server listens on a free port of this machine and speaks Kafka's protocol. confluent-kafka, which knows "
        "nothing of pylog, reads the topic from it."
    )
    with log.serve() as server:
        values, seconds = _read(report, server.bootstrap_servers, len(source.lines))
        requests = server.counts.requests
    expected, found = Checksum(), Checksum()
    for line in source.lines:
        expected.add(line)
    for value in values:
        found.add(line_of(value))
    report.figure("records a second", f"{len(values) / seconds:,.0f}, in {requests:,} requests")
    report.figure("the client's records", f"{found.count:,}, checksum {found.text}")
    expect(found.text == expected.text, "what confluent-kafka read is not what the CSV says")
    report.proved("the client has every line of the CSV, and no other")


def _read(report: Report, servers: str, count: int) -> tuple[list[bytes], float]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "demo", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    values: list[bytes] = []
    try:
        consumer.subscribe([TOPIC])
        with report.progress("reading through the wire", count) as advance:
            began = time.perf_counter()
            while len(values) < count:
                messages = consumer.consume(BATCH, WAIT_SECONDS if not values else 1.0)
                for message in messages:
                    error, value = message.error(), message.value()
                    expect(error is None, f"confluent-kafka met {error}")
                    values.append(value or b"")
                expect(time.perf_counter() - began < 60, f"the client has {len(values):,} records after a minute")
                advance(len(messages))
            seconds = time.perf_counter() - began
    finally:
        consumer.close()
    return values, seconds
