"""The segments that are not written any more: scrubbing notes what they are, compaction replaces them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from pylog.commitlog.durability import Durability
from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.watermarks import Watermarks
from pylog.errors import Closed, CorruptBatch, DiskFull, LogNotFound
from pylog.kernel import AppendState
from pylog.segment import Segment
from pylog.storage.segment_checksum import Mark
from pylog.storage.segment_files import SUFFIXES, file_name

T = TypeVar("T")


class SealedSegments:
    """All segments of one partition but the active one. Thread-safe: changes take the partition's lock."""

    def __init__(self, state: AppendState, local: LocalLog, durability: Durability, watermarks: Watermarks) -> None:
        self._state = state
        self._local = local
        self._durability = durability
        self._watermarks = watermarks

    def end_of(self, segment: Segment) -> int | None:
        """Where a segment ends; None when it is not part of the log any more."""
        return self._local.segments.end_if_there(segment, self._state.next_offset)

    def has(self, segment: Segment) -> bool:
        """Whether a segment is part of the log, and not the one that is written."""
        is_sealed = not self._state.is_closed and segment is not self._local.active
        return is_sealed and self.end_of(segment) is not None

    def file_names(self) -> list[str]:
        """The names of the files that only clean-up changes."""
        bases = self._local.segments.bases[:-1]
        return [file_name(base, kind) for base in bases for kind in SUFFIXES]

    def looked(self, look: Callable[[], T], is_good: Callable[[T], bool]) -> T:
        """The result of `look`. What is not good it looks at once more while nothing is changed: a segment that is cut,
        replaced or dropped while it is read looks damaged.
        """
        with suppress(Closed, CorruptBatch, LogNotFound):
            found = look()
            if is_good(found):
                return found
        with self._durability.lock:
            return look()

    def note_read(self, segment: Segment, log: Mark, now_ms: int) -> None:
        """Put into the seal of a segment what its bytes are: all were read, and are good.

        Nothing, where it is not part of the log any more, or written to. Raises StorageError, Closed.
        """
        with self._durability.lock:
            self._durability.check_usable()
            end = self.end_of(segment)
            if end is None or not self.has(segment) or segment.size != log.size:
                return
            if segment.on_disk.sealed is None:
                segment.on_disk.write_seal(end)
            segment.on_disk.note_read(log, now_ms)

    def replace(self, old: Sequence[Segment], new: Segment, now_ms: int, *, until: Segment) -> bool:
        """Put `new`, written beside the log as `.cleaned` and synced, in the place of the neighbours `old`.

        False, and `new` is removed, when one of them, or `until`, a segment behind them, is no longer part of the log:
        what `new` was made from has been cut then. The active segment cannot be replaced. Raises DiskFull, and nothing
        is left of `new`, DurabilityUnknown (the partition is latched).
        """
        with self._durability.lock:
            self._durability.check_usable()
            there = {id(segment) for segment in self._local.segments.made}
            if not {id(until), *map(id, old)} <= there or old[-1] is self._local.active:
                new.remove()
                return False
            # Readers are told first: what was offered takes its place at the next open, so it cannot be given up.
            try:
                with self._watermarks.changing_files():
                    self._local.offer(new)
                    with self._durability.not_half_done(f"was having segments replaced by {new.path}"):
                        self._local.replace(old, new, now_ms)
            except DiskFull:
                with self._durability.in_doubt():
                    self._local.withdraw(new)
                raise
            return True
