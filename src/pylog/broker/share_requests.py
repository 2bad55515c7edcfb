"""The requests of members for records, and the answers to them: what is refused at once, and how it is told.

(Kafka: KafkaApis.handleShareFetchRequest, handleShareAcknowledgeRequest)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from pylog.broker.share_partition_host import Portion
from pylog.broker.share_sessions import MemberKey, SharedPartition
from pylog.coordinator.share.share_partition import Acknowledgement
from pylog.coordinator.share.states import AcknowledgeType
from pylog.errors import InvalidRecordState, InvalidRequest, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages.share import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

MEMBER_ID_MAX = 36
Said = dict[SharedPartition, Sequence[Acknowledgement]]
Errors = Mapping[SharedPartition, PylogError | None]
LeaderOf = Callable[[SharedPartition, PylogError | None], LeaderIdAndEpoch]
"""The leader of a partition, where an error says that it is another node."""

# --- requests --------------------------------------------------------------------------------------------------------


def member_of(message: ShareFetchRequest | ShareAcknowledgeRequest) -> MemberKey:
    """The member that sends a request. Raises InvalidRequest."""
    if message.group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    if not message.member_id or len(message.member_id) > MEMBER_ID_MAX:
        raise InvalidRequest("Invalid member id in the request.")
    return MemberKey(message.group_id, message.member_id)


def check_renewal(message: ShareFetchRequest) -> None:
    """Raise InvalidRequest where a request renews locks and wants records, too. (KIP-1222)"""
    if message.is_renew_ack and (message.max_bytes or message.min_bytes or message.max_records or message.max_wait_ms):
        raise InvalidRequest("a ShareFetch that renews locks has no max_bytes, min_bytes, max_records and max_wait_ms")


def parts_of(topics: Iterable[Any]) -> list[SharedPartition]:
    """The partitions in a request."""
    return [SharedPartition(topic.topic_id, part.partition_index) for topic in topics for part in topic.partitions]


def said_in(topics: Iterable[Any]) -> Said:
    """The acknowledgements in a request, by partition."""
    return {
        SharedPartition(topic.topic_id, part.partition_index): [
            Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types)
            for one in part.acknowledgement_batches
        ]
        for topic in topics
        for part in topic.partitions
        if part.acknowledgement_batches
    }


def check_said(batches: Sequence[Acknowledgement], *, is_renew: bool) -> None:
    """Raise InvalidRequest for acknowledgements that cannot be meant, and InvalidRecordState for a record twice.

    (Kafka: KafkaApis.validateAcknowledgementBatches)
    """
    end = 0
    for first, last, types in batches:
        if first > last or first < end - 1 or len(types) not in (1, last + 1 - first):
            raise InvalidRequest(f"acknowledgements of offsets {first} to {last} are not in order, or have other types")
        if not all(AcknowledgeType.GAP <= one <= AcknowledgeType.RENEW for one in types):
            raise InvalidRequest(f"acknowledgements of offsets {first} to {last} have types that are not known")
        if AcknowledgeType.RENEW in types and not is_renew:
            raise InvalidRequest(f"locks of offsets {first} to {last} are renewed by a request that renews none")
        if first < end:
            raise InvalidRecordState(f"offset {first} is acknowledged twice")
        end = last + 1


# --- answers ---------------------------------------------------------------------------------------------------------


def fetched_response(
    errors: Errors, portions: Mapping[SharedPartition, Portion], leader_of: LeaderOf, lock_ms: int
) -> ShareFetchResponse:
    """The answer to a ShareFetch: the errors of its acknowledgements, and what was acquired."""
    made = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    for topic_id, parts in _by_topic(dict.fromkeys([*portions, *errors])):
        told = []
        for part in parts:
            got, error = portions.get(part) or Portion(), errors.get(part)
            acquired = [
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in got.acquired
            ]
            told.append(topic.PartitionData(
                partition_index=part.partition, error=got.error, acknowledge_error_code=error_code(error),
                acknowledge_error_message=error_message(error), current_leader=leader_of(part, got.error or error),
                records=got.data, acquired_records=acquired,
            ))  # fmt: skip
        made.responses.append(topic(topic_id=topic_id, partitions=told))
    return made


def acknowledged_response(errors: Errors, leader_of: LeaderOf, lock_ms: int) -> ShareAcknowledgeResponse:
    """The answer to a ShareAcknowledge."""
    made = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms)
    topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    for topic_id, parts in _by_topic(errors):
        told = [
            topic.PartitionData(
                partition_index=part.partition, error=errors[part], current_leader=leader_of(part, errors[part])
            )
            for part in parts
        ]
        made.responses.append(topic(topic_id=topic_id, partitions=told))
    return made


def _by_topic(parts: Iterable[SharedPartition]) -> list[tuple[UUID, list[SharedPartition]]]:
    found: dict[UUID, list[SharedPartition]] = {}
    for part in parts:
        found.setdefault(part.topic_id, []).append(part)
    return list(found.items())
