"""The state of the partitions of share groups, between a leader or a group's coordinator and a share coordinator
(KIP-932).
"""

import re
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from pylog.errors import PylogError
from pylog.protocol.messages.api import ApiRequest, ApiResponse, api_message

R = TypeVar("R", covariant=True)
NAMES_MAX = 1000
"""How many names are kept: a share partition is asked for again and again."""
_TOPIC_ID, _NUMBER = re.compile(r"[\w-]{22}", re.ASCII), re.compile(r"-?[0-9]{1,10}")


@lru_cache(NAMES_MAX)
def share_partition_name(group_id: str, topic_id: uuid.UUID, partition: int) -> str:
    """The name by which the coordinator of a share partition is found (Kafka: SharePartitionKey)."""
    return f"{group_id}:{urlsafe_b64encode(topic_id.bytes).rstrip(b'=').decode()}:{partition}"


def is_share_partition_name(name: str) -> bool:
    """Whether a text is such a name."""
    group_id, *rest = name.rsplit(":", 2)
    return len(rest) == 2 and bool(group_id.strip() and _TOPIC_ID.fullmatch(rest[0]) and _NUMBER.fullmatch(rest[1]))


class StateRequest(ApiRequest[R]):
    """A request about the partitions of one group, by topic id. Its response has a part for each, in its order."""

    __slots__ = ()
    group_id: str
    topics: Any
    result: ClassVar[type[Any]]
    """The class of a topic of the response."""
    part_result: ClassVar[type[Any]]
    """The class of a partition of it: all but its number and its error have defaults."""

    def keyed(self) -> Iterator[tuple[uuid.UUID, Any]]:
        """Each partition, as a topic id and its part of the request."""
        for topic in self.topics:
            for part in topic.partitions:
                yield topic.topic_id, part

    def answered(self, part: Callable[[uuid.UUID, Any], Any]) -> R:
        """The response with what `part` makes of each partition; an error that it raises is that of the partition."""
        results = []
        for topic in self.topics:
            parts = []
            for asked in topic.partitions:
                try:
                    parts.append(part(topic.topic_id, asked))
                except PylogError as error:
                    told = error.with_traceback(None)
                    parts.append(self.part_result(partition=asked.partition, error=told))
            results.append(self.result(topic_id=topic.topic_id, partitions=parts))
        made: R = self.response(results=results)
        return made

    def only(self, parts: Collection[tuple[uuid.UUID, int]]) -> Self:
        """The request about these partitions alone, by topic id and number."""
        topics = []
        for topic in self.topics:
            left = [part for part in topic.partitions if (topic.topic_id, part.partition) in parts]
            if left:
                topics.append(replace(topic, partitions=left))
        whole: Any = self
        made: Self = replace(whole, topics=topics)
        return made

    def joined(self, answers: Iterable[Any]) -> R:
        """The response with a part for each partition, out of the responses about some of them."""
        found = {
            (topic.topic_id, part.partition): part
            for answer in answers
            for topic in answer.results
            for part in topic.partitions
        }
        return self.answered(lambda topic_id, asked: found[topic_id, asked.partition])

    def refused(self, error: PylogError) -> R:
        """The response with an error for each partition."""
        return self.answered(lambda _, asked: self.part_result(partition=asked.partition, error=error))

    def first_error(self, answer: Any) -> PylogError | None:
        parts = (part for topic in answer.results for part in topic.partitions)
        return next((part.error for part in parts if part.error is not None), None)


@api_message
class PartitionResult:
    partition: int
    error: PylogError | None = None


