"""Groups: who is in them, what they have committed and how far behind they are, and committing for them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pylog.client.cluster import Cluster, about, checked_name, checked_names, checked_words, raise_first
from pylog.errors import (
    CorruptBatch,
    GroupIdNotFound,
    GroupNotEmpty,
    PylogError,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pylog.protocol.assignor import decode_assignment, decode_subscription
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import EARLIEST, LATEST
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
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pylog.record import OffsetAndMetadata, TopicPartition, checked_partition, checked_positions

STATES = (
    "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"
)  # fmt: skip
TYPES = ("Classic", "Consumer")
UPGRADED = {CLASSIC_MEMBER: False, CONSUMER_MEMBER: True}
ClassicGroup = DescribeGroupsResponse.DescribedGroup
ConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup


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
    group, and where a node does not say it: version 0 of ConsumerGroupDescribe lacks the field.
    """
    subscription: tuple[str, ...] = ()
    """The topics that it subscribes to, by name."""
    subscription_regex: str | None = None
    """The pattern that the coordinator matches for it, in a group of the consumer protocol."""
    epoch: int | None = None
    """The epoch that it has reached, and what it is to have then; None in a classic group."""
    target_assignment: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator has it. `assignor` is "" where nothing was assigned. `generation` is the epoch of a
    group of the consumer protocol.
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
    """"Classic" or "Consumer"."""


class PartitionLag(NamedTuple):
    """The position and lag of a group in a partition. None: it has not committed there."""

    committed: int | None
    end_offset: int
    lag: int | None
    member_id: str | None
    """The member that has the partition now."""


