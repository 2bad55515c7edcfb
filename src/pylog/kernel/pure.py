"""The per-record loops in Python: what runs today, and the specification of a compiled kernel to come.

    record stream    repeat count times
      length         varint    bytes after this field
      attributes     i8        0
      timestamp      varlong   minus the batch's base timestamp
      offset         varint    minus the batch's base offset
      key            varint length (-1: null), bytes
      value          varint length (-1: null), bytes
      headers        varint count, each: varint length, UTF-8 name, varint length (-1: null), bytes

(Kafka: DefaultRecord, DefaultRecordBatch, ByteUtils.) Functions take whole buffers and have no policy. Bytes from
outside are bounded before they are read; what does not fit raises CorruptBatch. Where Kafka's readers are lax so is
this: a key, value or header value length of -2 is null, stray bits in the last byte of a varint pass, a header name
that is not UTF-8 gets replacement characters. One thing is refused that Kafka reads: offsets that do not rise.

Here speed decides over shape: fields are read in place, and the short varints, as most are, without a call.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from pylog.errors import CorruptBatch
from pylog.kernel.records import BatchScope, ConsumerRecord, Header

NAME = "pure"
HEADER_BYTES = 61
HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_FROM = 21
MAGIC = 2
MAGIC_AT = 16
LOG_OVERHEAD = 12
RECORD_OVERHEAD_MAX = 21
RECORD_BYTES_MIN = 7
MAX_OFFSET = MAX_TIMESTAMP = 2**63 - 1
BATCH_LENGTH_MAX = 2**31 - 1 - LOG_OVERHEAD  # Kafka holds a batch in one array

Row = tuple[bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes | None]]]

# The varints of 0..8191, one or two bytes each, and how long so many bytes are together with their length.
_VARINTS = [bytes((n << 1,)) for n in range(64)] + [bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(64, 8192)]
_SIZED = [n + 1 for n in range(64)] + [n + 2 for n in range(64, 8192)]
_NULL = b"\x01"
_NONE = b"\x00"
_TWO_BYTES_MAX = 0x3FFF


# --- encode -----------------------------------------------------------------------------------------------------------


def encode_records(rows: Iterable[Row], now_ms: int, reserve: int = HEADER_BYTES) -> tuple[bytearray, int, int, int]:
    """Encode (value, key, timestamp, headers) rows with offset deltas 0, 1, 2...; a timestamp of None is `now_ms`.

    Gives `reserve` zero bytes followed by the record stream, the count, the base timestamp (the first record's) and the
    largest. No rows: (zeros, 0, -1, -1). Raises ValueError for a timestamp below -1 or beyond 64 bits, TypeError for a
    key or value that is not bytes.
    """
    varints, sized = _VARINTS, _SIZED
    parts = [bytes(reserve)]
    extend = parts.extend
    base = newest = delta = -1
    last, age, fixed = None, b"", 0
    for delta, (value, key, timestamp, headers) in enumerate(rows):
        if timestamp is None:
            timestamp = now_ms
        if timestamp != last:
            # Neighbours often share their millisecond: the bytes of its delta are made when it changes.
            if not -1 <= timestamp <= MAX_TIMESTAMP:
                raise ValueError(f"timestamp {timestamp} of record {delta} is not in [-1, 2**63): -1 means none")
            if delta == 0:
                base = newest = timestamp
            elif timestamp > newest:
                newest = timestamp
            last = timestamp
            age = b"\x00" + _varint(timestamp - base if timestamp - base < 2**63 else -(2**63))  # wraps, as in Java
            fixed = len(age) + 1
        try:
            offset = varints[delta]
            if key is None:
                key_bytes, key_head, size = b"", _NULL, fixed + 1
            else:
                n = len(key)
                key_bytes, key_head, size = key, varints[n], fixed + sized[n]
            if value is None:
                value_bytes, value_head, size = b"", _NULL, size + 1
            else:
                n = len(value)
                value_bytes, value_head, size = value, varints[n], size + sized[n]
            tail = _NONE
            if headers:
                tail = _encode_headers(headers)
                size += len(tail) - 1
            extend((varints[size + len(offset)], age, offset, key_head, key_bytes, value_head, value_bytes, tail))
        except IndexError:
            extend(_encode_long(age, delta, key, value, headers))
    return bytearray().join(parts), delta + 1, base, newest


def _varint(value: int) -> bytes:
    """A zigzag varint of any width."""
    if 0 <= value < 8192:
        return _VARINTS[value]
    value = value << 1 if value >= 0 else ~(value << 1)
    if 0x4000 <= value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if 1 << 21 <= value < 1 << 28:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_long(
    age: bytes, delta: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> list[bytes]:
    """A record of which some length or delta is not in the table."""
    parts = [age, _varint(delta)]
    for data in (key, value):
        parts += (_NULL,) if data is None else (_varint(len(data)), data)
    parts.append(_encode_headers(headers))
    return [_varint(sum(map(len, parts))), *parts]


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [_varint(len(headers))]
    append = parts.append
    for name, value in headers:
        data = name.encode()
        append(_varint(len(data)))
        append(data)
        if value is None:
            append(_NULL)
        else:
            append(_varint(len(value)))
            append(value)
    return b"".join(parts)


def record_size_bound(value: bytes | None, key: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> int:
    """How many bytes a record takes at most (DefaultRecord.recordSizeUpperBound)."""
    size = RECORD_OVERHEAD_MAX + _sized(key) + _sized(value) + 1
    if headers:
        size += 4
        for name, content in headers:
            size += _sized(name.encode()) + _sized(content)
    return size


def _sized(data: bytes | None) -> int:
    if data is None:
        return 1
    size = len(data)
    return _SIZED[size] if size < 8192 else size + 5


# --- decode -----------------------------------------------------------------------------------------------------------


def decode_records(  # noqa: C901 - the hot loop: every call that it does not make is a tenth of its time
    payload: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    scope: BatchScope,
    first_offset: int = 0,
    last_offset: int = MAX_OFFSET,
) -> list[ConsumerRecord]:
    """Decode a record stream; records below `first_offset` are left out. `append_timestamp` replaces all timestamps.

    Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets rising to `last_offset` at
    most.
    """
    size = len(payload)
    if not 0 <= count <= size // RECORD_BYTES_MIN:
        raise CorruptBatch(f"{count} records cannot be in {size} bytes")
    records: list[ConsumerRecord] = []
    append, new, kind = records.append, ConsumerRecord.__new__, ConsumerRecord
    at = is_wide = 0
    previous = -1
    try:
        for _ in range(count):
            # n is a varint as it lies there, zigzag: an odd one is negative, an even one stands for n >> 1.
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > _TWO_BYTES_MAX:
                    n, at = _read_long(payload, at - 2, 5)
            end = n + at + at  # twice the end of the record: what is compared at its end, where an odd n never fits
            n = payload[at + 1]  # the attributes before it are unused
            at += 2
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > _TWO_BYTES_MAX:
                    n, at = _read_long(payload, at - 2, 10)
                    is_wide |= n >> 62
            record = new(kind)
            record.timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > _TWO_BYTES_MAX:
                    n, at = _read_long(payload, at - 2, 5)
            if n <= previous or n & 1:
                raise CorruptBatch(f"the offsets do not rise: delta {n >> 1 ^ -(n & 1)} follows {previous >> 1}")
            previous = n
            record.offset = base_offset + (n >> 1)
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > _TWO_BYTES_MAX:
                    n, at = _read_long(payload, at - 2, 5)
            if n & 1:
                record.key = None
            else:
                start = at
                at += n >> 1
                record.key = payload[start:at]
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > _TWO_BYTES_MAX:
                    n, at = _read_long(payload, at - 2, 5)
            if n & 1:
                record.value = None
            else:
                start = at
                at += n >> 1
                record.value = payload[start:at]
            if payload[at]:
                record.headers, at = _read_headers(payload, at, end >> 1)
            else:
                record.headers = ()
                at += 1
            if at + at != end:
                raise CorruptBatch(f"record {len(records)} of {count} does not have the length it says")
            record.scope = scope
            append(record)
    except IndexError:
        # A slice that ran past the end came out short, and the next byte was not there.
        raise CorruptBatch(f"the bytes end before record {len(records)} of {count} does") from None
    if at != size:
        raise CorruptBatch(f"{size - at} bytes are left behind the last of {count} records")
    if previous >= 0 and base_offset + (previous >> 1) > last_offset:
        raise CorruptBatch(f"offset {base_offset + (previous >> 1)} lies behind the batch's last, {last_offset}")
    if append_timestamp is not None:
        for record in records:
            record.timestamp = append_timestamp
    elif is_wide or abs(base_timestamp) > 1 << 62:
        for record in records:
            record.timestamp = (record.timestamp + 2**63) % 2**64 - 2**63  # sums wrap, as they do in Java
    if base_offset < first_offset:
        return [record for record in records if record.offset >= first_offset]
    return records


def _read_long(data: bytes, at: int, most: int) -> tuple[int, int]:
    """A varint of 3 to `most` bytes, still zigzag, and where it ends; bits beyond its 32 or 64 are dropped."""
    byte = data[at + 2]
    value = data[at] & 0x7F | (data[at + 1] & 0x7F) << 7 | (byte & 0x7F) << 14
    if byte < 0x80:
        return value, at + 3
    byte = data[at + 3]
    value |= (byte & 0x7F) << 21
    if byte < 0x80:
        return value, at + 4
    shift = 28
    for byte in data[at + 4 : at + most]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (0xFFFFFFFF if most == 5 else 0xFFFFFFFFFFFFFFFF), at + shift // 7
    if shift < 7 * most:
        raise IndexError
    raise CorruptBatch(f"a varint has more than {most} bytes")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to five bytes, still zigzag, and where it ends. Raises IndexError, CorruptBatch."""
    n = data[at]
    if n < 0x80:
        return n, at + 1
    n = n & 0x7F | data[at + 1] << 7
    return (n, at + 2) if n <= _TWO_BYTES_MAX else _read_long(data, at, 5)


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_varint(data, at)
    if count & 1 or count > end - at:
        number = count >> 1 ^ -(count & 1)
        raise CorruptBatch(f"a record with {max(end - at, 0)} bytes left cannot have {number} headers")
    headers = []
    for _ in range(count >> 1):
        n = data[at]
        at += 1
        if n > 0x7F:
            n, at = read_varint(data, at - 1)
        if n & 1 or n >> 1 > end - at:
            raise CorruptBatch(f"a header name of {n >> 1 ^ -(n & 1)} bytes does not fit into its record")
        start = at
        at += n >> 1
        name = data[start:at].decode("utf-8", "replace")
        n = data[at]
        at += 1
        if n > 0x7F:
            n, at = read_varint(data, at - 1)
        if n & 1:
            headers.append(Header(name, None))
        else:
            start = at
            at += n >> 1
            if at > end:
                raise CorruptBatch(f"a header value of {n >> 1} bytes does not fit into its record")
            headers.append(Header(name, data[start:at]))
    return tuple(headers), at


# --- batches ----------------------------------------------------------------------------------------------------------


class BatchSpan(NamedTuple):
    """One batch in a buffer: where it lies and what its header says."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # the number of records; hides tuple.count, which nobody needs


def walk(
    data: bytes | bytearray | memoryview, position: int = 0, *, check_crc: bool = True
) -> tuple[list[BatchSpan], int, str | None]:
    """The whole batches from `position` on, where the last good one ends, and what is wrong with the one there, if any.

    A batch that the buffer cuts off is not wrong. Never raises for what the bytes are.
    """
    spans: list[BatchSpan] = []
    append = spans.append
    view = memoryview(data)
    size = len(view)
    unpack = HEADER.unpack_from
    while position + HEADER_BYTES <= size:
        base, length, epoch, magic, crc, attributes, last_delta, *rest = unpack(view, position)
        end = position + LOG_OVERHEAD + length
        if magic != MAGIC or not HEADER_BYTES - LOG_OVERHEAD <= length <= BATCH_LENGTH_MAX:
            break
        if end > size:
            return spans, position, None
        if check_crc and crc32c(view[position + CRC_FROM : end]) != crc:
            return spans, position, "the CRC does not match: the bytes were damaged"
        count = rest[5]
        if base < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1 or base + last_delta > MAX_OFFSET:
            return spans, position, header_fault(base, last_delta, count)
        append(BatchSpan(position, end - position, base, base + last_delta, epoch, attributes, *rest))
        position = end
    return spans, position, frame_fault(view, position)


def frame_fault(view: memoryview, position: int) -> str | None:
    """What is wrong with the length and the magic of the batch that begins at `position`, as far as they are there."""
    if len(view) - position < LOG_OVERHEAD:
        return None
    length = int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    magic = view[position + MAGIC_AT] if len(view) - position > MAGIC_AT else MAGIC
    if magic != MAGIC and length > MAGIC_AT - LOG_OVERHEAD:
        return f"magic {magic} is not a record batch of format v2"
    if not HEADER_BYTES - LOG_OVERHEAD <= length <= BATCH_LENGTH_MAX:
        return f"a batch length of {length} cannot be: its header alone takes {HEADER_BYTES - LOG_OVERHEAD}"
    return None


def header_fault(base_offset: int, last_offset_delta: int, count: int) -> str | None:
    """What is wrong with the numbers in a batch header."""
    if base_offset < 0 or last_offset_delta < 0 or base_offset + last_offset_delta > MAX_OFFSET:
        return f"base offset {base_offset} and last offset delta {last_offset_delta} cannot be"
    if not 0 <= count <= last_offset_delta + 1:
        return f"{count} records cannot be in a batch with last offset delta {last_offset_delta}"
    return None


# --- partitions -------------------------------------------------------------------------------------------------------


def murmur2(data: bytes) -> int:
    """The 32-bit hash by which Kafka's clients choose a partition, signed (Utils.murmur2)."""
    size = len(data)
    h = 0x9747B28C ^ size
    if size > 3:
        for k in struct.unpack_from(f"<{size >> 2}I", data):
            k = k * 0x5BD1E995 & 0xFFFFFFFF
            h = (h * 0x5BD1E995 ^ (k ^ k >> 24) * 0x5BD1E995) & 0xFFFFFFFF
    if size & 3:
        h = (h ^ int.from_bytes(data[size & ~3 :], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h
