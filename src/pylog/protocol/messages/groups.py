"""Groups: their members, and the members' assignments. What they have committed is in `offsets`.

`error` is None for a success.
"""

import uuid
from collections.abc import Iterable
from dataclasses import field

from pylog.errors import PylogError
from pylog.protocol.messages.api import AllNodesRequest, ApiRequest, ApiResponse, Named, NamesRequest, api_message
from pylog.protocol.messages.message import OURS
from pylog.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from pylog.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupHeartbeatRequest,
)
from pylog.protocol.operations import UNTOLD

# --- the classic protocol --------------------------------------------------------------------------------------------


@api_message
class JoinGroupResponse(ApiResponse):
    @api_message
    class JoinGroupResponseMember:
        member_id: str
        group_instance_id: str | None = None
        metadata: bytes

    throttle_time_ms: int = 0
    error: PylogError | None = None
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None
    leader: str = ""
    skip_assignment: bool = False
    """The leader need not assign: the group has an assignment that stays (KIP-814)."""
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
    """For the leader alone."""


def not_joined(error: PylogError, member_id: str = "", generation_id: int = -1) -> JoinGroupResponse:
    """The answer to a member that is not taken in."""
    return JoinGroupResponse(error=error, generation_id=generation_id, protocol_name=None, member_id=member_id)


@api_message
class JoinGroupRequest(ApiRequest[JoinGroupResponse]):
    """A request to join. The answer comes when the rebalance has seen all members, or waited for them long enough."""

    @api_message
    class JoinGroupRequestProtocol:
        name: str
        metadata: bytes

    lowest = 4
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str
    """Empty at first: the answer has one."""
    group_instance_id: str | None = None
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None = None
    requires_known_member_id: bool = field(default=False, metadata=OURS)
    """True where the first answer is MemberIdRequired, with the id to join with (KIP-394; from version 4 on)."""

    @property
    def named_protocols(self) -> list[tuple[str, bytes]]:
        """(name, metadata of the member for the assignor of that name), best first."""
        return [(one.name, one.metadata) for one in self.protocols]

    def refused(self, error: PylogError) -> JoinGroupResponse:
        return not_joined(error, self.member_id)


@api_message
class SyncGroupResponse(ApiResponse):
    throttle_time_ms: int = 0
    error: PylogError | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@api_message
class SyncGroupRequest(ApiRequest[SyncGroupResponse]):
    """A request for the member's assignment. The answer comes when the leader has assigned."""

    @api_message
    class SyncGroupRequestAssignment:
        member_id: str
        assignment: bytes

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)
    """From the leader alone."""


@api_message
class HeartbeatResponse(ApiResponse):
    throttle_time_ms: int = 0
    error: PylogError | None = None
    """RebalanceInProgress: join again."""


@api_message
class HeartbeatRequest(ApiRequest[HeartbeatResponse]):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    max_wait_ms: int = field(default=0, metadata=OURS)
    """The time that the coordinator may keep the answer back while there is no news.

    Not Kafka's: a member in the same process is told at once that it has to join again.
    """


@api_message
class LeaveGroupResponse(ApiResponse):
    @api_message
    class MemberResponse:
        member_id: str
        group_instance_id: str | None
        error: PylogError | None = None

    throttle_time_ms: int = 0
    error: PylogError | None = None
    members: list[MemberResponse] = field(default_factory=list)
    """In the order asked."""


@api_message
class LeaveGroupRequest(ApiRequest[LeaveGroupResponse]):
    @api_message
    class MemberIdentity:
        member_id: str
        group_instance_id: str | None = None
        reason: str | None = None

    lowest = 3
    group_id: str
    member_id: str = ""
    """The one member, in versions below 3."""
    members: list[MemberIdentity] = field(default_factory=list)

    def answered(self, errors: Iterable[PylogError | None]) -> LeaveGroupResponse:
        """The response with these errors of the members, in their order."""
        told = LeaveGroupResponse.MemberResponse
        return LeaveGroupResponse(
            members=[
                told(member_id=one.member_id, group_instance_id=one.group_instance_id, error=error)
                for one, error in zip(self.members, errors, strict=True)
            ]
        )


# --- the consumer protocol (KIP-848) ---------------------------------------------------------------------------------

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


@api_message
class ConsumerGroupHeartbeatResponse(ApiResponse):
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
    """The partitions that the member is to own; None: no change."""


