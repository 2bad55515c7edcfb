"""The opening of a partition: its files are listed, settled, and read as far as they have to be.

    take_stock    what is in the folder                               (storage/segment_list, crash_cleanup)
    load_epochs   the leader epochs, from their checkpoint or from the batches
    Recovery      indexes, epochs and producers come to the end of the log; a torn tail is cut
    Opening       the start of the log, what is durable, and what others may see

No other thread sees the partition yet, so no lock is taken. (Kafka: LogLoader.load)
"""

import logging
from contextlib import suppress
from dataclasses import dataclass

from pylog.commitlog.crash_cleanup import settle
from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.recovery import Checkpoint, Quarantined, Recovered, Recovery
from pylog.commitlog.roller import Roller
from pylog.commitlog.truncation import Truncation
from pylog.commitlog.watermarks import Watermarks
from pylog.errors import DiskFull, StorageError, UnsupportedFormat
from pylog.files import Files
from pylog.kernel import AppendState
from pylog.record import TopicPartition
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.producer_state import Producers
from pylog.storage.segment_list import Listing, compared, listed, read_listing

logger = logging.getLogger("pylog.commitlog")


def take_stock(files: Files, directory: str, checkpoint: Checkpoint) -> Listing:
    """List a partition's folder; after an unclean stop, or where names have changed since, settle it first."""
    is_believed = checkpoint.clean and checkpoint.published
    known, unchanged = read_listing(files, directory) if is_believed else (None, False)
    if known is not None and unchanged:
        return known
    found = listed(settle(files, directory))
    return found if known is None else compared(found, known)


def load_epochs(epochs: LeaderEpochs, local: LocalLog) -> None:
    """Read the leader epochs of a partition; where the checkpoint cannot be read, as the batches have them."""
    try:
        epochs.load()
    except UnsupportedFormat:
        raise
    except StorageError as error:
        logger.warning("the leader epochs are read from the log again: %s", error)
        local.files.remove(epochs.path)
        note_epochs(local, epochs, 0)


def note_epochs(local: LocalLog, epochs: LeaderEpochs, start_offset: int) -> None:
    """Read the leader epochs of what lies at or beyond an offset from the batches, unless they have none. Damage is
    not looked for.
    """
    for segment in local.segments:
        for window in segment.scan(check_crc=False):
            if window.spans and window.spans[0].leader_epoch < 0:
                return
            if window.spans and window.spans[-1].last_offset >= start_offset:
                for epoch, start in window.spans.epochs(epochs.latest):
                    epochs.assign(epoch, start)
    epochs.truncate_start(start_offset)


@dataclass(frozen=True, slots=True)
class Opened:
    """The findings of an opening, and the parts that it made: see the attributes of `Partition`."""

    recovered: Recovered | None
    quarantined: tuple[Quarantined, ...]
    is_clean: bool
    as_closed: bool


class Opening:
    """Opens one partition. It writes `next_offset` in the state, and the `durable_offset` that it begins with."""

    def __init__(
        self, state: AppendState, key: TopicPartition, local: LocalLog, watermarks: Watermarks, epochs: LeaderEpochs,
        producers: Producers, roller: Roller, truncation: Truncation,
    ) -> None:  # fmt: skip
        self._state = state
        self._key = key
        self._local = local
        self._watermarks = watermarks
        self._epochs = epochs
        self._producers = producers
        self._roller = roller
        self._truncation = truncation

    def run(self, checkpoint: Checkpoint, now_ms: int) -> Opened:
        """See `Partition.open`."""
        state, local = self._state, self._local
        recovery = self._read_files(checkpoint, now_ms)
        # It may have found that the log does not end where it was closed.
        checkpoint = recovery.checkpoint
        if not checkpoint.clean:
            # Nothing says that the names there are on the disk.
            local.pending.note_names()
        known = checkpoint.recovery_point if not checkpoint.clean else state.next_offset
        state.durable_offset = min(known, state.next_offset)
        if local.active.log.ends_damaged:
            self._roller.begin(state.next_offset, now_ms)
        if state.next_offset < checkpoint.start_offset:
            self._truncation.restart_at(checkpoint.start_offset, now_ms)
        start_offset = max(checkpoint.start_offset, local.segments.start)
        self._trim_epochs(checkpoint.start_offset, start_offset)
        self._watermarks.begin_at(start_offset, checkpoint.high_watermark)
        as_closed = checkpoint.clean and checkpoint.published and recovery.torn is None
        return Opened(recovery.torn, tuple(recovery.quarantined), checkpoint.clean, as_closed)

    def _read_files(self, checkpoint: Checkpoint, now_ms: int) -> Recovery:
        """Bring the segments, epochs and producers to the end of the log."""
        local = self._local
        listing = take_stock(local.files, local.directory, checkpoint)
        local.load(listing)
        load_epochs(self._epochs, local)
        if not len(local.segments):
            local.add(checkpoint.start_offset, now_ms)
        recovery = Recovery(local, self._key, self._epochs, self._producers, checkpoint, now_ms)
        self._state.next_offset = recovery.run(listing)
        if recovery.checkpoint.failed:
            local.write_again(recovery.checkpoint.recovery_point)
        local.open_active()
        return recovery

    def _trim_epochs(self, known_start: int, start_offset: int) -> None:
        epochs, next_offset = self._epochs, self._state.next_offset
        with suppress(DiskFull):
            # As where an append was refused: until an epoch is noted again, the latest may begin behind the end.
            epochs.truncate_end(next_offset)
        epochs.truncate_start(known_start)
        if not epochs.entries and start_offset < next_offset:
            # The checkpoint is gone, or they were given up with their records, which a crash has brought back.
            note_epochs(self._local, epochs, start_offset)
