"""The file of an index: how large it may be, whether it is believed, and its entries as two columns.

    entry 0 | entry 1 | ...      each a first and a second number, of the widths that a `struct.Struct` says

The entries of an index that is written are arrays. Those of one that is read are copied where they are few, and else
unpacked from the mapped file where they are touched.
"""

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple, overload

from pylog.kernel.format import HEADER_BYTES

FEW = 64
"""The most entries that are copied out of the file of a sealed index: a search among copies calls no Python."""

Vouch = Callable[[memoryview | bytes | None], bool | None]
"""Whether the bytes of a file (None: there is no file) are those that were written; None where that is not known."""

Measure = Callable[[], int]
"""The size in bytes of the `.log` that an index is for."""


def not_known(data: memoryview | bytes | None) -> bool | None:
    """Answer that it is not known what an index should be."""
    return None


def unmeasured() -> int:
    """The most bytes that a `.log` can have."""
    return 2**31 - 1


def entries_max(log_size: int) -> int:
    """The most entries that an index of a `.log` of so many bytes can have: one for each batch, and one behind them."""
    return log_size // HEADER_BYTES + 1


class IndexColumns(NamedTuple):
    """The two columns of an index as its file has them (offsets relative to the base)."""

    firsts: Sequence[int]
    seconds: Sequence[int]


class IndexColumn(Sequence[int]):
    """One column of a mapped index file, unpacked where it is touched."""

    __slots__ = ("_count", "_entry", "_view", "_which")

    def __init__(self, view: memoryview, count: int, entry: Struct, which: int) -> None:
        self._view = view
        self._count = count
        self._entry = entry
        self._which = which

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(index)
        found: int = self._entry.unpack_from(self._view, index * self._entry.size)[self._which]
        return found


def unpacked(entry: Struct, data: memoryview, count: int) -> IndexColumns:
    """The first `count` entries in `data`, as arrays."""
    rows = list(entry.iter_unpack(data[: count * entry.size]))
    return IndexColumns(array("q", [row[0] for row in rows]), array("q", [row[1] for row in rows]))


def mapped(entry: Struct, view: memoryview, count: int) -> IndexColumns:
    """The same over a mapped file, for rows that do not change."""
    if count <= FEW:
        rows = unpacked(entry, view, count)
        return IndexColumns(tuple(rows.firsts), tuple(rows.seconds))
    return IndexColumns(IndexColumn(view, count, entry, 0), IndexColumn(view, count, entry, 1))


def rising(entry: Struct, data: memoryview, last: tuple[int, int], step: int) -> int:
    """The number of entries at the start of `data` that can follow the entry `last`: each first number is larger than
    the one before it, and each second one by `step` at least.
    """
    last_first, last_second = last
    count = 0
    for first, second in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
        if first <= last_first or second < last_second + step:
            break
        last_first, last_second = first, second
        count += 1
    return count