@api_message
class StateBatch:
    """The records from `first_offset` to `last_offset`, which are in one state."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@api_message
class InitializeShareGroupStateResponse(ApiResponse):
    @api_message
    class InitializeStateResult:
        topic_id: uuid.UUID
        partitions: list[PartitionResult]

    results: list[InitializeStateResult] = field(default_factory=list)


@api_message
class InitializeShareGroupStateRequest(StateRequest[InitializeShareGroupStateResponse]):
    """A request to begin partitions, or to begin them again: in a new state epoch, from an offset."""

    @api_message
    class InitializeStateData:
        @api_message
        class PartitionData:
            partition: int
            state_epoch: int
            start_offset: int
            """-1: the leader decides, by the config of the group."""

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    result, part_result = InitializeShareGroupStateResponse.InitializeStateResult, PartitionResult
    group_id: str
    topics: list[InitializeStateData]


@api_message
class ReadShareGroupStateResponse(ApiResponse):
    @api_message
    class ReadStateResult:
        @api_message
        class PartitionResult:
            partition: int
            error: PylogError | None = None
            state_epoch: int = 0
            start_offset: int = 0
            state_batches: list[StateBatch] = field(default_factory=list)

        topic_id: uuid.UUID
        partitions: list[PartitionResult]

    results: list[ReadStateResult] = field(default_factory=list)


@api_message
class ReadShareGroupStateRequest(StateRequest[ReadShareGroupStateResponse]):
    """A request of a leader for all of the state. A leader with an older epoch is fenced from then on."""

    @api_message
    class ReadStateData:
        @api_message
        class PartitionData:
            partition: int
            leader_epoch: int

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    result = ReadShareGroupStateResponse.ReadStateResult
    part_result = ReadShareGroupStateResponse.ReadStateResult.PartitionResult
    group_id: str
    topics: list[ReadStateData]


@api_message
class WriteShareGroupStateResponse(ApiResponse):
    @api_message
    class WriteStateResult:
        topic_id: uuid.UUID
        partitions: list[PartitionResult]

    results: list[WriteStateResult] = field(default_factory=list)


@api_message
class WriteShareGroupStateRequest(StateRequest[WriteShareGroupStateResponse]):
    """A request of a leader to note what has changed."""

    @api_message
    class WriteStateData:
        @api_message
        class PartitionData:
            partition: int
            state_epoch: int
            leader_epoch: int
            start_offset: int
            """-1: the same as before."""
            delivery_complete_count: int = -1
            """How many records from the start offset on are done; -1: it is not known."""
            state_batches: list[StateBatch] = field(default_factory=list)

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    result, part_result = WriteShareGroupStateResponse.WriteStateResult, PartitionResult
    group_id: str
    topics: list[WriteStateData]


@api_message
class DeleteShareGroupStateResponse(ApiResponse):
    @api_message
    class DeleteStateResult:
        topic_id: uuid.UUID
        partitions: list[PartitionResult]

    results: list[DeleteStateResult] = field(default_factory=list)


@api_message
class DeleteShareGroupStateRequest(StateRequest[DeleteShareGroupStateResponse]):
    @api_message
    class DeleteStateData:
        @api_message
        class PartitionData:
            partition: int

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    result, part_result = DeleteShareGroupStateResponse.DeleteStateResult, PartitionResult
    group_id: str
    topics: list[DeleteStateData]


@api_message
class ReadShareGroupStateSummaryResponse(ApiResponse):
    @api_message
    class ReadStateSummaryResult:
        @api_message
        class PartitionResult:
            partition: int
            error: PylogError | None = None
            state_epoch: int = 0
            leader_epoch: int = 0
            start_offset: int = 0
            delivery_complete_count: int = -1

        topic_id: uuid.UUID
        partitions: list[PartitionResult]

    results: list[ReadStateSummaryResult] = field(default_factory=list)


@api_message
class ReadShareGroupStateSummaryRequest(StateRequest[ReadShareGroupStateSummaryResponse]):
    """A request of a group's coordinator for how far the group is."""

    @api_message
    class ReadStateSummaryData:
        @api_message
        class PartitionData:
            partition: int
            leader_epoch: int

        topic_id: uuid.UUID
        partitions: list[PartitionData]

    result = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult
    part_result = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult.PartitionResult
    group_id: str
    topics: list[ReadStateSummaryData]
