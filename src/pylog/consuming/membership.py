"""A member of a group, by the classic protocol: what it says to the coordinator, and when it gives partitions back.

    UNJOINED --poll--> (REVOKING) --JoinGroup--> JOINING --SyncGroup--> SYNCING --> STABLE --poll, if it has to--> ...

A machine: an event and the time in, effects out, without threads, clocks and messages of its own. Whoever hosts it
sends what it wants sent and tells it the answers, gives back and takes partitions as it says, and lets one event in at
a time. Only `poll` begins to join, as only the consumer's own thread may take partitions away from the consumer.

An eager member gives back all that it has before it joins; a cooperative one keeps it, gives back what the new
assignment has not, and joins once more so that others get it (KIP-429). Where the group has gone on without the member,
its partitions are lost: a generation of -1 says so, and nothing can be committed until it has joined again.

One Heartbeat is always under way while nothing else is: the coordinator keeps the answer back as long as there is
nothing to say, so a member in the same process knows at once that it has to join again. (Kafka: AbstractCoordinator,
ConsumerCoordinator; KIP-62, KIP-345, KIP-394, KIP-814.)
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pylog.assignor import (
    ASSIGNORS,
    Assignment,
    Assignor,
    Member,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pylog.config import ConsumerConfig
from pylog.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptBatch,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NetworkError,
    NotCoordinator,
    PylogError,
    RebalanceInProgress,
    RequestTimedOut,
    UnknownMemberId,
)
from pylog.message import (
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinedGroup,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SyncedGroup,
    SyncGroup,
)
from pylog.record import ConsumerGroupMetadata, TopicPartition

NO_GENERATION = -1
ANSWER_MS_SPARE = 30_000
AWAY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, NetworkError, RequestTimedOut)

Partitions = list[TopicPartition]


class State(enum.Enum):
    """Where a member stands."""

    UNJOINED = "unjoined"
    REVOKING = "revoking"
    """The host gives partitions back, and says `revoked` when that is done."""
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    LEFT = "left"


@dataclass(slots=True)
class Send:
    """Send this to the coordinator, and tell the answer; that to LeaveGroup is of no interest."""

    message: JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerGroupHeartbeat


@dataclass(slots=True)
class Elect:
    """This member leads: say with `elected` who gets what."""

    assignor: Assignor
    members: list[Member]
    is_settled: bool = False
    """The group keeps its assignment: there is nothing to assign."""


@dataclass(slots=True)
class Revoke:
    """Give these back, with a last commit, and then say `revoked`."""

    partitions: Partitions


@dataclass(slots=True)
class Lose:
    """These are gone: others may have them already."""

    partitions: Partitions


@dataclass(slots=True)
class Assign:
    """From now on the member has exactly `partitions`, of which `added` are new."""

    partitions: Partitions
    added: Partitions


@dataclass(slots=True)
class Fail:
    """Raise this to whoever polls."""

    error: PylogError


Effect = Send | Elect | Revoke | Lose | Assign | Fail


class Membership:
    """One member. Not thread-safe: its host lets one in at a time."""

    def __init__(self, config: ConsumerConfig, now_ms: int) -> None:
        assert config.group_id is not None, "a member is a member of a group"
        self._config = config
        self._group_id = config.group_id
        self._assignors = {name: ASSIGNORS[name] for name in config.partition_assignment_strategy}
        self.is_cooperative = all("cooperative" in assignor.protocols for assignor in self._assignors.values())
        """Every assignor can do with members that give everything back; that they keep it, all have to understand."""
        self.state = State.UNJOINED
        self.topics: frozenset[str] = frozenset()
        self.generation = NO_GENERATION
        self.member_id = ""
        self.owned: Partitions = []
        self.is_leader = False
        self.fatal: PylogError | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._must_join = True
        self._awaited: JoinGroup | SyncGroup | None = None
        self._beating: Heartbeat | None = None
        self._beat_ms = now_ms
        """When the next heartbeat goes out; while one is under way, when it is given up."""
        self._polled_ms = now_ms
        self._retry_ms = now_ms
        self._given: Partitions = []
        self._given_in = NO_GENERATION
        self._following: Partitions | None = None
        """What the member has when it has given back what it revokes now; None: it joins then."""

    # --- what is asked of it -----------------------------------------------------------------------------------------

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do."""
        if self.state is State.STABLE:
            return self._must_join or self.topics != self._joined_topics
        return self.state is State.UNJOINED and bool(self.topics or self.owned)

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """As whom the member is known."""
        return ConsumerGroupMetadata(self._group_id, self.generation, self.member_id, self._config.group_instance_id)

    def committer(self) -> ConsumerGroupMetadata:
        """As whom it may commit now. Raises CommitFailed, RebalanceInProgress, FencedInstanceId."""
        if self.fatal is not None:
            raise self.fatal.with_traceback(None)
        if self.state in (State.JOINING, State.SYNCING):
            raise RebalanceInProgress(f"group {self._group_id!r} is rebalancing: poll until that is done, then commit")
        if self.generation == NO_GENERATION:
            raise not_a_member(self._group_id)
        return self.identity

    @property
    def due_ms(self) -> int | None:
        """When the next `tick` has something to do; None while there is no membership to keep."""
        if not self.member_id or self.state is State.LEFT or self.fatal is not None:
            return None
        patience = self._polled_ms + self._config.max_poll_interval_ms
        return min(self._beat_ms, patience) if self._is_beating else patience

    @property
    def _is_beating(self) -> bool:
        return self.state in (State.STABLE, State.REVOKING) and self.generation != NO_GENERATION

    # --- events ------------------------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str]) -> None:
        """Want these topics from the next `poll` on."""
        self.topics = topics

    def join_again(self) -> None:
        """Something has changed that the next assignment has to know."""
        self._must_join = True

    def poll(self, now_ms: int) -> list[Effect]:
        """The consumer polls: it is alive, and partitions may be taken from it now."""
        self._polled_ms = now_ms
        if self.fatal is not None:
            return [*self._lose(), Fail(self.fatal)]
        if not self.needs_poll or now_ms < self._retry_ms:
            return self.tick(now_ms)
        if self.generation == NO_GENERATION or not self.member_id:
            return [*self._lose(), *self._join()]
        going = [key for key in self.owned if not self.is_cooperative or key.topic not in self.topics]
        if not going:
            return self._join()
        self.state = State.REVOKING
        self._following = None
        return [Revoke(going)]

    def _lose(self) -> list[Effect]:
        lost, self.owned = self.owned, []
        return [Lose(lost)] if lost else []

    def revoked(self, partitions: Partitions) -> list[Effect]:
        """What was to be revoked is given back."""
        gone = set(partitions)
        self.owned = [key for key in self.owned if key not in gone]
        following, self._following = self._following, None
        if self.state is not State.REVOKING:
            return []
        if self.generation == NO_GENERATION:
            # Meanwhile the group has gone on: the rest is lost, and the next poll says so.
            self.state = State.UNJOINED
            return []
        if following is None:
            return self._join()
        # What was given back is for others to have: they get it in the next round.
        self._must_join = True
        return self._settle(following)

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        if self.due_ms is None:
            return []
        if now_ms >= self._polled_ms + self._config.max_poll_interval_ms:
            return self._go(f"no poll for {self._config.max_poll_interval_ms} ms (max_poll_interval_ms)")
        if not self._is_beating or now_ms < self._beat_ms:
            return []
        # Where one is under way still, its answer is lost: whatever it said, the next one says again.
        wait_ms = self._config.heartbeat_interval_ms
        self._beating = Heartbeat(
            self._group_id, self.generation, self.member_id, self._config.group_instance_id, wait_ms
        )
        self._beat_ms = now_ms + wait_ms + ANSWER_MS_SPARE
        return [Send(self._beating)]

    def leave(self, reason: str) -> list[Effect]:
        """Go, with nothing in hand. A static member says nothing: it may be back before its session ends."""
        effects = self._go(reason)
        self.state = State.LEFT
        self.owned = []
        return effects

    def rejoin(self) -> None:
        """Take part again after `leave`."""
        if self.state is State.LEFT:
            self.state = State.UNJOINED

    def refused(self, who: ConsumerGroupMetadata, error: PylogError, now_ms: int) -> None:
        """What the coordinator has answered to a commit."""
        if (who.generation_id, who.member_id) == (self.generation, self.member_id):
            self._heard(error, now_ms)

    def answered(self, message: object, answer: Any, now_ms: int) -> list[Effect]:
        """The answer to what was sent, or a PylogError in its place. One that comes too late changes nothing."""
        if message is self._beating:
            self._beating = None
            self._beat_ms = max(now_ms, self._beat_ms - ANSWER_MS_SPARE)
            error = answer if isinstance(answer, PylogError) else answer.error
            if error is not None:
                self._heard(error, now_ms)
            return []
        if message is not self._awaited:
            return []
        self._awaited = None
        error = answer if isinstance(answer, PylogError) else answer.error
        if error is not None:
            return self._rejected(error, answer, now_ms)
        return self._synced(answer, now_ms) if isinstance(answer, SyncedGroup) else self._joined(answer, now_ms)

    def elected(self, assignment: Assignment) -> list[Effect]:
        """What `Elect` has asked for."""
        if self.state is not State.SYNCING or self._awaited is not None:
            return []
        return self._sync([(member_id, encode_assignment(keys)) for member_id, keys in assignment.items()])

    # --- joining -----------------------------------------------------------------------------------------------------

    def _join(self) -> list[Effect]:
        if not self.topics:
            self.state = State.UNJOINED
            return []
        self.state = State.JOINING
        self._must_join = False
        self._beating = None
        self._joined_topics = self.topics
        self._awaited = JoinGroup(
            self._group_id,
            self.member_id,
            self._config.group_instance_id,
            protocols=[(name, self._subscription(assignor)) for name, assignor in self._assignors.items()],
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            requires_known_member_id=True,
        )
        return [Send(self._awaited)]

    def _subscription(self, assignor: Assignor) -> bytes:
        user_data = assignor.user_data(self._given, self._given_in)
        return encode_subscription(
            Subscription(list(self._joined_topics), user_data, list(self.owned), self.generation)
        )

    def _joined(self, answer: JoinedGroup, now_ms: int) -> list[Effect]:
        name = answer.protocol_name
        if name not in self._assignors:
            return self._failed(InconsistentGroupProtocol(f"the group has chosen the assignor {name!r}"), now_ms)
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self._protocol = name
        self.state = State.SYNCING
        self.is_leader = answer.leader == answer.member_id
        if not self.is_leader:
            return self._sync([])
        try:
            members = [_member(*member) for member in answer.members]
        except CorruptBatch as error:
            return self._failed(error, now_ms)
        elect = Elect(self._assignors[name], members, is_settled=answer.skip_assignment)
        return [elect, *self._sync([])] if answer.skip_assignment else [elect]

    def _sync(self, assignments: Sequence[tuple[str, bytes]]) -> list[Effect]:
        self._awaited = SyncGroup(
            self._group_id,
            self.generation,
            self.member_id,
            self._config.group_instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=list(assignments),
        )
        return [Send(self._awaited)]

    def _synced(self, answer: SyncedGroup, now_ms: int) -> list[Effect]:
        try:
            assigned, _ = decode_assignment(answer.assignment)
        except CorruptBatch as error:
            return self._failed(error, now_ms)
        self._beat_ms = now_ms
        if any(key.topic not in self._joined_topics for key in assigned):
            # Of a subscription that this member has not any more: the next round knows better.
            self.state = State.STABLE
            self._must_join = True
            return []
        self._given, self._given_in = assigned, self.generation
        going = sorted(set(self.owned) - set(assigned))
        if not going:
            return self._settle(assigned)
        self.state = State.REVOKING
        self._following = assigned
        return [Revoke(going)]

    def _settle(self, assigned: Partitions) -> list[Effect]:
        added = sorted(set(assigned) - set(self.owned))
        self.owned = assigned
        self.state = State.STABLE
        return [Assign(assigned, added)]

    # --- errors ------------------------------------------------------------------------------------------------------

    def _rejected(self, error: PylogError, answer: Any, now_ms: int) -> list[Effect]:
        """JoinGroup or SyncGroup was answered with an error."""
        self.state = State.UNJOINED
        if isinstance(error, MemberIdRequired) and isinstance(answer, JoinedGroup):
            self.member_id = answer.member_id
            return self._join()
        if isinstance(error, AWAY):
            self._retry_ms = now_ms + self._config.retry_backoff_ms
            self._must_join = True
            return []
        if isinstance(error, IllegalGeneration | UnknownMemberId | RebalanceInProgress | FencedInstanceId):
            self._heard(error, now_ms)
            return []
        return self._failed(error, now_ms)

    def _failed(self, error: PylogError, now_ms: int) -> list[Effect]:
        """What nobody but the user can help against; it is tried again by the next poll."""
        self.state = State.UNJOINED
        self._must_join = True
        self._retry_ms = now_ms + self._config.retry_backoff_ms
        return [Fail(error)]

    def _heard(self, error: PylogError, now_ms: int) -> None:
        """The coordinator has said something of the group."""
        if isinstance(error, RebalanceInProgress):
            self._must_join = True
        elif isinstance(error, IllegalGeneration):
            self._forget()
        elif isinstance(error, UnknownMemberId):
            self._forget()
            self.member_id = ""
        elif isinstance(error, FencedInstanceId):
            self._forget()
            self.fatal = replaced(self._config, error)
        else:
            # The coordinator is elsewhere or busy: it hears of this member after a while.
            self._beat_ms = now_ms + self._config.retry_backoff_ms

    def _forget(self) -> None:
        """The group has gone on without this member."""
        self.generation = NO_GENERATION
        self.is_leader = False
        self._must_join = True
        self._awaited = self._beating = None
        if self.state in (State.STABLE, State.JOINING, State.SYNCING):
            self.state = State.UNJOINED

    def _go(self, reason: str) -> list[Effect]:
        member_id, self.member_id = self.member_id, ""
        self._forget()
        if not member_id or self._config.group_instance_id is not None:
            return []
        return [Send(LeaveGroup(self._group_id, [LeavingMember(member_id, None, reason)]))]


def not_a_member(group_id: str) -> CommitFailed:
    """The error for who commits and has no membership."""
    return CommitFailed(
        f"this consumer is not a member of group {group_id!r} (any more): nothing was committed, and others may read "
        "its partitions by now. Poll to join, and begin with what it gives; where the work between two polls takes "
        "long, raise max_poll_interval_ms, or lower max_poll_records"
    )


def replaced(config: ConsumerConfig, error: PylogError) -> FencedInstanceId:
    """The error for a static member whose place another one has taken."""
    return FencedInstanceId(
        f"another consumer has taken the place of group_instance_id={config.group_instance_id!r} in group "
        f"{config.group_id!r}: close this one ({error})"
    )


def _member(member_id: str, group_instance_id: str | None, metadata: bytes) -> Member:
    """Raises CorruptBatch."""
    said = decode_subscription(metadata)
    return Member(member_id, group_instance_id, said.topics, said.owned, said.generation, said.user_data, said.rack_id)
