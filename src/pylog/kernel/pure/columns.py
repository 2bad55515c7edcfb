"""Records to Arrow columns without a Python object per record: numpy over all records of a call at once.

Only finding where each record ends is sequential, as each record's length says where the next one is: one short Python
step a record. From there on a cursor, an array with one position a record, moves through the fields of all records
together: `_varints` reads one field of every record, and looks at a second byte only of those that have one.

Keys and values are not copied one by one: an Arrow binary array lies over the payload, its offsets alternating between
a field and the gap behind it, and `take` picks every second element.

    payload     [len.. key value..][len.. key value..]
    offsets            ^  ^  elements 0, 2, 4... are the keys, 1, 3, 5... the gaps between them

The same bytes are refused as by `decode_records`, whatever columns are wanted. This file needs numpy and pyarrow, so it
is imported only when columns are asked for.
"""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from pylog.errors import CorruptBatch
from pylog.kernel.format import RECORD_BYTES_MIN
from pylog.kernel.pure.varint import read_varint
from pylog.kernel.values import CREATE_TIME, LOG_APPEND_TIME, ColumnSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
"""A numpy array: of positions, lengths and numbers, all int64, or of bytes."""

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_BYTES_MAX = 2**31 - 1  # Arrow's binary offsets are 32-bit
_ROUNDS_MAX = 16


def decode_columns(
    batches: Sequence[ColumnSource], first_offset: int, end_offset: int, want: frozenset[str]
) -> dict[str, pa.Array]:
    """Decode the records in [first_offset, end_offset) of several batches into one array a name in `want`.

    Raises CorruptBatch for what `decode_records` refuses, ValueError for 2 GiB of payload or more in one call and for a
    column that does not exist.
    """
    check_columns(want)
    data = b"".join([source[0] for source in batches])
    if len(data) > _BYTES_MAX:
        raise ValueError(
            f"{len(data)} bytes of records are too many for one Arrow array: ask for fewer, or for records"
        )
    counts = np.array([source[1] for source in batches], np.int64)
    view = np.frombuffer(data, np.uint8)
    starts, ends = _boundaries(batches, view)
    cursor, deltas = _varints(view, starts + 1, ends, 64)  # behind the attributes, which are unused
    cursor, offsets = _varints(view, cursor, ends, 32)
    offsets = _offsets(offsets, batches, counts)
    keys, key_sizes, cursor = _fields(view, cursor, ends)
    values, value_sizes, cursor = _fields(view, cursor, ends)
    headers = _Headers(data, view, cursor, ends)
    kept = np.flatnonzero((offsets >= first_offset) & (offsets < end_offset))
    found: dict[str, pa.Array] = {}
    if "offset" in want:
        found["offset"] = pa.array(offsets[kept])
    if "timestamp" in want:
        found["timestamp"] = pa.array(_timestamps(deltas, batches, counts)[kept])
    if "timestamp_type" in want:
        kinds = [CREATE_TIME if source[5] is None else LOG_APPEND_TIME for source in batches]
        found["timestamp_type"] = pa.array(np.repeat(np.array(kinds, np.int32), counts)[kept])
    if "key" in want:
        found["key"] = _binary(data, keys[kept], key_sizes[kept])
    if "value" in want:
        found["value"] = _binary(data, values[kept], value_sizes[kept])
    if "headers" in want:
        found["headers"] = headers.column(kept)
    return found


_COLUMNS = frozenset({"offset", "timestamp", "timestamp_type", "key", "value", "headers"})


def check_columns(want: frozenset[str]) -> None:
    """Raise ValueError for a column that does not exist."""
    unknown = want - _COLUMNS
    if unknown:
        raise ValueError(f"no column {', '.join(sorted(unknown))}: there are {', '.join(sorted(_COLUMNS))}")


def _boundaries(batches: Sequence[ColumnSource], view: Array) -> tuple[Array, Array]:
    """The begin and the end of each record's body in the payloads put together."""
    ends = array("q")
    append = ends.append
    origin = 0
    for payload, count, *_ in batches:
        size = len(payload)
        if not 0 <= count <= size // RECORD_BYTES_MIN:
            raise CorruptBatch(f"{count} records cannot be in {size} bytes")
        data = payload if isinstance(payload, bytes) else bytes(payload)
        at = 0
        try:
            for _ in range(count):
                # The sign is checked below, for all at once: a negative length leads to a wrong place, but never back.
                n = data[at]
                if n < 0x80:
                    at += (n >> 1) + 1
                else:
                    n = n & 0x7F | data[at + 1] << 7
                    if n <= 0x3FFF:
                        at += (n >> 1) + 2
                    else:
                        n, at = read_varint(data, at)
                        at += n >> 1
                append(at + origin)
        except IndexError:
            raise CorruptBatch(f"the bytes end before {count} records do") from None
        if at != size:
            raise CorruptBatch(f"{count} records take {at} bytes, and there are {size}")
        origin += size
    stops = np.frombuffer(ends, np.int64)
    begins = np.empty_like(stops)
    begins[1:] = stops[:-1]
    begins[:1] = 0
    starts, lengths = _varints(view, begins, stops, 32)
    if not np.array_equal(starts + lengths, stops):
        raise CorruptBatch("a record has a negative length")
    return starts, stops


