"""The leader epoch of each range of offsets: the epoch cache of one partition.

    leader-epoch-checkpoint:  (epoch 0, start 0)  (epoch 5, start 1042)  ...     layout: checkpoint.py

An entry says that records from `start` on, up to the next entry's start, were written by the leader of `epoch`. When
replicas disagree, this is what says where they parted (KIP-101, KIP-279).

Invariants: epochs and start offsets both rise strictly; the file is replaced durably before memory changes, so a
failed write leaves both as they were; an empty history has no file until the first epoch.

Source: Kafka's LeaderEpochFileCache.
"""

from bisect import bisect_right
from contextlib import suppress

from pylog.errors import DiskFull, LogNotFound
from pylog.files import Files
from pylog.kernel import AppendState
from pylog.kernel.format import NO_EPOCH
from pylog.storage.checkpoint import read_epochs, write_epochs

UNDEFINED = (-1, -1)


class LeaderEpochs:
    """The leader epochs of one partition, of which the state has the latest. One writer; readers need no lock."""

    def __init__(self, files: Files, path: str, state: AppendState) -> None:
        self.files = files
        self.path = path
        self._state = state
        self._entries: tuple[tuple[int, int], ...] = ()

    def load(self) -> None:
        """Read the checkpoint, if there is one. Raises StorageError naming file and line when it does not parse."""
        with suppress(LogNotFound):
            self._take(tuple(read_epochs(self.files, self.path)))

    @property
    def latest(self) -> int:
        """The latest epoch, or -1."""
        return self._state.latest_epoch

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset) pairs, rising."""
        return list(self._entries)

    def assign(self, epoch: int, start: int) -> None:
        """Records from offset `start` on are written by the leader of `epoch`. Durable when it returns.

        Nothing happens if that is the latest entry's epoch already, from the same offset or a lower one. Otherwise
        entries that the new one contradicts (a later epoch, or a start at or above this one) are dropped first.
        """
        if epoch < 0 or start < 0:
            raise ValueError(f"epoch {epoch} at offset {start}: neither may be negative")
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start:
            return
        keep = len(entries)
        while keep and (entries[keep - 1][0] >= epoch or entries[keep - 1][1] >= start):
            keep -= 1
        self._replace((*entries[:keep], (epoch, start)))

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch of this log not above `epoch`, and the offset where it ends; (-1, -1): unknown.

        `log_end` is the end of the log, where the latest epoch ends. An epoch below the first known one ends where the
        first one starts.
        """
        entries = self._entries
        if epoch == NO_EPOCH or not entries or epoch > entries[-1][0]:
            return UNDEFINED
        if epoch == entries[-1][0]:
            return epoch, log_end
        following = bisect_right(entries, epoch, key=_epoch)
        if following == 0:
            return epoch, entries[0][1]
        return entries[following - 1][0], min(entries[following][1], log_end)

    def at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was, or will be, written; NO_EPOCH below the first known one."""
        place = bisect_right(self._entries, offset, key=_start)
        return self._entries[place - 1][0] if place else NO_EPOCH

    def truncate_end(self, offset: int) -> None:
        """The log now ends at `offset`: forget epochs that start there or later."""
        kept = tuple(entry for entry in self._entries if entry[1] < offset)
        if len(kept) < len(self._entries):
            self._replace(kept)

    def truncate_start(self, offset: int) -> None:
        """The log now starts at `offset`: forget epochs that ended there; the one that goes on starts there.

        A full disk keeps the old file, which says nothing wrong: deleting records has to work without a byte free.
        """
        gone = [entry for entry in self._entries if entry[1] <= offset]
        if not gone or (gone[-1][1] == offset and len(gone) == 1):
            return
        kept = ((gone[-1][0], offset), *self._entries[len(gone) :])
        try:
            self._replace(kept)
        except DiskFull:
            self._take(kept)

    def clear(self) -> None:
        """Forget everything: the log starts again."""
        if self._entries:
            self._replace(())

    def _replace(self, entries: tuple[tuple[int, int], ...]) -> None:
        write_epochs(self.files, self.path, entries)
        self._take(entries)

    def _take(self, entries: tuple[tuple[int, int], ...]) -> None:
        self._entries = entries
        latest, start = entries[-1] if entries else (NO_EPOCH, 0)
        self._state.latest_epoch_start, self._state.latest_epoch = start, latest


def _epoch(entry: tuple[int, int]) -> int:
    return entry[0]


def _start(entry: tuple[int, int]) -> int:
    return entry[1]
