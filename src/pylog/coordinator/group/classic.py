"""A classic group: its members join, the leader among them assigns, and all are told (Kafka: ClassicGroup).

                 a member comes, leaves, changes its mind                  all have joined, or time is up
    Empty, Stable, CompletingRebalance   ---->   PreparingRebalance   ---->   CompletingRebalance
                                                         | no member is left            | the leader's assignment
                                                         v                             v   is in the log
                                                       Empty                         Stable

The part that outlives the process is `stored`, and it changes by `replay` alone: a generation with its assignment, or
an empty group. All else comes from members' messages since, and is gone with the process; `load` makes it again from
`stored`.

Invariant: in Stable, generation, protocol, leader, members and assignments are those of `stored`, except for the time
until a group that is Stable has logged that a static member came back under another id.
"""

import enum
from collections.abc import Callable, Hashable, Mapping

from pylog.config import NodeConfig
from pylog.config.options import INT_MAX
from pylog.coordinator.effects import Answer, LogRecord, TopicInfo
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.members import ClassicGroupMember, Roster, restored
from pylog.coordinator.group.records import Committed, StoredGroup, group_record, subscribed_topics
from pylog.coordinator.group.timers import Action, GroupTimers
from pylog.errors import (
    CorruptBatch,
    FencedInstanceId,
    GroupNotEmpty,
    IllegalGeneration,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import decode_assignment, partitions_of
from pylog.protocol.messages.groups import (
    DescribeGroupsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    ListGroupsResponse,
    SyncGroupResponse,
    not_joined,
)
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetsToFetch, TxnOffsetCommitRequest

CLASSIC = "classic"
Described = DescribeGroupsResponse.DescribedGroup
CONSUMER_PROTOCOL = "consumer"
NEW_MEMBER_JOIN_MS = 5 * 60 * 1000
"""The time for which a member is kept that waits for its first generation."""
STORE_AGAIN_MS = 1000
"""The time until another attempt to log that a group is empty."""


class ClassicGroupState(enum.StrEnum):
    """The state of a group, by the name that users see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """A group of the classic protocol; satisfies `group_protocol.Group`. Messages of members: see `classic_join`."""

    expires = True

    def __init__(self, group_id: str, config: NodeConfig, deadlines: GroupTimers) -> None:
        self.group_id = group_id
        self.config = config
        self.stored: StoredGroup | None = None
        self.logged_end = 0
        """Where the last record of it ends, of those that this coordinator has appended."""
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.roster = Roster()
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.state_ms: int | None = None
        self.subscribed: frozenset[str] | None = None
        """The topics that the members read; None where that is not known."""
        self._deadlines = deadlines
        self._is_initial = False  # preparing, and Empty before
        self._more_came = False
        self._unsynced: set[str] = set()

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, stored: StoredGroup) -> None:
        """Take over the content of a record. The assignment of the present generation ends its rebalance.

        Raises CorruptBatch for a record that is no group.
        """
        static = [member.group_instance_id for member in stored.members if member.group_instance_id is not None]
        if len({member.member_id for member in stored.members}) < len(stored.members) or len(set(static)) < len(static):
            raise CorruptBatch(f"group {self.group_id!r} has a member twice in __consumer_offsets")
        self.stored = stored
        if self.state is ClassicGroupState.COMPLETING and stored.members and stored.generation == self.generation:
            for member in stored.members:
                found = self.roster.members[member.member_id]
                found.assignment, found.sync = member.assignment, None
            self.state = ClassicGroupState.STABLE

    def load(self, out: EffectsBuilder, is_lost: Callable[[str], bool]) -> None:
        """Begin where the log ends. Dynamic members whose process is lost are dropped at once: they will not be back.

        Static ones may be: they come back with their instance id, and until then keep their partitions for a session.
        """
        if self.stored is None:
            return
        stored = self.stored
        self.generation, self.protocol = stored.generation, stored.protocol
        self.protocol_type = stored.protocol_type or None
        self.state_ms = None if stored.state_ms < 0 else stored.state_ms
        for member in stored.members:
            self.roster.add(restored(member, stored.protocol))
        if stored.leader in self.roster.members:
            self.roster.leader = stored.leader
        self.state = ClassicGroupState.STABLE if stored.members else ClassicGroupState.EMPTY
        self._learn_subscription()
        for found in list(self.roster.members.values()):
            if found.group_instance_id is None and is_lost(found.client_host):
                self.roster.remove(found.member_id)
            else:
                self.refresh(found, out)
        if len(self.roster) < len(stored.members) or len(self.roster) > self.config.group_max_size:
            self.prepare(out)

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

    def close(self) -> None:
        """Close the group: its deadlines find it dead."""
        self.state = ClassicGroupState.DEAD

    def _records(self, assignments: dict[str, bytes]) -> StoredGroup:
        members = self.roster.members.values()
        return StoredGroup(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.roster.leader,
            -1 if self.state_ms is None else self.state_ms,
            tuple(member.stored(self.protocol, assignments.get(member.member_id, b"")) for member in members),
        )

    def store(
        self,
        out: EffectsBuilder,
        assignments: dict[str, bytes],
        answers: list[Answer],
        undo: Callable[[PylogError, EffectsBuilder], None],
    ) -> None:
        """Log the group with these assignments."""
        out.write([group_record(self.group_id, self._records(assignments))], answers, undo)

    def _store_empty(self, out: EffectsBuilder) -> None:
        if self.state is ClassicGroupState.EMPTY:
            self.store(out, {}, [], self._empty_failed)

    def _empty_failed(self, error: PylogError, out: EffectsBuilder) -> None:
        self._due("store", STORE_AGAIN_MS, self._store_empty, out)

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def _due(self, what: Hashable, after_ms: int, action: Action, out: EffectsBuilder) -> None:
        self._deadlines.set((self.group_id, what), out.now.tick + after_ms, self._while_alive(action))

    def _while_alive(self, action: Action) -> Action:
        def act(out: EffectsBuilder) -> None:
            if self.state is not ClassicGroupState.DEAD:
                action(out)

        return act

    def _cancel(self, *what: Hashable) -> None:
        for one in what:
            self._deadlines.cancel((self.group_id, one))

    def await_session(self, member_id: str, timeout_ms: int, out: EffectsBuilder) -> None:
        """Expect a sign of life of a member, present or announced, within this time."""
        self._due(("session", member_id), timeout_ms, lambda out: self._session_over(member_id, out), out)

    def refresh(self, member: ClassicGroupMember, out: EffectsBuilder) -> None:
        """Note a sign of life of a member."""
        self.await_session(member.member_id, member.session_timeout_ms, out)

    def _session_over(self, member_id: str, out: EffectsBuilder) -> None:
        member = self.roster.members.get(member_id)
        if member_id in self.roster.pending:
            self.forget_pending(member_id)
            self.complete_if_joined(out)
        elif member is not None and (member.is_new or (member.join is None and member.sync is None)):
            self.drop(member, out, UnknownMemberId(f"{member_id!r} was not heard of for a session timeout: join again"))
            self.members_left(out)

    def expect_loss(self, host: str, out: EffectsBuilder) -> None:
        """Lose the members on a host that is gone, as the next thing that is due."""
        if self._dynamic_on(host) or host in self.roster.pending.values():
            self._due(("host", host), 0, lambda out: self._lose(host, out), out)

    def _dynamic_on(self, host: str) -> list[ClassicGroupMember]:
        """The members on a host that nobody comes back for: a static one has its session's time to come back."""
        members = self.roster.members.values()
        return [member for member in members if member.client_host == host and member.group_instance_id is None]

    def _lose(self, host: str, out: EffectsBuilder) -> None:
        for member_id in [announced for announced, where in self.roster.pending.items() if where == host]:
            self.forget_pending(member_id)
        for member in self._dynamic_on(host):
            self.drop(member, out, UnknownMemberId(f"{member.member_id!r} was lost with its process: join again"))
        self.members_left(out)

    def forget_pending(self, member_id: str) -> None:
        """Forget a client that was given an id and has not come."""
        self.roster.pending.pop(member_id, None)
        self._cancel(("session", member_id))

    # --- members -----------------------------------------------------------------------------------------------------

    def admit(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Admit a member; the first one decides what kind of a group it is."""
        if not self.roster.members:
            self.protocol_type = protocol_type
        self.roster.add(member)

    def turn_away(self, member_id: str, error: PylogError, out: EffectsBuilder) -> None:
        """Refuse a client for lack of room. It may have been a member before there were too many."""
        self.forget_pending(member_id)
        if member_id in self.roster.members:
            self.drop(self.roster.members[member_id], out, error)
        self.complete_if_joined(out)

    def drop(self, member: ClassicGroupMember, out: EffectsBuilder, error: PylogError) -> None:
        """Remove a member; every message that it waits with is answered with the error."""
        self.refuse(member, out, error)
        self.roster.remove(member.member_id)
        self._unsynced.discard(member.member_id)
        self._cancel(("session", member.member_id), ("held", member.member_id))

    def refuse(self, member: ClassicGroupMember, out: EffectsBuilder, error: PylogError) -> None:
        """Answer every message that a member waits with by the error."""
        if member.join is not None:
            out.answer(member.join, not_joined(error, member.member_id))
        if member.sync is not None:
            out.answer(member.sync, SyncGroupResponse(error=error))
        member.join = member.sync = None
        self.release(member, out, error)

    def release(self, member: ClassicGroupMember, out: EffectsBuilder, error: PylogError | None) -> None:
        """Answer the heartbeat that is kept back."""
        if member.heartbeat is not None:
            out.answer(member.heartbeat, HeartbeatResponse(error=error))
            member.heartbeat = None

    def hold(self, member: ClassicGroupMember, ticket: int, wait_ms: int, out: EffectsBuilder) -> None:
        """Keep a heartbeat's answer back while there is no news; the one before it is given."""
        self.release(member, out, None)
        member.heartbeat = ticket
        self._due(("held", member.member_id), wait_ms, lambda out: self.release(member, out, None), out)

    def members_left(self, out: EffectsBuilder) -> None:
        """Share the partitions again after members have left."""
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            self.prepare(out)
        else:
            self.complete_if_joined(out)

    def replace_static(self, old: ClassicGroupMember, new: ClassicGroupMember, out: EffectsBuilder) -> None:
        """Put a static member that came back under a new id in place of the old one; a user of the old id is told."""
        self.refuse(old, out, FencedInstanceId(f"{new.member_id!r} has the instance id {new.group_instance_id!r} now"))
        self._cancel(("session", old.member_id), ("held", old.member_id))
        self._unsynced.discard(old.member_id)
        self.roster.replace(old.member_id, new)
        self.refresh(new, out)

    # --- rebalance ---------------------------------------------------------------------------------------------------

    def _enter(self, state: ClassicGroupState, out: EffectsBuilder) -> None:
        self.state = state
        self.state_ms = out.now.wall

    def rebalance(self, out: EffectsBuilder) -> None:
        """Begin a rebalance after a change, or see whether the present one can go on."""
        if self.state is ClassicGroupState.PREPARING:
            if self._is_initial:
                self._more_came = True
            self.complete_if_joined(out)
        else:
            self.prepare(out)

    def prepare(self, out: EffectsBuilder) -> None:
        """Ask all members to join again."""
        error = RebalanceInProgress(f"group {self.group_id!r} is rebalancing: join again")
        if self.state is ClassicGroupState.COMPLETING:
            self._reset(out, error)
        self._end_sync_phase()
        self._is_initial = self.state is ClassicGroupState.EMPTY
        self._more_came = False
        self._enter(ClassicGroupState.PREPARING, out)
        for member in self.roster.members.values():
            self.release(member, out, error)
        if self._is_initial:
            delay = self.config.group_initial_rebalance_delay_ms
            self._wait_for_more(delay, max(self.roster.rebalance_timeout_ms - delay, 0), out)
        elif self.roster.all_joined:
            self.complete_join(out)
        else:
            self._due("join", self.roster.rebalance_timeout_ms, self.complete_join, out)

    def _wait_for_more(self, delay_ms: int, left_ms: int, out: EffectsBuilder) -> None:
        """Give more members the time to join an empty group, and again as long as some do."""

        def over(out: EffectsBuilder) -> None:
            if self._more_came and left_ms:
                self._more_came = False
                again = min(self.config.group_initial_rebalance_delay_ms, left_ms)
                self._wait_for_more(again, max(left_ms - delay_ms, 0), out)
            else:
                self.complete_join(out)

        if delay_ms:
            self._due("join", delay_ms, over, out)
        else:
            over(out)

    def complete_if_joined(self, out: EffectsBuilder) -> None:
        """Go on where all have joined."""
        if self.state is ClassicGroupState.PREPARING and not self._is_initial and self.roster.all_joined:
            self.complete_join(out)

    def complete_join(self, out: EffectsBuilder) -> None:
        """Make the next generation of the members that have joined; dynamic members that have not are out."""
        self._cancel("join")
        for member in list(self.roster.members.values()):
            if member.join is None and member.group_instance_id is None:
                self.drop(member, out, UnknownMemberId(f"{member.member_id!r} did not join in time: join again"))
        if self.roster.members and not self.roster.elect_joined_leader():
            self._due("join", self.roster.rebalance_timeout_ms, self.complete_join, out)
            return
        self.generation = self.generation % INT_MAX + 1
        self._is_initial = False
        self._unsynced.clear()
        self.protocol = self.roster.choose_protocol() if self.roster.members else None
        self._learn_subscription()
        if self.roster.members:
            self._enter(ClassicGroupState.COMPLETING, out)
            self._tell_joined(out)
        else:
            self._enter(ClassicGroupState.EMPTY, out)
            self._store_empty(out)

    def _tell_joined(self, out: EffectsBuilder) -> None:
        for member in self.roster.members.values():
            if member.join is not None:
                out.answer(member.join, self.joined(member))
                member.join = None
            self.refresh(member, out)
            member.is_new = False
            self._unsynced.add(member.member_id)
        self._due("sync", self.roster.rebalance_timeout_ms, self._sync_over, out)

    def joined(self, member: ClassicGroupMember) -> JoinGroupResponse:
        """The answer to a member of the present generation."""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.roster.leader or "",
            member_id=member.member_id,
            members=self.roster.described(self.protocol) if self.roster.leader == member.member_id else [],
        )

    def _learn_subscription(self) -> None:
        """Learn the topics that the members read; unknown where one of them does not say it as consumers do."""
        self.subscribed = None
        if not self.uses_consumer_protocol:
            return
        topics: set[str] = set()
        for member in self.roster.members.values():
            of_member = subscribed_topics(member.metadata(self.protocol))
            if of_member is None:
                return
            topics |= of_member
        self.subscribed = frozenset(topics)

    @property
    def uses_consumer_protocol(self) -> bool:
        """True if its members are consumers."""
        return self.protocol_type == CONSUMER_PROTOCOL

    # --- synchronisation ---------------------------------------------------------------------------------------------

    def synced(self, member_id: str) -> None:
        """Record that a member has asked for its assignment."""
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._cancel("sync")

    def _end_sync_phase(self) -> None:
        self._unsynced.clear()
        self._cancel("sync")

    def _sync_over(self, out: EffectsBuilder) -> None:
        """Remove members that never asked for their assignment."""
        if not self._unsynced:
            return  # a static member that had not asked has another id by now
        for member_id in list(self._unsynced):
            member = self.roster.members[member_id]
            self.drop(member, out, UnknownMemberId(f"{member_id!r} did not sync in time: join again"))
        self.prepare(out)

    def assign(self, assignments: dict[str, bytes], out: EffectsBuilder) -> None:
        """Log the leader's assignment, and tell the members that wait when it is safe."""
        answers = []
        for member in self.roster.members.values():
            if member.sync is not None:
                assigned = assignments.get(member.member_id, b"")
                answer = SyncGroupResponse(
                    protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assigned
                )
                answers.append(Answer(member.sync, answer))
                self.refresh(member, out)

        def failed(error: PylogError, out: EffectsBuilder) -> None:
            self._reset(out, not_stored(error))
            self.prepare(out)

        self.store(out, assignments, answers, failed)

    def _reset(self, out: EffectsBuilder, error: PylogError) -> None:
        for member in self.roster.members.values():
            member.assignment = b""
            if member.sync is not None:
                out.answer(member.sync, SyncGroupResponse(error=error))
                member.sync = None
                self.refresh(member, out)

    # --- offsets and administration -----------------------------------------------------------------------------------

    def dissolve(self, out: EffectsBuilder, error: PylogError) -> None:
        """Dissolve the group, which has turned out not to be one: every waiting member is told."""
        self.close()
        for member in self.roster.members.values():
            self.refuse(member, out, error)

    @property
    def is_empty(self) -> bool:
        """True if it has no members."""
        return self.state is ClassicGroupState.EMPTY

    def check_commit(self, message: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
        """Check that a commit is allowed.

        Members commit in their generation; without one, offsets of an empty group may be committed by any client.
        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress (when a generation has begun
        and its assignment is not there yet). In a transaction a group with members may be committed to from outside,
        too: clients older than KIP-447 say nothing of themselves.
        """
        in_transaction = isinstance(message, TxnOffsetCommitRequest)
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

    def commits(self, message: OffsetCommitRequest, out: EffectsBuilder) -> None:
        """Keep the session alive: a commit counts as a sign of life (Kafka: OffsetMetadataManager.commitOffset)."""
        member = self.roster.members.get(message.member_id)
        if member is not None and not member.is_new:
            self.refresh(member, out)

    def check_fetch(self, message: OffsetsToFetch) -> None:
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

    def listed(self) -> ListGroupsResponse.ListedGroup:
        """The group in a list."""
        return ListGroupsResponse.ListedGroup(
            group_id=self.group_id, protocol_type=self.protocol_type or "", group_state=self.state.value,
            group_type=CLASSIC,
        )  # fmt: skip

    def described(self) -> Described:
        """The group with its members; their assignor metadata is shown while it is Stable."""
        is_stable = self.state is ClassicGroupState.STABLE
        members = [
            Described.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(self.protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in self.roster.members.values()
        ]
        return Described(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=(self.protocol or "") if is_stable else "",
            generation=self.generation,
            members=members,
        )
