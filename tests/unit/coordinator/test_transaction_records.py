"""Records of the transaction log: Kafka's bytes, and a typed error for everything else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.transaction.records import key_of, read, record_of
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.record import TopicPartition

ONGOING = Transaction(
    producer_id=73,
    producer_epoch=13,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=(TopicPartition("orders", 3),),
    last_update_ms=1_700_000_000_010,
    start_ms=1_700_000_000_000,
    client_version=2,
)
KEY = bytes.fromhex("0000000474782d31")
VALUE = bytes.fromhex(
    "0001 0000000000000049 000d 0000ea60 01 02 07 6f7264657273 02 00000003 00 0000018bcfe5680a 0000018bcfe56800"
    "01 02 02 0002"
)


def test_a_transaction_is_written_as_kafka_writes_it() -> None:
    assert record_of("tx-1", ONGOING) == LogRecord(KEY, VALUE)
    assert read(LogRecord(KEY, VALUE)) == ("tx-1", ONGOING)


def test_a_forgotten_transactional_id_is_a_key_without_a_value() -> None:
    assert record_of("tx-1", None) == LogRecord(KEY, None)
    assert read(LogRecord(KEY, None)) == ("tx-1", None)


def test_version_0_has_no_tags() -> None:
    value = bytes.fromhex(
        "0000 0000000000000049 000d 0000ea60 01 00000001 0006 6f7264657273 00000001 00000003"
        "0000018bcfe5680a 0000018bcfe56800"
    )
    _, got = read(LogRecord(KEY, value))
    assert got is not None and (got.partitions, got.client_version) == (ONGOING.partitions, 0)


def test_an_empty_transaction_has_no_partitions_and_any_other_a_list() -> None:
    empty = Transaction.new(5, 1000, 9)
    value = record_of("x", empty).value
    assert value is not None and value[17] == 0  # None
    complete = record_of("x", empty.prepared(committed=False, next_producer_id=-1, wall_ms=9).completed(9)).value
    assert complete is not None and complete[17] == 1  # []
    assert read(record_of("x", empty)) == ("x", empty)


def test_partitions_are_grouped_by_topic() -> None:
    partitions = tuple(TopicPartition(topic, number) for topic, number in (("b", 1), ("a", 1), ("b", 0)))
    _, got = read(record_of("x", ONGOING.joined(partitions, 0)))
    assert got is not None
    assert [tuple(each) for each in got.partitions] == [("orders", 3), ("b", 1), ("b", 0), ("a", 1)]


@pytest.mark.parametrize("key", [b"\x00\x01\x00\x01x", b"\x00\x07"], ids=["version 1", "no body"])
def test_a_key_of_another_version_is_refused(key: bytes) -> None:
    with pytest.raises(UnsupportedFormat, match="version"):
        read(LogRecord(key, None))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (KEY[:-1], None),
        (KEY + b"!", None),
        (KEY, b""),
        (KEY, VALUE[:-1]),
        (KEY, VALUE + b"!"),
        (KEY, VALUE[:16] + b"\x06" + VALUE[17:]),
        (KEY, VALUE[:16] + b"\xff" + VALUE[17:]),
        (KEY, VALUE[:2] + b"\xff" + VALUE[3:]),
        (KEY, VALUE[:10] + b"\xff" + VALUE[11:]),
    ],
    ids=[
        *("no key", "half a version", "cut key", "long key", "no value", "cut value", "long value"),
        *("state Dead", "state -1", "producer id below 0", "epoch below 0"),
    ],
)
def test_bytes_that_are_no_transaction_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read(LogRecord(key, value))


@given(key=st.binary() | st.just(KEY), tail=st.binary())
def test_any_bytes_are_a_transaction_or_a_typed_error(key: bytes, tail: bytes) -> None:
    for value in (tail, b"\x00\x00" + tail, b"\x00\x01" + tail, VALUE[: len(tail)] + tail):
        with contextlib.suppress(CorruptBatch, UnsupportedFormat):
            read(LogRecord(key, value))


def test_a_value_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        read(LogRecord(KEY, b"\x00\x02" + VALUE[2:]))


def test_a_transactional_id_that_cannot_be_written_is_refused() -> None:
    for name in ("x" * 40_000, "\ud800"):
        with pytest.raises(ValueError, match="TransactionLogKey"):
            key_of(name)
