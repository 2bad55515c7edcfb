"""Records on their way to becoming a batch: one open batch a partition, and closed ones waiting to be sent in order.

A batch is closed when the next record would make it larger than `batch_size`, when its first record has waited for
`linger_ms`, or when someone flushes. It enters its partition's queue in the same call that closed it, so batches of a
partition cannot overtake each other.

A data structure: no thread, no lock (the producer holds one around it), no clock. A record waits as a
tuple; its batch is encoded as a whole when it is sent.
"""

from collections import deque
from dataclasses import dataclass, field

from pylog.future import Delivery, Future
from pylog.kernel import record_size_bound
from pylog.record import RecordMetadata, TopicPartition

BATCH_HEADER_BYTES = 61

Row = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]


@dataclass(slots=True, eq=False)
class OpenBatch:
    """Records for one partition with the delivery that will answer all their futures."""

    key: TopicPartition
    due_ms: int
    delivery: Delivery
    rows: list[Row] = field(default_factory=list)
    size: int = BATCH_HEADER_BYTES


class Accumulator:
    """`add` records, take the batches that are `ready`, in order within each partition."""

    def __init__(self, *, batch_size: int, linger_ms: int) -> None:
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._open: dict[TopicPartition, OpenBatch] = {}
        self._closed: dict[TopicPartition, deque[OpenBatch]] = {}
        self.bytes_waiting = 0
        """An upper bound of what the waiting records will take, closed batches that were not yet taken included."""

    def add(self, key: TopicPartition, row: Row, size: int, tick_ms: int) -> tuple[Future[RecordMetadata], bool]:
        """Put a record into its partition's open batch; gives its future and whether a batch is ready now."""
        batch = self._open.get(key)
        closed = False
        if batch is not None and batch.size + size > self._batch_size:
            self._close(batch)
            batch, closed = None, True
        if batch is None:
            # Batches are opened in the order in which they fall due, which is the order of a dict.
            batch = self._open[key] = OpenBatch(key, tick_ms + self._linger_ms, Delivery(key.topic, key.partition))
        future = batch.delivery.future(len(batch.rows), row[2])
        batch.rows.append(row)
        batch.size += size
        self.bytes_waiting += size
        if self._linger_ms == 0 or batch.size >= self._batch_size:
            self._close(batch)
            closed = True
        return future, closed

    @property
    def next_due_ms(self) -> int | None:
        """When the first open batch has waited long enough; None when none is open."""
        first = next(iter(self._open.values()), None)
        return first.due_ms if first is not None else None

    def close_due(self, tick_ms: int | None = None) -> list[TopicPartition]:
        """Close the batches that have waited long enough (None: all); gives the partitions that have batches ready."""
        for batch in list(self._open.values()):
            if tick_ms is not None and batch.due_ms > tick_ms:
                break
            self._close(batch)
        return list(self._closed)

    def take(self, key: TopicPartition) -> OpenBatch | None:
        """The next closed batch of a partition, in order; None when there is none."""
        queue = self._closed.get(key)
        if not queue:
            return None
        batch = queue.popleft()
        if not queue:
            del self._closed[key]
        return batch

    def release(self, batch: OpenBatch) -> None:
        """The batch was answered: its bytes are free."""
        self.bytes_waiting -= batch.size - BATCH_HEADER_BYTES

    def _close(self, batch: OpenBatch) -> None:
        del self._open[batch.key]
        self._closed.setdefault(batch.key, deque()).append(batch)


def record_size(row: Row) -> int:
    """An upper bound of the encoded size of a record, in bytes."""
    return record_size_bound(row[0], row[1], row[3])