@api_message
class ConsumerGroupHeartbeatRequest(ApiRequest[ConsumerGroupHeartbeatResponse]):
    """A heartbeat of a consumer group, with all that a member says. None: the same as before."""

    @api_message
    class TopicPartitions:
        topic_id: uuid.UUID
        partitions: list[int]

    lowest = 1
    group_id: str
    member_id: str
    member_epoch: int
    """JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH (it will be back), or the epoch of the last answer."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None
    """The partitions that the member owns now."""
    max_wait_ms: int = field(default=0, metadata=OURS)
    """As in a `HeartbeatRequest`."""


# --- groups as a whole -----------------------------------------------------------------------------------------------


@api_message
class ListGroupsResponse(ApiResponse):
    @api_message
    class ListedGroup:
        group_id: str
        protocol_type: str
        group_state: str = ""
        group_type: str = ""
        """"classic" or "consumer"."""

    throttle_time_ms: int = 0
    error: PylogError | None = None
    groups: list[ListedGroup] = field(default_factory=list)


@api_message
class ListGroupsRequest(AllNodesRequest[ListGroupsResponse]):
    parts = "groups"
    states_filter: list[str] = field(default_factory=list)
    """Empty: all; else those in one of these states, in upper or lower case. The same for types."""
    types_filter: list[str] = field(default_factory=list)


@api_message
class DescribeGroupsResponse(ApiResponse):
    @api_message
    class DescribedGroup:
        @api_message
        class DescribedGroupMember:
            member_id: str
            group_instance_id: str | None = None
            client_id: str
            client_host: str
            member_metadata: bytes = b""
            """The bytes as they came, and the assignment as the leader gave it."""
            member_assignment: bytes = b""

        error: PylogError | None = None
        group_id: str
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        """The assignor."""
        members: list[DescribedGroupMember] = field(default_factory=list)
        authorized_operations: int = UNTOLD
        generation: int = field(default=-1, metadata=OURS)
        coordinator: int = field(default=-1, metadata=OURS)
        """The node that has answered, where a network has found it; -1: the one that was asked."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)


@api_message
class DescribeGroupsRequest(NamesRequest[DescribeGroupsResponse]):
    """A request for groups of the classic protocol."""

    fields = Named("groups", "groups", "group_id", DescribeGroupsResponse.DescribedGroup)
    groups: list[str]
    include_authorized_operations: bool = False


CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The types of members (`member_type`)."""


@api_message
class ConsumerGroupDescribeResponse(ApiResponse):
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
            instance_id: str | None = None
            rack_id: str | None = None
            member_epoch: int
            client_id: str
            client_host: str
            subscribed_topic_names: list[str] = field(default_factory=list)
            subscribed_topic_regex: str | None = None
            assignment: Assignment = field(default_factory=Assignment)
            target_assignment: Assignment = field(default_factory=Assignment)
            member_type: int = -1
            """One of the classic protocol, or of the consumer protocol; -1: the node does not tell."""

        error: PylogError | None = None
        group_id: str
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[Member] = field(default_factory=list)
        authorized_operations: int = UNTOLD
        coordinator: int = field(default=-1, metadata=OURS)
        """See `DescribeGroupsResponse`."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)


@api_message
class ConsumerGroupDescribeRequest(NamesRequest[ConsumerGroupDescribeResponse]):
    """A request for groups of the consumer protocol."""

    fields = Named("group_ids", "groups", "group_id", ConsumerGroupDescribeResponse.DescribedGroup)
    group_ids: list[str]
    include_authorized_operations: bool = False


@api_message
class DeleteGroupsResponse(ApiResponse):
    @api_message
    class DeletableGroupResult:
        group_id: str
        error: PylogError | None = None

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)


@api_message
class DeleteGroupsRequest(NamesRequest[DeleteGroupsResponse]):
    fields = Named("groups_names", "results", "group_id", DeleteGroupsResponse.DeletableGroupResult)
    groups_names: list[str]

    def answered(self, errors: Iterable[PylogError | None]) -> DeleteGroupsResponse:
        """The response with these errors of the groups, in their order."""
        result = DeleteGroupsResponse.DeletableGroupResult
        pairs = zip(self.groups_names, errors, strict=True)
        return DeleteGroupsResponse(results=[result(group_id=name, error=error) for name, error in pairs])


OfGroup = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
    | OffsetCommitRequest
    | TxnOffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | ShareGroupHeartbeatRequest
    | DescribeShareGroupOffsetsRequest
    | AlterShareGroupOffsetsRequest
    | DeleteShareGroupOffsetsRequest
)
"""The messages that the coordinator of one group answers."""


def group_of(message: OfGroup) -> str:
    """The id of the group that a message is about. One about the offsets of several groups: of the first one."""
    if isinstance(message, OffsetFetchRequest | DescribeShareGroupOffsetsRequest):
        return message.groups[0].group_id
    return message.group_id
