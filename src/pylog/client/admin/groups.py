"""Groups of every type: which there are, and who is in them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pylog.client.cluster import Cluster, about, checked_name, checked_names, checked_words, raise_first
from pylog.errors import (
    CorruptBatch,
    GroupIdNotFound,
    PylogError,
    UnsupportedVersion,
)
from pylog.protocol.assignor import decode_assignment, decode_subscription
from pylog.protocol.messages.api import NamesRequest
from pylog.protocol.messages.groups import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
)
from pylog.protocol.messages.share import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from pylog.record import TopicPartition

STATES = (
    "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"
)  # fmt: skip
TYPES = ("Classic", "Consumer", "Share")
UPGRADED = {CLASSIC_MEMBER: False, CONSUMER_MEMBER: True}
ClassicGroup = DescribeGroupsResponse.DescribedGroup
ConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup
ShareGroup = ShareGroupDescribeResponse.DescribedGroup


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group and the partitions that it has."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    upgraded: bool | None = None
    """True for a member of the consumer protocol, False for a classic member of a consumer group. None in a classic
    or share group, and where a node does not say it: version 0 of ConsumerGroupDescribe lacks the field.
    """
    subscription: tuple[str, ...] = ()
    """The topics that it subscribes to, by name."""
    subscription_regex: str | None = None
    """The pattern that the coordinator matches for it, in a group of the consumer protocol."""
    epoch: int | None = None
    """The epoch that it has reached; None in a classic group."""
    target_assignment: tuple[TopicPartition, ...] | None = None
    """What it is to have then, in a group of the consumer protocol."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator has it. `assignor` is "" where nothing was assigned. `generation` is the epoch of a
    group of the consumer protocol, or of a share group.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    generation: int
    coordinator: int
    members: tuple[MemberDescription, ...] = field(default_factory=tuple)
    assignment_epoch: int | None = None
    """The epoch for which partitions were assigned last; None in a classic group."""


