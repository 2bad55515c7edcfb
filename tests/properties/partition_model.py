"""A partition as a list of batches: what the state machine in test_partition_model.py holds the real one against.

    history   every batch that was appended and not cut off again, as it was written: what producers are known by
    batches   what lies in the files now: without what retention dropped, and as compaction has left it

Slow and without state of its own where that can be helped: what is asked is worked out from the lists each time.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from properties.test_sequence_model import Seen
from pylog.protocol.batch import Batch, Marker, split
from pylog.storage.producer_state import ProducerEntry
from pylog.storage.transaction_index import AbortedTxn


class Row(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Written:
    """One batch in the log. The names are those of `Batch`, so that `Seen` takes it for one."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    rows: tuple[Row, ...]
    size: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    end: Marker | None

    @classmethod
    def of(cls, batch: Batch) -> "Written":
        rows = tuple(Row(r.offset, r.timestamp, r.key, r.value) for r in batch.records("t", 0))
        return cls(
            batch.base_offset, batch.next_offset, batch.leader_epoch, rows, batch.size, batch.max_timestamp,
            batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional, batch.marker(),
        )  # fmt: skip

    @property
    def last_offset(self) -> int:
        return self.next_offset - 1

    @property
    def count(self) -> int:
        return self.next_offset - self.base_offset

    def marker(self) -> Marker | None:
        return self.end


class Txn(NamedTuple):
    """A transaction with data and a marker."""

    producer_id: int
    first: int
    last: int
    is_abort: bool


