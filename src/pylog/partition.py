"""The log of one partition: segments in order, offsets, watermarks.

    start_offset <= high_watermark <= next_offset,  start_offset <= durable_offset <= next_offset     (half-open ends)

    [ segment 0 ][ segment 4096 ][ segment 9001, active ]
      sealed, immutable            the only one that is written

There are two ways in, and both end in `_write`: `append` gives a client's batch its offsets and its leader epoch,
`append_follower` takes a leader's bytes as they are. Nothing here syncs by itself: `sync` is called by whoever has to
promise durability, and moves `durable_offset`.

What may be seen from outside this process is said by `publish`, after the bytes are in the file and never before.

A failed write or sync latches the partition: its files are in doubt, so every later call raises PartitionFailed until
the log is opened again and recovery has read what is really there (a failed fsync is never tried again). A full disk
does not latch: the file was put back to the last whole batch.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from pylog.batch import Batch
from pylog.checkpoint import write_topic_id
from pylog.config import TopicConfig
from pylog.epoch import LeaderEpochs
from pylog.errors import (
    CorruptBatch,
    DiskFull,
    DurabilityUnknown,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    PartitionFailed,
    PylogError,
)
from pylog.files import Files, join
from pylog.kernel import BatchSpan, walk
from pylog.published import Entry, State
from pylog.readable import ReadablePartition
from pylog.record import TopicPartition
from pylog.recovery import Recovered, drop_empty_tail, recover
from pylog.segment import Segment, file_name
from pylog.segments import Segments, base_offsets, remove_orphans, without_index
from pylog.validate import Origin, leader_batch

logger = logging.getLogger("pylog")


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did: records have offsets [base_offset, next_offset)."""

    base_offset: int
    next_offset: int
    log_append_time: int | None = None
    """The broker's clock, where the topic stamps LogAppendTime; None where records keep their own timestamps."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the log directory remembered of a partition when it was last open."""

    start_offset: int = 0
    durable_offset: int = 0
    """Everything below was fsynced, indexes too: recovery begins here."""
    high_watermark: int = 0
    clean: bool = True


