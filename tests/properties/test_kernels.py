"""The compiled kernel is held to the pure one: on drawn rows, on any bytes, on what Kafka wrote, and on that damaged.

Where there is no compiled kernel the pure one is compared with itself, which at least proves the checks.
"""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pylog.kernel import pure
from pylog.protocol.batch import encode
from pylog.protocol.compression import Codec
from tests.support.check_kernel import (
    appends_the_same,
    check_kernel,
    checks_the_same,
    decodes_the_same,
    encodes_the_same,
    hashes_the_same,
    makes_the_same_records,
    publishes_the_same,
    reads_the_same,
)
from tests.support.sampling import every

try:
    from pylog.kernel import compiled as kernel
except ImportError:
    kernel = pure

GOLDEN = Path(__file__).parents[1] / "golden"

contents = st.none() | st.binary(max_size=80) | st.integers(60, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=20), contents), max_size=3).map(tuple)
stamps = st.none() | st.sampled_from([-1, 0, 2**63 - 1]) | st.integers(-1, 2**63 - 1)
rows = st.tuples(contents, contents, stamps, headers)
anything = st.none() | st.integers() | st.text(max_size=3) | st.binary(max_size=3) | st.floats() | st.booleans()
flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=4)


def flipped(data, flips):
    damaged = bytearray(data)
    for at, mask in flips:
        damaged[at % len(damaged)] ^= mask
    return bytes(damaged)


@given(st.lists(rows, max_size=8), st.integers(-1, 2**63 - 1), st.integers(-5, 20_000))
def test_both_kernels_encode_rows_alike(rows, now_ms, limit):
    makes_the_same_records(kernel, rows)
    encodes_the_same(kernel, rows, now_ms=now_ms, limit=limit)


@given(st.tuples(anything, anything, anything, st.lists(st.tuples(anything, anything) | anything, max_size=2)))
def test_both_kernels_take_or_refuse_fields_alike(fields):
    makes_the_same_records(kernel, [fields])


@given(st.lists(rows, min_size=1, max_size=5), st.sampled_from(Codec), flips, st.integers(0, 100))
def test_both_kernels_read_batches_alike(rows, codec, flips, cut):
    data = bytes(encode(rows, now_ms=5, codec=codec).data) * 2
    reads_the_same(kernel, flipped(data, flips)[: len(data) - cut])


@given(st.lists(rows, min_size=1, max_size=5), flips, st.integers(-2, 2), st.integers(-5, 5), st.integers(0, 2**63 - 1))
@example([(None, None, None, ())], [], 0, 0, 2**63 - 1)
@example([(None, None, None, ())], [], 1, 0, 2**63 - 1)
def test_both_kernels_read_streams_alike(rows, flips, more, beyond, base):
    data, count, _, _ = pure.encode_records(rows, 5, 0)
    last = min(base + count - 1 + beyond, 2**63 - 1)
    decodes_the_same(
        kernel, flipped(data, flips), count + more, base_offset=base, last_offset=last,
        base_timestamp=base, append_timestamp=None if beyond else base,
    )  # fmt: skip


@given(
    st.lists(rows, min_size=1, max_size=5), flips, st.integers(-1, 1), st.lists(st.integers(0, 30_000), max_size=3),
    st.sampled_from([0, 100, 20_000, 2**31 - 1]), st.integers(0, 40),
)  # fmt: skip
def test_both_kernels_check_streams_in_pieces_alike(rows, flips, more, cuts, record_max, lost):
    data, count, base, _ = pure.encode_records(rows, 5, 0)
    data = flipped(data, flips)[: max(len(data) - lost, 0) if lost < 20 else None]
    ends = sorted(min(cut % (len(data) + 1), len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    checks_the_same(kernel, pieces, count + more, base, record_max)


@given(st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=3), flips, st.integers(0, 2000))
def test_both_kernels_note_batches_alike(batches, flips, room):
    # No CRC is looked at there: what is wrong with a header was found before.
    data = [bytes(encode(rows, now_ms=5).data) for rows in batches]
    appends_the_same(kernel, [flipped(data[0], flips), *data], room=room)


ends = st.sampled_from([-1, 2**32 - 1, 2**32, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64])


@given(st.lists(st.integers(0, 5) | ends, min_size=11, max_size=11))
def test_both_kernels_publish_alike(numbers):
    publishes_the_same(kernel, numbers)


@given(st.binary(max_size=120), st.integers(-2, 2**31 - 1) | st.integers(0, 8))
def test_both_kernels_walk_any_bytes_alike(data, count):
    reads_the_same(kernel, data)
    decodes_the_same(kernel, data, count)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_both_kernels_hash_keys_alike(keys):
    hashes_the_same(kernel, keys)


def test_both_kernels_read_kafkas_batches_alike():
    files = [path.read_bytes() for path in sorted(GOLDEN.rglob("*.log"))]
    assert files
    # What is drawn is for the tests above, almost.
    check_kernel(kernel, every(3, files), rounds=10)


def test_both_kernels_read_batches_of_kafkas_classes_alike(fixtures):
    paths = [fixtures / "facts" / name for name in ("batches.json.gz", "batches_invalid.json.gz")]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"{paths} are absent: set PYLOG_FIXTURES to a folder that has facts")
    made = [json.loads(gzip.decompress(path.read_bytes())) for path in paths]
    batches = [bytes.fromhex(case["hex"]) for found in made for cases in found.values() for case in found_in(cases)]
    assert len(batches) > 100
    check_kernel(kernel, every(3, batches), rounds=0)


def found_in(cases):
    return [case for case in cases if "hex" in case] if isinstance(cases, list) else []
