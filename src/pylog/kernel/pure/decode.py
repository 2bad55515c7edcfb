"""A record stream to records.

Here speed decides over shape: fields are read in place, and the short varints, as most are, without a call.
"""

from pylog.errors import CorruptBatch
from pylog.kernel.format import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAX_OFFSET,
    RECORD_BYTES_MIN,
    TIMESTAMP_TYPE_BIT,
)
from pylog.kernel.pure.records import ConsumerRecord
from pylog.kernel.pure.stream import walk
from pylog.kernel.pure.varint import TWO_BYTES_MAX, read_long, read_varint
from pylog.kernel.values import CREATE_TIME, LOG_APPEND_TIME, BatchScope, Header

Buffer = bytes | bytearray | memoryview


def decode_records(  # noqa: C901 - the hot loop: every call that it does not make is a tenth of its time
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    scope: BatchScope,
    first_offset: int = 0,
    last_offset: int = MAX_OFFSET,
) -> list[ConsumerRecord]:
    """Decode a record stream; records below `first_offset` are left out. `append_timestamp` replaces all timestamps.

    `payload` is any buffer. Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets
    rising to `last_offset` at most.
    """
    payload = bytes(payload)  # bytes stay what they are
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
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
            end = n + at + at  # twice the end of the record: what is compared at its end, where an odd n never fits
            n = payload[at + 1]  # the attributes before it are unused
            at += 2
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 10)
                    is_wide |= n >> 62
            record = new(kind)
            record.timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
            if n <= previous or n & 1:
                raise CorruptBatch(f"the offsets do not rise: delta {n >> 1 ^ -(n & 1)} follows {previous >> 1}")
            previous = n
            record.offset = base_offset + (n >> 1)
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
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
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
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


def take_records(
    data: Buffer, position: int, first_offset: int, most: int, topic: str, partition: int, check_crc: bool = True
) -> tuple[list[ConsumerRecord], int, int, int]:
    """Records from `first_offset` on of whole batches that begin at `position`: of one at least, and of more as long as
    that is `most` of them or fewer. Control batches are stepped over.

    Gives the records, where the next batch begins, what the offset behind the last one is, at least `first_offset`, and
    its leader epoch (-1: there was none). It stops before a batch that is compressed, or empty, or anything but
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
