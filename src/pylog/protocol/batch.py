"""A record batch, format v2: a view over its bytes. Only whole batches travel, are stored and are replicated.

    0   base offset            i64   given by the leader             \\
    8   batch length           i32   bytes after this field           | not under the CRC: can be stamped
    12  partition leader epoch i32   given by the leader              |
    16  magic                  i8    2                               /
    17  crc                    u32   CRC-32C of everything from 21 on
    21  attributes             i16   codec (3 bits), timestamp type, transactional, control, delete horizon
    23  last offset delta      i32   survives compaction: never derive it from the record count
    27  base timestamp         i64   the first record's, or the delete horizon
    35  max timestamp          i64   the largest, or the append time
    43  producer id            i64   -1: none
    51  producer epoch         i16
    53  base sequence          i32
    57  record count           i32   0 in an emptied batch
    61  records                      one stream, compressed as a whole

(Kafka: DefaultRecordBatch; KIP-98, KIP-534.) A batch that `encode` made lies in a bytearray of its own and is stamped
in place. A batch that was read is a view of bytes that belong to others, and is not stamped.
"""

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from pylog.config import RECORD_BYTES_MAX, RECORD_RATIO
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.kernel import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_FROM,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BatchScope,
    BatchSpan,
    ColumnSource,
    ConsumerRecord,
    Record,
    check_stream,
    crc32c,
    decode_records,
    encode_records,
    frame_fault,
    header_fault,
    walk,
)
from pylog.kernel.values import ArrowColumn
from pylog.protocol.compression import Codec, compress, decompress, held_whole, whole_records

if TYPE_CHECKING:
    pass

_MARKER_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_ABORT, _COMMIT = 0, 1
_CODECS = tuple(Codec)

Row = tuple[bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes | None]]]
Buffer = bytes | bytearray | memoryview


