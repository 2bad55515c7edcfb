"""Records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, and the session that sends them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Any, Protocol

from pylog.errors import BatchRefused, PylogError, RecordError, UnsupportedFormat
from pylog.kernel import Appended
from pylog.kernel.format import NO_EPOCH
from pylog.protocol.batch import Batch
from pylog.protocol.error_codes import untold
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages.api import ApiRequest, ApiResponse, ByTopic, PartitionsRequest, api_message
from pylog.protocol.messages.message import OURS, message
from pylog.record import TopicPartition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
MAX_TIMESTAMP_FROM = 7
"""The version of ListOffsets from which on MAX_TIMESTAMP is a time."""
PRODUCE_BY_ID_FROM, JOINS_FROM = 13, 12
"""The versions of Produce from which on topics are named by their ids, and partitions join a transaction by it."""
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
    connection: int = 0
    """The number of its connection to a server, where the node holds something for the client; 0: it has none."""


@message
class ClientGone:
    """The end of a client's connection to a server: what was held for the client by it is free."""

    connection: int


# --- produce ---------------------------------------------------------------------------------------------------------


@api_message
class ProduceResponse(ApiResponse):
    @api_message
    class TopicProduceResponse:
        @api_message
        class PartitionProduceResponse:
            @api_message
            class BatchIndexAndErrorMessage:
                batch_index: int
                batch_index_error_message: str | None = None

            @api_message
            class LeaderIdAndEpoch:
                leader_id: int = -1
                leader_epoch: int = NO_EPOCH

            index: int
            error: PylogError | None = None
            base_offset: int
            """-1 with an error."""
            log_append_time_ms: int = -1
            log_start_offset: int = -1
            record_errors: Sequence[BatchIndexAndErrorMessage] = ()
            current_leader: LeaderIdAndEpoch | None = None
            next_offset: int = field(default=-1, metadata=OURS)
            """The offset behind the batch, in an answer within a process."""

            @property
            def log_append_time(self) -> int | None:
                """The time that the records were given; None: they keep their own."""
                return None if self.log_append_time_ms < 0 else self.log_append_time_ms

        name: str = ""
        topic_id: uuid.UUID = NO_ID
        partition_responses: list[PartitionProduceResponse] = field(default_factory=list)

    @api_message
    class NodeEndpoint:
        node_id: int
        host: str
        port: int
        rack: str | None = None

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()

    @property
    def parts(self) -> list[TopicProduceResponse.PartitionProduceResponse]:
        """The parts of all topics, in their order."""
        return [part for topic in self.responses for part in topic.partition_responses]


ProducedTopic = ProduceResponse.TopicProduceResponse
ProducedPart = ProducedTopic.PartitionProduceResponse


