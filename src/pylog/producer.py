"""Sends records: `send` gives a future at once, batches go out when they are full or have lingered.

A record is encoded as it is sent, into the open batch of its partition: `sending` does that. Whatever else there is to
do for a record is done here, under the producer's lock.

The thread that fills a batch ships it; a thread of the producer's own exists only for `linger_ms`. Without linger the
first record of a batch ships it, and others may follow until it is asked for. Shipping a partition's batches happens
under that partition's ship lock, so they keep their order. While one thread ships, the others go on, until so many
batches wait that they have to wait too. A full buffer (`buffer_memory`) makes `send` wait up to `max_block_ms`.
(Kafka: KafkaProducer, RecordAccumulator, Sender.)
"""

import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from uuid import UUID

from pylog.accumulator import Accumulator
from pylog.batch import Batch, seal
from pylog.clock import Clock
from pylog.cluster import Cluster
from pylog.compression import Codec
from pylog.config import ProducerConfig
from pylog.errors import BufferExhausted, Closed, PylogError, RecordTooLarge, UnknownTopicId, UnknownTopicOrPartition
from pylog.future import Future
from pylog.kernel import check_fields, checked_headers, record_size_bound
from pylog.message import Produce, Produced, ProducePart
from pylog.partitioner import partition_for_key
from pylog.record import RecordMetadata, TopicPartition
from pylog.sending import ProducerBatch, Route, Sender
from pylog.transport import Transport
from pylog.worker import Worker

logger = logging.getLogger("pylog")

WAITING_MAX = 4
"""When so many batches of a partition wait for the thread that ships them, whoever filled the last one waits too."""


