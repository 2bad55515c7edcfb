"""The offset index of a segment: where in the file an offset lies (Kafka's OffsetIndex).

    .index   8 bytes an entry:   i32 offset - base | i32 position    both strictly rising

An entry maps the last offset of a batch to the position where that batch starts.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from pylog.index.sparse import MAX_INT32, Rows, SparseIndex


class OffsetIndex(SparseIndex):
    """Offset -> position of the batch whose last offset it is. A missing file is an empty index."""

    _entry = Struct(">ii")
    _kept_free = 0

    def add(self, offset: int, position: int) -> bool:
        """Add the batch at `position` whose last offset is `offset`; False when the index is full and nothing is added.

        Raises: StorageError unless both are above those of the last entry and fit into 31 bits.
        """
        relative = offset - self.base_offset
        rows = self.rows
        last, last_position = (rows.firsts[-1], rows.seconds[-1]) if rows.firsts else (-1, 0)
        if not last < relative <= MAX_INT32 or not last_position < position <= MAX_INT32:
            raise self._refuse(
                f"offset {offset} at position {position} does not follow "
                f"offset {self.base_offset + last} at position {last_position}"
            )
        if self.is_full:
            return False
        self._append((relative,), (position,))
        self.write_some()
        return True

    def extend(self, offsets: "array[int]", positions: "array[int]") -> None:
        """Add batches by their last offsets, less the base, and positions, which both rise; leave out what has no room.

        They reach the file with the next `write_some`, `sync`, `add`, `seal` or `close`.
        Raises: StorageError unless the first are above those of the last entry and the last fit into 31 bits.
        """
        rows = self.rows
        if not offsets:
            return
        last, last_position = (rows.firsts[-1], rows.seconds[-1]) if rows.firsts else (-1, 0)
        if (
            not last < offsets[0] <= offsets[-1] <= MAX_INT32
            or not last_position < positions[0] <= positions[-1] <= MAX_INT32
        ):
            raise self._refuse(
                f"offsets {self.base_offset + offsets[0]} to {self.base_offset + offsets[-1]} do not follow "
                f"offset {self.base_offset + last}"
            )
        room = self.room
        self._append(offsets[:room], positions[:room])

    def lookup(self, offset: int, log_size: int | None = None) -> tuple[int, int]:
        """The entry with the largest offset <= `offset`, as (offset, position); (base, 0) when there is none.

        With `log_size`, only entries that point below it count.
        """
        rows = self._current()
        found = bisect_right(rows.firsts, offset - self.base_offset)
        if log_size is not None and found and rows.seconds[found - 1] >= log_size:
            found = bisect_left(rows.seconds, log_size, 0, found)
        if not found:
            return self.base_offset, 0
        return self.base_offset + rows.firsts[found - 1], rows.seconds[found - 1]

    def last_upto(self, position: int) -> int:
        """The last position of an entry that is at most `position`; 0 when there is none."""
        positions = self._current().seconds
        found = bisect_right(positions, position)
        return positions[found - 1] if found else 0

    def _pair(self, rows: Rows, index: int) -> tuple[int, int]:
        return self.base_offset + rows.firsts[index], rows.seconds[index]

    def truncate(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(bisect_left(self.rows.firsts, offset - self.base_offset))

    def _trusted(self, data: memoryview, last: tuple[int, int] | None) -> int:
        last_relative, last_position = last if last is not None else (-1, 0)
        count = 0
        for relative, position in self._entry.iter_unpack(data[: len(data) - len(data) % 8]):
            if relative <= last_relative or position <= last_position:
                break
            last_relative, last_position = relative, position
            count += 1
        return count
