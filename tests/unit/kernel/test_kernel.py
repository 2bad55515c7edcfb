"""The per-record loops: bytes as Kafka's worked examples have them, and what is refused."""

import struct

import pytest

from pylog.errors import CorruptBatch
from pylog.kernel import (
    NAME,
    BatchScope,
    ConsumerRecord,
    Header,
    decode_records,
    encode_records,
    murmur2,
    record_size_bound,
    walk,
)
from pylog.protocol.batch import encode

T0 = 1_700_000_000_000
SCOPE = BatchScope("topic", 0, 5, 0)

# Three records of kafka-format 1.11, example A.
STREAM = bytes.fromhex("14000000046b31047631001a000a02010004026802780 26e01100001040 46b310100".replace(" ", ""))
ROWS = [
    (b"v1", b"k1", T0, ()),
    (b"", None, T0 + 5, (("h", b"x"), ("n", None))),
    (None, b"k1", T0 - 1, ()),
]


def stream(rows):
    data, count, base, _ = encode_records(rows, T0, 0)
    return bytes(data), count, base


def decode(payload, count, base_offset=0, base=T0, append=None, first=0, **more):
    return decode_records(payload, count, base_offset, base, append, SCOPE, first, **more)


def test_the_kernel_has_a_name():
    assert NAME


def test_encodes_the_worked_example():
    data, count, base, newest = encode_records(ROWS, 0)
    assert data == bytes(61) + STREAM
    assert (count, base, newest) == (3, T0, T0 + 5)


def test_no_rows_make_an_empty_stream():
    assert encode_records([], T0) == (bytearray(61), 0, -1, -1)


def test_a_timestamp_of_none_is_now():
    data, _, base, newest = encode_records([(b"v", None, None, ()), (b"v", None, T0 + 1, ())], T0, 0)
    assert (base, newest) == (T0, T0 + 1)
    assert [record.timestamp for record in decode(bytes(data), 2)] == [T0, T0 + 1]


def test_decodes_the_worked_example():
    records = decode(STREAM, 3, base_offset=100)
    assert records == [
        ConsumerRecord(100, T0, b"k1", b"v1", (), SCOPE),
        ConsumerRecord(101, T0 + 5, None, b"", (Header("h", b"x"), Header("n", None)), SCOPE),
        ConsumerRecord(102, T0 - 1, b"k1", None, (), SCOPE),
    ]
    assert (records[0].topic, records[0].partition, records[0].leader_epoch) == ("topic", 0, 5)


def test_log_append_time_replaces_all_timestamps():
    assert {record.timestamp for record in decode(STREAM, 3, append=T0 + 777)} == {T0 + 777}


def test_records_below_the_first_offset_are_left_out():
    assert [record.offset for record in decode(STREAM, 3, base_offset=100, first=101)] == [101, 102]
    assert decode(STREAM, 3, base_offset=100, first=103) == []


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 8193, 1 << 20])
def test_lengths_around_the_edges_of_varints_come_back(size):
    rows = [(bytes(size), bytes(size), T0, (("k" * size, bytes(size)), ("n", None)))]
    payload, count, _ = stream(rows)
    (record,) = decode(payload, count)
    assert (len(record.value), len(record.key), len(record.headers[0].key)) == (size, size, size)


@pytest.mark.parametrize("count", [1, 64, 65, 8192, 8193, 20_000])
def test_many_records_come_back(count):
    payload, found, _ = stream([(b"v", None, T0, ())] * count)
    assert found == count
    assert [record.offset for record in decode(payload, count)] == list(range(count))


@pytest.mark.parametrize("delta", [0, 63, 64, -64, -65, 8191, 8192, 1 << 20, -(1 << 27), 1 << 34, 1 << 41, -T0 - 1])
def test_timestamp_deltas_of_every_width_come_back(delta):
    payload, _, base = stream([(b"v", None, T0, ()), (b"v", None, T0 + delta, ())])
    assert decode(payload, 2, base=base)[1].timestamp == T0 + delta


def test_the_largest_and_the_absent_timestamp_come_back():
    rows = [(b"v", None, -1, ()), (b"v", None, 2**63 - 1, ())]
    data, _, base, newest = encode_records(rows, T0, 0)
    assert (base, newest) == (-1, 2**63 - 1)
    assert [record.timestamp for record in decode(bytes(data), 2, base=-1)] == [-1, 2**63 - 1]


