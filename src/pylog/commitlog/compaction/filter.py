"""One batch with fewer records: what compaction writes in place of a batch.

    all records stay        the batch, byte for byte
    some stay               a batch of the same base and last offset, leader epoch, producer, sequence, flags and codec
    none stays              a header of 61 bytes without records, or nothing, as the caller says

A batch that keeps a tombstone (or a marker that is not needed any more) gets its **delete horizon** by that, once: the
time from which on these may go. It takes the place of the base timestamp, so the timestamp deltas are rewritten.

    attributes bit 6 set:  base timestamp = now + delete.retention.ms;  delta = timestamp - horizon (a large negative)

The max timestamp is that of the records that stay under CreateTime, and the time of the append under LogAppendTime.
(Kafka: MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader; KIP-534.)
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

from pylog.errors import CorruptBatch
from pylog.kernel import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_FROM,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    RecordSpans,
    crc32c,
    keep_records,
    scan_records,
)
from pylog.kernel.format import NO_TIMESTAMP
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec, compress

_KEPT_WHEN_EMPTY = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class BatchRetention(enum.Enum):
    """The fate of a batch as a whole (Kafka: BatchRetention)."""

    DROP = enum.auto()
    """It goes, whatever is in it."""
    KEEP_EMPTY = enum.auto()
    """Its header stays even if no record does."""
    DROP_EMPTY = enum.auto()
    """It stays as long as one of its records does."""


class Filtered(NamedTuple):
    """The result of filtering a batch."""

    batch: Batch | None
    """The very batch that came in, a new one, or None."""
    records_read: int
    records_kept: int


def filter_batch(
    batch: Batch,
    retention: BatchRetention,
    keep: Callable[[RecordSpans], RecordSpans],
    *,
    now_ms: int,
    delete_retention_ms: int,
    is_spent_marker: bool = False,
) -> Filtered:
    """The batch with those of its records that `keep` picks (some of those it gets, in the same order).

    `is_spent_marker`: a transaction marker of which no data is left, which gets a delete horizon like a tombstone.
    Raises CorruptBatch where the records cannot be read; the CRC is not looked at.
    """
    if retention is BatchRetention.DROP:
        return Filtered(None, 0, 0)
    spans = spans_of(batch) if batch.count else RecordSpans()
    kept = keep(spans)
    if not kept:
        return Filtered(_emptied(batch) if retention is BatchRetention.KEEP_EMPTY else None, len(spans), 0)
    horizon = batch.base_timestamp if batch.has_delete_horizon else None
    needs_horizon = horizon is None and (is_spent_marker or kept.lacks_values)
    if len(kept) == len(spans) and not needs_horizon:
        return Filtered(batch, len(spans), len(spans))
    if needs_horizon:
        horizon = min(now_ms + delete_retention_ms, MAX_TIMESTAMP)
    return Filtered(_rebuilt(batch, kept, horizon), len(spans), len(kept))


def spans_of(batch: Batch) -> RecordSpans:
    """The records of a batch. Raises CorruptBatch, naming the batch by its base offset."""
    payload = batch.stream()
    try:
        return scan_records(
            payload, batch.count, batch.base_offset, batch.last_offset, batch.base_timestamp, batch.append_timestamp
        )
    except CorruptBatch as error:
        raise CorruptBatch(error.reason, offset=batch.base_offset) from None


def _rebuilt(batch: Batch, kept: RecordSpans, horizon: int | None) -> Batch:
    base_timestamp = kept[0][3] if horizon is None else horizon
    data = keep_records(kept, base_timestamp)
    if batch.codec is not Codec.NONE:
        data[HEADER_BYTES:] = compress(batch.codec, memoryview(data)[HEADER_BYTES:])
    attributes = batch.attributes & (CODEC_MASK | _KEPT_WHEN_EMPTY)
    if horizon is not None:
        attributes |= DELETE_HORIZON_BIT
    append_timestamp = batch.append_timestamp
    max_timestamp = kept.max_timestamp if append_timestamp is None else append_timestamp
    return _with_header(data, batch, attributes, base_timestamp, max_timestamp, len(kept))


def _emptied(batch: Batch) -> Batch:
    attributes = batch.attributes & _KEPT_WHEN_EMPTY
    return _with_header(bytearray(HEADER_BYTES), batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0)


def _with_header(
    data: bytearray, batch: Batch, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> Batch:
    """The batch in `data`; what the header does not get here is as in `batch`."""
    HEADER.pack_into(
        data, 0, batch.base_offset, len(data) - LOG_OVERHEAD, batch.leader_epoch, MAGIC, 0, attributes,
        batch.last_offset_delta, base_timestamp, max_timestamp, batch.producer_id, batch.producer_epoch,
        batch.base_sequence, count,
    )  # fmt: skip
    data[CRC_FROM - 4 : CRC_FROM] = crc32c(memoryview(data)[CRC_FROM:]).to_bytes(4, "big")
    return Batch(data)
