"""The log of one partition: segments in order, offsets, watermarks, producers.

    start_offset <= last_stable_offset <= high_watermark <= next_offset,  durable_offset <= next_offset   (half-open)

    [ segment 0 ][ segment 4096 ][ segment 9001, active ]
      sealed, immutable            the only one that is written

There are two ways in, and both end in `_write`: `append` gives a leader's batch its offsets and its leader epoch,
`append_follower` takes a leader's bytes as they are. Nothing here syncs by itself: `sync` is called by whoever has to
promise durability, and moves `durable_offset`. (Kafka: UnifiedLog, LocalLog.)
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID

from pylog.batch import Batch, Buffer, Origin, marker_at
from pylog.checkpoint import write_topic_id
from pylog.config import TopicConfig
from pylog.epoch import LeaderEpochs
from pylog.errors import (
    Closed,
    CorruptBatch,
    DurabilityUnknown,
    FencedLeaderEpoch,
    LogNotFound,
    OffsetOutOfRange,
    PartitionFull,
    PolicyViolation,
    RecordBatchTooLarge,
)
from pylog.files import Files, join
from pylog.index import AbortedTxn
from pylog.kernel import BatchSpan
from pylog.local_log import LocalLog
from pylog.logfile import Slice
from pylog.published import Entry
from pylog.record import TopicPartition
from pylog.recovery import Checkpoint, Quarantined, Recovered, Recovery, note_epochs, open_epochs, take_stock
from pylog.retention import Bounds, rules
from pylog.segment import SUFFIXES, Segment, file_name
from pylog.sequence import Plan, Producers, Verification
from pylog.validate import follower_spans, leader_batch, leader_batches
from pylog.written import WrittenPartition

logger = logging.getLogger("pylog")

BOUND_PARTS = 8
"""Into how many segments a bounded queue is cut at least."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did: records have offsets [base_offset, next_offset)."""

    base_offset: int
    next_offset: int
    log_append_time: int | None = None
    """The broker's clock, where the topic stamps LogAppendTime; None where records keep their own timestamps."""
    duplicate: bool = False
    """The producer has sent the batch before: nothing was written, the offsets are those it got then."""


