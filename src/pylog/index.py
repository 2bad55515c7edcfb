"""The sparse indexes of a segment: where an offset lies in the file, and up to which offset a time has come.

    .index       8 bytes an entry:   i32 offset - base | i32 position                 both strictly rising
    .timeindex  12 bytes an entry:   i64 timestamp     | i32 offset - base            timestamps strictly rising
    big-endian, no header, no checksum (Kafka's OffsetIndex and TimeIndex)

An offset entry maps the last offset of a batch to the position where that batch starts; a time entry says that no
record up to its offset is newer than its timestamp. The index of the active segment is an array in memory; its file
gets some entries at a time. The index of a sealed segment is its file, mapped by the owner, or copied if it is short. A
full index takes no more entries: look-ups stay right and scan longer.

Invariants:
- an index is never the truth: only the prefix of strictly rising entries of a file is believed (an unclean Kafka leaves
  a tail of zeros, a crash may leave anything), and a look-up bounded by the log's size never points behind it;
- a full disk costs entries in the file, not the append they belong to: they are written with the next ones;
- rows are replaced as a whole when they shrink, so readers take no lock.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct

from pylog.errors import DiskFull, LogNotFound, StorageError
from pylog.files import File, Files
from pylog.files.index_file import (
    IndexColumns,
    Measure,
    Vouch,
    entries_max,
    mapped,
    not_known,
    rising,
    unmeasured,
    unpacked,
)
from pylog.kernel.format import NO_TIMESTAMP, UNWRITTEN_MAX

MAX_INT32 = 2**31 - 1


class SparseIndex(ABC):
    """The part that both indexes share: the rows, their file, and how the two are kept together."""

    _entry: Struct
    _step: int
    """By how much the second number of an entry rises at least."""
    _kept_free: int

    def __init__(
        self, files: Files, path: str, base_offset: int, max_bytes: int, *, active: bool, vouch: Vouch = not_known,
        log_size: Measure = unmeasured,
    ) -> None:  # fmt: skip
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.capacity = max_bytes // self._entry.size
        """The number of entries that `segment.index.bytes` allows."""
        self._log_size = log_size
        self._active = active
        self._fault: str | None = None
        self.written = 0
        self._file: File | None = None
        with suppress(LogNotFound):
            self._file = files.open(path, create=active and not files.read_only)
        self.believed = True
        """Whether the file is the one that was sealed, as far as that is known. Otherwise it has no entries."""
        self.rows = self._load(vouch)
        if active and self.exists and self.sanity() is not None and not files.read_only:
            self._replace(len(self.rows.firsts))

    @property
    def exists(self) -> bool:
        """Whether there is a file. Without one the index is empty, and a look-up leads to the segment's start."""
        return self._file is not None

    @property
    def entries(self) -> int:
        """The number of entries."""
        return len(self._current().firsts)

    @property
    def is_full(self) -> bool:
        """Whether the next entry has no room, which makes the segment roll."""
        return self.room == 0

    @property
    def room(self) -> int:
        """The number of entries that can be added."""
        return max(self.capacity - self._kept_free - len(self.rows.firsts), 0)

    def entry(self, index: int) -> tuple[int, int]:
        """Entry number `index`, with its offset absolute, not relative to the base. Raises IndexError."""
        rows = self._current()
        # The first column gives the length: the second one may have got another entry just now.
        return self._pair(rows, range(len(rows.firsts))[index])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        # All entries come from one moment: there may be fewer a moment later.
        rows = self._current()
        return (self._pair(rows, index) for index in range(len(rows.firsts)))

    @abstractmethod
    def _pair(self, rows: IndexColumns, index: int) -> tuple[int, int]:
        """One entry of these rows, with its offset absolute."""

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry, or None."""
        try:
            return self.entry(-1)
        except IndexError:
            return None

    def sanity(self) -> str | None:
        """The fault of the file when it was opened, in words; None when every byte of it could be believed."""
        return self._fault

    def reset(self) -> None:
        """Drop every entry; the index is active from now on."""
        if self.rows.firsts or self._fault is not None or not self._active:
            self._replace(0)
        self._fault = None

    def seal(self) -> None:
        """Seal the index: it takes no more entries, and they are read from the file from now on.

        Raises: DiskFull when the last entries do not fit into the file; the index is still active then.
        """
        if not self._active or self._file is None:
            return
        self._flush(self._file)
        self.rows = mapped(self._entry, self._file.view(), len(self.rows.firsts))
        self._active = False

    def unseal(self) -> None:
        """Make a sealed index take entries again. A file that could not be believed as a whole is begun again."""
        file = self._file
        if file is None or self.sanity() is not None:
            self._replace(len(self.rows.firsts))
        else:
            # The arrays are new: another thread may be searching the old rows.
            self.rows = unpacked(self._entry, memoryview(file.read(0, file.size())), len(self.rows.firsts))
            self.written = len(self.rows.firsts)
            self._active = True

    def to_sync(self) -> Iterator[File]:
        """The file, if there is one, with the entries as far as the disk has room for them.

        Missing entries are rebuilt, not lost.
        """
        if self._file is not None:
            if self._active:
                self._flush_if_room()
            yield self._file

    def close(self) -> None:
        """Give the descriptor back. A search that is under way can still use the rows in memory."""
        if self._file is not None:
            if self._active and not self._file.read_only:
                self._flush_if_room()
            self._file.close()

    def _load(self, vouch: Vouch = not_known) -> IndexColumns:
        """The entries of the file. A file that is not the one that was sealed has none, and look-ups scan."""
        file, data = self._file, None
        if file is not None and self._is_too_large(size := file.size()):
            self.believed, self._fault = False, f"its segment has no room for an index of {size} bytes"
            return IndexColumns(array("q"), array("q"))
        if file is not None:
            data = memoryview(file.read(0, file.size())) if self._active else file.view()
        known = vouch(data)
        self.believed = known is not False
        if data is None or not self.believed:
            self._fault = "the file is missing" if data is None else "it has changed since its segment was sealed"
            return IndexColumns(array("q"), array("q"))
        count = len(data) // self._entry.size if known else self._trusted(data, None)
        if count * self._entry.size != len(data):
            self._fault = f"only {count} entries ({count * self._entry.size} of {len(data)} bytes) can be believed"
        if not self._active:
            return mapped(self._entry, data, count)
        self.written = count
        return unpacked(self._entry, data, count)

    def _is_too_large(self, size: int) -> bool:
        """Whether a file of so many bytes cannot be the index: then it is neither read nor mapped."""
        return size > max(self.capacity, entries_max(self._log_size())) * self._entry.size + self._entry.size

    def _trusted(self, data: memoryview, last: tuple[int, int] | None) -> int:
        """The number of entries at the start of `data` that can be believed, if `last` is the entry before them."""
        return rising(self._entry, data, (-1, 0) if last is None else last, self._step)

    def _current(self) -> IndexColumns:
        """The rows. Those of an index to which another process appends include what it has added by now."""
        file = self._file
        if file is None or not self._active or not file.read_only or not self.believed:
            return self.rows
        # One moment's rows: another thread may be doing the same.
        rows = self.rows
        known = len(rows.firsts) * self._entry.size
        size = file.size()
        if size < known:
            self.rows = rows = self._load()
        elif size - known >= self._entry.size and not self._is_too_large(size):
            data = memoryview(file.read(known, size - known))
            last = (rows.firsts[-1], rows.seconds[-1]) if rows.firsts else None
            more = unpacked(self._entry, data, self._trusted(data, last))
            # The arrays are new: another thread may be searching the old ones.
            self.rows = rows = IndexColumns(
                array("q", [*rows.firsts, *more.firsts]), array("q", [*rows.seconds, *more.seconds])
            )
        return rows

    def _find(self, first: int, below: int | None) -> tuple[IndexColumns, int]:
        """The rows, and the place of the last entry up to `first` whose second number is `below` that; -1: none."""
        rows = self._current()
        found = bisect_right(rows.firsts, first)
        if below is not None and found and rows.seconds[found - 1] >= below:
            found = bisect_left(rows.seconds, below, 0, found)
        return rows, found - 1

    def _append(self, firsts: Sequence[int], seconds: Sequence[int]) -> None:
        rows = self.rows
        if not isinstance(rows.firsts, array) or not isinstance(rows.seconds, array):
            raise StorageError(f"{self.path} is the index of a sealed segment and takes no more entries")
        # A search goes from the first column to the second, so the second is filled first.
        rows.seconds.extend(seconds)
        rows.firsts.extend(firsts)

    def write_some(self) -> None:
        """Write the entries that the file lacks, where they are many."""
        if len(self.rows.firsts) - self.written >= UNWRITTEN_MAX:
            self._flush_if_room()

    def _flush_if_room(self) -> None:
        try:
            if self._file is None:
                self._file = self.files.open(self.path, create=True)
            self._flush(self._file)
        except DiskFull:
            # The log has the batch of this entry already: a full disk must not refuse it for its index.
            return

    def _flush(self, file: File) -> None:
        """Write the entries that are not in the file yet."""
        count = len(self.rows.firsts)
        if count > self.written:
            rows, start = self.rows, self.written
            data = b"".join(map(self._entry.pack, rows.firsts[start:], rows.seconds[start:]))
            file.write(self.written * self._entry.size, data)
            self.written = count

    def _keep(self, count: int) -> None:
        """Drop all but the first `count` entries; that makes a sealed index active."""
        if count < len(self.rows.firsts):
            self._replace(count)

    def _replace(self, count: int) -> None:
        """Begin a new file with the first `count` entries.

        The old file is never cut: another thread may have it mapped, and touching a map behind the end of its file
        kills the process.
        """
        if self._file is not None:
            self._file.close()
            self.files.remove(self.path)
            self._file = None
        self.rows = IndexColumns(array("q", self.rows.firsts[:count]), array("q", self.rows.seconds[:count]))
        self.written = 0
        self._active = True
        self._flush_if_room()

    def _refuse(self, what: str) -> StorageError:
        return StorageError(f"{self.path}, entry {self.entries}: {what}. Run `pylog verify` on the log")


class OffsetIndex(SparseIndex):
    """Offset -> position of the batch whose last offset it is. A missing file is an empty index."""

    _entry = Struct(">ii")
    _step = 1
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
        """Add batches by their last offsets (less the base) and positions, which both rise. Entries without room are
        left out.

        They reach the file with the next `write_some`, `sync`, `add`, `seal` or `close`. Raises: StorageError unless
        the first are above those of the last entry and the last fit into 31 bits.
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
        """The entry with the largest offset <= `offset`, as (offset, position); (base, 0) when there is no such entry.

        With `log_size`, only entries that point below it count.
        """
        rows, place = self._find(offset - self.base_offset, log_size)
        return self._pair(rows, place) if place >= 0 else (self.base_offset, 0)

    def last_upto(self, position: int) -> int:
        """The last position of an entry that is at most `position`; 0 when there is no such entry."""
        positions = self._current().seconds
        found = bisect_right(positions, position)
        return positions[found - 1] if found else 0

    def _pair(self, rows: IndexColumns, index: int) -> tuple[int, int]:
        return self.base_offset + rows.firsts[index], rows.seconds[index]

    def truncate(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(bisect_left(self.rows.firsts, offset - self.base_offset))


class TimeIndex(SparseIndex):
    """Timestamp -> offset up to which no record is newer. One slot is kept free for the entry that closes a segment."""

    _entry = Struct(">qi")
    _step = 0
    _kept_free = 1

    def maybe_add(self, timestamp: int, offset: int, *, force: bool = False) -> bool:
        """Add an entry if `timestamp` is above that of the last one (and not -1); return whether it was added.

        A full index takes the entry only with `force`, which is for the entry that closes a segment. Raises:
        StorageError when `timestamp` or `offset` is below that of the last entry.
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
        """Add timestamps, which rise, with offsets (less the base).

        A timestamp equal to that of the last entry is left out, and so is what has no room. The entries reach the file
        as those of an `OffsetIndex` do.
        """
        last = self.rows.firsts[-1] if self.rows.firsts else NO_TIMESTAMP
        start = bisect_right(timestamps, last)
        end = start + self.room
        self._append(timestamps[start:end], offsets[start:end])

    def lookup(self, timestamp: int, *, upto: int | None = None) -> tuple[int, int]:
        """The entry with the largest timestamp <= `timestamp`, as (timestamp, offset); (-1, base) when there is no such
        entry.

        With `upto`, only entries whose offset is below it count.
        """
        rows, place = self._find(timestamp, None if upto is None else upto - self.base_offset)
        return self._pair(rows, place) if place >= 0 else (NO_TIMESTAMP, self.base_offset)

    def _pair(self, rows: IndexColumns, index: int) -> tuple[int, int]:
        return rows.firsts[index], self.base_offset + rows.seconds[index]

    def truncate(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(bisect_left(self.rows.seconds, offset - self.base_offset))

    def _trusted(self, data: memoryview, last: tuple[int, int] | None) -> int:
        if last is None and len(data) > 12 and not any(data[:24]):
            # One entry of zeros is a record of 1970 at the base offset; more of them are preallocated space.
            return 0
        return super()._trusted(data, last)
