"""What becomes of one batch when records are taken out of it. The hex is from the format's description."""

import pytest

from pylog.commitlog.compaction.filter import BatchRetention, filter_batch
from pylog.errors import CorruptBatch
from pylog.kernel import Record
from pylog.protocol.batch import Batch, encode
from pylog.protocol.compression import Codec

T0 = 1_700_000_000_000
DAY = 86_400_000
RECORDS = [Record(b"v1", b"k1", T0), Record(b"", None, T0 + 5, [("h", b"x"), ("n", None)]), Record(None, b"k1", T0 - 1)]
ONLY_THE_TOMBSTONE = bytes.fromhex(
    "00000000000000640000003d00000005024f02578800400000000200 00018bd51b06400000018bcfe567ff"
    "ffffffffffffffffffffffffffff000000011600 81f9ac5304046b310100"
)
EMPTIED = bytes.fromhex(
    "00000000000000c80000003100000007025477369900100000"
    "0009ffffffffffffffff0000018bcfe5682a00000000000010920003000000 1100000000"
)
KEEP_ALL = lambda spans: spans
KEEP_NONE = lambda spans: spans.select(bytes(len(spans)))


def example(**kwargs):
    return encode(RECORDS, now_ms=T0, base_offset=100, leader_epoch=5, **kwargs)


def keeping(*offsets):
    return lambda spans: spans.select(bytes(span[0] in offsets for span in spans))


def run(batch, keep, retention=BatchRetention.DROP_EMPTY, *, now_ms=T0 + 1_000_000, delete_retention_ms=DAY, **kwargs):
    batch.check()
    found = filter_batch(batch, retention, keep, now_ms=now_ms, delete_retention_ms=delete_retention_ms, **kwargs).batch
    if found is not None:
        found.check()
        found = Batch.parse(bytes(found.data))
    return found


def test_a_tombstone_that_stays_gets_a_horizon():
    found = run(example(), keeping(102))
    assert bytes(found.data) == ONLY_THE_TOMBSTONE
    assert found.has_delete_horizon and found.base_timestamp == T0 + 1_000_000 + DAY
    assert [(r.offset, r.timestamp) for r in found.records("t", 0)] == [(102, T0 - 1)]


def test_the_horizon_is_set_once():
    first = run(example(), KEEP_ALL)
    assert [r.timestamp for r in first.records("t", 0)] == [T0, T0 + 5, T0 - 1]
    assert (
        filter_batch(first, BatchRetention.DROP_EMPTY, KEEP_ALL, now_ms=T0 + DAY, delete_retention_ms=DAY).batch
        is first
    )
    later = run(first, keeping(100, 102), now_ms=T0 + DAY)
    assert later.base_timestamp == first.base_timestamp
    assert [(r.offset, r.timestamp) for r in later.records("t", 0)] == [(100, T0), (102, T0 - 1)]


def test_a_horizon_stays_when_its_tombstones_are_gone():
    found = run(run(example(), KEEP_ALL), keeping(100))
    assert found.has_delete_horizon and found.base_timestamp == T0 + 1_000_000 + DAY
    assert [(r.offset, r.timestamp, r.value) for r in found.records("t", 0)] == [(100, T0, b"v1")]


def test_a_horizon_behind_the_end_of_time_is_the_end_of_time():
    assert run(example(), keeping(102), delete_retention_ms=2**63 - 1).base_timestamp == 2**63 - 1


def test_a_batch_that_loses_nothing_is_the_same_object():
    batch = encode([Record(b"v", b"k", T0), Record(b"w", b"l", T0)], now_ms=T0)
    found = filter_batch(batch, BatchRetention.DROP_EMPTY, KEEP_ALL, now_ms=T0, delete_retention_ms=0)
    assert found.batch is batch and (found.records_read, found.records_kept) == (2, 2)


@pytest.mark.parametrize("codec", Codec)
def test_a_filtered_batch_keeps_its_producers_numbers(codec):
    batch = example(codec=codec, producer_id=7, producer_epoch=2, base_sequence=9, transactional=True)
    found = run(batch, keeping(101))
    assert (found.base_offset, found.last_offset, found.count, found.leader_epoch) == (100, 102, 1, 5)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 2, 9)
    assert found.is_transactional and not found.has_delete_horizon and found.codec is codec
    assert found.base_timestamp == found.max_timestamp == T0 + 5
    assert found.records("t", 0) == [r for r in batch.records("t", 0) if r.offset == 101]


@pytest.mark.parametrize("offset", [100, 102])
def test_the_time_of_the_append_stays(offset):
    batch = example()
    batch.stamp_append_time(T0 + 777)
    found = run(batch, keeping(offset))
    assert (found.timestamp_type, found.max_timestamp) == (1, T0 + 777)
    assert [r.timestamp for r in found.records("t", 0)] == [T0 + 777]


def test_an_emptied_batch_byte_for_byte():
    batch = encode(
        [Record(b"v", b"k", T0 + number % 43) for number in range(10)], now_ms=T0, base_offset=200, leader_epoch=7,
        producer_id=4242, producer_epoch=3, base_sequence=17, transactional=True, codec=Codec.LZ4,
    )  # fmt: skip
    batch.max_timestamp = T0 + 42
    batch.write()
    assert bytes(run(batch, KEEP_NONE, BatchRetention.KEEP_EMPTY).data) == EMPTIED
    again = run(Batch.parse(EMPTIED), KEEP_ALL, BatchRetention.KEEP_EMPTY)
    assert bytes(again.data) == EMPTIED


def test_an_empty_batch_goes_unless_it_is_to_stay():
    assert run(example(), KEEP_NONE) is None
    assert run(Batch.parse(EMPTIED), KEEP_ALL) is None
    assert run(example(), KEEP_ALL, BatchRetention.DROP) is None


def test_an_emptied_batch_has_no_horizon():
    found = run(run(example(), KEEP_ALL), KEEP_NONE, BatchRetention.KEEP_EMPTY)
    assert (found.has_delete_horizon, found.base_timestamp, found.count, found.size) == (False, -1, 0, 61)


def test_a_spent_marker_gets_a_horizon():
    marker = encode(
        [Record(bytes(6), bytes(4), T0)], now_ms=T0, producer_id=7, producer_epoch=1, transactional=True, control=True
    )
    assert marker.size == 78
    found = run(marker, KEEP_ALL, now_ms=T0, delete_retention_ms=10_000, is_spent_marker=True)
    assert found.is_control and found.has_delete_horizon and found.size == 80
    assert found.records("t", 0) == marker.records("t", 0)


def test_records_that_cannot_be_are_refused():
    batch = example()
    batch.data[61] += 2
    with pytest.raises(CorruptBatch, match="offset 100"):
        filter_batch(batch, BatchRetention.DROP_EMPTY, KEEP_ALL, now_ms=T0, delete_retention_ms=0)
