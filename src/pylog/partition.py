"""The log of one partition: segments in order, offsets, watermarks, producers.

    start_offset <= last_stable_offset <= high_watermark <= next_offset,  durable_offset <= next_offset   (half-open)

    [ segment 0 ][ segment 4096 ][ segment 9001, active ]
      sealed, immutable            the only one that is written

`Partition` (Kafka: UnifiedLog) is the face of its parts in `commitlog/`. It makes them, opens them, and closes them. A
call that is one part's alone is an attribute: `sync` is `Durability.sync`.

    state        `kernel.AppendState`: all numbers, in one place; each part says which of them it writes
    local_log    the segments, and what replaces them
    durability   the lock, the latch, syncs
    watermarks   start, high watermark, generation, and what is published of them
    epochs, producers (`storage/`)
    opening; append -> roller, retention; truncation; sealed_segments; partition_reader
"""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from pylog.commitlog.append import Appender
from pylog.commitlog.durability import Durability
from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.opening import Opening
from pylog.commitlog.partition_reader import PartitionReader
from pylog.commitlog.recovery import Checkpoint, Quarantined, Recovered
from pylog.commitlog.retention import Retention
from pylog.commitlog.roller import Roller
from pylog.commitlog.sealed_segments import SealedSegments
from pylog.commitlog.truncation import Truncation
from pylog.commitlog.watermarks import Watermarks
from pylog.config import TopicConfig
from pylog.errors import Closed, CorruptBatch, DirectoryReplaced, LogNotFound, PolicyViolation
from pylog.files import Files, join
from pylog.kernel import Appended, AppendState
from pylog.protocol.batch import Batch, Origin
from pylog.record import TopicPartition
from pylog.segment import Segment
from pylog.storage.checkpoint import write_topic_id
from pylog.storage.checkpoints import Checkpoints
from pylog.storage.file_ranges import Slice
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.log_file import HEAD_BYTES
from pylog.storage.pending_syncs import PendingSyncs
from pylog.storage.producer_state import Producers, Verification
from pylog.storage.published import PublishedEntry
from pylog.storage.segment_checksum import NO_TOPIC, Identity
from pylog.storage.segment_reader import TimestampAndOffset
from pylog.storage.transaction_index import AbortedTxn

__all__ = ["Appended", "Checkpoint", "Partition"]

T = TypeVar("T")


