"""`connect` and `ConnectedLog`: a log whose nodes are behind a network, a pylog server or a Kafka cluster.

    pylog.connect("host:9092")                     -> ConnectedLog: the client half of a log
    pylog.connect("host:9092").topic("clicks")     -> ConnectedTopic -> ConnectedPartition, by number

What needs the files of a log raises NotLocal.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Unpack
from uuid import UUID

from pylog.client.admin.configs import ConfigAdmin, ConfigValue
from pylog.client.admin.topics import DescribedTopic, TopicAdmin
from pylog.client.cluster import Cluster
from pylog.client.network.transport import reached
from pylog.client.partition_batches import Chunk, PartitionBatches
from pylog.config import ProducerConfig
from pylog.errors import CorruptBatch, CorruptRecord, NotLocal
from pylog.handles.client_half import ClientHalf
from pylog.handles.left_out import is_whole, warn_left_out
from pylog.handles.open_log import OpenLog
from pylog.handles.table_sinks import ProducerSink, append_rows, topic_rules
from pylog.protocol.isolation import Isolation, IsolationLevel
from pylog.record import ConsumerRecord, TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.tables import AppendedTable, RecordSource, TableInput
from pylog.tables.appended import CompressionType
from pylog.tables.record_batches import record_batches
from pylog.tables.selection import MAX_ROWS, OnDamage, must_skip
from pylog.tables.topic_table import PartitionTable, TopicTable
from pylog.transport import ANY_NODE

if TYPE_CHECKING:
    import pyarrow

    from pylog.config.typed import ConnectionOptions

__all__ = ["ConnectedLog", "ConnectedPartition", "ConnectedTopic", "connect"]

TIMEOUT_MS = 60_000
"""As Kafka's default.api.timeout.ms."""
_THERE = "open its directory, where it lies"
_DAMAGE = "run `pylog verify` and `pylog repair` where they lie"
_CLEANING = "its node does it by itself; run `pylog topic clean` where they lie"
OF_LOGS = {
    **dict.fromkeys(("find_damage", "found_damage", "quarantined", "recovered", "repair"), _DAMAGE),
    **dict.fromkeys(("apply_retention", "clean"), _CLEANING),
    "broker": "`log.admin` asks and changes what a node has",
    "flush": "a producer's `flush` waits for its records",
    "serve": "it is served already: connect to it",
}
OF_PARTITIONS = {
    **dict.fromkeys(("durable_offset", "leader_epoch", "path", "segments"), _THERE),
    "append": "`log.producer()` sends records here, too",
    "check": _DAMAGE,
    "cleaning": _CLEANING,
    "read": "`log.consumer(topic)` reads records here, too",
}
"""The names of a `Log` and its partitions that the client half lacks, with the way round."""


def connect(
    bootstrap_servers: str | Sequence[str], *, config: Mapping[str, object] | None = None,
    **configs: Unpack["ConnectionOptions"],
) -> "ConnectedLog":  # fmt: skip
    """Connect to a cluster, and give a `ConnectedLog`; use it as a context manager.

    `bootstrap_servers`: "host:port" of one node or of several, with commas or in a list; `unix:/path` for a Unix
    socket. The others are found through them. Configs are those of `ConnectionConfig`, with underscores as keywords or
    by Kafka's names in `config`: `security_protocol`, `sasl_mechanism`, `sasl_username`, `ssl_ca_location`...

    Raises: NetworkError (no node can be reached), SaslAuthentication, SslAuthentication, UnsupportedVersion (a node is
    too old), InvalidConfig, ValueError (no address).

    >>> server = log.serve("127.0.0.1:0")
    >>> with pylog.connect(server.bootstrap_servers, client_id="billing") as there:
    ...     there.topics()
    ['orders']
    """
    clock = SystemClock()
    where, network, transport = reached(bootstrap_servers, {**(config or {}), **configs}, clock)
    log = ConnectedLog(OpenLog(where, lambda: f"at {where}", network, transport, ANY_NODE, "connect to"), clock)
    try:
        log.check_connection()
    except BaseException:
        log.close()
        raise
    return log


