"""The search for what cannot be read of a `.log` file: with CRCs, and by what neighbouring headers say of each other.

A batch's own CRC leaves out the batch's place in the log: its length, offset and leader epoch. So a walk by headers
alone may end in the middle of a batch, or pass over whole batches. A search goes on behind damage at the next whole
batch with a right CRC. It changes nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pylog.kernel import BatchSpan
from pylog.kernel.format import NO_EPOCH
from pylog.storage.file_ranges import DamagedRange, Fault, Window
from pylog.storage.log_file import WINDOW_BYTES, LogFile


class PlacedBatch(NamedTuple):
    """A batch in its place, with the `end` behind it.

    `expected` is the lowest offset that it may have, and `before` the leader epoch up to there.
    """

    span: BatchSpan
    position: int
    expected: int
    before: int

    @property
    def end(self) -> int:
        return self.position + self.span.size

    @property
    def is_behind_a_gap(self) -> bool:
        return self.span.base_offset > self.expected


class FoundDamage(NamedTuple):
    """A part that cannot be read, and the reason."""

    range: DamagedRange
    reason: str


class DamageSearch:
    """A search in one file, whose batches end below `end`; what begins below `written` ends there at the latest.

    `epoch` is the leader epoch up to where it begins. The first window that is read has `at_first` bytes; `on_window`
    is called with each.
    """

    def __init__(
        self, log: LogFile, end: int, *, written: int = 0, epoch: int = NO_EPOCH, at_first: int = WINDOW_BYTES,
        on_window: Callable[[Window], object] = lambda _: None,
    ) -> None:  # fmt: skip
        self._log = log
        self._end = end
        self._written = written
        self._epoch = epoch
        self._at_first = at_first
        self._on_window = on_window

    def parts(self, position: int, expected: int, upto: int) -> Iterator[PlacedBatch | FoundDamage]:
        """The good batches from `position` on, where one begins that has no offset below `expected`, and the damage
        between them. What is damaged at `upto` or behind ends it.
        """
        while True:
            fault = None
            for found in self.batches(position, expected):
                if isinstance(found, PlacedBatch):
                    yield found
                else:
                    fault = found
            if fault is None or fault.offset >= upto:
                return
            damage = self.damage(fault)
            yield FoundDamage(damage, fault.reason)
            if damage.end == self._log.size():
                return
            position, expected = damage.end, damage.next_offset

    def damage(self, fault: Fault) -> DamagedRange:
        """All that is lost because of a fault: up to the next good batch, or up to the end."""
        end = min(self._end, self._written or self._end)
        position, following = self._log.resume_after(fault) or (self._log.size(), end)
        return DamagedRange(fault.position, position, fault.offset, max(fault.offset, min(following, self._end)))

    def batches(self, position: int, expected: int) -> Iterator[PlacedBatch | Fault]:
        """The good batches from `position` on up to the first fault, which comes last. Known damage is stepped over.

        A batch is given when the header behind it has been looked at.
        """
        log, epoch, last = self._log, NO_EPOCH, None
        for window in log.scan(position, check_crc=True, expected=expected, at_first=self._at_first):
            self._on_window(window)
            fault = None
            for span in window.spans:
                at = window.position + span.position
                stepped = [part.next_offset for part in log.damages if part.end <= at]
                before = self._epoch if epoch == NO_EPOCH else epoch
                batch = PlacedBatch(span, at, max(expected, *stepped, log.base_offset), before)
                fault = self._fault(batch, last, epoch)
                if fault is not None:
                    break
                if last is not None:
                    yield last
                expected, epoch, last = span.last_offset + 1, span.leader_epoch, batch
            else:
                if window.fault is not None:
                    fault = self._blamed(window.fault, last, last is not None and last.is_behind_a_gap)
            if fault is not None:
                if last is not None and last.position != fault.position:
                    yield last
                yield fault
                return
        if last is not None:
            yield last

    def _fault(self, batch: PlacedBatch, last: PlacedBatch | None, epoch: int) -> Fault | None:
        """The fault in the header of a batch whose CRC is right."""
        span, path = batch.span, self._log.path
        limit = min(self._end, self._written) if span.base_offset < self._written else self._end
        if span.last_offset >= limit:
            reason = f"a batch header says offsets {span.base_offset} to {span.last_offset}, beyond {limit - 1}"
            return Fault(path, batch.position, batch.expected, reason)
        if span.leader_epoch < epoch:
            reason = f"batch headers say leader epoch {epoch} and then {span.leader_epoch}"
            odd = last is not None and last.before < epoch and span.leader_epoch >= last.before
            return self._blamed(Fault(path, batch.position, batch.expected, reason), last, odd)
        return None

    def _blamed(self, fault: Fault, last: PlacedBatch | None, odd: bool) -> Fault:
        """The batch to blame of two neighbours that contradict each other.

        It is the first, where it is the `odd` one and the second is whole.
        """
        if last is None or not odd or last.end != fault.position:
            return fault
        other = Fault(fault.path, last.position, last.expected, fault.reason)
        resumed = self._log.resume_after(other)
        return other if resumed is not None and resumed[0] == fault.position else fault
