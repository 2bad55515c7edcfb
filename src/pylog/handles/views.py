"""Topic -> Partition -> Segment, for programs that build on the files: `Log.topic` returns them.

A `TopicView` is the topic as it was when the view was made. A `PartitionView` holds no state: each look goes to the
node, in a process that owns the log and in one that only reads it. Reading here goes straight to the files of this
node, up to the high watermark. Appending goes by the node's one door, `ProduceHandler`, as a producer's batches do.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pylog.broker.describe import unknown_partition
from pylog.commitlog.partition_reader import ReadablePartition
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch
from pylog.handles.left_out import is_whole, warn_left_out
from pylog.handles.table_sinks import FilesSink, append_rows, topic_rules
from pylog.kernel import ConsumerRecord, Record
from pylog.kernel.notebook import table
from pylog.logdirs.log_directory import CleaningFacts
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch, claimed_end, split
from pylog.protocol.isolation import Isolation, IsolationLevel, VisibleBatches
from pylog.protocol.metadata_image import MetadataImage, PartitionImage
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease
from pylog.storage.file_ranges import Slice
from pylog.tables import AppendedTable, RecordSource, TableInput
from pylog.tables.appended import CompressionType
from pylog.tables.record_batches import record_batches
from pylog.tables.selection import MAX_ROWS, OnDamage, must_skip
from pylog.tables.topic_table import PartitionTable, TopicTable

if TYPE_CHECKING:
    import pyarrow

READ_BYTES = 1 << 20
"""As Kafka's max.partition.fetch.bytes: beside so much, the fixed cost of a read or of an Arrow batch hardly shows."""


