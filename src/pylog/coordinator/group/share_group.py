"""One share group: members read the same partitions, and each record goes to one of them (KIP-932).

    members say what they read  ->  partitions get a state (the share coordinator)  ->  target  ->  members

A partition is assigned when it has a state, so the coordinator asks the share coordinator to begin those that are new.
A member has its target with its next heartbeat: it waits for no other one. All of this is in the log and changes by
`replay` alone, except heartbeats that are kept back, deadlines, the last list of topics, and the questions to the
share coordinator that are not answered yet. (Kafka: ShareGroup, GroupMetadataManager.shareGroupHeartbeat)
"""

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import NoReturn, TypeVar
from uuid import UUID

from pylog.config import DynamicBrokerConfig, GroupConfig
from pylog.coordinator.effects import LogRecord, TopicsView
from pylog.coordinator.group.consumer_records import GroupEpoch, Slot, TargetEpoch, by_topic_id
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.group_protocol import Group
from pylog.coordinator.group.records import Committed
from pylog.coordinator.group.share_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    STATE,
    TARGET,
    TARGET_EPOCH,
    PartitionStates,
    ShareChange,
    ShareCurrent,
    ShareMember,
    share_record,
)
from pylog.coordinator.group.target_assignment import TopicInfos
from pylog.coordinator.group.timers import GroupTimers
from pylog.errors import GroupIdNotFound, UnknownMemberId
from pylog.protocol.messages.groups import ListGroupsResponse
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetsToFetch, TxnOffsetCommitRequest
from pylog.protocol.messages.share import ShareGroupDescribeResponse, ShareGroupHeartbeatResponse

T = TypeVar("T")
SHARE = "share"
ASSIGNOR = "simple"
Described = ShareGroupDescribeResponse.DescribedGroup
FIRST_EPOCH = GroupEpoch(1)
NO_TARGET = TargetEpoch(-1)
NEW_MEMBER = ShareCurrent()

Action = Callable[["ShareGroup", EffectsBuilder], None]


