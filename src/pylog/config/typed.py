"""The configs that a call may be given, for editors and type checkers: which there are, and what each takes.

By keyword, with underscores: ProducerOptions, ConsumerOptions, ShareConsumerOptions, ConnectionOptions. By Kafka's
names, in a dict, where a number or a switch may be text: TopicOptions, NodeOptions.

`python tests/unit/config/test_typed.py` writes this file from the config classes, which say what each config means.
"""

from collections.abc import Iterable
from typing import Literal, TypedDict

from pylog.config.clients import OnCommit, Partitioner


class ProducerOptions(TypedDict, total=False):
    """The configs of a producer. (`ProducerConfig`)"""

    acks: int | Literal["all"]
    allow_auto_create_topics: bool
    batch_size: int
    buffer_memory: int
    client_id: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_zstd_level: int
    delivery_timeout_ms: int | None
    enable_idempotence: bool | None
    linger_ms: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_age_ms: int
    partitioner: Literal["murmur2", "murmur3", "consistent_random", "sticky", "round_robin"] | Partitioner | None
    partitioner_ignore_keys: bool
    request_timeout_ms: int
    retries: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int
    transaction_timeout_ms: int
    transactional_id: str | None


class ConsumerOptions(TypedDict, total=False):
    """The configs of a consumer. (`ConsumerConfig`)"""

    allow_auto_create_topics: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    check_crcs: bool
    client_id: str
    client_rack: str
    consumer_timeout_ms: int | None
    default_offset_commit_callback: OnCommit | None
    default_api_timeout_ms: int
    enable_auto_commit: bool | None
    enable_auto_offset_store: bool
    exclude_internal_topics: bool
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str | None
    heartbeat_interval_ms: int | None
    isolation_level: Literal["read_uncommitted", "read_committed"]
    max_partition_fetch_bytes: int
    max_poll_interval_ms: int
    max_poll_records: int
    metadata_max_age_ms: int
    partition_assignment_strategy: str | Iterable[str] | None
    retry_backoff_ms: int
    pylog_max_record_bytes: int
    session_timeout_ms: int | None


class ShareConsumerOptions(TypedDict, total=False):
    """The configs of a share consumer. (`ShareConsumerConfig`)"""

    check_crcs: bool
    client_id: str
    client_rack: str
    default_api_timeout_ms: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    max_poll_records: int
    metadata_max_age_ms: int
    pylog_max_record_bytes: int
    retry_backoff_ms: int
    share_acquire_mode: Literal["batch_optimized", "record_limit"]


class ConnectionOptions(TypedDict, total=False):
    """The configs of a connection. (`ConnectionConfig`)"""

    allow_auto_create_topics: bool
    client_id: str
    connections_max_idle_ms: int
    enable_ssl_certificate_verification: bool
    receive_message_max_bytes: int
    reconnect_backoff_max_ms: int
    reconnect_backoff_ms: int
    request_timeout_ms: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    sasl_password: str | None
    sasl_username: str | None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    socket_connection_setup_timeout_ms: int
    ssl_ca_location: str | None
    ssl_certificate_location: str | None
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""]
    ssl_key_location: str | None
    ssl_key_password: str | None


