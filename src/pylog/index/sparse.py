"""The sparse indexes of a segment: where an offset lies in the file, and up to which offset a time has come.

    .index       8 bytes an entry:   i32 offset - base | i32 position                 both strictly rising
    .timeindex  12 bytes an entry:   i64 timestamp     | i32 offset - base            timestamps strictly rising
    big-endian, no header, no checksum (Kafka's OffsetIndex and TimeIndex)

An offset entry maps the last offset of a batch to the position where that batch starts; a time entry says that no
record up to its offset is newer than its timestamp. The index of the active segment is an array in memory, which its
file gets some entries at a time; that of a sealed one is its file, mapped by the owner, or copied if it is short. A
full index takes no more entries: look-ups stay right and scan longer.

Invariants:
- an index is never the truth: only the prefix of strictly rising entries of a file is believed (an unclean Kafka leaves
  a tail of zeros, a crash may leave anything), and a look-up bounded by the log's size never points behind it;
- a full disk costs entries in the file, not the append they belong to: they are written with the next ones;
- rows are replaced as a whole when they shrink, so readers take no lock.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple, overload

from pylog.errors import DiskFull, LogNotFound, StorageError
from pylog.files import File, Files
from pylog.kernel.format import HEADER_BYTES, UNWRITTEN_MAX

MAX_INT32 = 2**31 - 1
_FEW = 64
"""Entries that are copied out of a file that is not written any more: then no search among them calls Python."""

Vouch = Callable[[memoryview | bytes | None], bool | None]
"""Whether the bytes of a file (None: there is none) are those that were written; None where nobody knows."""


Measure = Callable[[], int]
"""How many bytes the `.log` has that an index is for."""


def unmeasured() -> int:
    """As many bytes as a `.log` can have."""
    return MAX_INT32


def entries_max(log_size: int) -> int:
    """How many entries an index of a `.log` of so many bytes can have: one for each batch, and one behind them."""
    return log_size // HEADER_BYTES + 1


def nobody(data: memoryview | bytes | None) -> bool | None:
    """Nobody knows what an index should be."""
    return None


class Rows(NamedTuple):
    """The two columns of an index as its file has them (offsets relative to the base)."""

    firsts: Sequence[int]
    seconds: Sequence[int]


class _Column(Sequence[int]):
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


class SparseIndex(ABC):
    """What both indexes share: the rows, their file, and how the two are kept together."""

    _entry: Struct
    _kept_free: int

    def __init__(
        self, files: Files, path: str, base_offset: int, max_bytes: int, *, active: bool, vouch: Vouch = nobody,
        log_size: Measure = unmeasured,
    ) -> None:  # fmt: skip
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.capacity = max_bytes // self._entry.size
        """How many entries `segment.index.bytes` allows."""
        self._log_size = log_size
        self._active = active
        self._fault: str | None = None
        self.written = 0
        self._file: File | None = None
        with suppress(LogNotFound):
            self._file = files.open(path, create=active and not files.read_only)
        self.believed = True
        """Whether the file is what it was when it was sealed, as far as that is known. It has no entries else."""
        self.rows = self._load(vouch)
        if active and self.exists and self.sanity() is not None and not files.read_only:
            self._replace(len(self.rows.firsts))

    @property
    def exists(self) -> bool:
        """Whether there is a file. Without one the index is empty, and a look-up leads to the segment's start."""
        return self._file is not None

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return len(self._current().firsts)

    @property
    def is_full(self) -> bool:
        """Whether the next entry has no room, which makes the segment roll."""
        return self.room == 0

    @property
    def room(self) -> int:
        """How many entries can be added."""
        return max(self.capacity - self._kept_free - len(self.rows.firsts), 0)

    def entry(self, index: int) -> tuple[int, int]:
        """Entry number `index`, with what it stands for as it is, not relative to the base. Raises IndexError."""
        rows = self._current()
        # Counted in the first column from its start: the second one may have got another entry just now.
        return self._pair(rows, range(len(rows.firsts))[index])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        # All of one moment: there may be fewer a moment later.
        rows = self._current()
        return (self._pair(rows, index) for index in range(len(rows.firsts)))

    @abstractmethod
    def _pair(self, rows: Rows, index: int) -> tuple[int, int]:
        """One entry of these, with what it stands for as it is."""

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry, or None."""
        try:
            return self.entry(-1)
        except IndexError:
            return None

    def sanity(self) -> str | None:
        """What was wrong with the file when it was opened, in words; None when every byte of it could be believed."""
        return self._fault

    def reset(self) -> None:
        """Drop every entry; the index is active from now on."""
        if self.rows.firsts or self._fault is not None or not self._active:
            self._replace(0)
        self._fault = None

    def seal(self) -> None:
        """Nothing will be added any more: from now on the entries are read from the file.

        Raises: DiskFull when the last entries do not fit into the file; the index is still active then.
        """
        if not self._active or self._file is None:
            return
        self._flush(self._file)
        self.rows = self._mapped(self._file.view(), len(self.rows.firsts))
        self._active = False

    def unseal(self) -> None:
        """Entries are added to a sealed index again. A file that could not be believed as a whole is begun anew."""
        file = self._file
        if file is None or self.sanity() is not None:
            self._replace(len(self.rows.firsts))
        else:
            # Arrays of their own: another thread may be searching the old rows.
            self.rows = self._unpacked(memoryview(file.read(0, file.size())), len(self.rows.firsts))
            self.written = len(self.rows.firsts)
            self._active = True

    def to_sync(self) -> Iterator[File]:
        """The file, if there is one, with the entries as far as the disk has room for them: what is missing is rebuilt,
        not lost.
        """
        if self._file is not None:
            if self._active:
                self._flush_if_room()
            yield self._file

    def close(self) -> None:
        """Give the descriptor back. What is in memory can still be looked up by who is in the middle of it."""
        if self._file is not None:
            if self._active and not self._file.read_only:
                self._flush_if_room()
            self._file.close()

    def _load(self, vouch: Vouch = nobody) -> Rows:
        """The entries of the file. Of one that is not what it was when it was sealed there are none: look-ups scan."""
        file, data = self._file, None
        if file is not None and self._is_too_large(size := file.size()):
            self.believed, self._fault = False, f"its segment has no room for an index of {size} bytes"
            return Rows(array("q"), array("q"))
        if file is not None:
            data = memoryview(file.read(0, file.size())) if self._active else file.view()
        known = vouch(data)
        self.believed = known is not False
        if data is None or not self.believed:
            self._fault = "the file is missing" if data is None else "it is not what it was when its segment was sealed"
            return Rows(array("q"), array("q"))
        count = len(data) // self._entry.size if known else self._trusted(data, None)
        if count * self._entry.size != len(data):
            self._fault = f"only {count} entries ({count * self._entry.size} of {len(data)} bytes) can be believed"
        if not self._active:
            return self._mapped(data, count)
        self.written = count
        return self._unpacked(data, count)

    def _is_too_large(self, size: int) -> bool:
        """Whether a file of so many bytes cannot be the index: it is never read then, nor mapped."""
        return size > max(self.capacity, entries_max(self._log_size())) * self._entry.size + self._entry.size

    @abstractmethod
    def _trusted(self, data: memoryview, last: tuple[int, int] | None) -> int:
        """How many entries at the start of `data` can be believed, if `last` is the entry before them."""

    def _unpacked(self, data: memoryview, count: int) -> Rows:
        rows = list(self._entry.iter_unpack(data[: count * self._entry.size]))
        return Rows(array("q", [row[0] for row in rows]), array("q", [row[1] for row in rows]))

    def _mapped(self, view: memoryview, count: int) -> Rows:
        if count <= _FEW:
            rows = self._unpacked(view, count)
            return Rows(tuple(rows.firsts), tuple(rows.seconds))
        return Rows(_Column(view, count, self._entry, 0), _Column(view, count, self._entry, 1))

    def _current(self) -> Rows:
        """The rows; those of an index that another process is appending to include what it has added by now."""
        file = self._file
        if file is None or not self._active or not file.read_only or not self.believed:
            return self.rows
        # Of one moment: another thread may be doing the same.
        rows = self.rows
        known = len(rows.firsts) * self._entry.size
        size = file.size()
        if size < known:
            self.rows = rows = self._load()
        elif size - known >= self._entry.size and not self._is_too_large(size):
            data = memoryview(file.read(known, size - known))
            last = (rows.firsts[-1], rows.seconds[-1]) if rows.firsts else None
            more = self._unpacked(data, self._trusted(data, last))
            # New arrays: another thread may be searching the old ones.
            self.rows = rows = Rows(
                array("q", [*rows.firsts, *more.firsts]), array("q", [*rows.seconds, *more.seconds])
            )
        return rows

    def _append(self, firsts: Sequence[int], seconds: Sequence[int]) -> None:
        rows = self.rows
        if not isinstance(rows.firsts, array) or not isinstance(rows.seconds, array):
            raise StorageError(f"{self.path} is the index of a sealed segment and takes no more entries")
        # Who searches the first column looks into the second one afterwards, so that is filled first.
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
            # The batch that this entry is for is in the log already, and must not be refused for its index.
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
        """Drop all but the first `count` entries; a sealed index becomes active by that."""
        if count < len(self.rows.firsts):
            self._replace(count)

    def _replace(self, count: int) -> None:
        """Begin a new file with the first `count` entries. The old one is never cut: another thread may have it mapped,
        and whoever touches a map behind the end of its file is killed."""
        if self._file is not None:
            self._file.close()
            self.files.remove(self.path)
            self._file = None
        self.rows = Rows(array("q", self.rows.firsts[:count]), array("q", self.rows.seconds[:count]))
        self.written = 0
        self._active = True
        self._flush_if_room()

    def _refuse(self, what: str) -> StorageError:
        return StorageError(f"{self.path}, entry {self.entries}: {what}. Run `pylog verify` on the log")
