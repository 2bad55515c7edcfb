"""The host of a `Membership`, for one consumer: sends its messages, assigns and revokes, calls the listener.

    poll's thread       JoinGroup, SyncGroup, every change of the assignment; it never waits
    a worker's thread   heartbeats between polls, and the end of the membership when no poll comes for too long; one
                        thread has all members of a log

The machine is entered under a lock. Sends and calls happen outside that lock.
"""

from collections import deque
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from pylog.client.cluster import Cluster
from pylog.client.consumer.commit import OffsetCommitter
from pylog.client.consumer.membership import (
    AssignPartitions,
    Effect,
    Elect,
    Fail,
    Lose,
    MemberAnswer,
    Membership,
    MembershipState,
    Partitions,
    Revoke,
    Send,
)
from pylog.client.consumer.membership_classic import ClassicMembership
from pylog.client.consumer.membership_consumer import ConsumerMembership
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.consumer.subscription import SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import PylogError
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.assignor.member import NO_GENERATION
from pylog.protocol.messages import NO_ID, Message
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest, HeartbeatRequest, LeaveGroupRequest
from pylog.protocol.messages.topics import MetadataResponse
from pylog.record import ConsumerGroupMetadata
from pylog.runtime.clock import Clock
from pylog.runtime.future import failed
from pylog.runtime.rounds import Rounds
from pylog.runtime.shared_worker import SharedWorker
from pylog.runtime.signals import WholeLock, opened
from pylog.transport import PendingAnswer


@dataclass(slots=True)
class _Revocation:
    """Partitions to give back as soon as their positions are committed, or the time for that is up."""

    partitions: Partitions
    deadline_ms: int
    is_committed: bool = False

    def committed(self, _: PylogError | None) -> None:
        # After a failure another member reads these records again: that is all.
        self.is_committed = True


