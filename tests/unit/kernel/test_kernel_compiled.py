"""What only a compiled kernel has: an instruction for the CRC, memory of its own, objects that nobody can change."""

import gc
import sys

import pytest
from crc32c import crc32c

from pylog.errors import CorruptBatch
from pylog.kernel import BatchScope, Header

compiled = pytest.importorskip("pylog.kernel.compiled", exc_type=ImportError)
stream = pytest.importorskip("pylog.kernel.compiled.stream")

T0 = 1_700_000_000_000
SCOPE = BatchScope("topic", 0, 5, 0)
HEADERS = ((" name", b"value"), ("none", None))


@pytest.mark.parametrize("by_tables", [False, True])
def test_the_crc_is_right_for_every_length_and_alignment(by_tables):
    data = bytes(n * 31 % 251 for n in range(40_000))
    for size in [*range(1000), 3 * 4096 - 1, 3 * 4096, 3 * 4096 + 3 * 128 + 13, 39_990]:
        for start in (0, 1, 7):
            view = memoryview(data)[start : start + size]
            assert stream.crc32c(view, by_tables=by_tables) == crc32c(view)


def test_records_cannot_be_changed_or_derived_from():
    record = compiled.Record(b"v")
    with pytest.raises(AttributeError):
        record.value = b"w"
    with pytest.raises(AttributeError):
        record.more = 1
    with pytest.raises(TypeError):
        type("Derived", (compiled.Record,), {})
    with pytest.raises(AttributeError):
        compiled.ConsumerRecord(0, 0, None, None, (), SCOPE).headers = []


def test_no_cycle_can_go_through_a_record():
    """The collector does not look at records: nothing they refer to may refer to them."""
    kind = type("Bytes", (bytes,), {})
    name = type("Text", (str,), {})("name")
    record = compiled.Record(kind(b"v"), kind(b"k"), None, [(name, kind(b"x"))])
    assert not gc.is_tracked(record)
    assert {type(record.value), type(record.key), type(record.headers[0].value)} == {bytes}
    assert type(record.headers) is tuple and type(record.headers[0]) is Header
    assert type(record.headers[0].key) is str
    scope = BatchScope(type("Text", (str,), {})("topic"), True, 0, 0)
    read = compiled.ConsumerRecord(0, 0, kind(b"k"), kind(b"v"), [(name, None)], scope)
    assert not gc.is_tracked(read)
    assert (type(read.key), type(read.headers[0].key), type(read.scope.topic)) == (bytes, str, str)


def everything(rows, damaged):
    """Every function once, and every refusal."""
    data, count, base, _ = compiled.encode_records(rows, T0, 0)
    payload = bytes(data)
    records = compiled.decode_records(payload, count, 0, base, None, SCOPE)
    again = [compiled.Record(r.value, r.key, r.timestamp, r.headers) for r in records]
    compiled.encode_records(again, T0)
    batch = compiled.OpenBatch(300)
    while batch.add(b"value", b"key", T0, HEADERS) >= 0:
        pass
    batch.close()
    spans = compiled.scan_records(payload, count, 0, count, base, None)
    table = compiled.KeyTable(10, 5)
    table.put(spans)
    some = spans.select(table.judge(spans, 1))
    compiled.keep_records(some, T0)
    found, _, _ = compiled.walk(bytes(61) + payload)
    assert (list(found), some[0][1], hash(again[0]), repr(records)) is not None
    for call in (
        lambda: compiled.decode_records(damaged, count, 0, base, None, SCOPE),
        lambda: compiled.scan_records(damaged, count, 0, count, base, None),
        lambda: compiled.encode_records([(b"v", None, T0, [("\ud800", b"")])], T0),
        lambda: compiled.encode_records([(b"v", None, T0, ()), (b"v", None, "soon", ())], T0),
        lambda: batch.add(b"late", None, T0),
        lambda: compiled.Record(b"v", b"k", T0, [("name", 5)]),
        lambda: spans.select(b""),
    ):
        with pytest.raises((CorruptBatch, TypeError, ValueError)):
            call()


def test_no_memory_leaks():
    rows = [(b"v" * 200, b"k%d" % n, T0 + n, HEADERS) for n in range(20)]
    damaged = bytes(compiled.encode_records(rows, T0, 0)[0])[:-1]
    held = [rows[0][0], rows[0][1], HEADERS, HEADERS[0][1], SCOPE, damaged]
    everything(rows, damaged)
    gc.collect()
    before = sys.getallocatedblocks(), [sys.getrefcount(thing) for thing in held]
    for _ in range(200):
        everything(rows, damaged)
    gc.collect()
    after = sys.getallocatedblocks(), [sys.getrefcount(thing) for thing in held]
    assert after[1] == before[1]
    assert after[0] - before[0] < 100  # a leak would be 200 blocks at least


@pytest.mark.parametrize("name", ["value", "key", "headers"])
def test_fields_of_records_are_read_without_a_call(name):
    slot = type(type("Slotted", (), {"__slots__": ("field",)}).field)
    assert type(getattr(compiled.Record, name)) is slot
    assert type(getattr(compiled.ConsumerRecord, name)) is slot
    record = compiled.Record(b"v", b"k", T0, HEADERS)
    received = compiled.ConsumerRecord(0, T0, b"k", b"v", HEADERS, SCOPE)
    assert getattr(record, name) == getattr(received, name) == {"value": b"v", "key": b"k", "headers": HEADERS}[name]
