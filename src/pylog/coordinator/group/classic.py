"""A classic group as offsets and administration ask for it: the right to commit, expiry, description."""

from collections.abc import Callable, Mapping

from pylog.coordinator.effects import LogRecord, TopicInfo
from pylog.coordinator.group.classic_rebalance import ClassicGroupState, Rebalancing
from pylog.coordinator.group.effects_builder import EffectsBuilder
from pylog.coordinator.group.records import Committed, group_record
from pylog.errors import (
    CorruptBatch,
    GroupNotEmpty,
    IllegalGeneration,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import decode_assignment, partitions_of
from pylog.protocol.messages import (
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    OffsetCommit,
    OffsetFetch,
    TxnOffsetCommit,
)

CLASSIC = "Classic"


class ClassicGroup(Rebalancing):
    """A group of the classic protocol; satisfies `group_protocol.Group`."""

    def take_over(self, out: EffectsBuilder, is_lost: Callable[[str], bool], topics: Mapping[str, TopicInfo]) -> None:
        """Begin where the log ends, and rebalance where it leaves partitions without an owner.

        The log may end so in a group that was of the consumer protocol then: a member went, and the others had not
        shared its partitions yet.
        """
        self.load(out, is_lost)
        if self.state is ClassicGroupState.STABLE and self._leaves_out(topics):
            self.prepare(out)

    def _leaves_out(self, topics: Mapping[str, TopicInfo]) -> bool:
        try:
            given = {at for member in self.roster.members.values() for at in decode_assignment(member.assignment)[0]}
        except CorruptBatch:
            return False  # not the bytes of a client that is known here
        read = {topic: topics[topic].partitions for topic in self.subscribed or () if topic in topics}
        return not given.issuperset(partitions_of(read))

    def dissolve(self, out: EffectsBuilder, error: PylogError) -> None:
        """Dissolve the group, which has turned out not to be one: every waiting member is told."""
        self.close()
        for member in self.roster.members.values():
            self.refuse(member, out, error)

    @property
    def is_empty(self) -> bool:
        """True if it has no members."""
        return self.state is ClassicGroupState.EMPTY

    def check_commit(self, message: OffsetCommit | TxnOffsetCommit) -> None:
        """Check that a commit is allowed.

        Members commit in their generation; without one, offsets of an empty group may be committed by any client.
        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress (when a generation has begun
        and its assignment is not there yet). In a transaction a group with members may be committed to from outside,
        too: clients older than KIP-447 say nothing of themselves.
        """
        in_transaction = isinstance(message, TxnOffsetCommit)
        generation = message.generation_id
        if generation < 0 and self.is_empty:
            return
        if generation >= 0 or message.member_id or message.group_instance_id is not None:
            self.roster.check(message.member_id, message.group_instance_id)
            self.check_generation(generation)
        elif not in_transaction:
            raise UnknownMemberId(f"group {self.group_id!r} has members: only these commit its offsets")
        if not in_transaction and self.state is ClassicGroupState.COMPLETING:
            raise RebalanceInProgress(f"group {self.group_id!r} is rebalancing: commit when you have an assignment")

    def check_generation(self, generation: int) -> None:
        """Raises IllegalGeneration."""
        if generation != self.generation:
            raise IllegalGeneration(
                f"group {self.group_id!r} is in generation {self.generation}, not {generation}: join it again"
            )

    def commits(self, message: OffsetCommit, out: EffectsBuilder) -> None:
        """Keep the session alive: a commit counts as a sign of life (Kafka: OffsetMetadataManager.commitOffset)."""
        member = self.roster.members.get(message.member_id)
        if member is not None and not member.is_new:
            self.refresh(member, out)

    def check_fetch(self, message: OffsetFetch) -> None:
        """Raise GroupNotEmpty where the group has members that are not consumers: then its offsets are not deleted."""

    def check_offset_delete(self) -> None:
        """Raise GroupNotEmpty where the group is alive and has no subscriptions: then its offsets are not deleted."""
        if not self.is_empty and not self.uses_consumer_protocol:
            raise GroupNotEmpty(f"group {self.group_id!r} has members whose topics are not known: let them leave first")

    def is_subscribed(self, topic: str) -> bool:
        """True if members read the topic. An unreadable subscription counts as one to everything."""
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    def expires_from(self, committed: Committed) -> int | None:
        """The time from which the retention of an offset counts.

        An empty group's offsets count from when it became empty, those of an active one from the commit, and while a
        group rebalances none do; KIP-211 (Kafka: ClassicGroup.offsetExpirationCondition).
        """
        if self.protocol_type is None:
            return committed.commit_ms
        if self.is_empty:
            return committed.commit_ms if self.state_ms is None else self.state_ms
        knows = self.uses_consumer_protocol and self.subscribed is not None
        return committed.commit_ms if knows and self.state is ClassicGroupState.STABLE else None

    def tombstones(self) -> list[LogRecord]:
        """The records that delete the group."""
        return [group_record(self.group_id, None)]

    def listed(self) -> ListedGroup:
        """The group in a list."""
        return ListedGroup(self.group_id, self.protocol_type or "", self.state.value, CLASSIC)

    def described(self) -> DescribedGroup:
        """The group with its members; their assignor metadata is shown while it is Stable."""
        is_stable = self.state is ClassicGroupState.STABLE
        members = [
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(self.protocol) if is_stable else b"",
                member.assignment,
            )
            for member in self.roster.members.values()
        ]
        return DescribedGroup(
            self.group_id,
            state=self.state.value,
            type=CLASSIC,
            protocol_type=self.protocol_type or "",
            protocol=(self.protocol or "") if is_stable else "",
            generation=self.generation,
            members=members,
        )
