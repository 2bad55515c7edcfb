"""The changes of one event in a share group: its records, and the group after their replay.

The group itself is not touched. The order of the steps is always the same (Kafka:
GroupMetadataManager.shareGroupHeartbeat):

    members come, go, say something else  ->  refresh: the epoch of the group goes up  ->  assign: a new target
                                          ->  reconcile: one member has its target     ->  begin: what has no state yet
"""

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from pylog.coordinator.effects import LogRecord, Now
from pylog.coordinator.group.consumer_records import GroupEpoch, Slot, TargetEpoch
from pylog.coordinator.group.share_group import NEW_MEMBER, ShareGroup
from pylog.coordinator.group.share_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    Begun,
    ShareCurrent,
    ShareMember,
    ShareValue,
    share_record,
)
from pylog.coordinator.group.simple_assignor import assign_simply
from pylog.coordinator.group.target_assignment import topics_hash
from pylog.protocol.messages.share_state import InitializeShareGroupStateRequest

T = TypeVar("T")
BY_CONFIG = -1
"""The start offset of a partition that begins where the group's `share.auto.offset.reset` says."""


class ShareGroupUpdate:
    """The change that is being made."""

    def __init__(self, group: ShareGroup, now: Now) -> None:
        self.records: list[LogRecord] = []
        self.members: Mapping[str, ShareMember] = group.members
        self.targets: Mapping[str, frozenset[Slot]] = group.targets
        self.currents: Mapping[str, ShareCurrent] = group.currents
        self._group = group
        self._now = now
        self._topics = group.topics.named()
        self._epoch = group.epoch
        self._target_epoch = group.target_epoch

    def _write(self, kind: int, name: str, value: ShareValue) -> None:
        self.records.append(share_record(kind, self._group.group_id, name, value))

    # --- members -----------------------------------------------------------------------------------------------------

    def subscribe(self, member_id: str, member: ShareMember) -> bool:
        """Replace the metadata of a member; return whether it reads other topics from now on."""
        before = self.members.get(member_id)
        if member == before:
            return False
        self._write(MEMBER, member_id, member)
        self.members = {**self.members, member_id: member}
        return before is None or before.topics != member.topics

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        for kind in (CURRENT, TARGET, MEMBER):
            self._write(kind, member_id, None)
        self.currents = _without(self.currents, member_id)
        self.targets = _without(self.targets, member_id)
        self.members = _without(self.members, member_id)

    # --- the group ---------------------------------------------------------------------------------------------------

    def refresh(self, *, changed: bool) -> bool:
        """Raise the epoch of the group where a member, its topics or what can be assigned has changed; return whether
        it was.
        """
        if self._target_epoch.epoch >= self._epoch.epoch:
            changed = changed or self._is_pending()
        if not changed and self._group.seen is self._topics:
            return False
        found = topics_hash(self._read(), self._topics)
        if not changed and found == self._epoch.topics_hash:
            self._group.seen = self._topics
            return False
        self._epoch = GroupEpoch(self._epoch.epoch + 1, found)
        self._write(EPOCH, "", self._epoch)
        return True

    def _read(self) -> set[str]:
        return {topic for member in self.members.values() for topic in member.topics}

    def _is_pending(self) -> bool:
        """True if a partition has a state by now, and no member yet."""
        if not self._group.members:
            return False
        assigned = {slot for slots in self.targets.values() for slot in slots}
        read = {topic for member in self._group.members.values() for topic in member.topics}
        return any(slot not in assigned for topic in read for slot in self._assignable(topic))

    def _assignable(self, topic: str) -> list[Slot]:
        """The partitions of a topic that have a state."""
        info = self._topics.get(topic)
        begun = None if info is None else self._group.states.initialized.get(info.id)
        return [] if info is None or begun is None else [
            (info.id, number) for number in sorted(begun.partitions) if number < info.partitions
        ]  # fmt: skip

    def assign(self) -> None:
        """Make a target for the epoch of the group, if it has no target yet."""
        if self._epoch.epoch <= self._target_epoch.epoch:
            return
        slots = {topic: self._assignable(topic) for topic in self._read()}
        reads = {
            member_id: [slot for topic in member.topics for slot in slots[topic]]
            for member_id, member in self.members.items()
        }
        targets = assign_simply(reads, self.targets)
        for member_id, target in targets.items():
            if self.targets.get(member_id) != target:
                self._write(TARGET, member_id, target)
        self.targets = targets
        self._target_epoch = TargetEpoch(self._epoch.epoch, self._now.wall)
        self._write(TARGET_EPOCH, "", self._target_epoch)

    def reconcile(self, member_id: str) -> ShareCurrent:
        """Give a member its target; return what it has then."""
        current = self.currents.get(member_id, NEW_MEMBER)
        if current.epoch == self._target_epoch.epoch:
            return current
        found = ShareCurrent(self._target_epoch.epoch, current.epoch, self.targets.get(member_id, frozenset()))
        self._write(CURRENT, member_id, found)
        self.currents = {**self.currents, member_id: found}
        return found

    def begin(self) -> InitializeShareGroupStateRequest | None:
        """Note the partitions that have no state yet; return the question to the share coordinator for it."""
        group, states = self._group, self._group.states
        new: dict[UUID, Begun] = {}
        for topic in sorted(self._read() & self._topics.keys()):
            topic_id, count = self._topics[topic]
            known = states.initialized.get(topic_id, Begun(topic, frozenset())).partitions
            left = frozenset(range(count)) - known - {number for asked, number in group.asked if asked == topic_id}
            if left:
                new[topic_id] = Begun(topic, left)
        if not new:
            return None
        before = states.initializing
        initializing = {**before, **{
            topic_id: Begun(one.name, one.partitions | before.get(topic_id, one).partitions)
            for topic_id, one in new.items()
        }}  # fmt: skip
        deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing}
        self.records.append(group.state_record(states._replace(initializing=initializing, deleting=deleting)))
        starts = {(topic_id, number): BY_CONFIG for topic_id, one in new.items() for number in one.partitions}
        return initialize(group.group_id, self._epoch.epoch, starts)


def initialize(group_id: str, epoch: int, starts: Mapping[Slot, int]) -> InitializeShareGroupStateRequest:
    """The question to begin partitions in a state epoch, each from its offset."""
    topic = InitializeShareGroupStateRequest.InitializeStateData
    topics: dict[UUID, InitializeShareGroupStateRequest.InitializeStateData] = {}
    for (topic_id, number), start in sorted(starts.items()):
        found = topics.setdefault(topic_id, topic(topic_id=topic_id, partitions=[]))
        found.partitions.append(topic.PartitionData(partition=number, state_epoch=epoch, start_offset=start))
    return InitializeShareGroupStateRequest(group_id=group_id, topics=[*topics.values()])


def _without(values: Mapping[str, T], name: str) -> dict[str, T]:
    return {key: value for key, value in values.items() if key != name}