class Partition(WrittenPartition):
    """One partition of a topic on one node, with its writer. Knows nothing of roles, followers or who asks.

    Thread-safe: one lock for writing; reading takes none (bytes below `next_offset` never change while they exist).
    """

    def __init__(
        self, files: Files, directory: str, topic: str, number: int, config: TopicConfig, entry: Entry | None = None,
        *, producer_id_expiration_ms: int = 86_400_000, verify_transactions: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(directory, topic, number, entry)
        self.files = files
        self.config = config
        self.recovered: Recovered | None = None
        self.quarantined: tuple[Quarantined, ...] = ()
        self.epochs: LeaderEpochs
        self.producers = Producers(
            f"{topic}-{number}", expiration_ms=producer_id_expiration_ms, verify=verify_transactions
        )
        self._first_unstable_offset: int | None = None  # the producers', who change under the lock
        self._local = LocalLog(files, directory, config)
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
        return self._segments.active.next_offset if len(self._segments) else 0

    @property
    def _written_end(self) -> int:
        """What a sync makes durable: a gap that a truncation has left at the end is nothing that could be missed."""
        return min(self.next_offset, self.data_end)

    @property
    def data_end_max(self) -> int:
        """Only this process writes, so it knows."""
        return max(self.next_offset, self.data_end)

    def _publish(self) -> None:
        self._first_unstable_offset = self.producers.first_unstable_offset
        super()._publish()

    # --- opening and closing ---------------------------------------------------------------------------------------

    def create(self, topic_id: UUID, now_ms: int, *, start_offset: int = 0) -> None:
        """Make the directory of a new, empty partition; its topic id reaches the disk before any data can."""
        self.files.make_dir(self.directory)
        write_topic_id(self.files, self.directory, topic_id)
        self.epochs = LeaderEpochs(self.files, join(self.directory, "leader-epoch-checkpoint"))
        self.start_offset = self.next_offset = self.high_watermark = self.durable_offset = start_offset
        self.producers.clear(start_offset)
        self._local.add(start_offset, now_ms)
        self._local.snapshot(self.producers)
        self.publish()

    def open(self, checkpoint: Checkpoint, now_ms: int) -> None:
        """Open what is on disk. After an unclean stop everything from the recovery point on is read and checked.

        A bad batch at or beyond the durable offset is a torn tail: it is cut, and `recovered` says where. Below it,
        something that was promised is damaged: it is kept and stepped over, and `quarantined` says where.
        """
        listing = take_stock(self.files, self.directory, checkpoint)
        self._local.load(listing)
        self.epochs = open_epochs(self._local)
        self._segments = self._local.segments
        if not len(self._segments):
            self._local.add(checkpoint.start_offset, now_ms)
        recovery = self._recovery(checkpoint, now_ms)
        self.next_offset = recovery.run(listing)
        self.recovered, self.quarantined = recovery.torn, tuple(recovery.quarantined)
        if self._segments.active.log.ends_damaged:
            self._roll(self.next_offset, now_ms)
        if self.next_offset < checkpoint.start_offset:
            self._restart_at(checkpoint.start_offset, now_ms)
        self.start_offset = max(checkpoint.start_offset, self._segments.first.base_offset)
        self.epochs.truncate_end(self.next_offset)
        self.epochs.truncate_start(checkpoint.start_offset)
        if not self.epochs.entries and self.start_offset < self.next_offset:
            # The checkpoint is gone, or they were given up with their records, which a crash has brought back.
            note_epochs(self._local, self.epochs)
        known = checkpoint.recovery_point if not checkpoint.clean else self.next_offset
        self.durable_offset = min(known, self.next_offset)
        self.high_watermark = min(max(checkpoint.high_watermark, self.start_offset), self.next_offset)
        self.producers.advance(self.high_watermark)
        self._begin_generation()
        self.publish()

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        self.producers.reach(base_offset)
        segment = self._local.roll(base_offset, now_ms)
        self._local.snapshot(self.producers)
        return segment

    def _recovery(self, checkpoint: Checkpoint, now_ms: int) -> Recovery:
        key = TopicPartition(self.topic, self.number)
        return Recovery(self._local, key, self.epochs, self.producers, checkpoint, now_ms)

    def close(self) -> bool:
        """Sync everything and give the descriptors back; whether it is all safe.

        A failed partition is left as it is.
        """
        with self._lock:
            clean = not self.failed and not self._closed
            self._closed = True
            if clean:
                self._segments.active.finish()
                self._local.snapshot(self.producers)
        try:
            if clean:
                self._local.sync(self.durable_offset)
                self._local.seal_active()
                self.durable_offset = self._written_end
                self.publish()
                # Both slots, so that neither of them, damaged, shows an older end.
                self.publish()
        finally:
            self.abandon()
        return clean

    def abandon(self) -> None:
        """Give the descriptors back and write nothing: what an opening that failed is left with."""
        self._local.close()

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on: the next append, roll and clean-up do."""
        with self._lock:
            self.config = config
            self._local.reconfigure(config)

    # --- appending -------------------------------------------------------------------------------------------------

    def append(
        self, batch: Batch, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT, transaction_version: int = -1,
        guard: Verification | None = None,
    ) -> Appended:  # fmt: skip
        """Append one batch as the leader of `epoch`: it gets the next offsets. Visible to nobody before `publish`.

        `guard` is what `start_verification` gave, where transactions are verified.
        Raises: what `validate.leader_batch` and `Producers.plan` refuse; RecordBatchTooLarge (larger than a segment);
        DiskFull (nothing written, try again when there is room); DurabilityUnknown (the write failed and the partition
        is latched); PartitionFailed (it had failed before).
        """
        batch = leader_batch(batch, self.config, now_ms, origin=origin)
        return self._append(batch, epoch, now_ms, origin, transaction_version, guard)

    def append_bytes(
        self, data: Buffer, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT,
        transaction_version: int = -1, guard: Verification | None = None,
    ) -> Appended:  # fmt: skip
        """Append a batch that somebody else has encoded: every byte of it is checked first.

        Without a whole batch nothing happens. Raises what `validate.leader_batches` and `append` raise.
        """
        batches = leader_batches(data, self.config, now_ms, origin=origin)
        if not batches:
            return Appended(self.next_offset, self.next_offset)
        return self._append(batches[0], epoch, now_ms, origin, transaction_version, guard)

    def _append(
        self, batch: Batch, epoch: int, now_ms: int, origin: Origin, transaction_version: int,
        guard: Verification | None,
    ) -> Appended:  # fmt: skip
        with self._lock:
            self._check_usable()
            self._check_epoch(epoch)
            if origin is Origin.CLIENT and self.config.is_bounded:
                self._check_bound(batch.size, now_ms)
            base_offset = self.next_offset
            batch.stamp(base_offset, epoch)
            segment = self._make_room([batch], batch.size, now_ms)
            plan = None
            if batch.producer_id >= 0:
                marker = batch.marker() if batch.is_control else None
                plan = self.producers.plan(
                    [(batch, marker)], origin=origin, transaction_version=transaction_version, guard=guard
                )
                if plan.duplicate is not None:
                    known = plan.duplicate
                    return Appended(known.first_offset, known.last_offset + 1, known.timestamp, duplicate=True)
            self._write(segment, batch.data, [batch], plan)
            return Appended(base_offset, self.next_offset, batch.append_timestamp)

    def _check_bound(self, size: int, now_ms: int) -> None:
        """Refuse what would make a bounded queue larger than its bound, after what was deleted has gone."""
        limit, active = self.config.retention_bytes, self._segments.active
        if active.size + size > limit // BOUND_PARTS or self.start_offset >= self.next_offset:
            # Only whole segments give room back, so there have to be some.
            with self._in_doubt():
                self._roll(self.next_offset, now_ms)
        if self.size + size <= limit:
            return
        self._retain(now_ms)
        if self.size + size > limit:
            raise PartitionFull(
                f"{self.topic}-{self.number} has {self.size} bytes, and {size} more are over its "
                f"retention.bytes={limit}: delete records that are done with (delete_records), or raise the bound"
            )

    def append_follower(self, data: Buffer, *, epoch: int, now_ms: int) -> Appended:
        """Append bytes of the leader of `epoch` unchanged, in one piece: same offsets, same epochs (gaps are fine).

        A partial batch at the end is dropped, the next fetch brings it whole; so is what a later leader wrote
        (KAFKA-18723). Raises: CorruptBatch (a CRC or a bound), OffsetOutOfRange (it begins below the end of this log),
        and what `append` raises for the disk.
        """
        spans = follower_spans(data)
        spans = list(takewhile(lambda span: span.leader_epoch <= epoch, spans))
        with self._lock:
            self._check_usable()
            base_offset = self.next_offset
            if not spans:
                return Appended(base_offset, base_offset)
            if spans[0].base_offset < base_offset:
                raise OffsetOutOfRange(
                    f"fetched offset {spans[0].base_offset} is below the end of {self.topic}-{self.number}, "
                    f"{base_offset}"
                )
            size = spans[-1].position + spans[-1].size
            segment = self._make_room(spans, size, now_ms)
            plan = None
            if any(span.producer_id >= 0 for span in spans):
                marked = [(span, marker_at(data, span)) for span in spans]
                plan = self.producers.plan(marked, origin=Origin.REPLICATION)
            self._write(segment, memoryview(data)[:size], spans, plan)
            return Appended(base_offset, self.next_offset)

    def _make_room(self, batches: Sequence[Batch | BatchSpan], size: int, now_ms: int) -> Segment:
        """The segment that an append goes into, a new one if need be; its leader epochs are noted before it."""
        with self._in_doubt():
            for batch in batches:
                if batch.leader_epoch >= 0:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if size > self.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"{size} bytes do not fit into a segment of {self.topic}-{self.number}: "
                f"segment.bytes={self.config.segment_bytes}"
            )
        segment = self._segments.active
        newest = max(batch.max_timestamp for batch in batches)
        if segment.should_roll(size, batches[-1].last_offset, newest, now_ms):
            with self._in_doubt():
                segment = self._roll(max(batches[0].base_offset, self.next_offset), now_ms)
        return segment

    def _write(self, segment: Segment, data: Buffer, batches: Sequence[Batch | BatchSpan], plan: Plan | None) -> None:
        """The one place where bytes enter the log."""
        with self._in_doubt():
            segment.append(data, batches)
            self.next_offset = batches[-1].last_offset + 1
            if plan is None:
                self.producers.reach(self.next_offset)
            else:
                for txn in self.producers.apply(plan, self.next_offset):
                    segment.aborted.append(txn)
                    # The first one makes the file.
                    self._local.note_names()

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
            with self._in_doubt():
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

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upto: int) -> Slice | None:
        """See `ReadablePartition.read`: read again when the segment was cut, replaced or dropped meanwhile."""
        while True:
            generation = self._generation
            try:
                return super().read(offset, max_bytes, upto=upto)
            except (Closed, CorruptBatch, LogNotFound):
                with self._lock:
                    if generation == self._generation:
                        raise

    def read_stable(self, offset: int, max_bytes: int, *, upto: int) -> tuple[Slice | None, list[AbortedTxn]]:
        """See `ReadablePartition.read_stable`: read again when segments were replaced or dropped meanwhile."""
        while True:
            with self._lock:
                generation = self._generation
            found = self.read(offset, max_bytes, upto=upto)
            with self._lock:
                if generation == self._generation:
                    return found, self.aborted(offset, found.next_offset) if found is not None else []

    # --- durability ------------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Make everything appended so far durable and give `durable_offset`. Others may append meanwhile.

        Raises: DurabilityUnknown when the disk refused; the partition is latched then.
        """
        with self._syncing:
            return self._sync()

    def _sync(self) -> int:
        with self._lock:
            self._check_usable()
            target, generation, cuts = self._written_end, self._generation, self._cuts
        if target > self.durable_offset or self._local.has_unsynced_names:
            try:
                self._local.sync(self.durable_offset)
            except (Closed, LogNotFound):
                # Removed meanwhile, and with it what was to be synced (KAFKA-15391); else it is missing for good.
                if generation == self._generation and not self._closed:
                    raise
            except BaseException as error:
                with self._lock:
                    self._latch(error)
                if not isinstance(error, Exception):
                    raise
                raise DurabilityUnknown(self._failed_words(error)) from error
        with self._lock:
            if cuts == self._cuts:
                self.durable_offset = max(self.durable_offset, target)
            return self.durable_offset

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, never down and never past the end; publish it.

        Gives whether it moved.
        """
        with self._lock:
            offset = min(offset, self.next_offset)
            if offset <= self.high_watermark:
                return False
            self.producers.advance(offset)
            self._first_unstable_offset = self.producers.first_unstable_offset  # before anybody can see more
            self.high_watermark = offset
            self._publish()
            return True

    # --- the end: truncating ---------------------------------------------------------------------------------------

    def truncate(self, offset: int, now_ms: int) -> bool:
        """Drop everything from `offset` on; the log goes on there. Gives whether anything was dropped.

        Inside a batch the whole batch goes, which leaves a gap. (UnifiedLog.truncateTo)
        """
        with self._lock:
            self._check_usable()
            if offset >= self.next_offset:
                self.epochs.truncate_end(self.next_offset)
                return False
            if offset < self._segments.first.base_offset:
                self._truncate_fully(offset, offset, now_ms)
                return True
            segment = self._segments[self._segments.index_of(offset)]
            kept = segment.boundary(offset)[1]
            self.start_offset = min(self.start_offset, offset)
            with self._taking_away(offset, kept):
                self._local.truncate(offset, now_ms)
                self.next_offset = offset
                self.epochs.truncate_end(offset)
                self._reload_producers(now_ms)
            return True

    def drop_empty_tail(self) -> None:
        """Remove an empty last segment that a crash or a truncation has left behind.

        Whether the next batch starts a segment is for the roll rules to say, which are the same on every replica.
        """
        with self._lock:
            self._check_usable()
            with self._in_doubt():
                self._local.drop_empty_tail()

    def truncate_fully(self, offset: int, now_ms: int, *, start_offset: int | None = None) -> None:
        """Drop everything and start anew at `offset`, with nothing visible below `start_offset` (`offset` if None)."""
        with self._lock:
            self._check_usable()
            self._truncate_fully(offset, offset if start_offset is None else start_offset, now_ms)

    def _truncate_fully(self, offset: int, start_offset: int, now_ms: int) -> None:
        # Nothing is promised until the log begins anew: a crash may find no segment at all.
        self.start_offset = min(self.start_offset, start_offset)
        with self._taking_away(min(offset, self._segments.first.base_offset), 0):
            self._restart_at(offset, now_ms)
            # What lies below the start needs no snapshot.
            self.producers.snapshot_offset = max(start_offset, offset)
            self.start_offset, self.high_watermark = start_offset, max(start_offset, offset)
            self.durable_offset = offset
            self.producers.advance(offset)

    def _restart_at(self, offset: int, now_ms: int) -> None:
        self._local.restart(offset, now_ms)
        self.epochs.clear()
        self.producers.clear(offset)
        self.producers.snapshot_offset = self.next_offset = offset

    def _reload_producers(self, now_ms: int) -> None:
        self._recovery(Checkpoint(self.start_offset, clean=False), now_ms).finish(self.next_offset)
        self.producers.advance(self.high_watermark)

    def sealed_files(self) -> list[str]:
        """The names of the files that only clean-up changes."""
        bases = self._segments.bases[:-1]
        return [file_name(base, kind) for base in bases for kind in SUFFIXES]

    # --- the start: deleting records, retention --------------------------------------------------------------------

    def delete_records(self, offset: int) -> int:
        """Let the log start at `offset` (-1: at the high watermark); gives the new start. (DeleteRecords)

        It may lie inside a batch. Whole segments below it go with the next `apply_retention`.
        Raises: PolicyViolation (the topic's policy does not include "delete"), OffsetOutOfRange (above the high
        watermark).
        """
        if "delete" not in self.config.cleanup_policy:
            raise PolicyViolation(f"{self.topic} has cleanup.policy without delete: its records cannot be deleted")
        self.advance_start(self.high_watermark if offset == -1 else offset)
        return self.start_offset

    def advance_start(self, offset: int) -> bool:
        """Move the start of the log up to `offset`, never down; gives whether it moved.

        Raises: OffsetOutOfRange above the high watermark.
        """
        with self._lock:
            self._check_usable()
            if not 0 <= offset <= self.high_watermark:
                raise OffsetOutOfRange(
                    f"{self.topic}-{self.number} cannot start at offset {offset}: "
                    f"only what is below the high watermark, {self.high_watermark}, may be deleted"
                )
            return self._advance_start(offset)

    def _advance_start(self, offset: int) -> bool:
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        with self._in_doubt():
            self.epochs.truncate_start(offset)
            self.producers.start_at(offset)
            self._publish()
        return True

    def apply_retention(self, now_ms: int) -> int:
        """Drop the segments that nobody has to keep any more; gives how many. (UnifiedLog.deleteOldSegments)

        They are out of sight at once; their files go with `purge`, when `file.delete.delay.ms` has passed.
        """
        with self._lock:
            self._check_usable()
            return self._retain(now_ms)

    def _retain(self, now_ms: int) -> int:
        dropped = 0
        for rule in rules(self.config):
            bounds = Bounds(self.start_offset, self.high_watermark, self.next_offset, now_ms)
            count = rule(self._segments, bounds, self.config)
            dropped += self._drop(count, now_ms) if count else 0
        return dropped

    def _drop(self, count: int, now_ms: int) -> int:
        if count == len(self._segments):
            # A log has a segment at least.
            self._roll(self.next_offset, now_ms)
        self._advance_start(self._segments[count].base_offset)
        with self._changing_files():
            self._local.drop(count, now_ms)
        return count

    def purge(self, now_ms: int) -> None:
        """Remove the files of segments that were dropped `file.delete.delay.ms` ago. Needs no lock."""
        self._local.trash.purge(now_ms)

    @property
    def purge_due_ms(self) -> int | None:
        """When `purge` has something to do (wall clock, ms); None when nothing waits."""
        return self._local.trash.due_ms

    # --- the middle: compaction ------------------------------------------------------------------------------------

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int, *, until: Segment) -> bool:
        """Put `new`, written beside the log as `.cleaned` and synced, in the place of the neighbours `old`.

        False, and `new` is removed, when one of them, or `until`, a segment behind them, is no longer part of the log:
        what `new` was made from has been cut then. The active segment cannot be replaced.
        """
        with self._lock:
            self._check_usable()
            there = {id(segment) for segment in self._segments.made}
            if not {id(until), *map(id, old)} <= there or old[-1] is self._segments.active:
                new.remove()
                return False
            with self._changing_files():
                self._local.replace(old, new, now_ms)
            return True