@pytest.mark.parametrize("timestamp", [-2, 2**63])
def test_impossible_timestamps_are_refused(timestamp):
    with pytest.raises(ValueError, match=str(timestamp)):
        encode_records([(b"v", None, timestamp, ())], T0)


def test_values_that_are_not_bytes_are_refused():
    with pytest.raises(TypeError):
        encode_records([("text", None, T0, ())], T0)


def test_no_record_is_larger_than_its_size_bound():
    for value, key, headers in [(None, None, ()), (bytes(100), b"k", (("é" * 70, None), ("n", bytes(9000))))]:
        payload, _, _ = stream([(value, key, T0, headers)])
        assert len(payload) <= record_size_bound(value, key, headers) <= len(payload) + 60


@pytest.mark.parametrize("cut", range(len(STREAM)))
def test_a_stream_cut_anywhere_is_refused(cut):
    with pytest.raises(CorruptBatch):
        decode(STREAM[:cut], 3)


DAMAGED = {
    "bytes behind the last record": (STREAM + b"\x00", 3),
    "a record behind the last": (STREAM, 2),
    "a negative count": (STREAM, -1),
    "a count larger than the bytes allow": (STREAM, 2**31 - 1),
    "a length one too long": (bytes.fromhex("0e000000010100"), 1),
    "a length one too short": (bytes.fromhex("0a000000010100"), 1),
    "a negative length that would lead back": (bytes.fromhex("0d000000010100"), 1),
    "a record length of zero": (bytes(7), 1),
    "a key beyond the record": (bytes.fromhex("0c000000040100"), 1),
    "a key of 2 GiB": (bytes.fromhex("1400000000feffffff0f0100"), 1),
    "a negative header count": (bytes.fromhex("0c000000010101"), 1),
    "a header count larger than the bytes": (bytes.fromhex("14000000010180ade2040000"), 1),
    "a header without a name": (bytes.fromhex("10000000010102" + "0101"), 1),
    "a header value beyond the record": (bytes.fromhex("10000000010102" + "0004"), 1),
    "a varint of six bytes": (bytes.fromhex("808080808001") + bytes(6), 1),
    "a timestamp of eleven bytes": (bytes.fromhex("2000") + b"\x80" * 10 + bytes.fromhex("0100010100"), 1),
    "equal offsets": (bytes.fromhex("0c000000010100") * 2, 2),
    "a negative offset delta": (bytes.fromhex("0c000001010100"), 1),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_records_are_refused(what):
    payload, count = DAMAGED[what]
    with pytest.raises(CorruptBatch):
        decode(payload, count)


def test_offsets_beyond_the_last_are_refused():
    payload, _, _ = stream([(b"v", None, T0, ())] * 3)
    assert len(decode(payload, 3, base_offset=7, last_offset=9)) == 3
    with pytest.raises(CorruptBatch, match="offset 9"):
        decode(payload, 3, base_offset=7, last_offset=8)


LAX = {
    "key length -2 is null": (bytes.fromhex("0c000000030100"), None, None),
    "value length -2 is null": (bytes.fromhex("0c000000010300"), None, None),
    "record attributes are unused": (bytes.fromhex("0c7f0000010100"), None, None),
}


@pytest.mark.parametrize("what", LAX)
def test_batches_that_kafka_reads_are_read(what):
    payload, key, value = LAX[what]
    (record,) = decode(payload, 1)
    assert (record.key, record.value) == (key, value)


def test_header_names_that_are_not_utf8_are_mended():
    (record,) = decode(bytes.fromhex("14000000010102" + "04c3280001"[:8]), 1)
    assert record.headers == (Header("\ufffd(", b""),)


def test_timestamps_wrap_as_in_java():
    payload, _, _ = stream([(b"v", None, 0, ()), (b"v", None, 100, ())])
    assert decode(payload, 2, base=2**63 - 1)[1].timestamp == -(2**63) + 99


# --- walk -------------------------------------------------------------------------------------------------------------


def batch(base_offset=0, count=2):
    made = encode([(b"value", b"key", T0, ())] * count, now_ms=T0)
    made.stamp(base_offset, 3)
    return bytes(made.data)


def test_walk_gives_every_header():
    one, two = batch(10), batch(12, 3)
    spans, end, reason = walk(one + two)
    assert [(s.position, s.size, s.base_offset, s.last_offset, s.count) for s in spans] == [
        (0, len(one), 10, 11, 2), (len(one), len(two), 12, 14, 3),
    ]  # fmt: skip
    assert (end, reason) == (len(one + two), None)
    assert spans[0].leader_epoch == 3
    assert (spans[0].producer_id, spans[0].producer_epoch, spans[0].base_sequence) == (-1, -1, -1)
    assert walk(one + two, len(one))[0] == spans[1:]


def test_spans_answer_for_all_batches_at_once():
    stamps = [T0 + 5, T0, T0 + 9]
    made = [encode([(b"v", None, stamp, ())] * 2, now_ms=0, producer_id=at - 1) for at, stamp in enumerate(stamps)]
    for at, one in enumerate(made):
        one.stamp(10 + 3 * at, at // 2)
    size = made[0].size
    spans = walk(b"".join(one.data for one in made))[0]
    assert [list(spans.part(*ends)) for ends in ((0, 0), (0, 2), (1, 9))] == [[], list(spans)[:2], list(spans)[1:]]
    assert [spans.rising(expected, 17) for expected in (9, 10, 11, 2**63)] == [3, 3, 0, 0]
    assert [spans.rising(0, most) for most in (2**64, 17, 16, 13, 10)] == [3, 3, 2, 1, 0]
    assert (spans.epochs(-1), spans.epochs(0), spans.epochs(1)) == ([(0, 10), (1, 16)], [(1, 16)], [])
    assert [span.producer_id for span in spans.of_producers()] == [0, 1]
    marks = spans.marks(10, 1000, 0, 1, T0 - 1, 9)
    assert [list(column) for column in marks[:4]] == [
        [1, 4, 7], [1000, 1000 + size, 1000 + 2 * size], [T0 + 5, T0 + 9], [1, 7],
    ]  # fmt: skip
    assert marks[4:] == (size, T0 + 9, 17)
    assert [list(column) for column in spans.marks(10, 1000, size, 0, T0 + 20, 9)[:4]] == [
        [7],
        [1000 + 2 * size],
        [T0 + 20],
        [-1],
    ]


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 60, 61, 70])
def test_a_partial_batch_at_the_end_is_no_fault(cut):
    one = batch()
    spans, end, reason = walk(one + batch(2)[:cut])
    assert (len(spans), end, reason) == (1, len(one), None)


