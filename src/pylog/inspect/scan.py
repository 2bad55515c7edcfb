"""Batches read out of a file that nothing vouches for.

    file   [ batch ][ batch ][ damaged batch ][ batch ][ torn ta
             good     good     Damage            good     Damage: the file ends inside it

`batches` reads a file window by window and gives every whole batch whose CRC holds, in file order, and a `Damage` for
each other stretch. Behind a damaged batch it goes on only where that is safe: the damaged header still has a length,
and behind that many bytes comes the header of a later batch, or the end of the file. Otherwise the rest of the file is
one Damage.

Invariants: the batches and damages given cover the file without gap or overlap; no file content raises anything here,
only the disk itself can (StorageError). Kafka's `FileLogInputStream` stops at the first damage and takes a torn tail
for the end.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pylog.errors import CorruptBatch, StorageError
from pylog.files import File
from pylog.kernel import walk
from pylog.kernel.format import HEADER_BYTES, LOG_OVERHEAD
from pylog.protocol.batch import Batch

__all__ = ["Damage", "FoundBatch", "batches", "words"]

WINDOW_BYTES = 4 << 20

_HEADER = struct.Struct(">qiib")
"""Base offset, batch length, leader epoch, magic."""


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A whole batch at `position` whose CRC holds. Its records have not been looked at."""

    position: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Damage:
    """`size` bytes at `position` that are not a good batch.

    `offset` is the base offset in the header there, None if it has none.
    """

    position: int
    size: int
    offset: int | None
    what: str
    batch: Batch | None
    """The batch as its header describes it, where that much can be read (a wrong CRC)."""
    is_torn: bool = False
    """Whether the file ends inside this batch: an append that was cut short."""


def words(error: BaseException) -> str:
    """The words of an error about the bytes, without the place and the advice that it adds for a user."""
    return error.reason if isinstance(error, CorruptBatch) else str(error)


def batches(file: File, start: int = 0) -> Iterator[FoundBatch | Damage]:
    """Everything in `file`, from byte `start`, where a batch has to begin, to the end it had when this was called.

    Raises: StorageError (the disk).
    """
    position, size, window = start, file.size(), WINDOW_BYTES
    while position < size:
        wanted = min(window, size - position)
        data = file.read(position, wanted)
        if len(data) < wanted:
            # The owner cut the file while it was read: bytes that are gone are not damage.
            size = position + len(data)
        at_end = position + len(data) >= size
        spans, good, fault = walk(data, 0, check_crc=True)
        for span in spans:
            yield FoundBatch(position + span.position, Batch.parse(data, span.position))
        if fault is None and good == 0 and not at_end:
            window = _window_for(data, window)
            if window <= size - position:
                continue
        if fault is None and (good > 0 and not at_end):
            position, window = position + good, WINDOW_BYTES
            continue
        position += good
        if position >= size:
            return
        damage = (
            _torn(data[good:], position, size) if fault is None else _faulty(file, data, good, position, fault, size)
        )
        yield damage
        position, window = damage.position + damage.size, WINDOW_BYTES


def _window_for(data: bytes, window: int) -> int:
    """The number of bytes to read for the batch that begins `data` and is larger than it."""
    return max(window + 1, LOG_OVERHEAD + int.from_bytes(data[8:12], "big", signed=True))


def _torn(data: bytes, position: int, size: int) -> Damage:
    there = size - position
    if len(data) < LOG_OVERHEAD:
        return Damage(position, there, None, f"the file ends {there} bytes into a batch header", None, is_torn=True)
    offset, length = struct.unpack_from(">qi", data)
    what = f"the last batch is cut off: {there} of its {length + LOG_OVERHEAD} bytes are there"
    return Damage(position, there, offset, what, None, is_torn=True)


def _faulty(file: File, data: bytes, good: int, position: int, fault: str, size: int) -> Damage:
    """The bad batch at `position`, which is `good` in `data`.

    It is as long as its header says, if the bytes behind it confirm that.
    """
    there = size - position
    if not any(data[good:]) and good + there == len(data):
        what = f"{there} zero bytes lie behind the last batch: space that was reserved, or a write that was lost"
        return Damage(position, there, None, what, None, is_torn=True)
    if len(data) < good + HEADER_BYTES:
        return Damage(position, there, None, fault, None)
    offset, length, _, magic = _HEADER.unpack_from(data, good)
    end = position + LOG_OVERHEAD + length
    if length < HEADER_BYTES - LOG_OVERHEAD or end > size or magic != 2 or not _bears_out(file, end, offset, size):
        rest = f"{fault}; nothing in the {there} bytes from here to the end of the file can be trusted"
        return Damage(position, there, offset if offset >= 0 else None, rest, None)
    return Damage(position, end - position, offset, fault, _parsed(file.read(position, end - position)))


def _bears_out(file: File, position: int, after: int, size: int) -> bool:
    """Whether a batch with a higher offset than `after` seems to start at `position`, or the file ends there."""
    if position == size:
        return True
    head = file.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return False
    offset, length, _, magic = _HEADER.unpack_from(head)
    return bool(offset > after and length >= HEADER_BYTES - LOG_OVERHEAD and magic == 2)


def _parsed(data: bytes) -> Batch | None:
    try:
        return Batch.parse(data, 0)
    except StorageError:
        return None
