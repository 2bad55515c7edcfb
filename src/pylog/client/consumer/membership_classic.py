"""A member of a group, by the classic protocol: its messages to the coordinator, and when it gives partitions back.

    UNJOINED --poll--> (REVOKING) --JoinGroup--> JOINING --SyncGroup--> SYNCING --> STABLE --poll, if it has to--> ...

An eager member gives back all that it has before it joins; a cooperative one keeps it, gives back what the new
assignment has not, and joins once more so that others get it (KIP-429).

One Heartbeat is always in flight while nothing else is. The coordinator keeps its answer back as long as there is
nothing to say, so a member in the same process learns at once that it has to join again. (Kafka: AbstractCoordinator,
ConsumerCoordinator; KIP-62, KIP-345, KIP-394, KIP-814.)
"""

from collections.abc import Sequence

from pylog.client.consumer.membership import (
    ANSWER_MS_SPARE,
    AssignPartitions,
    Effect,
    Elect,
    Fail,
    MemberAnswer,
    Membership,
    MembershipState,
    Partitions,
    Revoke,
    Send,
)
from pylog.config import ConsumerConfig
from pylog.errors import (
    COORDINATOR_AWAY,
    CorruptBatch,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import (
    ASSIGNORS,
    Assignment,
    Assignor,
    SubscribedMember,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pylog.protocol.assignor.member import NO_GENERATION
from pylog.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pylog.record import ConsumerGroupMetadata


class ClassicMembership(Membership):
    """One member. Not thread-safe: its host lets one in at a time."""

    def __init__(self, config: ConsumerConfig, now_ms: int) -> None:
        super().__init__(config, now_ms, "")
        self._assignors = {name: ASSIGNORS[name] for name in config.partition_assignment_strategy}
        self.is_cooperative = all("cooperative" in assignor.protocols for assignor in self._assignors.values())
        """Every assignor can do with members that give everything back; that they keep it, all have to understand."""
        self._joined_topics: frozenset[str] = frozenset()
        self._must_join = True
        self._awaited: JoinGroupRequest | SyncGroupRequest | None = None
        self._beating: HeartbeatRequest | None = None
        self._beat_ms = now_ms
        """When the next heartbeat goes out; while one is in flight, when it is given up."""
        self._retry_ms = now_ms
        self.election: Elect | None = None
        """The last that this member was asked to hold."""
        self._given: Partitions = []
        self._given_in = NO_GENERATION
        self._following: Partitions | None = None
        """What the member has when it has given back what it revokes now; None: it joins then."""

    # --- its state ---------------------------------------------------------------------------------------------------

    @property
    def needs_poll(self) -> bool:
        if self.state is MembershipState.STABLE:
            return self._must_join or self.topics != self._joined_topics
        return self.state is MembershipState.UNJOINED and bool(self.topics or self.owned)

    def committer(self) -> ConsumerGroupMetadata:
        if self.fatal is None and self.state in (MembershipState.JOINING, MembershipState.SYNCING):
            raise RebalanceInProgress(f"group {self._group_id!r} is rebalancing: poll until that is done, then commit")
        return super().committer()

    @property
    def due_ms(self) -> int | None:
        if not self.member_id or self.state is MembershipState.LEFT or self.fatal is not None:
            return None
        patience = self._polled_ms + self._config.max_poll_interval_ms
        return min(self._beat_ms, patience) if self._is_beating else patience

    @property
    def _is_beating(self) -> bool:
        return self.state in (MembershipState.STABLE, MembershipState.REVOKING) and self.generation != NO_GENERATION

    # --- events ------------------------------------------------------------------------------------------------------

    def join_again(self) -> None:
        self._must_join = True

    def _poll(self, now_ms: int) -> list[Effect]:
        if not self.needs_poll or now_ms < self._retry_ms:
            return self.tick(now_ms)
        if self.generation == NO_GENERATION or not self.member_id:
            return [*self._lose(), *self._join()]
        going = [key for key in self.owned if not self.is_cooperative or key.topic not in self.topics]
        if not going:
            return self._join()
        self.state = MembershipState.REVOKING
        self._following = None
        return [Revoke(going)]

    def _go_on(self) -> list[Effect]:
        following, self._following = self._following, None
        if following is None:
            return self._join()
        # Other members get these partitions in the next round.
        self._must_join = True
        return self._take_over(following)

    def tick(self, now_ms: int) -> list[Effect]:
        if self.due_ms is None:
            return []
        if now_ms >= self._polled_ms + self._config.max_poll_interval_ms:
            return self._go(f"no poll for {self._config.max_poll_interval_ms} ms (max_poll_interval_ms)")
        if not self._is_beating or now_ms < self._beat_ms:
            return []
        # The answer to one that is still in flight is lost; the next answer repeats it.
        wait_ms = self._config.heartbeat_interval_ms
        self._beating = HeartbeatRequest(
            group_id=self._group_id, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self._config.group_instance_id, max_wait_ms=wait_ms,
        )  # fmt: skip
        self._beat_ms = now_ms + wait_ms + ANSWER_MS_SPARE
        return [Send(self._beating)]

    def refused(self, member: ConsumerGroupMetadata, error: PylogError, now_ms: int) -> None:
        if self._is_now(member):
            self._heard(error, now_ms)

    def answered(self, message: object, answer: MemberAnswer, now_ms: int) -> list[Effect]:
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
        if isinstance(answer, SyncGroupResponse):
            return self._synced(answer, now_ms)
        assert isinstance(answer, JoinGroupResponse), "one of the two is awaited"
        return self._joined(answer, now_ms)

    def elected(self, election: Elect, assignment: Assignment) -> list[Effect]:
        """The effects of the end of an election; the last one counts."""
        if self.state is not MembershipState.SYNCING or self._awaited is not None or election is not self.election:
            return []
        return self._sync([(member_id, encode_assignment(keys)) for member_id, keys in assignment.items()])

    # --- joining -----------------------------------------------------------------------------------------------------

    def _join(self) -> list[Effect]:
        if not self.topics:
            self.state = MembershipState.UNJOINED
            return []
        self.state = MembershipState.JOINING
        self._must_join = False
        self._beating = None
        self._joined_topics = self.topics
        self._awaited = JoinGroupRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=self._subscription(assignor))
                for name, assignor in self._assignors.items()
            ],
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            requires_known_member_id=True,
        )
        return [Send(self._awaited)]

    def _subscription(self, assignor: Assignor) -> bytes:
        user_data = assignor.user_data(self._given, self._given_in)
        topics, rack = list(self._joined_topics), self._config.client_rack or None
        return encode_subscription(Subscription(topics, user_data, list(self.owned), self.generation, rack))

    def _joined(self, answer: JoinGroupResponse, now_ms: int) -> list[Effect]:
        name = answer.protocol_name
        if name not in self._assignors:
            return self._failed(InconsistentGroupProtocol(f"the group has chosen the assignor {name!r}"), now_ms)
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self._protocol = name
        self.state = MembershipState.SYNCING
        self.is_leader = answer.leader == answer.member_id
        if not self.is_leader:
            return self._sync([])
        try:
            members = [_member(member) for member in answer.members]
        except CorruptBatch as error:
            return self._failed(error, now_ms)
        self.election = election = Elect(self._assignors[name], members, is_settled=answer.skip_assignment)
        return [election, *self._sync([])] if answer.skip_assignment else [election]

    def _sync(self, assignments: Sequence[tuple[str, bytes]]) -> list[Effect]:
        self._awaited = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments
            ],
        )
        return [Send(self._awaited)]

    def _synced(self, answer: SyncGroupResponse, now_ms: int) -> list[Effect]:
        try:
            assigned, _ = decode_assignment(answer.assignment)
        except CorruptBatch as error:
            return self._failed(error, now_ms)
        self._beat_ms = now_ms
        if any(key.topic not in self._joined_topics for key in assigned):
            # Of a subscription that this member has not any more: the next round knows better.
            self.state = MembershipState.STABLE
            self._must_join = True
            return []
        self._given, self._given_in = assigned, self.generation
        going = sorted(set(self.owned) - set(assigned))
        if not going:
            return self._take_over(assigned)
        self.state = MembershipState.REVOKING
        self._following = assigned
        return [Revoke(going)]

    def _take_over(self, assigned: Partitions) -> list[Effect]:
        added = sorted(set(assigned) - set(self.owned))
        self.owned = assigned
        self.state = MembershipState.STABLE
        return [AssignPartitions(assigned, added)]

    # --- errors ------------------------------------------------------------------------------------------------------

    def _rejected(self, error: PylogError, answer: MemberAnswer, now_ms: int) -> list[Effect]:
        """JoinGroup or SyncGroup was answered with an error."""
        self.state = MembershipState.UNJOINED
        if isinstance(error, MemberIdRequired) and isinstance(answer, JoinGroupResponse):
            self.member_id = answer.member_id
            return self._join()
        if isinstance(error, COORDINATOR_AWAY):
            self._retry_ms = now_ms + self._config.retry_backoff_ms
            self._must_join = True
            return []
        if isinstance(error, IllegalGeneration | UnknownMemberId | RebalanceInProgress | FencedInstanceId):
            self._heard(error, now_ms)
            return []
        return self._failed(error, now_ms)

    def _failed(self, error: PylogError, now_ms: int) -> list[Effect]:
        """An error that only the user can end; the next poll tries again."""
        self.state = MembershipState.UNJOINED
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
            self.fatal = self._replaced(error)
        else:
            # The coordinator is elsewhere or busy: it hears of this member after a while.
            self._beat_ms = now_ms + self._config.retry_backoff_ms

    def _forget(self) -> None:
        """The group has gone on without this member."""
        self.generation = NO_GENERATION
        self.is_leader = False
        self._must_join = True
        self._awaited = self._beating = None
        if self.state in (MembershipState.STABLE, MembershipState.JOINING, MembershipState.SYNCING):
            self.state = MembershipState.UNJOINED

    def _go(self, reason: str) -> list[Effect]:
        # A static member says nothing: its session goes on.
        member_id, self.member_id = self.member_id, ""
        self._forget()
        if not member_id or self._config.group_instance_id is not None:
            return []
        leaving = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason=reason)
        return [Send(LeaveGroupRequest(group_id=self._group_id, members=[leaving]))]


def _member(member: JoinGroupResponse.JoinGroupResponseMember) -> SubscribedMember:
    """Raises CorruptBatch."""
    said = decode_subscription(member.metadata)
    return SubscribedMember(
        member.member_id, member.group_instance_id, said.topics, said.owned, said.generation, said.user_data,
        said.rack_id,
    )  # fmt: skip
