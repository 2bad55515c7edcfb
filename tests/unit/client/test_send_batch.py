"""Batches that someone else has encoded, sent as they are: numbered, transactional, refused, and in order."""

from collections.abc import Iterator

import pytest

import pylog
from pylog import errors
from pylog.kernel import DELETE_HORIZON_BIT, Record
from pylog.protocol.batch import Batch, encode, encode_marker
from pylog.protocol.compression import Codec

T0 = 1_700_000_000_000


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=2)
        yield log


def made(*values: bytes, codec: Codec = Codec.NONE, transactional: bool = False, producer_id: int = -1) -> bytes:
    rows = [Record(value, key=b"k", timestamp=T0 + number) for number, value in enumerate(values)]
    return bytes(
        encode(rows, now_ms=0, codec=codec, transactional=transactional, producer_id=producer_id, producer_epoch=0).data
    )


def batches(log: pylog.Log, partition: int = 0) -> list[Batch]:
    data, found = log.topic("t")[partition].read(0), []
    while data:
        found.append(Batch.parse(data))
        data = data[found[-1].size :]
    return found


def test_a_batch_is_appended_as_it_is_under_the_producers_number(log: pylog.Log) -> None:
    with log.producer() as producer:
        first = producer.send_batch("t", 1, made(b"a", b"b", codec=Codec.ZSTD))
        second = producer.send_batch("t", 1, bytearray(made(b"c", producer_id=77)))
        places = [(place.partition, place.offset, place.timestamp) for place in (first.result(), second.result())]
        assert places == [(1, 0, T0), (1, 2, T0)]
    one, two = batches(log, 1)
    assert (one.codec, one.count, one.max_timestamp) == (Codec.ZSTD, 2, T0 + 1)
    assert one.producer_id == two.producer_id not in (-1, 77)
    assert (one.base_sequence, two.base_sequence) == (0, 2)
    assert [record.value for record in log.topic("t")[1].records()] == [b"a", b"b", b"c"]


def test_without_idempotence_a_batch_loses_the_number_that_it_had(log: pylog.Log) -> None:
    with log.producer(enable_idempotence=False) as producer:
        producer.send_batch("t", 0, made(b"a", producer_id=77)).result()
    assert batches(log)[0].producer_id == -1


@pytest.mark.parametrize("linger_ms", [0, 5_000])
def test_a_batch_goes_behind_the_records_sent_before(log: pylog.Log, linger_ms: int) -> None:
    with log.producer(linger_ms=linger_ms) as producer:
        producer.send("t", b"1", partition=0)
        producer.send_batch("t", 0, made(b"2", b"3"))
        producer.send("t", b"4", partition=0)
    assert [record.value for record in log.topic("t")[0].records()] == [b"1", b"2", b"3", b"4"]


def test_a_batch_of_a_transaction_is_read_when_that_is_committed(log: pylog.Log) -> None:
    partition = log.topic("t")[0]
    with log.producer(transactional_id="etl") as producer:
        producer.begin()
        producer.send_batch("t", 0, made(b"gone"))
        producer.flush()
        producer.abort()
        with producer.transaction():
            producer.send_batch("t", 0, made(b"stays", transactional=True)).result()
            assert partition.last_stable_offset == 2
    assert [record.value for record in partition.records(isolation_level="read_committed")] == [b"stays"]
    assert all(batch.is_transactional for batch in batches(log))


def test_a_batch_of_a_transaction_joins_none_where_its_producer_has_none(log: pylog.Log) -> None:
    with log.producer() as producer:
        producer.send_batch("t", 0, made(b"a", transactional=True)).result()
    assert not batches(log)[0].is_transactional


def test_a_batch_outside_of_a_transaction_is_refused(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        with pytest.raises(errors.InvalidTxnState):
            producer.send_batch("t", 0, made(b"a"))
        producer.begin()
        with pytest.raises(errors.CorruptBatch):
            producer.send_batch("t", 0, b"no batch")
        with pytest.raises(errors.TransactionAbortable):
            producer.commit()
        producer.abort()


def test_a_batch_that_its_topic_takes_as_too_large_goes_in_parts(log: pylog.Log) -> None:
    log.alter_config("t", {"max.message.bytes": 300})
    with log.producer() as producer:
        values = [b"%d" % number * 60 for number in range(8)]
        assert producer.send_batch("t", 0, made(*values)).result().offset == 0
    assert [record.value for record in log.topic("t")[0].records()] == values
    assert len(batches(log)) > 2


def test_a_full_buffer_counts_the_bytes_of_batches(log: pylog.Log) -> None:
    log.alter_config("t", {"max.message.bytes": 200_000})
    with log.producer(buffer_memory=100_000, linger_ms=60_000, max_block_ms=0) as producer:
        for _ in range(4):
            producer.send_batch("t", 0, made(bytes(60_000)))
    assert log.topic("t")[0].next_offset == 4


def test_what_is_no_batch_of_a_producer_is_refused(log: pylog.Log) -> None:
    good, flipped, emptied, old = made(b"a"), bytearray(made(b"a")), Batch(bytearray(made(b"a"))), bytearray(made(b"a"))
    flipped[-1] ^= 1
    emptied.count = 0
    emptied.write()
    horizon = Batch(bytearray(good))
    horizon.attributes |= DELETE_HORIZON_BIT
    horizon.write()
    gaps = Batch(bytearray(made(b"a", b"b")))
    gaps.last_offset_delta = 5
    gaps.write()
    old[16] = 1
    marker = encode_marker(1, 0, is_abort=False, coordinator_epoch=0, now_ms=0).data
    with log.producer(max_request_size=1000) as producer:
        for data, kind, message in [
            (b"", errors.CorruptBatch, "too few"),
            (good[:-1], errors.CorruptBatch, "does not fit"),
            (good + b"x", errors.CorruptBatch, "1 bytes follow a batch of"),
            (flipped, errors.CorruptBatch, "CRC"),
            (old, errors.UnsupportedFormat, "older than 4.0"),
            (marker, ValueError, "not a batch of a producer"),
            (emptied.data, ValueError, "not a batch of a producer"),
            (horizon.data, ValueError, "not a batch of a producer"),
            (gaps.data, ValueError, "not a batch of a producer"),
            (made(bytes(1000)), errors.RecordTooLarge, "raise it"),
        ]:
            with pytest.raises(kind, match=message):
                producer.send_batch("t", 0, data)
        for partition in 2, -1:
            with pytest.raises(errors.UnknownTopicOrPartition, match=f"no partition {partition}"):
                producer.send_batch("t", partition, good)
        with pytest.raises(TypeError, match="partition is str"):
            producer.send_batch("t", "0", good)  # type: ignore[arg-type]
        with pytest.raises(errors.UnknownTopicOrPartition):
            producer.send_batch("missing", 0, good)
    with pytest.raises(errors.Closed):
        producer.send_batch("t", 0, good)
    assert log.topic("t")[0].next_offset == 0


def test_records_that_do_not_parse_are_refused_by_the_node(log: pylog.Log) -> None:
    batch = Batch(bytearray(made(b"abc")))
    batch.data[61] = 0x7F  # type: ignore[index]
    batch.write()
    with log.producer() as producer:
        future = producer.send_batch("t", 0, bytes(batch.data))
        with pytest.raises(errors.PylogError):
            future.result()
