"""The state that reader processes may see: one file in a log directory, written by the owner alone.

    .pylog-published     256 bytes of header, then 256 bytes an entry, one entry a partition; little-endian

    header   "PYLOGPUB" | u32 version | u32 entry size | u32 crc32c of the 16 bytes before
              24  u64 how often a place was given to another key
    entry      0  uuid topic id (16) | i32 partition | u32 crc32c of the 20 bytes before
              32  slot A
             128  slot B
    slot       0  u64 sequence | u64 generation | i64 start | i64 next | i64 high watermark | i64 last stable
              48  i64 durable | i64 data end | i64 last base | u32 flags (1: failed)
              76  u32 entries, u32 crc32c of the last segment's transaction index | u32 crc32c of the key and the 84
                  bytes before

Publishing is one write of one slot, the one that does not hold the latest state; reading takes the slot with the
higher sequence among those whose checksum is right. So a reader that meets a write in the middle, or a crash in the
middle of one, finds the state before it.

Invariants: the file never gets shorter; an entry keeps its place and its key as long as its topic lives, and until the
next owner comes; an entry's sequence only rises. A place of a topic that was deleted goes to the next partition that is
new, in one write: slots that were in it say nothing under another key. Nothing here is the truth but `failed`,
`durable_offset` and `generation`: a lost file costs what only they can say.
"""

import logging
import struct
from collections.abc import Container
from typing import NamedTuple
from uuid import UUID

from pylog.errors import ReadOnly, StorageError, UnsupportedFormat
from pylog.files import File, Files, replaced, too_large
from pylog.kernel import SLOT_BYTES, Slots, crc32c
from pylog.runtime.signals import WholeLock

logger = logging.getLogger("pylog.storage")

MAGIC = b"PYLOGPUB"
VERSION = 1
ENTRY_BYTES = 256
PUBLISHED_BYTES_MAX = ENTRY_BYTES << 20
"""A million entries: more partitions than that no directory has ever had."""

_HEADER = struct.Struct("<8sII")
_KEY = struct.Struct("<16si")
_CRC = struct.Struct("<I")
_GOOD = _HEADER.pack(MAGIC, VERSION, ENTRY_BYTES)
_HEADER_ENTRY = (_GOOD + _CRC.pack(crc32c(_GOOD))).ljust(ENTRY_BYTES, b"\0")
_REUSES_AT, _REUSES_BYTES = 24, 8
_SLOTS_AT = 32
_READ_ATTEMPTS = 100


class PublishedState(NamedTuple):
    """The published state of a partition, its offsets half-open; in the order of the slot."""

    generation: int = 0
    """Rises when files change that a reader may know: odd while they do, also when the owner died at that, even after.
    """
    start_offset: int = 0
    next_offset: int = 0
    high_watermark: int = 0
    last_stable_offset: int = 0
    durable_offset: int = 0
    data_end: int = 0
    """Behind the last record in the files; only a truncation inside a batch leaves it below `next_offset`."""
    last_base: int = 0
    """Where the last segment begins: a reader lists the files again when it has moved."""
    failed: bool = False
    """An I/O error has latched the partition: it takes no appends until the log is opened again."""
    aborted_entries: int = 0
    """How many entries the last segment's transaction index has."""
    aborted_crc: int = 0
    """The crc32c of these entries: the index has no checksum of its own."""


Fields = tuple[int, int, int, int, int, int, int, int, bool, int, int]
"""Those of a `PublishedState`, for each append: a tuple is made in a third of the time."""


