"""Records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, and the session that sends them."""

import uuid
from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from pylog.errors import PylogError, UnsupportedFormat
from pylog.kernel.format import NO_EPOCH
from pylog.protocol.batch import Batch
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages.api import ApiResponse, ByTopic, PartitionsRequest, api_message
from pylog.protocol.messages.message import message
from pylog.record import TopicPartition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
MAX_TIMESTAMP_FROM = 7
"""The version of ListOffsets from which on MAX_TIMESTAMP is a time."""
TIMEOUT_MS = 30_000
"""The time that a node has for what is in tiered storage."""
ACKS_ALL = -1
CONSUMER = -1
NO_ID = uuid.UUID(int=0)
NOTHING = memoryview(b"")
NO_HIGH_WATERMARK = -1
HIGH_WATERMARK_UNTOLD = (1 << 63) - 1
"""The high watermark of a consumer, and of a follower that is older than the field."""


ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has proved no name."""


@message
class Session:
    """The sender of a message."""

    client_id: str = ""
    host: str = ""
    """The host that it runs on; the node fills in its own process where a message did not come by a network."""
    principal: str = ""
    """The name of a client of a server, "User:alice", or `ANONYMOUS`; empty: it runs in the process of the node."""
    is_proved: bool = False
    """Whether the client has proved that name to the server. A user may be called ANONYMOUS, too."""


# --- produce ---------------------------------------------------------------------------------------------------------


@message
class ProducePart:
    topic: str
    partition: int
    batch: Batch
    topic_id: uuid.UUID = NO_ID
    """The id of the topic that is meant: another one of that name answers UnknownTopicId (KIP-516)."""


@message
class Produce:
    parts: list[ProducePart]
    acks: int = ACKS_ALL
    timeout_ms: int = 30_000
    transactional_id: str | None = None
    joins: bool = True
    """Whether the partitions join the transaction by this; else it is TransactionAbortable where they have not."""
    may_block: bool = True
    """False: where an append may have to wait in the thread that asks, nothing is done, and the answer has no parts."""


@message
class ProducedPart:
    topic: str
    partition: int
    error: PylogError | None = None
    base_offset: int = -1
    next_offset: int = -1
    log_append_time: int | None = None
    log_start_offset: int = -1


@message
class Produced:
    parts: list[ProducedPart]


# --- fetch -----------------------------------------------------------------------------------------------------------


@message
class FetchPart:
    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    """The epoch of the last batch that the asker has.

    By it the leader finds whether the log was cut below `offset`, and has other records now (KIP-595; for consumers
    KIP-320).
    """
    high_watermark: int = HIGH_WATERMARK_UNTOLD
    """The high watermark that a follower has: the leader answers at once when it has a newer one (KIP-1166).

    One that knows none, `NO_HIGH_WATERMARK`, has not compared its log with the leader's: asking acknowledges nothing.
    """
    topic_id: uuid.UUID = NO_ID
    """As in `ProducePart`."""
    directory_id: uuid.UUID = NO_ID
    """The id of the follower's first log directory, by which two nodes with one id are told apart (KIP-853)."""


class Extent(Protocol):
    """Whole batches that lie in a file of the node, for sending them on: see `file_region.FileExtent`."""

    @property
    def size(self) -> int:
        """The number of bytes in all."""

    @property
    def left(self) -> int:
        """The number of bytes that were not sent yet."""

    def __len__(self) -> int:
        """The same as `size`: an extent is a field of an answer that is encoded."""

    def send(self, target: int) -> int:
        """Send as much of the rest as the socket with this descriptor takes; return how much.

        Raises: BlockingIOError and other OSErrors of the socket; Truncated and other PylogErrors, when the rest cannot
        be sent any more.
        """

    def take(self, bytes_max: int) -> bytes:
        """The next bytes of the rest, in memory: for a sender that changes the bytes (TLS). They count as sent."""

    def read(self) -> bytes:
        """The rest, in memory: for a sender that has no descriptor."""

    def close(self) -> None:
        """Close the extent; needed when sending stops before the end."""


@message
class Fetch:
    parts: list[FetchPart]
    replica_id: int = CONSUMER
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    as_extents: bool = False
    """Whether the asker sends the bytes on: where they are many, a part may have an `extent` instead of `data`."""
    rack_id: str = ""
    """The rack of the consumer. A leader may name a replica of that rack to read from (KIP-392)."""


@message
class FetchedPart:
    topic: str
    partition: int
    error: PylogError | None = None
    data: memoryview = NOTHING
    extent: Extent | None = None
    """The place of the bytes that `data` would have: only for an asker that has asked for it."""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """(producer id, first offset) of the aborted transactions with records in `data`, if committed ones were asked."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset): the asker's log parts from the leader's log there. A follower has to be cut."""
    path: str | None = None
    """The source of the data, for error messages: the file, and the position in it."""
    position: int = 0
    preferred_read_replica: int = -1
    """The node to ask in place of the leader; there are no records then. -1: none."""

    @property
    def size(self) -> int:
        """The number of bytes of batches in this part."""
        return len(self.data) if self.extent is None else self.extent.size