class Partition(ReadablePartition):
    """One partition of a topic on one node, with its writer. Knows nothing of roles, followers or who asks.

    Thread-safe: one lock for writing; reading takes none (bytes below `next_offset` never change while they exist).
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        number: int,
        config: TopicConfig,
        entry: Entry | None = None,
    ) -> None:
        super().__init__(directory, topic, number)
        self.files = files
        self.config = config
        self.recovered: Recovered | None = None
        self.epochs: LeaderEpochs
        self._entry = entry
        self._generation = 0
        self._unsynced_names = False
        self._failure: BaseException | None = None
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether `create` or `open` was called: before that there is nothing to read."""
        return len(self._segments) > 0

    @property
    def failed(self) -> bool:
        """Whether an I/O error has latched it: what it holds is in doubt until the log is opened again."""
        return self._failure is not None

    # --- opening and closing ---------------------------------------------------------------------------------------

    def create(self, topic_id: UUID, now_ms: int, *, start_offset: int = 0) -> None:
        """Make the directory of a new, empty partition; its topic id reaches the disk before any data can."""
        self.files.make_dir(self.directory)
        write_topic_id(self.files, self.directory, topic_id)
        self.epochs = LeaderEpochs(self.files, join(self.directory, "leader-epoch-checkpoint"))
        self.start_offset = self.next_offset = self.high_watermark = self.durable_offset = start_offset
        self._add_segment(start_offset, now_ms)
        self.publish()

    def open(self, checkpoint: Checkpoint, now_ms: int) -> None:
        """Open what is on disk. After an unclean stop everything from the recovery point on is read and checked.

        A bad batch at or beyond the durable offset is a torn tail: it is cut, and `recovered` says where. Below it,
        something that was promised is damaged: CorruptBatch is raised and nothing is cut (see `recovery`).
        """
        self.epochs = LeaderEpochs(self.files, join(self.directory, "leader-epoch-checkpoint"))
        remove_orphans(self.files, self.directory)
        bases = base_offsets(self.files, self.directory)
        self._segments = Segments(
            Segment(self.files, self.directory, base, self.config, active=base == bases[-1]) for base in bases
        )
        if not bases:
            self._add_segment(checkpoint.start_offset, now_ms)
        active = self._segments.active
        stat = self.files.stat(active.path)
        active.created_ms = stat.mtime_ms if stat is not None else now_ms
        damaged = without_index(self.files, self.directory)
        if not checkpoint.clean or damaged or active.load() is not None:
            self.recovered = recover(
                self._segments, self.epochs, TopicPartition(self.topic, self.number),
                start=min([checkpoint.durable_offset, *damaged]), promised=checkpoint.durable_offset,
            )  # fmt: skip
        if drop_empty_tail(self._segments):
            self._unsynced_names = True
        self.next_offset = self._segments.active.next_offset
        if self.next_offset < checkpoint.durable_offset:
            raise CorruptBatch(
                f"the log ends at offset {self.next_offset}, but everything below {checkpoint.durable_offset} was "
                "durable: the files were cut or replaced. Restore them from a replica or a backup",
                path=active.path, position=active.size, offset=self.next_offset,
            )  # fmt: skip
        if self.next_offset < checkpoint.start_offset:
            self._restart_at(checkpoint.start_offset, now_ms)
        self.start_offset = max(checkpoint.start_offset, self._segments.first.base_offset)
        self.epochs.truncate_end(self.next_offset)
        self.durable_offset = (
            self.next_offset if checkpoint.clean else max(checkpoint.durable_offset, self.start_offset)
        )
        self.high_watermark = min(max(checkpoint.high_watermark, self.start_offset), self.next_offset)
        before = self._entry.read() if self._entry is not None else None
        self._generation = before.generation + 1 if before is not None else 0
        self.publish()

    def _restart_at(self, offset: int, now_ms: int) -> None:
        for segment in self._segments:
            segment.remove()
        self._segments = Segments()
        self.epochs.clear()
        self._add_segment(offset, now_ms)
        self.next_offset = offset

    def close(self) -> bool:
        """Sync everything and give the descriptors back; whether it is all safe.

        A failed partition is left as it is.
        """
        with self._lock:
            clean = self._failure is None
            if clean:
                self._segments.active.finish()
        try:
            if clean:
                self._sync_from(self.durable_offset)
                self.durable_offset = self.next_offset
                self.publish()
        finally:
            for segment in self._segments:
                segment.close()
        return clean

    def _add_segment(self, base_offset: int, now_ms: int) -> Segment:
        for suffix in (".log", ".index", ".timeindex"):
            path = join(self.directory, file_name(base_offset, suffix))
            if self.files.stat(path) is not None:
                self.files.remove(path)
        segment = Segment(self.files, self.directory, base_offset, self.config, active=True, create=True)
        segment.created_ms = now_ms
        self._segments.add(segment)
        self._unsynced_names = True
        return segment

    # --- appending -------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT) -> Appended:
        """Append one batch as the leader of `epoch`: it gets the next offsets. Visible to nobody before `publish`.

        Raises: what `validate.leader_batch` refuses; DiskFull (nothing written, try again when there is room);
        DurabilityUnknown (the write failed and the partition is latched); PartitionFailed (it had failed before).
        """
        with self._lock:
            self._check_usable()
            self._check_epoch(epoch)
            if origin is Origin.CLIENT:
                batch = leader_batch(batch, self.config, now_ms)
            base_offset = self.next_offset
            batch.stamp(base_offset, epoch)
            self._write(batch.data, batch, epoch, now_ms)
            return Appended(base_offset, self.next_offset, batch.append_timestamp)

    def append_follower(self, data: bytes | memoryview, *, now_ms: int) -> Appended:
        """Append a leader's bytes unchanged: same offsets, same epochs, rolled at the same batches (gaps are fine).

        A partial batch at the end is dropped, the next fetch brings it whole. Raises: CorruptBatch (a CRC or a bound),
        OffsetOutOfRange (it begins below the end of this log), and what `append` raises for the disk.
        """
        spans, valid, reason = walk(data, check_crc=True)
        if reason is not None:
            raise CorruptBatch(f"fetched from the leader of {self.topic}-{self.number}: {reason}", position=valid)
        with self._lock:
            self._check_usable()
            base_offset = self.next_offset
            view = memoryview(data)
            for span in spans:
                if span.base_offset < self.next_offset:
                    raise OffsetOutOfRange(
                        f"fetched offset {span.base_offset} is below the end of {self.topic}-{self.number}, "
                        f"{self.next_offset}"
                    )
                # One write a batch: the roll rules see what the leader's saw, so the files come out the same.
                self._write(view[span.position : span.position + span.size], span, span.leader_epoch, now_ms)
            return Appended(base_offset, self.next_offset)

    def _write(self, data: bytes | bytearray | memoryview, batch: Batch | BatchSpan, epoch: int, now_ms: int) -> None:
        """The one place where bytes enter the log."""
        try:
            segment = self._segments.active
            if segment.size > 0 and segment.should_roll(batch, now_ms):
                segment = self._roll(batch.base_offset, now_ms)
            if epoch > self.epochs.latest:
                self.epochs.assign(epoch, batch.base_offset)
            segment.append(data, batch)
            self.next_offset = segment.next_offset
        except DiskFull:
            raise
        except BaseException as error:
            # Also an interrupt between the write and its bookkeeping: what memory says is in doubt, the file is not.
            self._latch(error)
            if not isinstance(error, Exception):
                raise
            raise DurabilityUnknown(self._failed_words(error)) from error

    def begin_epoch(self, epoch: int) -> None:
        """Note that the leader of `epoch` begins at the end of the log, before it appends: who follows an older epoch
        learns by it where that one ended (KAFKA-7415). Raises FencedLeaderEpoch when the log knows a newer one.
        """
        with self._lock:
            self._check_usable()
            self._check_epoch(epoch)
            self.epochs.assign(epoch, self.next_offset)

    def _check_epoch(self, epoch: int) -> None:
        if epoch < self.epochs.latest:
            raise FencedLeaderEpoch(
                f"{self.topic}-{self.number}: epoch {epoch} is over, the log is in epoch {self.epochs.latest}"
            )

    def roll(self, now_ms: int) -> None:
        """Start a new segment at the end of the log, unless the active one is empty."""
        with self._lock:
            self._check_usable()
            if self._segments.active.size > 0:
                self._roll(self.next_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        sealed = self._segments.active
        # The closing entry before the new segment can be seen: a reader believes a segment that is not the last.
        sealed.finish()
        # The new files first: where the disk is too full for them, the old segment simply stays the active one.
        segment = self._add_segment(base_offset, now_ms)
        sealed.seal()
        return segment

    # --- durability ------------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Make everything appended so far durable and give `durable_offset`. One caller at a time (the broker's gate).

        Raises: DurabilityUnknown when the disk refused; the partition is latched then.
        """
        with self._lock:
            self._check_usable()
            target = self.next_offset
        if target > self.durable_offset or self._unsynced_names:
            try:
                self._sync_from(self.durable_offset)
            except BaseException as error:
                with self._lock:
                    self._latch(error)
                if not isinstance(error, Exception):
                    raise
                raise DurabilityUnknown(self._failed_words(error)) from error
        with self._lock:
            self.durable_offset = min(max(self.durable_offset, target), self.next_offset)
            return self.durable_offset

    def _sync_from(self, offset: int) -> None:
        names, self._unsynced_names = self._unsynced_names, False
        for segment in self._segments.from_offset(offset):
            segment.sync()
        if names:
            self.files.sync_dir(self.directory)

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, never down and never past the end; publish it.

        Gives whether it moved.
        """
        with self._lock:
            offset = min(offset, self.next_offset)
            if offset <= self.high_watermark:
                return False
            self.high_watermark = offset
            self._publish()
            return True

    def publish(self) -> None:
        """Tell reader processes what they may see."""
        with self._lock:
            self._publish()

    def _publish(self) -> None:
        if self._entry is not None:
            self._entry.publish(self.state())

    def state(self) -> State:
        """The offsets of this moment, as they are published."""
        return State(
            generation=self._generation,
            start_offset=self.start_offset,
            next_offset=self.next_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            durable_offset=self.durable_offset,
            failed=self._failure is not None,
        )

    def _latch(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            logger.error("%s-%d failed and takes no more appends: %s", self.topic, self.number, error)
            try:
                self._publish()
            except PylogError as second:
                # The same disk that failed may refuse this too; the latch in memory stands.
                logger.error("%s-%d: its failure could not be published: %s", self.topic, self.number, second)

    def _failed_words(self, error: BaseException) -> str:
        return (
            f"{self.topic}-{self.number} in {self.directory}: {error!r}. Whether the records of this append are on "
            "disk is unknown; close the log and open it again to read what is there"
        )

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise PartitionFailed(
                f"{self.topic}-{self.number} in {self.directory} failed earlier ({self._failure}); "
                "close the log and open it again"
            )

    # --- truncating ------------------------------------------------------------------------------------------------

    def truncate(self, offset: int, now_ms: int) -> int:
        """Drop everything from `offset` on, down to a batch boundary; gives the new end."""
        if offset < self.start_offset:
            return self.truncate_fully(offset, now_ms)
        with self._lock:
            self._check_usable()
            self._change(offset, lambda: self._truncate_segments(offset))
            self._publish()
        return self.next_offset

    def truncate_fully(self, offset: int, now_ms: int) -> int:
        """Drop everything and start anew at `offset`, which is given back."""
        with self._lock:
            self._check_usable()
            self._change(offset, lambda: self._restart_at(offset, now_ms))
            self.start_offset = self.high_watermark = self.durable_offset = offset
            self._publish()
        return offset

    def _change(self, offset: int, work: Callable[[], None]) -> None:
        """Do `work`, which takes away what lies at `offset` and beyond.

        Readers in other processes are told first that there is less to see, and by the generation that what they have
        read meanwhile may be gone.
        """
        try:
            self._generation += 1
            self.high_watermark = min(self.high_watermark, offset)
            self.durable_offset = min(self.durable_offset, offset)
            self._publish()
            if self._entry is not None:
                # On disk before the files get shorter: else the next open would miss what was taken away on purpose.
                self._entry.sync()
            work()
            self.epochs.truncate_end(self.next_offset)
        except BaseException as error:
            self._latch(error)
            if not isinstance(error, Exception):
                raise
            raise DurabilityUnknown(self._failed_words(error)) from error
        self.durable_offset = min(self.durable_offset, self.next_offset)
        self.high_watermark = min(self.high_watermark, self.next_offset)

    def _truncate_segments(self, offset: int) -> None:
        if offset >= self.next_offset:
            return
        index = self._segments.index_of(offset)
        for segment in reversed(self._segments.keep(index + 1)):
            segment.remove()
        active = self._segments.active
        active.activate()
        active.truncate(offset)
        drop_empty_tail(self._segments)
        self.next_offset = self._segments.active.next_offset
        self._unsynced_names = True