class PublishedEntry(Slots):
    """The place of one partition in the file. One publisher at a time; any number of readers."""

    __slots__ = ("_data", "_position", "_published", "_seen", "_state", "key")

    def __init__(self, published: "Published", key: bytes, position: int) -> None:
        self.key = key
        super().__init__(published.file, position + _SLOTS_AT, crc32c(key))
        self._published = published
        self._position = position
        self._seen = -1
        self._data = b""  # the slots that were read last, and the state in them
        self._state: PublishedState | None = None

    def publish(self, state: Fields) -> None:
        """Let readers see `state`. Raises: ReadOnly (not the owner), DiskFull, StorageError."""
        if not self._published.writable:
            raise ReadOnly(f"cannot publish in {self._published.path}: only the owner of the directory does")
        if self.sequence < 0:
            # Nobody else publishes here, so what was read has the latest.
            if self._seen < 0:
                self.read()
            self.sequence = max(self._seen, 0)
        self.show(state)

    def sync(self) -> None:
        """Make what was published durable. Raises StorageError."""
        self._published.sync()

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where the log directory is not the one any more that was opened."""
        self._published.check_in_place()

    def read(self) -> PublishedState | None:
        """The latest state; None when nothing was published yet. Raises: StorageError (both slots are damaged),
        DirectoryReplaced (they are older than what was read before).
        """
        if self._position < 0:
            self._position = self._published.locate(self.key)
            if self._position < 0:
                return None
        numbers = None
        for _ in range(_READ_ATTEMPTS):
            data = self._published.file.read(self._position + _SLOTS_AT, 2 * SLOT_BYTES)
            if data == self._data:
                return self._state
            sequence, numbers = self.newest(data)
            # Never back to the slot before: the newer one is just being read again while it is written.
            if (numbers is not None and sequence >= self._seen) or not any(data):
                self._seen = max(self._seen, sequence)
                self._data, self._state = data, None if numbers is None else PublishedState._make(numbers)
                return self._state
            if not self._published.holds(self.key, self._position):
                # The topic was deleted.
                self._position = -1
                return None
        damage = f"{self._published.path}, position {self._position + _SLOTS_AT}: both slots of an entry are damaged"
        if self._published.writable:
            # A crash within the first publishing, or damage.
            logger.warning("%s; the checkpoints stand in for it", damage)
            return None
        if numbers is not None:
            # Its sequence only rises.
            raise replaced(self._published.path)
        raise StorageError(
            f"{damage}. Close the log everywhere, remove this file, and open the log with mode='own' to have it "
            "written again"
        )


class Published:
    """The file `.pylog-published`. The owner makes it and its entries; a reader finds those that are there.

    Thread-safe: a lock guards the places of the entries, and the end of the file. The slots of an entry are at a place
    of their own, and their one publisher has the lock of their partition.

    Raises: LogNotFound (a reader's file is not there), UnsupportedFormat (a newer version), StorageError (damaged).
    """

    def __init__(self, files: Files, path: str, *, writable: bool) -> None:
        self.path = path
        self.writable = writable
        if writable and files.stat(path) is None:
            # Whole or not there: a crash must not leave half a header.
            files.replace_file(path, _HEADER_ENTRY)
        self.file: File = files.open(path, kept=True)
        self._lock = WholeLock()
        self._positions: dict[bytes, int] = {}
        self._scanned = ENTRY_BYTES
        self._free: list[int] = []
        self._reuses = b""
        try:
            self._check_header()
            self._read_reuses()
            self._scan()
        except BaseException:
            self.file.close()
            raise

    def entry(self, topic_id: UUID, partition: int) -> PublishedEntry:
        """The entry of a partition. An owner adds it if it is new; a reader's reads None until the owner has."""
        key = _KEY.pack(topic_id.bytes, partition)
        with self._lock:
            position = self._locate(key)
            if position < 0 and self.writable:
                position = self._add(key)
        return PublishedEntry(self, key, position)

    def _add(self, key: bytes) -> int:
        position = self._free[-1] if self._free else self._scanned
        self.file.write(position, (key + _CRC.pack(crc32c(key))).ljust(ENTRY_BYTES, b"\0"))
        self._positions[key] = position
        if self._free:
            self._free.pop()
            self._reuses = (int.from_bytes(self._reuses, "little") + 1).to_bytes(_REUSES_BYTES, "little")
            self.file.write(_REUSES_AT, self._reuses)
        else:
            self._scanned += ENTRY_BYTES
        return position

    def free(self, topic_ids: Container[UUID]) -> None:
        """Let new partitions have the places of topics that are none of these. For an owner that has just come."""
        with self._lock:
            self._positions = {key: at for key, at in self._positions.items() if UUID(bytes=key[:16]) in topic_ids}
            kept = set(self._positions.values())
            self._free = [at for at in range(ENTRY_BYTES, self._scanned, ENTRY_BYTES) if at not in kept][::-1]

    def find(self, topic_id: UUID, partition: int) -> PublishedEntry | None:
        """The entry of a partition if its owner has ever added one."""
        key = _KEY.pack(topic_id.bytes, partition)
        position = self.locate(key)
        return PublishedEntry(self, key, position) if position >= 0 else None

    def locate(self, key: bytes) -> int:
        """Where the entry with this key is, -1 if it is not there (yet)."""
        with self._lock:
            return self._locate(key)

    def _locate(self, key: bytes) -> int:
        if key not in self._positions:
            if not self.writable and self._read_reuses():
                self._positions, self._scanned = {}, ENTRY_BYTES
            self._scan()
        return self._positions.get(key, -1)

    def holds(self, key: bytes, position: int) -> bool:
        """Whether the entry at `position` has this key still; it is forgotten where it has not."""
        with self._lock:
            if self.file.read(position, len(key)) == key:
                return True
            self._positions.pop(key, None)
            return False

    def _read_reuses(self) -> bool:
        """Whether places have got other keys since the last look."""
        before, self._reuses = self._reuses, self.file.read(_REUSES_AT, _REUSES_BYTES)
        return self._reuses != before

    def sync(self) -> None:
        """Make what was published durable."""
        self.file.sync()

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where another file, or none, is where this one was: the directory was replaced."""
        if not self.file.is_in_place():
            raise replaced(self.path)

    def close(self) -> None:
        """Give the descriptor back."""
        self.file.close()

    def _check_header(self) -> None:
        header = self.file.read(0, ENTRY_BYTES)
        if len(header) < ENTRY_BYTES:
            # The owner that made the file stopped before its header was whole, or is about to write it.
            if self.writable:
                self.file.write(0, _HEADER_ENTRY)
            return
        magic, version, entry_bytes = _HEADER.unpack_from(header)
        if magic != MAGIC or header[16:20] != _CRC.pack(crc32c(header[:16])):
            raise StorageError(
                f"{self.path}, position 0: this is not a file of published offsets, or it is damaged. Close the log "
                "everywhere, remove it, and open the log with mode='own' to have it written again"
            )
        if version != VERSION or entry_bytes != ENTRY_BYTES:
            raise UnsupportedFormat(
                f"{self.path}: version {version} is not one that this pylog knows ({VERSION}): "
                "open the log with the version that wrote it"
            )

    def _scan(self) -> None:
        """Note the entries that were added since the last scan. Half an entry at the end does not count yet."""
        position, size = self._scanned, self.file.size()
        if size > PUBLISHED_BYTES_MAX:
            raise too_large(self.path, size, PUBLISHED_BYTES_MAX)
        data = self.file.read(position, max(0, size - position))
        for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
            key = data[at : at + _KEY.size]
            if data[at + _KEY.size : at + _KEY.size + 4] == _CRC.pack(crc32c(key)):
                self._positions.setdefault(key, position + at)
            elif not self.writable and at + 2 * ENTRY_BYTES > len(data):
                # The owner may be writing this one right now: look again next time.
                return
            self._scanned = position + at + ENTRY_BYTES
