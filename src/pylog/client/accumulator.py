"""Records on their way to becoming a batch: one open batch a partition, and closed ones waiting to be sent in order.

A batch is closed when the next record does not fit into `batch_size`, when its first record has waited for `linger_ms`,
when a flush asks for it, or when it is taken to be sent. It enters its partition's queue when it is closed. Without
linger it enters the queue with its first record, still open: it takes more records for as long as an earlier batch of
its partition keeps it there. So batches of a partition cannot overtake each other. A record is encoded when it is
added: the queue holds bytes, and sizes are exact.

A data structure: no thread, no lock (the producer holds one around it), no clock. Without that lock `record_append`
adds records to the batches in `routes`.
"""

from collections import deque

from pylog.client.record_append import Bring, OpenBatches, ProducerBatch, Route, StickyPartitioner
from pylog.kernel.values import Headers
from pylog.protocol.batch import Batch
from pylog.record import RecordMetadata, TopicPartition
from pylog.runtime.future import Future


class Accumulator(OpenBatches):
    """`add` records, take the batches that are `ready`, in order within each partition.

    Where it is not `direct`, no batch is in `routes`: every record takes the long way.
    """

    def __init__(self, *, batch_size: int, linger_ms: int, direct: bool = True) -> None:
        super().__init__()
        self._known: dict[str, Route] = self.routes if direct else {}
        self._sticky: dict[str, StickyPartitioner] = {}
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._open: dict[TopicPartition, ProducerBatch] = {}
        self.queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        """The batches that are ready, in order; a partition without any is not in it."""
        self.unanswered: set[ProducerBatch] = set()
        """The batches that were ready and are not released yet."""

    def route(self, topic: str, partitions: int) -> Route:
        """The route of a topic that has so many partitions now."""
        route = self._known.get(topic)
        if route is None:
            route = self._known[topic] = Route(self.sticky(topic), [])
        if len(route.batches) != partitions:
            route.batches = [self._open.get(TopicPartition(topic, number)) for number in range(partitions)]
        return route

    def add(
        self,
        where: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        headers: Headers,
        tick_ms: int,
        bring: Bring | None = None,
    ) -> tuple[Future[RecordMetadata], bool]:
        """Put a record into its partition's open batch; gives its future and whether a batch is ready now.

        `bring`: see `Delivery`.
        """
        batch = self._open.get(where)
        if batch is not None:
            future = self.append(batch, value, key, timestamp, headers)
            if future is not None:
                return future, False
            self._close_due(batch)
        batch = ProducerBatch(where, self._batch_size, tick_ms + self._linger_ms, bring)
        future = self.append(batch, value, key, timestamp, headers)
        assert future is not None, "the first record always fits"
        # Batches are opened in the order in which they fall due, which is the order of a dict.
        self._open[where] = batch
        self._place(where, batch)
        if self._linger_ms == 0:
            self._queue(batch)
        if batch.size >= self._batch_size:
            self._close_due(batch)
        return future, where in self.queues

    def alone(
        self,
        where: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        headers: Headers,
        tick_ms: int,
        bring: Bring | None,
    ) -> tuple[Future[RecordMetadata], ProducerBatch]:
        """Make a batch of one record that is taken at once: where nothing of its partition waits, or is on its way."""
        batch = ProducerBatch(where, self._batch_size, tick_ms, bring)
        future = self.append(batch, value, key, timestamp, headers)
        assert future is not None, "the first record always fits"
        self.unanswered.add(batch)
        return future, batch

    def add_sealed(
        self, where: TopicPartition, sealed: Batch, tick_ms: int, bring: Bring | None
    ) -> Future[RecordMetadata]:
        """Queue a batch that someone else has made, behind the records of its partition; gives its first record's
        future. It is ready.
        """
        batch = self._open.get(where)
        if batch is not None:
            self._close_due(batch)
        batch = ProducerBatch(where, 0, tick_ms + self._linger_ms, bring, sealed)
        self.hold(batch)
        self._queue(batch)
        return batch.delivery.future(0, sealed.base_timestamp)

    def sticky(self, topic: str) -> StickyPartitioner:
        """The partitioner of records without a key; it outlives the routes."""
        found = self._sticky.get(topic)
        if found is None:
            found = self._sticky[topic] = StickyPartitioner(self._batch_size)
        return found

    @property
    def next_due_ms(self) -> int | None:
        """When the first open batch has waited long enough; None when none is open that waits for a time."""
        if self._linger_ms == 0:
            return None
        first = next(iter(self._open.values()), None)
        return first.due_ms if first is not None else None

    def close_due(self, tick_ms: int | None = None) -> list[TopicPartition]:
        """Close the batches that have waited long enough (None: all); gives the partitions that have batches ready."""
        for batch in list(self._open.values()):
            if tick_ms is not None and batch.due_ms > tick_ms:
                break
            self._close_due(batch)
        return list(self.queues)

    def created_ms(self, batch: ProducerBatch) -> int:
        """When the first record of a batch was added, in ticks."""
        due_ms: int = batch.due_ms
        return due_ms - self._linger_ms

    @property
    def oldest_ms(self) -> int | None:
        """When the first record was added of all that are ready and were not taken, or None."""
        return min((self.created_ms(queue[0]) for queue in self.queues.values()), default=None)

    def hide(self) -> None:
        """Send every record the long way, until a batch is opened again."""
        self.routes.clear()

    def ready_keys(self) -> list[TopicPartition]:
        """The partitions that have batches to be taken."""
        return list(self.queues)

    def ready(self, key: TopicPartition) -> int:
        """The number of batches of a partition that wait to be taken."""
        return len(self.queues.get(key, ()))

    def take(self, key: TopicPartition, *, closed: bool = False) -> ProducerBatch | None:
        """The next batch of a partition that is ready, in order, and closed from now on, or None.

        With `closed` an open batch stays in its queue.
        """
        queue = self.queues.get(key)
        if queue is None:
            return None
        batch = queue[0]
        if self._open.get(key) is batch:
            if closed:
                return None
            self.close(batch)
        queue.popleft()
        if not queue:
            del self.queues[key]
        return batch

    def drop(self, created_ms: int | None = None) -> list[ProducerBatch]:
        """Take the batches that were not taken, of this time or older (None: all, closed or not), to be given up."""
        if created_ms is None:
            self.close_due()
        dropped = []
        for key in self.ready_keys():
            while (queue := self.queues.get(key)) and (created_ms is None or self.created_ms(queue[0]) <= created_ms):
                dropped.append(queue[0])
                self.take(key)
        return dropped

    def close(self, batch: ProducerBatch) -> None:
        """Let no more records into an open batch."""
        self._place(batch.key, None)
        del self._open[batch.key]

    def release(self, batch: ProducerBatch) -> None:
        """Free the bytes of a batch that was answered."""
        self.free(batch)
        self.unanswered.discard(batch)

    def _close_due(self, batch: ProducerBatch) -> None:
        self.close(batch)
        if self._linger_ms > 0:
            self._queue(batch)

    def _queue(self, batch: ProducerBatch) -> None:
        self.queues.setdefault(batch.key, deque()).append(batch)
        self.unanswered.add(batch)

    def _place(self, key: TopicPartition, batch: ProducerBatch | None) -> None:
        route = self._known.get(key.topic)
        if route is not None and key.partition < len(route.batches):
            route.batches[key.partition] = batch