@dataclass
class Reference:
    """The log of one partition."""

    history: list[Written] = field(default_factory=list)
    batches: list[Written] = field(default_factory=list)
    start: int = 0
    end: int = 0
    """Above the last batch where a truncation went through one."""
    high_watermark: int = 0
    durable: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    known: dict[int, Seen] = field(default_factory=dict)
    """What is known of each producer: its window may have shrunk at a reload, and it may have expired."""
    forgotten_below: int = 0
    """Markers below were read by an earlier life: whether the high watermark had passed them is no longer known."""
    is_compacted: bool = False
    producers_expire: bool = False
    deleted_below: int = 0
    """Whoever replays the log does not know what the records said that were deleted at its start."""

    # --- changes ---------------------------------------------------------------------------------------------------

    def append(self, batch: Written) -> None:
        if batch.leader_epoch >= 0:
            self.assign(batch.leader_epoch, batch.base_offset)
        self.history.append(batch)
        self.batches.append(batch)
        self.end = batch.next_offset
        if batch.producer_id >= 0:
            self.known.setdefault(batch.producer_id, Seen()).take(batch)  # type: ignore[arg-type]

    def assign(self, epoch: int, start: int) -> None:
        """Records from `start` on are of `epoch`: entries that say otherwise go."""
        if not any(known == epoch and since <= start for known, since in self.epochs[-1:]):
            self.epochs = [entry for entry in self.epochs if entry[0] < epoch and entry[1] < start] + [(epoch, start)]

    def advance(self, offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(offset, self.end))

    def cut(self, offset: int) -> None:
        """Everything from `offset` on is gone, whole batches at a time."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        self.history = [batch for batch in self.history if batch.next_offset <= offset]
        self.end = min(self.end, offset)
        self.start = min(self.start, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]

    def restart(self, offset: int, start: int) -> None:
        """Nothing is left, and nothing is remembered."""
        fresh = Reference(start=start, end=offset, high_watermark=offset, durable=offset)
        fresh.is_compacted, fresh.producers_expire = self.is_compacted, self.producers_expire
        vars(self).update(vars(fresh))

    def start_at(self, offset: int) -> None:
        """What lies below `offset` is out of sight; the epoch that goes on there starts there."""
        if offset > self.start:
            self.start = self.deleted_below = offset
            self.start_epochs_at(offset)

    def start_epochs_at(self, offset: int) -> None:
        gone = [entry for entry in self.epochs if entry[1] <= offset]
        if gone:
            self.epochs = [(gone[-1][0], offset), *self.epochs[len(gone) :]]

    def note_epochs(self, base_offset: int) -> None:
        """Recovery reads on from there, and meets epochs that are not known any more."""
        for batch in self.batches:
            if batch.base_offset >= base_offset and batch.leader_epoch > max(
                [epoch for epoch, _ in self.epochs], default=-1
            ):
                self.assign(batch.leader_epoch, batch.base_offset)

    def drop_files_below(self, base_offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.base_offset >= base_offset]

    def adopt(self, entries: dict[int, ProducerEntry], expired: Callable[[Seen], bool]) -> None:
        """Producers were read from snapshots and the log: check that, and remember how much is known of each now.

        What was known may be gone only where its records are, or its time is over.
        """
        told = list(self.told())
        there = {batch.producer_id for batch in self.batches if batch.next_offset > self.start}
        is_whole = not (self.deleted_below or self.is_compacted)
        for producer_id in self.known.keys() & there - entries.keys():
            seen = [truth[producer_id] for truth in told if producer_id in truth]
            assert len(seen) < len(told) or any(
                expired(one if is_whole else replace(one, open_since=None)) for one in seen
            )
        self.known = {}
        for producer_id, entry in entries.items():
            seen = [truth[producer_id] for truth in told if producer_id in truth]
            likely = next((one for one in seen if one.epoch == entry.epoch), seen[0])
            self.known[producer_id] = self.same_producer(entry, likely)
        self.forgotten_below = self.end

    def told(self) -> Iterator[dict[int, Seen]]:
        """What producers are known by: what was written; where compaction has taken markers away, with those alone that
        a snapshot may remember. An emptied marker says nothing, as in Kafka.
        """
        yield producers(self.history)
        left = {batch.base_offset for batch in self.batches if batch.end is not None}
        gone = [batch.base_offset for batch in self.history if batch.end is not None and batch.base_offset not in left]
        for offset in reversed(gone if self.is_compacted else []):
            yield producers([one for one in self.history if one.base_offset < offset or one.base_offset not in gone])

    def same_producer(self, entry: ProducerEntry, truth: Seen) -> Seen:
        """Check that `entry` says what is true, if perhaps less of it; gives what it says.

        Compaction takes markers away whose time has come, and what they said with them. A producer that had expired in
        a snapshot is known by what came after it alone, and so is one whose first records were deleted.
        """
        says_less = self.is_compacted or self.producers_expire or self.deleted_below > 0
        since = entry.current_txn_first_offset
        assert entry.epoch == truth.epoch
        lost_its_begin = self.is_compacted or self.deleted_below > 0
        assert since == truth.open_since or (
            lost_its_begin and truth.open_since is not None and (since is None or since > truth.open_since)
        )
        assert entry.coordinator_epoch == truth.coordinator or (says_less and entry.coordinator_epoch == -1)
        assert entry.last_timestamp == truth.timestamp or self.is_compacted
        window = [tuple(batch) for batch in entry.batches]
        known, latest = [batch[:4] for batch in window], [batch[:4] for batch in truth.window]
        if self.is_compacted:
            # A batch that was taken away because a newer one followed, which a crash has lost.
            assert [batch for batch in latest if batch in known] == known
        else:
            assert known == latest[len(latest) - len(known) :]
        assert says_less or bool(window) == bool(truth.window)
        return replace(
            truth, window=window, open_since=since, coordinator=entry.coordinator_epoch,
            timestamp=entry.last_timestamp,
        )  # fmt: skip

    # --- questions -------------------------------------------------------------------------------------------------

    def transactions(self) -> list[Txn]:
        """Those that have ended, in the order of their markers."""
        return list(ended(self.history))

    def open_since(self) -> list[int]:
        return [seen.open_since for seen in self.known.values() if seen.open_since is not None]

    def stable_offsets(self) -> range:
        """What the last stable offset may be: more than one only where a reload has forgotten what was replicated."""
        pending = [txn for txn in self.transactions() if txn.last >= self.high_watermark]
        sure = [self._begin_known(txn) for txn in pending if txn.last >= self.forgotten_below]
        least = min([*self.open_since(), *(txn.first for txn in pending)], default=self.high_watermark)
        most = min([*self.open_since(), *sure], default=self.high_watermark)
        return range(self._bounded(least), self._bounded(most) + 1)

    def _begin_known(self, txn: Txn) -> int:
        """Where a transaction begins at the latest, as its producer is known: at a record that was not deleted."""
        left = (
            batch.base_offset for batch in self.history
            if batch.producer_id == txn.producer_id and batch.is_transactional
            and max(txn.first, self.deleted_below) <= batch.base_offset <= txn.last
        )  # fmt: skip
        return min(left, default=txn.last)

    def _bounded(self, offset: int) -> int:
        return min(self.high_watermark, max(offset, self.start))

    def rows(self, start: int, upto: int) -> list[Row]:
        """All records, markers too."""
        return [row for batch in self.batches for row in batch.rows if start <= row.offset < upto]

    def committed(self, upto: int) -> list[Row]:
        """What a read_committed consumer is given, from the start of the log to the last stable offset `upto`."""
        aborted = [(txn.producer_id, txn.first, txn.last) for txn in self.transactions() if txn.is_abort]
        return [row for row in _given(self.batches, aborted) if self.start <= row.offset < upto]

    def aborted(self) -> list[AbortedTxn]:
        """The entries of the transaction indexes: each with the last stable offset that its abort has left."""
        found, open_since = [], dict[int, int]()
        for batch in self.history:
            since = open_since.get(batch.producer_id)
            if batch.is_transactional and batch.end is None:
                open_since.setdefault(batch.producer_id, batch.base_offset)
            elif batch.end is not None and since is not None:
                del open_since[batch.producer_id]
                if batch.end.is_abort:
                    stable = min(open_since.values(), default=batch.next_offset)
                    found.append(AbortedTxn(batch.producer_id, since, batch.base_offset, stable))
        return found


def ended(history: Iterable[Written]) -> Iterator[Txn]:
    """The transactions with data and a marker."""
    open_since: dict[int, int] = {}
    for batch in history:
        if batch.end is not None:
            first = open_since.pop(batch.producer_id, None)
            if first is not None:
                yield Txn(batch.producer_id, first, batch.base_offset, batch.end.is_abort)
        elif batch.is_transactional:
            open_since.setdefault(batch.producer_id, batch.base_offset)


def producers(history: Iterable[Written]) -> dict[int, Seen]:
    """What the log from its first record on says of each producer."""
    known: dict[int, Seen] = {}
    for batch in history:
        if batch.producer_id >= 0:
            known.setdefault(batch.producer_id, Seen()).take(batch)  # type: ignore[arg-type]
    return known


def consumed(data: Iterable[Batch], aborted: Iterable[AbortedTxn]) -> list[Row]:
    """What a read_committed consumer makes of batches and the aborted transactions it was told of."""
    return list(
        _given(map(Written.of, data), [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted])
    )


def _given(batches: Iterable[Written], aborted: list[tuple[int, int, int]]) -> Iterator[Row]:
    for batch in batches:
        is_aborted = batch.is_transactional and any(
            producer_id == batch.producer_id and first <= batch.base_offset < last
            for producer_id, first, last in aborted
        )
        if not is_aborted and batch.end is None:
            yield from batch.rows


def parsed(data: bytes | memoryview) -> list[Written]:
    """The batches in `data`, their CRCs checked."""
    return [Written.of(batch) for batch in split(data, check_crc=True)]
