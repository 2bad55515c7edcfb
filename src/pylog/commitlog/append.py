"""How records enter a partition, become durable and visible, and what has to go to make room for them.

There are two ways in: `append` gives a leader's batch its offsets and its leader epoch, `append_follower` takes a
leader's bytes as they are. Nothing here syncs by itself: `sync` is called by whoever has to promise durability, and
moves `durable_offset`; `advance_high_watermark` makes visible. (Kafka: UnifiedLog.append.)

A batch that this process has encoded costs a lock, a stamp, a write and a few comparisons: leader epochs, producers,
bounds and rolling are looked at only where there is something to look at.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from uuid import UUID

from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.partition_state import WrittenPartition
from pylog.commitlog.retention import Bounds, rules
from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    PartitionFull,
    RecordBatchTooLarge,
)
from pylog.files import Files
from pylog.kernel import Appended, BatchSpan, FastAppends, Spans
from pylog.protocol.batch import Batch, Buffer, Origin, marker_at
from pylog.segment import Segment
from pylog.storage.checkpoints import Checkpoints
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.producer_state import Plan, Producers, Verification
from pylog.storage.published import Fields, PublishedEntry
from pylog.storage.segment_checksum import NO_TOPIC, Identity
from pylog.storage.validator import admission, follower_spans, gives_append_time, leader_batch

BOUND_PARTS = 8
"""Into how many segments a bounded queue is cut at least."""


class AppendingPartition(WrittenPartition, FastAppends):
    """What a partition is to whoever appends."""

    def __init__(
        self, files: Files, directory: str, topic: str, number: int, config: TopicConfig,
        entry: PublishedEntry | None = None, *, checkpoints: Checkpoints | None = None, topic_id: UUID = NO_TOPIC,
        producer_id_expiration_ms: int = 86_400_000, verify_transactions: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(files, directory, topic, number, entry)
        self._checkpoints = checkpoints
        self.files = files
        self.config = config
        self.epochs: LeaderEpochs
        self.producers = Producers(
            f"{topic}-{number}", expiration_ms=producer_id_expiration_ms, verify=verify_transactions
        )
        self._first_unstable_offset: int | None = None  # the producers', who change under the lock
        self._admission = admission(config)
        self._is_bounded = config.is_bounded
        self._local = LocalLog(files, directory, config, self._durability, Identity(topic_id, number))
        self._segments = self._local.segments

    @property
    def is_open(self) -> bool:
        """Whether `create` or `open` was called: before that there is nothing to read."""
        return len(self._segments) > 0

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed sees: the first offset of an open transaction, or the high watermark."""
        unstable = self._first_unstable_offset
        return self.high_watermark if unstable is None else min(self.high_watermark, max(unstable, self.start_offset))

    @property
    def data_end(self) -> int:
        """Behind the last record in the files: only a truncation inside a batch leaves it below `next_offset`."""
        return self._local.active.next_offset if self.is_open else 0

    @property
    def _written_end(self) -> int:
        """What a sync makes durable: a gap that a truncation has left at the end is nothing that could be missed."""
        return min(self.next_offset, self.data_end)

    @property
    def data_end_max(self) -> int:
        """Only this process writes, so it knows."""
        # Asked for each read, of a log that is open.
        return max(self.next_offset, self._local.active.next_offset)

    def _publish(self) -> None:
        if self._first_unstable_offset is not None or self.producers.is_transactional:
            self._first_unstable_offset = self.producers.first_unstable_offset
        if self._entry is not None:
            self._entry.publish(self._state())

    def _state(self) -> Fields:
        high = self.high_watermark
        stable = high if self._first_unstable_offset is None else self.last_stable_offset
        offsets = self._generation, self.start_offset, self.next_offset, high, stable, self.durable_offset
        if not self._segments:
            return (*offsets, 0, 0, self._failure is not None, 0, 0)
        active = self._local.active
        entries, crc = active.aborted.checksum()
        return (*offsets, active.next_offset, active.base_offset, self._failure is not None, entries, crc)

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on: the next append, roll and clean-up do."""
        with self._lock:
            self.config = config
            self._admission = admission(config)
            self._is_bounded = config.is_bounded
            self._local.reconfigure(config)

    # --- appending -------------------------------------------------------------------------------------------------

    def append(
        self, batch: Batch, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT, transaction_version: int = -1,
        guard: Verification | None = None, wall_ms: Callable[[], int] | None = None,
    ) -> Appended:  # fmt: skip
        """Append one batch as the leader of `epoch`: it gets the next offsets. Visible to nobody before `publish`.

        `guard` is what `start_verification` gave, where transactions are verified. `wall_ms` is the clock that says
        what LogAppendTime is, `now_ms` without one: it is asked when nobody else can append any more, so a record is
        never older than the one before it as long as the clock does not go back.
        Raises: what `validator.leader_batch` and `Producers.plan` refuse; RecordBatchTooLarge (larger than a segment);
        DiskFull (nothing written, try again when there is room); DurabilityUnknown (the write failed and the partition
        is latched); PartitionFailed (it had failed before).
        """
        plain = self.fast_append(batch, epoch, now_ms)
        if plain is not None:  # pragma: no cover - the pure kernel is measured
            return plain
        return self.append_general(
            batch, epoch=epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version, guard=guard,
            wall_ms=wall_ms,
        )  # fmt: skip

    def append_general(
        self, batch: Batch, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT, transaction_version: int = -1,
        guard: Verification | None = None, wall_ms: Callable[[], int] | None = None,
    ) -> Appended:  # fmt: skip
        """Append one batch as `append` does, after the fast way was tried, or where it cannot be plain."""
        is_stamped = False
        if not self._admission.admits(batch, now_ms):
            config = self.config
            batch = leader_batch(batch, config, now_ms, origin=origin)
            is_stamped = gives_append_time(config, origin)
        with self._lock:
            if self._closed or self._failure is not None:
                self._check_usable()
            if epoch != self.epochs.latest:
                self._check_epoch(epoch)
            base_offset = self.next_offset
            if is_stamped:
                batch.stamp_append_time(now_ms if wall_ms is None else wall_ms())
            batch.stamp(base_offset, epoch)
            if epoch != self.epochs.latest or base_offset < self.epochs.latest_start:
                self._note_epochs((batch,))
            segment = self._local.active
            if not segment.takes_batch(batch):
                segment = self._taking(batch.size, base_offset, batch.last_offset, batch.max_timestamp, now_ms)
            plan = None
            if batch.producer_id >= 0:
                marker = batch.marker() if batch.is_control else None
                plan = self.producers.plan(
                    [(batch, marker)], origin=origin, transaction_version=transaction_version, guard=guard
                )
                if plan.duplicate is not None:
                    known = plan.duplicate
                    return Appended(known.first_offset, known.last_offset + 1, known.timestamp, duplicate=True)
            if self._is_bounded and origin is Origin.CLIENT:
                # Only now: a repetition needs no room.
                self._check_bound(batch.size, now_ms)
                segment = self._local.active
            try:
                segment.put(segment.log.file, batch)
                self.next_offset = self.producers.end_offset = segment.next_offset
                if plan is not None:
                    self._apply(plan, segment)
            except BaseException as error:  # noqa: BLE001 - it is raised again
                self._interrupted(error)
            return Appended(base_offset, self.next_offset, batch.append_timestamp)

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
            self._check_usable()
            base_offset = self.next_offset
            if spans and spans[0].base_offset < base_offset:
                raise OffsetOutOfRange(
                    f"fetched offset {spans[0].base_offset} is below the end of {self.topic}-{self.number}, "
                    f"{base_offset}"
                )
            if as_one and spans:
                self._append_spans(data, spans, now_ms)
            else:
                self._append_each(data, spans, now_ms)
            return Appended(base_offset, self.next_offset)

    def _append_each(self, data: Buffer, spans: Spans, now_ms: int) -> None:
        """As if they came one by one; those that no roll can part go in at once."""
        for index in range(len(spans)):
            if index <= 2:
                # A segment has room for certain once its second batch has asked.
                rest = spans.part(index, len(spans))
                asked, segment = rest.summary(), self._local.active
                fits = segment.takes(asked.size, asked.last_offset, asked.max_timestamp)
                if fits and (len(rest) == 1 or segment.takes_entries(len(rest))):
                    self._append_spans(data, rest, now_ms)
                    return
            self._append_spans(data, spans.part(index, index + 1), now_ms)

    def _append_spans(self, data: Buffer, spans: Spans, now_ms: int) -> None:
        size, last_offset, newest, oldest_epoch, newest_epoch, producer_id, _ = spans.summary()
        first, known = spans[0], self.epochs
        if not known.latest == oldest_epoch == newest_epoch or first.base_offset < known.latest_start:
            self._note_epochs(spans)
        segment = self._local.active
        if not segment.takes(size, last_offset, newest):
            segment = self._taking(size, first.base_offset, last_offset, newest, now_ms)
        plan = None
        if producer_id >= 0:
            marked = [(span, marker_at(data, span)) for span in spans.of_producers()]
            plan = self.producers.plan(marked, origin=Origin.REPLICATION)
        with self._in_doubt():
            segment.append(memoryview(data)[first.position : first.position + size], spans)
            self.next_offset = self.producers.end_offset = segment.next_offset
            if plan is not None:
                self._apply(plan, segment)

    def _note_epochs(self, batches: Sequence[Batch | BatchSpan]) -> None:
        """Note the leader epochs that begin with these batches, which are durable before the batches are written."""
        with self._in_doubt():
            for batch in batches:
                if batch.leader_epoch >= 0:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def _taking(self, size: int, base_offset: int, last_offset: int, newest: int, now_ms: int) -> Segment:
        """The segment for an append that may not fit into the active one: a new one where that is due. The one that a
        clean stop has sealed is written to from here on.
        """
        segment = self._local.active
        if segment.should_roll(size, last_offset, newest, now_ms):
            segment = self._rolled(size, base_offset, now_ms)
        if not segment.is_active:
            # Readers may know its seal.
            with self._changing_files():
                segment.activate()
        return segment

    def _rolled(self, size: int, base_offset: int, now_ms: int) -> Segment:
        """A new segment for an append of `size` bytes that the active one does not take."""
        if size > self.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"{size} bytes do not fit into a segment of {self.topic}-{self.number}: "
                f"segment.bytes={self.config.segment_bytes}"
            )
        return self._roll(max(base_offset, self.next_offset), now_ms)

    def _apply(self, plan: Plan, segment: Segment) -> None:
        """What was just written changes what is known of producers."""
        for txn in self.producers.apply(plan, self.next_offset):
            segment.aborted.append(txn)
            # The first one makes the file.
            self._durability.note_names()

    def begin_epoch(self, epoch: int) -> None:
        """Note that the leader of `epoch` begins at the end of the log, before it appends: who follows an older epoch
        learns by it where that one ended (KAFKA-7415). Raises FencedLeaderEpoch when the log knows a newer one.
        """
        with self._lock:
            self._check_usable()
            self._check_epoch(epoch)
            with self._in_doubt():
                self._local.drop_empty_tail()
                self.epochs.assign(epoch, self.next_offset)

    def _check_epoch(self, epoch: int) -> None:
        if epoch < self.epochs.latest:
            raise FencedLeaderEpoch(
                f"{self.topic}-{self.number}: epoch {epoch} is over, the log is in epoch {self.epochs.latest}"
            )

    def roll(self, now_ms: int) -> int:
        """Start a new segment at the end of the log, unless the active one is empty; gives where it begins."""
        with self._lock:
            self._check_usable()
            return self._roll(self.next_offset, now_ms).base_offset

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> Verification | None:
        """See `Producers.start_verification`."""
        with self._lock:
            return self.producers.start_verification(
                producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )

    def expire_producers(self, now_ms: int) -> list[int]:
        """Forget producers that have been idle for `producer.id.expiration.ms`; gives their ids."""
        with self._lock:
            return self.producers.expire(now_ms)

    # --- room: rolling, and what goes at the start ------------------------------------------------------------------

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        with self._in_doubt():
            return self._begin_segment(base_offset, now_ms)

    def _begin_segment(self, base_offset: int, now_ms: int) -> Segment:
        self._check_in_place()
        self._local.check_in_place()
        self.producers.reach(base_offset)
        segment = self._local.roll(base_offset, now_ms)
        self._local.snapshot(self.producers)
        return segment

    def _check_bound(self, size: int, now_ms: int) -> None:
        """Refuse what would make a bounded queue larger than its bound, after what was deleted has gone."""
        limit, active = self.config.retention_bytes, self._segments.active
        if active.size + size > limit // BOUND_PARTS or self.start_offset >= self.next_offset:
            # Only whole segments give room back, so there have to be some.
            self._roll(self.next_offset, now_ms)
        if self.size + size <= limit:
            return
        self._retain(now_ms, len(self._segments))
        if self.size + size > limit:
            raise PartitionFull(
                f"{self.topic}-{self.number} has {self.size} bytes, and {size} more are over its "
                f"retention.bytes={limit}: delete records that are done with (delete_records), or raise the bound"
            )

    def _advance_start(self, offset: int) -> bool:
        if offset <= self.start_offset:
            return False
        before, self.start_offset = self.start_offset, offset
        with self._in_doubt():
            try:
                self._publish()
            except DiskFull:
                self.start_offset = before
                raise
            self.epochs.truncate_start(offset)
            self.producers.start_at(offset)
        return True

    def _retain(self, now_ms: int, count_max: int) -> int:
        dropped = 0
        for rule in rules(self.config):
            bounds = Bounds(self.start_offset, self.high_watermark, self.next_offset, now_ms, count_max)
            count = rule(self._segments, bounds, self.config)
            dropped += self._drop(count, now_ms) if count else 0
        return dropped

    def _drop(self, count: int, now_ms: int) -> int:
        if count == len(self._segments):
            # A log has a segment at least.
            try:
                self._roll(self.next_offset, now_ms)
            except DiskFull:
                # The others make room for it.
                count -= 1
                if count == 0:
                    raise
        self._advance_start(self._segments[count].base_offset)
        with self._changing_files():
            # Where the log starts is known before what lies below can be missed.
            self._publish_durably()
            self._local.drop(count, now_ms)
        return count

    # --- durability, and what is visible --------------------------------------------------------------------------

    def _sync_files(self, target: int) -> None:
        if target > self.durable_offset or self._durability.has_unsynced_names:
            self._local.sync(self.durable_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, never down and never past the end; publish it.

        Gives whether it moved.
        """
        moved = self.fast_advance(offset)
        if moved is not None:  # pragma: no cover - the pure kernel is measured
            return moved
        with self._lock:
            if offset > self.next_offset:
                offset = self.next_offset
            if offset <= self.high_watermark:
                return False
            if self.producers.is_transactional:
                self.producers.advance(offset)
                self._first_unstable_offset = self.producers.first_unstable_offset  # before anybody can see more
            self.high_watermark = offset
            self._show()
            return True
