"""What a leader checks and rewrites in a batch before it enters its log, and a follower in the bytes of its leader.

    where it came from      bytes checked       batch and records checked             rewritten
    client                  unless trusted      all below                             timestamps, codec
    coordinator             unless trusted      as a client's, but may be control     timestamps, codec
                                                and without sequence
    raft leader, replica    unless trusted      -                                     -

(Kafka: LogValidator, UnifiedLog.analyzeAndValidateRecords.) Trusted is a batch that `batch.encode` made in this
process: its header tells the truth, so it is decoded only where the header does not know enough: the topic keeps
another codec, is compacted (every record needs a key), or refuses old timestamps (the header has the largest only).
Every other batch is somebody's bytes and is decoded whole: a record that cannot be read must not get into a log.

Invariants of what comes out for a client: the CRC is right; `count` records have offset deltas 0, 1, 2...; bit 3 is the
topic's timestamp type and the max timestamp the largest of the records, or the append time. One bad record refuses its
whole batch. A batch of which nothing has to change keeps its bytes, CRC included.
"""

from typing import NoReturn

from pylog.batch import Batch, Buffer, Origin, encode
from pylog.compression import Codec
from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    RecordTooLarge,
    UnsupportedCompressionType,
    UnsupportedFormat,
)
from pylog.kernel import (
    CODEC_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_OFFSET,
    MAX_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    Admission,
    BatchScope,
    ConsumerRecord,
    Spans,
    decode_records,
    walk,
)

NO_LIMIT = 2**63 - 1
NO_TIMESTAMP = -1
ERRORS_SHOWN = 3

GIVEN_OFFSETS = (Origin.CLIENT, Origin.COORDINATOR)
"""Whose batches get their offsets here. The others' are taken as they are."""


# --- leader -----------------------------------------------------------------------------------------------------------


def admission(config: TopicConfig) -> Admission:
    """What lets batches into a topic as they are: none, where its headers cannot prove all that the topic asks.

    Every other batch is for `leader_batch` to look at, or to change.
    """
    header_is_enough = (
        config.compression_type == "producer"
        and config.message_timestamp_type == "CreateTime"
        and config.message_timestamp_before_max_ms == NO_LIMIT
        and "compact" not in config.cleanup_policy
    )
    return Admission(config.max_message_bytes if header_is_enough else -1, config.message_timestamp_after_max_ms)


def leader_batches(data: Buffer, config: TopicConfig, now_ms: int, *, origin: Origin = Origin.CLIENT) -> list[Batch]:
    """The batches to append for bytes that somebody else encoded. Raises what `sent_batches` and `leader_batch` do."""
    return [leader_batch(batch, config, now_ms, origin=origin) for batch in sent_batches(data, origin)]


def sent_batches(data: Buffer, origin: Origin) -> list[Batch]:
    """The batches in bytes that somebody else encoded: one from a client or a coordinator, any number else.

    A batch that is cut off at the end is dropped; [] where no batch is whole. Raises: CorruptRecord (a CRC or a
    bound), UnsupportedFormat (message formats v0 and v1), InvalidRecord (several batches).
    """
    spans, end, reason = walk(data, check_crc=False)
    view = memoryview(data)
    if reason is not None:
        _refuse_legacy(view, end, reason)
        raise CorruptRecord(f"position {end} of what was sent: {reason}; send it again")
    if len(spans) > 1 and origin in GIVEN_OFFSETS:
        raise InvalidRecord(f"{len(spans)} batches for one partition: a {origin.value} sends one at a time")
    return [Batch(view[span.position : span.position + span.size]) for span in spans]


