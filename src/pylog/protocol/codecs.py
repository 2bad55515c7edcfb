"""The codecs of record batches: their bytes, made and read in parts.

    id  codec   the bytes behind the batch header                                        made with
    0   none    the record stream
    1   gzip    RFC 1952 members, one after the other                                    zlib
    2   snappy  xerial: 82 'SNAPPY' 00, i32 version, i32 compatible, then (i32 size,     cramjam
                raw snappy block of at most 32 KiB of input)...; or one raw block
    3   lz4     an LZ4 frame of independent blocks of at most 64 KiB, no checksums       lz4
    4   zstd    zstd frames, one after the other, without content size                   zstandard

(Kafka: org.apache.kafka.common.compress.) Every payload that Kafka's readers take is taken here, whatever wrote it: raw
snappy, several gzip members, zstd frames or xerial streams, lz4 blocks of any size, bytes behind a gzip member or an
lz4 end mark. A payload that they refuse is CorruptBatch: one that ends early, linked lz4 blocks, bytes behind a zstd
frame, a wrong checksum.

The library of a codec is loaded at its first use.

Every piece that is read is bounded, whatever the payload is: by the size that is asked for, or a block of snappy.
Besides, a reader of zstd keeps the window that the frame declares, 128 MiB at most: its level 22 declares that much, so
Kafka's reader takes it as well.

The work is linear in the bytes that come in and go out, however many frames, members and blocks they are. zlib and lz4
copy the input that they have not used yet, at each piece and behind each member. So they get 256 KiB of it at a time,
and zlib half as much with each member.
"""

import enum
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from pylog.errors import CorruptBatch, InvalidConfig

if TYPE_CHECKING:
    import zstandard

Buffer = bytes | bytearray | memoryview

LZ4_FAST_LEVEL = 9  # Kafka's default; every other level is one of LZ4 HC
LZ4_HC_LEVEL_MIN, LZ4_HC_LEVEL_MAX = 3, 12  # the C library's range: it takes a level beyond for the nearest one
ZSTD_LEVEL = 3
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_GZIP_MEMBER = b"\x1f\x8b"
_FED_BYTES, _FED_BYTES_LEAST = 256 << 10, 4 << 10
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 << 10
_SNAPPY_EMPTY = b"\0"
_SNAPPY_RATIO = 32  # a copy of 64 bytes takes 3: no block grows by more
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC, _ZSTD_SKIPPED = 0xFD2FB528, 0x184D2A5
"""A frame's first 4 bytes, and the first 28 bits of a frame that is passed over, little-endian (RFC 8878)."""
_ZSTD_HEADER_BYTES_MAX = 18
_ZSTD_RAW, _ZSTD_RUN = 0, 1  # kinds of blocks: as they are, and one byte that stands for many
_ZSTD_BLOCK_BYTES = 128 << 10  # four bytes can stand for so many


class Codec(enum.IntEnum):
    """The compression of a batch's records: bits 0-2 of its attributes (Kafka's CompressionType)."""

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
            raise InvalidConfig(f"compression.type {name!r} is not one of {names}") from None


class Packer(Protocol):
    """A compressor of a record stream that comes in parts."""

    def compress(self, data: Buffer, /) -> Buffer:
        """The bytes that are ready by now."""

    def flush(self) -> Buffer:
        """The rest of the bytes: the stream has ended."""


def too_large(codec: Codec, limit: int) -> CorruptBatch:
    return CorruptBatch(f"the {codec.name.lower()} payload grows beyond {limit} bytes: it may be made to do harm")


def damaged(codec: Codec, what: object) -> CorruptBatch:
    return CorruptBatch(f"the {codec.name.lower()} payload is damaged: {what}")


# --- gzip -------------------------------------------------------------------------------------------------------------


def gzip_compress(data: Buffer, level: int) -> bytes:
    deflate = _gzip_compressor(level)
    return b"".join((deflate.compress(data), deflate.flush()))


def _gzip_compressor(level: int | None) -> Packer:
    if level not in (None, -1) and not 1 <= level <= 9:
        raise ValueError(f"gzip level {level}: it is -1 (zlib's default) or 1 to 9")
    return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_FORMAT)


