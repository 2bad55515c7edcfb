"""Share groups: their members, the records that they are given, and how far they are (KIP-932).

The state of their partitions, which nodes keep for them, is in `share_state`. `error` is None for a success.
"""

import uuid
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple, cast

from pylog.errors import PylogError
from pylog.protocol.error_codes import of_code, untold
from pylog.protocol.messages.api import (
    ApiRequest,
    ApiResponse,
    ByTopic,
    Named,
    NamesRequest,
    Partitioned,
    PartitionsRequest,
    api_message,
)
from pylog.protocol.messages.message import OURS
from pylog.protocol.messages.records import NO_ID
from pylog.protocol.operations import UNTOLD
from pylog.record import TopicPartition

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The types of acknowledgements: no record was there, and what becomes of one (Kafka: AcknowledgeType)."""

BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
"""Whether a ShareFetch may acquire whole batches beyond `max_records` (Kafka: ShareAcquireMode; KIP-1206)."""

NEW_SESSION, FINAL_EPOCH = 0, -1
"""The epochs of a share session's first and last request."""

TOPICS_MAX = 1000
"""How many ids are kept."""


@lru_cache(TOPICS_MAX)
def _id_of(topic: int) -> uuid.UUID:
    return uuid.UUID(int=topic)


class SharedPartition(NamedTuple):
    """A partition, as requests of share groups name it, by the number of its topic's id: a UUID takes long to hash."""

    topic: int
    partition: int

    @property
    def topic_id(self) -> uuid.UUID:
        """The id of its topic."""
        return _id_of(self.topic)

    @classmethod
    def of(cls, topic_id: uuid.UUID, partition: int) -> "SharedPartition":
        """A partition of the topic with an id."""
        return cls(topic_id.int, partition)


# --- members ---------------------------------------------------------------------------------------------------------


@api_message
class ShareGroupHeartbeatResponse(ApiResponse):
    @api_message
    class Assignment:
        @api_message
        class TopicPartitions:
            topic_id: uuid.UUID
            partitions: list[int]

        topic_partitions: list[TopicPartitions] = field(default_factory=list)

    throttle_time_ms: int = 0
    error: PylogError | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """The partitions that the member is to read; None: no change."""


@api_message
class ShareGroupHeartbeatRequest(ApiRequest[ShareGroupHeartbeatResponse]):
    """A heartbeat of a share group, with all that a member says. None: the same as before."""

    group_id: str
    member_id: str
    member_epoch: int
    """JOIN_EPOCH, LEAVE_EPOCH, or the epoch of the last answer."""
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None
    max_wait_ms: int = field(default=0, metadata=OURS)
    """As in a `HeartbeatRequest`."""


@api_message
class ShareGroupDescribeResponse(ApiResponse):
    @api_message
    class DescribedGroup:
        @api_message
        class Member:
            @api_message
            class Assignment:
                @api_message
                class TopicPartitions:
                    topic_id: uuid.UUID
                    topic_name: str
                    partitions: list[int]

                topic_partitions: list[TopicPartitions] = field(default_factory=list)

            member_id: str
            rack_id: str | None = None
            member_epoch: int
            client_id: str
            client_host: str
            subscribed_topic_names: list[str] = field(default_factory=list)
            assignment: Assignment = field(default_factory=Assignment)

        error: PylogError | None = None
        group_id: str
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[Member] = field(default_factory=list)
        authorized_operations: int = UNTOLD
        coordinator: int = field(default=-1, metadata=OURS)
        """The node that has answered, where a network has found it; -1: the one that was asked."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)


@api_message
class ShareGroupDescribeRequest(NamesRequest[ShareGroupDescribeResponse]):
    """A request for share groups."""

    fields = Named("group_ids", "groups", "group_id", ShareGroupDescribeResponse.DescribedGroup)
    group_ids: list[str]
    include_authorized_operations: bool = False


# --- records ---------------------------------------------------------------------------------------------------------


@api_message
class AcknowledgementBatch:
    """The fate of the records from `first_offset` to `last_offset`: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


@api_message
class LeaderIdAndEpoch:
    leader_id: int = 0
    leader_epoch: int = 0


@api_message
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@api_message
class AcquiredRecords:
    """Records that a member holds from now on, each delivered so many times, this time among them."""

    first_offset: int
    last_offset: int
    delivery_count: int


