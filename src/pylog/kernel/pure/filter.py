"""Compaction's two loops over a record stream: look at every record, and write some of them again.

A record that stays keeps its bytes from its offset delta on; only its length and its timestamp delta are new:

    length  varint | attributes i8 | timestamp delta varlong | offset delta, key, value, headers
    ------------------- written again ---------------------- | -------- copied ---------------

(Kafka: DefaultRecordBatch's iterators, MemoryRecordsBuilder.append.) Whole buffers, no policy, as in `decode`, whose
tolerance of odd bytes is kept; headers are not looked into. Between the two loops stands `RecordSpans`: where each
record lies, and what deciding about it takes.
"""

from collections.abc import Iterable
from itertools import compress

from pylog.errors import CorruptBatch
from pylog.kernel.format import HEADER_BYTES, RECORD_BYTES_MIN
from pylog.kernel.pure.varint import TWO_BYTES_MAX, VARINTS, read_long, varint

Buffer = bytes | bytearray | memoryview
RecordSpan = tuple[int, bytes | None, bool, int, int, int]
"""A record in a stream: offset, key, whether it has a value, timestamp, where its offset delta begins, where it ends.

A plain tuple: making a named one takes three times as long, and there is one for each record.
"""


class RecordSpans(list[RecordSpan]):
    """The records of a stream, or some of them in the same order, and the payload they lie in."""

    __slots__ = ("payload",)

    def __init__(self, payload: bytes = b"", spans: Iterable[RecordSpan] = ()) -> None:
        super().__init__(spans)
        self.payload = payload

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp. Raises ValueError where there is no record."""
        return max(span[3] for span in self)

    @property
    def lacks_values(self) -> bool:
        """Whether one of the records has no value: a tombstone."""
        return not all(span[2] for span in self)

    def select(self, mask: bytes) -> "RecordSpans":
        """Those whose byte in `mask` is not 0. Raises ValueError unless there is one byte for each record."""
        if len(mask) != len(self):
            raise ValueError(f"a mask of {len(mask)} bytes for {len(self)} records")
        return RecordSpans(self.payload, compress(self, mask))


def scan_records(  # noqa: C901 - the hot loop, as in `decode`
    payload: Buffer,
    count: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
) -> RecordSpans:
    """Find the `count` records of a stream; `append_timestamp` replaces all timestamps.

    `payload` is any buffer. Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets
    rising to `last_offset` at most.
    """
    payload = bytes(payload)  # bytes stay what they are
    size = len(payload)
    if not 0 <= count <= size // RECORD_BYTES_MIN:
        raise CorruptBatch(f"{count} records cannot be in {size} bytes")
    spans = RecordSpans(payload)
    append = spans.append
    at = is_wide = 0
    previous = -1
    timestamp = append_timestamp
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
            end = at + (n >> 1)
            if n & 1 or end > size:
                raise CorruptBatch(f"record {len(spans)} of {count} says it has {n >> 1 ^ -(n & 1)} bytes")
            n = payload[at + 1]  # the attributes before it are unused
            at += 2
            if n > 0x7F:
                n = n & 0x7F | payload[at] << 7
                at += 1
                if n > TWO_BYTES_MAX:
                    n, at = read_long(payload, at - 2, 10)
                    is_wide |= n >> 62
            if append_timestamp is None:
                timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
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
            offset = base_offset + (n >> 1)
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
            if not n & 1:
                at += n >> 1
            if at >= end:  # the number of headers takes a byte at least
                raise CorruptBatch(f"record {len(spans)} of {count} does not have the length it says")
            append((offset, key, not n & 1, timestamp, body, end))  # type: ignore[arg-type]  # never None here
            at = end
    except IndexError:
        raise CorruptBatch(f"the bytes end before record {len(spans)} of {count} does") from None
    if at != size:
        raise CorruptBatch(f"{size - at} bytes are left behind the last of {count} records")
    if previous >= 0 and base_offset + (previous >> 1) > last_offset:
        raise CorruptBatch(f"offset {base_offset + (previous >> 1)} lies behind the batch's last, {last_offset}")
    if append_timestamp is None and (is_wide or abs(base_timestamp) > 1 << 62):
        spans[:] = [(span[0], span[1], span[2], _wrapped(span[3]), span[4], span[5]) for span in spans]
    return spans


def keep_records(spans: RecordSpans, base_timestamp: int, reserve: int = HEADER_BYTES) -> bytearray:
    """Write the records of `spans` as a stream of their own, behind `reserve` zero bytes.

    Offset deltas stay; timestamps are relative to `base_timestamp`.
    """
    varints, parts, payload = VARINTS, [bytes(reserve)], spans.payload
    extend = parts.extend
    last, age = None, b""
    for _, _, _, timestamp, body, end in spans:
        if timestamp != last:
            last = timestamp
            age = b"\x00" + varint(_wrapped(timestamp - base_timestamp))
        size = len(age) + end - body
        extend((varints[size] if size < 8192 else varint(size), age, payload[body:end]))
    return bytearray().join(parts)


def _wrapped(number: int) -> int:
    """`number` in 64 bits: sums of timestamps wrap, as they do in Java."""
    return (number + 2**63) % 2**64 - 2**63
