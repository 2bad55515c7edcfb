"""The checks and changes of a leader to a batch before it enters its log, and of a follower to its leader's bytes.

    where it came from      bytes checked       batch and records checked             rewritten
    client                  unless trusted      all below                             timestamps, codec
    coordinator             unless trusted      as a client's, but may be control     timestamps, codec
                                                and without sequence
    raft leader, replica    unless trusted      -                                     -

(Kafka: LogValidator, UnifiedLog.analyzeAndValidateRecords.) Trusted is a batch that `batch.encode` made in this
process: its header tells the truth, so it is decoded only where the header does not know enough: the topic keeps
another codec, is compacted (every record needs a key), or refuses old timestamps (the header has the largest only).
Every other batch is bytes from elsewhere, and is decoded whole: a record that cannot be read must not get into a log.
What comes out is trusted, unless the append has to give it its time.

Invariants of what comes out for a client: the CRC is right; `count` records have offset deltas 0, 1, 2...; bit 3 is the
topic's timestamp type and the max timestamp the largest of the records (-1 where all are from before 1970), or the
append time. One bad record refuses its whole batch. A batch of which nothing has to change keeps its bytes, CRC
included.
"""

from typing import NoReturn

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
    FAULTS_MOST,
    HEADER_BYTES,
    LAST_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP,
    STREAM_BYTES_MAX,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchScope,
    OpenBatch,
    Spans,
    StreamCheck,
    decode_records,
    header_fault,
    walk,
)
from pylog.kernel.format import NO_TIMESTAMP
from pylog.protocol.batch import Batch, Buffer, Origin
from pylog.protocol.compression import Codec, Packer, compress, packer, pieces

NO_LIMIT = 2**63 - 1
ERRORS_SHOWN = 3

GIVEN_OFFSETS = (Origin.CLIENT, Origin.COORDINATOR)
"""Whose batches get their offsets here. The others' are taken as they are."""


# --- leader -----------------------------------------------------------------------------------------------------------


def header_is_enough(config: TopicConfig, *, has_keys: bool) -> bool:
    """Whether a header that tells the truth proves all that a topic asks of a batch, besides its size and its newest
    time. Any other batch is for `leader_batch` to look at, or to change. `has_keys`: each record is known to have one.
    """
    return (
        config.compression_type == "producer"
        and config.message_timestamp_type == "CreateTime"
        and config.message_timestamp_before_max_ms == NO_LIMIT
        and (has_keys or "compact" not in config.cleanup_policy)
    )


def gives_append_time(config: TopicConfig, origin: Origin) -> bool:
    """Whether a leader stamps its time into a batch. It does so last, where no other append can come before it."""
    return config.message_timestamp_type == "LogAppendTime" and origin in GIVEN_OFFSETS


def leader_batch(batch: Batch, config: TopicConfig, now_ms: int, *, origin: Origin = Origin.CLIENT) -> Batch:
    """The batch to append for `batch`: the same object, stamped or not, or a new one in the topic's codec. Where the
    topic has LogAppendTime the append stamps it.

    Raises, the first that is wrong: InvalidRecord (a client's base offset), RecordTooLarge (`max.message.bytes`),
    CorruptRecord (the CRC), UnsupportedCompressionType; InvalidRecord (empty, control or misnumbered batch, a producer
    id without sequence; then, a record that cannot be read, or is larger than `pylog.max.record.bytes`);
    InvalidTimestamp (outside `message.timestamp.{before,after}.max.ms`, or the client set the append time), and
    InvalidRecord where no time is wrong, but a key is missing on a compacted topic; RecordTooLarge again, after
    recompression. `record_errors` lists the first thousand records that are refused. Nothing was written.
    """
    check_bytes(batch, config, origin)
    if origin not in GIVEN_OFFSETS:
        return batch
    _check_header(batch, origin)
    append_time = config.message_timestamp_type == "LogAppendTime"
    target = _target_codec(batch, config)
    newest = batch.max_timestamp
    if target is not None or not _header_says_enough(batch, config, now_ms, append_time):
        recoded = None if target is None else _Recoded(batch, target, config)
        newest = _checked(batch, config, now_ms, append_time, recoded)
        if recoded is not None:
            batch = recoded.batch()
    if append_time:
        return batch
    if batch.attributes & TIMESTAMP_TYPE_BIT or batch.max_timestamp != newest:
        batch.stamp_create_time(newest)
    # Also its max timestamp, which the topic's time would have replaced.
    batch.trusted = True
    return batch


