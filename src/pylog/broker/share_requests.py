"""The requests of members for records, and the answers to them: what is refused at once, and how it is told.

(Kafka: KafkaApis.handleShareFetchRequest, handleShareAcknowledgeRequest)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pylog.broker.share_partition_host import Portion
from pylog.broker.share_sessions import MemberKey
from pylog.coordinator.share.share_partition import Acknowledgement
from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages.share import (
    GAP,
    RENEW,
    AcquiredRecords,
    LeaderIdAndEpoch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetchRequest,
    ShareFetchResponse,
)

T = TypeVar("T")
MEMBER_ID_MAX = 36
NOTHING_ACQUIRED, NO_LEADER = Portion(), LeaderIdAndEpoch()
Said = dict[SharedPartition, Sequence[Acknowledgement]]
Errors = Mapping[SharedPartition, PylogError | None]
LeaderOf = Callable[[SharedPartition, PylogError], LeaderIdAndEpoch]
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


def named_in(topics: Iterable[Any]) -> Said:
    """The partitions in a request, each with its acknowledgements."""
    found: Said = {}
    for topic in topics:
        for part in topic.partitions:
            said: list[Acknowledgement] = []
            for one in part.acknowledgement_batches:
                said.append(Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types))  # noqa: PERF401
            found[SharedPartition(topic.topic_id.int, part.partition_index)] = said
    return found


def forgotten_in(message: ShareFetchRequest) -> list[SharedPartition]:
    """The partitions that a request takes out of its session."""
    gone = message.forgotten_topics_data
    return [SharedPartition(one.topic_id.int, part) for one in gone for part in one.partitions] if gone else []


def check_said(batches: Sequence[Acknowledgement], *, is_renew: bool) -> None:
    """Raise InvalidRequest for acknowledgements that cannot be meant. One may begin where the one before it ends.

    (Kafka: KafkaApis.validateAcknowledgementBatches)
    """
    end = 0
    for first, last, types in batches:
        if first > last or first < end - 1 or len(types) not in (1, last + 1 - first):
            raise InvalidRequest(f"acknowledgements of offsets {first} to {last} are not in order, or have other types")
        if min(types) < GAP or max(types) > RENEW:
            raise InvalidRequest(f"acknowledgements of offsets {first} to {last} have types that are not known")
        if RENEW in types and not is_renew:
            raise InvalidRequest(f"locks of offsets {first} to {last} are renewed by a request that renews none")
        end = last + 1


# --- answers ---------------------------------------------------------------------------------------------------------


def fetched_response(
    errors: Errors, portions: Mapping[SharedPartition, Portion], leader_of: LeaderOf, lock_ms: int
) -> ShareFetchResponse:
    """The answer to a ShareFetch: the errors of its acknowledgements, and what was acquired."""
    made, told = ShareFetchResponse.ShareFetchableTopicResponse, {}
    for part in {**portions, **errors}:
        got, error = portions.get(part) or NOTHING_ACQUIRED, errors.get(part)
        acquired = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in got.acquired
        ]
        told[part] = made.PartitionData(
            partition_index=part.partition, error=got.error, records=got.data, acquired_records=acquired,
            current_leader=NO_LEADER,
        )  # fmt: skip
        if error is not None:
            told[part].acknowledge_error_code = error_code(error)
            told[part].acknowledge_error_message = error_message(error)
        failure = got.error or error
        if failure is not None:
            told[part].current_leader = leader_of(part, failure)
    return ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms, responses=_by_topic(made, told))


def acknowledged_response(errors: Errors, leader_of: LeaderOf, lock_ms: int) -> ShareAcknowledgeResponse:
    """The answer to a ShareAcknowledge."""
    made = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    told = {
        part: made.PartitionData(
            partition_index=part.partition,
            error=error,
            current_leader=NO_LEADER if error is None else leader_of(part, error),
        )
        for part, error in errors.items()
    }
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=_by_topic(made, told))


def _by_topic(made: Callable[..., T], told: Mapping[SharedPartition, object]) -> list[T]:
    """The topics of a response, of these partitions."""
    found: dict[int, tuple[SharedPartition, list[object]]] = {}
    for part, data in told.items():
        found.setdefault(part.topic, (part, []))[1].append(data)
    return [made(topic_id=first.topic_id, partitions=parts) for first, parts in found.values()]
