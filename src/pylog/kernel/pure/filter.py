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

from pylog.kernel.format import HEADER_BYTES
from pylog.kernel.pure.fields import record_fields, wrapped
from pylog.kernel.pure.varint import VARINTS, varint

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


def scan_records(
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
    fields = record_fields(payload, count, base_offset, last_offset, base_timestamp, append_timestamp)
    spans = ((offset, key, at >= 0, timestamp, body, end) for offset, timestamp, body, key, at, _, end in fields)
    return RecordSpans(payload, spans)


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
            age = b"\x00" + varint(wrapped(timestamp - base_timestamp))
        size = len(age) + end - body
        extend((varints[size] if size < 8192 else varint(size), age, payload[body:end]))
    return bytearray().join(parts)
