"""Truncation at the end of a log: what a leader of a later epoch has not, and all of it where the log begins again.

Readers in other processes are told before anything is cut, and so are the checkpoints (`Watermarks.taking_away`,
`lower_start`). Leader epochs and producers follow: they are what the log that is left says. (UnifiedLog.truncateTo)
"""

from pylog.commitlog.durability import Durability
from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.recovery import Checkpoint, Recovery
from pylog.commitlog.watermarks import Watermarks
from pylog.kernel import AppendState
from pylog.record import TopicPartition
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.producer_state import Producers


class Truncation:
    """Cuts the log of one partition, with its lock held."""

    def __init__(
        self, state: AppendState, key: TopicPartition, local: LocalLog, durability: Durability, watermarks: Watermarks,
        epochs: LeaderEpochs, producers: Producers,
    ) -> None:  # fmt: skip
        self._state = state
        self._key = key
        self._local = local
        self._durability = durability
        self._watermarks = watermarks
        self._epochs = epochs
        self._producers = producers

    def truncate(self, offset: int, now_ms: int) -> bool:
        """Drop everything from `offset` on; the log goes on there. Gives whether anything was dropped.

        Inside a batch the whole batch goes, which leaves a gap.
        """
        state, segments = self._state, self._local.segments
        self._durability.check_usable()
        if offset >= state.next_offset:
            self._epochs.truncate_end(state.next_offset)
            return False
        if offset < segments.start:
            self.begin_anew(offset, offset, now_ms)
            return True
        kept = segments[segments.index_of(offset)].reader.boundary(offset)[1]
        self._watermarks.lower_start(offset, min(state.start_offset, offset))
        with self._watermarks.taking_away(offset, kept):
            self._local.truncate(offset, now_ms)
            known, state.next_offset = state.next_offset, offset
            self._epochs.truncate_end(offset)
            checkpoint = Checkpoint(state.start_offset, clean=False)
            recovery = Recovery(self._local, self._key, self._epochs, self._producers, checkpoint, now_ms)
            recovery.finish(offset, known=known)
            self._producers.advance(state.high_watermark)
        return True

    def begin_anew(self, offset: int, start_offset: int, now_ms: int) -> None:
        """Drop everything; the log goes on at `offset`, with nothing visible below `start_offset`."""
        state = self._state
        self._durability.check_usable()
        # Nothing is promised until the log begins again: a crash may find no segment at all.
        self._watermarks.lower_start(offset, min(state.start_offset, start_offset))
        with self._watermarks.taking_away(min(offset, self._local.segments.start), 0):
            self.restart_at(offset, now_ms)
            # What lies below the start needs no snapshot.
            self._producers.snapshot_offset = max(start_offset, offset)
            state.start_offset, state.high_watermark = start_offset, max(start_offset, offset)
            self._producers.advance(offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """The same for the files, epochs and producers alone, where the log is being opened."""
        self._local.restart(offset, now_ms)
        self._epochs.clear()
        self._producers.clear()
        self._producers.snapshot_offset = self._state.next_offset = offset

    def drop_empty_tail(self) -> None:
        """Remove an empty last segment that a crash or a truncation has left behind.

        Whether the next batch starts a segment is for the roll rules to say, which are the same on every replica.
        """
        self._durability.check_usable()
        if self._local.has_empty_tail:
            # Readers may know it.
            with self._watermarks.changing_files():
                self._local.drop_empty_tail()
