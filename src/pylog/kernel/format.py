"""The format of batches for both kernels: the places of fields, the limits, and the names of faults in a header.

    record stream    repeat count times
      length         varint    bytes after this field
      attributes     i8        0
      timestamp      varlong   minus the batch's base timestamp
      offset         varint    minus the batch's base offset
      key            varint length (-1: null), bytes
      value          varint length (-1: null), bytes
      headers        varint count, each: varint length, UTF-8 name, varint length (-1: null), bytes

(Kafka: DefaultRecord, DefaultRecordBatch, ByteUtils.) The header before it is drawn in `pylog.protocol.batch`. Where
Kafka's readers are lax so are ours: a key, value or header value length of -2 is null, stray bits in the last byte of a
varint pass, a header name that is not UTF-8 gets replacement characters. One thing is refused that Kafka reads: offsets
that do not rise.
"""

import struct
from array import array
from typing import NamedTuple

HEADER_BYTES = 61
HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_AT, CRC_FROM = 17, 21
MAGIC = 2
MAGIC_AT = 16
# Bits of the attributes.
CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
LOG_OVERHEAD = 12  # base offset and length of a batch, which say how long it is
STREAM_BYTES_MAX = 2**31 - 1
SLOT = struct.Struct("<QQqqqqqqqIII")  # see `pylog.storage.published`; a CRC of four bytes follows
SLOT_BYTES = 96  # from one slot to the next
COUNTER_MAX = 2**62  # the largest count in a slot that is written
SEEN_COUNTER_MAX = COUNTER_MAX // 2  # the largest one that is believed: what follows it can be written
MAX_RELATIVE_OFFSET = 2**31 - 1  # of a segment
RECORD_OVERHEAD_MAX = 21
RECORD_BYTES_MIN = 7
LENGTH_BYTES_MAX = 5  # of a record's length, a varint of 32 bits
FAULTS_MOST = 1000
"""The number of refused records of a batch that are reported one by one."""
LONG_MAX = MAX_TIMESTAMP = 2**63 - 1
OFFSET_MAX = LONG_MAX  # above every offset
LAST_OFFSET = LONG_MAX - 1  # the offset behind a record has to fit into 64 bits, too
PREFIX = struct.Struct(">qii7xi")  # of a batch: base offset, length, leader epoch, (...), last offset delta
BATCH_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD
BATCH_LENGTH_MAX = 2**31 - 1 - LOG_OVERHEAD  # Kafka holds a batch in one array


NO_EPOCH = NO_OFFSET = -1

NO_TIMESTAMP = -1
"""The timestamp of a record that has none, and the largest one of no records."""

UNKNOWN_TIMESTAMP = -2
"""A timestamp that was not looked up yet."""

UNWRITTEN_MAX = 8
"""The file of an active index lacks fewer entries than this: a write for each would cost an append a tenth of its time.

A reader in another process scans at most so many batches more.
"""


class BatchSpan(NamedTuple):
    """One batch in a buffer: its place and the content of its header."""

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
    count: int  # type: ignore[assignment]  # the number of records; hides tuple.count, which is not needed


class Summary(NamedTuple):
    """The summary of neighbouring batches: their bytes, the end of the last one, and the extremes of their headers.

    The bytes go from the first batch to the last. Without batches no bytes, and -1 for the rest.
    """

    size: int
    last_offset: int
    max_timestamp: int
    min_leader_epoch: int
    max_leader_epoch: int
    max_producer_id: int
    max_codec: int


class Marks(NamedTuple):
    """The index entries of some batches of a segment, and the state with which noting goes on."""

    offsets: "array[int]"
    """The last offset, minus the segment's base, of each batch that gets an entry in the offset index."""
    positions: "array[int]"
    timestamps: "array[int]"
    """The largest timestamp so far at those of these batches where it had risen."""
    timestamp_offsets: "array[int]"
    """The last offset, minus the segment's base, of the first batch with that timestamp."""
    passed: int
    """Bytes since the last batch that got an entry, that one included."""
    newest: int
    """The largest timestamp."""
    newest_offset: int
    """The last offset of the first batch that has it."""


def frame_fault(view: memoryview, position: int) -> str | None:
    """The fault in the length and the magic of the batch that begins at `position`, as far as they are there."""
    if len(view) - position < LOG_OVERHEAD:
        return None
    length = int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    magic = view[position + MAGIC_AT] if len(view) - position > MAGIC_AT else MAGIC
    if magic != MAGIC and length > MAGIC_AT - LOG_OVERHEAD:
        return f"magic {magic} is not a record batch of format v2"
    if not BATCH_LENGTH_MIN <= length <= BATCH_LENGTH_MAX:
        return f"a batch length of {length} is impossible: its header alone takes {BATCH_LENGTH_MIN}"
    return None


def header_fault(base_offset: int, last_offset_delta: int, count: int) -> str | None:
    """The fault in the numbers of a batch header."""
    if base_offset < 0 or last_offset_delta < 0 or base_offset + last_offset_delta > LAST_OFFSET:
        return f"base offset {base_offset} and last offset delta {last_offset_delta} are impossible"
    if not 0 <= count <= last_offset_delta + 1:
        return f"{count} records are impossible in a batch with last offset delta {last_offset_delta}"
    return None
