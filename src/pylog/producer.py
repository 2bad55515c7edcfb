"""Sends records: `send` gives a future at once, batches go out when they are full or have lingered.

The thread that fills a batch ships it; a thread of the producer's own exists only for `linger_ms`. Shipping a
partition's batches happens under that partition's ship lock, so they keep their order, and whoever fills batches faster
than they can be shipped waits there. A full buffer (`buffer_memory`) makes `send` wait up to `max_block_ms`.
(Kafka: KafkaProducer, RecordAccumulator, Sender.)
"""

import logging
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self
from uuid import UUID

from pylog.accumulator import Accumulator, OpenBatch, record_size
from pylog.batch import encode_rows
from pylog.clock import Clock
from pylog.cluster import Cluster
from pylog.compression import Codec
from pylog.config import ProducerConfig
from pylog.errors import BufferExhausted, Closed, PylogError, RecordTooLarge, UnknownTopicId, UnknownTopicOrPartition
from pylog.future import Future
from pylog.kernel import check_fields, checked_headers
from pylog.message import Produce, Produced, ProducePart
from pylog.partitioner import StickyPartitioner, partition_for_key
from pylog.record import RecordMetadata, TopicPartition
from pylog.transport import Transport
from pylog.worker import Worker

logger = logging.getLogger("pylog")


class Producer:
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
        self._sticky: dict[str, StickyPartitioner] = {}
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._ship_locks: dict[TopicPartition, threading.Lock] = {}
        self._shippers: dict[TopicPartition, int] = {}
        self._answering = threading.local()
        self._in_flight: set[OpenBatch] = set()
        self._worker = Worker("pylog-linger", clock, self._next_due, self._ship_due)
        self._closed = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> Future[RecordMetadata]:
        """Add a record to the batch of its partition; the future answers with where it landed, or with its error.

        The partition is the one given, else the key's (murmur2, as a Java producer would), else a sticky one. A record
        without timestamp gets the time of the call.
        Raises: UnknownTopicOrPartition, RecordTooLarge (`max_request_size`, `buffer_memory`), BufferExhausted (the
        buffer stayed full for `max_block_ms`), Closed, TypeError, ValueError.
        """
        check_fields(value, key, timestamp_ms)
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        row = (value, key, timestamp, checked_headers(headers) if headers else ())
        size = record_size(row)
        limit = min(self.config.max_request_size, self.config.buffer_memory)
        if size > limit:
            raise RecordTooLarge(
                f"a record of about {size} bytes is over the limit of {limit} (the smaller of max_request_size and "
                "buffer_memory): raise it, and the topic's max.message.bytes"
            )
        count = self._partitions(topic, partition)
        with self._lock:
            self._make_room(size)
            chosen = self._partition(topic, count, row[1], partition, size)
            first = self._accumulator.next_due_ms is None
            future, ready = self._accumulator.add(chosen, row, size, self._clock.tick_ms())
        if ready:
            self._ship(chosen)
        if first:
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

    def _partition(self, topic: str, count: int, key: bytes | None, partition: int | None, size: int) -> TopicPartition:
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has no partition {partition}; it has {count}, from 0 on"
                )
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartitioner(self.config.batch_size)
        chosen = sticky.partition(count)
        sticky.added(size)
        return TopicPartition(topic, chosen)

    def _make_room(self, size: int) -> None:
        """Wait, with the lock held, until the buffer can take `size` more bytes."""
        if self._closed:
            raise Closed("this producer is closed")
        accumulator = self._accumulator
        if accumulator.bytes_waiting + size <= self.config.buffer_memory:
            return
        deadline = self._clock.tick_ms() + self.config.max_block_ms
        while accumulator.bytes_waiting + size > self.config.buffer_memory:
            ready = accumulator.close_due()
            if ready:
                self._lock.release()
                try:
                    for key in ready:
                        self._ship(key)
                finally:
                    self._lock.acquire()
                continue
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
        """Send the closed batches of a partition, in order."""
        me = threading.get_ident()
        if self._shippers.get(key) == me:
            # A callback of a batch that is being shipped has sent more: the loop below, which it was called from, goes
            # on with that.
            return
        ship_lock = self._ship_locks.get(key)
        if ship_lock is None:
            ship_lock = self._ship_locks.setdefault(key, threading.Lock())
        with ship_lock:
            self._shippers[key] = me
            try:
                while True:
                    with self._lock:
                        batch = self._accumulator.take(key)
                        if batch is None:
                            return
                        self._in_flight.add(batch)
                    self._send(batch)
            finally:
                del self._shippers[key]

    def _send(self, batch: OpenBatch) -> None:
        try:
            encoded = encode_rows(batch.rows, now_ms=self._clock.wall_ms(), codec=self._codec, level=self._level)
            topic_id = self._cluster.topic(batch.key.topic).id
            message = Produce(
                [ProducePart(batch.key.topic, batch.key.partition, encoded, topic_id)],
                acks=self.config.acks,
                timeout_ms=self.config.request_timeout_ms,
            )
            answer: Future[Produced] = self._cluster.send(self._cluster.leader(batch.key), message)
        except BaseException as error:
            self._settle(batch, error, None)
            if not isinstance(error, Exception):
                raise
            # An error is for the futures: this thread may be the one that lingers, or another sender's.
            return
        answer.add_done_callback(lambda done: self._answered(batch, topic_id, done))

    def _answered(self, batch: OpenBatch, topic_id: UUID, answer: Future[Produced]) -> None:
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
                self._send(batch)
                return
        self._settle(batch, error, produced)

    def _settle(self, batch: OpenBatch, error: BaseException | None, produced: Produced | None) -> None:
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
                batch.delivery.fail(error)
        except Exception:
            # A callback of the user's. It runs in whatever thread brought the answer, which has others to bring
            # (Kafka logs it too).
            logger.exception("a callback of a record of %s-%d raised", *batch.key)
        finally:
            self._answering.depth = outer
            with self._lock:
                self._accumulator.release(batch)
                self._in_flight.discard(batch)
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
        with self._lock:
            ready = self._accumulator.close_due()
        for key in ready:
            self._ship(key)
        deadline = None if timeout is None else self._clock.tick_ms() + round(timeout * 1000)
        with self._lock:
            waiting = set(self._in_flight)
            while waiting & self._in_flight:
                left = None if deadline is None else (deadline - self._clock.tick_ms()) / 1000
                if left is not None and left <= 0:
                    raise TimeoutError(f"{len(waiting & self._in_flight)} batches were not answered within {timeout} s")
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
            self._closed = True
        try:
            self.flush(timeout)
        finally:
            self._worker.close()

    def abandon(self) -> None:
        """Refuse from now on, and leave what is under way alone: it belongs to the process this one was forked from."""
        # The lock may have been held by a thread that does not exist here.
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
