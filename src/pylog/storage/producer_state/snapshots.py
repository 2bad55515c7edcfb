"""The .snapshot files of a partition's directory.

    %020d.snapshot      the number is the first offset that the snapshot knows nothing of

They begin segments, and end a log that was closed. None is ever needed: a bad one is removed and the next older one
taken, and without any the log is replayed from its start.
"""

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress

from pylog.errors import CorruptBatch, DiskFull, LogNotFound
from pylog.files import File, Files, join
from pylog.storage.producer_state.producers import Producers

logger = logging.getLogger("pylog.storage")

SNAPSHOT = ".snapshot"
SNAPSHOT_BYTES_MAX = 256 << 20
"""What no snapshot is larger than: five million producers take so much."""


def snapshot_name(offset: int) -> str:
    """The name of the snapshot that speaks for everything below `offset`."""
    return f"{offset:020d}{SNAPSHOT}"


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """The offsets of the snapshots in a partition's directory, rising."""
    stems = (name[: -len(SNAPSHOT)] for name in files.list_dir(directory) if name.endswith(SNAPSHOT))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())


class Snapshots:
    """The snapshots of one partition, which only its owner changes: `offsets` are those there are, rising.

    (ProducerStateManager.)
    """

    def __init__(self, files: Files, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self._directory = directory
        self.offsets = array("q", offsets)

    def path(self, offset: int) -> str:
        """Where the snapshot at `offset` is, or would be."""
        return join(self._directory, snapshot_name(offset))

    def take(self, producers: Producers, offset: int) -> File | None:
        """Write a snapshot of the producers in the log up to `offset`, unless there is one already; gives the file,
        which the caller syncs.

        Raises DiskFull, with no file left behind. (ProducerStateManager.takeSnapshot)
        """
        if offset <= producers.snapshot_offset:
            return None
        file = self._files.open(self.path(offset), create=True)
        try:
            file.truncate(0)
            file.write(0, producers.encode())
        except BaseException as error:
            file.close()
            if isinstance(error, DiskFull):
                self._files.remove(self.path(offset))
            raise
        producers.note_snapshot(offset)
        at = bisect_left(self.offsets, offset)
        if at == len(self.offsets) or self.offsets[at] != offset:
            self.offsets.insert(at, offset)
        return file

    def restore(self, producers: Producers, start: int, end: int, now_ms: int, *, reached: int = -1) -> int:
        """Bring `producers` to an offset at or below `end` from which the log can be replayed, and give it: `end`, if
        that is what they have `reached`; or that of the newest good snapshot; or `start`, with nothing known.

        Snapshots outside (start, end] go, and so do bad ones. (ProducerStateManager.truncateAndReload)
        """
        first = bisect_right(self.offsets, start)
        behind = max(first, bisect_right(self.offsets, end))
        self._remove(self.offsets[:first] + self.offsets[behind:])
        if reached == end:
            producers.note_snapshot(self.offsets[-1] if self.offsets else None)
            producers.start_at(start)
            return end
        offset, bad = self.load(producers, start, end, now_ms)
        if bad:
            logger.warning("producer snapshots are of no use and are removed: %s", ", ".join(map(self.path, bad)))
            self._remove(bad)
        return offset

    def load(self, producers: Producers, start: int, end: int, now_ms: int) -> tuple[int, list[int]]:
        """Load the newest good snapshot in (start, end] into `producers`, and change no file.

        Gives the offset to replay from, which is `start` without one, and the bad snapshots.
        """
        bad: list[int] = []
        for offset in reversed(self.offsets):
            if start < offset <= end:
                try:
                    producers.load(self._files.read_file(self.path(offset), SNAPSHOT_BYTES_MAX), offset, now_ms)
                    return offset, bad
                except (CorruptBatch, LogNotFound):
                    bad.append(offset)
        producers.clear()
        producers.snapshot_offset = start
        return start, bad

    def drop_strays(self, bases: Sequence[int]) -> None:
        """Remove those that match no segment, except the newest if it lies above the last one: that is the one of a
        clean stop. (ProducerStateManager.removeStraySnapshots)
        """
        known = set(bases)
        strays = [offset for offset in self.offsets if offset not in known]
        if strays and strays[-1] > max(bases, default=-1):
            strays.pop()
        self._remove(strays)

    def drop_above(self, offset: int) -> None:
        """Remove those above `offset`."""
        self._remove(self.offsets[bisect_right(self.offsets, offset) :])

    def clear(self) -> None:
        """Remove all."""
        self._remove(self.offsets[:])

    def forget(self, offset: int) -> None:
        """The snapshot at `offset`, if there was one, is going with its segment."""
        if offset in self.offsets:
            self.offsets.remove(offset)

    def _remove(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            with suppress(LogNotFound):
                self._files.remove(self.path(offset))
            self.offsets.remove(offset)
