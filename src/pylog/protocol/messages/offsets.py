"""The offsets that groups have committed: of one group in a request, but OffsetFetch asks about several.

`error` is None for a success.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar, TypeVar, cast

from pylog.errors import PylogError
from pylog.kernel.format import NO_EPOCH
from pylog.protocol.error_codes import untold
from pylog.protocol.messages.api import (
    ApiRequest,
    ApiResponse,
    ByTopic,
    Partitioned,
    PartitionsRequest,
    PartResult,
    api_message,
)
from pylog.protocol.messages.message import OURS
from pylog.protocol.messages.records import NO_ID
from pylog.record import OffsetAndMetadata, TopicPartition

R = TypeVar("R", covariant=True)
P = TypeVar("P", bound=PartResult)


class OffsetsRequest(PartitionsRequest[R, P]):
    """A request that commits offsets."""

    __slots__ = ()
    part: ClassVar[type[Any]]
    """The class of the offset of a partition."""

    @classmethod
    def offsets(cls, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Any]:
        """The topics of a request that commits these."""
        return cls.by_topic(
            (key, cls.part(
                partition_index=key.partition, committed_offset=at.offset, committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            ))
            for key, at in offsets.items()
        )  # fmt: skip


@api_message
class OffsetCommitResponse(ApiResponse):
    @api_message
    class OffsetCommitResponseTopic:
        @api_message
        class OffsetCommitResponsePartition:
            partition_index: int
            error: PylogError | None = None

        name: str = ""
        topic_id: uuid.UUID = NO_ID
        partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


@api_message
class OffsetCommitRequest(
    OffsetsRequest[OffsetCommitResponse, OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition]
):
    @api_message
    class OffsetCommitRequestTopic:
        @api_message
        class OffsetCommitRequestPartition:
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int = NO_EPOCH
            committed_metadata: str | None = ""

        name: str = ""
        topic_id: uuid.UUID = NO_ID
        partitions: list[OffsetCommitRequestPartition]

    lowest = 5
    highest = 9
    part = OffsetCommitRequestTopic.OffsetCommitRequestPartition
    group_id: str
    generation_id_or_member_epoch: int = -1
    """-1 where the committer is no member."""
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic]
    knows_epochs: bool = field(default=True, metadata=OURS)
    """False for a client that has no member epochs: a member of the consumer protocol gets UnsupportedVersion then."""

    @property
    def generation_id(self) -> int:
        """The same as in a TxnOffsetCommit."""
        return self.generation_id_or_member_epoch


@api_message
class TxnOffsetCommitResponse(ApiResponse):
    @api_message
    class TxnOffsetCommitResponseTopic:
        @api_message
        class TxnOffsetCommitResponsePartition:
            partition_index: int
            error: PylogError | None = None

        name: str
        partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)


@api_message
class TxnOffsetCommitRequest(
    OffsetsRequest[
        TxnOffsetCommitResponse, TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition
    ]
):
    """A request to commit offsets that count when the transaction is committed."""

    @api_message
    class TxnOffsetCommitRequestTopic:
        @api_message
        class TxnOffsetCommitRequestPartition:
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int = NO_EPOCH
            committed_metadata: str | None = ""

        name: str
        partitions: list[TxnOffsetCommitRequestPartition]

    lowest = 5
    part = TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequestTopic]
    joins: bool = field(default=True, metadata=OURS)
    """As in a Produce."""


@api_message
class OffsetFetchResponse(ApiResponse):
    @api_message
    class OffsetFetchResponseTopic:
        @api_message
        class OffsetFetchResponsePartition:
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int = NO_EPOCH
            metadata: str | None
            error: PylogError | None = None

        name: str
        partitions: list[OffsetFetchResponsePartition]

    @api_message
    class OffsetFetchResponseGroup:
        @api_message
        class OffsetFetchResponseTopics:
            @api_message
            class OffsetFetchResponsePartitions:
                partition_index: int
                committed_offset: int
                """-1: no offset was committed."""
                committed_leader_epoch: int = NO_EPOCH
                metadata: str | None
                error: PylogError | None = None

                @property
                def position(self) -> OffsetAndMetadata:
                    """The offset as it was committed."""
                    return OffsetAndMetadata(self.committed_offset, self.metadata or "", self.committed_leader_epoch)

            name: str = ""
            topic_id: uuid.UUID = NO_ID
            partitions: list[OffsetFetchResponsePartitions]

        group_id: str
        topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
        error: PylogError | None = None

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error: PylogError | None = None
    """Those of the one group, in versions below 8."""
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)


OffsetsFetched = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedOffset = OffsetsFetched.OffsetFetchResponseTopics.OffsetFetchResponsePartitions
SEVERAL_GROUPS_FROM = 8


@api_message
class OffsetFetchRequest(ApiRequest[OffsetFetchResponse]):
    @api_message
    class OffsetFetchRequestTopic:
        name: str
        partition_indexes: list[int]

    @api_message
    class OffsetFetchRequestGroup(Partitioned[OffsetsFetched, FetchedOffset]):
        @api_message
        class OffsetFetchRequestTopics:
            name: str = ""
            topic_id: uuid.UUID = NO_ID
            partition_indexes: list[int]

        fields = ByTopic(parts="partition_indexes", same="group_id")
        group_id: str
        member_id: str | None = None
        member_epoch: int = -1
        topics: list[OffsetFetchRequestTopics] | None
        """None: all that were committed."""

        def told(self, key: TopicPartition, error: PylogError | None = None) -> FetchedOffset:
            return FetchedOffset(partition_index=key.partition, committed_offset=-1, metadata="", error=error)

        def found(self, answer: object) -> dict[TopicPartition, FetchedOffset]:
            if self.topics is not None:
                return Partitioned.found(self, answer)
            return {
                TopicPartition(topic.name, part.partition_index): part
                for topic in cast(OffsetsFetched, answer).topics
                for part in topic.partitions
            }

    lowest = 2
    highest = 9
    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)
    """Those of the one group, in versions below 8."""
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    require_stable: bool = False
    """Partitions with an offset in an open transaction answer UnstableOffsetCommit (KIP-447)."""

    @classmethod
    def of(
        cls, group_id: str, keys: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> "OffsetFetchRequest":
        """A request for the offsets of a group in these partitions, or in all."""
        group = cls.OffsetFetchRequestGroup
        topics = None if keys is None else group.by_topic((key, key.partition) for key in keys)
        return cls(groups=[group(group_id=group_id, topics=topics)], require_stable=require_stable)

    def said_in(self, version: int) -> "OffsetFetchRequest":
        if version >= SEVERAL_GROUPS_FROM:
            return self
        (group,) = self.groups
        topics = group.topics if group.topics is None else [
            self.OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in group.topics
        ]  # fmt: skip
        return OffsetFetchRequest(group_id=group.group_id, topics=topics, require_stable=self.require_stable)

    def heard_in(self, version: int, answer: OffsetFetchResponse) -> OffsetFetchResponse:
        if version >= SEVERAL_GROUPS_FROM:
            return answer
        topics = [
            OffsetsFetched.OffsetFetchResponseTopics(name=topic.name, partitions=[
                FetchedOffset(
                    partition_index=one.partition_index, committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch, metadata=one.metadata, error=one.error,
                )
                for one in topic.partitions
            ])
            for topic in answer.topics
        ]  # fmt: skip
        group = OffsetsFetched(group_id=self.groups[0].group_id, topics=topics, error=answer.error)
        return OffsetFetchResponse(groups=[group])

    def refused(self, error: PylogError) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[OffsetsFetched(group_id=one.group_id, error=error) for one in self.groups])

    def group_error(self, answer: ApiResponse) -> PylogError | None:
        """The error of the first group as a whole."""
        return self._told(answer).error

    def found(self, answer: ApiResponse) -> dict[TopicPartition, FetchedOffset]:
        """The offsets of the first group, with an error where the response lacks one."""
        return self.groups[0].found(self._told(answer))

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        errors = (part.error for part in self.found(answer).values() if part.error is not None)
        return self.group_error(answer) or next(errors, None)

    def _told(self, answer: ApiResponse) -> OffsetsFetched:
        asked, groups = self.groups[0].group_id, cast(OffsetFetchResponse, answer).groups
        told = next((one for one in groups if one.group_id == asked), None)
        return told or OffsetsFetched(group_id=asked, error=untold(f"group {asked!r}"))


OffsetsToFetch = OffsetFetchRequest.OffsetFetchRequestGroup


@api_message
class OffsetDeleteResponse(ApiResponse):
    @api_message
    class OffsetDeleteResponseTopic:
        @api_message
        class OffsetDeleteResponsePartition:
            partition_index: int
            error: PylogError | None = None

        name: str
        partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)

    error: PylogError | None = None
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)


DeletedOffset = OffsetDeleteResponse.OffsetDeleteResponseTopic.OffsetDeleteResponsePartition


@api_message
class OffsetDeleteRequest(PartitionsRequest[OffsetDeleteResponse, DeletedOffset]):
    @api_message
    class OffsetDeleteRequestTopic:
        @api_message
        class OffsetDeleteRequestPartition:
            partition_index: int

        name: str
        partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)

    group_id: str
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)

    def refused(self, error: PylogError) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error=error)