def leader_batch(batch: Batch, config: TopicConfig, now_ms: int, *, origin: Origin = Origin.CLIENT) -> Batch:
    """The batch to append for `batch`: the same object, stamped or not, or a new one in the topic's codec.

    Raises: CorruptRecord (the CRC), UnsupportedCompressionType, RecordTooLarge (`max.message.bytes`, before and after
    recompression), InvalidTimestamp (outside `message.timestamp.{before,after}.max.ms`, or the client set the append
    time), InvalidRecord (empty, control or misnumbered batch, a producer id without sequence, a record that cannot be
    read or has no key on a compacted topic). The last two list the records in `record_errors`. Nothing was written.
    """
    if batch.base_offset != 0 and not batch.trusted and origin is Origin.CLIENT:
        raise InvalidRecord(f"a client's batch has base offset {batch.base_offset}: it is 0, the leader gives offsets")
    if origin in GIVEN_OFFSETS and batch.size > config.max_message_bytes:
        raise _too_large(batch, config)
    if not batch.trusted:
        _check_bytes(batch)
    if origin not in GIVEN_OFFSETS:
        return batch
    _check_header(batch, origin)
    append_time = config.message_timestamp_type == "LogAppendTime"
    target = _target_codec(batch, config)
    newest = batch.max_timestamp
    if target is not None or not _header_says_enough(batch, config, now_ms, append_time):
        records = _decode(batch)
        _check_records(records, batch, config, now_ms, append_time)
        newest = max([record.timestamp for record in records])
        if target is not None:
            batch = _recompressed(batch, records, target, config)
            if batch.size > config.max_message_bytes:
                raise _too_large(batch, config)
    if append_time:
        batch.stamp_append_time(now_ms)
    elif batch.attributes & TIMESTAMP_TYPE_BIT or batch.max_timestamp != newest:
        batch.stamp_create_time(newest)
    return batch


def _check_bytes(batch: Batch) -> None:
    try:
        batch.check()
    except CorruptBatch as error:
        raise CorruptRecord(f"{error.reason}; send it again") from None
    try:
        _ = batch.codec
    except CorruptBatch as error:
        raise UnsupportedCompressionType(error.reason) from None


def _check_header(batch: Batch, origin: Origin) -> None:
    if batch.count <= 0 or batch.last_offset_delta + 1 != batch.count:
        raise InvalidRecord(f"a batch of {batch.count} records cannot end at offset delta {batch.last_offset_delta}")
    if origin is not Origin.CLIENT:
        return
    if batch.attributes & CONTROL_BIT:
        raise InvalidRecord("a client cannot write a control batch")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecord(f"producer {batch.producer_id} sent a batch with sequence {batch.base_sequence}")


def _too_large(batch: Batch, config: TopicConfig) -> RecordTooLarge:
    return RecordTooLarge(
        f"a batch of {batch.size} bytes is over the topic's max.message.bytes={config.max_message_bytes}: "
        "send smaller records or raise the config"
    )


def _target_codec(batch: Batch, config: TopicConfig) -> Codec | None:
    """The codec to re-encode into; None where the batch may stay as it is. A level alone never recompresses."""
    if config.compression_type == "producer" or batch.is_control:
        return None
    target = Codec.NONE if config.compression_type == "uncompressed" else Codec.parse(config.compression_type)
    return None if target is batch.codec else target


def _header_says_enough(batch: Batch, config: TopicConfig, now_ms: int, append_time: bool) -> bool:
    """Whether the header alone proves that no record is refused, and has the right max timestamp."""
    if not batch.trusted or "compact" in config.cleanup_policy:
        return False
    return append_time or (
        config.message_timestamp_before_max_ms == NO_LIMIT
        and batch.max_timestamp - now_ms <= config.message_timestamp_after_max_ms
        and not batch.attributes & TIMESTAMP_TYPE_BIT  # left by an append that failed when the topic had LogAppendTime
    )


def _decode(batch: Batch) -> list[ConsumerRecord]:
    """The records with offsets from 0 on and the timestamps that they bear themselves, whatever bit 3 says.

    Offsets that rise, `count` of them up to delta `count - 1`, are 0, 1, 2...
    """
    scope = BatchScope("", -1, -1, CREATE_TIME)
    try:
        return decode_records(
            batch.stream(), batch.count, 0, batch.base_timestamp, None, scope, last_offset=batch.last_offset_delta
        )
    except CorruptBatch as error:
        raise InvalidRecord(f"the batch cannot be read: {error.reason}") from None


