"""The log of one partition: segments in order, offsets, watermarks, producers.

    start_offset <= last_stable_offset <= high_watermark <= next_offset,  durable_offset <= next_offset   (half-open)

    [ segment 0 ][ segment 4096 ][ segment 9001, active ]
      sealed, immutable            the only one that is written

What appends, syncs and makes visible is in `commitlog/append`; here the log is opened, read and closed, and gets
shorter: at its end (truncation), at its start (deleted records, retention), in its middle (compaction).
(Kafka: UnifiedLog.)
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from pylog.commitlog.append import AppendingPartition
from pylog.commitlog.recovery import Checkpoint, Quarantined, Recovered, Recovery, note_epochs, open_epochs, take_stock
from pylog.errors import Closed, CorruptBatch, DiskFull, LogNotFound, OffsetOutOfRange, PolicyViolation
from pylog.files import join
from pylog.kernel import Appended
from pylog.record import TopicPartition
from pylog.segment import Segment
from pylog.storage.checkpoint import write_topic_id
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from pylog.storage.file_ranges import Slice
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.log_file import HEAD_BYTES
from pylog.storage.segment_checksum import Mark
from pylog.storage.segment_files import SUFFIXES, file_name
from pylog.storage.transaction_index import AbortedTxn

__all__ = ["Appended", "Checkpoint", "Partition"]

T = TypeVar("T")

DROPPED_AT_ONCE = 16


class Partition(AppendingPartition):
    """One partition of a topic on one node, with its writer. Knows nothing of roles, followers or who asks.

    Thread-safe: one lock for writing; reading takes none (bytes below `next_offset` never change while they exist).
    """

    recovered: Recovered | None = None
    """What `open` has cut off."""
    quarantined: tuple[Quarantined, ...] = ()
    """What `open` has found damaged."""
    opened_clean = True
    """Whether `open` has believed what the last close has left: else it is synced before anything is promised."""
    as_closed = False
    """Whether `open` has found it as this program has closed it: nothing that was appended can be missing at the end.
    """

    @property
    def is_cut(self) -> bool:
        """Whether something was taken away from its end since it was opened: offsets may be given again."""
        return self._cuts > 0

    # --- opening and closing ---------------------------------------------------------------------------------------

    def create(self, topic_id: UUID, now_ms: int, *, start_offset: int = 0) -> None:
        """Make the directory of a new, empty partition."""
        self.make_directory(topic_id)
        self.epochs = LeaderEpochs(self.files, join(self.directory, "leader-epoch-checkpoint"))
        self.start_offset = self.next_offset = self.high_watermark = self.durable_offset = start_offset
        self.producers.clear(start_offset)
        self._local.add(start_offset, now_ms)
        self._local.snapshot(self.producers)
        self._publish()

    def make_directory(self, topic_id: UUID) -> None:
        """Make the directory. The topic id reaches the disk before any data can."""
        self.files.make_dir(self.directory)
        write_topic_id(self.files, self.directory, topic_id)

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
        # It may have found that the log does not end where it was closed.
        checkpoint = recovery.checkpoint
        if checkpoint.failed:
            self._local.write_again(checkpoint.recovery_point)
        self._local.active = self._segments.active
        self.recovered, self.quarantined = recovery.torn, tuple(recovery.quarantined)
        self.as_closed = checkpoint.clean and checkpoint.published and self.recovered is None
        if self._segments.active.log.ends_damaged:
            self._begin_segment(self.next_offset, now_ms)
        if self.next_offset < checkpoint.start_offset:
            self._restart_at(checkpoint.start_offset, now_ms)
        self.start_offset = max(checkpoint.start_offset, self._segments.start)
        with suppress(DiskFull):
            # As where an append was refused: until an epoch is noted anew, the latest may begin behind the end.
            self.epochs.truncate_end(self.next_offset)
        self.epochs.truncate_start(checkpoint.start_offset)
        if not self.epochs.entries and self.start_offset < self.next_offset:
            # The checkpoint is gone, or they were given up with their records, which a crash has brought back.
            note_epochs(self._local, self.epochs, self.start_offset)
        self.opened_clean = checkpoint.clean
        if not checkpoint.clean:
            # Nothing says that the names there are on the disk.
            self._durability.note_names()
        known = checkpoint.recovery_point if not checkpoint.clean else self.next_offset
        self.durable_offset = min(known, self.next_offset)
        self.high_watermark = min(max(checkpoint.high_watermark, self.start_offset), self.next_offset)
        self.producers.advance(self.high_watermark)
        self._begin_generation()
        self._publish()

    @property
    def _key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    def _recovery(self, checkpoint: Checkpoint, now_ms: int) -> Recovery:
        return Recovery(self._local, self._key, self.epochs, self.producers, checkpoint, now_ms)

    def checkpoint(self) -> None:
        """Publish how far it is durable, and let the log directory remember it; its files are written afterwards."""
        with self._lock:
            self._publish()
            known = self._checkpoints
            if known is None:
                return
            start = self.start_offset if self.start_offset > self.first_base_offset else None
            known.note(RECOVERY_POINTS, self._key, self.durable_offset)
            known.note(HIGH_WATERMARKS, self._key, self.high_watermark)
            known.note(START_OFFSETS, self._key, start)

    def close(self) -> bool:
        """Sync everything and give the descriptors back; whether all of it is durable then (`closed_whole`).

        A sync that is under way is waited for. What interrupts a close latches; a failed partition is left as it is.
        """
        try:
            with self._syncing:
                is_whole = self._finish()
            self.abandon()
            assert not is_whole or self.durable_offset == self._written_end, "a clean log is durable to its end"
            self.closed_whole = is_whole
        except BaseException as error:
            with self._lock:
                self._latch(error)
            raise
        finally:
            self.abandon()
        return is_whole

    def _finish(self) -> bool:
        with self._lock:
            if self._closed or self.failed:
                self._closed = True
                return self.closed_whole
            self._closed = True
            self._check_in_place()
            self._segments.active.finish()
            self._local.snapshot(self.producers)
        self._local.sync(self.durable_offset)
        self._local.seal_active()
        self.durable_offset = self._written_end
        self.publish()
        # Both slots, so that neither of them, damaged, shows an older end.
        self.publish()
        # Another thread's sync, as of a roll, may have been told what this one was not.
        return self._durability.owes_nothing

    def abandon(self) -> None:
        """Give the descriptors back and write nothing: what an opening that failed is left with."""
        self._local.close()

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False) -> Slice | None:
        """See `PartitionReader.read`: read again when the segment was cut, replaced or dropped meanwhile."""
        found = self._read_on(offset, min(max_bytes, HEAD_BYTES) if as_extent else max_bytes, upto, all_left=as_extent)
        if found is not None:
            return found
        read = super().read
        return self._steadily(lambda: read(offset, max_bytes, upto=upto, as_extent=as_extent))

    def _steadily(self, look: Callable[[], T]) -> T:
        """What `look` finds in files that nobody cuts, replaces or drops meanwhile: else it looks again.

        What it calls damaged it looks at once more while nobody appends: a batch that came after the end of the log was
        asked for looks as if it could not be.
        """
        while True:
            generation = self._generation
            try:
                return look()
            except (Closed, CorruptBatch, LogNotFound):
                with self._lock:
                    if generation == self._generation:
                        return look()

    def check(self) -> None:
        """See `PartitionReader.check`. Appending goes on meanwhile."""
        while True:
            generation = self._generation
            try:
                return super().check()
            except (Closed, CorruptBatch, LogNotFound):
                with self._lock:
                    if generation == self._generation:
                        raise

    def _has(self, segment: Segment) -> bool:
        return self.end_of(segment) is not None

    def read_stable(
        self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False
    ) -> tuple[Slice | None, list[AbortedTxn]]:
        """See `PartitionReader.read_stable`: read again when segments were replaced or dropped meanwhile."""
        while True:
            with self._lock:
                generation = self._generation
            found = self.read(offset, max_bytes, upto=upto, as_extent=as_extent)
            with self._lock:
                if generation == self._generation:
                    return found, self.aborted(offset, found.next_offset) if found is not None else []

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
            if offset < self._segments.start:
                self._truncate_fully(offset, offset, now_ms)
                return True
            segment = self._segments[self._segments.index_of(offset)]
            kept = segment.boundary(offset)[1]
            self._lower_start(offset, min(self.start_offset, offset))
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
        self._lower_start(offset, min(self.start_offset, start_offset))
        with self._taking_away(min(offset, self._segments.start), 0):
            self._restart_at(offset, now_ms)
            # What lies below the start needs no snapshot.
            self.producers.snapshot_offset = max(start_offset, offset)
            self.start_offset, self.high_watermark = start_offset, max(start_offset, offset)
            self.durable_offset = offset
            self.producers.advance(offset)

    def _lower_start(self, end: int, start: int) -> None:
        """The log is about to be cut at `end`, and may start lower then: no checkpoint may say more."""
        if self._checkpoints is not None:
            self._checkpoints.lower(self._key, end, start)
        self.start_offset = start

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
        """Let the log start at `offset` (-1: at the high watermark); gives the new start, which is durable then.

        It may lie inside a batch. Whole segments below it go with the next `apply_retention`. (DeleteRecords)
        Raises: PolicyViolation (the topic's policy does not include "delete"), OffsetOutOfRange (above the high
        watermark).
        """
        if "delete" not in self.config.cleanup_policy:
            raise PolicyViolation(f"{self.topic} has cleanup.policy without delete: its records cannot be deleted")
        with self._lock:
            self._start_at(self.high_watermark if offset == -1 else offset)
            # Nobody comes in between: what the checkpoint says of a log that was deleted is believed of the next one.
            with self._in_doubt():
                self._publish_durably()
                if self._checkpoints is not None:
                    self._checkpoints.raise_start(self._key, self.start_offset)
            return self.start_offset

    def advance_start(self, offset: int) -> bool:
        """Move the start of the log up to `offset`, never down; gives whether it moved.

        Raises: OffsetOutOfRange above the high watermark.
        """
        with self._lock:
            return self._start_at(offset)

    def _start_at(self, offset: int) -> bool:
        self._check_usable()
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic}-{self.number} cannot start at offset {offset}: "
                f"only what is below the high watermark, {self.high_watermark}, may be deleted"
            )
        return self._advance_start(offset)

    def apply_retention(self, now_ms: int) -> int:
        """Drop the segments that nobody has to keep any more; gives how many. (UnifiedLog.deleteOldSegments)

        They are out of sight at once; their files go with `purge`, when `file.delete.delay.ms` has passed.
        """
        end, dropped = self.next_offset, 0
        while True:
            # Some at a time: who appends does not wait for all of them.
            with self._lock:
                self._check_usable()
                count = self._retain(now_ms, DROPPED_AT_ONCE)
            dropped += count
            # What comes meanwhile is for the next time.
            if count == 0 or self.first_base_offset >= end:
                return dropped

    def purge(self, now_ms: int) -> None:
        """Remove the files of segments that were dropped `file.delete.delay.ms` ago. Needs no lock."""
        self._local.trash.purge(now_ms)

    @property
    def purge_due_ms(self) -> int | None:
        """When `purge` has something to do (wall clock, ms); None when nothing waits."""
        return self._local.trash.due_ms

    # --- the middle: scrubbing and compaction -------------------------------------------------------------------------

    def end_of(self, segment: Segment) -> int | None:
        """Where a segment ends; None when it is not part of the log any more."""
        return self._segments.end_if_there(segment, self.next_offset)

    def has_sealed(self, segment: Segment) -> bool:
        """Whether a segment is part of the log, and not the one that is written."""
        return not self._closed and segment is not self._segments.active and self._has(segment)

    def looked(self, look: Callable[[], T], is_good: Callable[[T], bool]) -> T:
        """What `look` finds. What is not good it looks at once more while nobody changes anything: who cuts, replaces
        or drops a segment that is being read makes it look damaged.
        """
        with suppress(Closed, CorruptBatch, LogNotFound):
            found = look()
            if is_good(found):
                return found
        with self._lock:
            return look()

    def note_read(self, segment: Segment, log: Mark, now_ms: int) -> None:
        """Put into the seal of a segment what its bytes are: all were read, and are good.

        Nothing, where it is not part of the log any more, or written to. Raises StorageError, Closed.
        """
        with self._lock:
            self._check_usable()
            end = self.end_of(segment)
            if end is None or not self.has_sealed(segment) or segment.size != log.size:
                return
            if segment.sealed is None:
                segment.write_seal(end)
            segment.note_read(log, now_ms)

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
            with self._in_doubt():
                self._local.offer(new)
            with self._changing_files(), self._whole(f"was having segments replaced by {new.path}"):
                self._local.replace(old, new, now_ms)
            return True