class Origin(enum.Enum):
    """The writer of a batch (Kafka's AppendOrigin): the checks depend on it."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"


class Marker(NamedTuple):
    """The end of a transaction: a control record of its coordinator (Kafka's EndTransactionMarker)."""

    is_abort: bool
    coordinator_epoch: int


class HeaderFields(TypedDict, total=False):
    """The fields of a new batch besides its records: see `seal`."""

    codec: Codec
    level: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    base_offset: int
    leader_epoch: int


class Batch(BatchHeader):
    """One encoded batch. The header's fields are attributes; the records stay bytes until they are asked for."""

    __slots__ = ()

    @classmethod
    def parse(cls, data: Buffer, position: int = 0) -> "Batch":
        """The batch at `position`, as a view. The CRC is not checked here: that is `check`.

        Raises CorruptBatch where there is no whole batch, or its header has impossible numbers; UnsupportedFormat for
        message formats v0 and v1, which Kafka 4.0 stopped writing.
        """
        batch = cls.framed(data, position)
        fault = header_fault(batch.base_offset, batch.last_offset_delta, batch.count)
        if fault is not None:
            raise CorruptBatch(fault, position=position)
        return batch

    @classmethod
    def framed(cls, data: Buffer, position: int = 0) -> "Batch":
        """As `parse`, for bytes that a client sends: the numbers of the header are for the leader to refuse."""
        view = memoryview(data)
        left = len(view) - position
        if left < HEADER_BYTES:
            raise CorruptBatch(f"{left} bytes are too few for a batch header", position=position)
        fault = frame_fault(view, position)
        if fault is not None:
            if view[position + MAGIC_AT] < MAGIC and view[position + 8 : position + LOG_OVERHEAD] != bytes(4):
                raise UnsupportedFormat(f"position {position}: {fault}; let a Kafka older than 4.0 rewrite the topic")
            raise CorruptBatch(fault, position=position)
        size = LOG_OVERHEAD + int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big")
        if size > left:
            raise CorruptBatch(f"a batch of {size} bytes does not fit into the {left} that are left", position=position)
        return cls(view[position : position + size])

    def __repr__(self) -> str:
        return (
            f"<Batch [{self.base_offset}, {self.next_offset}) {self.count} records, {self.size} bytes, "
            f"attributes {self.attributes:#04x}>"
        )

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        """The codec of the records. Raises CorruptBatch for 5, 6 and 7, which mean nothing."""
        number = self.attributes & CODEC_MASK
        if number > Codec.ZSTD:
            raise CorruptBatch(f"compression codec {number} does not exist", offset=self.base_offset)
        return _CODECS[number]

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    def check(self) -> None:
        """Raise CorruptBatch unless the CRC is right."""
        actual = crc32c(memoryview(self.data)[CRC_FROM:])
        if actual != self.crc:
            raise CorruptBatch(
                f"the CRC is {actual:#010x}, not {self.crc:#010x}: the bytes were damaged", offset=self.base_offset
            )

    def stamp_append_time(self, now_ms: int) -> None:
        """Make the broker's clock the timestamp of every record: bit 3, the max timestamp, and a new CRC."""
        self.attributes |= TIMESTAMP_TYPE_BIT
        self.max_timestamp = now_ms
        self.write()

    def stamp_create_time(self, max_timestamp: int) -> None:
        """Make every record bear its own time, up to `max_timestamp`, the largest: bit 3 cleared, and a new CRC."""
        self.attributes &= ~TIMESTAMP_TYPE_BIT
        self.max_timestamp = max_timestamp
        self.write()

    def stamp_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Number the batch for a producer, again if it has a number: its three fields, and a new CRC."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        self.write()

    def payload(self) -> bytes:
        """The record stream, decompressed. Raises CorruptBatch."""
        return bytes(self.stream())

    def stream(self) -> bytes | memoryview:
        """The record stream; a view of its place, if it is not compressed."""
        if not self.attributes & CODEC_MASK:
            return memoryview(self.data)[HEADER_BYTES:]
        try:
            data = memoryview(self.data)[HEADER_BYTES:]
            return decompress(
                self.codec, data, count=self.count, record_bytes_max=max(RECORD_BYTES_MAX, RECORD_RATIO * self.size)
            )  # fmt: skip
        except CorruptBatch as error:
            raise CorruptBatch(error.reason, offset=self.base_offset) from None

    def marker(self) -> Marker | None:
        """The marker in a control batch; None in a batch of another kind, or that compaction has emptied.

        A version above 0 is read as version 0. Raises CorruptBatch.
        """
        if not self.is_control or self.count == 0 or self.producer_id < 0:
            return None
        record = self.records("", -1)[0]
        key, value = record.key or b"", record.value or b""
        if len(key) < _MARKER_KEY.size or _MARKER_KEY.unpack_from(key)[0] < 0:
            raise CorruptBatch(f"a control record has the key {key.hex()!r}", offset=self.base_offset)
        kind = _MARKER_KEY.unpack_from(key)[1]
        if kind not in (_ABORT, _COMMIT):
            return None
        if len(value) < _MARKER_VALUE.size or _MARKER_VALUE.unpack_from(value)[0] < 0:
            raise CorruptBatch(f"a transaction marker has the value {value.hex()!r}", offset=self.base_offset)
        return Marker(kind == _ABORT, _MARKER_VALUE.unpack_from(value)[1])

    def records(self, topic: str, partition: int, first_offset: int = 0) -> list[ConsumerRecord]:
        """The records from `first_offset` on; also those of a control batch; [] for a batch that compaction emptied.

        Raises CorruptBatch, naming the batch by its base offset.
        """
        if not self.attributes & CODEC_MASK or self.count == 0:
            return self._decoded(memoryview(self.data)[HEADER_BYTES:], self.count, topic, partition, first_offset)
        groups = [group for group, _ in self.groups(topic, partition, first_offset)]
        return groups[0] if len(groups) == 1 else [record for group in groups for record in group]

    def groups(
        self, topic: str, partition: int, first_offset: int = 0, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Iterable[tuple[list[ConsumerRecord], int]]:
        """The records in groups, each with the offset behind it.

        There is one group, unless the records are compressed and together larger than one record may be. Memory holds
        twice the largest record at a time. A record is at most `record_bytes_max` bytes, and where the batch is large,
        `RECORD_RATIO` times that. Raises CorruptBatch.
        """
        if not self.attributes & CODEC_MASK or self.count == 0:
            return ((self.records(topic, partition, first_offset), self.next_offset),)
        data, limit = memoryview(self.data)[HEADER_BYTES:], max(record_bytes_max, RECORD_RATIO * self.size)
        try:
            whole = held_whole(self.codec, data, limit)
        except CorruptBatch as error:
            raise CorruptBatch(error.reason, offset=self.base_offset) from None
        if whole is None:
            return self._decoded_apart(whole_records(self.codec, data, limit), topic, partition, first_offset)
        return ((self._decoded(whole, self.count, topic, partition, first_offset), self.next_offset),)

    def _decoded(
        self, payload: Buffer, count: int, topic: str, partition: int, first_offset: int
    ) -> list[ConsumerRecord]:  # fmt: skip
        if count == 0:
            return []
        scope = BatchScope(topic, partition, self.leader_epoch, self.timestamp_type)
        try:
            return decode_records(
                payload, count, self.base_offset, self.base_timestamp, self.append_timestamp, scope, first_offset,
                self.last_offset,
            )  # fmt: skip
        except CorruptBatch as error:
            raise CorruptBatch(error.reason, offset=self.base_offset) from None

    def _decoded_apart(
        self, parts: Iterator[tuple[bytes, int]], topic: str, partition: int, first_offset: int
    ) -> Iterator[tuple[list[ConsumerRecord], int]]:
        left, following = self.count, 0
        try:
            for payload, count in parts:
                left -= count
                if left < 0:
                    raise CorruptBatch(f"there are more than {self.count} records")
                records = self._decoded(payload, count, topic, partition, first_offset)
                del payload
                if records:
                    if records[0].offset < following:
                        raise CorruptBatch(f"the offsets do not rise: {records[0].offset} follows {following - 1}")
                    following = records[-1].offset + 1
                    yield records, following if left else self.next_offset
            if left:
                raise CorruptBatch(f"there are {self.count - left} records, and {self.count} were announced")
        except CorruptBatch as error:
            raise CorruptBatch(error.reason, offset=self.base_offset) from None


def marker_at(data: Buffer, span: BatchSpan) -> Marker | None:
    """The transaction marker in the batch at `span` of `data`, if it is one. Raises CorruptBatch."""
    return Batch.parse(data, span.position).marker() if span.attributes & CONTROL_BIT else None


def encode(rows: Iterable[Row | Record | ConsumerRecord], *, now_ms: int, **header: Unpack[HeaderFields]) -> Batch:
    """Encode records, or (value, key, timestamp, headers) tuples, as one batch, in a bytearray of its own.

    A record without timestamp gets `now_ms`; `header` is what `seal` takes. A payload is kept compressed even where
    that makes it larger. The tuples are not checked. Raises ValueError without records, RecordTooLarge.
    """
    return seal(encode_records(rows, now_ms), **header) if header else Batch.of(rows, now_ms)


def encode_marker(
    producer_id: int, producer_epoch: int, *, is_abort: bool, coordinator_epoch: int, now_ms: int
) -> Batch:
    """The control batch that ends a transaction (Kafka: EndTransactionMarker)."""
    key = _MARKER_KEY.pack(0, _ABORT if is_abort else _COMMIT)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    return encode(
        [(value, key, now_ms, ())], now_ms=now_ms, producer_id=producer_id, producer_epoch=producer_epoch,
        transactional=True, control=True,
    )  # fmt: skip


def seal(
    stream: tuple[bytearray, int, int, int],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> Batch:
    """Make a batch of a stream that the kernel encoded, with room for the header: in place, unless it is compressed.

    `stream` is the result of `encode_records` or `OpenBatch.close`. Raises ValueError for a stream without records,
    RecordTooLarge where they would not fit into a batch uncompressed.
    """
    data, count, base_timestamp, max_timestamp = stream
    check_stream(count, len(data))
    if codec:
        packed = compress(codec, memoryview(data)[HEADER_BYTES:], level)
        data = bytearray(HEADER_BYTES) + packed
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    return Batch.begun(
        data, count, base_timestamp, max_timestamp, attributes, producer_id, producer_epoch, base_sequence,
        base_offset, leader_epoch,
    )  # fmt: skip


def split(data: Buffer, *, check_crc: bool = False) -> Iterator[Batch]:
    """The whole batches in `data`, one after the other; a batch cut off at the end is dropped.

    Raises CorruptBatch with the position in `data`, after the good batches before it.
    """
    spans, end, reason = walk(data, check_crc=check_crc)
    view = memoryview(data)
    for span in spans:
        yield Batch(view[span.position : span.position + span.size])
    if reason is not None:
        raise CorruptBatch(reason, position=end)


def claimed_end(data: Buffer, position: int, offset: int) -> int | None:
    """The offset behind a damaged batch, by its own header; at most the base offset of the next batch. None where the
    header cannot be right.
    """
    if position + HEADER_BYTES > len(data):
        return None
    base, length, _, _, _, _, last_delta, *_ = HEADER.unpack_from(data, position)
    if not base <= offset <= base + last_delta:
        return None
    end = int(base + last_delta + 1)
    following = position + LOG_OVERHEAD + length
    if position < following <= len(data) - HEADER_BYTES:
        next_base = HEADER.unpack_from(data, following)[0]
        return min(end, next_base) if next_base > offset else None
    return end


def sources(batches: Iterable[Batch]) -> Iterator[ColumnSource]:
    """The batches as `columns` decodes them, decompressed one by one; without control batches. Raises CorruptBatch."""
    for b in batches:
        if b.count and not b.is_control:
            yield b.stream(), b.count, b.base_offset, b.last_offset, b.base_timestamp, b.append_timestamp


def columns(
    batches: Sequence[ColumnSource], first_offset: int, end_offset: int, want: frozenset[str]
) -> dict[str, ArrowColumn]:
    """The records of `sources` of batches in [first_offset, end_offset) as Arrow arrays, one a name in `want`.

    Names: offset (int64), timestamp (int64, ms), timestamp_type (int32), key, value (binary), headers (list of
    struct<key: string, value: binary>, null where a record has none). Needs pyarrow and numpy.
    Raises CorruptBatch, ImportError (saying what to install), ValueError (2 GiB of records or more).
    """
    try:
        from pylog.kernel.columns import decode_columns
    except ModuleNotFoundError as error:
        raise ImportError(f"columns need pyarrow and numpy: pip install pyarrow numpy ({error})") from error
    return decode_columns(batches, first_offset, end_offset, want)
