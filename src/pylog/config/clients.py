"""The configs of producers and consumers.

What Kafka's clients have and ours have not is listed too, so that whoever brings it hears that it is no misspelling.
(Kafka: ProducerConfig, ConsumerConfig.)
"""

from dataclasses import dataclass

from pylog.config.options import INT_MAX, Acks, Config, Switch, Whole, Words, integer, long, option

_ALL_CLIENTS = """bootstrap.servers client.dns.lookup config.providers connections.max.idle.ms enable.metrics.push
    interceptor.classes metadata. metric.reporters metrics. receive.buffer.bytes reconnect.backoff. retry.backoff. sasl.
    security. send.buffer.bytes socket.connection.setup. ssl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(Config):
    """The configs of a producer (Kafka: ProducerConfig)."""

    acks: int = option(-1, Acks())
    """Who has a record when its future is done: all replicas in sync ("all", -1), the leader (1), nobody knows (0)."""
    batch_size: int = option(131_072, integer(0))
    """The size of a batch, about, before compression (Kafka: 16384)."""
    buffer_memory: int = option(32 << 20, long(0))
    """How many bytes of records may wait to be sent; then `send` waits."""
    client_id: str = option("", Words())
    """A name for this client, sent along with each message. No effect yet: nodes do nothing with it."""
    compression_gzip_level: int = option(-1, integer(-1, 9, without=(0,)))
    """The level where `compression_type` is gzip; -1 is zlib's own choice."""
    compression_lz4_level: int = option(9, integer(1, 17))
    """The level where `compression_type` is lz4."""
    compression_type: str = option("none", Words("none", "gzip", "snappy", "lz4", "zstd"))
    """How batches are compressed."""
    compression_zstd_level: int = option(3, integer(-131072, 22))
    """The level where `compression_type` is zstd."""
    linger_ms: int = option(5, long(0))
    """How long a record waits for others to share its batch."""
    max_block_ms: int = option(60_000, long(0))
    """How long `send` waits for room in the buffer."""
    max_request_size: int = option(1 << 20, integer(0))
    """The largest record."""
    request_timeout_ms: int = option(30_000, integer(0))
    """How long a node may wait for replicas."""

    @classmethod
    def _elsewhere(cls) -> str:
        return f"""{_ALL_CLIENTS} delivery.timeout.ms enable.idempotence key.serializer
            max.in.flight.requests.per.connection partitioner. retries transaction.timeout.ms
            transaction.two.phase.commit.enable transactional.id value.serializer"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(Config):
    """The configs of a consumer (Kafka: ConsumerConfig)."""

    auto_offset_reset: str = option("latest", Words("latest", "earliest", "none"))
    """Where to begin in a partition without a position, or with one that is gone; "none" raises."""
    check_crcs: bool = option(True, Switch())
    """Whether every batch's checksum is verified."""
    client_id: str = option("", Words())
    """A name for this client, sent along with each message. No effect yet: nodes do nothing with it."""
    consumer_timeout_ms: int | None = option(None, Whole(0, INT_MAX, optional=True))
    """How long iterating waits for more records before it ends; None: for ever. Not Kafka's (but kafka-python's)."""
    fetch_max_bytes: int = option(50 << 20, integer(0))
    """How many bytes one answer of a node may have, about."""
    fetch_max_wait_ms: int = option(500, integer(0))
    """How long a node may wait for `fetch_min_bytes`."""
    fetch_min_bytes: int = option(1, integer(0))
    """How many bytes are worth an answer before `fetch_max_wait_ms` is over."""
    isolation_level: str = option("read_uncommitted", Words("read_uncommitted", "read_committed"))
    """Whether records of open and aborted transactions are given; with "read_committed" the end is the LSO."""
    max_partition_fetch_bytes: int = option(1 << 20, integer(0))
    """How many bytes of one partition an answer may have, about."""
    max_poll_records: int = option(500, integer(1))
    """How many records one `poll` gives at most."""

    @classmethod
    def _elsewhere(cls) -> str:
        return f"""{_ALL_CLIENTS} allow.auto.create.topics auto.commit.interval.ms client.rack default.api.timeout.ms
            enable.auto.commit exclude.internal.topics group. heartbeat.interval.ms internal.
            key.deserializer max.poll.interval.ms partition.assignment.strategy request.timeout.ms session.timeout.ms
            share. value.deserializer"""
