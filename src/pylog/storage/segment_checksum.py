"""The checksums of a segment's files from when it was sealed: beside them, so that a flipped bit is not believed.

    <base>.pylog-seal    "PYLOGSEA" | u32 version | 16 bytes topic id (zeros: not known) | i32 partition
                         | i64 base offset | i64 where the next segment begins, or the log ends
                         | i64 bytes, u32 crc32c of .log | i64 when its bytes were read, ms (-1: not yet, and no CRC)
                         | i64 bytes, u32 crc32c of .index | the same of .timeindex | of .txnindex   (-1: no file)
                         | u32 crc32c of all before; little-endian

Kafka's batches have CRCs, and its snapshots; its indexes have none, a batch's CRC leaves out where it says that it is
(base offset, length, leader epoch, magic), and nothing says where a `.log` should end, which one follows, or whose it
is. So an index that does not match its seal is not used; a `.log` that is shorter has been cut; one that is another
partition's is not read; and where the next segment begins later, one is missing.

A seal is written when a segment is sealed, and for the active one at a clean close; it goes before the segment is
written to again. The CRC of the `.log` comes later, from the `scrubber`, which reads every byte in the background: a
roll does not wait for that.

A seal speaks of files that pylog wrote: where neither the log nor the offset index is what it says, and the topic is a
compacted one, another program has put a new segment there (Kafka's cleaner does), and the seal says nothing; otherwise
an older copy was put there. One that is damaged says nothing either.
(reliability: R5.)
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from pylog.errors import DiskFull, LogNotFound
from pylog.files import File, Files, join
from pylog.kernel import crc32c

MAGIC = b"PYLOGSEA"
VERSION = 2
NO_FILE = -1
NOT_YET = -1
SEAL = ".pylog-seal"
INDEXES = (".index", ".timeindex", ".txnindex")
WINDOW_BYTES = 1 << 20
INDEX_BYTES_MAX = 1 << 29
"""What no index is larger than: an entry of 12 bytes for each batch of 61 in a segment of 2 GiB takes less."""
CHANGED = "an offset or a leader epoch that no CRC covers has changed"
"""What has happened to a `.log` whose batches are good, each in itself, and whose bytes are others than they were."""

_BODY = struct.Struct("<8sI16siqqqIqqIqIqI")
_CRC = struct.Struct("<I")


class Mark(NamedTuple):
    """The size and the CRC of a file; a size of -1 without a file."""

    size: int
    crc: int


NO_TOPIC = UUID(int=0)


class Identity(NamedTuple):
    """Whose a segment is."""

    topic_id: UUID = NO_TOPIC
    """Zero where that is not known."""
    partition: int = -1

    def contradicts(self, other: "Identity") -> bool:
        """Whether the two are known, and not one."""
        return self != other and NO_TOPIC not in (self.topic_id, other.topic_id)


NOBODY = Identity()


@dataclass(frozen=True, slots=True)
class Seal:
    """The sizes and checksums of a segment's files, and the partition that they belong to. `log` has a CRC only where
    `read_ms` says when its bytes were read.
    """

    identity: Identity
    base_offset: int
    next_offset: int
    log: Mark
    read_ms: int
    index: Mark
    timeindex: Mark
    txnindex: Mark

    @property
    def indexes(self) -> tuple[Mark, Mark, Mark]:
        """The marks in the order of `INDEXES`."""
        return self.index, self.timeindex, self.txnindex


def mark(files: Files, path: str) -> Mark:
    """The mark of the file at `path` as it is now."""
    return mark_of(files.read_file(path, INDEX_BYTES_MAX) if files.stat(path) is not None else None)


def mark_of(data: bytes | memoryview | None) -> Mark:
    """The mark of a file with these bytes; None: there is no file."""
    return Mark(NO_FILE, 0) if data is None else Mark(len(data), crc32c(data))


def mark_of_log(files: Files, path: str) -> Mark:
    """The mark of a `.log`, which may be too large for memory."""
    file = files.open(path)
    try:
        size, crc = file.size(), 0
        for position in range(0, size, WINDOW_BYTES):
            crc = crc32c(file.read(position, min(WINDOW_BYTES, size - position)), crc)
        return Mark(size, crc)
    finally:
        file.close()


def write_seal(files: Files, path: str, seal: Seal) -> File:
    """Write a seal if there is no seal, not synced; gives its file. Raises DiskFull, StorageError."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, encoded(seal))
    except BaseException:
        file.close()
        raise
    return file


def encoded(seal: Seal) -> bytes:
    """The bytes of a seal."""
    topic_id, partition = seal.identity
    marks = (number for one in seal.indexes for number in one)
    body = _BODY.pack(
        MAGIC, VERSION, topic_id.bytes, partition, seal.base_offset, seal.next_offset, *seal.log, seal.read_ms, *marks
    )
    return body + _CRC.pack(crc32c(body))


