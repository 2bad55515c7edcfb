"""The one door into a partition that this node leads, and the answers to Produce.

    append_safely  a caller that waits: as safe as `flush` says, and visible
    produce        a Produce: the same, answered by a future
    append         a batch of a coordinator, or a marker: the caller asks `guarantees` for the rest

There are two ways behind it, and `PlainRules.is_short` of the partition decides which one is open.

    short      one step of the kernel, alone or with the group that shares a sync                      (group_commit)
    general    `Partition.append`, then what an append is owed besides                                 (guarantees)

A batch may need a decision on the short way. Then nothing was done, and the general way goes on.

What followers have to have waits in `purgatory`, on both ways. Where a bounded queue is full, the answer waits if its
policy is to block (`room`).

Two logs have doors of their own: a follower takes its leader's bytes as they are (`Follower.apply`), and the metadata
log, on which this room stands, appends for itself (`logdirs.metadata_log`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from weakref import WeakKeyDictionary

from pylog.broker.alarm import Alarm
from pylog.broker.group_commit import CommitThread, GroupCommit, PendingAppend
from pylog.broker.guarantees import Guarantees
from pylog.broker.purgatory import Purgatory
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.room import Room
from pylog.errors import (
    BatchRefused,
    DurabilityUnknown,
    FencedLeaderEpoch,
    InvalidProducerEpoch,
    InvalidTopic,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    PartitionFull,
    PylogError,
)
from pylog.kernel import TRANSACTIONAL_BIT
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch, Origin
from pylog.protocol.messages import (
    ACKS_ALL,
    INTERNAL_TOPICS,
    ProducedPart,
    ProducePart,
    ProduceRequest,
    ProduceResponse,
    Session,
)
from pylog.protocol.messages.records import ProduceTopic, produced_error, produced_part
from pylog.replica import Follower, Leader, told_isr
from pylog.runtime.clock import Clock, SteppedClock
from pylog.runtime.future import Future, completed, gathered
from pylog.runtime.signals import WHOLE, WholeLock, whole
from pylog.storage.producer_state import Verification

WITH_START = (BatchRefused, InvalidProducerEpoch, OutOfOrderSequence)
"""The errors that are told together with the start of the log."""

Enroll = Callable[[Leader, Batch, ProduceRequest], Verification | None]
Role = Leader | Follower


class ProduceHandler:
    """Appends for one node, and answers Produce. Thread-safe.

    `note_append` hears of each append whose rules say so, and of the next one where `alarm` is armed. `enroll` lets a
    partition join a transaction before the first batch of it is appended. `wake`: see `Room`.
    """

    def __init__(
        self, replica_manager: ReplicaManager, purgatory: Purgatory, guarantees: Guarantees, clock: Clock, alarm: Alarm,
        note_append: Callable[[Partition], None], enroll: Enroll, wake: Callable[[], object],
    ) -> None:  # fmt: skip
        self._roles, self._topics = replica_manager.roles, replica_manager.topics
        self._held = self._roles.held
        self._purgatory = purgatory
        self.guarantees = guarantees
        self._clock = clock
        self._alarm, self._note_append = alarm, note_append
        self._syncs = guarantees.syncs
        self._enroll = enroll
        self._group_commits: WeakKeyDictionary[Partition, GroupCommit] = WeakKeyDictionary()
        self._making_group_commit = WholeLock()
        self._commit_thread = None if isinstance(clock, SteppedClock) else CommitThread()
        self.room = Room(clock, self._append_again, self._refused, wake)
        self._closed = False
        self.failures: defaultdict[str, int] = defaultdict(int)  # by topic

    def close(self) -> None:
        """Append, and answer, everything that has joined a group commit."""
        self._closed = True
        self.room.close()
        if self._commit_thread is not None:
            self._commit_thread.close()
        for group_commit in list(self._group_commits.values()):
            group_commit.drive()

    # --- the short way ---------------------------------------------------------------------------------------------

    def append_safely(self, topic: str, number: int, batch: Batch, now_ms: int) -> Appended:
        """Append a batch for a caller that waits until it is as safe as `flush` says, and visible.

        Raises what `Partition.append` raises, and what a Produce answers.
        """
        role = self._held(topic, number)
        if isinstance(role, Leader) and role.partition.state.rules.is_short:
            appended = self._append_short(role, batch, now_ms)
            if appended is not None:
                return appended
        with WHOLE:
            answer = self._produce_general(ProduceRequest.of(topic, number, batch), [role])
        part = _told(answer)
        return Appended(part.base_offset, part.next_offset, part.log_append_time)

    def _append_short(self, leader: Leader, batch: Batch, now_ms: int) -> Appended | None:
        """Append a batch for a caller that waits; None: it goes the general way, nothing was done."""
        partition, epoch, appended = leader.partition, leader.epoch, None
        assert epoch is not None, "the rules say that there is one"
        state = partition.state
        if leader.has_followers and leader.is_under_min_isr:
            return None
        if self._syncs:
            appended = self._group_commit_of(partition).append(leader, batch, now_ms)
            if appended is not None and state.high_watermark < appended.next_offset:
                _told(self._replicated(leader, batch, appended))
        else:
            try:
                appended = state.fast_append(batch, epoch, now_ms, at_once=True)
            finally:
                self._purgatory.release(partition, None if appended is None else batch)
        if (self._alarm.is_armed or state.rules.is_noted) and appended is not None:
            self._note_append(partition)
        return appended

    @whole
    def _replicated(self, leader: Leader, batch: Batch, appended: Appended) -> Future[ProduceResponse]:
        """The answer to an append that is durable, once followers have it; or the lead was lost meanwhile."""
        partition = leader.partition
        message = ProduceRequest.of(partition.topic, partition.number, batch)
        return self._guaranteed(
            message, [leader], [produced_part(partition.number, appended, partition.state.start_offset)]
        )

    def produce(self, message: ProduceRequest, session: Session) -> Future[ProduceResponse]:
        """Answer a Produce; the error of a part is in its answer. Called in a WHOLE block.

        Where an append may block, and the message may not, nothing is done, and the answer has no parts.
        """
        roles: list[Role | None]
        topic = message.topic_data[0] if len(message.topic_data) == 1 else None
        if topic is not None and len(topic.partition_data) == 1:
            part = topic.partition_data[0]
            role = self._held(topic.name, part.index)
            if isinstance(role, Leader) and role.partition.state.rules.is_short:
                answer = self._produce_short(role, topic, part, message)
                if answer is not None:
                    return answer
            roles = [role]
        else:
            roles = [self._held(topic.name, part.index) for topic, part in message.pairs]
        if not message.may_block and any(role is None or role.partition.state.rules.may_block for role in roles):
            return completed(ProduceResponse())
        return self._produce_general(message, roles)

    def _produce_short(
        self, leader: Leader, topic: ProduceTopic, part: ProducePart, message: ProduceRequest
    ) -> Future[ProduceResponse] | None:
        """Append the only part of a Produce; None: it goes the general way, nothing was done."""
        partition, batch, epoch, pending = leader.partition, part.batch, leader.epoch, None
        assert epoch is not None and batch is not None, "the rules say that there is an epoch"
        state = partition.state
        if batch.attributes & TRANSACTIONAL_BIT:
            return None
        if leader.has_followers and message.acks == ACKS_ALL and leader.is_under_min_isr:
            return None
        if topic.topic_id.int and topic.topic_id.int != partition.topic_id.int:
            return None
        now_ms = self._clock.wall_ms()
        try:
            if not batch.trusted:
                partition.look_at(batch, now_ms)
            appended = None if self._syncs else state.fast_append(batch, epoch, now_ms)
        except PylogError as error:
            return completed(message.with_part(self._failed(topic.name, part.index, error)))
        if self._syncs:
            pending = PendingAppend(self._group_commit_of(partition), message, leader)
            pending.group_commit.join(pending, now_ms)
        elif appended is None:
            return None
        if self._alarm.is_armed or state.rules.is_noted:
            self._note_append(partition)
        if appended is None:
            return pending
        self._purgatory.release(partition, batch)
        return completed(message.with_part(produced_part(partition.number, appended, state.start_offset)))

    # --- the general way -------------------------------------------------------------------------------------------

    def append(
        self, leader: Leader, batch: Batch, now_ms: int, *, origin: Origin = Origin.CLIENT,
        transaction_version: int = -1, guard: Verification | None = None,
    ) -> Appended:  # fmt: skip
        """Append a batch as the leader of its partition. `guarantees` are owed to it.

        Called in a WHOLE block. Raises what `Partition.append` raises.
        """
        epoch = leader.epoch
        assert epoch is not None, "the node takes an epoch before it appends"
        while True:
            try:
                return leader.partition.append(
                    batch, epoch=epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version,
                    guard=guard, wall_ms=self._clock.wall_ms,
                )  # fmt: skip
            except FencedLeaderEpoch:
                if leader.epoch is None or leader.epoch <= epoch:
                    raise
                # The leader leads on in a later one since just now.
                epoch = leader.epoch

    def _produce_general(self, message: ProduceRequest, roles: Sequence[Role | None]) -> Future[ProduceResponse]:
        """Answer a Produce. `roles`: those that the node held for its parts just now."""
        leaders: list[Leader | None] = []
        parts: list[ProducedPart] = []
        full: dict[int, tuple[ProduceRequest, PartitionFull]] = {}
        roles_left = iter(roles)
        for topic in message.topic_data:
            for asked in topic.partition_data:
                leader, role = None, next(roles_left)
                try:
                    if self.room.is_awaited(topic.name, asked.index):
                        raise PartitionFull(f"{topic.name}-{asked.index}: other appends wait for room before this one")
                    leader, part = self._append_part(topic, asked, message, role)
                except PylogError as error:
                    if isinstance(error, PartitionFull) and self._may_wait(message, topic.name, asked.index):
                        full[len(parts)] = message.alone(topic, asked), error
                        part = produced_error(asked.index, error.with_traceback(None))
                    else:
                        part = self._failed(topic.name, asked.index, error)
                leaders.append(leader)
                parts.append(part)
        answer = self._guaranteed(message, leaders, parts)
        if not full:
            return answer
        waiting = [self.room.park(alone, error) for alone, error in full.values()]
        return gathered([answer, *waiting], lambda given: _placed(message, given, full))

    def _guaranteed(
        self, message: ProduceRequest, leaders: list[Leader | None], parts: list[ProducedPart]
    ) -> Future[ProduceResponse]:  # fmt: skip
        """Answer when what was appended is as safe as the message asks for, and visible."""
        waiting = set()
        for index, leader in enumerate(leaders):
            if leader is None or (message.transactional_id is not None and self.guarantees.leave(leader)):
                continue
            if not self.guarantees.make_visible(leader, parts[index]):
                waiting.add(index)
        response = message.with_part(parts[0]) if len(parts) == 1 else message.with_parts(parts)
        if not waiting or message.acks != ACKS_ALL:
            return completed(response)
        deadline_ms = self._clock.tick_ms() + message.timeout_ms
        return self._purgatory.produce(response, parts, leaders, waiting, deadline_ms)

    def _append_part(
        self, asked: ProduceTopic, part: ProducePart, message: ProduceRequest, role: Role | None = None
    ) -> tuple[Leader, ProducedPart]:  # fmt: skip
        topic, number, batch = asked.name, part.index, part.batch
        assert batch is not None, "the server has looked at the records"
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"{topic!r} is the log of coordinators: commit offsets, or end transactions, instead")
        self._topics.metadata_log.image.check_id(topic, asked.topic_id)
        if isinstance(role, Leader) and role.epoch is not None and not role.has_ended:
            leader = role
        else:
            leader = self._roles.writer(topic, number)
        if message.acks == ACKS_ALL and leader.is_under_min_isr:
            raise NotEnoughReplicas(f"{topic}-{number}: nothing was appended: {told_isr(leader)}")
        guard = self._enroll(leader, batch, message) if batch.attributes & TRANSACTIONAL_BIT else None
        try:
            appended = self.append(leader, batch, self._clock.wall_ms(), guard=guard)
        except NotLeaderOrFollower:
            if self._closed or not leader.has_ended:
                raise
            # It was moved to another directory just now.
            return self._append_part(asked, part, message)
        return leader, produced_part(number, appended, leader.partition.state.start_offset)

    # --- room ------------------------------------------------------------------------------------------------------

    def _may_wait(self, message: ProduceRequest, topic: str, number: int) -> bool:
        """Whether a Produce waits for room where its partition is full."""
        role = self._held(topic, number)
        blocks = role is not None and role.partition.config.pylog_full_policy == "block"
        return blocks and message.timeout_ms > 0 and not self._closed

    def _append_again(self, message: ProduceRequest) -> Future[ProduceResponse] | PartitionFull:
        ((topic, asked),) = message.pairs
        with WHOLE:
            try:
                leader, part = self._append_part(topic, asked, message)
            except PartitionFull as full:
                waits = self._may_wait(message, topic.name, asked.index)
                return full if waits else completed(self._refused(message, full))
            except PylogError as error:
                return completed(self._refused(message, error))
            return self._guaranteed(message, [leader], [part])

    def _refused(self, message: ProduceRequest, error: PylogError) -> ProduceResponse:
        return message.with_parts([self._failed(topic.name, part.index, error) for topic, part in message.pairs])

    def _failed(self, topic: str, number: int, error: PylogError) -> ProducedPart:
        """The answer for a partition whose append failed; with the start of its log where Kafka tells it, too."""
        if topic in self._topics.image.topics:
            self.failures[topic] += 1
        role = self._held(topic, number) if isinstance(error, WITH_START) else None
        start = -1 if role is None else role.partition.start_offset
        return ProducedPart(index=number, base_offset=-1, error=error.with_traceback(None), log_start_offset=start)

    # --- group commit ----------------------------------------------------------------------------------------------

    def _group_commit_of(self, partition: Partition) -> GroupCommit:
        found = self._group_commits.get(partition)
        if found is None:
            with self._making_group_commit:
                tell = self._purgatory.release_followers
                made = GroupCommit(self._append_in_group, tell, self._show, self._answer, self._commit_thread)
                found = self._group_commits.setdefault(partition, made)
        return found

    def _append_in_group(self, partition: Partition, pending: PendingAppend | None, batch: Batch) -> Appended | None:
        """Append a batch of a group that needs a decision; None where it may have to wait, or go elsewhere."""
        leader = self._held(partition.topic, partition.number)
        if not isinstance(leader, Leader) or leader.partition is not partition:
            return None
        if pending is not None:
            pending.leader = leader
        try:
            return self.append(leader, batch, self._clock.wall_ms())
        except (PartitionFull, NotLeaderOrFollower):
            return None

    def _show(self, partition: Partition) -> None:
        """A group was appended and is durable: show what takes a decision to be shown, and release what waits."""
        leader = self._held(partition.topic, partition.number)
        is_hidden = partition.high_watermark < partition.durable_offset
        if is_hidden and isinstance(leader, Leader) and leader.partition is partition:
            with WHOLE:
                self.guarantees.advance(leader)
        else:
            self._purgatory.release(partition)

    def _answer(self, pending: PendingAppend, outcome: Appended | BaseException | None) -> None:
        """Answer an append of a group; where nothing was done for it, it goes by itself."""
        message, leader = pending.message, pending.leader
        partition = leader.partition
        if outcome is None:
            alone = self._produce_general(message, [None])
            alone.add_done_callback(lambda done: pending.set_result(done.result()))
            return
        if isinstance(outcome, BaseException):
            if isinstance(error := _told_as(outcome, partition), PylogError):
                pending.set_result(message.with_part(self._failed(partition.topic, partition.number, error)))
            else:
                pending.set_exception(error)
            return
        part = produced_part(partition.number, outcome, partition.state.start_offset)
        produced = message.with_part(part)
        if message.acks != ACKS_ALL or self.guarantees.is_visible(leader, part):
            pending.set_result(produced)
            return
        deadline_ms = self._clock.tick_ms() + message.timeout_ms
        parked = self._purgatory.produce(produced, [part], [leader], {0}, deadline_ms)
        parked.add_done_callback(lambda done: pending.set_result(done.result()))


def _placed(message: ProduceRequest, given: list[ProduceResponse], later: Iterable[int]) -> ProduceResponse:
    """The first of these answers, with the parts in these places from the others."""
    first, *others = given
    parts = first.parts
    for index, produced in zip(later, others, strict=True):
        (parts[index],) = produced.parts
    return message.with_parts(parts)


def _told(answer: Future[ProduceResponse]) -> ProducedPart:
    """The only part of an answer. Raises its error."""
    part = answer.result().responses[0].partition_responses[0]
    if part.error is not None:
        raise part.error
    return part


def _told_as(error: BaseException, partition: Partition) -> BaseException:
    """The error that a sender is told, for one in its append or in the sync."""
    if isinstance(error, Exception):
        return error
    return DurabilityUnknown(
        f"appending to {partition.topic}-{partition.number} was interrupted: whether the records are there is not "
        "known; read from the end, or send them again if twice does no harm"
    )
