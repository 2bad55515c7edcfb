"""One group of the consumer protocol: members say what they read, and the coordinator assigns (KIP-848).

                    subscriptions or topics change            a member's heartbeat
    epoch of the group   ------------------>   target   ----------------------------->   epoch of the member
                          of all members, by the server's assignor          one at a time, no barrier (`reconciliation`)

    Empty        no members
    Assigning    the target was made for an earlier epoch of the group
    Reconciling  some members have yet to get there
    Stable       all members have their target

Members of the classic protocol may be in it, too (`MemberSubscription.classic`): they join again where others are just
told.

All of this is in the log, and changes by `replay` alone. Three things are not, and are gone with the process:
heartbeats that are kept back, deadlines, and the last list of topics. `consumer_heartbeat` finds the consequences of a
heartbeat. (Kafka: ConsumerGroup.)

Invariant: no partition that members have or give up is in two of them; `owners` has the member of each.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, MutableMapping
from typing import TypeVar
from uuid import UUID

from pylog.config import DynamicBrokerConfig, GroupConfig
from pylog.coordinator.effects import LogRecord, TopicsView
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    PARTITION_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ClassicMember,
    ConsumerChange,
    Current,
    GroupEpoch,
    MemberState,
    MemberSubscription,
    ResolvedRegex,
    Slot,
    TargetEpoch,
    by_topic_id,
    consumer_record,
)
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.group_protocol import Group
from pylog.coordinator.group.records import Committed
from pylog.coordinator.group.target_assignment import Matches, TopicInfos, preferred_assignor
from pylog.coordinator.group.timers import GroupTimers
from pylog.errors import FencedInstanceId, IllegalGeneration, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from pylog.protocol.messages.groups import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    ListGroupsResponse,
)
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetsToFetch, TxnOffsetCommitRequest

T = TypeVar("T")
CONSUMER = "consumer"
Described = ConsumerGroupDescribeResponse.DescribedGroup
PROTOCOL_TYPE = "consumer"
NO_TARGET = TargetEpoch(-1)
NEW_MEMBER = Current()

Action = Callable[["ConsumerGroup", EffectsBuilder], None]


class ConsumerGroup:
    """The logged state of a group, and its waiting members. `groups` has all groups of the coordinator."""

    expires = True

    def __init__(
        self,
        group_id: str,
        configs: DynamicBrokerConfig,
        topics: TopicsView,
        deadlines: GroupTimers,
        groups: MutableMapping[str, Group],
    ) -> None:
        self.group_id = group_id
        self.config = configs.given
        self._configs = configs
        self.topics = topics
        self.epoch = GroupEpoch(0)
        self.target_epoch = NO_TARGET
        self.subscriptions: dict[str, MemberSubscription] = {}
        self.targets: dict[str, frozenset[Slot]] = {}
        self.currents: dict[str, Current] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        self.owners: dict[Slot, str] = {}
        self.static: dict[str, str] = {}
        self.held: dict[str, int] = {}
        """The tickets of heartbeats that are kept back, by member id."""
        self.waiting: dict[str, tuple[int, HeartbeatRequest]] = {}
        """The same of members of the classic protocol, each with its heartbeat."""
        self.seen: TopicInfos | None = None
        """The list of topics whose hash `epoch` has."""
        self.matches: dict[str, Matches] = {}
        """By expression: the topics that match, as far as they were looked at."""
        self.deadlines = deadlines
        self.logged_end = 0
        """Where the last record of it ends, of those that this coordinator has appended."""
        self._groups = groups

    # --- the log ------------------------------------------------------------------------------------------------------

    def replay(self, change: ConsumerChange) -> None:
        """Take over the content of a record."""
        kind, _, name, value = change
        if kind == EPOCH:
            self.epoch = value if isinstance(value, GroupEpoch) else GroupEpoch(0)
        elif kind == TARGET_EPOCH:
            self.target_epoch = value if isinstance(value, TargetEpoch) else NO_TARGET
        elif kind == PARTITION_METADATA:
            self.has_partition_metadata = value is not None
        elif kind == MEMBER:
            self._replay_subscription(name, value if isinstance(value, MemberSubscription) else None)
        elif kind == CURRENT:
            self._replay_current(name, value if isinstance(value, Current) else None)
        elif kind == TARGET:
            _put(self.targets, name, value if isinstance(value, frozenset) else None)
        else:
            _put(self.resolved, name, value if isinstance(value, ResolvedRegex) else None)

    def _replay_subscription(self, member_id: str, value: MemberSubscription | None) -> None:
        before = self.subscriptions.get(member_id)
        if before is not None and self.static.get(before.instance_id or "") == member_id:
            del self.static[before.instance_id or ""]
        if value is not None and value.instance_id is not None:
            self.static[value.instance_id] = member_id
        _put(self.subscriptions, member_id, value)

    def _replay_current(self, member_id: str, value: Current | None) -> None:
        before = self.currents.get(member_id, NEW_MEMBER)
        for slot in (*before.assigned, *before.revoking):
            if self.owners.get(slot) == member_id:
                del self.owners[slot]
        if value is not None:
            self.owners.update(dict.fromkeys((*value.assigned, *value.revoking), member_id))
        _put(self.currents, member_id, value)

    def tombstones(self) -> list[LogRecord]:
        """The records that delete the group with all that is in it, in Kafka's order."""
        gone: list[tuple[int, Collection[str]]] = [
            (CURRENT, self.subscriptions),
            (TARGET, self.targets),
            (TARGET_EPOCH, [""]),
            (MEMBER, self.subscriptions),
            (REGEX, self.resolved),
            (PARTITION_METADATA, [""]),
            (EPOCH, [""]),
        ]
        return [consumer_record(kind, self.group_id, name, None) for kind, names in gone for name in names]

    def close(self) -> None:
        """Close the group: its deadlines look for the group that has its id then."""

    def give_way(self, other: Group) -> None:
        """Give the id to another group from now on."""
        self._groups[self.group_id] = other

    # --- deadlines and waiting ----------------------------------------------------------------------------------------

    def due(self, what: Hashable, after_ms: int, action: Action, out: EffectsBuilder) -> None:
        """Do this later to the group that has this id then, if that is one of the consumer protocol."""

        def act(out: EffectsBuilder) -> None:
            group = self._groups.get(self.group_id)
            if isinstance(group, ConsumerGroup):
                action(group, out)

        self.deadlines.set(self._key(what), out.now.tick + after_ms, act)

    def _key(self, what: Hashable) -> Hashable:
        # A classic group of this id may have deadlines of its own, which must stand if it does not turn into this one.
        return CONSUMER, self.group_id, what

    def is_due(self, what: Hashable) -> bool:
        """True if there is a deadline of the kind."""
        return self._key(what) in self.deadlines

    def cancel(self, *what: Hashable) -> None:
        """Cancel the deadlines of these kinds."""
        for one in what:
            self.deadlines.cancel(self._key(one))

    def release(self, member_id: str, answer: ConsumerGroupHeartbeatResponse, out: EffectsBuilder) -> None:
        """Answer a heartbeat that is kept back, if there is one."""
        ticket = self.held.pop(member_id, None)
        if ticket is not None:
            self.cancel(("held", member_id))
            out.answer_when_safe(
                ticket, answer,
                lambda error: ConsumerGroupHeartbeatResponse(error=not_stored(error), member_id=member_id),
                tells=self.logged_end,
            )  # fmt: skip

    # --- members ------------------------------------------------------------------------------------------------------

    @property
    def group_config(self) -> GroupConfig:
        """The configs in force for the group: those set on it, and those of the node."""
        return self._configs.of_group(self.group_id)

    @property
    def is_empty(self) -> bool:
        """True if it has no members."""
        return not self.subscriptions

    def topics_of(
        self, subscription: MemberSubscription, resolved: Mapping[str, ResolvedRegex] | None = None
    ) -> list[str]:
        """The topics that a member reads: those that it names, and those that match."""
        known = self.resolved if resolved is None else resolved
        matched = known.get(subscription.regex) if subscription.regex is not None else None
        return sorted({*subscription.topics, *(() if matched is None else matched.topics)})

    def current(self, member_id: str, instance_id: str | None) -> Current:
        """A member's partitions. Raises UnknownMemberId; FencedInstanceId where another one has the instance id."""
        if instance_id is not None:
            holder = self.static.get(instance_id)
            if holder is None:
                raise UnknownMemberId(
                    f"group {self.group_id!r} has no member with instance id {instance_id!r}: join it"
                )
            if holder != member_id:
                raise FencedInstanceId(f"{instance_id!r} is the instance id of member {holder!r}, not of {member_id!r}")
        if member_id not in self.subscriptions:
            raise UnknownMemberId(f"{member_id!r} is not a member of group {self.group_id!r}, or not any more: join it")
        return self.currents.get(member_id, NEW_MEMBER)

    def classic(self, member_id: str, instance_id: str | None) -> tuple[Current, ClassicMember]:
        """A classic member's partitions, and its metadata. Raises UnknownMemberId, FencedInstanceId."""
        current = self.current(member_id, instance_id)
        found = self.subscriptions[member_id].classic
        if found is None:
            raise UnknownMemberId(f"{member_id!r} is a member by the consumer protocol, not by the classic one: join")
        return current, found

    def session_timeout_ms(self, member_id: str) -> int:
        """The longest silence of a member: those of the classic protocol say it themselves."""
        said = self.subscriptions[member_id].classic if member_id in self.subscriptions else None
        return self.group_config.consumer_session_timeout_ms if said is None else said.session_timeout_ms

    def has_to_join(self, member_id: str) -> bool:
        """True if a member of the classic protocol has to join again to go on towards its target.

        It has to where there is another target, where it has to give something up, or where a partition that it waits
        for is free (Kafka: classicGroupHeartbeatToConsumerGroup).
        """
        current = self.currents.get(member_id, NEW_MEMBER)
        if current.epoch < self.epoch.epoch or current.state is MemberState.UNREVOKED:
            return True
        missing = self.targets.get(member_id, frozenset()) - current.assigned.keys()
        return current.state is MemberState.UNRELEASED and missing.isdisjoint(self.owners)

    @property
    def state(self) -> str:
        """The state of the group, by the name that users see."""
        if self.is_empty:
            return "Empty"
        if self.epoch.epoch > self.target_epoch.epoch:
            return "Assigning"
        stable = (MemberState.STABLE, self.target_epoch.epoch)
        is_there = all((found.state, found.epoch) == stable for found in self.currents.values())
        return "Stable" if is_there else "Reconciling"

    # --- asked by others ----------------------------------------------------------------------------------------------

    def check_commit(self, message: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
        """Check that a commit is allowed.

        Members commit in their epoch, or in an earlier one the partitions that they have had since (KIP-1251); without
        an epoch, offsets of an empty group may be committed by any client. An instance id is not looked at. Raises
        UnknownMemberId, UnsupportedVersion, StaleMemberEpoch, and IllegalGeneration instead of it for a member of the
        classic protocol.
        """
        epoch = message.generation_id
        if epoch < 0 and (self.is_empty or _is_from_outside(message)):
            return
        current = self.current(message.member_id, None)
        is_classic = self.subscriptions[message.member_id].classic is not None
        if isinstance(message, OffsetCommitRequest) and not (message.knows_epochs or is_classic):
            raise UnsupportedVersion(f"{message.member_id!r} is a member by the consumer protocol: commit by version 9")
        if epoch == current.epoch:
            return
        named = self.topics.named()
        for at in message.partitions():
            info = named.get(at.topic)
            slot = None if info is None else (info.id, at.partition)
            since = None if slot is None else current.assigned.get(slot, current.revoking.get(slot))
            if epoch > current.epoch or since is None or not 0 <= since <= epoch:
                text = f"{message.member_id!r} is in epoch {current.epoch}, not {epoch}: "
                if is_classic:
                    raise IllegalGeneration(f"{text}join the group again")
                raise StaleMemberEpoch(f"{text}commit again after a heartbeat")

    def commits(self, message: OffsetCommitRequest, out: EffectsBuilder) -> None:
        """Do nothing: a commit is no heartbeat in this protocol."""

    def check_fetch(self, message: OffsetsToFetch) -> None:
        """Check the epoch of a member; others fetch without one. Raises UnknownMemberId, StaleMemberEpoch."""
        if message.member_id is None and message.member_epoch < 0:
            return
        current = self.current(message.member_id or "", None)
        if message.member_epoch != current.epoch:
            said = f"in epoch {current.epoch}, not {message.member_epoch}"
            raise StaleMemberEpoch(f"{message.member_id!r} is {said}: ask again after a heartbeat")

    def check_offset_delete(self) -> None:
        """Allow the deletion of offsets of topics that no member reads."""

    def is_subscribed(self, topic: str) -> bool:
        """True if a member reads the topic."""
        return any(topic in self.topics_of(subscription) for subscription in self.subscriptions.values())

    def expires_from(self, committed: Committed) -> int | None:
        """The retention counts from the commit (Kafka: ConsumerGroup.offsetExpirationCondition)."""
        return committed.commit_ms

    def listed(self) -> ListGroupsResponse.ListedGroup:
        """The group in a list."""
        return ListGroupsResponse.ListedGroup(
            group_id=self.group_id, protocol_type=PROTOCOL_TYPE, group_state=self.state, group_type=CONSUMER
        )

    def described(self, names: Mapping[UUID, str]) -> Described:
        """The group with its members. `names`: those of topics, by their ids; one that is gone is left out."""
        return Described(
            group_id=self.group_id,
            group_state=self.state,
            group_epoch=self.epoch.epoch,
            assignment_epoch=self.target_epoch.epoch,
            assignor_name=preferred_assignor(self.subscriptions.values()),
            members=[self._described(*found, names) for found in self.subscriptions.items()],
        )

    def _described(
        self, member_id: str, subscription: MemberSubscription, names: Mapping[UUID, str]
    ) -> Described.Member:  # fmt: skip
        current = self.currents.get(member_id, NEW_MEMBER)
        return Described.Member(
            member_id=member_id,
            instance_id=subscription.instance_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            member_epoch=current.epoch,
            subscribed_topic_names=list(subscription.topics),
            subscribed_topic_regex=subscription.regex or "",
            assignment=_assignment(current.assigned, names),
            target_assignment=_assignment(self.targets.get(member_id, ()), names),
            member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
        )


def _assignment(slots: Iterable[Slot], names: Mapping[UUID, str]) -> Described.Member.Assignment:
    made = Described.Member.Assignment
    return made(
        topic_partitions=[
            made.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=numbers)
            for topic_id, numbers in by_topic_id(slots)
            if topic_id in names
        ]
    )


def _is_from_outside(message: OffsetCommitRequest | TxnOffsetCommitRequest) -> bool:
    """True if it is of a transaction whose client sends no member id: clients older than KIP-447."""
    return isinstance(message, TxnOffsetCommitRequest) and not message.member_id and message.group_instance_id is None


def _put(where: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        where.pop(name, None)
    else:
        where[name] = value
