"""Rows of Arrow columns, added to the open batches of the partitions that their keys lead to.

A binary column is four things, as Arrow lays it out: the validity (a bit a row, 1: not null; None: no row is null), the
offsets (i32 a row and one more), the bytes of all rows, and the number of the first row in these.
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from pylog.kernel.pure.encode import OpenBatch
from pylog.kernel.pure.keys import murmur2

if TYPE_CHECKING:
    import pyarrow

    from pylog.kernel.values import BytesLike


Block: TypeAlias = "BytesLike | pyarrow.Buffer"
BinaryColumn: TypeAlias = "tuple[Block | None, Block, Block | None, int]"
Stamps: TypeAlias = "tuple[Block, int]"

_OFFSETS = struct.Struct("=ii")
_STAMP = struct.Struct("=q")


def add_columns(
    batches: Sequence[OpenBatch | None], sticky: int, values: BinaryColumn, keys: "BinaryColumn | None",
    stamps: "Stamps | int", first: int, count: int,
) -> int:  # fmt: skip
    """Add the rows [first, count) to `batches`, one a partition, until there is one that cannot be; gives its number,
    or `count` where all were added.

    A row with a key goes where murmur2 says, one without to the partition `sticky`. `stamps`: the times in ms (i64, and
    the number of the first row in these), or one for all. A row cannot be added where its batch is None or has no room,
    or its time is negative. Raises ValueError for a partition that is not there, and for columns with fewer rows, or
    offsets that lead out of the bytes.
    """
    if not 0 <= sticky < len(batches):
        raise ValueError(f"there is no partition {sticky} of {len(batches)}")
    for row in range(first, count):
        key = None if keys is None else _cell(keys, row)
        batch = batches[sticky if key is None else (murmur2(key) & 0x7FFFFFFF) % len(batches)]
        value = _cell(values, row)
        stamp = stamps if isinstance(stamps, int) else _stamp(stamps, row)
        if batch is None or stamp < 0 or batch.add(value, key, stamp) < 0:
            return row
    return count


def _cell(column: BinaryColumn, row: int) -> bytes | None:
    validity, offsets, data, first = column
    at = first + row
    data = memoryview(b"" if data is None else data)
    if at < 0 or (validity is not None and len(memoryview(validity)) <= at >> 3):
        raise ValueError(f"a column has no row {row}")
    if validity is not None and not memoryview(validity)[at >> 3] >> (at & 7) & 1:
        return None
    if len(memoryview(offsets)) < 4 * at + 8:
        raise ValueError(f"a column has no row {row}")
    start, end = _OFFSETS.unpack_from(offsets, 4 * at)
    if not 0 <= start <= end <= len(data):
        raise ValueError(f"row {row} of a column lies outside of its bytes")
    return bytes(data[start:end])


def _stamp(stamps: Stamps, row: int) -> int:
    data, first = stamps
    if first + row < 0 or len(memoryview(data)) < 8 * (first + row) + 8:
        raise ValueError(f"a column has no row {row}")
    stamp: int = _STAMP.unpack_from(data, 8 * (first + row))[0]
    return stamp