TopicOptions = TypedDict(
    "TopicOptions",
    {
        "cleanup.policy": str | Iterable[str],
        "compression.gzip.level": int | str,
        "compression.lz4.level": int | str,
        "compression.type": Literal["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
        "compression.zstd.level": int | str,
        "delete.retention.ms": int | str,
        "file.delete.delay.ms": int | str,
        "flush.messages": int | str,
        "flush.ms": int | str,
        "index.interval.bytes": int | str,
        "max.compaction.lag.ms": int | str,
        "max.message.bytes": int | str,
        "message.timestamp.after.max.ms": int | str,
        "message.timestamp.before.max.ms": int | str,
        "message.timestamp.type": Literal["CreateTime", "LogAppendTime"],
        "min.cleanable.dirty.ratio": float | str,
        "min.compaction.lag.ms": int | str,
        "min.insync.replicas": int | str,
        "pylog.max.record.bytes": int | str,
        "preallocate": bool | str,
        "pylog.full.policy": Literal["drop-oldest", "block", "raise"],
        "retention.bytes": int | str,
        "retention.ms": int | str,
        "segment.bytes": int | str,
        "segment.index.bytes": int | str,
        "segment.jitter.ms": int | str,
        "segment.ms": int | str,
        "unclean.leader.election.enable": bool | str,
    },
    total=False,
)
"""The configs of a topic. (`TopicConfig`)"""


NodeOptions = TypedDict(
    "NodeOptions",
    {
        "allow.everyone.if.no.acl.found": bool | str,
        "allow.network.file.systems": bool | str,
        "auto.create.topics.enable": bool | str,
        "compression.gzip.level": int | str,
        "compression.lz4.level": int | str,
        "compression.type": Literal["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
        "compression.zstd.level": int | str,
        "connection.failed.authentication.delay.ms": int | str,
        "connections.max.idle.ms": int | str,
        "connections.max.reauth.ms": int | str,
        "fetch.max.bytes": int | str,
        "flush.interval.ms": int | str,
        "group.consumer.heartbeat.interval.ms": int | str,
        "group.consumer.max.heartbeat.interval.ms": int | str,
        "group.consumer.max.session.timeout.ms": int | str,
        "group.consumer.max.size": int | str,
        "group.consumer.migration.policy": Literal["bidirectional", "upgrade", "downgrade", "disabled"],
        "group.consumer.min.heartbeat.interval.ms": int | str,
        "group.consumer.min.session.timeout.ms": int | str,
        "group.consumer.session.timeout.ms": int | str,
        "group.initial.rebalance.delay.ms": int | str,
        "group.max.session.timeout.ms": int | str,
        "group.max.size": int | str,
        "group.min.session.timeout.ms": int | str,
        "group.share.delivery.count.limit": int | str,
        "group.share.heartbeat.interval.ms": int | str,
        "group.share.max.delivery.count.limit": int | str,
        "group.share.max.heartbeat.interval.ms": int | str,
        "group.share.max.partition.max.record.locks": int | str,
        "group.share.max.record.lock.duration.ms": int | str,
        "group.share.max.session.timeout.ms": int | str,
        "group.share.max.share.sessions": int | str,
        "group.share.max.size": int | str,
        "group.share.min.delivery.count.limit": int | str,
        "group.share.min.heartbeat.interval.ms": int | str,
        "group.share.min.partition.max.record.locks": int | str,
        "group.share.min.record.lock.duration.ms": int | str,
        "group.share.min.session.timeout.ms": int | str,
        "group.share.partition.max.record.locks": int | str,
        "group.share.record.lock.duration.ms": int | str,
        "group.share.session.timeout.ms": int | str,
        "listener.security.protocol.map": str,
        "log.cleaner.backoff.ms": int | str,
        "log.cleaner.dedupe.buffer.size": int | str,
        "log.cleaner.delete.retention.ms": int | str,
        "log.cleaner.enable": bool | str,
        "log.cleaner.io.max.bytes.per.second": float | str,
        "log.cleaner.max.compaction.lag.ms": int | str,
        "log.cleaner.min.cleanable.ratio": float | str,
        "log.cleaner.min.compaction.lag.ms": int | str,
        "log.cleanup.policy": str | Iterable[str],
        "log.flush.interval.messages": int | str,
        "log.flush.interval.ms": int | str,
        "log.flush.offset.checkpoint.interval.ms": int | str,
        "log.flush.scheduler.interval.ms": int | str,
        "log.index.interval.bytes": int | str,
        "log.index.size.max.bytes": int | str,
        "log.message.timestamp.after.max.ms": int | str,
        "log.message.timestamp.before.max.ms": int | str,
        "log.message.timestamp.type": Literal["CreateTime", "LogAppendTime"],
        "log.preallocate": bool | str,
        "log.retention.bytes": int | str,
        "log.retention.check.interval.ms": int | str,
        "log.retention.hours": int | str,
        "log.retention.minutes": int | str,
        "log.retention.ms": int | str,
        "log.roll.hours": int | str,
        "log.roll.jitter.hours": int | str,
        "log.roll.jitter.ms": int | str,
        "log.roll.ms": int | str,
        "log.segment.bytes": int | str,
        "log.segment.delete.delay.ms": int | str,
        "max.connection.creation.rate": int | str,
        "max.connections": int | str,
        "max.connections.per.ip": int | str,
        "max.incremental.fetch.session.cache.slots": int | str,
        "max.open.files": int | str,
        "message.max.bytes": int | str,
        "metadata.log.max.record.bytes.between.snapshots": int | str,
        "min.insync.replicas": int | str,
        "num.partitions": int | str,
        "offset.metadata.max.bytes": int | str,
        "offsets.retention.check.interval.ms": int | str,
        "offsets.retention.minutes": int | str,
        "offsets.topic.num.partitions": int | str,
        "offsets.topic.segment.bytes": int | str,
        "producer.id.expiration.check.interval.ms": int | str,
        "producer.id.expiration.ms": int | str,
        "queued.max.request.bytes": int | str,
        "replica.fetch.backoff.ms": int | str,
        "replica.fetch.max.bytes": int | str,
        "replica.fetch.response.max.bytes": int | str,
        "replica.fetch.wait.max.ms": int | str,
        "replica.lag.time.max.ms": int | str,
        "sasl.enabled.mechanisms": str | Iterable[str],
        "sasl.server.max.receive.size": int | str,
        "scrub.interval.ms": int | str,
        "scrub.io.max.bytes.per.second": float | str,
        "share.coordinator.snapshot.update.records.per.snapshot": int | str,
        "share.coordinator.state.topic.num.partitions": int | str,
        "share.coordinator.state.topic.prune.interval.ms": int | str,
        "share.coordinator.state.topic.segment.bytes": int | str,
        "socket.request.max.bytes": int | str,
        "super.users": str,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": int | str,
        "transaction.max.timeout.ms": int | str,
        "transaction.partition.verification.enable": bool | str,
        "transaction.remove.expired.transaction.cleanup.interval.ms": int | str,
        "transaction.state.log.num.partitions": int | str,
        "transaction.state.log.segment.bytes": int | str,
        "transactional.id.expiration.ms": int | str,
        "unclean.leader.election.enable": bool | str,
    },
    total=False,
)
"""The configs of a node. (`NodeConfig`)"""