def _check_records(
    records: list[ConsumerRecord], batch: Batch, config: TopicConfig, now_ms: int, append_time: bool
) -> None:
    needs_key = "compact" in config.cleanup_policy
    forged = _claims_append_time(batch, append_time)
    oldest, newest = 0, MAX_TIMESTAMP
    if not append_time:
        oldest = max(now_ms - config.message_timestamp_before_max_ms, 0)
        newest = now_ms + config.message_timestamp_after_max_ms
    errors: list[RecordError] = []
    untimely = False
    for index, record in enumerate(records):
        timestamp = record.timestamp
        if needs_key and record.key is None:
            errors.append(RecordError(index, "it has no key, and the topic is compacted"))
        elif forged:
            untimely = True
            errors.append(RecordError(index, "its batch claims LogAppendTime, which is the leader's to give"))
        elif not oldest <= timestamp <= newest and timestamp != NO_TIMESTAMP:
            untimely = True
            errors.append(RecordError(index, f"its timestamp {timestamp} is not in [{oldest}, {newest}]"))
    if errors:
        _refuse(errors, len(records), InvalidTimestamp if untimely else InvalidRecord)


def _claims_append_time(batch: Batch, append_time: bool) -> bool:
    """Whether a client set bit 3 where Kafka refuses it. Elsewhere the bit is reset to what the topic says."""
    if batch.trusted or batch.timestamp_type == CREATE_TIME:
        return False
    return append_time or batch.max_timestamp == NO_TIMESTAMP


def _refuse(errors: list[RecordError], count: int, kind: type[InvalidRecord] | type[InvalidTimestamp]) -> NoReturn:
    shown = "; ".join(f"record {error.index}: {error.message}" for error in errors[:ERRORS_SHOWN])
    limits = ""
    if kind is InvalidTimestamp:
        limits = " (see message.timestamp.before.max.ms and message.timestamp.after.max.ms)"
    raise kind(f"{len(errors)} of {count} records are refused, and so is their batch: {shown}{limits}", errors)


def _recompressed(batch: Batch, records: list[ConsumerRecord], codec: Codec, config: TopicConfig) -> Batch:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return encode(
        ((r.value, r.key, r.timestamp, r.headers) for r in records),
        now_ms=NO_TIMESTAMP,
        codec=codec,
        level=levels.get(codec),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )


# --- follower ---------------------------------------------------------------------------------------------------------


def follower_spans(data: Buffer) -> Spans:
    """The whole batches in a leader's bytes, to be appended as they are: the leader has looked at their records.

    A batch that is cut off at the end is dropped, the next fetch brings it whole. Gaps between offsets are fine.
    Raises: CorruptBatch with the position in `data` (a CRC, a bound, a codec that does not exist, offsets that do not
    rise), UnsupportedFormat (message formats v0 and v1); then nothing of `data` may be appended.
    """
    spans, end, reason = walk(data, check_crc=True)
    if reason is not None:
        _refuse_legacy(memoryview(data), end, reason)
        raise CorruptBatch(reason, position=end)
    rising = spans.rising(0, MAX_OFFSET)
    if rising < len(spans):
        before, span = spans[rising - 1], spans[rising]
        raise CorruptBatch(
            f"offset {span.base_offset} follows {before.last_offset}: the batches do not rise",
            position=span.position, offset=span.base_offset,
        )  # fmt: skip
    if spans.summary().max_codec > Codec.ZSTD:
        span = next(span for span in spans if span.attributes & CODEC_MASK > Codec.ZSTD)
        raise CorruptBatch(
            f"compression codec {span.attributes & CODEC_MASK} does not exist",
            position=span.position, offset=span.base_offset,
        )  # fmt: skip
    return spans


def _refuse_legacy(view: memoryview, position: int, reason: str) -> None:
    """Raise UnsupportedFormat where `walk` stopped at a message of format v0 or v1, and not at zeros."""
    if (
        len(view) - position > MAGIC_AT
        and view[position + MAGIC_AT] < MAGIC
        and any(view[position + 8 : position + LOG_OVERHEAD])
    ):
        raise UnsupportedFormat(f"position {position}: {reason}; it takes a client, or a log, of Kafka 0.11 or newer")