@api_message
class ProduceRequest(ApiRequest[ProduceResponse]):
    @api_message
    class TopicProduceData:
        @api_message
        class PartitionProduceData:
            index: int
            records: memoryview | None
            """The bytes of `batch`, where the request goes by a network."""
            batch: Batch | None = field(default=None, metadata=OURS)

        name: str = ""
        topic_id: uuid.UUID = NO_ID
        """The id of the topic that is meant: another one of that name answers UnknownTopicId (KIP-516)."""
        partition_data: list[PartitionProduceData] = field(default_factory=list)

    transactional_id: str | None = None
    acks: int
    timeout_ms: int
    topic_data: list[TopicProduceData] = field(default_factory=list)
    joins: bool = field(default=True, metadata=OURS)
    """Whether the partitions join the transaction by this; else it is TransactionAbortable where they have not."""
    may_block: bool = field(default=True, metadata=OURS)
    """False: where an append may have to wait in the thread that asks, nothing is done, and the answer has no parts."""

    @staticmethod
    def of(
        topic: str, partition: int, batch: Batch, topic_id: uuid.UUID = NO_ID, transactional_id: str | None = None, *,
        acks: int = ACKS_ALL, timeout_ms: int = TIMEOUT_MS, joins: bool = True, may_block: bool = True,
    ) -> "ProduceRequest":  # fmt: skip
        """The request that appends one batch."""
        # Each batch comes by here, by `with_part` and by `produced_part`: constructors by names take twice as long.
        part, named = _new(ProducePart), _new(ProduceTopic)
        made: ProduceRequest = _new(ProduceRequest)
        part.index = partition
        part.records = None
        part.batch = batch
        named.name = topic
        named.topic_id = topic_id
        named.partition_data = [part]
        made.transactional_id = transactional_id
        made.acks = acks
        made.timeout_ms = timeout_ms
        made.topic_data = [named]
        made.joins = joins
        made.may_block = may_block
        return made

    def alone(self, topic: TopicProduceData, part: TopicProduceData.PartitionProduceData) -> "ProduceRequest":
        """The same request with one of its parts."""
        return replace(self, topic_data=[replace(topic, partition_data=[part])])

    @property
    def pairs(self) -> list[tuple[TopicProduceData, TopicProduceData.PartitionProduceData]]:
        """Each part with its topic, in their order."""
        return [(topic, part) for topic in self.topic_data for part in topic.partition_data]

    def said_in(self, version: int) -> "ProduceRequest":
        if version < JOINS_FROM and self.transactional_id is not None:
            raise UnsupportedFormat(f"in version {version} partitions do not join a transaction by a Produce")
        for topic in self.topic_data:
            if version >= PRODUCE_BY_ID_FROM and not topic.topic_id.int:
                raise UnsupportedFormat(f"version {version} names topics by their ids")
            for part in topic.partition_data:
                if part.batch is not None:
                    part.records = memoryview(part.batch.data)
        return self

    def heard_in(self, version: int, answer: ProduceResponse) -> ProduceResponse:
        """The response with the names of its topics, and with the errors of records in those of batches."""
        names = {topic.topic_id: topic.name for topic in self.topic_data}
        for topic in answer.responses:
            if version >= PRODUCE_BY_ID_FROM:
                topic.name = names.get(topic.topic_id, "")
            for part in topic.partition_responses:
                error = part.error
                if isinstance(error, BatchRefused):
                    told = [(one.batch_index, one.batch_index_error_message) for one in part.record_errors]
                    part.error = type(error)(str(error), [RecordError(at, text or str(error)) for at, text in told])
        return answer

    def with_parts(self, parts: list[ProducedPart]) -> ProduceResponse:
        """The response with these parts, in the order of the request."""
        left, topics = iter(parts), list[ProducedTopic]()
        for topic in self.topic_data:
            told = [*islice(left, len(topic.partition_data))]
            topics.append(ProducedTopic(name=topic.name, topic_id=topic.topic_id, partition_responses=told))
        return ProduceResponse(responses=topics)

    def with_part(self, part: ProducedPart) -> ProduceResponse:
        """The response to a request of one part."""
        topic, told = self.topic_data[0], _new(ProducedTopic)
        made: ProduceResponse = _new(ProduceResponse)
        told.name = topic.name
        told.topic_id = topic.topic_id
        told.partition_responses = [part]
        made.responses = [told]
        made.throttle_time_ms = 0
        made.node_endpoints = ()
        return made

    def parts_of(self, answer: ProduceResponse) -> list[ProducedPart]:
        """The parts of a response, in the order of the request, with an error where the response lacks one."""
        there = {(topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses}
        return [
            there.get((topic.name, part.index)) or produced_error(part.index, untold(topic.name, part.index))
            for topic, part in self.pairs
        ]

    def refused(self, error: PylogError) -> ProduceResponse:
        return self.with_parts([produced_error(part.index, error) for _, part in self.pairs])

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        assert isinstance(answer, ProduceResponse), "the response of this key"
        return next((part.error for part in answer.parts if part.error is not None), None)


ProduceTopic = ProduceRequest.TopicProduceData
ProducePart = ProduceTopic.PartitionProduceData
_new: Callable[[type], Any] = object.__new__


def produced_part(index: int, appended: Appended, log_start_offset: int = -1) -> ProducedPart:
    """The part of a partition to which a batch was appended."""
    made: ProducedPart = _new(ProducedPart)
    time = appended.log_append_time
    made.index = index
    made.error = None
    made.base_offset = appended.base_offset
    made.log_append_time_ms = -1 if time is None else time
    made.log_start_offset = log_start_offset
    made.record_errors = ()
    made.current_leader = None
    made.next_offset = appended.next_offset
    return made


def produced_error(partition: int, error: PylogError | None) -> ProducedPart:
    """The part of a partition to which nothing was appended, or whose offset is not known."""
    return ProducedPart(index=partition, base_offset=-1, error=error)


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
