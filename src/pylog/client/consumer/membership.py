"""A member of a group, by either protocol: events in, effects out.

    UNJOINED --poll--> JOINING ... STABLE <--> REVOKING          LEFT

A machine takes an event and the time, and gives effects; it has no threads, clocks and transport. Its host carries the
effects out, tells it the answers, and lets one event in at a time. Only `poll` begins to join and takes partitions
away, as only the consumer's own thread may.

The protocols are in `membership_classic` and `membership_consumer`. Where the group has gone on without the member, its
partitions are lost: the generation is -1, and a commit fails until the member has joined again.
"""

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

from pylog.config import ConsumerConfig
from pylog.errors import CommitFailed, FencedInstanceId, PylogError
from pylog.protocol.assignor import Assignor, SubscribedMember
from pylog.protocol.assignor.member import NO_GENERATION
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pylog.record import ConsumerGroupMetadata, TopicPartition

ANSWER_MS_SPARE = 30_000

Partitions = list[TopicPartition]

MemberAnswer = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | ConsumerGroupHeartbeatResponse | PylogError
"""The answer to a message of a member, or the error in its place."""


class MembershipState(enum.Enum):
    """The state of a member."""

    UNJOINED = "unjoined"
    REVOKING = "revoking"
    """The host gives partitions back, and calls `revoked` when that is done."""
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    LEFT = "left"


@dataclass(slots=True)
class Send:
    """Send this to the coordinator, and pass its answer on; LeaveGroup needs none."""

    message: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | ConsumerGroupHeartbeatRequest


@dataclass(slots=True)
class Elect:
    """This member leads the group: assign the partitions, and say so with `elected`."""

    assignor: Assignor
    members: list[SubscribedMember]
    is_settled: bool = False
    """The group keeps its assignment: there is nothing to assign."""


@dataclass(slots=True)
class Revoke:
    """Give these back, with a last commit, and then call `revoked`."""

    partitions: Partitions


@dataclass(slots=True)
class Lose:
    """These are gone: others may have them already."""

    partitions: Partitions


@dataclass(slots=True)
class AssignPartitions:
    """From now on the member has exactly `partitions`, of which `added` are new."""

    partitions: Partitions
    added: Partitions


@dataclass(slots=True)
class Fail:
    """Raise this from `poll`."""

    error: PylogError


Effect = Send | Elect | Revoke | Lose | AssignPartitions | Fail


class Membership(ABC):
    """One member. Not thread-safe: its host lets one in at a time."""

    is_leader = False
    """Whether this member assigns the partitions of the group, and watches its topics."""

    def __init__(self, config: ConsumerConfig, now_ms: int, member_id: str) -> None:
        assert config.group_id is not None, "a member is a member of a group"
        self._config = config
        self._group_id = config.group_id
        self.state = MembershipState.UNJOINED
        self.topics: frozenset[str] = frozenset()
        self.generation = NO_GENERATION
        self.member_id = member_id
        self.owned: Partitions = []
        self.fatal: PylogError | None = None
        self._polled_ms = now_ms

    # --- its state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do besides heartbeats."""

    @property
    @abstractmethod
    def due_ms(self) -> int | None:
        """When the next `tick` has something to do; None while there is no membership to keep."""

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The identity of the member in its group."""
        return ConsumerGroupMetadata(self._group_id, self.generation, self.member_id, self._config.group_instance_id)

    def committer(self) -> ConsumerGroupMetadata:
        """The identity for a commit. Raises CommitFailed, FencedInstanceId, RebalanceInProgress (classic)."""
        if self.fatal is not None:
            raise self.fatal.with_traceback(None)
        if self.generation == NO_GENERATION:
            raise CommitFailed(
                f"this consumer is not a member of group {self._group_id!r} (any more): nothing was committed, and "
                "others may read its partitions by now. Poll to join, and begin with what it gives; where the work "
                "between two polls takes long, raise max_poll_interval_ms, or lower max_poll_records"
            )
        return self.identity

    # --- events ------------------------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str]) -> None:
        """Want these topics from the next `poll` on."""
        self.topics = topics

    @abstractmethod
    def join_again(self) -> None:
        """Something has changed that the next assignment has to know."""

    def poll(self, now_ms: int) -> list[Effect]:
        """The consumer polls: it is alive, and partitions may be taken from it and given to it now."""
        self._polled_ms = now_ms
        if self.fatal is not None:
            return [*self._lose(), Fail(self.fatal)]
        return self._poll(now_ms)

    @abstractmethod
    def _poll(self, now_ms: int) -> list[Effect]: ...

    def _lose(self) -> list[Effect]:
        lost, self.owned = self.owned, []
        return [Lose(lost)] if lost else []

    def revoked(self, partitions: Partitions) -> list[Effect]:
        """The host has given these partitions back."""
        gone = set(partitions)
        self.owned = [key for key in self.owned if key not in gone]
        if self.state is not MembershipState.REVOKING:
            return []
        if self.generation == NO_GENERATION:
            # Meanwhile the group has gone on: the rest is lost, and the next poll says so.
            self.state = MembershipState.UNJOINED
            return []
        return self._go_on()

    @abstractmethod
    def _go_on(self) -> list[Effect]:
        """Go on after the host has given partitions back, while the group still knows this member."""

    @abstractmethod
    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""

    def leave(self, reason: str) -> list[Effect]:
        """Go, with nothing in hand. A static member may be back before its session ends."""
        effects = self._go(reason)
        self.state = MembershipState.LEFT
        self.owned = []
        return effects

    @abstractmethod
    def _go(self, reason: str) -> list[Effect]: ...

    def rejoin(self) -> None:
        """Take part again after `leave`."""
        if self.state is MembershipState.LEFT:
            self.state = MembershipState.UNJOINED

    @abstractmethod
    def answered(self, message: object, answer: MemberAnswer, now_ms: int) -> list[Effect]:
        """The answer to `message` has come, or a PylogError in its place. A late one changes nothing."""

    @abstractmethod
    def refused(self, member: ConsumerGroupMetadata, error: PylogError, now_ms: int) -> None:
        """The coordinator has answered a commit of `member` with an error."""

    def _is_now(self, member: ConsumerGroupMetadata) -> bool:
        return (member.generation_id, member.member_id) == (self.generation, self.member_id)

    def _replaced(self, error: PylogError) -> FencedInstanceId:
        return FencedInstanceId(
            f"another consumer has taken the place of group_instance_id={self._config.group_instance_id!r} in group "
            f"{self._group_id!r}: close this one ({error})"
        )