def check_bytes(batch: Batch, config: TopicConfig, origin: Origin) -> None:
    """Refuse a batch for its size, its CRC, its codec or its base offset, before its header is believed."""
    if batch.base_offset != 0 and not batch.trusted and origin is Origin.CLIENT:
        raise InvalidRecord(f"a client's batch has base offset {batch.base_offset}: it is 0, the leader gives offsets")
    if origin in GIVEN_OFFSETS and batch.size > config.max_message_bytes:
        raise _too_large(batch.size, config)
    if batch.trusted:
        return
    try:
        batch.check()
    except CorruptBatch as error:
        raise CorruptRecord(f"{error.reason}; send it again") from None
    try:
        _ = batch.codec
    except CorruptBatch as error:
        raise UnsupportedCompressionType(error.reason) from None
    fault = header_fault(batch.base_offset, batch.last_offset_delta, batch.count)
    if fault is not None and origin not in GIVEN_OFFSETS:
        raise CorruptRecord(f"{fault}; send it again")


def _check_header(batch: Batch, origin: Origin) -> None:
    if batch.count <= 0 or batch.last_offset_delta + 1 != batch.count:
        raise InvalidRecord(f"a batch of {batch.count} records cannot end at offset delta {batch.last_offset_delta}")
    if origin is not Origin.CLIENT:
        return
    if batch.attributes & CONTROL_BIT:
        raise InvalidRecord("a client cannot write a control batch")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecord(f"producer {batch.producer_id} sent a batch with sequence {batch.base_sequence}")