class ConnectedLog(ClientHalf["ConnectedTopic"]):
    """A log whose nodes are elsewhere: topics, producers, consumers, admin. Thread-safe.

    Close it, or use it as a context manager: that delivers what was sent, as `Log.close` does. Calls that need the
    files of the log (`find_damage`, `serve`...) raise NotLocal. In a process that was forked it is closed: connect
    again. Calls raise Closed after `close`, and NetworkError or RequestTimedOut where no node answers.

    >>> there = pylog.connect(log.serve().bootstrap_servers)
    >>> there.topics()
    ['orders']
    """

    def check_connection(self) -> None:
        """Ask any node for nothing. Raises what `connect` raises.

        >>> there.check_connection()
        """
        self._check_open()
        self._cluster.refresh([])

    @cached_property
    def _readers(self) -> Cluster:
        """A view of the nodes for readers of columns: they share connections, which no other client has."""
        return Cluster(self._transport, ANY_NODE, "reader")

    def batches(self, key: TopicPartition, topic_id: UUID, isolation: Isolation, timeout_ms: int) -> PartitionBatches:
        """The batches of a partition, for a caller that knows where to begin and end."""
        self._check_open()
        return PartitionBatches(self._readers, key, topic_id, isolation, self._clock, timeout_ms)

    def topic(self, name: str) -> "ConnectedTopic":
        """A topic as it is now. Raises UnknownTopicOrPartition.

        >>> there.topic("orders")
        <ConnectedTopic orders with 1 partitions>
        """
        self._check_open()
        return ConnectedTopic(self, self._topics, self._configs, self._topics.topic(name))

    def __getattr__(self, name: str) -> NoReturn:
        if name in OF_LOGS:
            raise NotLocal(f"{name} needs the files of the log: {OF_LOGS[name]}")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


class ConnectedTopic(TopicTable["ConnectedPartition"]):
    """A topic behind a network: its name, its id, its configs, and its partitions by number.

    As a table it is all of its records, partition after partition (`select` chooses).

    >>> there = pylog.connect(log.serve().bootstrap_servers)
    >>> topic = there.topic("orders")
    >>> topic.name, len(topic), topic.config["cleanup.policy"].value
    ('orders', 1, 'delete')
    """

    def __init__(self, log: ConnectedLog, admin: TopicAdmin, configs: ConfigAdmin, found: DescribedTopic) -> None:
        self.name = found.name
        self.id: UUID = found.id
        self._log = log
        self._configs = configs
        self._partitions = {
            part.partition: ConnectedPartition(log, admin, TopicPartition(found.name, part.partition), found.id)
            for part in found.partitions
        }

    def __repr__(self) -> str:
        return f"<ConnectedTopic {self.name} with {len(self)} partitions>"

    @property
    def config(self) -> dict[str, ConfigValue]:
        """Every config that the topic goes by now, by Kafka's names."""
        return self._configs.describe_topic_config(self.name)

    def _append(self, table: TableInput, source: RecordSource, compression_type: CompressionType) -> AppendedTable:
        clock = SystemClock()
        rules = topic_rules(len(self), self.config, clock.wall_ms())
        most = max(rules.max_message_bytes, ProducerConfig().max_request_size)
        with self._log.producer(max_request_size=most) as producer:
            return append_rows(table, source, rules, ProducerSink(producer, self.name), compression_type, clock)


