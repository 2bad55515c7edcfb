"""The configs of a node, and those of its groups. A node has its own, and the defaults of its topics under their broker
names.

Where a broker has several names for one default, `log.retention.ms` wins over `.minutes`, and that over `.hours`.
(Kafka: KafkaConfig, ServerLogConfigs.)
"""

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from pylog.config.offset_reset import OffsetReset
from pylog.config.options import (
    INT_MAX,
    BytesPerSecond,
    Config,
    Kind,
    Names,
    Switch,
    Words,
    by_field,
    integer,
    kafka_name,
    long,
    option,
    parse_as,
)
from pylog.config.protocol_map import PROTOCOL_MAP, SASL_MECHANISMS, ProtocolMap
from pylog.config.topic import SEGMENT_BYTES_MIN, TopicConfig
from pylog.errors import InvalidConfig

logger = logging.getLogger("pylog.config")

_UNITS_MS = {"hours": 60 * 60 * 1000, "minutes": 60 * 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig(Config):
    """The configs of a node (Kafka: a broker's), those of them that mean something here."""

    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    """What topics have that do not say otherwise."""
    flush_interval_ms: int = option(1000, integer(1))
    """With flush="interval": how long appended records may wait to be synced. Not Kafka's."""
    allow_everyone_if_no_acl_found: bool = option(False, Switch())
    """Whether every client may do with a resource what it likes where no ACL speaks of it."""
    allow_network_file_systems: bool = option(False, Switch())
    """Whether a log may lie where locks and syncs prove nothing. Not Kafka's."""
    auto_create_topics_enable: bool = option(True, Switch())
    """Whether a server makes a topic that a client asks for and that is not there."""
    connection_failed_authentication_delay_ms: int = option(100, integer(0))
    """How late a server answers a client that could not prove its name."""
    connections_max_idle_ms: int = option(600_000, long())
    """How long a connection may be silent before a server closes it; a negative number: for ever."""
    connections_max_reauth_ms: int = option(0, long())
    """After how long a client has to prove its name again, by SASL; 0: never."""
    fetch_max_bytes: int = option(55 << 20, integer(1024))
    """How many bytes of records a server gives in an answer to a Fetch, however many are asked for."""
    group_consumer_heartbeat_interval_ms: int = option(5000, integer(1))
    """How often a member of a group of the consumer protocol has to be heard of."""
    group_consumer_max_heartbeat_interval_ms: int = option(15_000, integer(1))
    """The longest `group.consumer.heartbeat.interval.ms`, and the longest that a group may be given."""
    group_consumer_max_session_timeout_ms: int = option(60_000, integer(1))
    """The longest `group.consumer.session.timeout.ms`, and the longest that a group may be given."""
    group_consumer_max_size: int = option(INT_MAX, integer(1))
    """How many members a group of the consumer protocol may have."""
    group_consumer_migration_policy: str = option(
        "bidirectional", Words("bidirectional", "upgrade", "downgrade", "disabled", any_case=True)
    )
    """Whether a group with members becomes one of the consumer protocol (`upgrade`) when such a member joins it, and
    one of the classic protocol (`downgrade`) when the last of them goes. Empty groups always change."""
    group_consumer_min_heartbeat_interval_ms: int = option(5000, integer(1))
    """The shortest `group.consumer.heartbeat.interval.ms`, and the shortest that a group may be given."""
    group_consumer_min_session_timeout_ms: int = option(45_000, integer(1))
    """The shortest `group.consumer.session.timeout.ms`, and the shortest that a group may be given."""
    group_consumer_session_timeout_ms: int = option(45_000, integer(1))
    """After how long without a word such a member is gone."""
    group_initial_rebalance_delay_ms: int = option(0, integer())
    """How long an empty group waits for more members before its first rebalance (Kafka: 3000)."""
    group_max_session_timeout_ms: int = option(1_800_000, integer())
    """The longest session timeout that a member may ask for."""
    group_max_size: int = option(INT_MAX, integer(1))
    """How many members a group may have."""
    group_min_session_timeout_ms: int = option(6000, integer())
    """The shortest session timeout that a member may ask for."""
    group_share_delivery_count_limit: int = option(5, integer(2, 10))
    """How often a share group delivers a record before it gives it up."""
    group_share_heartbeat_interval_ms: int = option(5000, integer(1))
    """How often a member of a share group has to be heard of."""
    group_share_max_delivery_count_limit: int = option(10, integer(5, 25))
    """The largest `group.share.delivery.count.limit`, and the largest that a group may be given."""
    group_share_max_heartbeat_interval_ms: int = option(15_000, integer(1))
    """The longest `group.share.heartbeat.interval.ms`, and the longest that a group may be given."""
    group_share_max_partition_max_record_locks: int = option(4000, integer(2000, 10_000))
    """The largest `group.share.partition.max.record.locks`, and the largest that a group may be given."""
    group_share_max_record_lock_duration_ms: int = option(60_000, integer(30_000, 3_600_000))
    """The longest `group.share.record.lock.duration.ms`, and the longest that a group may be given."""
    group_share_max_session_timeout_ms: int = option(60_000, integer(1))
    """The longest `group.share.session.timeout.ms`, and the longest that a group may be given."""
    group_share_max_share_sessions: int = option(2000, integer(1))
    """How many share sessions a node remembers."""
    group_share_max_size: int = option(200, integer(1, 1000))
    """How many members a share group may have."""
    group_share_min_delivery_count_limit: int = option(2, integer(2, 5))
    """The least `group.share.delivery.count.limit`, and the least that a group may be given."""
    group_share_min_heartbeat_interval_ms: int = option(5000, integer(1))
    """The shortest `group.share.heartbeat.interval.ms`, and the shortest that a group may be given."""
    group_share_min_partition_max_record_locks: int = option(100, integer(100, 2000))
    """The least `group.share.partition.max.record.locks`, and the least that a group may be given."""
    group_share_min_record_lock_duration_ms: int = option(15_000, integer(1000, 30_000))
    """The shortest `group.share.record.lock.duration.ms`, and the shortest that a group may be given."""
    group_share_min_session_timeout_ms: int = option(45_000, integer(1))
    """The shortest `group.share.session.timeout.ms`, and the shortest that a group may be given."""
    group_share_partition_max_record_locks: int = option(2000, integer(100, 10_000))
    """How many records of a partition a share group has in flight at once."""
    group_share_record_lock_duration_ms: int = option(30_000, integer(1000, 3_600_000))
    """How long a member of a share group holds a record that it does not acknowledge."""
    group_share_session_timeout_ms: int = option(45_000, integer(1))
    """After how long without a word such a member is gone."""
    listener_security_protocol_map: str = option(PROTOCOL_MAP, ProtocolMap())
    """The security protocol of each listener, by its name."""
    log_cleaner_backoff_ms: int = option(15_000, long(0))
    """How long the cleaner rests when nothing is worth cleaning."""
    log_cleaner_dedupe_buffer_size: int = option(128 << 20, long(48))
    """Bytes of memory for the keys of one cleaning, at 24 a key."""
    log_cleaner_enable: bool = option(True, Switch())
    """Whether compacted topics are cleaned in the background."""
    log_cleaner_io_max_bytes_per_second: float = option(sys.float_info.max, BytesPerSecond())
    """How many bytes of logs a second the cleaner reads and writes at most."""
    log_flush_offset_checkpoint_interval_ms: int = option(60_000, integer(0))
    """How often it is written down up to where partitions are synced: recovery starts there."""
    log_retention_check_interval_ms: int = option(300_000, long(1))
    """How often expired segments are looked for."""
    max_connection_creation_rate: int = option(INT_MAX, integer(0))
    """How many connections a second a server takes."""
    max_connections: int = option(INT_MAX, integer(0))
    """How many connections a server has at once."""
    max_connections_per_ip: int = option(INT_MAX, integer(0))
    """How many connections a server has from one address at once."""
    max_incremental_fetch_session_cache_slots: int = option(1000, integer(0))
    """How many fetch sessions a server remembers."""
    max_open_files: int = option(256, integer(1))
    """How many file descriptors the log keeps open, beside two for each directory. Not Kafka's."""
    metadata_log_max_record_bytes_between_snapshots: int = option(20 << 20, long(1))
    """How much the metadata log may grow until it is summed up in a snapshot; a small one is after less."""
    num_partitions: int = option(1, integer(1))
    """How many partitions a topic is made with where -1 is asked for."""
    offset_metadata_max_bytes: int = option(4096, integer())
    """How long the text may be that is committed with an offset."""
    offsets_retention_check_interval_ms: int = option(600_000, long(1))
    """How often expired committed offsets are looked for."""
    offsets_retention_minutes: int = option(10_080, integer(1))
    """How long committed offsets are kept when the group has no members any more."""
    offsets_topic_num_partitions: int = option(50, integer(1))
    """How many partitions `__consumer_offsets` is made with."""
    offsets_topic_segment_bytes: int = option(100 << 20, integer(SEGMENT_BYTES_MIN))
    """The `segment.bytes` that it is made with."""
    producer_id_expiration_check_interval_ms: int = option(600_000, integer(1))
    """How often it is looked for producers that are gone."""
    producer_id_expiration_ms: int = option(86_400_000, integer(1))
    """How long a producer is known after its last record."""
    queued_max_request_bytes: int = option(-1, long())
    """How many bytes of requests a server holds at once; -1: as many as come."""
    replica_fetch_backoff_ms: int = option(1000, integer(0))
    """How long a follower waits when there is nothing to fetch, and after an error."""
    replica_fetch_max_bytes: int = option(2 << 20, integer(0))
    """How many bytes of a partition a follower asks for at once (Kafka: 1 MiB)."""
    replica_fetch_response_max_bytes: int = option(10 << 20, integer(0))
    """How many bytes a follower asks for at once in all."""
    replica_fetch_wait_max_ms: int = option(500, integer())
    """How long a leader may wait for records before it answers a follower."""
    replica_lag_time_max_ms: int = option(30_000, long(1))
    """After how long a follower leaves the ISR that has not caught up: longer than `replica.fetch.wait.max.ms` of the
    followers, or one that waits for records lags when they come."""
    sasl_enabled_mechanisms: tuple[str, ...] = option(SASL_MECHANISMS, Names(*SASL_MECHANISMS, others={}))
    """The SASL mechanisms that a server takes (Kafka: GSSAPI)."""
    sasl_server_max_receive_size: int = option(16 << 10, integer())
    """How large a request may be before a client has proved its name by SASL, and a token ever (Kafka: 512 KiB)."""
    scrub_interval_ms: int = option(7 * 24 * 60 * 60 * 1000, long(-1))
    """How often every byte of the sealed segments is read, in search of damage; -1: never. Not Kafka's."""
    scrub_io_max_bytes_per_second: float = option(float(64 << 20), BytesPerSecond())
    """How many bytes of logs a second that reads at most. Not Kafka's."""
    share_coordinator_snapshot_update_records_per_snapshot: int = option(500, integer(0, 500))
    """How many changes of a share group's partition are written before its state is written as a whole."""
    share_coordinator_state_topic_num_partitions: int = option(50, integer(1))
    """How many partitions `__share_group_state` is made with."""
    share_coordinator_state_topic_prune_interval_ms: int = option(300_000, integer(1))
    """How often records of `__share_group_state` are deleted that later ones replace."""
    share_coordinator_state_topic_segment_bytes: int = option(100 << 20, integer(SEGMENT_BYTES_MIN))
    """The `segment.bytes` that it is made with."""
    socket_request_max_bytes: int = option(100 << 20, integer(1))
    """How large a request may be."""
    super_users: str = option("", Words())
    """The principals that may do everything, with semicolons between. Without an authorizer they are those that may do
    what is between nodes (WriteTxnMarkers, Fetch as a replica); where none is named, clients without a name are:
    User:ANONYMOUS."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = option(10_000, integer(1))
    """How often it is looked for transactions that take too long."""
    transaction_max_timeout_ms: int = option(900_000, integer(1))
    """The longest time that a transaction may ask for."""
    transaction_partition_verification_enable: bool = option(True, Switch())
    """Whether a partition takes a transaction's records only where its coordinator has noted them."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = option(3_600_000, integer(1))
    """How often expired transactional ids are looked for."""
    transaction_state_log_num_partitions: int = option(50, integer(1))
    """How many partitions `__transaction_state` is made with."""
    transaction_state_log_segment_bytes: int = option(100 << 20, integer(SEGMENT_BYTES_MIN))
    """The `segment.bytes` that it is made with."""
    transactional_id_expiration_ms: int = option(604_800_000, integer(1))
    """How long a transactional id is known after its last transaction."""

    @classmethod
    def from_kafka(cls, configs: Mapping[str, object]) -> Self:
        """From a broker's names: `log.segment.bytes` is the default of `segment.bytes`. Raises InvalidConfig."""
        sources = {
            name.replace(".", "_"): (spec, rank, name)
            for spec in fields(TopicConfig)
            for rank, name in enumerate(spec.metadata["broker"])
        }
        own = by_field(configs, [*sources, *cls._kinds()], cls._elsewhere())
        defaults: dict[str, Any] = {}
        # The weakest first: log.retention.ms comes after log.retention.hours, and wins.
        for field_name in sorted(own.keys() & sources, key=lambda name: -sources[name][1]):
            spec, _, name = sources[field_name]
            defaults[spec.name] = _default(name, spec.metadata["kind"], own.pop(field_name))
        return cls(topic_defaults=TopicConfig(**defaults), **own)

    def to_kafka(self) -> dict[str, str]:
        """All configs by Kafka's names, in Kafka's text forms; the defaults of topics by the broker's names."""
        defaults = self.topic_defaults.to_kafka()
        topics = {
            spec.metadata["broker"][0]: defaults[spec.name.replace("_", ".")]
            for spec in fields(TopicConfig)
            if spec.metadata["broker"]
        }
        return dict(sorted({**super(NodeConfig, self).to_kafka(), **topics}.items()))

    def _check_together(self) -> None:
        """Hold what groups go by to its limits. (Kafka: GroupCoordinatorConfig, ShareGroupConfig)"""
        GroupConfig.of_node(self).check_within(self, prefix="group.")
        if self.group_share_max_share_sessions < self.group_share_max_size:
            raise InvalidConfig(
                f"group.share.max.share.sessions={self.group_share_max_share_sessions} must be greater than or equal "
                f"to group.share.max.size={self.group_share_max_size}"
            )


def _default(broker_name: str, kind: Kind, value: object) -> object:
    """The topic default that a broker's config means; one in hours or minutes is in ms after that."""
    factor = _UNITS_MS.get(broker_name.rsplit(".", 1)[-1])
    if factor is None:
        return parse_as(broker_name, kind, value)
    number = parse_as(broker_name, integer(), value)
    assert isinstance(number, int)
    try:
        return kind.parse(number * factor if number >= 0 else number)
    except ValueError:
        raise InvalidConfig(f"{broker_name}={value!r}: in ms it has to be {kind.allowed}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(Config):
    """The configs of a group of the consumer protocol, or of a share group: what is set on it, and the node's for the
    others. The node's is called `group.` and the name, where it has one. (Kafka: GroupConfig, KIP-848, KIP-932)
    """

    consumer_heartbeat_interval_ms: int = option(5000, integer(1))
    """How often a member has to be heard of."""
    consumer_session_timeout_ms: int = option(45_000, integer(1))
    """After how long without a word a member is gone."""
    share_auto_offset_reset: str = option("latest", OffsetReset("latest", "earliest"))
    """Where a share group begins a partition: "earliest", "latest", or "by_duration:" and how far back."""
    share_delivery_count_limit: int = option(5, integer(2))
    """How often a record is delivered before it is given up."""
    share_heartbeat_interval_ms: int = option(5000, integer(1))
    """How often a member of a share group has to be heard of."""
    share_isolation_level: str = option("read_uncommitted", Words("read_committed", "read_uncommitted"))
    """Whether a share group waits for the ends of transactions, and passes over what was aborted."""
    share_partition_max_record_locks: int = option(2000, integer(100))
    """How many records of a partition are in flight at once."""
    share_record_lock_duration_ms: int = option(30_000, integer(1000))
    """How long a member holds a record that it does not acknowledge."""
    share_renew_acknowledge_enable: bool = option(True, Switch())
    """Whether a member may hold a record longer, by RENEW."""
    share_session_timeout_ms: int = option(45_000, integer(1))
    """After how long without a word a member of a share group is gone."""

    @classmethod
    def of_node(cls, node: NodeConfig) -> Self:
        """The configs of a group on which nothing is set."""
        names = [(spec.name, f"group_{spec.name}") for spec in fields(cls)]
        return cls(**{name: getattr(node, of_node) for name, of_node in names if hasattr(node, of_node)})

    @classmethod
    def loaded(cls, stored: Mapping[str, str], node: NodeConfig) -> Self:
        """From configs as they are stored; never fails. One behind a limit of the node counts as that limit, and one
        that cannot be used is ignored, with a warning in the log. (Kafka: GroupConfig.evaluate)
        """
        kinds, values = cls.kinds(), {}
        for name, text in stored.items():
            kind = kinds.get(name)
            if kind is None:
                logger.warning("a group's config %s=%s has no effect: it is not a config here", name, text)
                continue
            try:
                value: Any = kind.parse(text)
            except ValueError:
                logger.warning("a group's config %s=%s has no effect: not %s", name, text, kind.allowed)
                continue
            for (_, least), (_, most) in _limits(name, node):
                value = min(max(value, least), most)
            values[name.replace(".", "_")] = value
        return replace(cls.of_node(node), **values)

    def check_within(self, node: NodeConfig, prefix: str = "") -> None:
        """Raise InvalidConfig unless every value is within the limits of the node, and a session longer than an
        interval. `prefix` stands before the names in the error.
        """
        for spec in fields(self):
            name, value = kafka_name(spec.name), getattr(self, spec.name)
            for (min_name, least), (max_name, most) in _limits(name, node):
                if value < least:
                    raise InvalidConfig(f"{prefix}{name}={value} must be greater than or equal to {min_name}={least}")
                if value > most:
                    raise InvalidConfig(f"{prefix}{name}={value} must be less than or equal to {max_name}={most}")
        for protocol, session, interval in (
            ("consumer", self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms),
            ("share", self.share_session_timeout_ms, self.share_heartbeat_interval_ms),
        ):
            if session <= interval:
                raise InvalidConfig(
                    f"{prefix}{protocol}.session.timeout.ms={session} must be greater than "
                    f"{prefix}{protocol}.heartbeat.interval.ms={interval}"
                )

    @classmethod
    def _elsewhere(cls) -> str:
        return (
            "consumer.assignment.interval.ms consumer.assignor.offload.enable "
            "share.assignment.interval.ms share.assignor.offload.enable streams."
        )


def _limits(name: str, node: NodeConfig) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """The least and the largest value of a group's config on a node, each with the node's config that says so; nothing
    where a node has no say.
    """
    protocol, what = name.split(".", 1)
    least, most = (f"group.{protocol}.{end}.{what}" for end in ("min", "max"))
    if not hasattr(node, least.replace(".", "_")):
        return []
    return [((least, getattr(node, least.replace(".", "_"))), (most, getattr(node, most.replace(".", "_"))))]
