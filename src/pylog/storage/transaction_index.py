"""The transaction index of a segment: the aborted transactions whose markers lie in it.

    .txnindex   34 bytes an entry, big-endian, no header, no checksum (Kafka's TransactionIndex and AbortedTxn)

    0    version             i16   0
    2    producer id         i64
    10   first offset        i64   of the transaction's data, which may lie some segments before the marker
    18   last offset         i64   the marker
    26   last stable offset  i64   right after the abort

Invariants:
- entries lie in the order of their markers, and there is no file before the first of them;
- it is never the truth: only the prefix of entries that can be is believed, and a partial one at the end is no entry;
- a leader or a follower reserves the room of an entry before it writes the marker: readers in other processes know the
  file alone, so a full disk refuses the marker (`reserve`);
- zeros at the end are that room: no entry is zeros, as it begins before it ends;
- recovery finds markers that are there already: a full disk keeps their entries in memory until the next ones, and the
  segment is not sealed before (`trim`);
- the file is small and never mapped, so it may be cut; one that another process appends to is read again each time.
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from pylog.errors import DiskFull, StorageError
from pylog.files import File, Files
from pylog.files.index_file import Measure, Vouch, entries_max, not_known, unmeasured
from pylog.kernel import crc32c

_VERSION = 0
_ENTRY = Struct(">hqqqq")
_PARTIAL_BYTES = 1 << 10
"""What may lie behind the last entry."""


class AbortedTxn(NamedTuple):
    """A transaction that was aborted: data in [first_offset, last_offset), the marker at last_offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """The last stable offset right after the abort."""


