"""Requests about partitions, made of flat parts, and the errors in their responses."""

from collections.abc import Iterable
from typing import Any

from pylog.errors import PylogError
from pylog.protocol.messages.api import PartitionsRequest
from pylog.protocol.messages.groups import OffsetDeleteRequest
from pylog.record import TopicPartition

DeletePartition = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition


def offset_delete(group_id: str, keys: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """A request to delete the offsets of these partitions."""
    parts = ((key, DeletePartition(partition_index=key.partition)) for key in keys)
    return OffsetDeleteRequest(group_id=group_id, topics=OffsetDeleteRequest.by_topic(parts))


def errors_in(message: PartitionsRequest[Any, Any], answer: Any) -> dict[TopicPartition, PylogError | None]:
    """The error of each partition in the response to a request."""
    return {key: part.error for key, part in message.found(answer).items()}
