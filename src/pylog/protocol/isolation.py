"""The part of transactions that a consumer sees, for the node that answers a fetch and the client that sent it.

    read_uncommitted   all data below the high watermark
    read_committed     data below the last stable offset, without that of aborted transactions

A node answers bytes as they lie in the log, and with them the aborted transactions that have records in just these
bytes; the reader leaves their batches out. (Kafka: IsolationLevel, CompletedFetch; KIP-98.)
"""

import enum
from collections.abc import Iterable
from typing import Literal

from pylog.protocol.batch import Batch

IsolationLevel = Literal["read_uncommitted", "read_committed"]


class Isolation(enum.Enum):
    """The isolation level of a reader; the values are those of Kafka's requests."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @classmethod
    def named(cls, level: str) -> "Isolation":
        """The isolation with Kafka's name, `read_uncommitted` or `read_committed`. Raises ValueError."""
        if level not in ("read_uncommitted", "read_committed"):
            raise ValueError(f'isolation_level is {level!r}, not "read_uncommitted" or "read_committed"')
        return cls[level.upper()]


def isolation_of(level: int) -> Isolation:
    """The isolation of a request. A level that is not known is read_uncommitted."""
    return Isolation.READ_COMMITTED if level == 1 else Isolation.READ_UNCOMMITTED


class VisibleBatches:
    """A filter of the batches of one fetch, asked in their order: it tells those that a reader is given.

    Control batches are never given, and no batch of a transaction in `aborted`: (producer id, first offset) pairs, each
    in force from that offset on until the producer's abort marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]] = ()) -> None:
        self._coming = sorted(((first, producer_id) for producer_id, first in aborted), reverse=True)
        self._aborting: set[int] = set()

    def gives(self, batch: Batch) -> bool:
        """Whether the records of `batch` are for the reader. Raises CorruptBatch for an invalid marker."""
        while self._coming and self._coming[-1][0] <= batch.last_offset:
            self._aborting.add(self._coming.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._aborting:
                marker = batch.marker()
                if marker is not None and marker.is_abort:
                    self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)
