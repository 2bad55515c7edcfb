"""The files of one partition: segments in order, what replaces them, and what still has to reach the disk.

    append   -> the active segment; `roll` seals it and begins the next one
    truncate -> segments at the end go, the one that is cut becomes the active one
    drop     -> segments at the start go                      (retention)
    replace  -> some in the middle become one                 (compaction)

What goes is renamed `.deleted` and removed later (`trash`): somebody may be reading it. No locks, no watermarks, no
promises: those are the partition's. (Kafka: LocalLog.)
"""

import logging
from collections.abc import Sequence

from pylog.checkpoint import read_damages, write_damages
from pylog.config import TopicConfig
from pylog.errors import DiskFull
from pylog.files import File, Files, join
from pylog.logfile import Damage
from pylog.segment import SUFFIXES, SWAP, Segment, file_name
from pylog.segments import Segments, logs_among
from pylog.sequence import Producers, snapshot_name, snapshot_offsets, take_snapshot
from pylog.trash import Trash

logger = logging.getLogger("pylog")


class LocalLog:
    """The segments of one partition, and the way to change them."""

    def __init__(self, files: Files, directory: str, config: TopicConfig) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.segments = Segments(self._segment)
        self.trash = Trash(files)
        self._damages: dict[int, list[tuple[int, int, int, int]]] = {}
        self._unsynced: list[File] = []
        self._unsynced_names = False

    def _segment(self, base_offset: int) -> Segment:
        damages = tuple(Damage(*part) for part in self._damages.get(base_offset, ()))
        return Segment(self.files, self.directory, base_offset, self.config, active=False, damages=damages)

    def load(self, names: Sequence[str]) -> None:
        """Take the segments among the `names` in the directory."""
        self._damages = read_damages(self.files, self.directory)
        self.segments = Segments(self._segment, logs_among(names))

    def lacking_an_index(self, names: Sequence[str]) -> list[int]:
        """Which segments lack their offset index, or have a transaction index that cannot be: places in their order."""
        known, found = set(names), []
        for place, base in enumerate(self.segments.bases):
            has_aborted = file_name(base, ".txnindex") in known
            if file_name(base, ".index") not in known or (
                has_aborted and self.segments[place].aborted.sanity() is not None
            ):
                found.append(place)
        return found

    def lacking_times(self, names: Sequence[str]) -> list[int]:
        """Which segments lack their time index."""
        known = set(names)
        return [i for i, base in enumerate(self.segments.bases) if file_name(base, ".timeindex") not in known]

    def write_damages(self) -> None:
        """Put down what cannot be read any more."""
        write_damages(self.files, self.directory, self.segments.damages())

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on."""
        self.config = config
        for segment in self.segments.made:
            segment.reconfigure(config)

    # --- the end ---------------------------------------------------------------------------------------------------

    def add(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment."""
        for kind in SUFFIXES:
            path = join(self.directory, file_name(base_offset, kind))
            if self.files.stat(path) is not None:
                self.files.remove(path)
        segment = Segment(self.files, self.directory, base_offset, self.config, active=True, create=True)
        segment.created_ms = now_ms
        self.segments.add(segment)
        self._unsynced_names = True
        return segment

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Seal the active segment and begin a new one; an empty one that begins there already stays."""
        sealed = self.segments.active
        if sealed.size == 0 and sealed.base_offset == base_offset:
            return sealed
        # The closing entry before the new segment can be seen: a reader believes a segment that is not the last.
        sealed.finish()
        # The new files first: where the disk is too full for them, the old segment simply stays the active one.
        segment = self.add(base_offset, now_ms)
        sealed.seal()
        return segment

    def truncate(self, offset: int, now_ms: int) -> None:
        """Drop every batch that reaches `offset` or beyond."""
        self._discard(self.segments.keep(self.segments.index_of(offset) + 1), now_ms)
        active = self.segments.active
        active.activate()
        active.truncate(offset)
        self._unsynced_names = True

    def drop_empty_tail(self) -> None:
        """Remove an empty active segment that begins where the one before it ends, which becomes the active one."""
        if len(self.segments) < 2 or self.segments.active.size > 0:
            return
        before, empty = self.segments[-2], self.segments.active
        if before.load() is None and before.next_offset == empty.base_offset:
            self.segments.keep(len(self.segments) - 1)
            empty.remove()
            before.activate()
            self._unsynced_names = True

    def restart(self, offset: int, now_ms: int) -> None:
        """Drop everything, producers' snapshots too, and begin anew at `offset`."""
        self._discard(self.segments.keep(0), now_ms)
        for snapshot in snapshot_offsets(self.files, self.directory):
            self.files.remove(join(self.directory, snapshot_name(snapshot)))
        self.add(offset, now_ms)

    # --- the start and the middle ----------------------------------------------------------------------------------

    def drop(self, count: int, now_ms: int) -> None:
        """Drop the first `count` segments, which are not all."""
        self._discard(self.segments.drop(count), now_ms)

    def _discard(self, segments: Sequence[Segment], now_ms: int) -> None:
        for segment in segments:
            self.trash.add(segment, now_ms + self.config.file_delete_delay_ms)
        self._unsynced_names = True

    def replace(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        """Put `new`, which is complete and synced as `.cleaned`, in the place of the neighbours `old`.

        The order of renames, each durable before the next, is what `recovery.settle` reads after a crash.
        (LocalLog.replaceSegments)
        """
        new.rename(SWAP)
        self.files.sync_dir(self.directory)
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in old:
            self.trash.add(segment, due_ms, with_snapshot=segment.base_offset != new.base_offset)
        self.files.sync_dir(self.directory)
        new.rename("")
        self.files.sync_dir(self.directory)
        self.segments.swap(old, new)

    # --- the disk --------------------------------------------------------------------------------------------------

    @property
    def has_unsynced_names(self) -> bool:
        """Whether files came or went since the last `sync`."""
        return self._unsynced_names

    def sync(self, offset: int) -> None:
        """Make everything from the segment that holds `offset` on durable: bytes first, then the names."""
        names, self._unsynced_names = self._unsynced_names, False
        unsynced, self._unsynced = self._unsynced, []
        for segment in self.segments.from_offset(offset):
            segment.sync()
        for file in unsynced:
            file.sync()
            file.close()
        if names:
            self.files.sync_dir(self.directory)

    def snapshot(self, producers: Producers) -> None:
        """Write the producers down as they are, unless that was done. A full disk only costs time at the next open."""
        try:
            written = take_snapshot(self.files, self.directory, producers)
        except DiskFull as error:
            logger.warning("%s: no producer snapshot was written: %s", self.directory, error)
            return
        if written is not None:
            self._unsynced.append(written)
            self._unsynced_names = True

    def close(self) -> None:
        """Give the descriptors back."""
        for segment in self.segments.made:
            segment.close()
        for file in self._unsynced:
            file.close()
        self.trash.close()