class ListedGroup(NamedTuple):
    """A group that there is, and the state that it is in."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    """"Classic", "Consumer" or "Share"."""


class GroupAdmin:
    """Admin calls about groups."""

    _cluster: Cluster

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """All groups, or those in one of these states or of one of these types, by name (Kafka: listGroups).

        Raises ValueError (no group is ever in such a state, or of such a type).

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> [(group.group_id, group.state) for group in admin.list_groups()]
        [('billing', 'Empty')]
        """
        request = ListGroupsRequest(
            states_filter=checked_words("states", states, STATES), types_filter=checked_words("types", types, TYPES)
        )
        return sorted(
            # A node that tells of no types has no others.
            ListedGroup(one.group_id, one.protocol_type, one.group_state, (one.group_type or "classic").capitalize())
            for one in self._cluster.ask(request).groups
        )

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group: its state, its members and what they have. Raises GroupIdNotFound.

        >>> with log.consumer("orders", group_id="billing", auto_offset_reset="earliest") as consumer:
        ...     order = next(consumer)
        ...     admin.describe_group("billing").members[0].assignment
        (TopicPartition(topic='orders', partition=0),)
        """
        found = self.describe_groups([group_id])[group_id]
        if isinstance(found, PylogError):
            raise found
        return found

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | PylogError]:
        """Several groups by one call; in the place of a group that cannot be described is its error: GroupIdNotFound...
        (Kafka: describeConsumerGroups, describeShareGroups). Raises TypeError.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.describe_groups(["billing"])["billing"].state
        'Empty'
        """
        asked = list(dict.fromkeys(checked_names("group_ids", group_ids)))
        found: dict[str, GroupDescription | PylogError] = {}
        for group in self._cluster.ask(DescribeGroupsRequest(groups=asked)).groups:
            found[group.group_id] = group.error or self._classic(group)
        kinds: tuple[Callable[[list[str]], NamesRequest[Any]], ...] = (
            lambda left: ConsumerGroupDescribeRequest(group_ids=left),
            lambda left: ShareGroupDescribeRequest(group_ids=left),
        )
        for request in kinds:
            left = [name for name in asked if isinstance(found[name], GroupIdNotFound)]
            # A node that is too old has no groups of such a type.
            with suppress(UnsupportedVersion):
                for one in self._cluster.ask(request(left)).groups if left else ():
                    if not isinstance(one.error, GroupIdNotFound | UnsupportedVersion):
                        found[one.group_id] = one.error or self._by_epochs(one)
        return {name: found[name] for name in asked}

    def _by_epochs(self, group: ConsumerGroup | ShareGroup) -> GroupDescription:
        if isinstance(group, ConsumerGroup):
            kind, members = "Consumer", tuple(map(_consumer, group.members))
        else:
            kind, members = "Share", tuple(map(_sharer, group.members))
        return GroupDescription(
            group.group_id, group.group_state, kind, kind.lower(), group.assignor_name, group.group_epoch,
            self._coordinator(group), members, group.assignment_epoch,
        )  # fmt: skip

    def _classic(self, group: ClassicGroup) -> GroupDescription | PylogError:
        if group.group_state == "Dead":
            return GroupIdNotFound(f"there is no group {group.group_id!r}")
        return GroupDescription(
            group.group_id, group.group_state, "Classic", group.protocol_type, group.protocol_data, group.generation,
            self._coordinator(group), tuple(_classic_member(group.protocol_type, one) for one in group.members),
        )  # fmt: skip

    def _coordinator(self, group: ConsumerGroup | ShareGroup | ClassicGroup) -> int:
        return self._cluster.coordinator("group", group.group_id) if group.coordinator < 0 else group.coordinator

    def remove_group_members(self, group_id: str, instance_ids: Iterable[str] | None = None) -> None:
        """Take static members out of a group, by their `group_instance_id`; None: all its members, static or not. The
        group shares their partitions at once. A member that still runs joins again, as a new one.

        Raises GroupIdNotFound (None, and there is no such group), UnknownMemberId (the group has no member with that
        id; the others are out), after all were tried. (Kafka: removeMembersFromConsumerGroup)

        >>> with log.consumer(
        ...     "orders", group_id="billing", group_instance_id="till-1", auto_offset_reset="earliest"
        ... ) as consumer:
        ...     order = next(consumer)
        >>> admin.remove_group_members("billing", ["till-1"])
        >>> admin.describe_group("billing").members
        ()
        """
        member = LeaveGroupRequest.MemberIdentity
        if instance_ids is None:
            leaving = [
                member(
                    member_id="" if one.group_instance_id is not None else one.member_id,
                    group_instance_id=one.group_instance_id,
                )
                for one in self.describe_group(group_id).members
            ]
        else:
            known = checked_names("instance_ids", instance_ids)
            leaving = [member(member_id="", group_instance_id=one) for one in known]
        if leaving:
            message = LeaveGroupRequest(group_id=checked_name("group_id", group_id), members=leaving)
            raise_first(one.error for one in self._cluster.ask(message).members)

    def delete_group(self, group_id: str) -> None:
        """Forget a group that has no members, with all of its offsets. Raises GroupNotEmpty, GroupIdNotFound.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.delete_group("billing")
        >>> admin.list_groups()
        []
        """
        raise_first(self.delete_groups([group_id]).values())

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, PylogError | None]:
        """Forget groups that have no members, with all of their offsets, by one call, and give the error of each, or
        None: GroupNotEmpty, GroupIdNotFound... (Kafka: deleteConsumerGroups, deleteShareGroups). Raises TypeError; no
        group is forgotten then.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.delete_groups(["billing"])
        {'billing': None}
        """
        wanted = list(dict.fromkeys(checked_names("group_ids", group_ids)))
        results = self._cluster.ask(DeleteGroupsRequest(groups_names=wanted)).results
        return {one.group_id: one.error and about("group", one.group_id, one.error) for one in results}


def _classic_member(protocol_type: str, member: ClassicGroup.DescribedGroupMember) -> MemberDescription:
    topics: list[str] = []
    assigned: list[TopicPartition] = []
    if protocol_type == "consumer":
        # Other clients may put anything there.
        with suppress(CorruptBatch):
            assigned, _ = decode_assignment(member.member_assignment)
        with suppress(CorruptBatch):
            topics = list(decode_subscription(member.member_metadata).topics) if member.member_metadata else []
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(sorted(assigned)),
        subscription=tuple(sorted(topics)),
    )  # fmt: skip


def _consumer(member: ConsumerGroup.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id, member.instance_id, member.client_id, member.client_host, _named(member.assignment),
        upgraded=UPGRADED.get(member.member_type), subscription=tuple(sorted(member.subscribed_topic_names)),
        subscription_regex=member.subscribed_topic_regex or None, epoch=member.member_epoch,
        target_assignment=_named(member.target_assignment),
    )  # fmt: skip


def _sharer(member: ShareGroup.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id, None, member.client_id, member.client_host, _named(member.assignment),
        subscription=tuple(sorted(member.subscribed_topic_names)), epoch=member.member_epoch,
    )  # fmt: skip


def _named(given: ConsumerGroup.Member.Assignment | ShareGroup.Member.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(one.topic_name, number) for one in given.topic_partitions for number in one.partitions)
    )