class OffsetMove(NamedTuple):
    """The committed offset of a group in a partition before a move (None: no commit), and the one after it."""

    before: int | None
    after: int


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
        (Kafka: describeConsumerGroups). Raises TypeError.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.describe_groups(["billing"])["billing"].state
        'Empty'
        """
        asked = list(dict.fromkeys(checked_names("group_ids", group_ids)))
        found: dict[str, GroupDescription | PylogError] = {}
        for group in self._cluster.ask(DescribeGroupsRequest(groups=asked)).groups:
            found[group.group_id] = group.error or self._classic(group)
        left = [name for name in asked if isinstance(found[name], GroupIdNotFound)]
        # A node that is too old has no groups of the consumer protocol.
        with suppress(UnsupportedVersion):
            for one in self._cluster.ask(ConsumerGroupDescribeRequest(group_ids=left)).groups if left else ():
                found[one.group_id] = one.error or self._of_consumers(one)
        return {name: found[name] for name in asked}

    def _of_consumers(self, group: ConsumerGroup) -> GroupDescription:
        return GroupDescription(
            group.group_id, group.group_state, "Consumer", "consumer", group.assignor_name, group.group_epoch,
            self._coordinator(group), tuple(map(_member, group.members)), group.assignment_epoch,
        )  # fmt: skip

    def _classic(self, group: ClassicGroup) -> GroupDescription | PylogError:
        if group.group_state == "Dead":
            return GroupIdNotFound(f"there is no group {group.group_id!r}")
        return GroupDescription(
            group.group_id, group.group_state, "Classic", group.protocol_type, group.protocol_data, group.generation,
            self._coordinator(group), tuple(_classic_member(group.protocol_type, one) for one in group.members),
        )  # fmt: skip

    def _coordinator(self, group: ConsumerGroup | ClassicGroup) -> int:
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

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed, everywhere or in these partitions (Kafka:
        listConsumerGroupOffsets). Raises TypeError, and errors of the coordinator.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.committed("billing")
        {TopicPartition(topic='orders', partition=0): OffsetAndMetadata(offset=1, metadata='', leader_epoch=-1)}
        """
        wanted = None if partitions is None else [checked_partition(key) for key in partitions]
        message = OffsetFetchRequest.of(checked_name("group_id", group_id), wanted)
        answer = self._cluster.ask(message)
        raise_first([message.first_error(answer)])
        found = message.found(answer)
        return {key: found[key].position for key in sorted(found) if found[key].committed_offset >= 0}

    def lag(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        """The lag of a group in every partition that it has committed, or that a member has.

        Raises GroupIdNotFound.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.lag("billing")[orders]
        PartitionLag(committed=1, end_offset=3, lag=2, member_id=None)
        """
        group, committed = self.describe_group(group_id), self.committed(group_id)
        holders = {key: member.member_id for member in group.members for key in member.assignment}
        ends = self._offsets(sorted({*committed, *holders}), LATEST)
        lags = {}
        for key, end in ends.items():
            known = committed.get(key)
            offset = None if known is None else known.offset
            behind = None if offset is None else max(0, end - offset)
            lags[key] = PartitionLag(offset, end, behind, holders.get(key))
        return lags

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Commit for a group that has no members.

        Raises GroupNotEmpty, UnknownTopicOrPartition, TypeError, ValueError (Kafka: alterConsumerGroupOffsets).

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.committed("billing")[orders].offset
        1
        """
        wanted = checked_positions(offsets)
        for key in wanted:
            self._cluster.leader(key)
        topics = OffsetCommitRequest.offsets(wanted)
        message = OffsetCommitRequest(group_id=checked_name("group_id", group_id), topics=topics)
        error = message.first_error(self._cluster.ask(message))
        raise_first([_in_use(group_id) if isinstance(error, UnknownMemberId) else error])

    def reset_offsets(
        self, group_id: str, to: Literal["earliest", "latest"] | None = None, *, offset: int | None = None,
        time_ms: int | None = None, shift: int | None = None,
        partitions: Sequence[TopicPartition] | None = None, dry_run: bool = False,
    ) -> dict[TopicPartition, OffsetMove]:  # fmt: skip
        """Reset the committed offsets of a group in `partitions`, or in all that it has committed: to an end, to an
        offset, to the first record that is not older than a time, or by so many records on (or back).

        An offset outside of the log becomes the nearest end. With `dry_run` nothing is changed. Raises GroupNotEmpty,
        GroupIdNotFound (where no partitions are given), UnknownTopicOrPartition, TypeError, ValueError (none or several
        of the ways are given).

        >>> admin.alter_offsets("billing", {orders: 2})
        >>> admin.reset_offsets("billing", "earliest")
        {TopicPartition(topic='orders', partition=0): OffsetMove(before=2, after=0)}
        """
        _check_ways(to, offset=offset, time_ms=time_ms, shift=shift)
        committed = self.committed(group_id)
        if self._has_members(group_id, may_be_unknown=partitions is not None or bool(committed)):
            # In vain: its members would go on where they are.
            raise _in_use(group_id)
        keys = list(committed) if partitions is None else [checked_partition(key) for key in partitions]
        earliest, latest = self._offsets(keys, EARLIEST), self._offsets(keys, LATEST)
        timed = self._offsets(keys, time_ms) if time_ms is not None else {}
        changes = {}
        for key in keys:
            before = committed[key].offset if key in committed else None
            if to is not None:
                wanted = {"earliest": earliest, "latest": latest}[to][key]
            elif offset is not None:
                wanted = offset
            elif time_ms is not None:
                wanted = timed[key] if timed[key] >= 0 else latest[key]
            else:
                if before is None:
                    raise ValueError(f"{group_id!r} has committed nothing in {key.topic}-{key.partition} to shift from")
                wanted = before + (shift or 0)
            changes[key] = OffsetMove(before, min(max(wanted, earliest[key]), latest[key]))
        if not dry_run and changes:
            self.alter_offsets(group_id, {key: change.after for key, change in changes.items()})
        return changes

    def _has_members(self, group_id: str, *, may_be_unknown: bool) -> bool:
        try:
            return bool(self.describe_group(group_id).members)
        except GroupIdNotFound:
            if not may_be_unknown:
                raise
            return False

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed in partitions of topics that no member subscribes to.

        Raises GroupIdNotFound, GroupSubscribedToTopic, UnknownTopicOrPartition.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.delete_offsets("billing", [orders])
        >>> admin.committed("billing")
        {}
        """
        part = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition
        topics = OffsetDeleteRequest.by_topic(
            (key, part(partition_index=key.partition)) for key in map(checked_partition, partitions)
        )
        message = OffsetDeleteRequest(group_id=checked_name("group_id", group_id), topics=topics)
        raise_first(one.error for one in message.found(self._cluster.ask(message)).values())

    def delete_group(self, group_id: str) -> None:
        """Forget a group that has no members, with all that it has committed. Raises GroupNotEmpty, GroupIdNotFound.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.delete_group("billing")
        >>> admin.list_groups()
        []
        """
        raise_first(self.delete_groups([group_id]).values())

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, PylogError | None]:
        """Forget groups that have no members, with all that they have committed, by one call, and give the error of
        each, or None: GroupNotEmpty, GroupIdNotFound... (Kafka: deleteConsumerGroups). Raises TypeError; no group is
        forgotten then.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.delete_groups(["billing"])
        {'billing': None}
        """
        wanted = list(dict.fromkeys(checked_names("group_ids", group_ids)))
        results = self._cluster.ask(DeleteGroupsRequest(groups_names=wanted)).results
        return {one.group_id: one.error and about("group", one.group_id, one.error) for one in results}

    def _offsets(self, keys: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        parts = self._cluster.list_offsets(dict.fromkeys(keys, timestamp), Isolation.READ_UNCOMMITTED)
        # A topic may have been deleted after the group had committed: it ends at 0.
        gone = {key for key, part in parts.items() if isinstance(part.error, UnknownTopicOrPartition)}
        raise_first([part.error for key, part in parts.items() if key not in gone])
        return {key: 0 if key in gone else part.offset for key, part in parts.items()}


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


def _member(member: ConsumerGroup.Member) -> MemberDescription:
    def named(given: ConsumerGroup.Member.Assignment) -> tuple[TopicPartition, ...]:
        return tuple(
            sorted(
                TopicPartition(one.topic_name, number) for one in given.topic_partitions for number in one.partitions
            )
        )

    return MemberDescription(
        member.member_id, member.instance_id, member.client_id, member.client_host, named(member.assignment),
        upgraded=UPGRADED.get(member.member_type), subscription=tuple(sorted(member.subscribed_topic_names)),
        subscription_regex=member.subscribed_topic_regex or None, epoch=member.member_epoch,
        target_assignment=named(member.target_assignment),
    )  # fmt: skip


def _check_ways(to: str | None, **ways: int | None) -> None:
    """Raises TypeError, ValueError where this is not one way to send a group elsewhere."""
    given = {name: value for name, value in ways.items() if value is not None}
    if len(given) + (to is not None) != 1 or to not in (None, "earliest", "latest"):
        raise ValueError('give one of to="earliest", to="latest", offset=, time_ms= and shift=')
    for name, value in given.items():
        if type(value) is not int:
            raise TypeError(f"{name} is {type(value).__name__}, not int")
        if name == "time_ms" and value < 0:
            raise ValueError(f"{value} is no time in ms")


def _in_use(group_id: str) -> PylogError:
    return GroupNotEmpty(f"group {group_id!r} has members, who commit themselves: stop them first")