class TransactionIndex:
    """The aborted transactions whose markers lie in a segment, in the order of the markers."""

    def __init__(
        self, files: Files, path: str, base_offset: int, *, vouch: Vouch = not_known, log_size: Measure = unmeasured
    ) -> None:  # fmt: skip
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self._file: File | None = None
        self._log_size = log_size
        self._surplus = False  # whether the file may hold more than there is
        self.summed, self.crc = 0, 0  # how many rows the checksum covers
        data = self._read()
        self.believed = vouch(data) is not False
        """Whether the file is what it was when its segment was sealed, as far as that is known."""
        self.rows, self._fault = self._parsed(data)
        self._written = len(self.rows)

    @property
    def exists(self) -> bool:
        """Whether there is a file; with a full disk it may still lack entries that are in memory."""
        return self._file is not None or self.files.stat(self.path) is not None

    @property
    def entries(self) -> int:
        """The number of transactions."""
        return len(self._current())

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._current())

    def sanity(self) -> str | None:
        """The fault of the file when it was opened, in words; None when all of it could be believed.

        A partial entry at the end is what a crash leaves, and nothing wrong.
        """
        return self._fault

    def reserve(self, count: int) -> None:
        """Make room in the file for so many more entries. Raises DiskFull: then the markers must not be written."""
        self._flush()
        self._surplus = True
        self._open().write(self._written * _ENTRY.size, bytes(count * _ENTRY.size))

    def append(self, txn: AbortedTxn) -> None:
        """Note an aborted transaction. A full disk keeps it in memory; it is written with the next one.

        Raises: StorageError unless its marker lies behind that of the last.
        """
        last = self.rows[-1].last_offset if self.rows else self.base_offset - 1
        if txn.last_offset <= last:
            raise StorageError(
                f"{self.path}, entry {len(self.rows)}: a marker at offset {txn.last_offset} does not follow {last}. "
                "Run `pylog verify` on the log"
            )
        self.rows.append(txn)
        self._flush_if_room()

    def collect(self, start: int, upto: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions with records in [start, upto), and whether none can be in later segments.

        (TransactionIndex.collectAbortedTxns)
        """
        found = []
        for txn in self._current():
            if txn.last_offset >= start and txn.first_offset < upto:
                found.append(txn)
            if txn.last_stable_offset >= upto:
                return found, True
        return found, False

    def checksum(self) -> tuple[int, int]:
        """The number of entries, and the crc32c of their bytes: what `matches` goes by in another process."""
        if self.summed < len(self.rows):
            for txn in self.rows[self.summed :]:
                self.crc = crc32c(_ENTRY.pack(_VERSION, *txn), self.crc)
            self.summed = len(self.rows)
        return self.summed, self.crc

    def matches(self, entries: int, crc: int) -> bool:
        """Whether the file begins with these entries, whatever has been added to it since."""
        size = entries * _ENTRY.size
        if size == 0:
            return True
        data = self._read() or b""
        return len(data) >= size and crc32c(data[:size]) == crc

    def truncate(self, offset: int) -> None:
        """Drop the transactions whose markers lie at or above `offset`."""
        kept = [txn for txn in self.rows if txn.last_offset < offset]
        if len(kept) < len(self.rows):
            self._cut(kept)

    def reset(self) -> None:
        """Drop everything, what could not be believed too, to be rebuilt.

        The file is written over from its start, and cut by `trim` or `close`: who reads in another process goes on
        seeing what a recovery only repeats.
        """
        self._fault = None
        self.rows, self._written, self._surplus = [], 0, self.exists
        self.summed, self.crc = 0, 0

    def to_sync(self) -> Iterator[File]:
        """The file, if there is one. Nothing is written here: another thread may be appending."""
        file = self._file
        if file is not None:
            yield file

    def close(self) -> None:
        """Give the descriptor back. A look-up that is under way goes on in memory."""
        self._flush_if_room()
        self._cut_surplus()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> bytes | None:
        """The file, or None, as nearly always. Raises StorageError where it cannot be one."""
        if self.files.stat(self.path) is None:
            return None
        return self.files.read_file(self.path, entries_max(self._log_size()) * _ENTRY.size + _PARTIAL_BYTES)

    def _parsed(self, data: bytes | None) -> tuple[list[AbortedTxn], str | None]:
        """The entries of a file that can be trusted, and the fault of the rest."""
        rows: list[AbortedTxn] = []
        if data is None:
            return rows, None
        last = self.base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]):
            txn = AbortedTxn(*fields)
            if version != _VERSION:
                return rows, f"entry {len(rows)} has version {version}, which is not known"
            if not (last < txn.last_offset and 0 <= txn.first_offset < txn.last_offset and txn.last_stable_offset >= 0):
                return rows, f"entry {len(rows)} cannot be: {txn} after a marker at offset {last}"
            last = txn.last_offset
            rows.append(txn)
        return rows, None

    def _current(self) -> list[AbortedTxn]:
        # Another process may have added some, or taken some away.
        return self._parsed(self._read())[0] if self.files.read_only else self.rows

    def _cut(self, kept: list[AbortedTxn]) -> None:
        """Keep the first entries only, which are `kept`: a new list, for another thread may be reading the old one."""
        self.rows, self._written = kept, min(self._written, len(kept))
        self.summed, self.crc = 0, 0
        self._open().truncate(self._written * _ENTRY.size)
        self._flush_if_room()

    def _open(self) -> File:
        if self._file is None:
            self._file = self.files.open(self.path, create=True)
        return self._file

    def trim(self) -> None:
        """Write what a full disk kept in memory, and cut off what a `reset` or `reserve` has left. Raises DiskFull."""
        self._flush()
        self._cut_surplus()

    def _cut_surplus(self) -> None:
        if self._surplus:
            self._open().truncate(self._written * _ENTRY.size)
            self._surplus = False

    def _flush(self) -> None:
        """Write the entries that are not in the file yet. Raises DiskFull."""
        missing = self.rows[self._written :]
        if missing:
            data = b"".join([_ENTRY.pack(_VERSION, *txn) for txn in missing])
            self._open().write(self._written * _ENTRY.size, data)
            self._written += len(missing)

    def _flush_if_room(self) -> None:
        # The markers are in the log already, and must not be refused for their index.
        with suppress(DiskFull):
            self._flush()
