"""The loop over a record stream, which finds each record and its fields: `decode` and `filter` go by it.

    length varint | attributes i8 | timestamp delta varlong | offset delta varint
    key length varint | key | value length varint | value | headers

Here speed decides over shape: fields are read in place, and the short varints, as most are, without a call.
"""

from collections.abc import Iterator

from pylog.errors import CorruptBatch
from pylog.kernel.format import RECORD_BYTES_MIN
from pylog.kernel.pure.varint import TWO_BYTES_MAX, read_long

RecordFields = tuple[int, int, int, bytes | None, int, int, int]
"""Offset, timestamp, where the offset delta begins, key, where the value begins (-1: it is null), where it ends and the
headers begin, where the record ends.
"""


def record_fields(  # noqa: C901 - the hot loop: every call that it does not make is a tenth of its time
    payload: bytes, count: int, base_offset: int, last_offset: int, base_timestamp: int, append_timestamp: int | None
) -> Iterator[RecordFields]:
    """Each record of a stream; `append_timestamp` replaces all timestamps. The headers are not looked into.

    Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets rising to `last_offset` at
    most.
    """
    size = len(payload)
    if not 0 <= count <= size // RECORD_BYTES_MIN:
        raise CorruptBatch(f"{count} records cannot be in {size} bytes")
    at, previous, number = 0, -1, 0
    may_wrap = abs(base_timestamp) > 1 << 62
    try:
        for number in range(count):
            # n is a varint as it lies there, zigzag: an odd one is negative, an even one stands for n >> 1.
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
            end = at + (n >> 1)
            if n & 1 or end > size:
                raise CorruptBatch(f"record {number} of {count} says it has {n >> 1 ^ -(n & 1)} bytes")
            n = payload[at + 1]  # the attributes before it are unused
            at += 2
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 10)
                    may_wrap |= n >> 62 > 0
            if append_timestamp is not None:
                timestamp = append_timestamp
            else:
                timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
                if may_wrap:
                    timestamp = wrapped(timestamp)
            body = at
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
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
            key = None
            if not n & 1:
                start = at
                at += n >> 1
                key = payload[start:at]
            n = payload[at]
            at += 1
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 5)
            value_at = -1
            if not n & 1:
                value_at = at
                at += n >> 1
            if at >= end:  # the number of headers takes a byte at least
                raise CorruptBatch(f"record {number} of {count} does not have the length it says")
            yield base_offset + (previous >> 1), timestamp, body, key, value_at, at, end
            at = end
    except IndexError:
        # A slice that ran past the end came out short, and the next byte was not there.
        raise CorruptBatch(f"the bytes end before record {number} of {count} does") from None
    if at != size:
        raise CorruptBatch(f"{size - at} bytes are left behind the last of {count} records")
    if previous >= 0 and base_offset + (previous >> 1) > last_offset:
        raise CorruptBatch(f"offset {base_offset + (previous >> 1)} lies behind the batch's last, {last_offset}")


def wrapped(number: int) -> int:
    """`number` in 64 bits: sums of timestamps wrap, as they do in Java."""
    return (number + 2**63) % 2**64 - 2**63