class ShareGroup:
    """The logged state of a group, and its waiting members. `groups` has all groups of the coordinator. One that is new
    enters them by its first record, as another object, and shares `asked` with it.
    """

    def __init__(
        self,
        group_id: str,
        configs: DynamicBrokerConfig,
        topics: TopicsView,
        deadlines: GroupTimers,
        groups: MutableMapping[str, Group],
        asked: set[Slot],
    ) -> None:
        self.group_id = group_id
        self.config = configs.given
        self.topics = topics
        self.epoch = FIRST_EPOCH
        self.target_epoch = NO_TARGET
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, frozenset[Slot]] = {}
        self.currents: dict[str, ShareCurrent] = {}
        self.states = PartitionStates()
        self.asked = asked
        """The partitions whose state the share coordinator is asked to begin, as long as it has not answered."""
        self.held: dict[str, int] = {}
        """The tickets of heartbeats that are kept back, by member id."""
        self.seen: TopicInfos | None = None
        """The list of topics whose hash `epoch` has."""
        self.deadlines = deadlines
        self.logged_end = 0
        """Where the last record of it ends, of those that this coordinator has appended."""
        self._configs = configs
        self._groups = groups

    # --- the log ------------------------------------------------------------------------------------------------------

    def replay(self, change: ShareChange) -> None:
        """Take over the content of a record."""
        kind, _, name, value = change
        if kind == EPOCH:
            self.epoch = value if isinstance(value, GroupEpoch) else FIRST_EPOCH
        elif kind == TARGET_EPOCH:
            self.target_epoch = value if isinstance(value, TargetEpoch) else NO_TARGET
        elif kind == MEMBER:
            _put(self.members, name, value if isinstance(value, ShareMember) else None)
        elif kind == CURRENT:
            _put(self.currents, name, value if isinstance(value, ShareCurrent) else None)
        elif kind == TARGET:
            _put(self.targets, name, value if isinstance(value, frozenset) else None)
        else:
            self.states = value if isinstance(value, PartitionStates) else PartitionStates()

    def tombstones(self) -> list[LogRecord]:
        """The records that delete the group with all that is in it, in Kafka's order."""
        gone = [
            (CURRENT, [*self.members]), (TARGET, [*self.targets]), (TARGET_EPOCH, [""]), (MEMBER, [*self.members]),
            (STATE, [""]), (EPOCH, [""]),
        ]  # fmt: skip
        return [share_record(kind, self.group_id, name, None) for kind, names in gone for name in names]

    def state_record(self, states: PartitionStates) -> LogRecord:
        """The record that these topics have a state, get one, or lose it."""
        return share_record(STATE, self.group_id, "", states)

    def close(self) -> None:
        """Close the group: its deadlines look for the group that has its id then."""

    # --- deadlines and waiting ----------------------------------------------------------------------------------------

    @property
    def live(self) -> "ShareGroup":
        """The group that has this id now."""
        found = self._groups.get(self.group_id)
        return found if isinstance(found, ShareGroup) else self

    def due(self, what: Hashable, after_ms: int, action: Action, out: EffectsBuilder) -> None:
        """Do this later to the group that has this id then, if that is a share group."""

        def act(out: EffectsBuilder) -> None:
            group = self._groups.get(self.group_id)
            if isinstance(group, ShareGroup):
                action(group, out)

        self.deadlines.set((SHARE, self.group_id, what), out.now.tick + after_ms, act)

    def cancel(self, what: Hashable) -> None:
        """Cancel a deadline."""
        self.deadlines.cancel((SHARE, self.group_id, what))

    def release(self, member_id: str, answer: ShareGroupHeartbeatResponse, out: EffectsBuilder) -> None:
        """Answer a heartbeat that is kept back, if there is one."""
        ticket = self.held.pop(member_id, None)
        if ticket is not None:
            self.cancel(("held", member_id))
            out.answer_when_safe(
                ticket, answer,
                lambda error: ShareGroupHeartbeatResponse(error=not_stored(error), member_id=member_id),
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
        return not self.members

    def current(self, member_id: str) -> ShareCurrent:
        """A member's partitions. Raises UnknownMemberId."""
        if member_id not in self.members:
            raise UnknownMemberId(f"{member_id!r} is not a member of group {self.group_id!r}, or not any more: join it")
        return self.currents.get(member_id, NEW_MEMBER)

    @property
    def state(self) -> str:
        """The state of the group, by the name that users see."""
        return "Empty" if self.is_empty else "Stable"

    # --- asked by others ----------------------------------------------------------------------------------------------

    def _has_no_offsets(self) -> NoReturn:
        raise GroupIdNotFound(f"group {self.group_id!r} is a share group: it commits no offsets")

    def check_commit(self, message: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
        """Raises GroupIdNotFound."""
        self._has_no_offsets()

    def commits(self, message: OffsetCommitRequest, out: EffectsBuilder) -> None:
        """Do nothing: it was refused."""

    def check_fetch(self, message: OffsetsToFetch) -> None:
        """Raises GroupIdNotFound."""
        self._has_no_offsets()

    def check_offset_delete(self) -> None:
        """Raises GroupIdNotFound."""
        self._has_no_offsets()

    def is_subscribed(self, topic: str) -> bool:
        """True if a member reads the topic."""
        return any(topic in member.topics for member in self.members.values())

    def expires_from(self, committed: Committed) -> int | None:
        """Nothing expires."""
        return None

    expires = False
    """An empty group stays, with the state of its partitions, until it is deleted."""

    def listed(self) -> ListGroupsResponse.ListedGroup:
        """The group in a list."""
        return ListGroupsResponse.ListedGroup(
            group_id=self.group_id, protocol_type=SHARE, group_state=self.state, group_type=SHARE
        )

    def described(self, names: Mapping[UUID, str]) -> Described:
        """The group with its members. `names`: those of topics, by their ids; one that is gone is left out."""
        return Described(
            group_id=self.group_id, group_state=self.state, group_epoch=self.epoch.epoch,
            assignment_epoch=self.target_epoch.epoch, assignor_name=ASSIGNOR,
            members=[self._described(*found, names) for found in self.members.items()],
        )  # fmt: skip

    def _described(self, member_id: str, member: ShareMember, names: Mapping[UUID, str]) -> Described.Member:
        current = self.currents.get(member_id, NEW_MEMBER)
        made = Described.Member.Assignment
        return Described.Member(
            member_id=member_id, rack_id=member.rack_id, member_epoch=current.epoch, client_id=member.client_id,
            client_host=member.client_host, subscribed_topic_names=[*member.topics],
            assignment=made(topic_partitions=[
                made.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=numbers)
                for topic_id, numbers in by_topic_id(current.assigned)
                if topic_id in names
            ]),
        )  # fmt: skip


def _put(where: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        where.pop(name, None)
    else:
        where[name] = value
