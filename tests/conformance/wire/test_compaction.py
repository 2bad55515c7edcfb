"""Compaction and retention, as consumers see them."""

from conformance.wire.conftest import Opened, Topics
from support.clients.values import Received, Sent, until

COMPACTED = {
    "cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "100", "delete_retention_ms": "100",
}  # fmt: skip
T0 = 1_700_000_000_000


def everything(client: Opened, topic: str) -> list[Received]:
    """All records of partition 0, read to the end."""
    consumer = client.consumer()
    low, high = consumer.watermarks((topic, 0))
    consumer.assign({(topic, 0): low})
    found: list[Received] = []
    until(lambda: found.extend(consumer.poll()) or (found and found[-1].offset == high - 1))
    consumer.close()
    return found


def test_compaction_keeps_the_last_value_of_each_key(client: Opened, topics: Topics) -> None:
    topic = topics.create(**COMPACTED)
    producer = client.producer()
    for turn in range(3):
        producer.send(topic, [Sent(b"%d of %d" % (turn, key), key=b"k%d" % key) for key in range(10)])
    producer.send(topic, [Sent(None, key=b"k0")])

    def compacted() -> dict[bytes | None, bytes | None] | None:
        producer.send(topic, [Sent(b"rolls", key=b"last")])  # the active segment is not cleaned, and it rolls here
        found = [record for record in everything(client, topic) if record.key != b"last"]
        values = {record.key: record.value for record in found}
        return values if len(found) == 9 else None

    assert until(compacted) == {b"k%d" % key: b"2 of %d" % key for key in range(1, 10)}


def test_compaction_keeps_offsets_and_order(client: Opened, topics: Topics) -> None:
    topic = topics.create(**COMPACTED)
    producer = client.producer()
    producer.send(topic, [Sent(b"%d" % number, key=b"k%d" % (number % 4)) for number in range(20)])

    def compacted() -> list[tuple[int, bytes | None]] | None:
        producer.send(topic, [Sent(b"rolls", key=b"last")])
        found = [(record.offset, record.value) for record in everything(client, topic) if record.key != b"last"]
        return found if len(found) == 4 else None

    assert until(compacted) == [(16, b"16"), (17, b"17"), (18, b"18"), (19, b"19")]


def test_retention_drops_segments_that_are_too_old(client: Opened, topics: Topics) -> None:
    topic = topics.create(retention_ms="1000", segment_ms="100")
    producer = client.producer()
    producer.send(topic, [Sent(b"old", timestamp=T0)])

    consumer = client.consumer()

    until(lambda: consumer.watermarks((topic, 0)) == (1, 1))
    assert producer.send(topic, [Sent(b"new")]) == [(0, 1)]
