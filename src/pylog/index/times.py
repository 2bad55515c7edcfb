"""The time index of a segment: up to which offset a time has come (Kafka's TimeIndex).

    .timeindex   12 bytes an entry:   i64 timestamp | i32 offset - base    timestamps strictly rising

An entry says that no record up to its offset is newer than its timestamp.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from pylog.index.sparse import MAX_INT32, Rows, SparseIndex

NO_TIMESTAMP = -1


class TimeIndex(SparseIndex):
    """Timestamp -> offset up to which no record is newer. One slot is kept free for the entry that closes a segment."""

    _entry = Struct(">qi")
    _kept_free = 1

    def maybe_add(self, timestamp: int, offset: int, *, force: bool = False) -> bool:
        """Add an entry if `timestamp` is above that of the last one (and not -1); gives whether it was added.

        A full index takes the entry only with `force`, which is for the one that closes a segment.
        Raises: StorageError when `timestamp` or `offset` is below that of the last entry.
        """
        relative = offset - self.base_offset
        rows = self.rows
        last, last_relative = (rows.firsts[-1], rows.seconds[-1]) if rows.firsts else (NO_TIMESTAMP, 0)
        if not last_relative <= relative <= MAX_INT32 or timestamp < last:
            raise self._refuse(
                f"timestamp {timestamp} at offset {offset} does not follow "
                f"timestamp {last} at offset {self.base_offset + last_relative}"
            )
        if timestamp == last or (self.is_full and not force):
            return False
        self._append((timestamp,), (relative,))
        self.write_some()
        return True

    def extend(self, timestamps: "array[int]", offsets: "array[int]") -> None:
        """Add timestamps, which rise, with offsets, less the base; one that is that of the last entry is left out, and
        what has no room. They reach the file as those of an `OffsetIndex` do.
        """
        last = self.rows.firsts[-1] if self.rows.firsts else NO_TIMESTAMP
        start = bisect_right(timestamps, last)
        end = start + self.room
        self._append(timestamps[start:end], offsets[start:end])

    def lookup(self, timestamp: int, *, upto: int | None = None) -> tuple[int, int]:
        """The entry with the largest timestamp <= `timestamp`, as (timestamp, offset); (-1, base) when there is none.

        With `upto`, only entries whose offset is below it count.
        """
        rows = self._current()
        found = bisect_right(rows.firsts, timestamp)
        if upto is not None and found and rows.seconds[found - 1] >= upto - self.base_offset:
            found = bisect_left(rows.seconds, upto - self.base_offset, 0, found)
        if not found:
            return NO_TIMESTAMP, self.base_offset
        return rows.firsts[found - 1], self.base_offset + rows.seconds[found - 1]

    def _pair(self, rows: Rows, index: int) -> tuple[int, int]:
        return rows.firsts[index], self.base_offset + rows.seconds[index]

    def truncate(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(bisect_left(self.rows.seconds, offset - self.base_offset))

    def _trusted(self, data: memoryview, last: tuple[int, int] | None) -> int:
        if last is None and len(data) > 12 and not any(data[:24]):
            # One entry of zeros is a record of 1970 at the base offset; more of them are preallocated space.
            return 0
        last_timestamp, last_relative = last if last is not None else (NO_TIMESTAMP, 0)
        count = 0
        for timestamp, relative in self._entry.iter_unpack(data[: len(data) - len(data) % 12]):
            if timestamp <= last_timestamp or relative < last_relative:
                break
            last_timestamp, last_relative = timestamp, relative
            count += 1
        return count
