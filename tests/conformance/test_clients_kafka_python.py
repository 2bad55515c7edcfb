"""kafka-python against our server, in this process: records, groups, transactions, admin."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog.server.server import Server

kafka = pytest.importorskip("kafka")

SECONDS = 30


@pytest.fixture
def server() -> Iterator[Server]:
    with pylog.serve() as made:
        yield made


def consumer(server: Server, *topics: str, **config: Any) -> Any:
    return kafka.KafkaConsumer(
        *topics, bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000, **config,
    )  # fmt: skip


def read(reader: Any, count: int) -> list[bytes]:
    return [record.value for record in itertools.islice(reader, count)]


@pytest.mark.parametrize("codec", [None, "gzip", "lz4", "zstd"])
def test_a_group_reads_records_of_every_codec(server: Server, codec: str | None) -> None:
    values = [b"%d" % number * 10 for number in range(100)]
    producer = kafka.KafkaProducer(bootstrap_servers=server.bootstrap_servers, compression_type=codec)
    for value in values:
        producer.send("t", value)
    producer.flush(SECONDS)
    producer.close()

    reader = consumer(server, "t", group_id="g")
    assert read(reader, len(values)) == values
    reader.commit()
    key = kafka.TopicPartition("t", 0)
    assert reader.committed(key) == len(values)
    assert (reader.beginning_offsets([key]), reader.end_offsets([key])) == ({key: 0}, {key: len(values)})
    reader.close()


def test_only_committed_transactions_are_read(server: Server) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=server.bootstrap_servers, transactional_id="tx")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send("t", b"%d" % number)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()

    reader = consumer(server, "t", isolation_level="read_committed", group_id=None)
    assert read(reader, 2) == [b"0", b"2"]
    reader.close()


def test_topics_and_groups_are_administered(server: Server) -> None:
    client = kafka.KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    client.create_topics([kafka.admin.NewTopic("t", 2, 1)])
    reader = consumer(server, "t", group_id="g")
    reader.poll(timeout_ms=500)
    reader.close()

    assert "t" in client.list_topics()
    assert client.describe_cluster()["controller_id"] == 1
    client.delete_topics(["t"])
    assert "t" not in client.list_topics()
    client.close()