@message
class Fetched:
    parts: list[FetchedPart]

    @property
    def size(self) -> int:
        """The number of bytes of batches in all parts."""
        return sum([part.size for part in self.parts])


# --- offsets ---------------------------------------------------------------------------------------------------------


@api_message
class ListOffsetsResponse(ApiResponse):
    @api_message
    class ListOffsetsTopicResponse:
        @api_message
        class ListOffsetsPartitionResponse:
            partition_index: int
            error: PylogError | None = None
            timestamp: int = -1
            offset: int = -1
            """-1: no record has a timestamp that large."""
            leader_epoch: int = NO_EPOCH

        name: str
        partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)


ListedOffset = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse


@api_message
class ListOffsetsRequest(PartitionsRequest[ListOffsetsResponse, ListedOffset]):
    @api_message
    class ListOffsetsTopic:
        @api_message
        class ListOffsetsPartition:
            partition_index: int
            current_leader_epoch: int = NO_EPOCH
            """The leader epoch that the asker believes in: another one is an error (KIP-320)."""
            timestamp: int
            """Milliseconds, or EARLIEST, LATEST, MAX_TIMESTAMP."""

        name: str
        partitions: list[ListOffsetsPartition] = field(default_factory=list)

    replica_id: int
    """CONSUMER, or a node that follows: its logs are looked at up to their ends."""
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def of(
        cls, times: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED, *,
        replica_id: int = CONSUMER, epochs: Mapping[TopicPartition, int] | None = None,
    ) -> "ListOffsetsRequest":  # fmt: skip
        """The request for a time of each partition. `epochs` are the leader epochs that the asker believes in."""
        part, known = ListOffsetsPartition, epochs or {}
        parts = [
            (key, part(partition_index=key.partition, current_leader_epoch=known.get(key, NO_EPOCH), timestamp=time))
            for key, time in times.items()
        ]
        return cls(
            replica_id=replica_id, isolation_level=isolation.value,
            topics=cls.by_topic(parts), timeout_ms=TIMEOUT_MS,
        )  # fmt: skip

    def said_in(self, version: int) -> "ListOffsetsRequest":
        if version < MAX_TIMESTAMP_FROM and any(part.timestamp == MAX_TIMESTAMP for _, part in self.keyed()):
            raise UnsupportedFormat(f"version {version} has no time for the newest record")
        return self


ListOffsetsPartition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition


@api_message
class OffsetForLeaderEpochResponse(ApiResponse):
    @api_message
    class OffsetForLeaderTopicResult:
        @api_message
        class EpochEndOffset:
            error: PylogError | None = None
            partition: int
            leader_epoch: int = NO_EPOCH
            """The largest epoch up to the one asked that the log has; NO_EPOCH, and the offset -1: it has none."""
            end_offset: int = -1
            """The first offset that is not of that epoch."""

        topic: str
        partitions: list[EpochEndOffset] = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)


EpochEnd = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset


@api_message
class OffsetForLeaderEpochRequest(PartitionsRequest[OffsetForLeaderEpochResponse, EpochEnd]):
    """Where leader epochs end in the log: a consumer finds by it whether the log was cut (KIP-320)."""

    @api_message
    class OffsetForLeaderTopic:
        @api_message
        class OffsetForLeaderPartition:
            partition: int
            current_leader_epoch: int = NO_EPOCH
            """As in a ListOffsets."""
            leader_epoch: int
            """The epoch whose end is asked for."""

        topic: str
        partitions: list[OffsetForLeaderPartition] = field(default_factory=list)

    fields = ByTopic(name="topic", number="partition")
    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


OffsetForLeaderPartition = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition


# --- deleting ---------------------------------------------------------------------------------------------------------


@api_message
class DeleteRecordsResponse(ApiResponse):
    @api_message
    class DeleteRecordsTopicResult:
        @api_message
        class DeleteRecordsPartitionResult:
            partition_index: int
            low_watermark: int
            """The start of the log now; -1 with an error."""
            error: PylogError | None = None

        name: str
        partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)


DeletedRecords = DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult


@api_message
class DeleteRecordsRequest(PartitionsRequest[DeleteRecordsResponse, DeletedRecords]):
    @api_message
    class DeleteRecordsTopic:
        @api_message
        class DeleteRecordsPartition:
            partition_index: int
            offset: int
            """The new start of the log; -1: its high watermark."""

        name: str
        partitions: list[DeleteRecordsPartition] = field(default_factory=list)

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    def keyed(self) -> list[tuple[TopicPartition, DeleteRecordsTopic.DeleteRecordsPartition]]:
        """Each partition once, as it was named last: one takes a sync. (Kafka: KafkaApis.handleDeleteRecordsRequest)"""
        return list(dict(PartitionsRequest.keyed(self)).items())

    def told(self, key: TopicPartition, error: PylogError | None = None) -> DeletedRecords:
        return DeletedRecords(partition_index=key.partition, low_watermark=-1, error=error)