class ConnectedPartition(PartitionTable):
    """A partition behind a network. Each look asks its leader; the errors are those of `Admin.list_offsets`.

    As a table it is all of its records (`select` chooses).

    >>> there = pylog.connect(log.serve().bootstrap_servers)
    >>> partition = there.topic("orders")[0]
    >>> partition.start_offset, partition.high_watermark
    (0, 3)
    """

    def __init__(self, log: ConnectedLog, admin: TopicAdmin, key: TopicPartition, topic_id: UUID) -> None:
        self.topic, self.partition = key
        self._topic_id = topic_id
        self._log = log
        self._admin = admin
        self._key = key

    def __repr__(self) -> str:
        return f"<ConnectedPartition {self.topic}-{self.partition}>"

    def _offset(self, spec: int | str, isolation_level: IsolationLevel = "read_uncommitted") -> int:
        return self._admin.list_offsets({self._key: spec}, isolation_level=isolation_level)[self._key].offset

    @property
    def start_offset(self) -> int:
        """The first offset there is."""
        return self._offset("earliest")

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers do not see."""
        return self._offset("latest")

    @property
    def next_offset(self) -> int:
        """The same as `high_watermark`: a client does not see further."""
        return self._offset("latest")

    @property
    def last_stable_offset(self) -> int:
        """The first offset that read_committed consumers do not see."""
        return self._offset("latest", "read_committed")

    @property
    def size(self) -> int:
        """Bytes of all `.log` files, in the node that has the most."""
        return max((found.partitions.get(self._key, 0) for found in self._admin.describe_log_dirs()), default=0)

    def offset_for_time(self, timestamp_ms: int) -> int | None:
        """The offset of the first visible record, in offset order, whose timestamp is at least this; None if none is.

        Raises ValueError (a negative time).

        >>> partition.offset_for_time(0)
        0
        """
        offset = self._offset(timestamp_ms)
        return offset if offset >= 0 else None

    def records(
        self, offset: int | None = None, end: int | None = None, *,
        isolation_level: IsolationLevel = "read_uncommitted", on_damage: OnDamage = "raise",
    ) -> Iterator[ConsumerRecord]:  # fmt: skip
        """The records in [offset, end): from the start up to the high watermark of now, unless told otherwise.

        With `isolation_level="read_committed"` up to the last stable offset, and without those of aborted transactions.
        With `on_damage="skip"` damaged batches are left out, and each is a warning in the log.
        Raises: OffsetOutOfRange, CorruptBatch, CorruptRecord (the node cannot read them), ValueError.

        >>> [record.value for record in partition.records(offset=1)]
        [b'pen', b'ink']
        """
        skips = must_skip(on_damage)
        start, limit = self._range(offset, end, isolation_level)
        with self._log.consumer(isolation_level=isolation_level, auto_offset_reset="none") as consumer:
            consumer.assign([self._key])
            consumer.seek(self._key, start)
            while (position := consumer.position(self._key)) < limit:
                try:
                    records = consumer.poll(1000)
                except (CorruptBatch, CorruptRecord) as error:
                    if not skips:
                        raise
                    consumer.skip()
                    warn_left_out(self._key, position, consumer.position(self._key), error)
                    continue
                for record in records:
                    if record.offset >= limit:
                        return
                    yield record

    def columns(
        self,
        offset: int | None = None,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        max_rows: int = MAX_ROWS,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_damage: OnDamage = "raise",
        timeout_ms: int = TIMEOUT_MS,
    ) -> "Iterator[pyarrow.RecordBatch]":
        """The same records as Arrow record batches of at most `max_rows` rows, without an object a record.

        They are fetched a piece ahead. `columns`: which of key, value, topic, partition, offset, timestamp,
        timestamp_type, headers, in that order. Where there are no records it is one batch without rows. Needs pyarrow
        and numpy (the extra `arrow`). Raises as `PartitionView.columns` does; CorruptRecord, UnknownTopicId (the topic
        was made again), RequestTimedOut (no records for `timeout_ms`).

        >>> [batch.column("value").to_pylist() for batch in partition.columns(columns=["value"])]
        [[b'book', b'pen', b'ink']]
        """
        skips, isolation = must_skip(on_damage), Isolation.named(isolation_level)
        start, limit = self._range(offset, end, isolation_level)
        batches = self._log.batches(self._key, self._topic_id, isolation, timeout_ms)
        chunks = self._whole_chunks(batches, start, limit) if skips else batches.chunks(start, limit)
        yield from record_batches(chunks, self.topic, self.partition, columns, max_rows)

    def _range(self, offset: int | None, end: int | None, isolation_level: IsolationLevel) -> tuple[int, int]:
        visible = self._offset("latest", isolation_level)
        return self.start_offset if offset is None else offset, visible if end is None else min(end, visible)

    def _whole_chunks(self, batches: PartitionBatches, position: int, end: int) -> Iterator[Chunk]:
        """The chunks without what is damaged."""
        while True:
            try:
                for chunk in batches.chunks(position, end):
                    yield chunk._replace(batches=[batch for batch in chunk.batches if is_whole(batch, self._key)])
            except (CorruptBatch, CorruptRecord) as error:
                position = self._past(batches.position)
                warn_left_out(self._key, batches.position, position, error)
            else:
                return

    def _past(self, offset: int) -> int:
        """The first offset behind damage at `offset` that can be read."""
        with self._log.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([self._key])
            consumer.seek(self._key, offset)
            try:
                next(iter(consumer))
            except (CorruptBatch, CorruptRecord):
                consumer.skip()
                return consumer.position(self._key)
        # It can be read meanwhile.
        return offset

    def _part(self) -> "ConnectedPartition":
        return self

    def __getattr__(self, name: str) -> NoReturn:
        if name in OF_PARTITIONS:
            raise NotLocal(f"{name} needs the files of {self.topic}-{self.partition}: {OF_PARTITIONS[name]}")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
