"""A record stream to records."""

from pylog.errors import CorruptBatch
from pylog.kernel.format import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LAST_OFFSET,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
)
from pylog.kernel.pure.fields import record_fields
from pylog.kernel.pure.records import ConsumerRecord
from pylog.kernel.pure.stream import walk
from pylog.kernel.pure.varint import read_varint
from pylog.kernel.values import CREATE_TIME, LOG_APPEND_TIME, BatchScope, Header

Buffer = bytes | bytearray | memoryview


def decode_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    scope: BatchScope,
    first_offset: int = 0,
    last_offset: int = LAST_OFFSET,
) -> list[ConsumerRecord]:
    """Decode a record stream; records below `first_offset` are left out. `append_timestamp` replaces all timestamps.

    `payload` is any buffer. Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets
    rising to `last_offset` at most.
    """
    payload = bytes(payload)  # bytes stay what they are
    records: list[ConsumerRecord] = []
    append, new, kind = records.append, ConsumerRecord.__new__, ConsumerRecord
    fields = record_fields(payload, count, base_offset, last_offset, base_timestamp, append_timestamp)
    for offset, timestamp, _, key, value_at, at, end in fields:
        record = new(kind)
        record.offset = offset
        record.timestamp = timestamp
        record.key = key
        record.value = None if value_at < 0 else payload[value_at:at]
        if payload[at]:
            record.headers = _read_headers(payload, at, end)
        else:
            record.headers = ()
            if at + 1 != end:
                raise CorruptBatch(f"record {len(records)} of {count} does not have the length it says")
        record.scope = scope
        append(record)
    if base_offset < first_offset:
        return [record for record in records if record.offset >= first_offset]
    return records


def _read_headers(data: bytes, at: int, end: int) -> tuple[Header, ...]:
    """The headers of a record, which fill it from `at` to its `end`. Raises CorruptBatch where they do not."""
    try:
        headers, at = _headers_at(data, at, end)
    except IndexError:
        raise CorruptBatch("the bytes end before a header does") from None
    if at != end:
        raise CorruptBatch(f"the headers of a record end {abs(end - at)} bytes {'before' if at < end else 'behind'} it")
    return headers


def _headers_at(data: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
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


def take_records(
    data: Buffer, position: int, first_offset: int, most: int, topic: str, partition: int, check_crc: bool = True
) -> tuple[list[ConsumerRecord], int, int, int]:
    """Records from `first_offset` on of whole batches that begin at `position`: of one at least, and of more as long as
    that is `most` of them or fewer. Control batches are stepped over.

    Gives the records, where the next batch begins, what the offset behind the last one is, at least `first_offset`, and
    its leader epoch (-1: no batch was there). It stops before a batch that is compressed, or empty, or anything but
    right: somebody else says what that is. Raises ValueError for a position outside of the buffer.
    """
    view = memoryview(data)
    if not 0 <= position <= len(view):
        raise ValueError(f"position {position} is not in the buffer")
    records: list[ConsumerRecord] = []
    next_offset, leader_epoch = first_offset, -1
    while len(records) < most:
        size = LOG_OVERHEAD + int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        spans, _, _ = walk(view[position : max(position + size, 0)], check_crc=check_crc)
        span = spans[0] if spans else None
        if span is None or span.attributes & CODEC_MASK or not span.count:
            break
        if records and len(records) + span.count > most:
            break
        if not span.attributes & CONTROL_BIT:
            stamped = LOG_APPEND_TIME if span.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME
            scope = BatchScope(topic, partition, span.leader_epoch, stamped)
            payload = view[position + HEADER_BYTES : position + span.size]
            append_time = span.max_timestamp if stamped == LOG_APPEND_TIME else None
            try:
                records += decode_records(
                    payload, span.count, span.base_offset, span.base_timestamp, append_time, scope, first_offset,
                    span.last_offset,
                )  # fmt: skip
            except CorruptBatch:
                break
        position += span.size
        next_offset, leader_epoch = max(next_offset, span.last_offset + 1), span.leader_epoch
    return records, position, next_offset, leader_epoch
