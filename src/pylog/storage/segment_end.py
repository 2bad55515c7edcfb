"""The end of a segment, and its largest timestamp: the indexes lead near to them, the batches behind say the rest."""

from typing import NamedTuple

from pylog.kernel.format import NO_TIMESTAMP
from pylog.storage.file_ranges import Fault
from pylog.storage.segment_files import SegmentFiles


class SegmentEnd(NamedTuple):
    """Where a segment ends, and the largest timestamp in it, with the last offset of the first batch that has it."""

    next_offset: int
    timestamp: int
    timestamp_offset: int
    fault: Fault | None


class EndFinder:
    """Finds the end of one segment. It changes nothing, and takes no lock."""

    def __init__(self, on_disk: SegmentFiles) -> None:
        self._on_disk = on_disk
        self._log = on_disk.log
        self._base_offset = on_disk.base_offset
        # For want of a time index: how much of the log a reader has looked at, and the largest timestamp there.
        self._seen = 0, NO_TIMESTAMP, on_disk.base_offset

    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp with its offset, from the time index; the batches, where they have to."""
        on_disk = self._on_disk
        last = on_disk.times.last
        if last is not None:
            return last
        if on_disk.sealed is not None and on_disk.times.believed:
            return NO_TIMESTAMP, self._base_offset
        # The index may have been lost: then time look-ups would pass over the segment.
        seen, newest, offset = self._seen
        for window in self._log.scan(seen, check_crc=False):
            for span in window.spans:
                if span.max_timestamp > newest:
                    newest, offset = span.max_timestamp, span.last_offset
                seen = window.position + span.position + span.size
        if on_disk.files.read_only:
            # The owner looks once; from what another thread has seen before a cut nothing is to follow.
            self._seen = seen, newest, offset
        return newest, offset

    def find(self) -> SegmentEnd:
        """Where the segment ends: only what lies behind the last index entry is read."""
        last, known = self._on_disk.offsets.last, self.largest_timestamp()
        position = last[1] if last is not None and last[1] < self._log.size() else 0
        found = self._from(position, known)
        if found.fault is not None and position > 0:
            # The entry may name what a crash has torn: then the end lies before it.
            found = self._from(0, known)
        return found

    def _from(self, position: int, known: tuple[int, int]) -> SegmentEnd:
        end, fault = self._base_offset, None
        newest, offset = known
        for _, _, spans, fault in self._log.scan(position, check_crc=False):
            for span in spans:
                if span.max_timestamp > newest:
                    newest, offset = span.max_timestamp, span.last_offset
                end = span.last_offset + 1
            if fault is not None:
                break
        return SegmentEnd(end, newest, offset, fault)