def _gzip_pieces(data: memoryview, most: int) -> Iterator[bytes]:
    at, end, fed = 0, len(data), _FED_BYTES
    rest: Buffer = b""
    while True:
        inflate = zlib.decompressobj(_GZIP_FORMAT)
        while not inflate.eof:
            if not rest:
                rest = data[at : at + fed]
                at += len(rest)
            try:
                part = inflate.decompress(rest, most)
            except zlib.error as error:
                raise damaged(Codec.GZIP, error) from None
            rest = inflate.unconsumed_tail
            if part:
                yield part
            elif at == end and not inflate.eof:
                raise damaged(Codec.GZIP, "it ends early")
        at, rest, fed = at - len(inflate.unused_data), b"", max(fed // 2, _FED_BYTES_LEAST)
        # Java's GZIPInputStream takes bytes that do not begin another member as the end, and so do we.
        if data[at : at + len(_GZIP_MEMBER)] != _GZIP_MEMBER:
            return


# --- snappy -----------------------------------------------------------------------------------------------------------


def snappy_compress(data: memoryview) -> bytes:
    pack = _SnappyPacker()
    return pack.compress(data) + pack.flush()


class _SnappyPacker:
    """A xerial stream that is made in parts."""

    def __init__(self) -> None:
        self._made = [_XERIAL_HEAD]
        self._rest = b""

    def compress(self, data: Buffer) -> bytes:
        view = memoryview(self._rest + data if self._rest else data)
        whole = len(view) - len(view) % _XERIAL_BLOCK_BYTES
        for start in range(0, whole, _XERIAL_BLOCK_BYTES):
            self._add(view[start : start + _XERIAL_BLOCK_BYTES])
        self._rest = bytes(view[whole:])
        return self._given()

    def flush(self) -> bytes:
        if self._rest:
            self._add(memoryview(self._rest))
        return self._given()

    def _add(self, data: memoryview) -> None:
        import cramjam

        block = bytes(cramjam.snappy.compress_raw(data))
        self._made += len(block).to_bytes(4, "big"), block

    def _given(self) -> bytes:
        made, self._made = self._made, []
        return b"".join(made)


def snappy_pieces(data: memoryview, block_max: int) -> Iterator[bytes]:
    for block in _xerial_blocks(data) if data[: len(_XERIAL)] == _XERIAL else [data]:
        piece = _snappy_block(block, block_max)
        if piece:
            yield piece


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    at, end = 0, len(data)
    while at < end:
        # Streams may follow each other: then the magic stands in the place of a block's size (SnappyInputStream).
        if data[at : at + len(_XERIAL)] == _XERIAL:
            if end - at < len(_XERIAL_HEAD) or int.from_bytes(data[at + 8 : at + 12], "big", signed=True) < 1:
                raise damaged(Codec.SNAPPY, "its header is cut off or has a version below 1")
            at += len(_XERIAL_HEAD)
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size <= end - at:
            raise damaged(Codec.SNAPPY, f"a block of {size} bytes, and {max(end - at, 0)} are left")
        yield data[at : at + size]
        at += size


def _snappy_block(block: memoryview, block_max: int) -> bytes:
    import cramjam

    if block == _SNAPPY_EMPTY:
        return b""
    claimed = shift = 0
    for byte in block[:5]:
        claimed |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # The decoder allocates as much as the block claims before it looks further.
    if claimed > block_max:
        raise too_large(Codec.SNAPPY, block_max)
    if claimed > _SNAPPY_RATIO * len(block):
        raise damaged(Codec.SNAPPY, f"a block of {len(block)} bytes claims to hold {claimed}")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise damaged(Codec.SNAPPY, error) from None


# --- lz4 --------------------------------------------------------------------------------------------------------------


def lz4_compress(data: Buffer, level: int) -> bytes:
    import lz4.frame

    framed: bytes = lz4.frame.compress(data, store_size=False, **_lz4_options(level))
    return framed


def _lz4_options(level: int) -> dict[str, int]:
    import lz4.frame

    if not 1 <= level <= 17:
        raise ValueError(f"lz4 level {level}: it is 1 to 17")
    return {
        "compression_level": 0 if level == LZ4_FAST_LEVEL else min(max(level, LZ4_HC_LEVEL_MIN), LZ4_HC_LEVEL_MAX),
        "block_size": lz4.frame.BLOCKSIZE_MAX64KB,
        "block_linked": False,
    }


class _Lz4Packer:
    """A frame that is made in parts."""

    def __init__(self, level: int | None) -> None:
        import lz4.frame

        self._frame = lz4.frame.LZ4FrameCompressor(**_lz4_options(LZ4_FAST_LEVEL if level is None else level))
        self._head: bytes = self._frame.begin()

    def compress(self, data: Buffer) -> bytes:
        head, self._head = self._head, b""
        framed: bytes = head + self._frame.compress(data)
        return framed

    def flush(self) -> bytes:
        framed: bytes = self._head + self._frame.flush()
        return framed


def _lz4_pieces(data: memoryview, most: int) -> Iterator[bytes]:
    import lz4.frame

    _check_lz4_frame(data)
    frame = lz4.frame.LZ4FrameDecompressor()
    at = 0
    while not frame.eof:
        rest: Buffer = b""
        if frame.needs_input:
            rest = data[at : at + _FED_BYTES]
            at += len(rest)
            if not rest:
                raise damaged(Codec.LZ4, "it ends early")
        try:
            part: bytes = frame.decompress(rest, max_length=most)
        except RuntimeError as error:
            raise damaged(Codec.LZ4, error) from None
        if part:
            yield part


def _check_lz4_frame(data: memoryview) -> None:
    """Refuse the frames that Kafka's reader refuses and the library takes (Lz4BlockInputStream.readHeader)."""
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise damaged(Codec.LZ4, "it does not begin with a frame")
    flags, block = data[4], data[5]
    if flags >> 6 != 1:
        raise damaged(Codec.LZ4, f"its frame has version {flags >> 6}, not 1")
    if not flags & 0x20:
        raise damaged(Codec.LZ4, "its blocks are linked, and Kafka's readers take independent ones only")
    if flags & 0x03:
        raise damaged(Codec.LZ4, "its frame has a dictionary or reserved flags")
    if block & 0x8F or block >> 4 < 4:
        raise damaged(Codec.LZ4, f"its frame has the block descriptor {block:#04x}")


# --- zstd -------------------------------------------------------------------------------------------------------------


def zstd_compress(data: Buffer, level: int) -> bytes:
    return _zstd_compressor(level).compress(data)


def _zstd_compressor(level: int) -> "zstandard.ZstdCompressor":
    import zstandard

    if not -131072 <= level <= 22:
        raise ValueError(f"zstd level {level}: it is -131072 to 22")
    # Without content size, as Kafka's stream writer leaves it. A compressor must not be shared between threads.
    return zstandard.ZstdCompressor(level=level, write_content_size=False)


def _zstd_pieces(data: memoryview, most: int) -> Iterator[bytes]:
    import zstandard

    # The reader does not tell whether the last frame is whole, and makes room for all that it is asked for.
    most = max(min(most, _zstd_bytes_max(data)), 1)
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    while True:
        try:
            part = reader.read(most)
        except zstandard.ZstdError as error:
            raise damaged(Codec.ZSTD, error) from None
        if not part:
            return
        yield part


def _zstd_bytes_max(data: memoryview) -> int:
    """The most bytes that frames can hold, by the headers of their blocks. Raises CorruptBatch: they are not whole."""
    at, end, size = 0, len(data), 0
    while True:
        start = int.from_bytes(data[at : at + 4], "little")
        if start >> 4 == _ZSTD_SKIPPED:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        elif start == _ZSTD_MAGIC:
            at, held = _zstd_frame(data, at)
            size += held
        else:
            raise damaged(Codec.ZSTD, f"no whole frame begins at its byte {at}")
        if at > end:
            raise damaged(Codec.ZSTD, "it ends early")
        if at == end:
            return size


def _zstd_frame(data: memoryview, at: int) -> tuple[int, int]:
    """The end of the frame that begins at `at`, beyond `data` where that ends early, and its bytes at most."""
    import zstandard

    try:
        head = zstandard.frame_header_size(data[at : at + _ZSTD_HEADER_BYTES_MAX])
    except zstandard.ZstdError as error:
        raise damaged(Codec.ZSTD, error) from None
    flags, end, size = data[at + 4], len(data), 0
    at += head
    while at + 3 <= end:
        block = int.from_bytes(data[at : at + 3], "little")
        kind, count = block >> 1 & 3, block >> 3
        at += 3 + (1 if kind == _ZSTD_RUN else count)
        size += count if kind in (_ZSTD_RAW, _ZSTD_RUN) else _ZSTD_BLOCK_BYTES
        if block & 1:
            return at + 4 * (flags >> 2 & 1), size
    return end + 1, size


class _PlainPacker:
    """An uncompressed stream, passed on as it comes."""

    def compress(self, data: Buffer) -> Buffer:
        return data

    def flush(self) -> Buffer:
        return b""


PACKERS: dict[Codec, Callable[[int | None], Packer]] = {
    Codec.NONE: lambda _: _PlainPacker(),
    Codec.GZIP: _gzip_compressor,
    Codec.SNAPPY: lambda _: _SnappyPacker(),
    Codec.LZ4: _Lz4Packer,
    Codec.ZSTD: lambda level: _zstd_compressor(ZSTD_LEVEL if level is None else level).compressobj(),
}
PIECES = {Codec.GZIP: _gzip_pieces, Codec.LZ4: _lz4_pieces, Codec.ZSTD: _zstd_pieces}
