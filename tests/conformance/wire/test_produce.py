"""Records that each client produces, with every codec and acks, and consumes again."""

import pytest

from conformance.wire.conftest import Opened, Topics
from support.clients.values import ClientError, Received, Sent, read_all

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
T0 = 1_700_000_000_000


def some(count: int, partition: int = 0) -> list[Sent]:
    """Records of every shape: with and without key, value and headers."""
    return [
        Sent(
            None if number % 7 == 6 else b"value %d " % number * (number % 5),
            key=None if number % 7 == 3 else b"key %d" % (number % 10),
            partition=partition,
            timestamp=T0 + number * 10,
            headers=(("a", b"1"), ("a", b""), ("b", b"2")) if number % 4 == 0 else (),
        )
        for number in range(count)
    ]


def as_received(topic: str, sent: list[Sent]) -> list[Received]:
    return [
        Received(topic, record.partition or 0, offset, record.timestamp or -1, record.key, record.value, record.headers)
        for offset, record in enumerate(sent)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_whatever_the_codec(client: Opened, topics: Topics, codec: str) -> None:
    topic = topics.create()
    sent = some(300)

    offsets = client.producer(compression_type=codec).send(topic, sent)

    assert offsets == [(0, offset) for offset in range(len(sent))]
    consumer = client.consumer()
    consumer.assign({(topic, 0): 0})
    assert read_all(consumer, len(sent)) == as_received(topic, sent)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_whatever_the_acks(client: Opened, topics: Topics, acks: int | str) -> None:
    topic = topics.create()
    sent = some(20)

    producer = client.producer(acks=acks, enable_idempotence=False) if acks != "all" else client.producer(acks="all")
    offsets = producer.send(topic, sent)

    assert acks == 0 or offsets == [(0, offset) for offset in range(20)]
    consumer = client.consumer()
    consumer.assign({(topic, 0): 0})
    assert read_all(consumer, 20) == as_received(topic, sent)


def test_codec_of_the_topic_recompresses_what_is_sent(client: Opened, topics: Topics) -> None:
    topic = topics.create(compression_type="zstd")
    sent = some(50)

    client.producer(compression_type="gzip").send(topic, sent)

    consumer = client.consumer()
    consumer.assign({(topic, 0): 0})
    assert read_all(consumer, 50) == as_received(topic, sent)


def test_topic_with_append_time_stamps_the_records_of_clients(client: Opened, topics: Topics) -> None:
    topic = topics.create(message_timestamp_type="LogAppendTime")

    client.producer().send(topic, [Sent(b"a", timestamp=5), Sent(b"b", timestamp=6)])

    consumer = client.consumer()
    consumer.assign({(topic, 0): 0})
    assert all(record.timestamp > T0 for record in read_all(consumer, 2))


def test_first_record_creates_its_topic(client: Opened, topics: Topics) -> None:
    topic = topics.name()

    assert client.producer().send(topic, [Sent(b"first")]) == [(0, 0)]

    consumer = client.consumer()
    consumer.assign({(topic, 0): 0})
    assert [record.value for record in read_all(consumer, 1)] == [b"first"]


def test_keys_keep_to_a_partition_and_every_partition_is_read(client: Opened, topics: Topics) -> None:
    topic = topics.create(4)
    sent = [Sent(b"%d" % number, key=b"k%d" % (number % 20), partition=None) for number in range(100)]

    offsets = client.producer().send(topic, sent)

    consumer = client.consumer()
    consumer.assign({(topic, number): 0 for number in range(4)})
    received = read_all(consumer, 100)
    assert sorted((record.partition, record.offset) for record in received) == sorted(offsets)
    homes = {(record.key, record.partition) for record in received}
    assert len(homes) == 20


def test_record_over_the_limit_of_the_topic_is_refused(client: Opened, topics: Topics) -> None:
    topic = topics.create(max_message_bytes="1000")
    producer = client.producer(acks=1, enable_idempotence=False)

    with pytest.raises(ClientError) as raised:
        producer.send(topic, [Sent(b"x" * 5000)])

    assert raised.value.name == "MESSAGE_TOO_LARGE"
    assert producer.send(topic, [Sent(b"small")]) == [(0, 0)]
