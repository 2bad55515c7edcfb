"""The configs of producers and consumers.

Options of Kafka's clients that pylog lacks are listed, too, so that their errors do not call them misspelled.
(Kafka: ProducerConfig, ConsumerConfig.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pylog.config.offset_reset import OffsetReset
from pylog.config.options import (
    INT_MAX,
    Acks,
    Config,
    Function,
    Names,
    Switch,
    Whole,
    Words,
    integer,
    kafka_name,
    long,
    option,
)
from pylog.config.topic import RECORD_RATIO, TopicConfig
from pylog.errors import InvalidConfig, PylogError

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
PARTITIONER = "(topic, key, value, partitions) -> partition"
PARTITIONERS = ("murmur2", "murmur3", "consistent_random", "sticky", "round_robin")
IN_FLIGHT_MAX = 5
"""How many batches of a producer a partition remembers (Kafka: ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""
Deserializer = Callable[[bytes], object]
Serializer = Callable[[Any], bytes | bytearray | memoryview]
OnCommit = Callable[[dict[Any, Any], PylogError | None], object]
RECORD_BYTES_MAX = RECORD_RATIO * TopicConfig().max_message_bytes
"""The default limit of a decompressed record: `max.message.bytes` of a topic by default, times `RECORD_RATIO`."""

_ALL_CLIENTS = """bootstrap.servers client.dns.lookup config.providers connections.max.idle.ms enable.metrics.push
    interceptor.classes metadata. metric.reporters metrics. receive.buffer.bytes reconnect.backoff. retry.backoff. sasl.
    security. send.buffer.bytes socket.connection.setup. ssl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(Config):
    """The configs of a producer (Kafka: ProducerConfig)."""

    acks: int = option(-1, Acks())
    """Where a record is stored when its future is done: on all replicas in sync ("all", -1), on the leader (1), or
    perhaps nowhere (0).
    """
    allow_auto_create_topics: bool = option(False, Switch())
    """A send to a missing topic makes that topic. The node has to allow it, by `auto.create.topics.enable`. The name is
    librdkafka's; Kafka's producers always ask for it."""
    batch_size: int = option(262_144, integer(0))
    """The size of a batch, about, before compression (Kafka: 16384)."""
    buffer_memory: int = option(32 << 20, long(0))
    """How many bytes of records may wait to be sent; then `send` waits."""
    client_id: str = option("", Words())
    """A name for this client, sent along with each message: metrics and descriptions of groups show it."""
    compression_gzip_level: int = option(-1, integer(-1, 9, without=(0,)))
    """The level where `compression_type` is gzip; -1 is zlib's own choice."""
    compression_lz4_level: int = option(9, integer(1, 17))
    """The level where `compression_type` is lz4."""
    compression_type: str = option("none", Words("none", "gzip", "snappy", "lz4", "zstd"))
    """How batches are compressed."""
    compression_zstd_level: int = option(3, integer(-131072, 22))
    """The level where `compression_type` is zstd."""
    delivery_timeout_ms: int = option(None, Whole(0, INT_MAX, optional=True))
    """How long after `send` an undelivered record fails at the latest. None: 120,000, or the sum of `linger_ms` and
    `request_timeout_ms` where that is more.
    """
    enable_idempotence: bool = option(None, Switch(optional=True))
    """Whether batches are numbered, so that a batch that is sent again is stored once. None: True, unless `acks` or
    `retries` exclude it.
    """
    key_serializer: Serializer | None = option(None, Function("(key) -> bytes"))
    """Turns a key into bytes. It is not called for None."""
    linger_ms: int = option(5, long(0))
    """How long a record waits for others to share its batch."""
    max_block_ms: int = option(60_000, long(0))
    """How long `send` waits for room in the buffer, and a transactional producer for its coordinator."""
    max_in_flight_requests_per_connection: int = option(5, integer(1))
    """How many batches of one partition may be under way. A batch that has to be sent again holds up those behind it,
    so the order stays; without idempotence only where this is 1.
    """
    max_request_size: int = option(1 << 20, integer(0))
    """The largest record."""
    metadata_max_age_ms: int = option(300_000, long(0))
    """How often a topic is looked at for new partitions, when a record begins a batch."""
    partitioner: str | Partitioner | None = option(None, Function(PARTITIONER, *PARTITIONERS))
    """Which partition a record goes to that is sent to none. "murmur2" (None too): by its key, as a Java producer; a
    sticky one without. "murmur3": by another hash of its key. "consistent_random": by the hash that librdkafka takes by
    default, so a key lands where a confluent-kafka producer puts it; an empty key counts as no key. "sticky": a sticky
    one,
    whatever its key. "round_robin": the next one. Or a function of the topic, the key and value in bytes, and how many
    partitions there are. (Kafka: partitioner.class.)
    """
    partitioner_ignore_keys: bool = option(False, Switch())
    """Whether a partitioner of pylog ignores keys."""
    request_timeout_ms: int = option(30_000, integer(0))
    """How long a node may wait for replicas before it answers."""
    retries: int = option(INT_MAX, integer(0))
    """How often a batch is sent again after a retriable error, until `delivery_timeout_ms` is over."""
    retry_backoff_max_ms: int = option(1000, long(0))
    """The longest wait before something is sent again."""
    retry_backoff_ms: int = option(100, long(0))
    """The first wait before something is sent again; each is twice the one before."""
    transaction_timeout_ms: int = option(60_000, integer())
    """How long a transaction may stay open before the coordinator aborts it."""
    transactional_id: str | None = option(None, Words(optional=True))
    """The name under which transactions go on after a restart. A new producer with this name fences the old one."""
    value_serializer: Serializer | None = option(None, Function("(value) -> bytes"))
    """Turns a value into bytes. It is not called for None."""

    @property
    def compression_level(self) -> int | None:
        """The level of `compression_type`; None where it has none."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    def _check_together(self) -> None:
        wanted: bool | None = self.enable_idempotence
        excluded = "acks=all" if self.acks != -1 else "retries above 0" if self.retries == 0 else None
        if self.transactional_id is not None and (wanted is False or excluded):
            needed = excluded or "enable_idempotence=True"
            raise InvalidConfig(f"transactional_id={self.transactional_id!r} needs {needed}: transactions are numbered")
        if wanted and excluded:
            raise InvalidConfig(f"enable_idempotence=True needs {excluded}: say that, or leave idempotence out")
        if wanted is None:
            object.__setattr__(self, "enable_idempotence", excluded is None)
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > IN_FLIGHT_MAX:
            raise InvalidConfig(
                f"max_in_flight_requests_per_connection={self.max_in_flight_requests_per_connection}: a node remembers "
                f"{IN_FLIGHT_MAX} batches of a producer; ask for at most so many, or for enable_idempotence=False"
            )
        least = min(self.linger_ms + self.request_timeout_ms, INT_MAX)
        longest: int | None = self.delivery_timeout_ms
        if longest is None:
            object.__setattr__(self, "delivery_timeout_ms", max(120_000, least))
        elif longest < least:
            raise InvalidConfig(
                f"delivery_timeout_ms={longest} is less than linger_ms and request_timeout_ms "
                f"together, which are {least}: raise it, or lower one of them"
            )

    @classmethod
    def _elsewhere(cls) -> str:
        return f"""{_ALL_CLIENTS} partitioner. transaction.two.phase.commit.enable"""


_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_ASSIGNOR_CLASSES = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": meant
    for name, meant in zip(("Range", "RoundRobin", "Sticky", "CooperativeSticky"), _ASSIGNORS, strict=True)
}
_OF_CLASSIC = {
    "heartbeat_interval_ms": 3000,
    "partition_assignment_strategy": ("range", "cooperative-sticky"),
    "session_timeout_ms": 45_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(Config):
    """The configs of a consumer (Kafka: ConsumerConfig)."""

    allow_auto_create_topics: bool = option(False, Switch())
    """A consumer that names a missing topic makes that topic: by `subscribe`, `assign`, or a question such as
    `end_offsets`. The node has to allow it, by `auto.create.topics.enable`. A pattern makes none. Kafka: true;
    here a misspelt name is an error or a warning."""
    auto_commit_interval_ms: int = option(5000, integer(0))
    """How often `poll` commits, with `enable_auto_commit`."""
    auto_offset_reset: str = option("latest", OffsetReset("latest", "earliest", "none"))
    """Where to begin in a partition without a position, or with one that is gone; "none" raises, and
    "by_duration:PT1H" is an hour ago."""
    check_crcs: bool = option(True, Switch())
    """Whether every batch's checksum is verified."""
    client_id: str = option("", Words())
    """A name for this client, sent along with each message: groups show it with their members."""
    client_rack: str = option("", Words())
    """The rack of this client. A cluster whose nodes have racks may name a replica of that rack to read from (KIP-392),
    and its groups may assign partitions by it. A node of pylog's has no rack, and passes over it."""
    consumer_timeout_ms: int | None = option(None, Whole(0, INT_MAX, optional=True))
    """How long an iteration waits for more records before it ends. None: for ever. From kafka-python, not Kafka."""
    default_offset_commit_callback: OnCommit | None = option(None, Function("(offsets, error) -> None"))
    """Is called as `callback(offsets, error)` after each automatic commit, and after each `commit_async` without a
    callback of its own; None: an error is logged. From kafka-python, not Kafka."""
    default_api_timeout_ms: int = option(60_000, integer(0))
    """How long calls that have no limit of their own wait for an answer."""
    enable_auto_commit: bool | None = option(None, Switch(optional=True))
    """Whether `poll` and `close` commit what earlier polls gave; None: where there is a group."""
    enable_auto_offset_store: bool = option(True, Switch())
    """Whether the positions are what is committed where no offsets are given; else that is what `store_offsets` was
    given. From librdkafka, not Kafka."""
    exclude_internal_topics: bool = option(True, Switch())
    """Whether a pattern never matches internal topics (`__...`)."""
    fetch_max_bytes: int = option(50 << 20, integer(0))
    """How many bytes one answer of a node may have, about."""
    fetch_max_wait_ms: int = option(500, integer(0))
    """How long a node may wait for `fetch_min_bytes`."""
    fetch_min_bytes: int = option(1, integer(0))
    """How many bytes are worth an answer before `fetch_max_wait_ms` is over."""
    group_id: str | None = option(None, Words(optional=True))
    """The group to share topics with, and to commit offsets for."""
    group_instance_id: str | None = option(None, Words(optional=True))
    """A name that makes a static member: one that comes back in time gets its partitions back (KIP-345)."""
    group_protocol: str = option("classic", Words("classic", "consumer", any_case=True))
    """How members agree: "classic", where a member assigns, or "consumer", where the coordinator does (KIP-848)."""
    group_remote_assignor: str | None = option(None, Words(optional=True))
    """With group_protocol "consumer": how to assign, "uniform" or "range"; None: as the group does."""
    heartbeat_interval_ms: int = option(None, Whole(1, INT_MAX, optional=True))
    """With group_protocol "classic": the interval of this member's heartbeats, below a third of `session_timeout_ms`;
    None: 3000.
    """
    isolation_level: str = option("read_uncommitted", Words("read_uncommitted", "read_committed"))
    """Whether records of open and aborted transactions are given; with "read_committed" the end is the LSO."""
    key_deserializer: Deserializer | None = option(None, Function("bytes -> key"))
    """Turns the bytes of a key into a key. None: keys are bytes. It is not called for a record without a key."""
    max_partition_fetch_bytes: int = option(1 << 20, integer(0))
    """How many bytes of one partition an answer may have, about."""
    max_poll_interval_ms: int = option(300_000, integer(1))
    """How long a member may stay away from `poll` before it leaves the group, and so how long a rebalance waits."""
    max_poll_records: int = option(500, integer(1))
    """How many records one `poll` gives at most."""
    metadata_max_age_ms: int = option(300_000, long(0))
    """How often the topics are looked at for new ones and new partitions, where there are records all the time."""
    partition_assignment_strategy: tuple[str, ...] = option(
        None, Names(*_ASSIGNORS, others=_ASSIGNOR_CLASSES, optional=True)
    )
    """With group_protocol "classic": how a group shares partitions, the best way first; all members need one in common.
    None: "range", then "cooperative-sticky".
    """
    retry_backoff_ms: int = option(100, long(0))
    """How long to wait after an error that may go away by itself."""
    pylog_max_record_bytes: int = option(RECORD_BYTES_MAX, integer(0))
    """The largest record in a compressed batch; 16 times the batch where that is more. Not Kafka's."""
    session_timeout_ms: int = option(None, Whole(1, INT_MAX, optional=True))
    """With group_protocol "classic": how long the group waits for a heartbeat before it takes a member for dead; None:
    45,000. With "consumer" the coordinator decides that, and how often it wants to hear of a member.
    """
    value_deserializer: Deserializer | None = option(None, Function("bytes -> value"))
    """Turns the bytes of a value into a value. None: values are bytes. It is not called for a tombstone."""

    def _check_together(self) -> None:
        of_others = _OF_CLASSIC if self.group_protocol == "consumer" else ("group_remote_assignor",)
        for name in of_others:
            if getattr(self, name) is not None:
                raise InvalidConfig(f"{kafka_name(name)} has no meaning with group.protocol={self.group_protocol}")
        for name, default in _OF_CLASSIC.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidConfig(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} is not below "
                f"session.timeout.ms={self.session_timeout_ms}: the group would take the member for dead"
            )
        if self.group_id is None and not self.enable_auto_offset_store:
            raise InvalidConfig("enable.auto.offset.store=false needs a group.id: there is no group to store for")
        for name in ("enable_auto_commit", "group_instance_id"):
            if self.group_id is None and getattr(self, name):
                raise InvalidConfig(f"{kafka_name(name)} needs a group.id: there is no group to commit for, or be in")

    @property
    def commits(self) -> bool:
        """Whether there is auto-commit."""
        return self.group_id is not None and self.enable_auto_commit is not False

    @classmethod
    def _elsewhere(cls) -> str:
        return f"""{_ALL_CLIENTS} internal.
            request.timeout.ms share."""
