"""Sending in Python: the specification of the compiled twin, and its replacement where that was not built."""

import logging
from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from time import monotonic
from typing import Generic, NamedTuple, Protocol

from pylog.kernel import HEADER_BYTES, OpenBatch
from pylog.kernel.values import Headers, SentKey, SentValue
from pylog.protocol.batch import Batch
from pylog.protocol.partitioner import StickyPartitioner
from pylog.record import RecordMetadata, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future

__all__ = ["Delivery", "OpenBatches", "ProducerBatch", "RecordAppender", "RecordFuture", "Route", "StickyPartitioner"]

logger = logging.getLogger("pylog.client")

Bring = Callable[["Delivery", float | None], None]
OnDelivery = Callable[[RecordMetadata | None, BaseException | None], object]
SendAny = Callable[
    [str, object, object, int | None, int | None, Headers],
    Future[RecordMetadata],
]
"""`send` of a topic, value, key, partition, time in ms and headers."""


def call_back(future: Future[RecordMetadata], on_delivery: OnDelivery) -> None:
    """Have `on_delivery` called with the place of the record, or with its error."""

    def tell(done: Future[RecordMetadata]) -> None:
        error = done.exception()
        try:
            on_delivery(done.result() if error is None else None, error)
        except (Exception, SystemExit):
            # It may run in the call of `send`, which has not failed.
            logger.exception("on_delivery of a record raised")

    future.add_done_callback(tell)


class Failures(Protocol):
    """Counts the records that have failed."""

    def looked(self, error: BaseException) -> None:
        """Note the first look at a record with this error."""


class Delivery(Future[tuple[int, int | None]]):
    """The answer for one batch of a partition: its base offset, and the time of the append under LogAppendTime (ms).

    The futures of a batch cost nothing when it is completed: their results are made when they are asked for. A thread
    that waits for one calls `bring(delivery, timeout)` first, which sends what has to be sent and drives the append.
    """

    __slots__ = ("_looked", "bring", "failures", "partition", "parts", "topic")

    def __init__(self, topic: str, partition: int, bring: Bring | None = None) -> None:
        super().__init__()
        self.topic = topic
        self.partition = partition
        self.bring = bring
        """None again once the answer is there: futures that are kept must not keep their producer."""
        self.parts: list[Part] = []
        """The answers to its parts, in order, where the batch was too large to be sent as one."""
        self.failures: Failures | None = None
        """Hears of the first look at each record that has failed."""
        self._looked: dict[int, object] = {}

    def future(self, index: int, timestamp: int) -> Future[RecordMetadata]:
        """The future of the record that is number `index` of the batch; `timestamp` is the record's own, in ms."""
        return RecordFuture(self, index, timestamp)

    def complete(self, base_offset: int, log_append_time: int | None = None) -> None:
        """Answer all futures of the batch. `base_offset` is -1 where no node was asked (acks=0).

        Raises RuntimeError when there is an answer already.
        """
        self._complete((base_offset, log_append_time), None)

    def complete_parts(self, parts: "list[Part]") -> None:
        """Answer the futures of each part, in order. Raises RuntimeError when there is an answer already."""
        self.parts = parts
        self._complete((-1, None), None)

    def fail(self, error: BaseException) -> None:
        """Answer all futures of the batch with `error`. Raises RuntimeError when there is an answer already."""
        self._complete(None, error)

    def part_of(self, index: int) -> "Part":
        """The part of a batch in parts that has the record with this number."""
        return self.parts[bisect_right(self.parts, index, key=itemgetter(0)) - 1]

    def error_of(self, index: int) -> BaseException | None:
        """The error of the record with this number, which counts as looked at now; None where it has none."""
        error = self.part_of(index).error if self.parts else self._error
        if error is not None and self.failures is not None:
            first: object = object()
            if self._looked.setdefault(index, first) is first:
                self.failures.looked(error)
        return error

    def _complete(self, value: tuple[int, int | None] | None, error: BaseException | None) -> None:
        self.bring = None
        super()._complete(value, error)

    def _wait(self, timeout: float | None) -> None:
        super()._wait(brought(self, timeout))


def brought(delivery: Delivery, timeout: float | None) -> float | None:
    """Have the answer of a delivery brought about, within `timeout` seconds; gives how many are left to wait for it."""
    bring = delivery.bring
    if bring is None:
        return timeout
    if timeout is None:
        bring(delivery, None)
        return None
    deadline = monotonic() + timeout
    bring(delivery, timeout)
    return deadline - monotonic()


class Part(NamedTuple):
    """The answer for the records of a batch from number `first` on."""

    first: int
    base_offset: int = -1
    log_append_time: int | None = None
    error: BaseException | None = None


