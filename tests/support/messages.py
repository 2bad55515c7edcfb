"""Requests and responses of groups and transactions, made of few and flat arguments."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from pylog.errors import PylogError
from pylog.protocol.messages import TxnMarkers
from pylog.protocol.messages.api import Partitioned
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pylog.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from pylog.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    PartitionsAdded,
    PartitionsToAdd,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pylog.record import TopicPartition

DeletePartition = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition


def offset_delete(group_id: str, keys: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """A request to delete the offsets of these partitions."""
    parts = ((key, DeletePartition(partition_index=key.partition)) for key in keys)
    return OffsetDeleteRequest(group_id=group_id, topics=OffsetDeleteRequest.by_topic(parts))


def errors_in(message: Partitioned[Any, Any], answer: Any) -> dict[TopicPartition, PylogError | None]:
    """The error of each partition in the response to a request."""
    return {key: part.error for key, part in message.found(answer).items()}


class Offset(NamedTuple):
    """An offset to commit in a partition, or one that was fetched."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: PylogError | None = None


def _to_commit(kind: Any, parts: Iterable[Offset]) -> list[Any]:
    made = (
        (TopicPartition(one.topic, one.partition), kind.part(
            partition_index=one.partition, committed_offset=one.offset, committed_leader_epoch=one.leader_epoch,
            committed_metadata=one.metadata,
        ))
        for one in parts
    )  # fmt: skip
    topics: list[Any] = kind.by_topic(made)
    return topics


def offset_commit(
    group_id: str, parts: Iterable[Offset], generation_id: int = -1, member_id: str = "",
    group_instance_id: str | None = None, knows_epochs: bool = True,
) -> OffsetCommitRequest:  # fmt: skip
    """A request to commit offsets."""
    return OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=generation_id, member_id=member_id,
        group_instance_id=group_instance_id, knows_epochs=knows_epochs,
        topics=_to_commit(OffsetCommitRequest, parts),
    )  # fmt: skip


def txn_offset_commit(
    transactional_id: str, group_id: str, producer_id: int, producer_epoch: int, parts: Iterable[Offset],
    generation_id: int = -1, member_id: str = "", group_instance_id: str | None = None, joins: bool = True,
) -> TxnOffsetCommitRequest:  # fmt: skip
    """A request to commit offsets in a transaction."""
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id, group_id=group_id, producer_id=producer_id, producer_epoch=producer_epoch,
        generation_id=generation_id, member_id=member_id, group_instance_id=group_instance_id, joins=joins,
        topics=_to_commit(TxnOffsetCommitRequest, parts),
    )  # fmt: skip


def offset_fetch(
    group_id: str, keys: Iterable[TopicPartition] | None = None, member_id: str | None = None,
    member_epoch: int = -1, require_stable: bool = False,
) -> OffsetFetchRequest:  # fmt: skip
    """A request for the offsets of a group."""
    made = OffsetFetchRequest.of(group_id, keys, require_stable=require_stable)
    made.groups[0].member_id, made.groups[0].member_epoch = member_id, member_epoch
    return made


def commit_errors(
    answer: OffsetCommitResponse | TxnOffsetCommitResponse,
) -> dict[TopicPartition, PylogError | None]:
    """The error of each partition of a commit."""
    return {
        TopicPartition(topic.name, part.partition_index): part.error
        for topic in answer.topics
        for part in topic.partitions
    }


def fetched(answer: OffsetFetchResponse) -> list[Offset]:
    """The offsets in an answer about one group."""
    (group,) = answer.groups
    return [
        Offset(
            topic.name, part.partition_index, part.committed_offset, part.committed_leader_epoch, part.metadata or "",
            part.error,
        )
        for topic in group.topics
        for part in topic.partitions
    ]  # fmt: skip


def to_add(
    transactional_id: str, producer_id: int, producer_epoch: int, keys: Iterable[TopicPartition],
    verify_only: bool = False,
) -> PartitionsToAdd:  # fmt: skip
    """The message to a coordinator that lets partitions join a transaction."""
    return PartitionsToAdd(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch,
        verify_only=verify_only, topics=PartitionsToAdd.by_topic((key, key.partition) for key in keys),
    )  # fmt: skip


