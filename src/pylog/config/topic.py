"""The configs of a topic, their defaults on a node, and how they are stored.

Stored are only the overrides, canonical: Kafka's names, Kafka's text forms. Reading them back never fails.
(Kafka: TopicConfig, LogConfig.)
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

from pylog.config.options import (
    LONG_MAX,
    Config,
    Kind,
    Share,
    SomeOf,
    Switch,
    Words,
    by_field,
    integer,
    kafka_name,
    long,
    option,
    stored_text,
)
from pylog.errors import InvalidConfig

logger = logging.getLogger("pylog.config")

DAY_MS = 24 * 60 * 60 * 1000
SEGMENT_BYTES_MIN = 1 << 20
MESSAGE_BYTES = 1_048_588
"""How large a batch may be by default."""
RECORD_RATIO = 16
"""How many times as large as a batch may be, as it is stored, each of its records may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Config):
    """The configs of a topic (Kafka: LogConfig).

    All are checked and stored. Those marked "No effect yet" change nothing in this version.
    """

    cleanup_policy: frozenset[str] = option(
        frozenset(["delete"]), SomeOf("compact", "delete"), broker="log.cleanup.policy"
    )
    """What happens to old records: delete whole segments, compact (keep the last of each key), both, or nothing.

    With "compact" a record without a key is refused.
    """
    compression_gzip_level: int = option(-1, integer(-1, 9, without=(0,)), broker="compression.gzip.level")
    """The level where `compression_type` is gzip; -1 is zlib's own choice."""
    compression_lz4_level: int = option(9, integer(1, 17), broker="compression.lz4.level")
    """The level where `compression_type` is lz4."""
    compression_type: str = option(
        "producer", Words("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), broker="compression.type"
    )
    """How batches are stored; "producer" as they come."""
    compression_zstd_level: int = option(3, integer(-131072, 22), broker="compression.zstd.level")
    """The level where `compression_type` is zstd."""
    delete_retention_ms: int = option(DAY_MS, long(0), broker="log.cleaner.delete.retention.ms")
    """How long a compacted topic keeps tombstones, so that a reader from the start sees them."""
    file_delete_delay_ms: int = option(60_000, long(0), broker="log.segment.delete.delay.ms")
    """How long the files of a removed segment stay, for open readers."""
    flush_messages: int = option(LONG_MAX, long(1), broker="log.flush.interval.messages")
    """Where the partition is led: sync before an append is answered that leaves so many records not synced, whatever
    the flush mode.
    """
    flush_ms: int = option(LONG_MAX, long(0), broker="log.flush.interval.ms log.flush.scheduler.interval.ms")
    """Where the partition is led or followed: how long appended records may wait to be synced, whatever the flush
    mode.
    """
    index_interval_bytes: int = option(4096, integer(0), broker="log.index.interval.bytes")
    """About how many bytes of records there are to one index entry."""
    max_compaction_lag_ms: int = option(LONG_MAX, long(1), broker="log.cleaner.max.compaction.lag.ms")
    """How long a record may stay uncompacted at most."""
    max_message_bytes: int = option(MESSAGE_BYTES, integer(0), broker="message.max.bytes")
    """The largest batch, header included, as it is stored."""
    message_timestamp_after_max_ms: int = option(3_600_000, long(0), broker="log.message.timestamp.after.max.ms")
    """How far ahead of the node's clock a record's timestamp may be."""
    message_timestamp_before_max_ms: int = option(LONG_MAX, long(0), broker="log.message.timestamp.before.max.ms")
    """How far behind the node's clock a record's timestamp may be."""
    message_timestamp_type: str = option(
        "CreateTime", Words("CreateTime", "LogAppendTime"), broker="log.message.timestamp.type"
    )
    """Whose time a record bears: its sender's, or the append's."""
    min_cleanable_dirty_ratio: float = option(0.5, Share(), broker="log.cleaner.min.cleanable.ratio")
    """How much of a compacted log is not clean yet when it is worth cleaning."""
    min_compaction_lag_ms: int = option(0, long(0), broker="log.cleaner.min.compaction.lag.ms")
    """How long a record stays uncompacted at least."""
    min_insync_replicas: int = option(1, integer(1), broker="min.insync.replicas")
    """How many replicas have to be in sync, the leader among them, for acks=all; with fewer an append is
    NotEnoughReplicas. Of a partition with fewer replicas all have to be.
    """
    pylog_max_record_bytes: int = option(-1, integer(-1))
    """The largest record in a compressed batch; -1: 16 times `max_message_bytes`, and 16 MiB at least, which every
    consumer reads. It is held as a whole in memory, as a snappy block is, which may be as large. Not Kafka's.
    """
    preallocate: bool = option(False, Switch(), broker="log.preallocate")
    """Give a new segment its full size on disk at once."""
    pylog_full_policy: str = option("drop-oldest", Words("drop-oldest", "block", "raise"))
    """What becomes of an append that would make a partition larger than `retention_bytes`: the oldest segments go for
    it, as in Kafka; or it waits until records are deleted, and is refused when its time is up; or it is refused at
    once. With the last two nothing is dropped for its size. Who waits is the thread that sends, for the producer's
    `request_timeout_ms` at most, whatever limit `flush`, `commit` or `close` was given. Not Kafka's.
    """
    retention_bytes: int = option(-1, long(), broker="log.retention.bytes")
    """How large a partition may grow before its oldest segments go; -1: as large as it likes."""
    retention_ms: int = option(-1, long(-1), broker="log.retention.ms log.retention.minutes log.retention.hours")
    """How old records may get before their segments go; -1: as old as they like (Kafka: a week)."""
    segment_bytes: int = option(1 << 30, integer(SEGMENT_BYTES_MIN), broker="log.segment.bytes", stored=integer(1))
    """The size at which a segment is full."""
    segment_index_bytes: int = option(10 << 20, integer(4), broker="log.index.size.max.bytes")
    """The size at which an index is full, and with it its segment."""
    segment_jitter_ms: int = option(0, long(0), broker="log.roll.jitter.ms log.roll.jitter.hours")
    """Up to how much earlier than `segment_ms` a segment is full, at random."""
    segment_ms: int = option(7 * DAY_MS, long(1), broker="log.roll.ms log.roll.hours")
    """The age at which a segment is full."""
    unclean_leader_election_enable: bool = option(False, Switch(), broker="unclean.leader.election.enable")
    """Whether a replica that is not in sync may lead when no other is left, at the price of records. No effect yet."""

    @property
    def record_bytes_max(self) -> int:
        """The effective value of `pylog_max_record_bytes`."""
        if self.pylog_max_record_bytes >= 0:
            return self.pylog_max_record_bytes
        return RECORD_RATIO * max(self.max_message_bytes, MESSAGE_BYTES)

    @property
    def is_bounded(self) -> bool:
        """Whether a partition is a bounded queue: an append has to fit, instead of pushing the oldest segments out."""
        return self.retention_bytes >= 0 and self.pylog_full_policy != "drop-oldest"

    @classmethod
    def from_kafka(cls, configs: Mapping[str, object], *, defaults: Self | None = None) -> Self:
        """The config of a mapping with Kafka's names; `defaults` gives the other values. Raises InvalidConfig."""
        return replace(defaults or cls(), **by_field(configs, cls._kinds(), cls._elsewhere()))

    @classmethod
    def broker_names(cls) -> dict[str, tuple[str, ...]]:
        """The names of a broker's configs that are the defaults of a topic's, by the topic's names."""
        return {kafka_name(spec.name): spec.metadata["broker"] for spec in fields(cls)}

    @classmethod
    def canonical(cls, overrides: Mapping[str, object]) -> dict[str, str]:
        """`overrides` as they are stored: checked, by Kafka's names, in Kafka's texts. Raises InvalidConfig."""
        cls.from_kafka(overrides)
        kinds, named = cls.kinds(), {kafka_name(given): value for given, value in overrides.items()}
        return {name: stored_text(name, kinds[name], value) for name, value in named.items()}

    @classmethod
    def check_list(cls, name: str) -> None:
        """Raise InvalidConfig unless there is a config of Kafka's name `name`, and its value is a list."""
        (field_name,) = by_field({name: None}, cls._kinds(), cls._elsewhere())
        if not isinstance(cls._kinds()[field_name], SomeOf):
            raise InvalidConfig(f"{name} is not a list: set it, there is nothing to append to or subtract from")

    @classmethod
    def loaded(cls, stored: Mapping[str, str], *, defaults: Self | None = None) -> Self:
        """From configs as they are stored; never fails. What cannot be used is ignored, with a warning in the log.

        A `segment.bytes` below Kafka's minimum is taken; so is `internal.segment.bytes`, and wins, as in Kafka.
        """
        if not stored:
            return defaults or cls()
        config = replace(defaults or cls())
        options = {kafka_name(spec.name): spec for spec in fields(cls)}
        inner = "internal.segment.bytes"
        for name in sorted(stored, key=lambda name: name == inner):
            spec = options.get("segment.bytes" if name == inner else name)
            if spec is None:
                logger.warning("a topic's config %s=%s has no effect: it is not a config here", name, stored[name])
                continue
            kind: Kind = spec.metadata["stored"]
            try:
                object.__setattr__(config, spec.name, kind.parse(stored[name]))
            except ValueError:
                logger.warning("a topic's config %s=%s has no effect: not %s", name, stored[name], kind.allowed)
        return config

    def _check_together(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} is over "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}"
            )

    @classmethod
    def _elsewhere(cls) -> str:
        return """follower.replication.throttled.replicas internal.segment.bytes leader.replication.throttled.replicas
            local.retention. remote.log. remote.storage.enable"""