@api_message
class ShareFetchResponse(ApiResponse):
    @api_message
    class ShareFetchableTopicResponse:
        @api_message
        class PartitionData:
            partition_index: int
            error: PylogError | None = None
            acknowledge_error_code: int = 0
            acknowledge_error_message: str | None = None
            current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
            records: memoryview | None
            """Whole batches, with more records than were acquired where a batch was acquired in part."""
            acquired_records: list[AcquiredRecords] = field(default_factory=list)

            @property
            def acknowledge_error(self) -> PylogError | None:
                """Why the acknowledgements that came with the request were not taken."""
                return of_code(self.acknowledge_error_code, self.acknowledge_error_message)

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    throttle_time_ms: int = 0
    error: PylogError | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


@api_message
class ShareFetchRequest(ApiRequest[ShareFetchResponse]):
    """A request of a member to acquire records, which may acknowledge others.

    A share session has one request after the other, each with the next epoch. The node remembers its partitions.
    """

    @api_message
    class FetchTopic:
        @api_message
        class FetchPartition:
            partition_index: int
            partition_max_bytes: int = 0
            acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)

        topic_id: uuid.UUID
        partitions: list[FetchPartition]

    @api_message
    class ForgottenTopic:
        topic_id: uuid.UUID
        partitions: list[int]

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int = 0x7FFFFFFF
    max_records: int
    """How many records to acquire at most: only about so many where `share_acquire_mode` is BATCH_OPTIMIZED."""
    batch_size: int
    """How many records a batch of acquired records has at most, to be acknowledged by itself."""
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    """True where an acknowledgement is a RENEW. Nothing is acquired then."""
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    may_block: bool = field(default=True, metadata=OURS)
    """Whether its thread may wait for a disk. Where it may not and would have to, the answer is None, and nothing was
    done.
    """


@api_message
class ShareAcknowledgeResponse(ApiResponse):
    @api_message
    class ShareAcknowledgeTopicResponse:
        @api_message
        class PartitionData:
            partition_index: int
            error: PylogError | None = None
            current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    throttle_time_ms: int = 0
    error: PylogError | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


@api_message
class ShareAcknowledgeRequest(ApiRequest[ShareAcknowledgeResponse]):
    """A request that acknowledges records and acquires none. It counts in the share session as a ShareFetch does."""

    @api_message
    class AcknowledgeTopic:
        @api_message
        class AcknowledgePartition:
            partition_index: int
            acknowledgement_batches: list[AcknowledgementBatch]

        topic_id: uuid.UUID
        partitions: list[AcknowledgePartition]

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool = False
    topics: list[AcknowledgeTopic] = field(default_factory=list)
    may_block: bool = field(default=True, metadata=OURS)
    """As in ShareFetchRequest."""


# --- how far a group is ----------------------------------------------------------------------------------------------


@api_message
class DescribeShareGroupOffsetsResponse(ApiResponse):
    @api_message
    class DescribeShareGroupOffsetsResponseGroup:
        @api_message
        class DescribeShareGroupOffsetsResponseTopic:
            @api_message
            class DescribeShareGroupOffsetsResponsePartition:
                partition_index: int
                start_offset: int = 0
                """The first offset that is not done; -1: the group has not begun the partition."""
                leader_epoch: int = 0
                lag: int = -1
                """How many records are not done; -1: it is not known."""
                error: PylogError | None = None
                delivery_complete_count: int = field(default=-1, metadata=OURS)
                """How many records behind the start are done, by which a node finds the lag."""

            topic_name: str
            topic_id: uuid.UUID = NO_ID
            partitions: list[DescribeShareGroupOffsetsResponsePartition]

        group_id: str
        topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
        error: PylogError | None = None

    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)


ShareGroupOffsets = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
ShareGroupOffset = ShareGroupOffsets.DescribeShareGroupOffsetsResponseTopic.DescribeShareGroupOffsetsResponsePartition


