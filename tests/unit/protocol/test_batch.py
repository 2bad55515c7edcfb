"""Batches: what the header says, what stamping changes, and what a batch that cannot be does."""

import mmap
import struct

import pytest
from crc32c import crc32c

from pylog.errors import CorruptBatch, RecordTooLarge, UnsupportedFormat
from pylog.kernel import HEADER, Record
from pylog.protocol.batch import Batch, columns, encode, seal, sources, split
from pylog.protocol.compression import Codec

T0 = 1_700_000_000_000
RECORDS = [Record(b"v1", b"k1", T0), Record(b"", None, T0 + 5, [("h", b"x"), ("n", None)]), Record(None, b"k1", T0 - 1)]
EXAMPLE_A = bytes.fromhex(
    "0000000000000064000000530000000502227410b90000000000020000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff0000000314000000046b310476310"
    "01a000a02010004026802780 26e01100001040 46b310100".replace(" ", "")
)
EMPTIED = bytes.fromhex(
    "00000000000000c80000003100000007025477369900100000"
    "0009ffffffffffffffff0000018bcfe5682a00000000000010920003000000 1100000000".replace(" ", "")
)


def example():
    batch = encode(RECORDS, now_ms=T0)
    batch.stamp(100, 5)
    return batch


def test_the_worked_example_byte_for_byte():
    assert bytes(example().data) == EXAMPLE_A


def test_the_fields_of_an_encoded_batch_are_those_of_its_bytes():
    made = encode(
        RECORDS, now_ms=T0, codec=Codec.ZSTD, producer_id=7, producer_epoch=2, base_sequence=9, transactional=True,
        base_offset=50, leader_epoch=4,
    )  # fmt: skip
    read = Batch.parse(bytes(made.data))
    for name in Batch.__slots__:
        if name not in {"data", "trusted"}:
            assert getattr(made, name) == getattr(read, name), name
    assert (read.base_offset, read.last_offset, read.next_offset, read.count) == (50, 52, 53, 3)
    assert (read.codec, read.is_transactional) == (Codec.ZSTD, True)
    assert (read.is_control, read.has_delete_horizon) == (False, False)
    assert (read.producer_id, read.producer_epoch, read.base_sequence, read.leader_epoch) == (7, 2, 9, 4)
    assert (read.timestamp_type, read.append_timestamp, read.max_timestamp) == (0, None, T0 + 5)
    read.check()


@pytest.mark.parametrize("codec", Codec)
def test_records_of_a_batch_come_back(codec):
    batch = encode(RECORDS, now_ms=T0, codec=codec)
    batch.stamp(100, 5)
    records = batch.records("topic", 3)
    assert [(r.value, r.key, r.timestamp, r.headers) for r in records] == [
        (r.value, r.key, r.timestamp, r.headers) for r in RECORDS
    ]
    assert {(r.topic, r.partition, r.leader_epoch) for r in records} == {("topic", 3, 5)}
    assert [r.offset for r in batch.records("topic", 3, 101)] == [101, 102]


def test_an_uncompressed_batch_is_written_where_its_records_were_encoded():
    batch = encode(RECORDS, now_ms=T0)
    data = batch.data
    batch.stamp(7, 1)
    batch.stamp_append_time(T0)
    assert batch.data is data


def test_a_stamp_leaves_the_crc_right_and_the_rest_alone():
    batch = example()
    before = bytes(batch.data)
    batch.stamp(2**63 - 10, -1)
    assert bytes(batch.data)[16:] == before[16:]
    read = Batch.parse(batch.data)
    read.check()
    assert (read.base_offset, read.leader_epoch) == (2**63 - 10, -1)


def test_a_batch_stamped_with_append_time_gives_it_to_all_records():
    batch = example()
    batch.stamp_append_time(T0 + 777)
    batch.check()
    read = Batch.parse(bytes(batch.data))
    assert read.crc == 0xF09CDFD2  # kafka-format 1.11
    assert (read.timestamp_type, read.append_timestamp, read.base_timestamp) == (1, T0 + 777, T0)
    assert {(record.timestamp, record.timestamp_type) for record in read.records("topic", 0)} == {(T0 + 777, 1)}


def test_foreign_bytes_are_copied_before_they_are_stamped():
    window = bytes(10) + EXAMPLE_A
    batch = Batch.parse(window, 10)
    batch.stamp(1, 1)
    batch.stamp_append_time(5)
    assert window[10:] == EXAMPLE_A
    Batch.parse(batch.data).check()