def add_partitions(
    transactional_id: str, producer_id: int, producer_epoch: int, keys: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """A request about one transaction."""
    return AddPartitionsToTxnRequest(transactions=[to_add(transactional_id, producer_id, producer_epoch, keys)])


def added(answer: PartitionsAdded | AddPartitionsToTxnResponse) -> dict[TopicPartition, PylogError | None]:
    """The error of each partition of one transaction."""
    one = answer.results_by_transaction[0] if isinstance(answer, AddPartitionsToTxnResponse) else answer
    return {
        TopicPartition(topic.name, part.partition_index): part.error
        for topic in one.topic_results
        for part in topic.results_by_partition
    }


def write_markers(markers: TxnMarkers) -> WriteTxnMarkersRequest:
    """A request to end one transaction."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    return WriteTxnMarkersRequest(markers=[marker(
        producer_id=markers.producer_id, producer_epoch=markers.producer_epoch, transaction_result=markers.committed,
        topics=marker.by_topic((key, key.partition) for key in markers.partitions),
        coordinator_epoch=markers.coordinator_epoch, transaction_version=markers.transaction_version,
    )])  # fmt: skip


def marked(answer: WriteTxnMarkersResponse) -> dict[TopicPartition, PylogError | None]:
    """The error of each partition of it."""
    return {
        TopicPartition(topic.name, part.partition_index): part.error
        for topic in answer.markers[0].topics
        for part in topic.partitions
    }


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


def join_group(
    group_id: str, member_id: str = "", group_instance_id: str | None = None, protocol_type: str = "consumer",
    protocols: Iterable[tuple[str, bytes]] = (), session_timeout_ms: int = 45_000,
    rebalance_timeout_ms: int = 300_000, requires_known_member_id: bool = False,
) -> JoinGroupRequest:  # fmt: skip
    """A request to join a group of the classic protocol."""
    part = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=group_id, member_id=member_id, group_instance_id=group_instance_id, protocol_type=protocol_type,
        protocols=[part(name=name, metadata=metadata) for name, metadata in protocols],
        session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=rebalance_timeout_ms,
        requires_known_member_id=requires_known_member_id,
    )  # fmt: skip


def sync_group(
    group_id: str, generation_id: int, member_id: str, group_instance_id: str | None = None,
    protocol_type: str | None = None, protocol_name: str | None = None,
    assignments: Iterable[tuple[str, bytes]] = (),
) -> SyncGroupRequest:  # fmt: skip
    """A request for an assignment."""
    part = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=group_instance_id,
        protocol_type=protocol_type, protocol_name=protocol_name,
        assignments=[part(member_id=name, assignment=assignment) for name, assignment in assignments],
    )  # fmt: skip


def group_heartbeat(
    group_id: str, generation_id: int, member_id: str, group_instance_id: str | None = None, max_wait_ms: int = 0
) -> HeartbeatRequest:
    """A heartbeat of a member of the classic protocol."""
    return HeartbeatRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=group_instance_id,
        max_wait_ms=max_wait_ms,
    )  # fmt: skip


def leave_group(group_id: str, members: Iterable[LeaveGroupRequest.MemberIdentity]) -> LeaveGroupRequest:
    """A request that takes members out of a group."""
    return LeaveGroupRequest(group_id=group_id, members=list(members))


def leaving(
    member_id: str = "", group_instance_id: str | None = None, reason: str | None = None
) -> LeaveGroupRequest.MemberIdentity:
    """A member that leaves."""
    return LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=group_instance_id, reason=reason)


def joined_group(
    error: PylogError | None = None, generation_id: int = -1, protocol_type: str | None = None,
    protocol_name: str | None = None, leader: str = "", skip_assignment: bool = False, member_id: str = "",
    members: Iterable[JoinGroupResponse.JoinGroupResponseMember] = (),
) -> JoinGroupResponse:  # fmt: skip
    """The answer to a request to join."""
    return JoinGroupResponse(
        error=error, generation_id=generation_id, protocol_type=protocol_type, protocol_name=protocol_name,
        leader=leader, skip_assignment=skip_assignment, member_id=member_id, members=list(members),
    )  # fmt: skip


def heartbeaten(error: PylogError | None = None) -> HeartbeatResponse:
    """The answer to a heartbeat."""
    return HeartbeatResponse(error=error)


def synced_group(
    error: PylogError | None = None, protocol_type: str | None = None, protocol_name: str | None = None,
    assignment: bytes = b"",
) -> SyncGroupResponse:  # fmt: skip
    """The answer to a request for an assignment."""
    return SyncGroupResponse(
        error=error, protocol_type=protocol_type, protocol_name=protocol_name, assignment=assignment
    )


def member_heartbeat(
    group_id: str, member_id: str, member_epoch: int, instance_id: str | None = None, *,
    topic_partitions: Iterable[tuple[UUID, list[int]]] | None = None, **more: Any,
) -> ConsumerGroupHeartbeatRequest:  # fmt: skip
    """A heartbeat of a member of the consumer protocol, with the partitions that it owns by the ids of their topics."""
    part = ConsumerGroupHeartbeatRequest.TopicPartitions
    owned = topic_partitions if topic_partitions is None else [
        part(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topic_partitions
    ]  # fmt: skip
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=member_epoch, instance_id=instance_id,
        topic_partitions=owned, **more,
    )  # fmt: skip


def member_heartbeaten(
    error: PylogError | None = None, member_id: str | None = None, member_epoch: int = 0,
    heartbeat_interval_ms: int = 0, assignment: Iterable[tuple[UUID, list[int]]] | None = None,
) -> ConsumerGroupHeartbeatResponse:  # fmt: skip
    """The answer to it, with the partitions that the member is to own."""
    told = ConsumerGroupHeartbeatResponse.Assignment
    return ConsumerGroupHeartbeatResponse(
        error=error, member_id=member_id, member_epoch=member_epoch, heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=assignment if assignment is None else told(topic_partitions=[
            told.TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in assignment
        ]),
    )  # fmt: skip
