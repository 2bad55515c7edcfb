"""The transactions that a pass meets while it goes through a log: which data was aborted, which markers are spent.

The transaction indexes say which transactions were aborted; the markers are met on the way. Data of an aborted
transaction goes at once. A marker stays as long as data of its transaction was met in the same pass, since a reader
needs it to tell aborted data from committed; after that it is **spent**, gets a delete horizon, and goes when that is
over. The transaction index of a cleaned segment gets an entry while the aborted data was still met: so the entry
outlives the data by a pass, and goes before the marker. (Kafka: CleanedTransactionMetadata.)
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from pylog.protocol.batch import Batch
from pylog.storage.transaction_index import AbortedTxn


class MarkerVerdict(NamedTuple):
    """The meaning of a control batch for the pass that met it."""

    is_spent: bool
    """Nothing that was met needs it."""
    aborted: AbortedTxn | None
    """The entry that belongs into the transaction index of the segment the marker goes to."""


class _Ongoing:
    __slots__ = ("entry", "had_data")

    def __init__(self, entry: AbortedTxn) -> None:
        self.entry = entry
        self.had_data = False


class CleanedTransactionMetadata:
    """The transactions of a log, while its batches are gone through in order of offsets."""

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTxn]] = []  # by first offset
        self._aborted: dict[int, _Ongoing] = {}  # by producer id
        self._committed: set[int] = set()

    def add(self, entries: Iterable[AbortedTxn]) -> None:
        """Add entries of transaction indexes. One may be added again until its marker was met."""
        for entry in entries:
            heapq.heappush(self._coming, (entry.first_offset, entry))

    def is_aborted(self, batch: Batch) -> bool:
        """Note a batch of data; whether its transaction was aborted."""
        if self._coming:
            self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        ongoing = self._aborted.get(batch.producer_id)
        if ongoing is None:
            self._committed.add(batch.producer_id)
            return False
        ongoing.had_data = True
        return True

    def end(self, batch: Batch) -> MarkerVerdict:
        """Note a control batch. One that ends no transaction is never spent; one without a record is.

        Raises CorruptBatch for a marker that cannot be.
        """
        self._begin(batch.last_offset)
        marker = batch.marker()
        if marker is None:
            return MarkerVerdict(not batch.count, None)
        if marker.is_abort:
            ongoing = self._aborted.pop(batch.producer_id, None)
            if ongoing is not None and ongoing.had_data:
                return MarkerVerdict(False, ongoing.entry)
            return MarkerVerdict(True, None)
        had_data = batch.producer_id in self._committed
        self._committed.discard(batch.producer_id)
        return MarkerVerdict(not had_data, None)

    def _begin(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            entry = heapq.heappop(self._coming)[1]
            self._aborted.setdefault(entry.producer_id, _Ongoing(entry))
