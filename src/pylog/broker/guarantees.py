"""The guarantees of an append behind the door: to be as durable as `flush` says, and visible to readers.

    make_visible   a part of a Produce: durable and visible now, as far as no follower is needed
    make_safe      the same, answered by a future, which waits for followers
    make_durable   what a transaction commits
    show_marker    the end of a transaction
    leave          what is in a transaction, or an abort: durable and visible some time later, by `work`
    hurry          what was left, and a reader of uncommitted records waits for: now, by `work`

With `flush="sync"` an append is durable before it is visible. Otherwise it is visible at once, and is synced here only
where `flush.messages` asks for it. An append that shares a sync is made durable by `group_commit`, and shown here.

Where the disk refuses, the error is given back: `DurabilityUnknown` where the append may be there after all.
"""

from collections.abc import Callable
from contextlib import suppress

from pylog.broker.alarm import Alarm
from pylog.broker.lazy_syncs import LazySyncs
from pylog.broker.purgatory import Purgatory
from pylog.broker.replica_manager import ReplicaManager
from pylog.errors import DurabilityUnknown, PartitionFailed, PylogError
from pylog.partition import Appended, Partition
from pylog.protocol.messages import ProducedPart
from pylog.protocol.messages.records import produced_part
from pylog.replica import Follower, Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed

SAFE_MS_MAX = 5000
"""How long what a coordinator has appended may wait for followers (Kafka: offsets.commit.timeout.ms)."""
LAZY_MS = 1000
"""How long what is in a transaction may not be durable that is not committed, or not visible."""


class Guarantees:
    """Makes the appends of one node durable and visible. Thread-safe.

    `note_append`: see `ProduceHandler`. `wake` hears when `work` has something to do.
    """

    def __init__(
        self, replica_manager: ReplicaManager, purgatory: Purgatory, clock: Clock, alarm: Alarm,
        note_append: Callable[[Partition], None], wake: Callable[[int], object], *, syncs: bool,
    ) -> None:  # fmt: skip
        self._roles = replica_manager.roles
        self._purgatory = purgatory
        self._clock = clock
        self._alarm, self._note_append = alarm, note_append
        self._lazy_syncs = LazySyncs(clock, wake)
        self.syncs = syncs
        """True where an append is durable before it is answered, unless it is in a transaction (`flush="sync"`)."""

    def make_safe(self, leader: Leader, base_offset: int, next_offset: int) -> Future[ProducedPart]:
        """Make what lies in [base_offset, next_offset) as safe as an acknowledged append, and visible. What the disk
        refuses is the part's error.
        """
        partition = leader.partition
        part = produced_part(partition.number, Appended(base_offset, next_offset))
        # Where nothing is new nothing is published: a full disk would refuse that, and latch the partition.
        if partition.state.high_watermark >= next_offset or self.make_visible(leader, part):
            return completed(part)
        deadline = self._clock.tick_ms() + SAFE_MS_MAX
        # What coordinators have written is there: it cannot be refused any more.
        return self._purgatory.produce(part, [part], [leader], {0}, deadline, is_patient=True)

    def make_visible(self, leader: Leader, part: ProducedPart) -> bool:
        """Make an append durable, as far as that is promised, and then visible; False where that takes a follower, or
        another leader has come. Where the disk refuses, that is the part's error.
        """
        partition = leader.partition
        self._note(partition)
        if self.syncs or part.next_offset - partition.state.durable_offset >= partition.config.flush_messages:
            part.error = self._sync(partition, part.next_offset)
            if part.error is not None:
                return True
        elif partition.state.high_watermark >= part.next_offset and not leader.has_followers:
            # The kernel has shown it in the step that appended it.
            self._purgatory.release(partition)
            return True
        part.error = self._show(leader)
        return part.error is not None or self.is_visible(leader, part)

    def make_durable(self, leader: Leader, end: int) -> PylogError | None:
        """Make what lies below `end` durable, and visible; gives the error that kept it from that."""
        return self._sync(leader.partition, end) or self._show(leader)

    def make_claimable(self, partition: Partition) -> None:
        """Make a log durable, as far as that is promised, before this node claims to have it as a follower.

        Where the disk refuses, the partition is latched, and has said so.
        """
        if self.syncs:
            self._sync(partition, partition.state.next_offset)

    def note_appended(self, leader: Leader) -> bool:
        """Note an append that nothing waits for; gives whether it is as safe as it has to be already."""
        self._note(leader.partition)
        if not self.syncs:
            # An error has latched the partition, and was logged.
            self._show(leader)
        return not self.syncs

    def advance(self, leader: Leader) -> None:
        """Show what was appended, if this is still the leader. Raises the error of publishing."""
        try:
            if not leader.has_ended and not leader.advance():
                # With followers: the durable offset is told at once, the high watermark when they have it.
                leader.partition.publish()
        finally:
            self._purgatory.release(leader.partition)

    def isr_changed(self, leader: Leader) -> None:
        """Show what the replicas that are in sync by now have. An error has latched the partition, and was logged."""
        # Where nothing moves nothing is published: a full disk would refuse that, and latch the partition.
        if not leader.has_ended:
            with suppress(PylogError):
                leader.advance()
        self._purgatory.release(leader.partition)

    def is_visible(self, leader: Leader, part: ProducedPart) -> bool:
        """True where readers see an append."""
        partition = leader.partition
        if not leader.has_ended:
            return partition.state.high_watermark >= part.next_offset
        # Moved to another directory: it was closed for that, and what was durable is there.
        follows = isinstance(self._roles.held(partition.topic, partition.number), Follower)
        return not (leader.has_followers or follows) and partition.state.durable_offset >= part.next_offset

    def _note(self, partition: Partition) -> None:
        """Note an append for the background work of the node, where that may be due or rests."""
        if partition.state.rules.is_noted or self._alarm.is_armed:
            self._note_append(partition)

    def _sync(self, partition: Partition, end: int) -> PylogError | None:
        """Make what lies below `end` durable; gives the error that kept it from that."""
        try:
            if partition.state.durable_offset < end:
                partition.sync(end)
        except PylogError as error:
            if partition.state.durable_offset < end:
                is_known = isinstance(error, DurabilityUnknown) or not isinstance(error, PartitionFailed)
                return error if is_known else DurabilityUnknown(str(error))
        return None

    def _show(self, leader: Leader) -> PylogError | None:
        """As `advance`, but the error is given back."""
        try:
            self.advance(leader)
        except PylogError as error:
            return error
        return None

    # --- transactions ------------------------------------------------------------------------------------------------

    def leave(self, leader: Leader) -> bool:
        """Leave what was appended in a transaction to its commit, or to `work` a while later; False where it has to be
        made safe at once: without syncs, and with followers.
        """
        if not self.syncs or leader.has_followers:
            return False
        self._note(leader.partition)
        self._lazy_syncs.note(leader, LAZY_MS)
        # Behind the note: a reader that begins to wait now looks for it.
        if self._purgatory.is_awaited(leader.partition):
            self._lazy_syncs.note(leader, 0)
        return True

    def hurry(self, leader: Leader) -> int | None:
        """Let what was left of a partition be visible soon: a reader wants it. Gives where it ends; None: nothing of it
        is hidden, or the disk has refused it.
        """
        partition = leader.partition
        end = partition.state.next_offset
        if leader not in self._lazy_syncs or partition.state.high_watermark >= end or partition.failed:
            return None
        self._lazy_syncs.note(leader, 0)
        return end

    def show_marker(self, leader: Leader, appended: Appended, *, committed: bool) -> PylogError | None:
        """Show a marker of a decision that is durable, or an abort, as soon as it may be; gives what kept it from that.

        Where all before it is visible, a commit is shown at once, and is durable after a while: after a crash it is
        written again. An abort, whose decision may be lost, is shown when it is durable, which is not waited for.
        """
        partition = leader.partition
        if self.syncs and not committed:
            self._lazy_syncs.note(leader, 0)
            return None
        if self.syncs and partition.state.high_watermark >= appended.base_offset:
            self._lazy_syncs.note(leader, LAZY_MS)
            try:
                partition.advance_high_watermark(appended.next_offset)
            except PylogError as error:
                return error
            self._purgatory.release(partition)
            return None
        part = produced_part(partition.number, appended)
        self.make_visible(leader, part)
        return part.error

    @property
    def due_ms(self) -> int | None:
        """When `work` has something to do."""
        return self._lazy_syncs.due_ms

    def work(self, now_ms: int) -> None:
        """Make durable and visible what was left, and is due."""
        for leader in self._lazy_syncs.due(now_ms):
            partition = leader.partition
            if not leader.has_ended and self.make_durable(leader, partition.state.next_offset) is not None:
                # The disk refuses: the partition is latched, and has said so.
                self._purgatory.release_all((partition.topic, partition.number))