class FilesNode(Protocol):
    """The node that has the files: the node that owns them, one that reads them, or what is attached to an owner."""

    @property
    def image(self) -> MetadataImage:
        """The topics of now."""

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides."""

    def partition(self, topic: str, number: int) -> ReadablePartition:
        """The partition, as it is stored."""

    def cleaning(self, topic: str, number: int) -> CleaningFacts | None:
        """The state of its compaction."""

    def append(self, topic: str, partition: int, batch: Batch, now_ms: int) -> Appended:
        """Append a batch, as safely as the log promises."""


class SegmentInfo(NamedTuple):
    """One segment of a partition."""

    base_offset: int
    next_offset: int
    path: str
    size: int


class PartitionView(PartitionTable):
    """One partition as it lies on this node. As a table it is all of its records (`select` chooses).

    Each look raises UnknownTopicOrPartition where the topic was deleted meanwhile, and Closed where the log was
    closed.

    >>> partition = log.topic("orders")[0]
    >>> partition.start_offset, partition.high_watermark, len(partition.segments)
    (0, 3, 1)
    """

    def __init__(self, node: FilesNode, topic: str, partition: int, clock: Clock, lease: Lease | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self._node = node
        self._clock = clock
        self._lease = lease

    def __repr__(self) -> str:
        return f"<PartitionView {self.topic}-{self.partition}>"

    def _now(self) -> ReadablePartition:
        return self._node.partition(self.topic, self.partition)

    @property
    def path(self) -> str:
        """The partition's directory."""
        return self._now().directory

    @property
    def start_offset(self) -> int:
        """The first offset there is."""
        return self._now().start_offset

    @property
    def next_offset(self) -> int:
        """The offset the next record will get."""
        return self._now().next_offset

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers do not see. All records below it are on every replica, and with
        flush="sync" durable.
        """
        return self._now().high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The first offset that read_committed consumers do not see."""
        return self._now().last_stable_offset

    @property
    def durable_offset(self) -> int:
        """The first offset that a power cut could take."""
        return self._now().durable_offset

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the newest batch; -1 in an empty log, and in mode "read", where it is not known."""
        partition = self._now()
        return partition.epochs.latest if isinstance(partition, Partition) else -1

    @property
    def replicas(self) -> tuple[int, ...]:
        """The ids of the nodes that have the partition. Raises UnknownTopicOrPartition."""
        return tuple(self._state.replicas)

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync: the leader, and the followers that have every record acknowledged with acks="all". On
        a copy this is the state at its last Metadata from the leader. Raises UnknownTopicOrPartition.
        """
        return tuple(self._state.isr)

    @property
    def _state(self) -> PartitionImage:
        image = self._node.image.topics.get(self.topic)
        state = None if image is None else image.partitions.get(self.partition)
        if state is None:
            raise unknown_partition(image, TopicPartition(self.topic, self.partition))
        return state

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return self._now().size

    @property
    def segments(self) -> list[SegmentInfo]:
        """The segments, oldest first; the last one is active."""
        return [SegmentInfo(s.base_offset, end, s.path, s.size) for s, end in self._now().segments]

    @property
    def cleaning(self) -> CleaningFacts | None:
        """The state of compaction: its `progress` while it runs, the `last` result, which is of `finished_ms`, with the
        tombstones that it has kept (`tombstones_kept`, `tombstones_until_ms`), the `error` that has ended it, and why
        the last `Log.clean` had nothing to do (`idle_reason`). None where nothing was cleaned.
        """
        return self._node.cleaning(self.topic, self.partition)

    def append(self, records: Sequence[Record | ConsumerRecord]) -> Appended:
        """Append records, new or read ones, as one batch. All replicas have them then, as durable as `flush` says.

        Raises: what refuses the batch (RecordTooLarge, InvalidTimestamp...), DiskFull, DurabilityUnknown (the disk
        failed, or the process that owns the log ended meanwhile), ReadOnly, TypeError.

        >>> partition.append([pylog.Record(b"cup"), pylog.Record(b"hat", b"bob")])
        Appended(base_offset=3, next_offset=5, log_append_time=None, duplicate=False)
        """
        now_ms = self._clock.wall_ms()
        return self._node.append(self.topic, self.partition, Batch.of(records, now_ms, True), now_ms)

    def read(self, offset: int, max_bytes: int = READ_BYTES) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one if there is one; empty at the high watermark.

        The first batch may begin below `offset`. Raises: OffsetOutOfRange, CorruptBatch, ValueError.

        >>> appended = partition.append([pylog.Record(b"cup"), pylog.Record(b"hat")])
        >>> int.from_bytes(partition.read(4)[:8])
        3
        """
        if max_bytes < 0:
            raise ValueError(f"max_bytes={max_bytes}: at least 0")
        partition = self._now()
        found = partition.read(offset, max_bytes, upto=partition.high_watermark)
        return bytes(found.data) if found is not None else b""

    def records(
        self, offset: int | None = None, end: int | None = None, *,
        isolation_level: IsolationLevel = "read_uncommitted", on_damage: OnDamage = "raise",
    ) -> Iterator[ConsumerRecord]:  # fmt: skip
        """The records in [offset, end): from the start up to the high watermark of now, unless told otherwise.

        With `isolation_level="read_committed"` up to the last stable offset, and without those of aborted transactions.
        With `on_damage="skip"` damaged batches are left out, and each is a warning in the log.
        Raises: OffsetOutOfRange, CorruptBatch (names file, position and offset), ValueError.

        >>> [record.value for record in partition.records(offset=1)]
        [b'pen', b'ink']
        """
        for first, last, batches in self._chunks(offset, end, Isolation.named(isolation_level), on_damage):
            for batch in batches:
                for records, _ in batch.groups(self.topic, self.partition, first):
                    for record in records:
                        if record.offset < last:
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
    ) -> "Iterator[pyarrow.RecordBatch]":
        """The same records as Arrow record batches of at most `max_rows` rows, without an object a record.

        `columns`: which of key, value, topic, partition, offset, timestamp, timestamp_type, headers, in that order.
        Where there are no records it is one batch without rows. Needs pyarrow and numpy (the extra `arrow`).
        Raises ValueError for an unknown column and for a `max_rows` below 1.

        >>> [batch.column("value").to_pylist() for batch in partition.columns(columns=["value"])]
        [[b'book', b'pen', b'ink']]
        """
        chunks = self._chunks(offset, end, Isolation.named(isolation_level), on_damage)
        yield from record_batches(chunks, self.topic, self.partition, columns, max_rows)

    def _part(self) -> "PartitionView":
        return self

    def _repr_html_(self) -> str:
        facts = [
            ("offsets", f"{self.start_offset} to {self.next_offset}"), ("high watermark", self.high_watermark),
            ("last stable offset", self.last_stable_offset), ("durable offset", self.durable_offset),
            ("leader epoch", self.leader_epoch), ("bytes", self.size), ("segments", len(self.segments)),
            ("path", self.path),
        ]  # fmt: skip
        return table(f"Partition {self.topic}-{self.partition}", ("", ""), facts)

    def _chunks(
        self, offset: int | None, end: int | None, isolation: Isolation, on_damage: OnDamage
    ) -> Iterator[tuple[int, int, list[Batch]]]:
        """Data batches read in pieces, each with the range of offsets wanted of it. CRCs are checked."""
        skips, key = must_skip(on_damage), TopicPartition(self.topic, self.partition)
        partition = self._now()
        committed = isolation is Isolation.READ_COMMITTED
        position = partition.start_offset if offset is None else offset
        visible = partition.last_stable_offset if committed else partition.high_watermark
        limit = visible if end is None else min(end, visible)
        while position < limit:
            found: Slice | None
            try:
                if committed:
                    found, aborted = partition.read_stable(position, READ_BYTES, upto=limit)
                else:
                    found, aborted = partition.read(position, READ_BYTES, upto=limit), []
                if found is None:
                    return
                batches = self._split(found, position)
            except CorruptBatch as error:
                if not skips or error.next_offset is None:
                    raise
                warn_left_out(key, position, error.next_offset, error)
                position = error.next_offset
                continue
            delivery = VisibleBatches((txn.producer_id, txn.first_offset) for txn in aborted)
            given = [batch for batch in batches if delivery.gives(batch)]
            yield position, limit, [batch for batch in given if is_whole(batch, key)] if skips else given
            position = batches[-1].next_offset

    @staticmethod
    def _split(found: Slice, position: int) -> list[Batch]:
        good: list[Batch] = []
        try:
            good.extend(split(found.data, check_crc=True))
            return good
        except CorruptBatch as error:
            if good:
                # The next piece begins with the damaged one.
                return good
            at = error.position or 0
            raise CorruptBatch.on_reading(
                error.reason, path=found.path, position=found.position + at, offset=position,
                next_offset=claimed_end(found.data, at, position),
            ) from None  # fmt: skip

    def offset_for_time(self, timestamp_ms: int) -> int | None:
        """The offset of the first visible record, in offset order, whose timestamp is at least this; None if none is.

        Raises ValueError (a negative time).

        >>> partition.offset_for_time(0)
        0
        """
        if timestamp_ms < 0:
            raise ValueError(f"{timestamp_ms} is not a time in ms")
        partition = self._now()
        found = partition.offset_for_time(timestamp_ms, upto=partition.high_watermark)
        return found.offset if found is not None else None

    def check(self) -> None:
        """Read everything and verify every invariant. Raises CorruptBatch at the first that does not hold.

        >>> partition.check()
        """
        self._now().check()


class TopicView(TopicTable[PartitionView]):
    """A topic: its name, its id, its config, and its partitions by number, as they were when the view was made.

    As a table it is all of its records, partition after partition (`select` chooses).

    >>> topic = log.topic("orders")
    >>> len(topic), topic.config.retention_ms
    (1, -1)
    >>> [partition.high_watermark for partition in topic]
    [3]
    """

    def __init__(self, node: FilesNode, name: str, clock: Clock, lease: Lease | None = None) -> None:
        image = node.image.topics[name]
        self._node, self._clock = node, clock
        self.name = name
        self.id: uuid.UUID = image.id
        self.overrides: dict[str, str] = dict(image.config)
        """The configs set on the topic itself, by Kafka's names."""
        self.config: TopicConfig = node.topic_config(image.config)
        self._partitions = {
            number: PartitionView(node, name, number, clock, lease) for number in sorted(image.partitions)
        }

    def __repr__(self) -> str:
        return f"<TopicView {self.name} with {len(self)} partitions>"

    def _append(self, table: TableInput, source: RecordSource, compression_type: CompressionType) -> AppendedTable:
        rules = topic_rules(len(self), self.config, self._clock.wall_ms())
        sink = FilesSink(self._node, self.name, self._clock)
        return append_rows(table, source, rules, sink, compression_type, self._clock)

    def _repr_html_(self) -> str:
        rows = [
            (view.partition, view.start_offset, view.high_watermark, view.high_watermark - view.start_offset, view.size)
            for view in self
        ]
        note = ", ".join(f"{name}={value}" for name, value in self.overrides.items())
        return table(f"Topic {self.name}", ("partition", "start", "end", "offsets", "bytes"), rows, note)
