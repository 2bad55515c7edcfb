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
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from pylog.errors import LogNotFound
from pylog.files import File, Files

MAGIC = b"PYLOGSEA"
VERSION = 1
NO_FILE = -1

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


def mark(files: Files, path: str) -> Mark:
    """What the file at `path` is now."""
    try:
        data = files.read_file(path)
    except LogNotFound:
        return Mark(NO_FILE, 0)
    return Mark(len(data), crc32c(data))


def write_seal(files: Files, path: str, seal: Seal) -> File:
    """Write a seal, not synced; gives its file. Raises DiskFull, StorageError."""
    body = _BODY.pack(MAGIC, VERSION, seal.base_offset, seal.log_size, *seal.index, *seal.timeindex, *seal.txnindex)
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
