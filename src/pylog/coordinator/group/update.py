"""The changes of one event in a group of the consumer protocol: its records, and the group after their replay.

The group itself is not touched: where its records are not logged nothing has happened. The order of the steps is always
the same (Kafka: GroupMetadataManager.consumerGroupHeartbeat):

    members come, go, say something else    ->  refresh: the epoch of the group goes up, if that or the topics changed
                                            ->  assign: a new target, if the epoch is a new one
                                            ->  reconcile: one member goes on towards its target
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import TypeVar

from pylog.coordinator.effects import LogRecord, Now
from pylog.coordinator.group.consumer_group import NEW_MEMBER, ConsumerGroup
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    PARTITION_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    Current,
    GroupEpoch,
    MemberSubscription,
    ResolvedRegex,
    Slot,
    TargetEpoch,
    Value,
    consumer_record,
)
from pylog.coordinator.group.reconciliation import reconcile
from pylog.coordinator.group.target_assignment import Matches, make_target, matching, topics_hash
from pylog.coordinator.patterns import WORK_MAX
from pylog.errors import InvalidRegularExpression

T = TypeVar("T")


class GroupUpdate:
    """The change that is being made; it starts with `records`."""

    def __init__(self, group: ConsumerGroup, now: Now, records: Iterable[LogRecord] = ()) -> None:
        self.records = list(records)
        self.subscriptions: Mapping[str, MemberSubscription] = group.subscriptions
        self.targets: Mapping[str, frozenset[Slot]] = group.targets
        self.currents: Mapping[str, Current] = group.currents
        self._group = group
        self._now = now
        self._topics = group.topics.named()
        self._epoch = group.epoch
        self._target_epoch = group.target_epoch
        self._resolved: Mapping[str, ResolvedRegex] = group.resolved

    def _write(self, kind: int, name: str, value: Value) -> None:
        self.records.append(consumer_record(kind, self._group.group_id, name, value))

    # --- members -----------------------------------------------------------------------------------------------------

    def subscribe(self, member_id: str, subscription: MemberSubscription) -> bool:
        """Replace the metadata of a member; return whether it reads other topics from now on."""
        before = self.subscriptions.get(member_id)
        if subscription == before:
            return False
        self._write(MEMBER, member_id, subscription)
        self.subscriptions = {**self.subscriptions, member_id: subscription}
        return before is None or (before.topics, before.regex) != (subscription.topics, subscription.regex)

    def give(self, member_id: str, current: Current) -> None:
        """Set the partitions of a member."""
        self._write(CURRENT, member_id, current)
        self.currents = {**self.currents, member_id: current}

    def remove(self, member_id: str) -> None:
        """Remove a member and free its partitions."""
        for kind in (CURRENT, TARGET, MEMBER):
            self._write(kind, member_id, None)
        self.currents = _without(self.currents, member_id)
        self.targets = _without(self.targets, member_id)
        self.subscriptions = _without(self.subscriptions, member_id)

    def replace(self, old_id: str, new_id: str) -> None:
        """Put a static member that came back under a new id in place of the old one, with its partitions."""
        subscription, current = self.subscriptions[old_id], self.currents[old_id]
        target = self.targets.get(old_id, frozenset())
        self.remove(old_id)
        self.subscribe(new_id, subscription)
        self._write(TARGET, new_id, target)
        self.targets = {**self.targets, new_id: target}
        self.give(new_id, current._replace(epoch=0, previous_epoch=0))

    # --- the group ---------------------------------------------------------------------------------------------------

    def refresh(self, *, changed: bool) -> None:
        """Raise the epoch of the group where a member or its topics have changed."""
        if not changed and self._group.seen is self._topics:
            return
        is_whole = self._resolve()
        read = {topic for found in self.subscriptions.values() for topic in self._topics_of(found)}
        found = topics_hash(read, self._topics)
        if not changed and found == self._epoch.topics_hash:
            self._group.seen = self._topics if is_whole else None
            return
        if self._group.has_partition_metadata:
            self._write(PARTITION_METADATA, "", None)
        self._epoch = GroupEpoch(self._epoch.epoch + 1, found)
        self._write(EPOCH, "", self._epoch)

    def _resolve(self) -> bool:
        """Match the topics that are new. Where the matches change, the topics that are read change, and so does their
        hash. Return whether all were looked at: where that takes long, the next heartbeats go on.

        A stored expression may be refused: a Kafka, an older version or a node with RE2 has taken it. Its members keep
        the topics that it has matched, and hear of it when they say it again.
        """
        used = sorted({found.regex for found in self.subscriptions.values() if found.regex is not None})
        resolved: dict[str, ResolvedRegex] = {}
        matches: dict[str, Matches] = {}
        left, is_whole = WORK_MAX, True
        for regex in used:
            known = self._resolved.get(regex)
            topics = () if known is None else known.topics
            with suppress(InvalidRegularExpression):
                found = matching(regex, self._topics, self._group.matches.get(regex, Matches()), left)
                matches[regex], left = found, left - found.work
                if found.looked is self._topics:
                    topics = found.topics
                else:
                    topics, is_whole = tuple(sorted({*topics, *found.topics})), False
            if known is None or known.topics != topics:
                known = ResolvedRegex(topics, 0, self._now.wall)
                self._write(REGEX, regex, known)
            resolved[regex] = known
        for regex in self._resolved.keys() - resolved.keys():
            self._write(REGEX, regex, None)
        self._resolved, self._group.matches = resolved, matches
        return is_whole

    def _topics_of(self, subscription: MemberSubscription) -> list[str]:
        return self._group.topics_of(subscription, self._resolved)

    def assign(self) -> None:
        """Make a target for the epoch of the group, if it has no target yet."""
        if self._epoch.epoch <= self._target_epoch.epoch:
            return
        reads = {member_id: self._topics_of(found) for member_id, found in self.subscriptions.items()}
        targets = make_target(self.subscriptions, reads, self.targets, self._topics)
        for member_id, slots in targets.items():
            if self.targets.get(member_id) != slots:
                self._write(TARGET, member_id, slots)
        self.targets = targets
        self._target_epoch = TargetEpoch(self._epoch.epoch, self._now.wall)
        self._write(TARGET_EPOCH, "", self._target_epoch)

    def next_of(self, member_id: str, owned: AbstractSet[Slot] | None = None) -> Current:
        """The next state of a member. Raises FencedMemberEpoch."""
        current = self.currents.get(member_id, NEW_MEMBER)
        target = self.targets.get(member_id, frozenset())
        return reconcile(current, self._target_epoch.epoch, target, self._group.owners, owned)

    def reconcile(self, member_id: str, owned: AbstractSet[Slot] | None = None) -> Current:
        """Let a member go on towards its target. Raises FencedMemberEpoch."""
        found = self.next_of(member_id, owned)
        if found is not self.currents.get(member_id):
            self.give(member_id, found)
        return found


def _without(where: Mapping[str, T], name: str) -> dict[str, T]:
    return {known: value for known, value in where.items() if known != name}
