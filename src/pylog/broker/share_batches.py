"""The batches of a partition that were read last, for the members of a share group: they acquire them little by little.

Where a batch has many records and each member takes one, it is read once, and not once for each of them.
"""

from collections.abc import Iterable

from pylog.errors import CorruptBatch
from pylog.kernel import CONTROL_BIT, TRANSACTIONAL_BIT, BatchSpan, walk
from pylog.protocol.batch import Batch
from pylog.protocol.isolation import Isolation, VisibleBatches
from pylog.protocol.messages.records import FetchedPart


class ReadBatches:
    """Whole batches that were read. Raises CorruptBatch where the first one is damaged."""

    __slots__ = ("_at", "_batches", "_data", "_isolation", "_spans", "aborted", "record_bytes")

    def __init__(self, found: FetchedPart, isolation: Isolation) -> None:
        spans, end, reason = walk(found.data, check_crc=False)
        if reason is not None and not spans:
            raise CorruptBatch(reason, path=found.path, position=found.position)
        self._data, self._isolation = found.data, isolation
        self._spans = [*spans]
        self._batches = [range(span.base_offset, span.last_offset + 1) for span in spans]
        self._at = 0
        """The first batch that is looked at: those before it were passed."""
        self.aborted = _aborted(found, spans) if found.aborted else []
        self.record_bytes = end // sum(map(len, self._batches)) + 1 if spans else 0
        """How many bytes a record takes, about."""

    def has(self, position: int, records: int, max_bytes: int, isolation: Isolation) -> bool:
        """Whether there are so many records from an offset on, in no more bytes, or in one batch."""
        batches, at = self._batches, self._at
        return (
            at < len(batches)
            and batches[at].start <= position
            and position + records <= batches[-1].stop
            and (len(self._data) - self._spans[at].position <= max_bytes or at + 1 == len(batches))
            and self._isolation is isolation
        )

    def first_bytes(self, position: int) -> int:
        """The size of the batch that has an offset, or is the next behind it."""
        return self._spans[self._at].size if self.batches(position) else 0

    def batches(self, position: int) -> list[range]:
        """The offsets of each batch from the one on that has an offset, or is the next behind it."""
        while self._at < len(self._batches) and self._batches[self._at].stop <= position:
            self._at += 1
        return self._batches[self._at :]

    def bytes_of(self, first: int, last: int) -> memoryview:
        """The whole batches that have records from `first` to `last`."""
        spans, at = self._spans, self._at
        while spans[at].last_offset < first:
            at += 1
        end = at
        while end + 1 < len(spans) and spans[end + 1].base_offset <= last:
            end += 1
        return self._data[spans[at].position : spans[end].position + spans[end].size]


def _aborted(found: FetchedPart, spans: Iterable[BatchSpan]) -> list[range]:
    """The batches of aborted transactions."""
    visible = VisibleBatches(found.aborted)
    aborted = []
    for span in spans:
        if span.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
            batch = Batch(found.data[span.position : span.position + span.size])
            if not visible.gives(batch) and not batch.is_control:
                aborted.append(range(span.base_offset, span.last_offset + 1))
    return aborted
