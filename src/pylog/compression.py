"""Codec ids and what they mean: compress and decompress the record stream of a batch.

    id  codec   what lies behind the batch header                                        made with
    0   none    the record stream
    1   gzip    RFC 1952 members, one after the other                                    zlib
    2   snappy  xerial: 82 'SNAPPY' 00, i32 version, i32 compatible, then (i32 size,     cramjam
                raw snappy block of at most 32 KiB of input)...; or one raw block
    3   lz4     an LZ4 frame of independent blocks of at most 64 KiB, no checksums       lz4
    4   zstd    zstd frames, one after the other, without content size                   zstandard

(Kafka: org.apache.kafka.common.compress.) What Kafka's readers take is taken here, whoever wrote it: raw snappy,
several gzip members, zstd frames or xerial streams, lz4 blocks of any size, bytes behind a gzip member or an lz4 end
mark. What they refuse is CorruptBatch: a payload that ends early, linked lz4 blocks, bytes behind a zstd frame, a wrong
checksum.

Invariant: no payload makes `decompress` hold much more than its limit: a bomb is an error and not the process's end.
No codec's ratio is too good to be true (zeros shrink to a 30,000th), so what grows beyond the limit is measured first,
piece by piece: it is held as a whole only when it is as many records as its batch says, and nothing else.
"""

import enum
import importlib.util
import zlib
from collections.abc import Iterator

import cramjam
import lz4.frame
import zstandard

from pylog.errors import CorruptBatch, InvalidConfig
from pylog.kernel import STREAM_BYTES_MAX

Buffer = bytes | bytearray | memoryview

LIMIT_BYTES = 64 << 20
LIMIT_RATIO = 256
"""What a payload may grow to without being measured, unless told: 64 MiB and 256 times its size."""
"""What no record stream is larger than: a batch says in an i32 how long it is, before it is compressed too."""

LZ4_FAST_LEVEL = 9  # Kafka's default; every other level is one of LZ4 HC
LZ4_HC_LEVEL_MIN, LZ4_HC_LEVEL_MAX = 3, 12  # what the C library knows: levels beyond do what the nearest one does
ZSTD_LEVEL = 3

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_GZIP_MEMBER = b"\x1f\x8b"
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 << 10
_SNAPPY_RATIO = 32  # a copy of 64 bytes takes 3: no block grows by more
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_OUTPUT_STEP_BYTES = 1 << 20
_RECORD_BYTES_MIN = 6  # attributes, two deltas, two lengths, the number of headers
_ZSTD_INPUT_STEP_BYTES = 2 << 10  # four bytes can stand for 128 KiB: a step gives at most 64 MiB


