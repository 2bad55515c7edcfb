"""The state of one producer, and the changes that an append would make: values, nothing that does anything.

Sequences number the records of one producer epoch in one partition: 0, 1, ... 2**31 - 1, and 0 again.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pylog.kernel.format import NO_EPOCH

NO_SEQUENCE = -1
BATCHES_KEPT = 5
"""A producer has at most so many batches under way, so any that it repeats is among the last ones."""
MAX_SEQUENCE = 2**31 - 1


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer: by its sequences a retry is known."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry(NamedTuple):
    """The state of one producer; nothing yet, by default. (ProducerStateEntry)"""

    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    """Of the last transaction marker; -1 before the first."""
    last_timestamp: int = -1
    """Of the last batch, markers too, in record time: what expiry goes by."""
    current_txn_first_offset: int | None = None
    """Where the open transaction begins; None when none is open."""
    batches: tuple[BatchMetadata, ...] = ()
    """The last batches of this epoch, at most `BATCHES_KEPT`; none when only a marker is known."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTxn(NamedTuple):
    """A transaction that wrote data and has its marker, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Stamped(Protocol):
    """A batch with its offsets; `Batch` and the kernel's `BatchSpan` both are."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


@dataclass(slots=True)
class AppendPlan:
    """The changes that an append will make, once its bytes are in the log."""

    duplicate: BatchMetadata | None = None
    """The batch was written before, there: nothing is to be written."""
    entries: dict[int, ProducerEntry] = field(default_factory=dict)
    """By producer id."""
    started: list[tuple[int, int]] = field(default_factory=list)
    """(first offset, producer id) of each transaction that begins."""
    completed: list[CompletedTxn] = field(default_factory=list)
    """In the order of their markers."""
    transactional: list[tuple[int, int]] = field(default_factory=list)
    """The producers whose transaction is known to be open now, or over, each with the epoch of the marker that says so
    (NO_EPOCH: records do): nothing is left to verify.
    """


def add_sequence(sequence: int, count: int) -> int:
    """`sequence` moved on by `count`: behind 2**31 - 1 comes 0 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & MAX_SEQUENCE


def sequences(batch: Stamped) -> tuple[int, int]:
    """The sequences of a batch's first and last record; -1 for both when it has none."""
    if batch.base_sequence < 0:
        return NO_SEQUENCE, NO_SEQUENCE
    return batch.base_sequence, add_sequence(batch.base_sequence, batch.last_offset - batch.base_offset)


def find_duplicate(entry: ProducerEntry, batch: Stamped) -> BatchMetadata | None:
    """The batch among the last ones that this one repeats."""
    if entry.epoch != batch.producer_epoch or batch.base_sequence == NO_SEQUENCE:
        return None
    span = sequences(batch)
    return next((known for known in entry.batches if (known.first_sequence, known.last_sequence) == span), None)
