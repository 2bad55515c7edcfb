"""Arrow columns: the same records as `decode_records` gives, without the objects; the same bytes refused."""

import pytest

from pylog.errors import CorruptBatch
from pylog.protocol.batch import Batch, columns, encode, sources
from pylog.protocol.compression import Codec

pa = pytest.importorskip("pyarrow")

T0 = 1_700_000_000_000
NAMES = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
ALL = frozenset(NAMES)
END = 2**63 - 1


def batch(rows, base_offset=0, **more):
    made = encode(rows, now_ms=T0, **more)
    made.stamp(base_offset, 0)
    return made


def expected(batches, first=0, end=END):
    return [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value,
         [{"key": name, "value": value} for name, value in r.headers] or None)
        for made in batches
        for r in made.records("topic", 0)
        if first <= r.offset < end
    ]  # fmt: skip


def found(batches, first=0, end=END):
    arrays = columns([*sources(batches)], first, end, ALL)
    for array in arrays.values():
        array.validate(full=True)
    return list(zip(*(arrays[name].to_pylist() for name in NAMES), strict=True))


MIXED = [
    (b"v", b"k", T0, ()),
    (None, None, T0 + 10**9, (("a", b"1"), ("a", None), ("", b""))),
    (b"", b"", T0 - 5, ()),
    (bytes(9000), bytes(100), T0 + 63, (("é", b"x" * 300),)),
]


@pytest.mark.parametrize("codec", Codec)
def test_columns_are_the_same_as_records(codec):
    batches = [batch(MIXED, 10, codec=codec), batch(MIXED[:1] * 200, 14), batch(MIXED[::-1], 300, codec=codec)]
    assert found(batches) == expected(batches)


def test_columns_have_the_documented_types():
    arrays = columns([*sources([batch(MIXED)])], 0, END, ALL)
    headers = arrays.pop("headers").type
    assert {name: str(array.type) for name, array in arrays.items()} == {
        "offset": "int64", "timestamp": "int64", "timestamp_type": "int32", "key": "binary", "value": "binary",
    }  # fmt: skip
    assert pa.types.is_list(headers)
    assert str(headers.value_type) == "struct<key: string, value: binary>"


def test_a_range_of_offsets_gives_its_rows():
    batches = [batch(MIXED, 10), batch(MIXED, 14)]
    for first, end in [(0, 10), (11, 17), (13, 14), (18, 30), (15, 12)]:
        assert found(batches, first, end) == expected(batches, first, end)


@pytest.mark.parametrize("sizes", [(70_000, 90_000, 40_000), (700_000, 900_000, 300_000)])
def test_columns_that_are_kept_stay_as_they_are(sizes):
    """Memory of columns that are dropped is used again; that of others, or of what is left of them, is not."""
    lots = []
    for number, size in enumerate(sizes * 2):
        row = bytes([number]) * 100
        lots.append([batch([(row, b"%08d" % number, T0 + number, ()), (None, None, T0, ())] * (size // 220), 7)])
    kept = []
    for turn in range(4):
        kept.extend((lot, columns([*sources(lot)], 0, END, ALL)) for lot in lots)
        kept[:] = kept[turn % 2 :: 2]
        columns([], 0, END, ALL)
        for lot, arrays in kept:
            rows = zip(*(arrays[name].to_pylist() for name in NAMES), strict=True)
            assert list(rows) == expected(lot)


def test_no_batches_give_empty_columns():
    assert found([]) == []
    assert [str(array.type) for array in columns([], 0, END, frozenset({"key", "offset"})).values()]


def test_only_wanted_columns_are_made():
    assert set(columns([*sources([batch(MIXED)])], 0, END, frozenset({"key"}))) == {"key"}
    assert columns([*sources([batch(MIXED)])], 0, END, frozenset()) == {}
    with pytest.raises(ValueError, match="colour"):
        columns([*sources([batch(MIXED)])], 0, END, frozenset({"colour"}))


def test_log_append_time_fills_the_timestamps():
    late = batch(MIXED, 10)
    late.stamp_append_time(T0 + 777)
    batches = [batch(MIXED), late]
    assert found(batches) == expected(batches)


@pytest.mark.parametrize("count", [16, 17, 40])
def test_many_headers_are_the_same_as_in_records(count):
    rows = [(b"v", None, T0, tuple((f"name{i}", b"x" * i) for i in range(count))), *MIXED]
    assert found([batch(rows)]) == expected([batch(rows)])


def test_header_names_that_are_not_utf8_are_mended():
    data = bytearray(batch([(b"", b"", T0, (("ab", b"x"),))]).data)
    data[-4:-2] = b"\xc3\x28"
    assert found([Batch.parse(data)]) == expected([Batch.parse(data)])
    assert found([Batch.parse(data)])[0][5] == [{"key": "\ufffd(", "value": b"x"}]


def test_a_damaged_batch_is_refused_for_any_columns():
    good = bytes(batch(MIXED).data)
    for at in range(61, len(good)):
        for mask in (0x01, 0x80, 0xFF):
            data = bytearray(good)
            data[at] ^= mask
            read = Batch.parse(bytes(data))
            try:
                records = expected([read])
            except CorruptBatch:
                with pytest.raises(CorruptBatch):
                    columns([*sources([read])], 0, END, frozenset({"offset"}))
            else:
                assert found([read]) == records
        if at > 61 + 80:
            break


def test_offsets_must_rise_within_a_batch_only():
    batches = [batch(MIXED, 10), batch(MIXED, 10)]
    assert found(batches) == expected(batches)
