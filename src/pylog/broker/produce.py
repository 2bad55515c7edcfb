"""The one door into a partition that this node leads, and the answers to Produce.

    append         the door: every batch of a producer, a caller, a coordinator or a marker comes in by it
      fast         one step of the kernel, for a batch of which the header is proven, that needs no decision
      general      `Partition.append_general`, for all others
    append_safely  a caller that waits: as safe as `flush` says, and visible
    produce        a Produce: the same, answered by a future

    flush="sync"   the append joins the group commit of its partition                              (group_commit)
    otherwise      it is appended in the caller's thread, and synced there where `flush.messages` asks for it
    followers      the answer waits until they have it                                             (purgatory)

Behind the door an append is made durable and visible (`guarantees`). Where a bounded queue is full, the answer waits if
its policy is to block (`room`).

Two logs have doors of their own: a follower takes its leader's bytes as they are (`Follower.apply`), and the metadata
log, on which this room stands, appends for itself (`logdirs.metadata_log`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

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
    NotLeaderOrFollower,
    OutOfOrderSequence,
    PartitionFull,
    PylogError,
)
from pylog.kernel import TRANSACTIONAL_BIT
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch, Origin
from pylog.protocol.messages import ACKS_ALL, INTERNAL_TOPICS, NO_ID, Produce, Produced, ProducedPart, ProducePart
from pylog.replica import Leader
from pylog.runtime.clock import Clock, SteppedClock
from pylog.runtime.future import Future, completed, gathered
from pylog.runtime.signals import WHOLE, WholeLock
from pylog.storage.producer_state import Verification

WITH_START = (BatchRefused, InvalidProducerEpoch, OutOfOrderSequence)
"""The errors that are told together with the start of the log."""
OFFSET_MAX = 2**63 - 1

Enroll = Callable[[Leader, Batch, Produce], Verification | None]


class ProduceHandler:
    """Appends for one node, and answers Produce. Thread-safe.

    `note_append` hears of each partition that was appended to, and gives whether it has to hear of the next time under
    the same config. `enroll` lets a partition join a transaction before the first batch of it is appended. `wake`: see
    `Room`.
    """

    def __init__(
        self, replica_manager: ReplicaManager, purgatory: Purgatory, guarantees: Guarantees, clock: Clock,
        note_append: Callable[[Partition], bool], enroll: Enroll, wake: Callable[[], object],
    ) -> None:  # fmt: skip
        self._roles, self._topics = replica_manager.roles, replica_manager.topics
        self._purgatory = purgatory
        self.guarantees = guarantees
        self._clock = clock
        self._note_append = note_append
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
            group_commit.lead()

    # --- the door --------------------------------------------------------------------------------------------------

    def append(
        self, leader: Leader, batch: Batch, now_ms: int, *, origin: Origin = Origin.CLIENT,
        transaction_version: int = -1, guard: Verification | None = None, is_shown: bool = False, is_plain: bool = True,
    ) -> Appended:  # fmt: skip
        """Append a batch as the leader of its partition. `guarantees` are owed to it, unless it is visible already.

        `is_shown`: the fast way may show it at once. `is_plain`: False where the fast way was tried. Called in a WHOLE
        block. Raises what `Partition.append` raises.
        """
        partition, epoch = leader.partition, leader.epoch
        assert epoch is not None, "the node takes an epoch before it appends"
        if is_plain:
            appended = partition.state.fast_append(batch, epoch, now_ms, is_shown)
            if appended is not None:
                return appended
        while True:
            try:
                return partition.append_general(
                    batch, epoch=epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version,
                    guard=guard, wall_ms=self._clock.wall_ms,
                )  # fmt: skip
            except FencedLeaderEpoch:
                if leader.epoch is None or leader.epoch <= epoch:
                    raise
                # The leader leads on in a later one since just now.
                epoch = leader.epoch

    def append_safely(self, topic: str, number: int, batch: Batch, now_ms: int) -> Appended:
        """Append a batch for a caller that waits until it is as safe as `flush` says, and visible.

        Raises what `Partition.append` raises, and what a Produce answers.
        """
        leader, is_plain = self._roles.held(topic, number), True
        if (
            isinstance(leader, Leader)
            and leader.epoch is not None
            and (leader.quiet_config is leader.partition.config or self._note_quiet(leader))
        ):
            appended = self._append_quietly(leader, leader.epoch, batch, now_ms)
            if appended is not None:
                return appended
            is_plain = False
        with WHOLE:
            answer = self.produce(Produce([ProducePart(topic, number, batch)]), is_plain=is_plain)
        answer.lead()
        part = _told(answer)
        return Appended(part.base_offset, part.next_offset, part.log_append_time)

    def _append_quietly(self, leader: Leader, epoch: int, batch: Batch, now_ms: int) -> Appended | None:
        """Append a batch for a caller that waits, where this node alone has the partition; None: nothing was done."""
        partition = leader.partition
        if self._syncs:
            appended = self._group_commit_of(partition).append(leader, batch, now_ms)
            if appended is not None and partition.high_watermark < appended.next_offset:
                # The lead was lost meanwhile.
                _told(self.guarantees.make_safe(leader, appended.base_offset, appended.next_offset))
            return appended
        appended = None
        try:
            appended = partition.state.fast_append(batch, epoch, now_ms, True, at_once=True)
        finally:
            self._purgatory.release(partition, None if appended is None else batch)
        return appended

    def _is_alone(self, leader: Leader) -> bool:
        """True where this node alone has a partition, and an append owes no more than `flush` says."""
        partition = leader.partition
        return not (
            leader.has_followers
            or partition.topic in INTERNAL_TOPICS
            or partition.config.is_bounded
            or (not self._syncs and partition.config.flush_messages < OFFSET_MAX)
        )

    # --- Produce ---------------------------------------------------------------------------------------------------

    def produce(self, message: Produce, *, is_plain: bool = True) -> Future[Produced]:
        """Answer a Produce; the error of a part is in its answer. `is_plain`: see `append`. Called in a WHOLE block."""
        if len(message.parts) == 1:
            if self._syncs:
                pending = self._pending(message) if message.transactional_id is None else None
                if pending is not None:
                    return pending
            elif is_plain:
                is_plain = False
                produced = self._produce_fast(message.parts[0])
                if produced is not None:
                    return completed(produced)
        return self._produce_alone(message, is_plain=is_plain)

    def _produce_fast(self, part: ProducePart) -> Produced | None:
        """Append the only part of a Produce the fast way, which shows it; None where it goes the general way."""
        topic, number, batch = part.topic, part.partition, part.batch
        leader = self._roles.held(topic, number)
        if not isinstance(leader, Leader) or leader.epoch is None or batch.attributes & TRANSACTIONAL_BIT:
            return None
        partition = leader.partition
        if leader.quiet_config is not partition.config and not self._note_quiet(leader):
            return None
        try:
            if part.topic_id is not NO_ID:
                self._topics.check_id(topic, part.topic_id)
            now_ms = self._clock.wall_ms()
            if not batch.trusted:
                partition.look_at(batch, now_ms)
            appended = partition.state.fast_append(batch, leader.epoch, now_ms, True)
        except PylogError as error:
            return Produced([self._failed(topic, number, error)])
        if appended is None:
            return None
        self._purgatory.release(partition, batch)
        base_offset, end = appended.base_offset, appended.next_offset
        return Produced([
            ProducedPart(topic, number, None, base_offset, end, appended.log_append_time, partition.start_offset)
        ])  # fmt: skip

    def _note_quiet(self, leader: Leader) -> bool:
        """Note an append of a partition that this node alone has; False where it has not. Where no later append under
        this config owes anything besides, the leader is told so.
        """
        if not self._is_alone(leader):
            return False
        config = leader.partition.config
        if not self._note_append(leader.partition):
            leader.quiet_config = config
            if leader.has_followers:
                # They came between the first look and the line above.
                leader.quiet_config = None
        return not leader.has_followers

    def _produce_alone(self, message: Produce, *, is_plain: bool) -> Future[Produced]:
        leaders: list[Leader | None] = []
        parts: list[ProducedPart] = []
        full: dict[int, PartitionFull] = {}
        for index, asked in enumerate(message.parts):
            leader = None
            try:
                if self.room.is_awaited(asked.topic, asked.partition):
                    raise PartitionFull(f"{asked.topic}-{asked.partition}: other appends wait for room before this one")
                leader, part = self._append_part(asked, message, is_plain=is_plain)
            except PylogError as error:
                if isinstance(error, PartitionFull) and self._may_wait(message, asked):
                    full[index] = error
                    part = ProducedPart(asked.topic, asked.partition, error.with_traceback(None))
                else:
                    part = self._failed(asked.topic, asked.partition, error)
            leaders.append(leader)
            parts.append(part)
        answer = self._guaranteed(message, leaders, parts)
        if not full:
            return answer
        waiting = [self.room.park(replace(message, parts=[message.parts[at]]), error) for at, error in full.items()]
        return gathered([answer, *waiting], lambda given: _placed(given, full))

    def _guaranteed(
        self, message: Produce, leaders: list[Leader | None], parts: list[ProducedPart]
    ) -> Future[Produced]:  # fmt: skip
        """Answer when what was appended is as safe as the message asks for, and visible."""
        waiting = set()
        for index, leader in enumerate(leaders):
            if leader is None or (message.transactional_id is not None and self.guarantees.leave(leader)):
                continue
            if not self.guarantees.make_visible(leader, parts[index]):
                waiting.add(index)
        produced = Produced(parts)
        if not waiting or message.acks != ACKS_ALL:
            return completed(produced)
        return self._purgatory.produce(produced, leaders, waiting, self._clock.tick_ms() + message.timeout_ms)

    def _append_part(self, part: ProducePart, message: Produce, *, is_plain: bool) -> tuple[Leader, ProducedPart]:
        topic, number = part.topic, part.partition
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"{topic!r} is the log of coordinators: commit offsets, or end transactions, instead")
        self._topics.check_id(topic, part.topic_id)
        leader = self._roles.writer(topic, number)
        try:
            appended = self._append_for(leader, part, message, is_plain=is_plain)
        except NotLeaderOrFollower:
            if self._closed or self._roles.held(topic, number) is leader:
                raise
            # It was moved to another directory just now.
            return self._append_part(part, message, is_plain=False)
        return leader, ProducedPart(
            topic, number, None, appended.base_offset, appended.next_offset, appended.log_append_time,
            leader.partition.start_offset,
        )  # fmt: skip

    def _append_for(self, leader: Leader, part: ProducePart, message: Produce, *, is_plain: bool) -> Appended:
        batch, guard = part.batch, None
        if batch.attributes & TRANSACTIONAL_BIT:
            guard = self._enroll(leader, batch, message)
        is_shown = is_plain and not self._syncs and self._is_alone(leader)
        return self.append(leader, batch, self._clock.wall_ms(), guard=guard, is_shown=is_shown, is_plain=is_plain)

    # --- room ------------------------------------------------------------------------------------------------------

    def _may_wait(self, message: Produce, part: ProducePart) -> bool:
        """Whether a Produce waits for room where its partition is full."""
        role = self._roles.held(part.topic, part.partition)
        blocks = role is not None and role.partition.config.pylog_full_policy == "block"
        return blocks and message.timeout_ms > 0 and not self._closed

    def _append_again(self, message: Produce) -> Future[Produced] | PartitionFull:
        (asked,) = message.parts
        with WHOLE:
            try:
                leader, part = self._append_part(asked, message, is_plain=False)
            except PartitionFull as full:
                return full if self._may_wait(message, asked) else completed(self._refused(message, full))
            except PylogError as error:
                return completed(self._refused(message, error))
            return self._guaranteed(message, [leader], [part])

    def _refused(self, message: Produce, error: PylogError) -> Produced:
        return Produced([self._failed(part.topic, part.partition, error) for part in message.parts])

    def _failed(self, topic: str, number: int, error: PylogError) -> ProducedPart:
        """The answer for a partition whose append failed; with the start of its log where Kafka tells it, too."""
        if topic in self._topics.image.topics:
            self.failures[topic] += 1
        role = self._roles.held(topic, number) if isinstance(error, WITH_START) else None
        start = -1 if role is None else role.partition.start_offset
        return ProducedPart(topic, number, error.with_traceback(None), log_start_offset=start)

    # --- group commit ----------------------------------------------------------------------------------------------

    def _pending(self, message: Produce) -> PendingAppend | None:
        """Let a Produce of one part share a sync; None where it has to go by itself: with followers, which wait for
        the bytes, where it may have to wait until there is room, or where it is refused.
        """
        part, now_ms = message.parts[0], self._clock.wall_ms()
        try:
            self._topics.check_id(part.topic, part.topic_id)
            leader = self._roles.writer(part.topic, part.partition)
            if leader.quiet_config is not leader.partition.config and not self._note_quiet(leader):
                return None
            if not part.batch.trusted:
                leader.partition.look_at(part.batch, now_ms)
        except PylogError:
            return None
        group_commit = self._group_commit_of(leader.partition)
        pending = PendingAppend(group_commit, message, leader)
        group_commit.join(pending, now_ms)
        return pending

    def _group_commit_of(self, partition: Partition) -> GroupCommit:
        found = self._group_commits.get(partition)
        if found is None:
            with self._making_group_commit:
                made = GroupCommit(self._append_in_group, self._show, self._answer, self._commit_thread)
                found = self._group_commits.setdefault(partition, made)
        return found

    def _append_in_group(self, partition: Partition, pending: PendingAppend | None, batch: Batch) -> Appended | None:
        """Append a batch of a group the general way; None where it may have to wait, or go elsewhere."""
        leader = self._roles.writer(partition.topic, partition.number)
        if leader.partition is not partition:
            return None
        guard = None
        if pending is not None:
            pending.leader = leader
            if batch.attributes & TRANSACTIONAL_BIT:
                guard = self._enroll(leader, batch, pending.message)
        try:
            return self.append(leader, batch, self._clock.wall_ms(), guard=guard, is_plain=False)
        except (PartitionFull, NotLeaderOrFollower):
            return None

    def _show(self, partition: Partition) -> None:
        """A group was appended and is durable: show what takes a decision to be shown, and release what waits."""
        leader = self._roles.held(partition.topic, partition.number)
        is_hidden = partition.high_watermark < partition.durable_offset
        if is_hidden and isinstance(leader, Leader) and leader.partition is partition:
            with WHOLE:
                self.guarantees.advance(leader)
        else:
            self._purgatory.release(partition)

    def _answer(self, pending: PendingAppend, outcome: Appended | BaseException | None) -> None:
        """Answer an append of a group; where nothing was done for it, it goes by itself."""
        message, asked, leader = pending.message, pending.asked, pending.leader
        if outcome is None:
            alone = self._produce_alone(message, is_plain=False)
            alone.add_done_callback(lambda done: pending.set_result(done.result()))
            return
        if isinstance(outcome, BaseException):
            if isinstance(error := _told_as(outcome, asked), PylogError):
                pending.set_result(Produced([self._failed(asked.topic, asked.partition, error)]))
            else:
                pending.set_exception(error)
            return
        part = ProducedPart(
            asked.topic, asked.partition, None, outcome.base_offset, outcome.next_offset, outcome.log_append_time,
            leader.partition.start_offset,
        )  # fmt: skip
        produced = Produced([part])
        if message.acks != ACKS_ALL or self.guarantees.is_visible(leader, part):
            pending.set_result(produced)
            return
        parked = self._purgatory.produce(produced, [leader], {0}, self._clock.tick_ms() + message.timeout_ms)
        parked.add_done_callback(lambda done: pending.set_result(done.result()))


def _placed(given: list[Produced], later: Iterable[int]) -> Produced:
    """The first of these answers, with the parts in these places from the others."""
    first, *others = given
    for index, produced in zip(later, others, strict=True):
        (first.parts[index],) = produced.parts
    return first


def _told(answer: Future[Produced]) -> ProducedPart:
    """The only part of an answer. Raises its error."""
    (part,) = answer.result().parts
    if part.error is not None:
        raise part.error
    return part


def _told_as(error: BaseException, asked: ProducePart) -> BaseException:
    """The error that a sender is told, for one in its append or in the sync."""
    if isinstance(error, Exception):
        return error
    return DurabilityUnknown(
        f"appending to {asked.topic}-{asked.partition} was interrupted: whether the records are there is not known; "
        "read from the end, or send them again if twice does no harm"
    )