class Producer(Sender):
    """Sends records to topics. Thread-safe. Use it as a context manager, or `close` it: both flush.

    Made by `Log.producer`; the configs are Kafka's, in `ProducerConfig`.
    """

    def __init__(self, transport: Transport, node: int, config: ProducerConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._cluster = Cluster(transport, node, config.client_id)
        self._codec = Codec.parse(config.compression_type)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        self._level = levels.get(self._codec)
        self._accumulator = Accumulator(batch_size=config.batch_size, linger_ms=config.linger_ms)
        self._record_bytes_max = min(config.max_request_size, config.buffer_memory)
        super().__init__(self._accumulator, clock, self._record_bytes_max, config.buffer_memory)
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._ship_locks: dict[TopicPartition, threading.Lock] = {}
        self._shippers: dict[TopicPartition, int] = {}
        self._answering = threading.local()
        self._worker = Worker("pylog-linger", clock, self._next_due, self._ship_due)
        self._closed = False

    def _send_any(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Iterable[tuple[str, bytes | None]],
    ) -> Future[RecordMetadata]:
        check_fields(value, key, timestamp_ms)
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        headers = checked_headers(headers) if headers else ()
        size = record_size_bound(value, key, headers)
        if size > self._record_bytes_max:
            raise RecordTooLarge(
                f"a record of about {size} bytes is over the limit of {self._record_bytes_max} (the smaller of "
                "max_request_size and buffer_memory): raise it, and the topic's max.message.bytes"
            )
        count = self._partitions(topic, partition)
        with self._lock:
            self._make_room(size)
            route = self._accumulator.route(topic, count)
            chosen = TopicPartition(topic, self._partition(route, topic, count, key, partition, size))
            first = self._accumulator.next_due_ms is None
            future, ready = self._accumulator.add(chosen, value, key, timestamp, headers, self._clock.tick_ms())
        if ready:
            self._ship(chosen)
        elif first:
            self._worker.wake()
        return future

    def _partitions(self, topic: str, partition: int | None) -> int:
        """How many partitions a topic has; asked anew where it has too few, as it may have got more."""
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition is {type(partition).__name__}, not int or None")
        count = len(self._cluster.topic(topic).partitions)
        if partition is None or partition < count:
            return count
        self._cluster.refresh([topic])
        return len(self._cluster.topic(topic).partitions)

    @staticmethod
    def _partition(route: Route, topic: str, count: int, key: bytes | None, partition: int | None, size: int) -> int:
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has no partition {partition}; it has {count}, from 0 on"
                )
            return partition
        if key is not None:
            return partition_for_key(key, count)
        chosen = route.sticky.partition(count)
        route.sticky.added(size)
        return chosen

    def _make_room(self, size: int) -> None:
        """Wait, with the lock held, until the buffer can take `size` more bytes."""
        if self._closed:
            raise Closed("this producer is closed")
        accumulator = self._accumulator
        most = self.config.buffer_memory - size
        if accumulator.bytes_waiting <= most:
            return
        deadline = self._clock.tick_ms() + self.config.max_block_ms
        while accumulator.bytes_waiting > most:
            ready = accumulator.close_due()
            if ready:
                self._lock.release()
                try:
                    for key in ready:
                        self._ship(key)
                finally:
                    self._lock.acquire()
                if accumulator.bytes_waiting <= most:
                    break
            left_ms = deadline - self._clock.tick_ms()
            if left_ms <= 0 or not self._freed.wait(min(left_ms / 1000, threading.TIMEOUT_MAX)):
                raise BufferExhausted(
                    f"{accumulator.bytes_waiting} bytes wait to be answered and buffer_memory is "
                    f"{self.config.buffer_memory}: no room came free within max_block_ms={self.config.max_block_ms}"
                )
        if self._closed:
            raise Closed("this producer was closed while it waited for room in its buffer")

    # --- shipping --------------------------------------------------------------------------------------------------

    def _ship(self, key: TopicPartition) -> None:
        """Send the closed batches of a partition, in order, unless another thread is at it and they are few."""
        me = threading.get_ident()
        ship_lock = self._ship_locks.get(key)
        if ship_lock is None:
            ship_lock = self._ship_locks.setdefault(key, threading.Lock())
        # Whoever has the lock looks again after letting go of it: what came meanwhile is not forgotten.
        while waiting := self._accumulator.ready(key):
            if self._shippers.get(key) == me:
                # A callback of a batch that is being shipped has sent more: the loop below, which it was called from,
                # goes on with that.
                return
            if not ship_lock.acquire(blocking=waiting >= WAITING_MAX):
                return
            self._shippers[key] = me
            try:
                while (batch := self._take(key)) is not None:
                    self._send_batch(batch)
            finally:
                del self._shippers[key]
                ship_lock.release()

    def _take(self, key: TopicPartition) -> ProducerBatch | None:
        with self._lock:
            return self._accumulator.take(key)

    def _send_batch(self, batch: ProducerBatch, sealed: Batch | Callable[[], Batch] | None = None) -> None:
        try:
            if sealed is None:
                # One that is open is closed when it leaves, by whoever carries it.
                late = self._accumulator.is_open(batch)
                sealed = (lambda: self._seal(batch)) if late else self._seal(batch)
            topic_id = self._cluster.topic(batch.key.topic).id
            part = ProducePart(batch.key.topic, batch.key.partition, sealed, topic_id)
            message = Produce([part], acks=self.config.acks, timeout_ms=self.config.request_timeout_ms)
            answer: Future[Produced] = self._cluster.send(self._cluster.leader(batch.key), message)
        except BaseException as error:
            self._settle(batch, error, None)
            if not isinstance(error, Exception):
                raise
            # An error is for the futures: this thread may be the one that lingers, or another sender's.
            return
        batch.delivery.carrier = answer
        answer.add_done_callback(lambda done: self._answered(batch, part.given, topic_id, done))

    def _seal(self, batch: ProducerBatch) -> Batch:
        with self._lock:
            self._accumulator.close(batch)
        return seal(batch.close(), codec=self._codec, level=self._level)

    def _answered(
        self, batch: ProducerBatch, sealed: Batch | Callable[[], Batch], topic_id: UUID, answer: Future[Produced]
    ) -> None:
        error = answer.exception()
        produced = answer.result() if error is None else None
        if produced is not None and isinstance(produced.parts[0].error, UnknownTopicId):
            # Deleted and made again: the batch goes to the topic of now, in the partition that was chosen for it.
            self._cluster.heard(batch.key, produced.parts[0].error)
            try:
                made_again = self._cluster.topic(batch.key.topic).id != topic_id
            except PylogError as unknown:
                error, produced, made_again = unknown, None, False
            if made_again:
                self._send_batch(batch, sealed)
                return
        self._settle(batch, error, produced)

    def _settle(self, batch: ProducerBatch, error: BaseException | None, produced: Produced | None) -> None:
        outer = getattr(self._answering, "depth", 0)
        self._answering.depth = outer + 1
        try:
            if produced is not None:
                part = produced.parts[0]
                error = part.error
                if error is None:
                    batch.delivery.complete(part.base_offset, part.log_append_time)
            if error is not None:
                if isinstance(error, PylogError):
                    self._cluster.heard(batch.key, error)
                with self._lock:
                    # What refused it may not have looked at it.
                    self._accumulator.close(batch)
                batch.delivery.fail(error)
        except Exception:
            # A callback of the user's. It runs in whatever thread brought the answer, which has others to bring
            # (Kafka logs it too).
            logger.exception("a callback of a record of %s-%d raised", *batch.key)
        finally:
            self._answering.depth = outer
            with self._lock:
                self._accumulator.release(batch)
                self._freed.notify_all()

    def _next_due(self) -> int | None:
        with self._lock:
            return self._accumulator.next_due_ms

    def _ship_due(self) -> None:
        with self._lock:
            ready = self._accumulator.close_due(self._clock.tick_ms())
        for key in ready:
            self._ship(key)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was given to `send` before, and wait until it is answered: every future is done then.

        What went wrong with a record is in its future. Raises TimeoutError after `timeout` seconds, RuntimeError in a
        callback of a record, where it would wait for itself.
        """
        self._refuse_in_callback("flush")
        unanswered = self._accumulator.unanswered
        with self._lock:
            ready = self._accumulator.close_due()
            waiting = set(unanswered)
        for key in ready:
            self._ship(key)
        deadline = None if timeout is None else self._clock.tick_ms() + round(timeout * 1000)
        with self._lock:
            while waiting := waiting & unanswered:
                left = None if deadline is None else (deadline - self._clock.tick_ms()) / 1000
                if left is not None and left <= 0:
                    raise TimeoutError(f"{len(waiting)} batches were not answered within {timeout} s")
                self._freed.wait(left)

    def _refuse_in_callback(self, what: str) -> None:
        if getattr(self._answering, "depth", 0):
            raise RuntimeError(f"{what} in a callback of a record would wait for that callback to end: do it outside")

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition."""
        return [p.partition for p in self._cluster.topic(topic).partitions]

    def close(self, timeout: float | None = None) -> None:
        """Flush and stop; later sends raise Closed. Raises what `flush` does."""
        self._refuse_in_callback("close")
        with self._lock:
            if self._closed:
                return
            self._refuse()
        try:
            self.flush(timeout)
        finally:
            self._worker.close()

    def abandon(self) -> None:
        """Refuse from now on, and leave what is under way alone: it belongs to the process this one was forked from."""
        # The lock may have been held by a thread that does not exist here.
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._refuse()

    def _refuse(self) -> None:
        # Without routes every `send` comes by `_make_room`, which raises.
        self._closed = True
        self._accumulator.routes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