class Codec(enum.IntEnum):
    """How the records of a batch are compressed: bits 0-2 of its attributes (Kafka's CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, name: str) -> "Codec":
        """The codec of a `compression.type`: `"zstd"` -> ZSTD. Raises InvalidConfig."""
        try:
            return cls[name.upper()]
        except KeyError:
            names = ", ".join(codec.name.lower() for codec in cls)
            raise InvalidConfig(f"compression.type {name!r} is none of {names}") from None


def available() -> dict[str, bool]:
    """Which codecs can be used here, by Kafka's names. All of them, in a whole installation."""
    modules = {Codec.SNAPPY: "cramjam", Codec.LZ4: "lz4", Codec.ZSTD: "zstandard"}
    return {
        codec.name.lower(): codec not in modules or importlib.util.find_spec(modules[codec]) is not None
        for codec in Codec
    }


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a record stream. `level` is Kafka's (gzip -1 or 1..9, lz4 1..17, zstd -131072..22), None the default.

    NONE and SNAPPY have no levels and ignore one. Raises ValueError for a level that the codec does not have.
    """
    if codec is Codec.GZIP:
        return _gzip_compress(data, -1 if level is None else level)
    if codec is Codec.SNAPPY:
        return _snappy_compress(memoryview(data))
    if codec is Codec.LZ4:
        return _lz4_compress(data, LZ4_FAST_LEVEL if level is None else level)
    if codec is Codec.ZSTD:
        return _zstd_compress(data, ZSTD_LEVEL if level is None else level)
    return bytes(data)


def decompress(codec: Codec, data: Buffer, *, limit: int | None = None, count: int = 0) -> bytes:
    """The record stream behind `data`: at most `limit` bytes (None: 64 MiB and 256 times what came in), or more where
    it is exactly `count` records, one after the other.

    Raises CorruptBatch when the payload is damaged or ends early, and when it would grow beyond the limit.
    """
    if codec is Codec.NONE:
        return bytes(data)
    if limit is None:
        limit = LIMIT_BYTES + LIMIT_RATIO * len(data)
    parts: list[bytes] = []
    size = 0
    for part in _pieces(codec, data):
        size += len(part)
        if size > limit:
            break
        parts.append(part)
    else:
        return parts[0] if len(parts) == 1 else b"".join(parts)
    if not count:
        raise _too_large(codec, limit)
    parts.clear()
    return decompress(codec, data, limit=_measure(codec, _pieces(codec, data), count))


def _pieces(codec: Codec, data: Buffer) -> Iterator[bytes]:
    """What is behind `data`, in pieces that are bounded whatever it is. Raises CorruptBatch where it is damaged."""
    return _PIECES[codec](memoryview(data))


def _measure(codec: Codec, pieces: Iterator[bytes], count: int) -> int:
    """How many bytes `count` records take, each with its length before it. Raises CorruptBatch where it is not them."""
    total = left = length = shift = 0
    for piece in pieces:
        at, end = 0, len(piece)
        total += end
        if total > STREAM_BYTES_MAX:
            raise _too_large(codec, STREAM_BYTES_MAX)
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
            if shift > 28 or count < 0 or (shift == 0 and left < _RECORD_BYTES_MIN):
                raise _damaged(codec, f"its records make no sense {total - end + at} bytes behind the start")
    if left or shift or count:
        raise _damaged(codec, f"it ends inside of its records, after {total} bytes")
    return total


def _too_large(codec: Codec, limit: int) -> CorruptBatch:
    return CorruptBatch(f"the {codec.name.lower()} payload grows beyond {limit} bytes: it may be made to do harm")


def _damaged(codec: Codec, what: object) -> CorruptBatch:
    return CorruptBatch(f"the {codec.name.lower()} payload is damaged: {what}")


# --- gzip -------------------------------------------------------------------------------------------------------------


def _gzip_compress(data: Buffer, level: int) -> bytes:
    if level != -1 and not 1 <= level <= 9:
        raise ValueError(f"gzip level {level}: it is -1 (zlib's default) or 1 to 9")
    deflate = zlib.compressobj(level, zlib.DEFLATED, _GZIP_FORMAT)
    return deflate.compress(data) + deflate.flush()


def _gzip_pieces(data: memoryview) -> Iterator[bytes]:
    rest: Buffer = data
    while True:
        inflate = zlib.decompressobj(_GZIP_FORMAT)
        while not inflate.eof:
            try:
                part = inflate.decompress(rest, _OUTPUT_STEP_BYTES)
            except zlib.error as error:
                raise _damaged(Codec.GZIP, error) from None
            if not part and not inflate.eof:
                raise _damaged(Codec.GZIP, "it ends early")
            rest = inflate.unconsumed_tail
            yield part
        rest = inflate.unused_data
        # Java's GZIPInputStream takes what does not begin another member as the end, and so do we.
        if rest[:2] != _GZIP_MEMBER:
            return


# --- snappy -----------------------------------------------------------------------------------------------------------


def _snappy_compress(data: memoryview) -> bytes:
    parts = [_XERIAL_HEAD]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _snappy_pieces(data: memoryview) -> Iterator[bytes]:
    for block in _xerial_blocks(data) if data[: len(_XERIAL)] == _XERIAL else [data]:
        yield _snappy_block(block)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    at, end = 0, len(data)
    while at < end:
        # Streams may follow each other: where a block's size would be, the magic stands again (SnappyInputStream).
        if data[at : at + len(_XERIAL)] == _XERIAL:
            if end - at < len(_XERIAL_HEAD) or int.from_bytes(data[at + 8 : at + 12], "big", signed=True) < 1:
                raise _damaged(Codec.SNAPPY, "its header is cut off or has a version below 1")
            at += len(_XERIAL_HEAD)
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size <= end - at:
            raise _damaged(Codec.SNAPPY, f"a block of {size} bytes, and {max(end - at, 0)} are left")
        yield data[at : at + size]
        at += size


def _snappy_block(block: memoryview) -> bytes:
    claimed = shift = 0
    for byte in block[:5]:
        claimed |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # The decoder allocates what the block claims before it looks further.
    if claimed > STREAM_BYTES_MAX:
        raise _too_large(Codec.SNAPPY, STREAM_BYTES_MAX)
    if claimed > _SNAPPY_RATIO * len(block):
        raise _damaged(Codec.SNAPPY, f"a block of {len(block)} bytes claims to hold {claimed}")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(Codec.SNAPPY, error) from None


# --- lz4 --------------------------------------------------------------------------------------------------------------


def _lz4_compress(data: Buffer, level: int) -> bytes:
    if not 1 <= level <= 17:
        raise ValueError(f"lz4 level {level}: it is 1 to 17")
    framed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level == LZ4_FAST_LEVEL else min(max(level, LZ4_HC_LEVEL_MIN), LZ4_HC_LEVEL_MAX),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return framed


def _lz4_pieces(data: memoryview) -> Iterator[bytes]:
    _check_lz4_frame(data)
    frame = lz4.frame.LZ4FrameDecompressor()
    rest: Buffer = data
    while not frame.eof:
        try:
            part: bytes = frame.decompress(rest, max_length=_OUTPUT_STEP_BYTES)
        except RuntimeError as error:
            raise _damaged(Codec.LZ4, error) from None
        rest = b""
        if frame.needs_input and not frame.eof:
            raise _damaged(Codec.LZ4, "it ends early")
        yield part


def _check_lz4_frame(data: memoryview) -> None:
    """Refuse the frames that Kafka's reader refuses and the library takes (Lz4BlockInputStream.readHeader)."""
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise _damaged(Codec.LZ4, "it does not begin with a frame")
    flags, block = data[4], data[5]
    if flags >> 6 != 1:
        raise _damaged(Codec.LZ4, f"its frame has version {flags >> 6}, not 1")
    if not flags & 0x20:
        raise _damaged(Codec.LZ4, "its blocks are linked, and Kafka's readers take independent ones only")
    if flags & 0x03:
        raise _damaged(Codec.LZ4, "its frame has a dictionary or reserved flags")
    if block & 0x8F or block >> 4 < 4:
        raise _damaged(Codec.LZ4, f"its frame has the block descriptor {block:#04x}")


# --- zstd -------------------------------------------------------------------------------------------------------------


def _zstd_compress(data: Buffer, level: int) -> bytes:
    if not -131072 <= level <= 22:
        raise ValueError(f"zstd level {level}: it is -131072 to 22")
    # Without content size, as Kafka's stream writer leaves it. A compressor must not be shared between threads.
    return zstandard.ZstdCompressor(level=level, write_content_size=False).compress(data)


def _zstd_pieces(data: memoryview) -> Iterator[bytes]:
    at, end = 0, len(data)
    while True:
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if at >= end:
                raise _damaged(Codec.ZSTD, "it ends early")
            step = data[at : at + _ZSTD_INPUT_STEP_BYTES]
            try:
                part = frame.decompress(step)
            except zstandard.ZstdError as error:
                raise _damaged(Codec.ZSTD, error) from None
            at += len(step)
            yield part
        at -= len(frame.unused_data)
        if at >= end:
            return


_PIECES = {Codec.GZIP: _gzip_pieces, Codec.SNAPPY: _snappy_pieces, Codec.LZ4: _lz4_pieces, Codec.ZSTD: _zstd_pieces}
