"""Any bytes give records or a typed error: never another exception, never an allocation that the bytes do not justify.

Three kinds of bytes: any at all; good batches with bits flipped (whose CRC is mended, so that readers get to see them);
and Kafka's own batches with bits flipped, where the fixtures are there.
"""

import gzip
import json
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import CorruptBatch, PylogError
from pylog.kernel import BatchScope, decode_records, walk
from pylog.protocol.batch import Batch, columns, encode, sources, split
from pylog.protocol.compression import LIMIT_BYTES, LIMIT_RATIO, Codec, decompress

T0 = 1_700_000_000_000
ALL = frozenset({"offset", "timestamp", "timestamp_type", "key", "value", "headers"})
END = 2**63 - 1
MEMORY_BYTES_MAX = 3 * (LIMIT_BYTES + LIMIT_RATIO * 10_000)
"""A payload, the copy that joins its pieces, and what they become."""

ROWS = [
    (b"value", b"key", T0, ()),
    (None, None, T0 + 100_000, (("name", b"x"), ("other", None))),
    (bytes(range(256)) * 5, b"", T0 - 1, ()),
    (b"value " * 300, None, T0, (("name", b"x" * 100),)),
]
GOOD = [bytes(encode(ROWS, now_ms=T0, codec=codec).data) for codec in Codec]

flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=6)


def flipped(data, flips, *, mend):
    damaged = bytearray(data)
    for at, mask in flips:
        damaged[at % len(damaged)] ^= mask
    if mend:
        damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
        damaged[16] = 2
        damaged[17:21] = crc32c(bytes(damaged[21:])).to_bytes(4, "big")
    return bytes(damaged)


def read_everything(data):
    """Read `data` in all the ways there are; they must agree on what it holds and on what they refuse."""
    spans, end, _ = walk(data)
    assert 0 <= end <= len(data)
    for span in spans:
        batch = Batch.parse(data, span.position)
        batch.check()
        assert (batch.base_offset, batch.last_offset, batch.count) == (span.base_offset, span.last_offset, span.count)
        try:
            records = batch.records("topic", 0)
        except CorruptBatch:
            records = None
        else:
            assert len(records) == batch.count
            assert all(batch.base_offset <= record.offset <= batch.last_offset for record in records)
            assert repr(records)
        if not batch.is_control:
            agree(batch, records)
    try:
        found = list(split(data, check_crc=True))
    except PylogError:
        return
    assert [batch.base_offset for batch in found] == [span.base_offset for span in spans]


def agree(batch, records):
    try:
        found = columns([*sources([batch])], -1, END, ALL)
    except CorruptBatch:
        assert records is None
        return
    assert records is not None
    for array in found.values():
        array.validate(full=True)
    assert found["offset"].to_pylist() == [record.offset for record in records if record.offset < END]
    assert found["timestamp"].to_pylist() == [record.timestamp for record in records if record.offset < END]
    assert found["value"].to_pylist() == [record.value for record in records if record.offset < END]


@pytest.fixture(autouse=True)
def arrow():
    pytest.importorskip("pyarrow")


@given(st.binary(max_size=400))
def test_any_bytes_are_batches_or_a_typed_error(data):
    read_everything(data)


@given(st.binary(max_size=400), st.integers(-1, 300), st.sampled_from(Codec), st.integers(0, 2**15 - 1))
def test_any_records_behind_a_good_header_are_read_or_refused(payload, count, codec, flags):
    head = bytearray(GOOD[0][:61])
    head[21:23] = (flags & 0x7FF8 | codec).to_bytes(2, "big")
    head[23:27] = max(count - 1, 0).to_bytes(4, "big")
    head[57:61] = count.to_bytes(4, "big", signed=True)
    read_everything(flipped(bytes(head) + payload, [], mend=True))


@given(st.sampled_from(GOOD), flips)
def test_good_batches_with_flipped_bits_are_refused(data, flips):
    read_everything(flipped(data, flips, mend=False))


@given(st.sampled_from(GOOD), flips)
def test_flipped_bits_behind_a_right_crc_are_read_or_refused(data, flips):
    read_everything(flipped(data, flips, mend=True))


@given(st.lists(st.sampled_from(GOOD), min_size=1, max_size=3), flips, st.integers(0, 2000))
def test_cut_and_damaged_files_of_batches_are_read_or_refused(parts, flips, cut):
    data = b"".join(parts)
    read_everything(flipped(data[: max(len(data) - cut, 1)], flips, mend=False))


@given(st.binary(max_size=300), st.integers(-5, 2**31 - 1))
def test_any_record_stream_is_read_or_refused(payload, count):
    try:
        records = decode_records(payload, count, 0, T0, None, BatchScope("topic", 0, 0, 0))
    except CorruptBatch:
        return
    assert len(records) == count


@given(st.sampled_from(list(Codec)), st.binary(max_size=300))
def test_any_compressed_payload_is_read_or_refused(codec, payload):
    for data in (payload, HEADS[codec] + payload):
        try:
            decompress(codec, data)
        except CorruptBatch:
            continue


HEADS = {
    Codec.NONE: b"",
    Codec.GZIP: bytes.fromhex("1f8b0800000000000003"),
    Codec.SNAPPY: b"\x82SNAPPY\0\0\0\0\1\0\0\0\1",
    Codec.LZ4: bytes.fromhex("04224d18604082"),
    Codec.ZSTD: bytes.fromhex("28b52ffd0058"),
}


@given(st.sampled_from(GOOD), flips)
def test_memory_stays_in_proportion(data, flips):
    damaged = flipped(data, flips, mend=True)
    tracemalloc.start()
    try:
        read_everything(damaged)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def kafkas(fixtures):
    """Batches that Kafka's own classes made."""
    path = fixtures / "facts" / "batches.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is absent: make the facts, or set PYLOG_FIXTURES to a folder that has them")
    made = json.loads(gzip.decompress(path.read_bytes()))
    return [bytes.fromhex(case["hex"]) for case in made["batches"] + made["control"] if "hex" in case]


@given(data=st.data(), flips=flips, mend=st.booleans())
def test_kafkas_batches_with_flipped_bits_are_read_or_refused(kafkas, data, flips, mend):
    read_everything(flipped(data.draw(st.sampled_from(kafkas)), flips, mend=mend))