class Partition:
    """One partition of a topic on one node, with its writer. It knows nothing of roles, followers or callers.

    Thread-safe: one lock for writing; reading takes none (bytes below `next_offset` never change while they exist).
    `entry` is its place among the published ones.
    """

    recovered: Recovered | None = None
    """The torn tail that `open` has cut off."""
    quarantined: tuple[Quarantined, ...] = ()
    """The damage that `open` has found."""
    opened_clean = True
    """True if `open` has believed what the last close has left. Else all is synced before anything is promised."""
    has_all_written = True
    """False if `open` has found damage, has cut more than a write that a kill has ended, or knows of a failed sync."""
    as_closed = False
    """True if `open` has found it as this program has closed it: no append can be missing at the end."""
    closed_whole = False
    """True once it was closed with everything in it durable: that makes a log clean."""

    def __init__(
        self, files: Files, directory: str, topic: str, number: int, config: TopicConfig,
        entry: PublishedEntry | None = None, *, checkpoints: Checkpoints | None = None, topic_id: UUID = NO_TOPIC,
        producer_id_expiration_ms: int = 86_400_000, verify_transactions: bool = False,
    ) -> None:  # fmt: skip
        self.files = files
        self.directory = directory
        self.topic = topic
        self.number = number
        self.config = config
        self.topic_id = topic_id
        name, key = f"{topic}-{number}", TopicPartition(topic, number)
        self.state = state = AppendState()
        pending = PendingSyncs(state, files, directory)
        self._local = local = LocalLog(files, directory, config, state, pending, Identity(topic_id, number))
        self._durability = durability = Durability(state, local, pending, name, entry)
        self.epochs = epochs = LeaderEpochs(files, join(directory, "leader-epoch-checkpoint"), state)
        self.producers = producers = Producers(
            name, expiration_ms=producer_id_expiration_ms, verify=verify_transactions, state=state
        )
        self._watermarks = watermarks = Watermarks(state, key, durability, epochs, producers, checkpoints)
        self._roller = roller = Roller(state, local, durability, producers)
        self._retention = retention = Retention(state, local, durability, watermarks, roller, name)
        self._appender = appender = Appender(
            state, local, durability, watermarks, roller, retention, epochs, producers, name
        )  # fmt: skip
        self.look_at, self.append_follower = appender.look_at, appender.append_follower
        self.take_duty, self.begin_epoch = appender.take_duty, appender.begin_epoch
        self._truncation = truncation = Truncation(state, key, local, durability, watermarks, epochs, producers)
        self._opening = Opening(state, key, local, watermarks, epochs, producers, roller, truncation)
        self.sealed = SealedSegments(state, local, durability, watermarks)
        self._reader = reader = PartitionReader(directory, name, state, local.segments)
        self.sync, self.publish, self.latch = durability.sync, durability.publish, durability.latch
        self.note_start, self.aborted = watermarks.note_start, reader.aborted

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.number} [{self.start_offset}, {self.next_offset})>"

    # --- its state ------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self.state.start_offset

    @property
    def next_offset(self) -> int:
        return self.state.next_offset

    @property
    def high_watermark(self) -> int:
        return self.state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """See `AppendState.last_stable_offset`."""
        return self.state.last_stable_offset

    @property
    def durable_offset(self) -> int:
        return self.state.durable_offset

    @property
    def segments(self) -> list[tuple[Segment, int]]:
        """See `PartitionReader.segments`."""
        return self._reader.segments

    @property
    def size(self) -> int:
        """See `PartitionReader.size`."""
        return self._reader.size

    @property
    def segment_count(self) -> int:
        return len(self._local.segments)

    @property
    def bytes_followed(self) -> int:
        """See `Appender.bytes_followed`."""
        return self._appender.bytes_followed

    @property
    def is_open(self) -> bool:
        """True once `create` or `open` was called: before that there is nothing to read."""
        return len(self._local.segments) > 0

    @property
    def is_cut(self) -> bool:
        """True once something was cut off its end since it was opened: offsets may be given again."""
        return self.state.cuts > 0

    @property
    def failed(self) -> bool:
        """See `Durability.failed`."""
        return self._durability.failed

    # --- opening and closing ---------------------------------------------------------------------------------------

    def create(self, topic_id: UUID, now_ms: int, *, start_offset: int = 0) -> None:
        """Make the directory of a new, empty partition."""
        self.make_directory(topic_id)
        state = self.state
        state.start_offset = state.next_offset = state.high_watermark = state.durable_offset = start_offset
        self.epochs.load()
        self.producers.clear()
        self._local.add(start_offset, now_ms)
        self._local.snapshot(self.producers, start_offset)
        state.publish()

    def make_directory(self, topic_id: UUID) -> None:
        """Make the directory. The topic id reaches the disk before any data can."""
        self.files.make_dir(self.directory)
        write_topic_id(self.files, self.directory, topic_id)

    def open(self, checkpoint: Checkpoint, now_ms: int) -> None:
        """Open what is on disk. After an unclean stop everything from the recovery point on is read and checked.

        A bad batch at or beyond the durable offset is a torn tail: it is cut, and `recovered` says where. Below it,
        something that was promised is damaged: it is kept and stepped over, and `quarantined` says where.
        """
        opened = self._opening.run(checkpoint, now_ms)
        self.recovered, self.quarantined = opened.recovered, opened.quarantined
        self.opened_clean, self.as_closed = opened.is_clean, opened.as_closed
        is_cut = self.recovered is not None and not self.recovered.is_one_write
        self.has_all_written = not (is_cut or self.quarantined or checkpoint.failed)

    def checkpoint(self) -> None:
        """See `Watermarks.checkpoint`."""
        self._watermarks.checkpoint(self._local.segments.start)

    def close(self) -> bool:
        """Sync everything and give the descriptors back; whether all of it is durable then (`closed_whole`).

        A sync that is under way is waited for. What interrupts a close latches; a failed partition is left as it is.
        """
        durability = self._durability
        try:
            with durability.syncing:
                is_whole = durability.finish(self.producers) or self.closed_whole
            self.abandon()
            assert not is_whole or self.durable_offset == self.state.written_end, "a clean log is durable to its end"
            self.closed_whole = is_whole
        except BaseException as error:
            durability.latch(error)
            raise
        finally:
            self.abandon()
        return is_whole

    def abandon(self) -> None:
        """Give the descriptors back and write nothing: what an opening that failed is left with."""
        self._local.close()

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on: the next append, roll and clean-up do."""
        with self._durability.lock:
            self.config = config
            self._local.reconfigure(config)
            self._appender.reconfigure(config)

    # --- what comes in ---------------------------------------------------------------------------------------------

    def append(
        self, batch: Batch, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT, transaction_version: int = -1,
        guard: Verification | None = None, wall_ms: Callable[[], int] | None = None,
    ) -> Appended:  # fmt: skip
        """See `Appender.append`; in one step of the kernel where nothing has to be decided, which shows the batch where
        the rules say so.
        """
        plain = self.state.fast_append(
            batch, epoch, now_ms, guard=guard, is_coordinator=origin is Origin.COORDINATOR
        )  # fmt: skip
        if plain is not None:  # pragma: no cover - the pure kernel is measured
            return plain
        return self._appender.append(
            batch, epoch=epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version, guard=guard,
            wall_ms=wall_ms,
        )  # fmt: skip

    def roll(self, now_ms: int) -> int:
        """Start a new segment at the end of the log, unless the active one is empty; gives where it begins."""
        with self._durability.lock:
            self._durability.check_usable()
            return self._roller.roll(now_ms).base_offset

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, supports_epoch_bump: bool = False
    ) -> Verification | None:
        """See `Producers.start_verification`."""
        with self._durability.lock:
            return self.producers.start_verification(
                producer_id, sequence, epoch, now_ms, supports_epoch_bump=supports_epoch_bump
            )

    def expire_producers(self, now_ms: int) -> list[int]:
        """Forget producers that have been idle for `producer.id.expiration.ms`; gives their ids."""
        with self._durability.lock:
            return self.producers.expire(now_ms)

    # --- what is durable, and what may be seen ---------------------------------------------------------------------

    def check_in_place(self) -> None:
        """Latch it where its folder is not the one any more that it was opened in."""
        try:
            with self._durability.lock:
                # A closed one may have moved.
                if not self.state.is_closed:
                    self._local.check_in_place()
        except DirectoryReplaced as error:
            self._durability.latch(error)

    def advance_high_watermark(self, offset: int) -> bool:
        """See `Watermarks.advance_high_watermark`."""
        moved = self.state.fast_advance(offset)
        if moved is not None:  # pragma: no cover - the pure kernel is measured
            return moved
        return self._watermarks.advance_high_watermark(offset)

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False) -> Slice | None:
        """See `PartitionReader.read`: read again when the segment was cut, replaced or dropped meanwhile."""
        reader = self._reader
        found = reader.read_on(offset, min(max_bytes, HEAD_BYTES) if as_extent else max_bytes, upto, all_left=as_extent)
        if found is not None:
            return found
        return self._steadily(lambda: reader.read(offset, max_bytes, upto=upto, as_extent=as_extent))

    def _steadily(self, look: Callable[[], T]) -> T:
        """The result of `look` on files that nothing cuts, replaces or drops meanwhile: else it looks again.

        What it calls damaged it looks at once more while nothing is appended: a batch that came after the end of the
        log was asked for looks as if it could not be.
        """
        while True:
            generation = self.state.generation
            try:
                return look()
            except (Closed, CorruptBatch, LogNotFound):
                with self._durability.lock:
                    if generation == self.state.generation:
                        return look()

    def read_stable(
        self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False
    ) -> tuple[Slice | None, list[AbortedTxn]]:
        """The same up to `upto`, at most the last stable offset, and the aborted transactions with records in just
        what is given. Both from one moment: compaction takes records and the word of their abort away together.
        """
        while True:
            with self._durability.lock:
                generation = self.state.generation
            found = self.read(offset, max_bytes, upto=upto, as_extent=as_extent)
            with self._durability.lock:
                if generation == self.state.generation:
                    return found, self.aborted(offset, found.next_offset) if found is not None else []

    def max_timestamp(self, upto: int) -> TimestampAndOffset | None:
        """See `PartitionReader.max_timestamp`."""
        return self._steadily(lambda: self._reader.max_timestamp(upto))

    def offset_for_time(self, timestamp: int, *, upto: int) -> TimestampAndOffset | None:
        """See `PartitionReader.offset_for_time`."""
        return self._steadily(lambda: self._reader.offset_for_time(timestamp, upto=upto))

    def check(self) -> None:
        """See `PartitionReader.check`. Appending goes on meanwhile."""
        while True:
            generation = self.state.generation
            try:
                return self._reader.check()
            except (Closed, CorruptBatch, LogNotFound):
                with self._durability.lock:
                    if generation == self.state.generation:
                        raise

    # --- what goes -------------------------------------------------------------------------------------------------

    def truncate(self, offset: int, now_ms: int) -> bool:
        """See `Truncation.truncate`."""
        with self._durability.lock:
            return self._truncation.truncate(offset, now_ms)

    def truncate_fully(self, offset: int, now_ms: int, *, start_offset: int | None = None) -> None:
        """Drop everything and start again at `offset`, with nothing visible below `start_offset` (`offset` if None)."""
        with self._durability.lock:
            self._truncation.begin_anew(offset, offset if start_offset is None else start_offset, now_ms)

    def drop_empty_tail(self) -> None:
        """See `Truncation.drop_empty_tail`."""
        with self._durability.lock:
            self._truncation.drop_empty_tail()

    def delete_records(self, offset: int) -> int:
        """Let the log start at `offset` (-1: at the high watermark); gives the new start.

        `LogDirectory.keep_starts` makes it durable. It may lie inside a batch. Whole segments below it go with the next
        `apply_retention`. (DeleteRecords)
        Raises: PolicyViolation (the topic is only compacted), OffsetOutOfRange (above the high watermark),
        NotLeaderOrFollower (this node follows).
        """
        if self.config.cleanup_policy == {"compact"}:
            raise PolicyViolation(f"{self.topic} has cleanup.policy=compact: its records cannot be deleted")
        return self._watermarks.delete_records(offset)

    def advance_start(self, offset: int) -> bool:
        """See `Watermarks.start_at`."""
        with self._durability.lock:
            return self._watermarks.start_at(offset)

    def apply_retention(self, now_ms: int) -> int:
        """See `Retention.apply`. The files go with `purge`, when `file.delete.delay.ms` has passed."""
        return self._retention.apply(now_ms)

    def purge(self, now_ms: int) -> None:
        """Remove the files of segments that were dropped `file.delete.delay.ms` ago. Needs no lock."""
        self._local.trash.purge(now_ms)

    @property
    def purge_due_ms(self) -> int | None:
        """When `purge` has something to do (wall clock, ms); None when nothing waits."""
        return self._local.trash.due_ms
