"""Compression of the record stream of a batch, by codec id.

Invariant: no payload makes `decompress` hold much more than its limit: a bomb is an error and does not end the process.
Every codec can reach any ratio (zeros shrink to a 30,000th). So a stream that grows beyond the limit is measured first,
piece by piece: it is held as a whole only when it is as many records as its batch says, and nothing else.
"""

from collections.abc import Iterator

from pylog.errors import CorruptBatch
from pylog.kernel import STREAM_BYTES_MAX
from pylog.protocol.codecs import (
    LZ4_FAST_LEVEL,
    PACKERS,
    PIECES,
    ZSTD_LEVEL,
    Buffer,
    Codec,
    Packer,
    damaged,
    gzip_compress,
    lz4_compress,
    snappy_compress,
    snappy_pieces,
    too_large,
    zstd_compress,
)

__all__ = [
    "Codec", "Packer", "compress", "decompress", "held_whole", "packer", "pieces", "whole_records"
]  # fmt: skip

LIMIT_BYTES = 64 << 20
LIMIT_RATIO = 256
"""The growth of a payload that is not measured, unless told otherwise: to 64 MiB and 256 times its size."""
PIECE_BYTES = 1 << 18
"""The size of a piece that is only looked at; pieces that are put together have `PART_BYTES`."""
PART_BYTES = 1 << 20
_RECORD_BYTES_MIN = 6  # attributes, two deltas, two lengths, the number of headers


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a record stream. `level` is Kafka's (gzip -1 or 1..9, lz4 1..17, zstd -131072..22), None the default.

    NONE and SNAPPY have no levels and ignore one. Raises ValueError for a level that the codec does not have.
    """
    if codec is Codec.GZIP:
        return gzip_compress(data, -1 if level is None else level)
    if codec is Codec.SNAPPY:
        return snappy_compress(memoryview(data))
    if codec is Codec.LZ4:
        return lz4_compress(data, LZ4_FAST_LEVEL if level is None else level)
    if codec is Codec.ZSTD:
        return zstd_compress(data, ZSTD_LEVEL if level is None else level)
    return bytes(data)


def packer(codec: Codec, level: int | None = None) -> Packer:
    """A packer that compresses in parts as `compress` does at once. Raises ValueError for an unknown level."""
    made: Packer = PACKERS[codec](level)
    return made


def decompress(
    codec: Codec, data: Buffer, *, limit: int | None = None, count: int = 0, record_bytes_max: int = STREAM_BYTES_MAX
) -> bytes:  # fmt: skip
    """The record stream behind `data`: at most `limit` bytes (None: 64 MiB and 256 times the size of `data`).

    It may be longer where it is exactly `count` records, one after the other, each of at most `record_bytes_max` bytes.
    Raises CorruptBatch when the payload is damaged or ends early, and when it would grow beyond the limit.
    """
    if codec is Codec.NONE:
        return bytes(data)
    if limit is None:
        limit = LIMIT_BYTES + LIMIT_RATIO * len(data)
    held = held_whole(codec, data, limit)
    if held is not None:
        return held
    if not count:
        raise too_large(codec, limit)
    return decompress(codec, data, limit=_measure(codec, _pieces(codec, data, PART_BYTES), count, record_bytes_max))


def held_whole(codec: Codec, data: Buffer, limit: int) -> bytes | None:
    """The record stream behind `data`; None where it would grow beyond `limit` bytes. Raises CorruptBatch."""
    parts: list[bytes] = []
    size = 0
    for part in _pieces(codec, data, PART_BYTES):
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def whole_records(codec: Codec, data: Buffer, record_bytes_max: int) -> Iterator[tuple[bytes, int]]:
    """The record stream behind `data`, cut between records: the records that a piece of it ends, and their number.

    Memory holds twice the largest record, and little else, at a time. Raises CorruptBatch where a record is larger than
    `record_bytes_max`, or makes no sense, and where the stream ends inside a record.
    """
    parts: list[Buffer] = []
    held = needed = 0  # of the record that `parts` begin: as far as its length is known
    for piece in pieces(codec, data, record_bytes_max):
        if held + len(piece) < needed:
            parts.append(piece)
            held += len(piece)
            continue
        at = max(needed - held, 0)
        if needed:
            # Appended alone, so that no other bytes are copied with a large piece.
            whole = b"".join([*parts, piece[:at]])
            parts, held, needed = [], 0, 0
            yield whole, 1
        rest = b"".join([*parts, piece[at:]])
        parts, held = [], 0
        at, count, needed = _whole(codec, rest, record_bytes_max)
        if at:
            yield rest[:at], count
        if at < len(rest):
            parts, held = [rest[at:]], len(rest) - at
    if held:
        _whole(codec, b"".join(parts), record_bytes_max)
        raise damaged(codec, "it ends inside of a record")


def _whole(codec: Codec, data: bytes, record_bytes_max: int) -> tuple[int, int, int]:
    """The end of the last whole record in `data`, the number of records up to there, and the size of the next one.

    The size is 0 where it is not known yet. Bytes that cannot be a record raise CorruptBatch once no record is before
    them: those go out first.
    """
    from pylog.kernel.pure.varint import read_varint

    at = count = 0
    while True:
        try:
            size, start = read_varint(data, at)
        except IndexError:
            return at, count, 0
        size = (size >> 1) ^ -(size & 1)
        if not _RECORD_BYTES_MIN <= size <= record_bytes_max:
            if count:
                return at, count, 0
            if size > record_bytes_max:
                raise _record_too_large(size, record_bytes_max)
            raise damaged(codec, "its records make no sense")
        if start + size > len(data):
            return at, count, start - at + size
        at, count = start + size, count + 1


def pieces(codec: Codec, data: Buffer, block_max: int = STREAM_BYTES_MAX) -> Iterator[Buffer]:
    """The record stream behind `data`, in pieces of at most 256 KiB, or of one block of snappy.

    A block is at most `block_max` bytes: no more than one of them need be held. Raises CorruptBatch where the payload
    is damaged or ends early, and where it grows beyond the limit of a batch.
    """
    if codec is Codec.NONE:
        yield data
        return
    size = 0
    for piece in _pieces(codec, data, PIECE_BYTES, block_max):
        size += len(piece)
        if size > STREAM_BYTES_MAX:
            raise too_large(codec, STREAM_BYTES_MAX)
        yield piece


def _pieces(codec: Codec, data: Buffer, most: int, block_max: int = STREAM_BYTES_MAX) -> Iterator[bytes]:
    """The stream behind `data`, in bounded pieces. Raises CorruptBatch for damage."""
    if codec is Codec.SNAPPY:
        return snappy_pieces(memoryview(data), block_max)
    return PIECES[codec](memoryview(data), most)


def _measure(codec: Codec, pieces: Iterator[bytes], count: int, record_bytes_max: int) -> int:
    """The bytes that `count` records take, each with its length before it. Raises CorruptBatch for anything else."""
    total = left = length = shift = 0
    for piece in pieces:
        at, end = 0, len(piece)
        total += end
        if total > STREAM_BYTES_MAX:
            raise too_large(codec, STREAM_BYTES_MAX)
        while at < end:
            if left:
                step = min(left, end - at)
                at, left = at + step, left - step
                continue
            byte = piece[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                left, length, shift = (length >> 1) ^ -(length & 1), 0, 0
                count -= 1
                if left > record_bytes_max:
                    raise _record_too_large(left, record_bytes_max)
            if shift > 28 or count < 0 or (shift == 0 and left < _RECORD_BYTES_MIN):
                raise damaged(codec, f"its records make no sense {total - end + at} bytes behind the start")
    if left or shift or count:
        raise damaged(codec, f"it ends inside of its records, after {total} bytes")
    return total


def _record_too_large(size: int, record_bytes_max: int) -> CorruptBatch:
    return CorruptBatch(
        f"a record has {size} bytes when it is decompressed, and {record_bytes_max} are allowed: it may be made to do "
        "harm. If it is not, raise the consumer's pylog_max_record_bytes"
    )