def _too_large(size: int, config: TopicConfig) -> RecordTooLarge:
    return RecordTooLarge(
        f"a batch of {size} bytes is over the topic's max.message.bytes={config.max_message_bytes}: "
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


def _checked(batch: Batch, config: TopicConfig, now_ms: int, append_time: bool, recoded: "_Recoded | None") -> int:
    """The largest timestamp of the records, each of which was looked at, and handed on to `recoded`."""
    is_forged = _claims_append_time(batch, append_time)
    # Times before 1970 stay as they are; they cannot be encoded again.
    oldest, latest = 0 if recoded is not None and not is_forged else -MAX_TIMESTAMP - 1, MAX_TIMESTAMP
    if not (append_time or is_forged):
        oldest = max(now_ms - config.message_timestamp_before_max_ms, oldest)
        latest = min(now_ms + config.message_timestamp_after_max_ms, MAX_TIMESTAMP)
    check = StreamCheck(
        batch.count, batch.base_timestamp, config.record_bytes_max, "compact" in config.cleanup_policy, oldest, latest
    )
    try:
        for piece in pieces(batch.codec, memoryview(batch.data)[HEADER_BYTES:], config.record_bytes_max):
            before = check.count
            left = check.feed(piece)
            if recoded is not None and not (check.refused or is_forged):
                recoded.add(piece, left, check.count - before)
        check.finish()
    except CorruptBatch as error:
        raise InvalidRecord(f"the batch cannot be read: {error.reason}") from None
    if check.refused or is_forged:
        _refuse(check, is_forged, f"is not in [{oldest}, {latest}]")
    return max(check.newest, NO_TIMESTAMP)


def _claims_append_time(batch: Batch, append_time: bool) -> bool:
    """Whether a client set bit 3 where Kafka refuses it. Elsewhere the bit is reset to the topic's config."""
    if batch.trusted or batch.timestamp_type == CREATE_TIME:
        return False
    return append_time or batch.max_timestamp == NO_TIMESTAMP


def _refuse(check: StreamCheck, is_forged: bool, untimely: str) -> NoReturn:
    keyless = "it has no key, and the topic is compacted"
    errors = [
        RecordError(index, keyless if timestamp is None else f"its timestamp {timestamp} {untimely}")
        for index, timestamp in check.faults
    ]
    kind: type[InvalidRecord | InvalidTimestamp] = InvalidTimestamp if check.is_untimely else InvalidRecord
    refused, limits = check.refused, ""
    if is_forged:
        found = dict(check.faults)
        forged = "its batch claims LogAppendTime, which is the leader's to give"
        errors = [RecordError(i, keyless if i in found else forged) for i in range(min(check.count, FAULTS_MOST))]
        kind = InvalidTimestamp if refused < check.count else InvalidRecord
        refused = check.count
    if kind is InvalidTimestamp:
        limits = " (see message.timestamp.before.max.ms and message.timestamp.after.max.ms)"
    shown = "; ".join(f"record {error.index}: {error.message}" for error in errors[:ERRORS_SHOWN])
    raise kind(f"{refused} of {check.count} records are refused, and so is their batch: {shown}{limits}", errors)


class _Recoded:
    """The records of a batch on their way into another codec: no more of them are held than of one piece."""

    def __init__(self, batch: Batch, codec: Codec, config: TopicConfig) -> None:
        self._batch = batch
        self._codec = codec
        self._config = config
        self._stream = OpenBatch(STREAM_BYTES_MAX, 0)
        self._rest: list[Buffer] = []
        """The pieces of a record that has begun and is not whole."""
        self._newest = -1
        self._base = -1
        self._packed = bytearray(HEADER_BYTES)
        self._first: bytearray | None = None
        self._pack: Packer | None = None

    def _level(self) -> int | None:
        config = self._config
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        return levels.get(self._codec)

    def add(self, piece: Buffer, left: int, count: int) -> None:
        """Take the next piece: with what was left of the others, `count` records, and behind these `left` bytes."""
        if not count:
            self._rest.append(piece)
            return
        data = memoryview(b"".join([*self._rest, piece]) if self._rest else piece)
        self._rest = [bytes(data[len(data) - left :])]
        scope = BatchScope("", -1, -1, CREATE_TIME)
        for record in decode_records(data[: len(data) - left], count, 0, self._batch.base_timestamp, None, scope):
            if self._stream.count == 0:
                self._base = record.timestamp
            self._newest = max(self._newest, record.timestamp)
            self._stream.add(record.value, record.key, record.timestamp, record.headers)
        drained = self._stream.drain()
        if self._first is None:
            self._first = drained
            return
        if self._pack is None:
            self._pack = packer(self._codec, self._level())
            self._keep(self._pack.compress(self._first))
        self._keep(self._pack.compress(drained))

    def _keep(self, packed: Buffer) -> None:
        if len(self._packed) <= self._config.max_message_bytes:
            self._packed += packed

    def batch(self) -> Batch:
        """The new batch. Raises RecordTooLarge."""
        if self._pack is not None:
            self._keep(self._pack.flush())
        else:
            # Most come in one piece, which is compressed at once, faster.
            assert self._first is not None, "a batch of no records is refused before"
            self._keep(compress(self._codec, self._first, self._level()))
        if len(self._packed) > self._config.max_message_bytes:
            raise _too_large(len(self._packed), self._config)
        old = self._batch
        attributes = self._codec | (TRANSACTIONAL_BIT if old.is_transactional else 0)
        return Batch.begun(
            self._packed, old.count, self._base, self._newest, attributes, old.producer_id, old.producer_epoch,
            old.base_sequence,
        )  # fmt: skip


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
    rising = spans.rising(0, LAST_OFFSET)
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