def test_a_batch_needs_a_record():
    with pytest.raises(ValueError, match="at least one"):
        encode([], now_ms=T0)


def test_an_emptied_batch_has_offsets_and_no_records():
    batch = Batch.parse(EMPTIED)
    batch.check()
    assert (batch.count, batch.base_offset, batch.next_offset, batch.is_transactional) == (0, 200, 210, True)
    assert batch.records("topic", 0) == []


def test_a_control_batch_is_marked():
    batch = encode([(b"\0\0", b"\0\0\0\1", T0, ())], now_ms=T0, control=True, transactional=True)
    assert batch.attributes == 0x30
    assert Batch.parse(batch.data).is_control
    assert batch.records("topic", 0)[0].key == b"\0\0\0\1"


def changed(at, form, value, *, crc=True):
    data = bytearray(EXAMPLE_A)
    struct.pack_into(form, data, at, value)
    if crc:
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(8, ">i", 0), (8, ">i", 48), (8, ">i", -5), (8, ">i", 10_000), (16, ">b", 3), (16, ">b", -1), (57, ">i", -1),
     (57, ">i", 4), (23, ">i", -1), (0, ">q", -1), (0, ">q", 2**63 - 1)],
)  # fmt: skip
def test_impossible_headers_are_refused(at, form, value):
    with pytest.raises(CorruptBatch) as caught:
        Batch.parse(bytes(7) + changed(at, form, value), 7)
    assert caught.value.position == 7


@pytest.mark.parametrize("magic", [0, 1])
def test_older_message_formats_are_refused(magic):
    with pytest.raises(UnsupportedFormat, match=f"magic {magic}"):
        Batch.parse(changed(16, ">b", magic))


@pytest.mark.parametrize("size", [0, 1, 12, 17, 60, 94])
def test_too_few_bytes_are_refused(size):
    with pytest.raises(CorruptBatch):
        Batch.parse(EXAMPLE_A[:size])


def test_a_wrong_crc_is_refused():
    batch = Batch.parse(changed(70, ">b", 1, crc=False))
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        batch.check()
    assert caught.value.offset == 100


def test_an_unknown_codec_is_refused():
    batch = Batch.parse(changed(21, ">h", 5))
    with pytest.raises(CorruptBatch, match="codec 5"):
        batch.records("topic", 0)
    assert "0x05" in repr(batch)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_errors_in_records_name_the_offset(codec):
    for data in (changed(21, ">h", codec), changed(57, ">i", 2)):
        with pytest.raises(CorruptBatch) as caught:
            Batch.parse(data).records("topic", 0)
        assert caught.value.offset == 100


def test_split_gives_whole_batches_and_drops_a_torn_one():
    data = EXAMPLE_A + EMPTIED
    assert [batch.base_offset for batch in split(data)] == [100, 200]
    assert [batch.base_offset for batch in split(data[:-1])] == [100]
    assert list(split(b"")) == []


def test_split_says_where_the_damage_is():
    data = EXAMPLE_A + changed(70, ">b", 1, crc=False)
    assert len(list(split(data))) == 2
    found = split(data, check_crc=True)
    assert next(found).base_offset == 100
    with pytest.raises(CorruptBatch) as caught:
        next(found)
    assert caught.value.position == len(EXAMPLE_A)


def test_columns_leave_out_control_and_emptied_batches():
    pytest.importorskip("pyarrow")
    control = encode([(b"", b"", T0, ())], now_ms=T0, control=True)
    found = columns([*sources([Batch.parse(EMPTIED), control, example()])], 0, 102, frozenset({"offset", "key"}))
    assert found["offset"].to_pylist() == [100, 101]
    assert found["key"].to_pylist() == [b"k1", None]


def test_the_header_is_61_bytes():
    assert HEADER.size == 61


def test_a_highly_compressed_record_is_read_where_it_is_allowed():
    batch = encode([(bytes(90 << 20), None, T0, ())], now_ms=T0, codec=Codec.ZSTD)
    assert batch.size < 100_000
    (((record,), after),) = Batch.parse(batch.data).groups("t", 0, record_bytes_max=100 << 20)
    assert (len(record.value), after) == (90 << 20, 1)
    with pytest.raises(CorruptBatch, match="a record has 94371849 bytes when it is decompressed"):
        Batch.parse(batch.data).records("t", 0)


def test_records_that_fit_only_compressed_are_refused():
    with mmap.mmap(-1, 1 << 31) as stream, pytest.raises(RecordTooLarge, match="append them in parts"):
        seal((stream, 1, T0, T0), codec=Codec.ZSTD)
