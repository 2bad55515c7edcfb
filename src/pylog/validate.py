"""What a leader checks and rewrites in a batch before it enters the log (Kafka's LogValidator).

A batch arrives as bytes that are already a batch. Most go through untouched: the leader only learns from the header
that it may. A batch is decoded again in three cases alone: the topic keeps another codec than the one it came with, the
topic is compacted (every record needs a key), or old timestamps are refused (the header knows the largest timestamp
only).

Followers and the metadata log check nothing here: what they append was checked by the leader that wrote it.
"""

import enum

from pylog.batch import Batch, encode
from pylog.compression import Codec
from pylog.config import TopicConfig
from pylog.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from pylog.kernel import ConsumerRecord, Record

NO_LIMIT = 2**63 - 1


class Origin(enum.Enum):
    """Who wrote a batch (Kafka's AppendOrigin): what is checked depends on it."""

    CLIENT = "client"
    RAFT_LEADER = "raft leader"


def leader_batch(batch: Batch, config: TopicConfig, now_ms: int) -> Batch:
    """The batch to append for a client's `batch`: the same object, stamped or not, or a new one in the topic's codec.

    Raises: RecordTooLarge (`max.message.bytes`, after compression), InvalidTimestamp (outside
    `message.timestamp.{before,after}.max.ms`), InvalidRecord (empty or control batch, misnumbered offsets, a record
    without key on a compacted topic). One bad record refuses the whole batch; nothing was written.
    """
    if batch.count <= 0 or batch.last_offset_delta + 1 != batch.count:
        raise InvalidRecord(f"a batch of {batch.count} records cannot end at offset delta {batch.last_offset_delta}")
    if batch.is_control:
        raise InvalidRecord("a client cannot write a control batch")
    _check_size(batch, config)
    append_time = config.message_timestamp_type == "LogAppendTime"
    if not append_time:
        _check_newest(batch, config, now_ms)
    target = _target_codec(batch, config)
    if target is not None or "compact" in config.cleanup_policy or _limits_old(config, append_time):
        records = batch.records("", -1)
        _check_records(records, config, now_ms, append_time)
        if target is not None:
            batch = _recompressed(batch, records, target, config, now_ms)
            _check_size(batch, config)
    if append_time:
        batch.stamp_append_time(now_ms)
    return batch


def _check_size(batch: Batch, config: TopicConfig) -> None:
    if batch.size > config.max_message_bytes:
        raise RecordTooLarge(
            f"a batch of {batch.size} bytes is over the topic's max.message.bytes={config.max_message_bytes}: "
            "send smaller records or raise the config"
        )


def _check_newest(batch: Batch, config: TopicConfig, now_ms: int) -> None:
    ahead = batch.max_timestamp - now_ms
    if ahead > config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {batch.max_timestamp} is {ahead} ms ahead of the clock, more than "
            f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms}"
        )


def _limits_old(config: TopicConfig, append_time: bool) -> bool:
    return not append_time and config.message_timestamp_before_max_ms < NO_LIMIT


def _check_records(records: list[ConsumerRecord], config: TopicConfig, now_ms: int, append_time: bool) -> None:
    oldest = now_ms - config.message_timestamp_before_max_ms if _limits_old(config, append_time) else None
    for index, record in enumerate(records):
        if record.offset != index:
            raise InvalidRecord(f"record {index} of the batch has offset delta {record.offset}")
        if "compact" in config.cleanup_policy and record.key is None:
            raise InvalidRecord(f"record {index} of the batch has no key, and the topic is compacted")
        if oldest is not None and 0 <= record.timestamp < oldest:
            raise InvalidTimestamp(
                f"record {index} of the batch has timestamp {record.timestamp}, older than "
                f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms} allows"
            )


def _target_codec(batch: Batch, config: TopicConfig) -> Codec | None:
    """The codec to re-encode into; None where the batch may stay as it is. A level alone never recompresses."""
    if config.compression_type == "producer":
        return None
    target = Codec.NONE if config.compression_type == "uncompressed" else Codec.parse(config.compression_type)
    return None if target is batch.codec else target


def _recompressed(batch: Batch, records: list[ConsumerRecord], codec: Codec, config: TopicConfig, now_ms: int) -> Batch:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return encode(
        (Record(r.value, r.key, r.timestamp, r.headers) for r in records),
        now_ms=now_ms,
        codec=codec,
        level=levels.get(codec),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )
