"""The append of records to a partition: two ways in, which end in one write to the active segment.

`append` gives a leader's batch its offsets and its leader epoch, `append_follower` takes a leader's bytes as they are.
Nothing is durable or visible by that: `Durability.sync` and `Watermarks.advance_high_watermark` are called for it.
(Kafka: UnifiedLog.append.)

A batch that this process has encoded costs a lock, a stamp, a write and a few comparisons: leader epochs, producers,
bounds and rolling are looked at only where there is something to look at.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

from pylog.commitlog.durability import Durability
from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.plain_rules import UNTAKEN, Duty, plain_rules
from pylog.commitlog.retention import Retention
from pylog.commitlog.roller import Roller
from pylog.commitlog.watermarks import Watermarks
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, FencedLeaderEpoch, OffsetOutOfRange, PartitionFull, RecordBatchTooLarge
from pylog.kernel import Appended, AppendState, BatchSpan, Spans, prove_header
from pylog.protocol.batch import Batch, Buffer, Origin, marker_at
from pylog.segment import Segment
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.producer_state import AppendPlan, Producers, Verification
from pylog.storage.validator import follower_spans, gives_append_time, leader_batch


class Appender:
    """Appends to one partition. It writes `next_offset` and `rules` in the state.

    `name` is for messages.
    """

    def __init__(
        self, state: AppendState, local: LocalLog, durability: Durability, watermarks: Watermarks, roller: Roller,
        retention: Retention, epochs: LeaderEpochs, producers: Producers, name: str,
    ) -> None:  # fmt: skip
        self._state = state
        self._local = local
        self._durability = durability
        self._lock = durability.lock
        self._watermarks = watermarks
        self._roller = roller
        self._retention = retention
        self._epochs = epochs
        self._producers = producers
        self._name = name
        self.bytes_followed = 0
        """Bytes that came from leaders since the partition was opened."""
        self._duty: Duty | None = UNTAKEN
        self.reconfigure(local.config)

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on. Called with the lock held."""
        self._state.rules, self._record_max = plain_rules(config, self._duty), config.record_bytes_max

    def take_duty(self, duty: Duty | None) -> None:
        """Take the debts of the leader for an append; None: this node follows, and no leader's append lands."""
        with self._lock:
            self._duty = duty
            self.reconfigure(self._local.config)

    def look_at(self, batch: Batch, now_ms: int) -> None:
        """Prove the header of a client's batch, which may then be appended in one step, as one of this process. A topic
        that asks for more than a header can prove leaves that to `append`.

        Raises what `validator.leader_batch` raises.
        """
        rules = self._state.rules
        if rules.bytes_max >= 0 and not prove_header(batch, rules, now_ms, self._record_max):
            leader_batch(batch, self._local.config, now_ms)

    def append(
        self, batch: Batch, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT, transaction_version: int = -1,
        guard: Verification | None = None, wall_ms: Callable[[], int] | None = None,
    ) -> Appended:  # fmt: skip
        """Append one batch as the leader of `epoch`: it gets the next offsets. No reader sees it yet.

        `guard` is what `start_verification` gave, where transactions are verified. `wall_ms` is the clock that says
        what LogAppendTime is, `now_ms` without one: it is asked when no other thread can append any more, so a record
        is never older than the one before it as long as the clock does not go back.
        Raises: what `validator.leader_batch` and `Producers.plan` refuse; RecordBatchTooLarge (larger than a segment);
        NotLeaderOrFollower (this node follows); DiskFull (nothing written, try again when there is room);
        DurabilityUnknown (the write failed and the partition is latched); PartitionFailed (it had failed before).
        """
        state, is_stamped = self._state, False
        if not state.rules.admits(batch, now_ms):
            config = self._local.config
            batch = leader_batch(batch, config, now_ms, origin=origin)
            is_stamped = gives_append_time(config, origin)
        with self._lock:
            if state.is_closed or state.failure is not None or not state.rules.is_led:
                self._durability.check_led()
            if epoch != state.latest_epoch:
                self._check_epoch(epoch)
            base_offset = state.next_offset
            if is_stamped:
                batch.stamp_append_time(now_ms if wall_ms is None else wall_ms())
            batch.stamp(base_offset, epoch)
            if epoch != state.latest_epoch or base_offset < state.latest_epoch_start:
                self._note_epochs((batch,))
            segment = self._local.active
            if not segment.tail.takes_batch(batch):
                segment = self._taking(batch.size, base_offset, batch.last_offset, batch.max_timestamp, now_ms)
            plan = None
            if batch.producer_id >= 0:
                marker = batch.marker() if batch.is_control else None
                plan = self._producers.plan(
                    [(batch, marker)], origin=origin, transaction_version=transaction_version, guard=guard
                )
                if plan.duplicate is not None:
                    known = plan.duplicate
                    return Appended(known.first_offset, known.last_offset + 1, known.timestamp, duplicate=True)
                if marker is not None and marker.is_abort:
                    self._reserve(plan)
            if state.rules.makes_room and origin is Origin.CLIENT:
                # Only now: a repetition needs no room.
                segment = self._with_room(batch, epoch, now_ms)
            try:
                tail = segment.tail
                tail.put(segment.log.file, batch)
                state.next_offset = tail.next_offset
                if plan is not None:
                    self._apply(plan)
                state.note_append(batch)
            except BaseException as error:  # noqa: BLE001 - it is raised again
                self._durability.interrupted(error)
            return Appended(base_offset, state.next_offset, batch.append_timestamp)

    def _with_room(self, batch: Batch, epoch: int, now_ms: int) -> Segment:
        """The active segment of a bounded queue that has room for a batch. Raises PartitionFull."""
        try:
            self._retention.make_room(batch.size, now_ms)
        except PartitionFull:
            # It may be tried again, and a client's batch has no offset.
            batch.stamp(0, epoch)
            raise
        return self._local.active

    def append_follower(self, data: Buffer, *, epoch: int, now_ms: int, as_one: bool = True) -> Appended:
        """Append bytes of the leader of `epoch` unchanged, in one piece: same offsets, same epochs (gaps are fine).

        A partial batch at the end is dropped, the next fetch brings it whole; so is what a later leader wrote
        (KAFKA-18723). Without `as_one` everything is as if each batch came by itself: the roll rules see what the
        leader's saw, so the files come out the same, and what lies before a bad batch is taken.
        Raises: CorruptBatch (a CRC or a bound), OffsetOutOfRange (it begins below the end of this log), and what
        `append` raises for the disk.
        """
        try:
            spans = follower_spans(data)
        except CorruptBatch as error:
            if error.position and not as_one:
                self.append_follower(memoryview(data)[: error.position], epoch=epoch, now_ms=now_ms, as_one=False)
            raise
        if spans.summary().max_leader_epoch > epoch:
            spans = spans.part(0, sum(1 for _ in takewhile(lambda span: span.leader_epoch <= epoch, spans)))
        with self._lock:
            self._durability.check_usable()
            base_offset = self._state.next_offset
            if spans and spans[0].base_offset < base_offset:
                raise OffsetOutOfRange(
                    f"fetched offset {spans[0].base_offset} is below the end of {self._name}, {base_offset}"
                )
            if as_one and spans:
                self._append_spans(data, spans, now_ms)
            else:
                self._append_each(data, spans, now_ms)
            return Appended(base_offset, self._state.next_offset)

    def _append_each(self, data: Buffer, spans: Spans, now_ms: int) -> None:
        """As if they came one by one; those that no roll can part go in at once."""
        for index in range(len(spans)):
            if index <= 2:
                # A segment has room for certain once its second batch has asked.
                rest = spans.part(index, len(spans))
                asked, segment = rest.summary(), self._local.active
                fits = segment.tail.takes(asked.size, asked.last_offset, asked.max_timestamp)
                if fits and (len(rest) == 1 or segment.takes_entries(len(rest))):
                    self._append_spans(data, rest, now_ms)
                    return
            self._append_spans(data, spans.part(index, index + 1), now_ms)

    def _append_spans(self, data: Buffer, spans: Spans, now_ms: int) -> None:
        size, last_offset, newest, oldest_epoch, newest_epoch, producer_id, _ = spans.summary()
        first, state = spans[0], self._state
        if not state.latest_epoch == oldest_epoch == newest_epoch or first.base_offset < state.latest_epoch_start:
            self._note_epochs(spans)
        segment = self._local.active
        if not segment.tail.takes(size, last_offset, newest):
            segment = self._taking(size, first.base_offset, last_offset, newest, now_ms)
        plan = None
        if producer_id >= 0:
            marked = [(span, marker_at(data, span)) for span in spans.of_producers()]
            plan = self._producers.plan(marked, origin=Origin.REPLICATION)
            self._reserve(plan)
        with self._durability.in_doubt():
            segment.append(memoryview(data)[first.position : first.position + size], spans)
            state.next_offset = segment.next_offset
            self.bytes_followed += size
            if plan is not None:
                self._apply(plan)

    def _note_epochs(self, batches: Sequence[Batch | BatchSpan]) -> None:
        """Note the leader epochs that begin with these batches, which are durable before the batches are written."""
        with self._durability.in_doubt():
            for batch in batches:
                if batch.leader_epoch >= 0:
                    self._epochs.assign(batch.leader_epoch, batch.base_offset)

    def _taking(self, size: int, base_offset: int, last_offset: int, newest: int, now_ms: int) -> Segment:
        """The segment for an append that may not fit into the active one: a new one where that is due. The one that a
        clean stop has sealed is written to from here on.
        """
        segment = self._local.active
        if not segment.takes(size, last_offset, newest, now_ms):
            segment = self._rolled(size, base_offset, now_ms)
        if not segment.is_active:
            # Readers may know its seal.
            with self._watermarks.changing_files():
                segment.activate()
        return segment

    def _rolled(self, size: int, base_offset: int, now_ms: int) -> Segment:
        """A new segment for an append of `size` bytes that the active one does not take."""
        if size > self._local.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"{size} bytes do not fit into a segment of {self._name}: "
                f"segment.bytes={self._local.config.segment_bytes}"
            )
        return self._roller.roll_at(max(base_offset, self._state.next_offset), now_ms)

    def _reserve(self, plan: AppendPlan) -> None:
        """Make room in the transaction index for what `_apply` notes. Raises DiskFull."""
        aborted = sum(txn.is_aborted for txn in plan.completed)
        if aborted:
            with self._durability.in_doubt():
                self._local.reserve_aborted(aborted)

    def _apply(self, plan: AppendPlan) -> None:
        """Update the facts about producers with a batch that was just written."""
        self._local.add_aborted(self._producers.apply(plan))

    def begin_epoch(self, epoch: int) -> None:
        """Note that the leader of `epoch` begins at the end of the log, before it appends: a follower of an older epoch
        learns by it where that one ended (KAFKA-7415). Raises FencedLeaderEpoch when the log has a newer one.
        """
        with self._lock:
            self._durability.check_usable()
            self._check_epoch(epoch)
            if self._local.has_empty_tail:
                with self._watermarks.changing_files():
                    self._local.drop_empty_tail()
            with self._durability.in_doubt():
                self._epochs.assign(epoch, self._state.next_offset)

    def _check_epoch(self, epoch: int) -> None:
        latest = self._state.latest_epoch
        if epoch < latest:
            raise FencedLeaderEpoch(f"{self._name}: epoch {epoch} is over, the log is in epoch {latest}")
