"""The rules for the batches and records that a pass keeps.

Of the records up to where the key map has come: those with a key that is not newer in the map; a tombstone only until
the delete horizon of its batch. What lies beyond stays as it is. Of the batches: not those of aborted transactions, nor
markers that are spent and whose horizon is over. Two stay though they be empty:

- the last one of each active producer, which holds its last sequence number and epoch: what the producer sends next
  is checked against them (KAFKA-5490);
- the last one of the range that is cleaned, which holds the log's next offset (KAFKA-17076).

Records without a key have no place in a compacted log and go. A marker's key is no user's key: control batches are
told by their header alone (KAFKA-14055). (Kafka: Cleaner.cleanInto.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.commitlog.compaction.filter import BatchRetention, Filtered, filter_batch
from pylog.commitlog.compaction.offset_map import KeyMap
from pylog.commitlog.compaction.transactions import CleanedTransactionMetadata
from pylog.kernel import MAX_TIMESTAMP, Judgement, RecordSpans
from pylog.protocol.batch import Batch
from pylog.storage.transaction_index import AbortedTxn

_VALUES = frozenset({Judgement.NEWEST, Judgement.UNSEEN})
_KEEPS_VALUES = bytes(judgement in _VALUES for judgement in range(256))
_KEEPS_TOMBSTONES = bytes(judgement in _VALUES | {Judgement.NEWEST_TOMBSTONE} for judgement in range(256))


class LastBatch(NamedTuple):
    """The last batch of an active producer, and the parts of it to keep."""

    last_offset: int
    """The last offset of its last batch of data; -1 when only a marker is known of it."""
    epoch: int


@dataclass(slots=True)
class Rules:
    """The decisions of one pass, batch by batch in order of offsets."""

    keys: KeyMap
    transactions: CleanedTransactionMetadata
    producers: Mapping[int, LastBatch]
    end_offset: int
    """The end of the range that this pass cleans: the batch that ends there stays."""
    now_ms: int
    delete_retention_ms: int
    without_key: int = field(default=0, init=False)
    """Records dropped because they have no key."""
    tombstones: int = field(default=0, init=False)
    """Tombstones that stay."""
    tombstones_until_ms: int = field(default=-1, init=False)
    """The delete horizon of the last of them; -1 without one."""
    aborted: list[AbortedTxn] = field(default_factory=list, init=False)
    """Entries for the transaction index of the segment being written; its writer empties this."""

    def apply(self, batch: Batch) -> Filtered:
        """Filter the next batch. Raises CorruptBatch."""
        is_spent = False
        if batch.is_control:
            is_spent, entry = self.transactions.end(batch)
            if entry is not None:
                self.aborted.append(entry)
            goes = is_spent and batch.has_delete_horizon and batch.base_timestamp <= self.now_ms
        else:
            goes = self.transactions.is_aborted(batch)
        retention = BatchRetention.DROP if goes else BatchRetention.DROP_EMPTY
        if batch.next_offset == self.end_offset or self._is_last_of_producer(batch):
            retention = BatchRetention.KEEP_EMPTY

        def keep(spans: RecordSpans) -> RecordSpans:
            if goes:
                return RecordSpans()
            return spans if batch.is_control else self._newest(batch, spans)

        return filter_batch(
            batch, retention, keep, now_ms=self.now_ms, delete_retention_ms=self.delete_retention_ms,
            is_spent_marker=is_spent,
        )  # fmt: skip

    def _is_last_of_producer(self, batch: Batch) -> bool:
        last = self.producers.get(batch.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _newest(self, batch: Batch, spans: RecordSpans) -> RecordSpans:
        """The records of a batch that are not superseded."""
        if batch.base_offset > self.keys.latest_offset:
            return spans
        judgements = self.keys.judge(spans)
        self.without_key += judgements.count(Judgement.WITHOUT_KEY)
        keeps_tombstones = not batch.has_delete_horizon or self.now_ms < batch.base_timestamp
        if keeps_tombstones:
            self._count_tombstones(batch, judgements.count(Judgement.NEWEST_TOMBSTONE))
        return spans.select(judgements.translate(_KEEPS_TOMBSTONES if keeps_tombstones else _KEEPS_VALUES))

    def _count_tombstones(self, batch: Batch, number: int) -> None:
        if number:
            has_one = batch.has_delete_horizon
            horizon_ms = batch.base_timestamp if has_one else self.now_ms + self.delete_retention_ms
            self.tombstones += number
            self.tombstones_until_ms = max(self.tombstones_until_ms, min(horizon_ms, MAX_TIMESTAMP))