def _varints(view: Array, cursor: Array, ends: Array, bits: int) -> tuple[Array, Array]:
    """One zigzag varint at every position of `cursor`: its end, and its value."""
    if bool((cursor >= ends).any()):
        raise CorruptBatch("a record ends before its fields do")
    byte = view[cursor]
    values = byte.astype(np.uint64)
    cursor = cursor + 1
    rows = np.flatnonzero(byte > 0x7F)
    if len(rows):
        values &= np.uint64(0x7F)
    shift = 7
    while len(rows):
        if shift >= bits:
            raise CorruptBatch(f"a varint has more than {(bits + 6) // 7} bytes")
        at = cursor[rows]
        if bool((at >= ends[rows]).any()):
            raise CorruptBatch("a record ends in the middle of a varint")
        byte = view[at]
        values[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        cursor[rows] = at + 1
        rows = rows[byte > 0x7F]
        shift += 7
    if bits == 32 and shift > 28:
        values &= np.uint64(0xFFFFFFFF)
    signs = (values & np.uint64(1)).view(np.int64)
    return cursor, (values >> np.uint64(1)).view(np.int64) ^ -signs


def _fields(view: Array, cursor: Array, ends: Array) -> tuple[Array, Array, Array]:
    """The lengths of a field, and its bytes, in every record: begins, sizes (below 0: null), ends."""
    begins, sizes = _varints(view, cursor, ends, 32)
    after = begins + np.maximum(sizes, 0)
    if bool((after > ends).any()):
        raise CorruptBatch("a key, a value or a part of a header does not fit into its record")
    return begins, sizes, after


def _offsets(deltas: Array, batches: Sequence[ColumnSource], counts: Array) -> Array:
    """Deltas to offsets; they must rise from 0 or more up to the batch's last offset."""
    bases = np.repeat(np.array([source[2] for source in batches], np.int64), counts)
    lasts = np.repeat(np.array([source[3] - source[2] for source in batches], np.int64), counts)
    rising = deltas[1:] > deltas[:-1]
    firsts = np.cumsum(counts)[:-1]
    rising[firsts[(firsts > 0) & (firsts < len(deltas))] - 1] = True
    if not bool(rising.all()) or bool((deltas < 0).any()) or bool((deltas > lasts).any()):
        raise CorruptBatch("the offsets of a batch do not rise from its base offset to its last")
    return bases + deltas


def _timestamps(deltas: Array, batches: Sequence[ColumnSource], counts: Array) -> Array:
    stamps = deltas + np.repeat(np.array([source[4] for source in batches], np.int64), counts)
    for source, end, count in zip(batches, np.cumsum(counts), counts, strict=True):
        if source[5] is not None:
            stamps[end - count : end] = source[5]
    return stamps


def _binary(data: bytes, begins: Array, sizes: Array) -> pa.Array:
    """The fields at `begins`, which rise, as a binary array, copied once, by Arrow; a size below 0 is null."""
    rows = len(begins)
    edges = np.empty(2 * rows + 1, np.int32)
    edges[0:-1:2] = begins
    edges[1::2] = begins + np.maximum(sizes, 0)
    edges[-1] = edges[-2] if rows else 0
    over = pa.Array.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    nulls = sizes < 0
    picks = pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32), mask=nulls if bool(nulls.any()) else None)
    return over.take(picks)


def texts(names: pa.Array) -> pa.Array:
    """Bytes as strings, with replacement characters where they are not UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


class _Headers:
    """The headers of all records: first scanned for their bounds, then made into a column when that is wanted."""

    def __init__(self, data: bytes, view: Array, cursor: Array, ends: Array) -> None:
        self._data = data
        cursor, counts = _varints(view, cursor, ends, 32)
        self._counts = counts
        if bool((counts < 0).any()) or bool((2 * counts > ends - cursor).any()):
            raise CorruptBatch("a record claims more headers than it has bytes for")
        self._firsts = np.cumsum(counts) - counts
        total = int(counts.sum())
        self._keys, self._key_sizes, self._values, self._value_sizes = np.zeros((4, total), np.int64)
        for number in range(min(int(counts.max(initial=0)), _ROUNDS_MAX)):
            rows = np.flatnonzero(counts > number)
            cursor[rows] = self._read(view, cursor[rows], ends[rows], self._firsts[rows] + number)
        # Few records have more headers than that: theirs are read one by one.
        for row in np.flatnonzero(counts > _ROUNDS_MAX):
            for number in range(_ROUNDS_MAX, int(counts[row])):
                one = slice(row, row + 1)
                cursor[one] = self._read(view, cursor[one], ends[one], self._firsts[one] + number)
        if not np.array_equal(cursor, ends):
            raise CorruptBatch("a record does not have the length it says")

    def _read(self, view: Array, cursor: Array, ends: Array, places: Array) -> Array:
        self._keys[places], sizes, cursor = _fields(view, cursor, ends)
        if bool((sizes < 0).any()):
            raise CorruptBatch("a header has no name")
        self._key_sizes[places] = sizes
        self._values[places], self._value_sizes[places], cursor = _fields(view, cursor, ends)
        return cursor

    def column(self, kept: Array) -> pa.Array:
        """The headers of the records numbered `kept`; null for a record without."""
        rows = len(self._counts)
        total = len(self._keys)
        if total == 0:
            return pa.nulls(len(kept), HEADERS_TYPE)
        names = texts(_binary(self._data, self._keys, self._key_sizes))
        values = _binary(self._data, self._values, self._value_sizes)
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
        edges = np.append(self._firsts, total).astype(np.int32)
        there = np.packbits(self._counts > 0, bitorder="little")
        lists = pa.Array.from_buffers(HEADERS_TYPE, rows, [pa.py_buffer(there), pa.py_buffer(edges)], children=[pairs])
        return lists if len(kept) == rows else lists.take(pa.array(kept))