@api_message
class DescribeShareGroupOffsetsRequest(ApiRequest[DescribeShareGroupOffsetsResponse]):
    @api_message
    class DescribeShareGroupOffsetsRequestGroup(Partitioned[ShareGroupOffsets, ShareGroupOffset]):
        @api_message
        class DescribeShareGroupOffsetsRequestTopic:
            topic_name: str
            partitions: list[int]

        fields = ByTopic(name="topic_name", same="group_id")
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None
        """None: all that the group has begun."""

        def told(self, key: TopicPartition, error: PylogError | None = None) -> ShareGroupOffset:
            return ShareGroupOffset(partition_index=key.partition, start_offset=-1, error=error)

        def found(self, answer: object) -> dict[TopicPartition, ShareGroupOffset]:
            if self.topics is not None:
                return Partitioned.found(self, answer)
            return {
                TopicPartition(topic.topic_name, part.partition_index): part
                for topic in cast(ShareGroupOffsets, answer).topics
                for part in topic.partitions
            }

    groups: list[DescribeShareGroupOffsetsRequestGroup]

    @classmethod
    def of(cls, group_id: str, keys: Iterable[TopicPartition] | None = None) -> "DescribeShareGroupOffsetsRequest":
        """A request for the offsets of a group in these partitions, or in all."""
        group = cls.DescribeShareGroupOffsetsRequestGroup
        topics = None if keys is None else group.by_topic((key, key.partition) for key in keys)
        return cls(groups=[group(group_id=group_id, topics=topics)])

    def refused(self, error: PylogError) -> DescribeShareGroupOffsetsResponse:
        failed = [ShareGroupOffsets(group_id=one.group_id, error=error) for one in self.groups]
        return DescribeShareGroupOffsetsResponse(groups=failed)

    def group_error(self, answer: ApiResponse) -> PylogError | None:
        """The error of the first group as a whole."""
        return self._told(answer).error

    def found(self, answer: ApiResponse) -> dict[TopicPartition, ShareGroupOffset]:
        """The offsets of the first group, with an error where the response lacks one."""
        return self.groups[0].found(self._told(answer))

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        errors = (part.error for part in self.found(answer).values() if part.error is not None)
        return self.group_error(answer) or next(errors, None)

    def _told(self, answer: ApiResponse) -> ShareGroupOffsets:
        asked, groups = self.groups[0].group_id, cast(DescribeShareGroupOffsetsResponse, answer).groups
        told = next((one for one in groups if one.group_id == asked), None)
        return told or ShareGroupOffsets(group_id=asked, error=untold(f"group {asked!r}"))


ShareGroupToDescribe = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup


@api_message
class AlterShareGroupOffsetsResponse(ApiResponse):
    @api_message
    class AlterShareGroupOffsetsResponseTopic:
        @api_message
        class AlterShareGroupOffsetsResponsePartition:
            partition_index: int
            error: PylogError | None = None

        topic_name: str
        topic_id: uuid.UUID = NO_ID
        partitions: list[AlterShareGroupOffsetsResponsePartition]

    throttle_time_ms: int = 0
    error: PylogError | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)


AlteredShareOffset = (
    AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic.AlterShareGroupOffsetsResponsePartition
)


@api_message
class AlterShareGroupOffsetsRequest(PartitionsRequest[AlterShareGroupOffsetsResponse, AlteredShareOffset]):
    """A request to begin again from these offsets. The group has to have no members."""

    @api_message
    class AlterShareGroupOffsetsRequestTopic:
        @api_message
        class AlterShareGroupOffsetsRequestPartition:
            partition_index: int
            start_offset: int

        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequestPartition]

    fields = ByTopic(name="topic_name", answers="responses")
    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]

    def refused(self, error: PylogError) -> AlterShareGroupOffsetsResponse:
        return AlterShareGroupOffsetsResponse(error=error)


@api_message
class DeleteShareGroupOffsetsResponse(ApiResponse):
    @api_message
    class DeleteShareGroupOffsetsResponseTopic:
        topic_name: str
        topic_id: uuid.UUID = NO_ID
        error: PylogError | None = None

    throttle_time_ms: int = 0
    error: PylogError | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)


@api_message
class DeleteShareGroupOffsetsRequest(ApiRequest[DeleteShareGroupOffsetsResponse]):
    """A request to forget topics. The group has to have no members."""

    @api_message
    class DeleteShareGroupOffsetsRequestTopic:
        topic_name: str

    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        told = cast(DeleteShareGroupOffsetsResponse, answer).responses
        return answer.error or next((one.error for one in told if one.error is not None), None)