def read_seal(files: Files, path: str) -> Seal | None:
    """The seal at `path`, or None, or none that can be believed."""
    try:
        data = files.read_file(path, _BODY.size + _CRC.size)
    except LogNotFound:
        return None
    if len(data) != _BODY.size + _CRC.size or data[_BODY.size :] != _CRC.pack(crc32c(data[: _BODY.size])):
        return None
    magic, version, topic_id, partition, base_offset, next_offset, *rest = _BODY.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        return None
    size, crc, read_ms, *marks = rest
    return Seal(
        Identity(UUID(bytes=topic_id), partition), base_offset, next_offset, Mark(size, crc), read_ms,
        Mark(*marks[0:2]), Mark(*marks[2:4]), Mark(*marks[4:6]),
    )  # fmt: skip


def forget_seals(files: Files, directory: str) -> None:
    """Let the seals in a folder say nothing any more: somebody else has changed it, or it is given to somebody."""
    for name in files.list_dir(directory):
        if name.endswith(SEAL):
            files.remove(join(directory, name))


class SealFile:
    """The seal of one segment: read when it is first asked for, and gone before anything is written to the segment.

    `path_of` gives the path of a file of the segment by its suffix; one that is being written (`is_new`) has none.
    """

    def __init__(
        self, files: Files, path_of: Callable[[str], str], identity: Identity, base_offset: int, *, is_new: bool
    ) -> None:
        self._files = files
        self._path_of = path_of
        self._identity = identity
        self._base_offset = base_offset
        # What it says. Another one each time that it is written, or gone: who was reading it keeps that out of sight.
        self._known: dict[None, Seal | None] = {None: None} if is_new else {}
        self._file: File | None = None

    @property
    def is_read(self) -> bool:
        """Whether what it says is known."""
        return None in self._known

    def known(self) -> Seal | None:
        """The seal, if it was read and holds one."""
        return self._known.get(None)

    def log_size(self) -> int:
        """The size of the `.log` in bytes; 0 where that is not known."""
        seal = self.known()
        return seal.log.size if seal is not None else 0

    def forget(self) -> None:
        """Let it be read again."""
        self._known = {}

    def ignore(self) -> None:
        """Let it say nothing, whatever is there."""
        self._known = {None: None}

    def read(self, log_size: int, *, is_rewritten: bool) -> Seal | None:
        """The seal of a segment whose `.log` has so many bytes now, if there is one.

        `is_rewritten`: another program may have written the segment again.
        """
        known, seal = self._known, read_seal(self._files, self._path_of(SEAL))
        if seal is not None and seal.base_offset != self._base_offset:
            seal = None
        if seal is not None and is_rewritten and log_size != seal.log.size and self._mark(".index") != seal.index:
            # Another program has written a new segment here.
            seal = None
        return known.setdefault(None, seal)

    def is_anothers(self) -> bool:
        """Whether it says that the segment is another partition's."""
        seal = self.known()
        return seal is not None and seal.identity.contradicts(self._identity)

    def vouches(self, kind: str, data: memoryview | bytes | None) -> bool | None:
        """Whether an index file with these bytes is what it was (None: nobody knows)."""
        seal = self.known()
        if seal is None:
            return None
        if mark_of(data) == seal.indexes[INDEXES.index(kind)]:
            return True
        # The owner may have begun to write again just now: it removes the seal before.
        return None if self._files.read_only and self._files.stat(self._path_of(SEAL)) is None else False

    def write(self, next_offset: int, log_size: int) -> None:
        """Write down what the files are, and that the next segment begins at `next_offset`. A full disk leaves it
        unsaid.
        """
        self.close()
        marks = [self._mark(kind) for kind in INDEXES]
        seal = Seal(self._identity, self._base_offset, next_offset, Mark(log_size, 0), NOT_YET, *marks)
        try:
            self._file = write_seal(self._files, self._path_of(SEAL), seal)
        except DiskFull:
            self.remove()
        else:
            self._known = {None: seal}

    def note_read(self, log: Mark, read_ms: int) -> None:
        """Write down what the bytes of the `.log` were when all of them were read. A full disk leaves the seal as it
        was: it is replaced as a whole.
        """
        known = self.known()
        if known is None:
            return
        seal = replace(known, log=log, read_ms=read_ms)
        self.close()
        with suppress(DiskFull):
            self._files.replace_file(self._path_of(SEAL), encoded(seal))
            self._known = {None: seal}

    def remove(self) -> None:
        """Say nothing any more."""
        self.ignore()
        self.close()
        if self._files.stat(self._path_of(SEAL)) is not None:
            self._files.remove(self._path_of(SEAL))

    def to_sync(self) -> Iterator[File]:
        """The file, as far as it was written and not synced yet. Who syncs has no lock: it may be removed just now."""
        file = self._file
        if file is not None:
            yield file

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _mark(self, kind: str) -> Mark:
        return mark(self._files, self._path_of(kind))
