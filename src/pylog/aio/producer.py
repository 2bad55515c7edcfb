"""`Producer` for asyncio: `send` in the loop, which waits for room in the buffer and for nothing else of others.

A record is taken in one step, between two awaits: a call that is cancelled has sent it, or has never taken it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Generic, NoReturn, Self

from pylog.aio.threads import Threads
from pylog.client.producer.client import NoRoom, ProducerClient
from pylog.client.producer.failures import tell_failures
from pylog.client.record_append import RecordAppender
from pylog.errors import RequestTimedOut, Undelivered, UnknownTopicOrPartition
from pylog.kernel.values import Headers, SentKey, SentValue, as_bytes
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease
from pylog.runtime.future import Future

SENDS_MAX = 64
"""After so many sends in a row the loop goes round once: none of them may have had to wait."""


class Producer(Generic[SentKey, SentValue]):
    """Sends records to topics. For one loop. Use it as a context manager, or `close` it: both flush.

    Made by `Log.producer`. With `transactional_id` it takes that up when it is started (`start`, `async with`), or at
    the first transaction. A producer that is dropped open delivers its records in the background, and is a
    ResourceWarning.

    >>> log = await pylog.aio.open(":memory:")
    >>> topic = await log.create_topic("orders")
    >>> producer = log.producer()
    >>> (await producer.send_and_wait("orders", b"book", key=b"alice")).offset
    0
    """

    _lease: Lease | None = None

    def __init__(self, client: ProducerClient, clock: Clock, lease: Lease, threads: Threads) -> None:
        self.config = client.config
        self._client = client
        self._threads = threads
        self._appender: RecordAppender[SentKey, SentValue] = RecordAppender(
            client.batches, clock, client.record_bytes_max, client.config.buffer_memory, client.send_any
        )
        self._room = asyncio.Lock()
        """Held by the one send that waits for room: the others wait for their turn."""
        self._starting = asyncio.Lock()
        self._is_started = client.config.transactional_id is None
        self._last: asyncio.Future[None] | None = None
        """The last call of a transaction: where its caller was cancelled, it goes on."""
        self._sends = 0
        lease.add(client)
        self._lease = lease

    def __del__(self) -> None:
        # A handler that keeps the warning must not keep the log.
        lease, self._lease = self._lease, None
        if lease is not None:
            self._client.handle_dropped(self, lease)

    def __repr__(self) -> str:
        return f"<pylog.aio {self._client!r}{', closed' if self._client.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a producer belongs to its process, and is not pickled: make one there, by log.producer(...)")

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self, topic: str, value: SentValue | None = None, key: SentKey | None = None, partition: int | None = None,
        timestamp_ms: int | None = None, headers: Headers = (),
    ) -> Future[RecordMetadata]:  # fmt: skip
        """Add a record to the batch of its partition; await the future for where it landed, or for its error.

        Waits up to `max_block_ms` until the topic is known and the buffer has room. Raises what `pylog.Producer.send`
        does.

        >>> future = await producer.send("orders", b"cup")
        >>> (await future).offset
        1
        """
        client, config = self._client, self.config
        # Before it waits for anything: the buffer is the caller's.
        if type(key) is not bytes and config.key_serializer is None:
            key = as_bytes(key)
        if type(value) is not bytes and config.value_serializer is None:
            value = as_bytes(value)
        self._sends += 1
        if self._sends >= SENDS_MAX:
            self._sends = 0
            await asyncio.sleep(0)
        if partition is not None or topic not in client.batches.routes:
            await self._know(topic, partition)
        try:
            return self._appender.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers or ()
            )
        except NoRoom:
            pass
        return await self._send_with_room(topic, value, key, partition, timestamp_ms, headers)

    async def send_and_wait(
        self, topic: str, value: SentValue | None = None, key: SentKey | None = None, partition: int | None = None,
        timestamp_ms: int | None = None, headers: Headers = (),
    ) -> RecordMetadata:  # fmt: skip
        """Send a record, and wait until it is there; gives where. Raises what `send` does, and the record's error.

        Where this is cancelled, the record was sent, or was never taken.

        >>> await producer.send_and_wait("orders", b"cup", key=b"bob")
        RecordMetadata(topic='orders', partition=0, offset=1, timestamp=...)
        """
        future = await self.send(topic, value, key, partition, timestamp_ms, headers)
        if future.done():
            return future.result()
        with self._receiving():
            return await future

    @contextmanager
    def _receiving(self) -> Iterator[None]:
        """Let the loop itself receive the answer, where it is the only one that its connection brings."""
        answer = self._client.sender.sole_answer()
        lent = None if answer is None else answer.lend()
        if lent is None:
            yield
            return
        loop, socket = asyncio.get_running_loop(), lent.fileno()

        def receive() -> None:
            loop.remove_reader(socket)
            lent.take_back()
            received.append(True)

        received = list[bool]()
        try:
            loop.add_reader(socket, receive)
            yield
        finally:
            if not received:
                # Its caller was cancelled, or the connection has ended.
                receive()

    async def _know(self, topic: str, partition: int | None) -> None:
        look = self._client.look
        # In a thread where the topic may be made: a node of this process waits for its disk then.
        is_slow = self.config.allow_auto_create_topics
        asked = await self._threads.call(look, topic, partition) if is_slow else look(topic, partition)
        if asked is None:
            return
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                answer = await asked
        except TimeoutError:
            raise RequestTimedOut(f"no node has said what topic {topic!r} is (max_block_ms)") from None
        self._client.learn(topic, answer)
        count = len(answer.topics[0].partitions)
        if type(partition) is int and partition >= count:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {partition}; it has {count}, from 0 on")

    async def _send_with_room(
        self, topic: str, value: SentValue | None, key: SentKey | None, partition: int | None, timestamp_ms: int | None,
        headers: Headers,
    ) -> Future[RecordMetadata]:  # fmt: skip
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000), self._room:
                with self._changes() as changed:
                    while True:
                        changed.clear()
                        try:
                            return self._appender.send(
                                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers or ()
                            )
                        except NoRoom:
                            await changed.wait()
        except TimeoutError:
            error = self._client.no_room_in_time()
            self._client.transactions.fail_open(error)
            raise error from None

    async def flush(self) -> Undelivered | None:
        """Send everything that was given to `send` before, and wait until it is answered. Gives what `close` would
        raise now.

        >>> future = await producer.send("orders", b"cup")
        >>> await producer.flush()
        >>> future.done()
        True
        """
        waiting = self._client.sender.push()
        with self._changes() as changed:
            while waiting := waiting & self._client.batches.unanswered:
                await changed.wait()
                changed.clear()
        return self._client.failures.peek()

    @contextmanager
    def _changes(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever an answer has come."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def note() -> None:
            # In whatever thread brings an answer; nothing waits in a loop that was closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        lifetime = self._client.lifetime
        lifetime.listen(note)
        try:
            yield changed
        finally:
            lifetime.listen_no_more(note)

    async def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition.

        >>> await producer.partitions_for("orders")
        [0]
        """
        await self._know(topic, None)
        return self._client.partitions_for(topic)

    # --- transactions ------------------------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        """See `pylog.Producer.begin`. Waits for calls that go on, as their callers were cancelled.

        >>> teller = log.producer(transactional_id="teller")
        >>> await teller.begin_transaction()
        >>> future = await teller.send("orders", b"cup")
        >>> await teller.commit_transaction()
        """
        await self.start()
        if self._last is not None:
            await asyncio.wait([self._last])
        self._client.transactions.begin()

    async def commit_transaction(self) -> None:
        """See `pylog.Producer.commit`. It goes on where this is cancelled.

        >>> teller = log.producer(transactional_id="teller")
        >>> await teller.begin_transaction()
        >>> future = await teller.send("orders", b"cup")
        >>> await teller.commit_transaction()
        >>> (await future).offset
        1
        """
        await self._in_turn(partial(self._client.transactions.end_transaction, None, is_commit=True))

    async def abort_transaction(self) -> None:
        """See `pylog.Producer.abort`. It goes on where this is cancelled.

        >>> teller = log.producer(transactional_id="teller")
        >>> await teller.begin_transaction()
        >>> future = await teller.send("orders", b"cup")
        >>> await teller.abort_transaction()
        >>> [record.value for record in topic.records(isolation_level="read_committed")]
        [b'book']
        """
        await self._in_turn(partial(self._client.transactions.end_transaction, None, is_commit=False))

    async def _in_turn(self, call: Callable[[], None]) -> None:
        """Make a call after those that were begun before. It goes on where the caller is cancelled."""
        self._last = asyncio.ensure_future(self._after(self._last, call))
        await asyncio.shield(self._last)

    async def _after(self, before: asyncio.Future[None] | None, call: Callable[[], None]) -> None:
        if before is not None:
            await asyncio.wait([before])
        await self._threads.call(call)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction as a block: it commits at the end, or aborts where the block raises, or is cancelled.

        >>> teller = log.producer(transactional_id="teller")
        >>> async with teller.transaction():
        ...     future = await teller.send("orders", b"cup")
        >>> (await future).offset
        1
        """
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self._abort_undone()
            raise
        try:
            await self.commit_transaction()
        except Exception:
            # Not where it was cancelled: the commit goes on.
            await self._abort_undone()
            raise

    async def _abort_undone(self) -> None:
        if self._client.transactions.is_undone:
            await self.abort_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str
    ) -> None:
        """See `pylog.Producer.send_offsets`.

        >>> teller = log.producer(transactional_id="teller")
        >>> async with teller.transaction():
        ...     await teller.send_offsets_to_transaction({orders: 1}, "billing")
        >>> (await log.admin.committed("billing"))[orders].offset
        1
        """
        await self._in_turn(partial(self._client.transactions.send_offsets, offsets, group))

    # --- beginning and end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """With a transactional id, take it up: an earlier producer with that id is fenced then. Raises what
        `pylog.Producer` does. `async with` does this, too.

        >>> teller = log.producer(transactional_id="teller")
        >>> await teller.start()
        >>> await teller.stop()
        """
        async with self._starting:
            if not self._is_started:
                await self._threads.call(self._client.initialise)
                self._is_started = True

    async def close(self) -> None:
        """Abort an open transaction, flush and stop; later sends raise Closed. Raises Undelivered as
        `pylog.Producer.close` does.

        >>> await producer.close()
        """
        tell_failures(await self._close())

    async def stop(self) -> None:
        """The same, by aiokafka's name.

        >>> await producer.stop()
        """
        await self.close()

    async def _close(self) -> Undelivered | None:
        return await self._threads.call(self._client.close) if not self._client.closed else None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tell_failures(await self._close(), error)