class RecordFuture(Future[RecordMetadata]):
    """The place of a record in a delivery. The slots of Future stay empty."""

    __slots__ = ("_delivery", "_index", "_timestamp")

    def __init__(self, delivery: Delivery, index: int, timestamp: int) -> None:
        self._delivery = delivery
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        return self._delivery._done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        error = self.exception(timeout)
        if error is not None:
            raise error.with_traceback(self._delivery._traceback)
        delivery = self._delivery
        base_offset, log_append_time = delivery.result()
        index = self._index
        if delivery.parts:
            first, base_offset, log_append_time, _ = delivery.part_of(index)
            index -= first
        offset = base_offset + index if base_offset >= 0 else -1
        timestamp = self._timestamp if log_append_time is None else log_append_time
        return RecordMetadata(delivery.topic, delivery.partition, offset, timestamp)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        delivery = self._delivery
        if not delivery._done:
            self._wait(timeout)
        return delivery.error_of(self._index)

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        def tell(_: object) -> None:
            # A callback counts as a look at the record.
            self._delivery.error_of(self._index)
            fn(self)

        self._delivery.add_done_callback(tell)

    def _complete(self, value: RecordMetadata | None, error: BaseException | None) -> None:
        raise RuntimeError("the future of a record is answered by its delivery")

    def _wait(self, timeout: float | None) -> None:
        self._delivery._wait(timeout)


class ProducerBatch(OpenBatch):
    """Records for one partition, encoded, of at most `limit` bytes and one record at least; `delivery` answers them.

    With `sealed` it is that batch, which someone else has made, and takes no records.
    """

    def __init__(
        self, key: TopicPartition, limit: int, due_ms: int, bring: Bring | None = None, sealed: Batch | None = None
    ) -> None:
        super().__init__(limit)
        self.key = key
        self.due_ms = due_ms
        self.delivery = Delivery(key.topic, key.partition, bring)
        self.sealed = sealed
        if sealed is not None:
            self.size = sealed.size
            self._rows, self._drained = None, sealed.count


class Route:
    """The open batch of each partition of a topic, or None."""

    __slots__ = ("batches", "sticky")

    def __init__(self, sticky: StickyPartitioner, batches: list[ProducerBatch | None]) -> None:
        self.sticky = sticky
        self.batches = batches


class OpenBatches:
    """The open batches that `send` may add to, by topic, and the bytes that wait."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.bytes_waiting = 0
        """The exact size of the records that are not answered yet, without the headers of batches."""

    def append(
        self,
        batch: ProducerBatch,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        headers: Headers = (),
    ) -> Future[RecordMetadata] | None:
        """Add a record to a batch; gives its future, or None when it does not fit: then nothing was added.

        Raises what `OpenBatch.add` does.
        """
        before = batch.size
        index = batch.add(value, key, timestamp, headers)
        if index < 0:
            return None
        self.bytes_waiting += batch.size - before
        return batch.delivery.future(index, timestamp)

    def hold(self, batch: ProducerBatch) -> None:
        """Count the bytes of a batch that comes with all its records."""
        self.bytes_waiting += batch.size - HEADER_BYTES

    def free(self, batch: ProducerBatch) -> None:
        """The batch was answered: its bytes are free."""
        self.bytes_waiting -= batch.size - HEADER_BYTES


class RecordAppender(Generic[SentKey, SentValue]):
    """The common part of every `send`. `SentKey` and `SentValue` are what the serializers take; without serializers,
    bytes, a bytearray or a memoryview, which is copied at once.

    A record of at most `record_bytes_max` bytes joins an open batch unless more than `buffer_memory` bytes would wait;
    `send_any` does everything else: an unknown topic, the first record of a batch, one that does not fit, and so on. A
    record without timestamp gets the time of `clock`.
    """

    def __init__(
        self, batches: OpenBatches, clock: Clock, record_bytes_max: int, buffer_memory: int, send_any: SendAny
    ) -> None:
        """The compiled twin decides with all of these; here `send_any` decides everything."""
        self._send_any = send_any

    def send(
        self,
        topic: str,
        value: SentValue | None,
        key: SentKey | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> Future[RecordMetadata]:
        """Add a record to the batch of its partition; the future answers with where it landed, or with its error.

        The partition is the given one, else the choice of `partitioner`: by the key (murmur2, as a Java producer does),
        without a key a sticky one. A record without timestamp gets the time of the call. `on_delivery(metadata, error)`
        is called when the future is done, one of the two being None, in whatever thread brings the answer; what it
        raises is logged. In a callback `send` is allowed, but no call that waits.
        Where `send` raises, the record was not taken; what becomes of one that was taken, its future says.
        Raises: UnknownTopicOrPartition, InvalidTopic, RecordTooLarge (`max_request_size`, `buffer_memory`),
        BufferExhausted (the buffer stayed full for `max_block_ms`), RequestTimedOut (no node has said in that time what
        the topic is), Closed, TypeError, ValueError; with transactions InvalidTxnState and TransactionAbortable; after
        a fatal error that one; what a serializer or partitioner raises.

        >>> producer.send("orders", b"hat", key=b"bob", headers=[("source", b"web")]).result()
        RecordMetadata(topic='orders', partition=0, offset=4, timestamp=...)
        """
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery is {type(on_delivery).__name__}: it cannot be called")
        future = self._send_any(topic, value, key, partition, timestamp_ms, headers)
        if on_delivery is not None:
            call_back(future, on_delivery)
        return future
