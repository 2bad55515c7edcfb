"""What the files of a segment were when it was sealed: beside them, so that a flipped bit is not believed.

    <base>.pylog-seal    "PYLOGSEA" | u32 version | i64 base offset | i64 bytes of .log
                         | i64 bytes, u32 crc32c of .index | the same of .timeindex | of .txnindex   (-1: no file)
                         | u32 crc32c of all before; little-endian

Kafka's batches have CRCs, and its snapshots; its indexes have none, and nothing says where a `.log` should end. So an
index that does not match its seal is not used, and a `.log` that is shorter has been cut. A seal is written when a
segment is sealed, and for the active one at a clean close; it goes before the segment is written to again.

A seal speaks of files that pylog wrote: where neither the log nor the offset index is what it says, another program has
put a new segment there (Kafka's cleaner does), and the seal says nothing. One that is damaged says nothing either.
(reliability: R5.)
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from pylog.errors import DiskFull, LogNotFound
from pylog.files import File, Files

MAGIC = b"PYLOGSEA"
VERSION = 1
NO_FILE = -1
SEAL = ".pylog-seal"
INDEXES = (".index", ".timeindex", ".txnindex")

_BODY = struct.Struct("<8sIqqqIqIqI")
_CRC = struct.Struct("<I")


class Mark(NamedTuple):
    """The size and the CRC of a file; a size of -1 where there is none."""

    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class Seal:
    """What a segment's files were."""

    base_offset: int
    log_size: int
    index: Mark
    timeindex: Mark
    txnindex: Mark

    @property
    def indexes(self) -> tuple[Mark, Mark, Mark]:
        """The marks in the order of `INDEXES`."""
        return self.index, self.timeindex, self.txnindex


def mark(files: Files, path: str) -> Mark:
    """What the file at `path` is now."""
    return mark_of(files.read_file(path) if files.stat(path) is not None else None)


def mark_of(data: bytes | memoryview | None) -> Mark:
    """The mark of a file with these bytes; None: there is no file."""
    return Mark(NO_FILE, 0) if data is None else Mark(len(data), crc32c(data))


def write_seal(files: Files, path: str, seal: Seal) -> File:
    """Write a seal, not synced; gives its file. Raises DiskFull, StorageError."""
    marks = (number for one in seal.indexes for number in one)
    body = _BODY.pack(MAGIC, VERSION, seal.base_offset, seal.log_size, *marks)
    file = files.open(path, create=True)
    file.truncate(0)
    file.write(0, body + _CRC.pack(crc32c(body)))
    return file


def read_seal(files: Files, path: str) -> Seal | None:
    """The seal at `path`; None where there is none, or none that can be believed."""
    try:
        data = files.read_file(path)
    except LogNotFound:
        return None
    if len(data) != _BODY.size + _CRC.size or data[_BODY.size :] != _CRC.pack(crc32c(data[: _BODY.size])):
        return None
    magic, version, base_offset, log_size, *marks = _BODY.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        return None
    return Seal(base_offset, log_size, Mark(*marks[0:2]), Mark(*marks[2:4]), Mark(*marks[4:6]))


class SealFile:
    """The seal of one segment: read when it is first asked for, and gone before anything is written to the segment.

    `path_of` gives the path of a file of the segment by its suffix; one that is being written (`is_new`) has none.
    """

    def __init__(self, files: Files, path_of: Callable[[str], str], base_offset: int, *, is_new: bool) -> None:
        self._files = files
        self._path_of = path_of
        self._base_offset = base_offset
        self._seal: Seal | None = None
        self._file: File | None = None
        self.is_read = is_new

    def known(self) -> Seal | None:
        """What it says, if it was read and says anything."""
        return self._seal

    def read(self, log_size: int) -> Seal | None:
        """What it says of a segment whose `.log` has so many bytes now, if anything."""
        self.is_read = True
        seal = read_seal(self._files, self._path_of(SEAL))
        if seal is None or seal.base_offset != self._base_offset:
            return None
        if log_size != seal.log_size and self._mark(".index") != seal.index:
            # Another program has written a new segment here.
            return None
        self._seal = seal
        return seal

    def vouches(self, kind: str, data: memoryview | bytes | None) -> bool | None:
        """Whether an index file with these bytes is what it was (None: nobody knows)."""
        seal = self._seal
        if seal is None:
            return None
        if mark_of(data) == seal.indexes[INDEXES.index(kind)]:
            return True
        # The owner may have begun to write again just now: it removes the seal before.
        return None if self._files.read_only and self._files.stat(self._path_of(SEAL)) is None else False

    def write(self, log_size: int) -> None:
        """Write down what the files are. A full disk leaves it unsaid."""
        marks = [self._mark(kind) for kind in INDEXES]
        try:
            self._file = write_seal(self._files, self._path_of(SEAL), Seal(self._base_offset, log_size, *marks))
        except DiskFull:
            self.remove()

    def remove(self) -> None:
        """Say nothing any more."""
        self._seal, self.is_read = None, True
        self.close()
        if self._files.stat(self._path_of(SEAL)) is not None:
            self._files.remove(self._path_of(SEAL))

    def sync(self) -> None:
        """Make durable what was written."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _mark(self, kind: str) -> Mark:
        return mark(self._files, self._path_of(kind))