class GroupMember:
    """The membership of one consumer."""

    def __init__(
        self,
        requests: PendingRequests,
        cluster: Cluster,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        clock: Clock,
        heartbeats: SharedWorker,
    ) -> None:
        assert config.group_id is not None, "a member is a member of a group"
        self._requests = requests
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._node = cluster.coordinator("group", config.group_id)
        now_ms = clock.tick_ms()
        self._machine: Membership = (
            ClassicMembership(config, now_ms)
            if config.group_protocol == "classic"
            else ConsumerMembership(
                config, now_ms, lambda: {topic.topic_id: name for name, topic in cluster.known().items()}
            )
        )
        self._identity = self._machine.identity
        self._lock = WholeLock()
        self._todo: deque[Effect] = deque()
        self._revocation: _Revocation | None = None
        self._watched: dict[str, int] = {}
        self._heartbeats = heartbeats.shift(self._due, self._tick)
        self.commits = OffsetCommitter(
            requests, cluster, subscription, config, clock, committer=self._committer, refused=self._refused
        )
        self._heartbeats_sent = self._rebalances = 0
        self.is_calling = False
        """True while the listener is called."""

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The member that the group last knew.

        A member that was thrown out keeps its identity until it has joined again. So the group refuses the offsets of
        its transactions, and does not take them for a commit without a member
        (Kafka: ConsumerCoordinator.groupMetadata).
        """
        if not self._subscription.is_shared:
            return ConsumerGroupMetadata(self._identity.group_id)
        return self._identity

    def _committer(self) -> ConsumerGroupMetadata:
        if not self._subscription.is_shared:
            # A consumer of partitions chosen by hand commits without a member.
            return ConsumerGroupMetadata(self._machine.identity.group_id)
        with self._lock:
            return self._machine.committer()

    def _refused(self, member: ConsumerGroupMetadata, error: PylogError) -> None:
        with self._lock:
            self._machine.refused(member, error, self._clock.tick_ms())

    # --- for poll ----------------------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str]) -> None:
        """Be a member that wants these topics, from the next `step` on."""
        with self._lock:
            self._machine.rejoin()
            self._machine.subscribe(topics)

    def rebalance(self) -> None:
        """See `Consumer.enforce_rebalance`."""
        if self._config.group_protocol != "classic":
            raise ValueError("with group_protocol='consumer' the coordinator assigns, when something has changed")
        with self._lock:
            self._machine.join_again()

    def step(self, now_ms: int) -> Rounds[None]:
        """Go as far with joining, and with giving partitions back, as that goes without waiting for a node.

        Raises what the listener raises, the error for which the group does not take this consumer, and
        ThreadsExhausted: a member without a thread for its heartbeats would be thrown out.
        """
        self._heartbeats.begin()
        while True:
            if self._revocation is not None and not (yield from self._revoke(self._revocation, now_ms)):
                return
            if not self._todo:
                with self._lock:
                    self._todo.extend(self._machine.poll(now_ms))
                if not self._todo:
                    return
            yield from self._carry_out(self._todo.popleft(), now_ms)

    @property
    def lacks_topics(self) -> bool:
        """True when it was given partitions of topics that are not known yet."""
        machine = self._machine
        return isinstance(machine, ConsumerMembership) and machine.lacks_names

    def look(self) -> None:
        """The cluster has been asked about its topics: an assignment of other ones is out of date."""
        machine = self._machine
        with self._lock:
            if isinstance(machine, ConsumerMembership):
                counts = self._counts(machine.topics)
                if counts != self._watched:
                    self._watched = counts
                    machine.join_again()
            elif machine.is_leader and self._counts(self._watched) != self._watched:
                machine.join_again()

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = {name: len(topic.partitions) for name, topic in self._cluster.known(topics).items()}
        return {topic: known.get(topic, 0) for topic in topics}

    def _carry_out(self, effect: Effect, now_ms: int) -> Rounds[None]:
        if isinstance(effect, Send):
            self._send(effect.message)
        elif isinstance(effect, Elect):
            self._elect(effect)
        elif isinstance(effect, Revoke):
            self._begin_to_revoke(effect.partitions, now_ms)
        elif isinstance(effect, Lose):
            try:
                yield from self._call("on_partitions_lost", effect.partitions)
            finally:
                self._subscription.remove(effect.partitions)
        elif isinstance(effect, AssignPartitions):
            self._rebalances += 1
            self._subscription.assign([(key, self._topic_id(key.topic)) for key in effect.partitions])
            self._heartbeats.wake()
            yield from self._call("on_partitions_assigned", effect.added)
        else:
            assert isinstance(effect, Fail)
            raise effect.error.with_traceback(None)

    def _elect(self, effect: Elect) -> None:
        wanted = sorted({topic for member in effect.members for topic in member.topics})
        question = self._cluster.question(wanted)
        self._requests.add(self._cluster.send_any(question), partial(self._informed, effect, wanted))

    def _informed(
        self, effect: Elect, wanted: list[str], request: PendingRequest, answer: MetadataResponse | PylogError
    ) -> None:
        machine = self._machine
        assert isinstance(machine, ClassicMembership), "only classic groups have leaders"
        if effect is not machine.election:
            # Meanwhile there was another one, of other members.
            return
        # Without news the known topics have to do: the next look sees the difference.
        if not isinstance(answer, PylogError):
            self._cluster.learn(answer, wanted)
        self._watched = self._counts(wanted)
        if not effect.is_settled:
            assignment = effect.assignor.assign(self._watched, effect.members)
            with self._lock:
                self._todo.extend(machine.elected(effect, assignment))

    def _topic_id(self, topic: str) -> UUID:
        known = self._cluster.known([topic]).get(topic)
        if known is not None:
            return known.topic_id
        # It may be gone, or not known yet: the next look tells, and until then it is any of that name.
        self._subscription.is_stale = True
        return NO_ID

    def _begin_to_revoke(self, partitions: Partitions, now_ms: int) -> None:
        revocation = self._revocation = _Revocation(partitions, now_ms + self._config.default_api_timeout_ms)
        for key in partitions:
            self._subscription.states[key].leaving = True
        offsets = self.commits.news(partitions) if self._config.commits else {}
        try:
            if offsets:
                self.commits.send(offsets, revocation.committed)
            else:
                revocation.is_committed = True
        except PylogError:
            revocation.is_committed = True

    def _revoke(self, revocation: _Revocation, now_ms: int) -> Rounds[bool]:
        self._requests.deliver()
        if not revocation.is_committed and now_ms < revocation.deadline_ms:
            return False
        self._revocation = None
        try:
            yield from self._call("on_partitions_revoked", revocation.partitions)
        finally:
            self._subscription.remove(revocation.partitions)
            with self._lock:
                self._todo.extend(self._machine.revoked(revocation.partitions))
        return True

    def _call(self, name: str, partitions: Partitions) -> Rounds[None]:
        listener = self._subscription.listener
        method = getattr(listener, name, None)
        if method is None and name == "on_partitions_lost":
            method = getattr(listener, "on_partitions_revoked", None)
        if method is None:
            return
        self.is_calling = True
        try:
            with opened():
                outcome = method(sorted(partitions))
            if isinstance(outcome, Awaitable):
                yield outcome
        finally:
            self.is_calling = False

    # --- messages ----------------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        if isinstance(message, HeartbeatRequest | LeaveGroupRequest | ConsumerGroupHeartbeatRequest):
            self._send_aside(message)
        else:
            # A rebalance takes as long as the slowest member.
            self._requests.add(
                self._cluster.send(self._node, message),
                partial(self._answered, message),
                self._config.max_poll_interval_ms,
            )

    def _answered(self, message: object, request: PendingRequest, answer: MemberAnswer) -> None:
        with self._lock:
            self._todo.extend(self._machine.answered(message, answer, self._clock.tick_ms()))
            self._note_identity()

    def _note_identity(self) -> None:
        identity = self._machine.identity
        if identity.generation_id != NO_GENERATION:
            self._identity = identity

    def _send_aside(self, message: Message) -> PendingAnswer:
        """Send a message that `poll` does not wait for; the answer is handled in the thread that brings it."""
        self._heartbeats_sent += not isinstance(message, LeaveGroupRequest)
        try:
            future = self._cluster.send(self._node, message)
        except PylogError as error:
            future = failed(error)
        if not isinstance(message, LeaveGroupRequest):
            future.add_done_callback(partial(self._beaten, message))
        return future

    def _beaten(self, message: object, future: PendingAnswer) -> None:
        error = future.exception(0)
        with self._lock:
            self._machine.answered(
                message, error if isinstance(error, PylogError) else future.result(0), self._clock.tick_ms()
            )
            self._note_identity()
        self._requests.ring()
        self._heartbeats.wake()

    # --- between polls -----------------------------------------------------------------------------------------------

    def _due(self) -> int | None:
        with self._lock:
            return self._machine.due_ms

    def _tick(self) -> None:
        with self._lock:
            effects = self._machine.tick(self._clock.tick_ms())
        for effect in effects:
            assert isinstance(effect, Send), "partitions are given and taken in poll"
            self._send(effect.message)

    def measure(self, found: Metrics, client_id: str) -> None:
        """Add the numbers of now."""
        found.add(table.COMMITS, self.commits.commits, client_id=client_id)
        found.add(table.HEARTBEATS, self._heartbeats_sent, client_id=client_id)
        found.add(table.REBALANCES, self._rebalances, client_id=client_id)

    # --- the end -----------------------------------------------------------------------------------------------------

    def leave(self, reason: str, timeout_ms: int, *, commit: bool) -> Rounds[None]:
        """Give every partition back and leave, until the next `subscribe`. Raises what the listener raises."""
        self._todo.clear()
        self._revocation = None
        with self._lock:
            owned, is_lost = list(self._machine.owned), self._machine.generation == NO_GENERATION
        deadline = self._clock.tick_ms() + timeout_ms
        try:
            if owned and not is_lost and commit and self._config.commits:
                yield from self.commits.finish(timeout_ms)
            if owned:
                yield from self._call("on_partitions_lost" if is_lost else "on_partitions_revoked", owned)
        finally:
            self._subscription.remove(owned)
            for future in self.go(reason):
                # Where that does not get there, the session ends by itself.
                with suppress(TimeoutError, PylogError):
                    yield from self._requests.answer(future, max(0, deadline - self._clock.tick_ms()) / 1000)

    def go(self, reason: str) -> list[PendingAnswer]:
        """Tell the group that this member goes; nothing else. From any thread. Gives the answers to come."""
        with self._lock:
            effects = [] if self._machine.state is MembershipState.LEFT else self._machine.leave(reason)
        return [self._send_aside(effect.message) for effect in effects if isinstance(effect, Send)]

    def close(self) -> None:
        """Send no heartbeats any more."""
        self._heartbeats.close()
