"""Produces whose batch is the worst that a codec can be sent: much work, or much memory, for few bytes."""

import gzip
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

from fairness.attack import Attack, Strike, one_request
from pylog.kernel import crc32c
from pylog.protocol import schema

MAX_BYTES = 1_000_000
"""Just below `max.message.bytes`."""
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
RECORD = b"\x0e\0\0\0\1\x02v\0"
"""A record with the value `v`."""


def attacks() -> Iterator[Attack]:
    """One for each way."""
    for name, (codec, count, payload) in WAYS.items():
        yield Attack(f"Produce, {name}", partial(_strike, codec, count, payload))


def batch(codec: int, count: int, payload: bytes) -> bytes:
    """A batch that says it has so many records, with a right CRC."""
    now = int(time.time() * 1000)
    after = struct.pack(">hiqqqhii", codec, count - 1, now, now, -1, -1, -1, count) + payload
    return struct.pack(">qiib", 0, len(after) + 9, -1, 2) + struct.pack(">I", crc32c(after)) + after


def _strike(codec: int, count: int, payload: Callable[[], bytes]) -> Strike:
    part = {"index": 0, "records": batch(codec, count, payload())}
    body = {"acks": 1, "timeoutMs": 30_000, "topicData": [{"name": "attacked", "partitionData": [part]}]}
    data = schema.message("ProduceRequest").encode(9, body)
    return one_request(struct.pack(">hhih", 0, 9, 1, -1) + b"\0" + data)


def _varint(value: int) -> bytes:
    return schema.uvarint(value << 1)


def _sized(body: bytes) -> bytes:
    return _varint(len(body)) + body


def _empty_records(count: int) -> bytes:
    return b"".join(_sized(b"\0\0" + _varint(number) + b"\1\1\0") for number in range(count))


def _headers(count: int) -> bytes:
    return _sized(b"\0\0\0\1\1" + _varint(count) + b"\0\1" * count)


def _skippable_zstd() -> bytes:
    import zstandard

    frame = zstandard.ZstdCompressor(write_content_size=False).compress(RECORD)
    return struct.pack("<II", 0x184D2A50, 0) * (MAX_BYTES // 8 - 100) + frame


def _many_zstd() -> bytes:
    import zstandard

    empty = zstandard.ZstdCompressor(write_content_size=False).compress(b"")
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(RECORD)
    return empty * ((MAX_BYTES - len(frame)) // len(empty)) + frame


def _bomb_zstd() -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(_sized(b"\0\0\0\1" + _varint(512 << 20) + bytes(512 << 20)))


def _many_gzip() -> bytes:
    empty, frame = gzip.compress(b"", mtime=0), gzip.compress(RECORD, mtime=0)
    return empty * ((MAX_BYTES - len(frame)) // len(empty)) + frame


def _bomb_gzip() -> bytes:
    return gzip.compress(_empty_records(9_000_000)[: 64 << 20], 9, mtime=0)[:MAX_BYTES]


def _gzip_name() -> bytes:
    """A member whose name is as long as the batch."""
    plain = gzip.compress(RECORD, mtime=0)
    return plain[:3] + b"\x08" + plain[4:10] + b"x" * (MAX_BYTES - 100) + b"\0" + plain[10:]


def _tiny_snappy() -> bytes:
    """Java's framing with chunks of no bytes."""
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", 1) + b"\0") * (MAX_BYTES // 5 - 100)


def _copies_snappy() -> bytes:
    """Copies of 64 bytes each by three bytes."""
    copies = MAX_BYTES // 3 - 100
    return schema.uvarint(1 + copies * 64) + b"\0x" + b"\xfe\1\0" * copies


def _tiny_lz4() -> bytes:
    import lz4.frame

    frame = lz4.frame.compress(RECORD)
    empty = lz4.frame.compress(b"")
    return empty * ((MAX_BYTES - len(frame)) // len(empty)) + frame


def _bomb_lz4() -> bytes:
    import lz4.frame

    made: bytes = lz4.frame.compress(bytes(200 << 20), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return made[:MAX_BYTES]


WAYS: dict[str, tuple[int, int, Callable[[], bytes]]] = {
    "empty records": (0, 110_000, lambda: _empty_records(110_000)),
    "empty headers": (0, 1, lambda: _headers(MAX_BYTES // 2 - 100)),
    "records by gzip": (GZIP, 1_500_000, lambda: gzip.compress(_empty_records(1_500_000), 6, mtime=0)),
    "empty gzip members": (GZIP, 1, _many_gzip),
    "a gzip bomb": (GZIP, 1, _bomb_gzip),
    "a long gzip name": (GZIP, 1, _gzip_name),
    "empty snappy chunks": (SNAPPY, 1, _tiny_snappy),
    "snappy copies": (SNAPPY, 1, _copies_snappy),
    "empty lz4 frames": (LZ4, 1, _tiny_lz4),
    "an lz4 bomb": (LZ4, 1, _bomb_lz4),
    "skippable zstd frames": (ZSTD, 1, _skippable_zstd),
    "empty zstd frames": (ZSTD, 1, _many_zstd),
    "a zstd bomb": (ZSTD, 1, _bomb_zstd),
}
