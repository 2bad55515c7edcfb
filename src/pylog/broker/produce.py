"""What a node does with a Produce: find the leader, append, make durable and visible, answer.

    flush="sync"   a part joins its partition's gate; whoever leads there appends the group and syncs once     (commit)
    otherwise      appended in the caller's thread, and synced there where `flush.messages` asks for it
    followers      the answer is parked until they have it                                                    (parking)

A bounded queue that is full makes the caller wait, if its policy is to block.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

from pylog.broker.group_commit import CommitThread, GroupCommit, PendingAppend
from pylog.broker.lazy_syncs import LazySyncs
from pylog.broker.purgatory import Purgatory
from pylog.broker.replica_manager import ReplicaManager
from pylog.errors import (
    DurabilityUnknown,
    InvalidTopic,
    NotLeaderOrFollower,
    PartitionFailed,
    PartitionFull,
    PylogError,
)
from pylog.kernel import TRANSACTIONAL_BIT
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch
from pylog.protocol.messages import ACKS_ALL, INTERNAL_TOPICS, Produce, Produced, ProducedPart, ProducePart
from pylog.replica import Follower, Leader
from pylog.runtime.clock import Clock, SteppedClock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import WHOLE, WholeLock, wait_at
from pylog.storage.producer_state import Verification

TICK_MAX = OFFSET_MAX = 2**63 - 1
SAFE_MS_MAX = 5000
"""How long what a coordinator has appended may wait for followers (Kafka: offsets.commit.timeout.ms)."""
LAZY_MS = 1000
"""How long what is in a transaction may not be durable that is not committed, or not visible."""
ROOM_POLL_MS = 50
"""How often an append that waits for room looks for what retention may have dropped."""

Enroll = Callable[[Leader, Batch, str | None], Verification | None]


class ProduceHandler:
    """Answers Produce for one node. Thread-safe.

    `note_append` is told of each partition that was appended to; `enroll` lets a partition join a transaction before
    the first batch of it is appended.
    """

    def __init__(
        self, node: ReplicaManager, parking: Purgatory, clock: Clock, note_append: Callable[[Partition], None],
        enroll: Enroll, wake: Callable[[int], None], *, flush: str,
    ) -> None:  # fmt: skip
        self._roles, self._topics = node.roles, node.topics
        self._parking = parking
        self._clock = clock
        self._note_append = note_append
        self._flush = flush
        self._enroll = enroll
        self._gates: WeakKeyDictionary[Partition, GroupCommit] = WeakKeyDictionary()
        self._making_gate = WholeLock()
        self._commits = CommitThread()
        self._call = GroupCommit.take_call if isinstance(clock, SteppedClock) else self._commits.call
        self._lazy_syncs = LazySyncs(clock, wake)
        self._room = threading.Condition()
        self._room_until = TICK_MAX
        self._closed = False

    def note_room(self) -> None:
        """Records were deleted: there may be room for who waits."""
        with self._room:
            self._room.notify_all()

    def hurry(self, deadline_ms: int) -> None:
        """Let nobody wait for room longer than until then: a close is under way."""
        self._room_until = deadline_ms

    def close(self) -> None:
        """Append, and answer, what has joined a gate and nobody has waited for."""
        self._closed = True
        self._commits.close()
        for gate in list(self._gates.values()):
            gate.lead()

    def append(self, topic: str, number: int, batch: Batch, now_ms: int) -> Appended | None:
        """Append a batch and show it, in one step, where this node alone has the partition, owes no sync for it, and
        takes the batch as it is; None where it takes more than that: then it is for `produce`.
        """
        leader = self._roles.held(topic, number)
        if not isinstance(leader, Leader) or leader.epoch is None or leader.has_followers or topic in INTERNAL_TOPICS:
            return None
        partition = leader.partition
        if self._flush == "sync":
            return self._append_durably(leader, batch, now_ms)
        if partition.config.flush_messages < OFFSET_MAX:
            return None
        self._note_append(partition)
        appended = None
        try:
            appended = partition.fast_append(batch, leader.epoch, now_ms, visible=True)
            return appended
        finally:
            self._parking.release(partition, None if appended is None else batch)

    def _append_durably(self, leader: Leader, batch: Batch, now_ms: int) -> Appended | None:
        """The same where everything is durable before it is answered."""
        partition = leader.partition
        gate = self._gates.get(partition)
        if gate is None:
            return None
        self._note_append(partition)
        appended = gate.share(leader, batch, now_ms)
        if appended is None:
            return None
        if partition.high_watermark < appended.next_offset:
            # The lead was lost meanwhile.
            (part,) = self.make_safe(leader, appended.base_offset, appended.next_offset).result().parts
            if part.error is not None:
                raise part.error
        return appended

    def produce(self, message: Produce) -> Future[Produced]:
        """Answer a Produce; what is wrong with a part is in its answer."""
        if self._flush == "sync" and len(message.parts) == 1 and message.transactional_id is None:
            gate = self._gate_of(message.parts[0])
            if gate is not None:
                return self._commit(gate, message)
        leaders: list[Leader | None] = []
        parts: list[ProducedPart] = []
        for asked in message.parts:
            leader, part = self._append(asked, message.timeout_ms, message.transactional_id)
            leaders.append(leader)
            parts.append(part)
        produced = Produced(parts)
        waiting = set()
        for index, leader in enumerate(leaders):
            if leader is None or (message.transactional_id is not None and self._waits_for_commit(leader)):
                continue
            if not self._made_visible(leader, parts[index]):
                waiting.add(index)
        if not waiting or message.acks != ACKS_ALL:
            return completed(produced)
        return self._parking.produce(produced, leaders, waiting, self._clock.tick_ms() + message.timeout_ms)

    def _append(
        self, part: ProducePart, timeout_ms: int, transactional_id: str | None
    ) -> tuple[Leader | None, ProducedPart]:
        topic, number = part.topic, part.partition
        try:
            if topic in INTERNAL_TOPICS:
                raise InvalidTopic(
                    f"{topic!r} is the log of coordinators: commit offsets, or end transactions, instead"
                )
            self._topics.check_id(topic, part.topic_id)
            leader, batch = self._roles.writer(topic, number), part.batch
            guard = self._enroll(leader, batch, transactional_id) if batch.attributes & TRANSACTIONAL_BIT else None
            try:
                appended = leader.append(batch, self._clock.wall_ms(), guard=guard, wall_ms=self._clock.wall_ms)
            except PartitionFull as full:
                appended = self._append_when_there_is_room(leader, batch, guard, timeout_ms, full)
            except NotLeaderOrFollower:
                if self._closed or self._roles.held(topic, number) is leader:
                    raise
                # It was moved to another directory just now.
                return self._append(part, timeout_ms, transactional_id)
        except PylogError as error:
            return None, ProducedPart(topic, number, error)
        return leader, ProducedPart(
            topic, number, None, appended.base_offset, appended.next_offset, appended.log_append_time,
            leader.partition.start_offset,
        )  # fmt: skip

    def _append_when_there_is_room(
        self, leader: Leader, batch: Batch, guard: Verification | None, timeout_ms: int, full: PartitionFull
    ) -> Appended:  # fmt: skip
        """Append to a queue that is full, if its policy is to wait. Raises PartitionFull."""
        deadline = self._clock.tick_ms() + timeout_ms
        while leader.partition.config.pylog_full_policy == "block" and self._wait_for_room(deadline):
            with suppress(PartitionFull):
                return leader.append(batch, self._clock.wall_ms(), guard=guard, wall_ms=self._clock.wall_ms)
        raise full

    def _wait_for_room(self, deadline: int) -> bool:
        """Wait, in the thread that appends, until records may have been deleted; False when the time is up."""
        left_ms = min(deadline, self._room_until) - self._clock.tick_ms()
        if left_ms <= 0 or self._closed:
            return False
        with self._room:
            wait_at(self._room, min(left_ms, ROOM_POLL_MS) / 1000)
        return True

    def make_safe(self, leader: Leader, base_offset: int, next_offset: int) -> Future[Produced]:
        """Make what lies in [base_offset, next_offset) as safe as an acknowledged append, and visible. What the disk
        refuses is the part's error.
        """
        partition = leader.partition
        part = ProducedPart(partition.topic, partition.number, None, base_offset, next_offset)
        # Where nothing is new nothing is published: a full disk would refuse that, and latch the partition.
        if partition.high_watermark >= next_offset or self._made_visible(leader, part):
            return completed(Produced([part]))
        deadline = self._clock.tick_ms() + SAFE_MS_MAX
        return self._parking.produce(Produced([part]), [leader], {0}, deadline)

    # --- transactions ------------------------------------------------------------------------------------------------

    @property
    def syncs(self) -> bool:
        """Whether an append is durable before it is answered, but for those in a transaction."""
        return self._flush == "sync"

    def _waits_for_commit(self, leader: Leader) -> bool:
        """Whether what was appended in a transaction becomes durable, and visible, with its commit, or after a while;
        with followers it is made safe at once.
        """
        if self._flush != "sync" or leader.has_followers:
            return False
        self._note_append(leader.partition)
        self._lazy_syncs.note(leader, LAZY_MS)
        return True

    def make_durable(self, leader: Leader, end: int) -> PylogError | None:
        """Make what lies below `end` durable, and visible; gives the error that kept it from that."""
        part = ProducedPart(leader.partition.topic, leader.partition.number, None, end, end)
        self._make_durable(leader.partition, [part])
        if part.error is None:
            self._advance(leader, [part])
        return part.error

    def show_marker(self, leader: Leader, appended: Appended, *, committed: bool) -> PylogError | None:
        """Show a marker of a decision that is durable, or an abort, as soon as it may be; gives what kept it from that.

        Where all before it is visible, a commit is shown at once, and is durable after a while: after a crash it is
        written again. An abort, whose decision may be lost, is shown when it is durable, which is not waited for.
        """
        partition = leader.partition
        if self._flush == "sync" and not committed:
            self._lazy_syncs.note(leader, 0)
            return None
        if self._flush == "sync" and partition.high_watermark >= appended.base_offset:
            self._lazy_syncs.note(leader, LAZY_MS)
            try:
                partition.advance_high_watermark(appended.next_offset)
            except PylogError as error:
                return error
            self._parking.release(partition)
            return None
        part = ProducedPart(partition.topic, partition.number, None, appended.base_offset, appended.next_offset)
        self._made_visible(leader, part)
        return part.error

    @property
    def due_ms(self) -> int | None:
        """When `work` has something to do."""
        return self._lazy_syncs.due_ms

    def work(self, now_ms: int) -> None:
        """Make durable and visible what was appended in transactions and waits for nothing else."""
        for leader in self._lazy_syncs.due(now_ms):
            if self._roles.held(leader.partition.topic, leader.partition.number) is leader:
                # Where the disk refuses, the partition is latched, and has said so.
                self.make_durable(leader, leader.partition.next_offset)

    def note_appended(self, leader: Leader) -> bool:
        """Something was appended that nobody waits for; gives whether it is as safe as it has to be already."""
        self._note_append(leader.partition)
        if self._flush == "sync":
            return False
        with suppress(PylogError):
            # It has latched the partition, and was logged.
            self._advance(leader)
        return True

    def _made_visible(self, leader: Leader, part: ProducedPart) -> bool:
        """Make an append durable, as far as that is promised, and then visible; False where that takes a follower, or
        another leader has come. Where the disk refuses, that is the part's error.
        """
        if self._owes_sync(leader.partition, part):
            self._make_durable(leader.partition, [part])
            if part.error is not None:
                return True
        self._advance(leader, [part])
        return part.error is not None or self._is_visible(leader, part)

    def _owes_sync(self, partition: Partition, part: ProducedPart) -> bool:
        """Whether `flush`, or the topic's `flush.messages`, promises that an append is durable when it is answered."""
        self._note_append(partition)
        return self._flush == "sync" or part.next_offset - partition.durable_offset >= partition.config.flush_messages

    def _make_durable(self, partition: Partition, parts: Sequence[ProducedPart]) -> None:
        try:
            if partition.durable_offset < max(part.next_offset for part in parts):
                partition.sync()
        except PylogError as error:
            if isinstance(error, PartitionFailed) and not isinstance(error, DurabilityUnknown):
                error = DurabilityUnknown(str(error))
            for part in parts:
                if part.next_offset > partition.durable_offset:
                    part.error = error

    def _advance(self, leader: Leader, parts: Sequence[ProducedPart] = ()) -> None:
        """Show what was appended. Where that cannot be published it is the error of these parts, if there are any."""
        try:
            if self._roles.held(leader.partition.topic, leader.partition.number) is leader and not leader.advance():
                # With followers: what is durable is told at once, what is visible when they have it.
                leader.partition.publish()
        except PylogError as error:
            if not parts:
                raise
            for part in parts:
                part.error = part.error or error
        finally:
            self._parking.release(leader.partition)

    def _is_visible(self, leader: Leader, part: ProducedPart) -> bool:
        held, partition = self._roles.held(part.topic, part.partition), leader.partition
        if held is leader:
            return partition.high_watermark >= part.next_offset
        # Moved to another directory: it was closed for that, and what was durable is there.
        moved = not leader.has_followers and not isinstance(held, Follower)
        return moved and partition.durable_offset >= part.next_offset

    # --- group commit ----------------------------------------------------------------------------------------------

    def _gate_of(self, part: ProducePart) -> GroupCommit | None:
        """Where appends to a partition wait for each other; None where each of them goes by itself: with followers,
        who wait for the bytes, or where it may have to wait until there is room.
        """
        if part.topic in INTERNAL_TOPICS:
            return None
        try:
            leader = self._roles.writer(part.topic, part.partition)
        except PylogError:
            return None
        if leader.has_followers or leader.partition.config.is_bounded:
            return None
        gate = self._gates.get(leader.partition)
        if gate is None:
            with self._making_gate:
                gate = GroupCommit(self._settle, self._answer, self._call, self._append_ordinarily, self._show)
                gate = self._gates.setdefault(leader.partition, gate)
        return gate

    def _commit(self, gate: GroupCommit, message: Produce) -> PendingAppend:
        needs_all = message.acks == ACKS_ALL
        commit = PendingAppend(
            gate, message.parts[0], needs_all=needs_all, timeout_ms=message.timeout_ms,
            transactional_id=message.transactional_id,
        )  # fmt: skip
        gate.join(commit)
        if not needs_all:
            gate.call_thread()
        return commit

    def _settle(self, group: list[PendingAppend]) -> None:
        appended: dict[Leader, list[ProducedPart]] = {}
        for commit in group:
            if commit.part is None and commit.broken is None:
                self._append_late(commit)
            if commit.part is not None and commit.part.error is None and commit.leader is not None:
                appended.setdefault(commit.leader, []).append(commit.part)
        for leader, parts in appended.items():
            self._note_append(leader.partition)
            self._make_durable(leader.partition, parts)
            if any(part.error is None for part in parts):
                self._advance(leader, parts)

    def _append_ordinarily(self, leader: Leader, batch: Batch) -> Appended | None:
        """Append a batch of a group that is not plain; None where it may have to wait, or go elsewhere."""
        try:
            return leader.append(batch, self._clock.wall_ms(), wall_ms=self._clock.wall_ms)
        except (PartitionFull, NotLeaderOrFollower):
            return None

    def _show(self, leader: Leader) -> None:
        """A group was appended and is durable: tell who waits, and show what takes a decision to be shown."""
        if leader.partition.high_watermark < leader.partition.durable_offset:
            with WHOLE:
                self._advance(leader)
        else:
            self._parking.release(leader.partition)

    def _append_late(self, commit: PendingAppend) -> None:
        asked = commit.asked
        if commit.begun:
            error = DurabilityUnknown(
                f"appending to {asked.topic}-{asked.partition} was interrupted: whether the records are there is not "
                "known; read from the end, or send them again if twice does no harm"
            )
            commit.part = ProducedPart(asked.topic, asked.partition, error)
            return
        commit.begun = True
        try:
            commit.leader, commit.part = self._append(asked, commit.timeout_ms, commit.transactional_id)
        except Exception as error:  # noqa: BLE001
            # Of this one alone: others are in the group.
            commit.broken = error

    def _answer(self, commit: PendingAppend) -> None:
        part, leader = commit.part, commit.leader
        if part is None:
            assert commit.broken is not None, "an append was answered before it was done"
            commit.set_exception(commit.broken)
        elif part.error is not None or leader is None or not commit.needs_all or self._is_visible(leader, part):
            commit.set_result(Produced([part]))
        else:
            deadline = self._clock.tick_ms() + commit.timeout_ms
            parked = self._parking.produce(Produced([part]), [leader], {0}, deadline)
            parked.add_done_callback(lambda done: commit.set_result(done.result()))
