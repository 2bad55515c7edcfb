"""Requests about partitions, made of flat parts, and the errors in their responses."""

from collections.abc import Iterable
from typing import Any

from pylog.errors import PylogError
from pylog.protocol.messages.api import PartitionsRequest
from pylog.protocol.messages.groups import OffsetDeleteRequest
from pylog.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pylog.record import TopicPartition

DeletePartition = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition


def offset_delete(group_id: str, keys: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """A request to delete the offsets of these partitions."""
    parts = ((key, DeletePartition(partition_index=key.partition)) for key in keys)
    return OffsetDeleteRequest(group_id=group_id, topics=OffsetDeleteRequest.by_topic(parts))


def errors_in(message: PartitionsRequest[Any, Any], answer: Any) -> dict[TopicPartition, PylogError | None]:
    """The error of each partition in the response to a request."""
    return {key: part.error for key, part in message.found(answer).items()}


def init_producer_id(
    transactional_id: str | None = None, timeout_ms: int = 60_000, producer_id: int = -1, producer_epoch: int = -1
) -> InitProducerIdRequest:
    """A request for a producer id, or for the next epoch of one."""
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=producer_id,
        producer_epoch=producer_epoch,
    )  # fmt: skip


def end_txn(
    transactional_id: str, producer_id: int, producer_epoch: int, committed: bool, **ours: int
) -> EndTxnRequest:
    """A request to end a transaction."""
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, committed=committed,
        **ours,
    )  # fmt: skip


def producer_id_given(
    error: PylogError | None = None, producer_id: int = -1, producer_epoch: int = -1
) -> InitProducerIdResponse:
    """The answer to a request for a producer id."""
    return InitProducerIdResponse(error=error, producer_id=producer_id, producer_epoch=producer_epoch)


def txn_ended(error: PylogError | None = None, producer_id: int = -1, producer_epoch: int = -1) -> EndTxnResponse:
    """The answer to a request to end a transaction."""
    return EndTxnResponse(error=error, producer_id=producer_id, producer_epoch=producer_epoch)
