"""Reading a segment: from an offset on, or from a time; the indexes lead near to it, the batches say where it is."""

from typing import NamedTuple

from pylog.errors import CorruptBatch
from pylog.kernel import CONTROL_BIT, HEADER_BYTES, BatchSpan, ConsumerRecord, take_records
from pylog.kernel.format import OFFSET_MAX
from pylog.protocol.batch import Batch
from pylog.storage.damage_search import DamageSearch, FoundDamage, PlacedBatch
from pylog.storage.file_ranges import Slice, WantedBatches
from pylog.storage.log_file import HEAD_BYTES, WINDOW_BYTES
from pylog.storage.segment_files import SegmentFiles

_BATCH_BYTES = 1 << 14
"""So much behind an index entry holds the batch that is looked for, if it is a small one; a larger one is read again
with four times as much, and again.
"""


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int = -1


class SegmentReader:
    """Reads the files of one segment. Takes no lock."""

    def __init__(self, on_disk: SegmentFiles) -> None:
        self._on_disk = on_disk
        self._log = on_disk.log
        self._base_offset = on_disk.base_offset

    def read(
        self, offset: int, max_bytes: int, *, upto: int, end: int = OFFSET_MAX, written: int = 0,
        as_extent: bool = False,
    ) -> Slice | None:  # fmt: skip
        """Whole batches from the one that holds `offset` on, none that starts at or above `upto`.

        At least one batch even if it is larger than `max_bytes` (KIP-74); None when this segment has nothing in
        [offset, upto). The first batch may begin below `offset`: the reader drops those records. `end` is where the
        segment ends, if that is known; `written` where the log ended at some time. `as_extent`: the bytes may stay in
        the file, and only where they begin and end is looked at. Raises CorruptBatch where `offset` lies in a damaged
        part: `next_offset` is that of the next batch that can be read.
        """
        # First: what was looked up means nothing in a file that is cut, and goes on, meanwhile.
        cuts = self._log.cuts
        wanted = WantedBatches(
            offset, upto, end, max_bytes, written, self._on_disk.offsets.lookup if as_extent else None
        )
        position, expected = self._log.after_last(offset), offset
        if position is not None:
            window = HEAD_BYTES if as_extent else self.window(position, max_bytes)
        else:
            window = HEAD_BYTES if as_extent else max_bytes + self._on_disk.config.index_interval_bytes
            position, expected = self._indexed(offset), self._base_offset
        try:
            found = self._log.read(wanted, position, expected=expected, window=window, cuts=cuts)
        except CorruptBatch as error:
            if error.next_offset is not None or cuts != self._log.cuts:
                raise
            found = None
        return found if found is not None else self._read_checked(wanted, cuts)

    def _indexed(self, offset: int) -> int:
        """Where a batch begins, at or before the one that holds `offset`."""
        indexed, position = self._on_disk.offsets.lookup(offset, log_size=self._log.size())
        if position and self._log.base_of(position, indexed) is None:
            # The index is wrong, or the batch that it names: read from the start, and see.
            return 0
        return position

    def _read_checked(self, wanted: WantedBatches, cuts: int) -> Slice | None:
        """The same with CRCs, where headers alone do not tell what is there."""
        log, (offset, upto, end, max_bytes, written, _) = self._log, wanted
        for known in log.damages:
            if known.offset <= offset < known.next_offset:
                raise log.damaged(known)
        search = DamageSearch(log, end, written=written, at_first=self._near)
        taken: list[PlacedBatch] = []
        for part in search.parts(self._indexed(offset), self._base_offset, upto):
            if isinstance(part, FoundDamage):
                if taken:
                    break
                if offset < part.range.next_offset:
                    raise self._damaged(part, offset)
                continue
            is_next = not taken or (part.position == taken[-1].end and part.end - taken[0].position <= max_bytes)
            if part.span.base_offset >= upto or not is_next:
                break
            if part.span.last_offset >= offset:
                taken.append(part)
        if not taken:
            return None
        return log.between(taken[0].position, taken[-1].end, taken[-1].span.last_offset + 1, cuts)

    def _damaged(self, damage: FoundDamage, offset: int) -> CorruptBatch:
        part = damage.range
        return CorruptBatch.on_reading(
            damage.reason, path=self._log.path, position=part.position, offset=max(offset, part.offset),
            next_offset=part.next_offset,
        )  # fmt: skip

    def window(self, position: int, max_bytes: int) -> int:
        """The bytes to read for as many batches from `position` on as there may be: little of the one that is too many,
        as far as the index knows where that begins.
        """
        interval = self._on_disk.config.index_interval_bytes
        window = max_bytes + interval
        if position + window < self._log.size():
            last = self._on_disk.offsets.last_upto(position + max_bytes)
            if last > position:
                return min(window, last - position + interval)
        return window

    @property
    def _near(self) -> int:
        """The bytes to read first from an index entry on, to meet the batch that it leads to."""
        return min(self._on_disk.config.index_interval_bytes + _BATCH_BYTES, WINDOW_BYTES)

    def offset_for_time(
        self, timestamp: int, *, first: int, upto: int, end: int = OFFSET_MAX, written: int = 0
    ) -> TimestampAndOffset | None:
        """The first record in [first, upto) whose timestamp is at least `timestamp`
        (FileRecords.searchForTimestamp). `end` and `written`: as for `read`.
        """
        indexed = self._on_disk.times.lookup(timestamp)[1]
        position = self._on_disk.offsets.lookup(max(indexed, first), log_size=self._log.size())[1]
        # With CRCs: a batch is passed over for what its header says.
        for data, start, spans, fault in self._log.scan(position, check_crc=True, at_first=self._near):
            for span in spans:
                limit = min(end, written) if span.base_offset < written else end
                if span.last_offset >= limit:
                    raise CorruptBatch(
                        f"a batch header says that it ends at offset {span.last_offset}, and the segment ends before "
                        f"{limit}; run `pylog verify` to see all damage", path=self._log.path, offset=span.base_offset,
                    )  # fmt: skip
                if span.base_offset >= upto:
                    return self._unless_damaged(None, first, upto)
                if span.max_timestamp < timestamp or span.last_offset < first:
                    continue
                behind = span.position + span.size
                found = _first_at_or_after(_records(data, span, first), timestamp, upto)
                if found is not None:
                    if start + behind < self._log.size():
                        head = data[behind : behind + HEADER_BYTES]
                        self._log.check_following(start + behind, span.last_offset + 1, span.leader_epoch, head)
                    return self._unless_damaged(found, first, found.offset)
            if fault is not None and (fault.offset < upto or end < OFFSET_MAX):
                raise CorruptBatch(fault.reason, path=fault.path, position=fault.position, offset=fault.offset)
        return self._unless_damaged(None, first, upto)

    def _unless_damaged(self, found: TimestampAndOffset | None, first: int, upto: int) -> TimestampAndOffset | None:
        """The result of a search by time, unless it may have been in a damaged part: then CorruptBatch is raised."""
        for damage in self._log.damages:
            if first < damage.next_offset and damage.offset < upto:
                raise self._log.damaged(damage)
        return found

    def boundary(self, offset: int) -> tuple[int, int]:
        """The end of the last whole batch that lies below `offset`: (position, next offset)."""
        # The batch of an entry below `offset` stays, so its end is known before the first that goes is met.
        position = self._on_disk.offsets.lookup(offset - 1, log_size=self._log.size())[1]
        kept = self._base_offset
        for _, start, spans, _ in self._log.scan(position, check_crc=False, at_first=self._near):
            for span in spans:
                if span.last_offset >= offset:
                    return start + span.position, kept
                kept = span.last_offset + 1
        return self._log.size(), kept


def _records(data: bytes, span: BatchSpan, first: int) -> list[ConsumerRecord]:
    """The records of the batch at `span`, of which the checksum is right, from offset `first` on."""
    upto_its_end = memoryview(data)[: span.position + span.size]
    if not span.attributes & CONTROL_BIT:
        records, taken, _, _ = take_records(upto_its_end, span.position, first, 1, "", -1, False)
        if taken > span.position:
            return records
    return Batch(upto_its_end[span.position :]).records("", -1, first)


def _first_at_or_after(records: list[ConsumerRecord], timestamp: int, upto: int) -> TimestampAndOffset | None:
    for record in records:
        if record.timestamp >= timestamp:
            if record.offset >= upto:
                return None
            return TimestampAndOffset(record.timestamp, record.offset, record.leader_epoch)
    return None
