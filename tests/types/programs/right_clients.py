"""What the tutorial does, with its types written out."""

from collections.abc import Iterable
from typing import assert_type

import pylog

Bytes = pylog.ConsumerRecord[bytes, bytes]
BytesLike = bytes | bytearray | memoryview


def fill(log: pylog.Log) -> list[pylog.RecordMetadata]:
    log.create_topic("orders", partitions=3, exist_ok=True)
    with log.producer(linger_ms=50, compression_type="zstd", acks="all") as producer:
        assert_type(producer, pylog.Producer)
        assert_type(producer, pylog.Producer[BytesLike, BytesLike])
        futures: list[pylog.Future[pylog.RecordMetadata]] = [
            producer.send("orders", b"2 apples", key=b"alice", headers=[("trace", b"1"), ("none", None)]),
            producer.send("orders", b"3 pears", headers={"trace": b"1", "none": None}),
            producer.send("orders", None, b"alice", partition=0, timestamp_ms=1),
            producer.send("orders", bytearray(b"1 plum"), key=memoryview(b"alice")),
            *producer.send_many("orders", [b"1 pear", bytearray(b"2 figs"), pylog.Record(b"3 pears", key=b"bob")]),
        ]
        producer.flush()
        return [future.result(timeout=10) for future in futures]


def values(records: Iterable[pylog.ConsumerRecord]) -> list[bytes]:
    return [record.value for record in records if record.value is not None]


def read(log: pylog.Log | pylog.ConnectedLog) -> None:
    with log.consumer("orders", auto_offset_reset="earliest", consumer_timeout_ms=1000) as consumer:
        assert_type(consumer, pylog.Consumer[bytes, bytes])
        for record in consumer:
            assert_type(record, Bytes)
            assert_type(record.key, bytes | None)
            name: str = record.topic
            place: tuple[int, int] = (record.partition, record.offset)
            print(name, place, [header.value for header in record.headers])
        print(values(consumer.poll(timeout_ms=10)))


class Told(pylog.RebalanceListener):
    def on_partitions_assigned(self, partitions: list[pylog.TopicPartition]) -> None:
        print(sorted(partitions))


def invoice(log: pylog.Log) -> int:
    orders = log.consumer("orders", group_id="invoicing", enable_auto_commit=False, isolation_level="read_committed")
    invoices = log.producer(transactional_id="invoicing-1")
    with orders, invoices:
        orders.subscribe(["orders"], listener=Told())
        records = orders.poll(timeout_ms=5000, max_records=300)
        with invoices.transaction():
            for record in records:
                invoices.send("invoices", record.value, key=record.key)
            after = {pylog.TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
            invoices.send_offsets(after, orders.group_metadata())
    return len(records)


def note(producer: pylog.Producer[bytes, bytes]) -> None:
    producer.send("notes", b"of bytes alone", key=b"n")


def rest(consumer: pylog.Consumer) -> None:
    consumer.pause(*consumer.assignment())
    consumer.resume(consumer.paused())
    consumer.pause([pylog.TopicPartition("t", 0)])


def notes(log: pylog.Log) -> None:
    with log.producer() as producer:
        note(producer)


def skip(consumer: pylog.Consumer) -> bytes | None:
    try:
        consumer.poll()
    except pylog.errors.DeserializationError as error:
        consumer.skip()
        return bytes(error.record.value)
    return None


def main() -> None:
    with pylog.open(":memory:", config={"num.partitions": 3, "log.segment.bytes": "1048576"}) as log:
        fill(log)
        read(log)
        invoice(log)
        log.admin.reset_offsets("invoicing", "earliest")
        server: pylog.Server = log.serve()
        with pylog.connect(server.bootstrap_servers, client_id="me", security_protocol="PLAINTEXT") as there:
            read(there)
