"""The files of one partition: segments in order, what replaces them, and what still has to reach the disk.

    append   -> the active segment; `roll` seals it and begins the next one
    truncate -> segments at the end go, the one that is cut becomes the active one
    drop     -> segments at the start go                      (retention)
    replace  -> some in the middle become one                 (compaction)

What goes is renamed `.deleted` and removed later (`deleted_segments`): a reader may be in it. No locks, no
watermarks, no promises: those are the partition's. (Kafka: LocalLog.)
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice

from pylog.commitlog.deleted_segments import DeletedSegments
from pylog.commitlog.segments import Segments
from pylog.config import TopicConfig
from pylog.errors import DiskFull
from pylog.files import File, Files, join, replaced
from pylog.kernel import AppendState
from pylog.segment import Segment
from pylog.storage.checkpoint import read_damages, write_damages
from pylog.storage.file_ranges import DamagedRange
from pylog.storage.log_file import LogFile
from pylog.storage.pending_syncs import PendingSyncs
from pylog.storage.producer_state import Producers, Snapshots
from pylog.storage.segment_checksum import NOBODY, Identity
from pylog.storage.segment_files import CLEANED, LOG, SWAP, file_name, remove_files
from pylog.storage.segment_list import Listing, forget_listing, write_listing
from pylog.storage.transaction_index import AbortedTxn

logger = logging.getLogger("pylog.commitlog")


class LocalLog:
    """The segments of one partition, and the way to change them.

    It writes `tail` and what the state knows of the active segment's transaction index.
    """

    def __init__(
        self, files: Files, directory: str, config: TopicConfig, state: AppendState, pending: PendingSyncs,
        identity: Identity = NOBODY,
    ) -> None:  # fmt: skip
        self.files = files
        self.directory = directory
        self.config = config
        self.pending = pending
        self.identity = identity
        self._state = state
        self.segments = Segments(self._segment)
        self.active: Segment  # the last of them, once the log is open: appending does not search for it
        self.snapshots = Snapshots(files, directory)
        self.trash = DeletedSegments(files)
        self._damages: dict[int, list[tuple[int, int, int, int]]] = {}
        self._written_damages: dict[int, list[tuple[int, int, int, int]]] = {}
        self.mended: set[int] = set()

    def _segment(self, base_offset: int) -> Segment:
        damages = tuple(DamagedRange(*part) for part in self._damages.get(base_offset, ()))
        return Segment(
            self.files, self.directory, base_offset, self.config, active=False, damages=damages, identity=self.identity
        )

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(
            self.files, self.directory, base_offset, self.config, active=True, create=True, identity=self.identity
        )

    def load(self, listing: Listing) -> None:
        """Take what is in the directory. Damage that is noted behind the end of a file, or without a file, belongs to
        a former file of that name: it was put back, and is read again (`mended`).
        """
        self._written_damages = read_damages(self.files, self.directory)
        for base, parts in self._written_damages.items():
            self._damages[base] = self._still_damaged(base, parts)
            if len(self._damages[base]) < len(parts):
                self.mended.add(base)
        self.segments.load(listing.logs)
        self.snapshots = Snapshots(self.files, self.directory, listing.snapshots)

    def _still_damaged(
        self, base_offset: int, parts: list[tuple[int, int, int, int]]
    ) -> list[tuple[int, int, int, int]]:  # fmt: skip
        if self.files.stat(path := join(self.directory, file_name(base_offset, LOG))) is None:
            return []
        log = LogFile(self.files, path, base_offset)
        try:
            return [part for part in parts if part[1] <= log.size() and not log.has_batch(DamagedRange(*part))]
        finally:
            log.close()

    def lacking_an_index(self, listing: Listing, first: int) -> list[int]:
        """The segments that lack their offset index, or have impossible indexes: places in their order.

        All of them are looked at for a transaction index, few have one; the others when they are first used; those from
        place `first` on are read again in any case. Where damage is repaired, they are as good as missing.
        """
        bases = self.segments.bases
        asked = {bisect_left(bases, base) for base in (*bases[-1:], *listing.transactional) if base in self.segments}
        lacking = {place for place in asked if place < first and not self._has_sane_indexes(place)}
        worn = listing.unindexed | self.mended.intersection(bases)
        return sorted(lacking.union(bisect_left(bases, base) for base in worn))

    def _has_sane_indexes(self, place: int) -> bool:
        segment = self.segments[place]
        sane = segment.on_disk.is_as_sealed() and segment.aborted.sanity() is None
        if place < len(self.segments) - 1:
            # It may never be asked for.
            segment.on_disk.forget_indexes()
        return sane

    def lacking_times(self, listing: Listing) -> list[int]:
        """The segments that lack their time index."""
        bases = self.segments.bases
        return [bisect_left(bases, base) for base in sorted(listing.untimed)]

    def write_damages(self) -> None:
        """Put down what cannot be read any more, where that has changed: what was cut off is not damaged any more."""
        made = {segment.base_offset: segment.log.damages for segment in self.segments.made}
        now: dict[int, Sequence[tuple[int, int, int, int]]] = {**self._damages, **made}
        damages = {
            base: [(*part,) for part in parts] for base, parts in sorted(now.items())
            if parts and base in self.segments
        }  # fmt: skip
        if damages != self._written_damages:
            write_damages(self.files, self.directory, damages)
            self._written_damages = damages
        self._damages = damages

    def damages(self) -> list[tuple[str, DamagedRange]]:
        """The noted ranges that cannot be read any more: the parts of the `.log` files."""
        return [
            (join(self.directory, file_name(base, LOG)), DamagedRange(*part))
            for base, parts in self._damages.items() for part in parts
        ]  # fmt: skip

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on."""
        self.config = config
        for segment in self.segments.made:
            segment.reconfigure(config)

    # --- the end ---------------------------------------------------------------------------------------------------

    def add(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment."""
        remove_files(self.files, self.directory, base_offset)
        self.pending.note_names()
        try:
            segment = self._new_segment(base_offset)
        except DiskFull:
            # What was made of it would stand in the middle of what the old one goes on to take.
            remove_files(self.files, self.directory, base_offset)
            raise
        segment.created_ms = now_ms
        self.segments.add(segment)
        self._appends_to(segment)
        return segment

    def open_active(self) -> None:
        """Appends go to the last segment."""
        self._appends_to(self.segments.active)

    def _appends_to(self, segment: Segment) -> None:
        self.active = segment
        self._note_aborted()
        self._state.tail = segment.tail

    def _note_aborted(self) -> None:
        self._state.aborted_entries, self._state.aborted_crc = self.active.aborted.checksum()

    def reserve_aborted(self, count: int) -> None:
        """Make room for so many aborted transactions, whose markers are about to be appended. Raises DiskFull."""
        self.pending.note_names()
        self.active.aborted.reserve(count)

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Note aborted transactions whose markers are in the active segment now."""
        for txn in transactions:
            self.active.aborted.append(txn)
            # The first one makes the file.
            self.pending.note_names()
            self._note_aborted()

    def fill(self, base_offset: int, next_offset: int) -> Segment:
        """Put an empty segment in the place of one that was lost."""
        remove_files(self.files, self.directory, base_offset)
        self.pending.note_names()
        segment = self._new_segment(base_offset)
        segment.seal(next_offset)
        segment.on_disk.forget_indexes()
        self.segments.swap([], segment)
        return segment

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where the folder is not the one any more that the active segment lies in."""
        log = self.active.log.opened
        if log is not None and not log.is_in_place():
            raise replaced(log.path)

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Seal the active segment and begin a new one; an empty one that begins there already stays.

        All of the log is durable before that, indexes and seals too. So a segment that another one follows has no torn
        tail: what it lacks was lost later. Where the disk has no room for the new one, the next append makes the sealed
        one the active one again.
        """
        sealed = self.segments.active
        if sealed.size == 0 and sealed.base_offset == base_offset:
            return sealed
        if sealed.on_disk.sealed_end not in (None, base_offset):
            # The seal of a clean close, and a gap follows: it may not stand beside what begins behind the gap.
            sealed.activate()
            self.pending.note_names()
        sealed.aborted.trim()
        # A reader believes a segment that is not the last one, so the closing entry and the seal come first, too.
        sealed.seal(base_offset)
        state = self._state
        self.pending.sync_all(self._to_sync(state.durable_offset, with_active=True), state.written_end)
        return self.add(base_offset, now_ms)

    def truncate(self, offset: int, now_ms: int) -> None:
        """Drop every batch that reaches `offset` or beyond."""
        self._cut_off(self.segments.index_of(offset) + 1, now_ms)
        active = self.segments.active
        active.activate()
        active.truncate(offset)
        self._appends_to(active)
        self.write_damages()
        # Durable before anything is written in its place: what was cut off could come back behind that.
        self.pending.note_names()
        self.sync(offset)

    @property
    def has_empty_tail(self) -> bool:
        """Whether the active segment is empty, and not the only one."""
        return len(self.segments) > 1 and self.segments.active.size == 0

    def drop_empty_tail(self) -> None:
        """Remove an empty active segment (`has_empty_tail`) that begins where the one before it ends, which becomes the
        active one.
        """
        before, empty = self.segments[-2], self.segments.active
        if before.load() is None and before.next_offset == empty.base_offset:
            self.segments.keep(len(self.segments) - 1)
            empty.remove()
            before.activate()
            self._appends_to(before)
            self.pending.note_names()

    def restart(self, offset: int, now_ms: int) -> None:
        """Drop everything, producers' snapshots too, and begin again at `offset`."""
        self._cut_off(0, now_ms)
        self.snapshots.clear()
        self.add(offset, now_ms)
        self.write_damages()
        self.sync(offset)
        self.pending.promise(offset, self._state.cuts)

    def _cut_off(self, kept: int, now_ms: int) -> None:
        """Discard all segments but the first `kept`, the last one first: a crash in between must not leave a hole."""
        if len(self.segments) > kept:
            forget_listing(self.files, self.directory)
        while len(self.segments) > kept:
            self._discard(self.segments[-1], now_ms)
            self.files.sync_dir(self.directory)
            self.segments.keep(len(self.segments) - 1)

    # --- the start and the middle ----------------------------------------------------------------------------------

    def drop(self, count: int, now_ms: int) -> None:
        """Drop the first `count` segments, which are not all. One stays on the list until it is away."""
        forget_listing(self.files, self.directory)
        away = 0
        try:
            for segment in islice(self.segments, count):
                self._discard(segment, now_ms)
                away += 1
        finally:
            self.segments.drop(away)
        with suppress(DiskFull):  # of files that are gone it is not believed
            self.write_damages()

    def _discard(self, segment: Segment, now_ms: int) -> None:
        self.pending.note_names()
        self.trash.add(segment, now_ms + self.config.file_delete_delay_ms)
        self.snapshots.forget(segment.base_offset)

    def offer(self, new: Segment) -> None:
        """Make `new`, which is complete and synced as `.cleaned`, a replacement (`.swap`) for segments.

        Raises DiskFull where there is no room for its new names; then it is to be withdrawn.
        """
        forget_listing(self.files, self.directory)
        self.files.sync_dir(self.directory)
        new.on_disk.rename(SWAP)
        self.files.sync_dir(self.directory)

    def withdraw(self, new: Segment) -> None:
        """Remove `new`, of which at least one file is still `.cleaned`."""
        new.close()
        # As long as one is, the others are not believed: a power cut must not take it first.
        for suffix in (SWAP, CLEANED):
            remove_files(self.files, self.directory, new.base_offset, suffix)
            self.files.sync_dir(self.directory)

    def replace(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        """Put `new`, which was offered, in the place of the neighbours `old`.

        The order of renames, each durable before the next, is what `crash_cleanup` reads after a crash.
        (LocalLog.replaceSegments)
        """
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in old:
            goes = segment.base_offset != new.base_offset
            self.trash.add(segment, due_ms, with_snapshot=goes)
            if goes:
                self.snapshots.forget(segment.base_offset)
        self.files.sync_dir(self.directory)
        new.on_disk.rename("")
        self.files.sync_dir(self.directory)
        self.segments.swap(old, new)
        self.write_damages()

    # --- the disk --------------------------------------------------------------------------------------------------

    def sync(self, offset: int) -> None:
        """Make everything from the segment that holds `offset` on durable: bytes first, then the names.

        The indexes of the active segment are not: after a crash they are made again from its batches.
        """
        self.pending.sync(self._to_sync(offset))

    def _to_sync(self, offset: int, *, with_active: bool = False) -> Iterator[File]:
        for segment in self.segments.from_offset(offset):
            yield from segment.on_disk.to_sync(whole=with_active or not segment.is_active)

    def write_again(self, offset: int) -> None:
        """Write what the segments hold, from the one that holds `offset` on, over itself, so that a sync is one again.

        Where one has failed the system calls what it lost written, and shows it until it forgets it.
        """
        for segment in self.segments.from_offset(offset):
            segment.log.write_again()

    def snapshot(self, producers: Producers, offset: int) -> None:
        """Write down the producers as they are at `offset`, unless that was done. A full disk only costs time at the
        next open.
        """
        try:
            written = self.snapshots.take(producers, offset)
        except DiskFull as error:
            logger.warning(
                "%s: no producer snapshot was written: %s", self.directory, error, extra={"path": self.directory}
            )
            return
        if written is not None:
            self.pending.owe(written)

    def seal_active(self) -> None:
        """Write down what the active segment is, at a clean close, and what the directory holds. Where nothing
        was written, that is there already.
        """
        if self.active.is_active:
            self.active.aborted.trim()
            self.pending.sync(self.active.on_disk.to_sync(whole=True))
            self.active.on_disk.retire()
            self.active.on_disk.write_seal(self.active.next_offset)
        write_listing(self.files, self.directory)

    def close(self) -> None:
        """Give the descriptors back, all of them, whatever becomes of one."""
        with ExitStack() as closing:
            closing.callback(self.trash.close)
            closing.callback(self.pending.close)
            for segment in self.segments.made:
                closing.callback(segment.close)