def test_walk_of_no_bytes_finds_nothing():
    assert walk(b"") == ([], 0, None)


def altered(at, form, value):
    data = bytearray(batch() + batch(2))
    struct.pack_into(form, data, len(batch()) + at, value)
    return data


@pytest.mark.parametrize(
    ("at", "form", "value", "says"),
    [
        (8, ">i", -1, "length of -1"),
        (8, ">i", 48, "length of 48"),
        (8, ">i", 2**31 - 1, "length of 2147483647"),
        (16, ">b", 3, "magic 3"),
        (16, ">b", 0, "magic 0"),
        (21, ">h", 1, "CRC"),
        (57, ">i", 1, "CRC"),
    ],
)
def test_walk_names_the_fault(at, form, value, says):
    spans, end, reason = walk(altered(at, form, value))
    assert (len(spans), end) == (1, len(batch()))
    assert says in reason


@pytest.mark.parametrize(
    ("at", "form", "value"), [(0, ">q", -1), (23, ">i", -1), (57, ">i", -1), (57, ">i", 3), (0, ">q", 2**63 - 1)]
)
def test_walk_refuses_impossible_numbers(at, form, value):
    _, end, reason = walk(altered(at, form, value), check_crc=False)
    assert end == len(batch())
    assert "impossible" in reason


def test_walk_without_crc_reads_on():
    assert len(walk(altered(70, ">b", 1), check_crc=False)[0]) == 2


def test_zeros_behind_the_last_batch_are_a_fault():
    spans, _, reason = walk(batch() + bytes(100))
    assert len(spans) == 1
    assert "length of 0" in reason


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", 275646681), (b"21", -973932308), (b"abc", 479470107), (b"foobar", -790332482),
     (b"a-little-bit-long-string", -985981536), (b"k1", 1684045097)],
)  # fmt: skip
def test_murmur2_gives_kafkas_hashes(key, value):
    assert murmur2(key) == value
