"""Micro-benchmarks of the kernel's functions, each alone: `make bench-micro`. Not part of the test suite.

A call works on a batch of 1,000 distinct records of the usual size (8-byte key, 100-byte value), but for `walk`, which
has a MiB of batches of 1,000 or of 1, and `murmur2`, which has a key. They say which function a change has made faster
or slower; what that is worth to a user is what `make bench` says.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import KEY_BYTES, MIB, VALUE_BYTES, keys_and_values
from pylog.kernel import BatchScope, KeyTable, decode_records, encode_records, keep_records, murmur2, scan_records, walk
from pylog.kernel.columns import decode_columns
from pylog.protocol.batch import encode

COUNT = 1000
NOW_MS = 1_700_000_000_000
ROWS = [(value, key, NOW_MS + index, ()) for index, (key, value) in enumerate(keys_and_values(COUNT))]
WITH_HEADERS = [(value, key, time, (("trace", b"0123456789abcdef"),)) for value, key, time, _ in ROWS]
BATCH = encode(ROWS, now_ms=NOW_MS)
PAYLOAD = bytes(BATCH.payload())
SCOPE = BatchScope("bench", 0, 0, 0)

Benchmark = Callable[..., Any]


def stream(records: int) -> bytes:
    """A MiB of batches of so many records, with rising offsets."""
    data, offset = bytearray(), 0
    while len(data) < MIB:
        at = offset % COUNT
        batch = encode(ROWS[at : at + records], now_ms=NOW_MS, base_offset=offset)
        batch.stamp(offset, 0)
        data += batch.data
        offset += records
    return bytes(data)


def test_encode(benchmark: Benchmark) -> None:
    data, count, _, _ = benchmark(encode_records, ROWS, NOW_MS)
    assert count == COUNT and len(data) > COUNT * (KEY_BYTES + VALUE_BYTES)


def test_encode_with_headers(benchmark: Benchmark) -> None:
    assert benchmark(encode_records, WITH_HEADERS, NOW_MS)[1] == COUNT


def test_decode(benchmark: Benchmark) -> None:
    records = benchmark(decode_records, PAYLOAD, COUNT, 0, BATCH.base_timestamp, None, SCOPE)
    assert [record.value for record in records] == [row[0] for row in ROWS]


def test_decode_with_headers(benchmark: Benchmark) -> None:
    payload = bytes(encode(WITH_HEADERS, now_ms=NOW_MS).payload())
    assert len(benchmark(decode_records, payload, COUNT, 0, BATCH.base_timestamp, None, SCOPE)) == COUNT


@pytest.mark.parametrize("records", [1000, 1])
def test_walk(benchmark: Benchmark, records: int) -> None:
    data = stream(records)
    spans, end, fault = benchmark(walk, data)
    assert (end, fault) == (len(data), None) and spans


def test_columns(benchmark: Benchmark) -> None:
    source = (PAYLOAD, COUNT, 0, COUNT - 1, BATCH.base_timestamp, None)
    found = benchmark(decode_columns, [source], 0, COUNT, frozenset({"offset", "timestamp", "key", "value"}))
    assert len(found["value"]) == COUNT


def test_scan(benchmark: Benchmark) -> None:
    assert len(benchmark(scan_records, PAYLOAD, COUNT, 0, COUNT - 1, BATCH.base_timestamp, None)) == COUNT


def test_filter(benchmark: Benchmark) -> None:
    spans = scan_records(PAYLOAD, COUNT, 0, COUNT - 1, BATCH.base_timestamp, None)
    kept = benchmark(keep_records, spans.select(b"\x01\x00" * (COUNT // 2)), BATCH.base_timestamp)
    assert len(PAYLOAD) * 0.4 < len(kept) < len(PAYLOAD) * 0.6


def test_key_table(benchmark: Benchmark) -> None:
    spans = scan_records(PAYLOAD, COUNT, 0, COUNT - 1, BATCH.base_timestamp, None)
    keys = KeyTable(1 << 16, 1 << 15)

    def probe() -> bytes:
        assert keys.put(spans, 0)[0]
        return bytes(keys.judge(spans, COUNT))

    assert len(benchmark(probe)) == COUNT


def test_murmur2(benchmark: Benchmark) -> None:
    assert isinstance(benchmark(murmur2, b"00000001"), int)
