"""Any records, any codec: what is encoded comes back, as records and as columns, and the header says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.kernel import BatchScope, ConsumerRecord, record_size_bound, walk
from pylog.protocol.batch import Batch, columns, encode, sources, split
from pylog.protocol.compression import Codec

MAX = 2**63 - 1
NAMES = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")

blobs = st.none() | st.binary(max_size=200) | st.integers(0, 20_000).map(bytes)
timestamps = st.integers(-1, MAX) | st.integers(1_700_000_000_000, 1_700_100_000_000)
headers = st.lists(st.tuples(st.text(max_size=80), st.none() | st.binary(max_size=80)), max_size=4).map(tuple)
rows = st.lists(st.tuples(blobs, blobs, st.none() | timestamps, headers), min_size=1, max_size=40)
long_rows = st.tuples(st.tuples(blobs, blobs, timestamps, headers), st.integers(60, 700)).map(lambda t: [t[0]] * t[1])


@st.composite
def batches(draw):
    """A batch, and the records that a reader must find in it."""
    put = draw(rows | long_rows)
    now = draw(st.integers(0, MAX))
    base = draw(st.integers(0, MAX - len(put)))
    epoch = draw(st.integers(-1, 2**31 - 1))
    batch = encode(
        put, now_ms=now, codec=draw(st.sampled_from(Codec)), producer_id=draw(st.integers(-1, MAX)),
        producer_epoch=draw(st.integers(-1, 2**15 - 1)), base_sequence=draw(st.integers(-1, 2**31 - 1)),
        transactional=draw(st.booleans()),
    )  # fmt: skip
    batch.stamp(base, epoch)
    append_time = draw(st.none() | st.integers(0, MAX))
    if append_time is not None:
        batch.stamp_append_time(append_time)
    scope = BatchScope("topic", 7, epoch, 0 if append_time is None else 1)
    model = []
    for index, (value, key, timestamp, pairs) in enumerate(put):
        found = now if timestamp is None else timestamp
        found = found if append_time is None else append_time
        model.append(ConsumerRecord(base + index, found, key, value, pairs, scope))
    return batch, model


@given(batches())
def test_records_come_back_as_they_were(made):
    batch, model = made
    read = Batch.parse(bytes(batch.data))
    read.check()
    assert read.records("topic", 7) == model
    assert (read.base_offset, read.last_offset, read.count) == (model[0].offset, model[-1].offset, len(model))
    assert read.max_timestamp == max(record.timestamp for record in model)


@given(batches(), st.integers(-3, 45))
def test_a_reader_may_start_anywhere(made, start):
    batch, model = made
    first = min(batch.base_offset + start, 2**63 - 1)
    assert batch.records("topic", 7, first) == [record for record in model if record.offset >= first]


@given(st.lists(batches(), max_size=4), st.integers(0, 60))
def test_batches_lie_one_after_the_other(made, cut):
    data = b"".join(bytes(batch.data) for batch, _ in made)
    spans, end, reason = walk(data + bytes(batch_start(cut)))
    assert (end, reason) == (len(data), None)
    assert [(span.size, span.base_offset, span.count) for span in spans] == [
        (batch.size, batch.base_offset, batch.count) for batch, _ in made
    ]
    assert [batch.records("topic", 7) for batch in split(data)] == [model for _, model in made]


def batch_start(size):
    """The beginning of a batch that is not there yet."""
    return encode([(bytes(100), None, 0, ())], now_ms=0).data[:size]


@given(st.lists(batches(), max_size=4), st.data())
def test_columns_are_the_records(made, data):
    pytest.importorskip("pyarrow")
    offsets = sorted({record.offset for _, model in made for record in model}) or [0]
    first, end = (data.draw(st.sampled_from(offsets)) + data.draw(st.integers(-1, 1)) for _ in range(2))
    first, end = max(-1, min(first, MAX)), max(-1, min(end, MAX))
    found = columns([*sources(batch for batch, _ in made)], first, end, frozenset(NAMES))
    for array in found.values():
        array.validate(full=True)
    assert list(zip(*(found[name].to_pylist() for name in NAMES), strict=True)) == [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, as_column(r.headers))
        for _, model in made
        for r in model
        if first <= r.offset < end
    ]


def as_column(pairs):
    return [{"key": name, "value": value} for name, value in pairs] or None


@given(rows)
def test_no_record_is_larger_than_its_size_bound(put):
    for row in put:
        encoded = encode([(row[0], row[1], row[2], row[3])], now_ms=0)
        assert encoded.size - 61 <= record_size_bound(row[0], row[1], row[3])
