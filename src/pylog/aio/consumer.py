"""`Consumer` for asyncio: carries the rounds of a consumer's calls (`runtime/rounds`) on in the loop.

    a round             runs through in the loop's thread
    between rounds      the call waits for a ring of the consumer's bell, or for a time
    a ring              of whatever thread has brought an answer: it wakes all calls of this consumer that wait (`bell`)

Records are taken in the last round of a call, which ends it, with no await in between: a call that is cancelled has
taken none. (aiokafka: AIOKafkaConsumer.)
"""

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from pylog.aio.bell import Bell
from pylog.aio.threads import Threads
from pylog.client.consumer.assignment import CLOSE_MS
from pylog.client.consumer.client import ConsumerClient
from pylog.errors import Closed, ConcurrentUse
from pylog.kernel.values import Key, Value
from pylog.protocol.messages import EARLIEST, LATEST
from pylog.record import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    checked_partition,
)
from pylog.runtime.closing import Lease
from pylog.runtime.rounds import Rounds

T = TypeVar("T")
FOREVER_MS = 1 << 40
UNBROKEN_SECONDS = 0.001
"""After so long a reader lets the loop go round: where there are records all the time, no poll has to wait."""


class Consumer(Generic[Key, Value]):
    """Reads topics that it subscribes to, or partitions that were assigned by hand. For one loop.

    Made by `Log.consumer`. Close it, or use it as a context manager. One task reads at a time: a second one gets
    ConcurrentUse, as an automatic commit would have the records that the first is at. Other tasks may commit, seek and
    look meanwhile. Methods of a listener may be coroutines. A consumer with a group that is dropped open leaves the
    group in the background without a commit, and is a ResourceWarning.

    >>> log = await pylog.aio.open(":memory:")
    >>> topic = await log.create_topic("orders")
    >>> appended = topic[0].append([pylog.Record(b"book", b"alice"), pylog.Record(b"pen", b"bob")])
    >>> consumer = log.consumer("orders", group_id="billing", auto_offset_reset="earliest")
    >>> (await consumer.getone()).value
    b'book'
    """

    _lease: Lease | None = None

    def __init__(self, client: ConsumerClient, topics: tuple[str, ...], lease: Lease, threads: Threads) -> None:
        self.config = client.config
        self._client = client
        self._threads = threads
        self._topics = topics
        """To be subscribed to."""
        self._bell = Bell(client.requests)
        self._is_reading = False
        self._rested = 0.0
        """When a poll has let the loop go round last."""
        client.join(lease)
        self._lease = lease

    def __del__(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._client.handle_dropped(self, lease)

    def _carry_on(self, rounds: Rounds[T]) -> Coroutine[Any, Any, T]:
        return self._bell.carry_on(rounds, self._client.turn)

    # --- its partitions ----------------------------------------------------------------------------------------------

    async def _make(self, names: Iterable[str]) -> None:
        # In a thread: a node of this process waits for its disk then.
        if names and self.config.allow_auto_create_topics:
            await (await self._threads.call(self._client.make_topics, names))

    async def start(self) -> None:
        """Subscribe to the topics that it was made with. `async with` and the first poll do this, too.

        Raises what `pylog.Consumer.subscribe` does.

        >>> reader = log.consumer("orders")
        >>> await reader.start()
        >>> reader.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        topics, self._topics = self._topics, ()
        if topics:
            await self._make(topics)
            await self._carry_on(self._client.subscribe(topics, None, None))

    async def subscribe(
        self, topics: Iterable[str] | None = None, pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:  # fmt: skip
        """See `pylog.Consumer.subscribe`. The listener's methods may be coroutines, and may await calls of this
        consumer.

        >>> await consumer.subscribe(pattern="ord.*")
        >>> (await consumer.getone()).value
        b'pen'
        """
        self._topics = ()
        wanted = [topics] if isinstance(topics, str) else None if topics is None else list(topics)
        await self._make(wanted or ())
        await self._carry_on(self._client.subscribe(wanted, pattern, listener))
        self._bell.note_change()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `pylog.Consumer.assign`.

        >>> await consumer.assign([orders])
        >>> consumer.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        self._topics = ()
        wanted = [checked_partition(one) for one in partitions]
        await self._make({one.topic for one in wanted})
        await self._carry_on(self._client.assign(wanted))
        self._bell.note_change()

    async def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `pylog.Consumer.incremental_assign`.

        >>> reader = log.consumer()
        >>> await reader.incremental_assign([orders])
        >>> reader.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        await self._carry_on(self._client.assign_more(partitions))
        self._bell.note_change()

    async def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `pylog.Consumer.incremental_unassign`.

        >>> reader = log.consumer()
        >>> await reader.assign([orders])
        >>> await reader.incremental_unassign([orders])
        >>> reader.assignment()
        set()
        """
        await self._carry_on(self._client.assign_less(partitions))
        self._bell.note_change()

    def enforce_rebalance(self) -> None:
        """See `pylog.Consumer.enforce_rebalance`.

        >>> consumer.enforce_rebalance()
        >>> found = await consumer.getmany()
        """
        self._client.need_group().rebalance()
        self._bell.note_change()

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group.

        >>> await consumer.unsubscribe()
        >>> consumer.assignment()
        set()
        """
        await self.assign([])

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read.

        >>> consumer.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        return set(self._client.subscription.states)

    def subscription(self) -> set[str]:
        """The topics subscribed to.

        >>> consumer.subscription()
        {'orders'}
        """
        return set(self._client.subscription.topics or self._topics)

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Give no records of these partitions until `resume`; fetched records are kept. They are given one by one, or
        as a list. Raises ValueError (one is not assigned), TypeError.

        >>> consumer.pause(orders)
        >>> consumer.paused()
        {TopicPartition(topic='orders', partition=0)}
        """
        self._client.pause(partitions)

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Undo `pause`. Raises ValueError (a partition is not assigned), TypeError.

        >>> consumer.pause(orders)
        >>> consumer.resume(orders)
        >>> (await consumer.getone()).value
        b'pen'
        """
        self._client.resume(partitions)
        self._bell.note_change()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused.

        >>> consumer.paused()
        set()
        """
        return self._client.paused()

    # --- its positions -----------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `pylog.Consumer.seek`.

        >>> consumer.seek(orders, 0)
        >>> (await consumer.getone()).value
        b'book'
        """
        self._client.positions.seek(self._client.checked([partition]), offset)
        self._bell.note_change()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all assigned.

        Raises ValueError (a partition is not assigned), TypeError.

        >>> await consumer.seek_to_beginning(orders)
        >>> (await consumer.getone()).value
        b'book'
        """
        self._client.move_to(EARLIEST, partitions)
        self._bell.note_change()

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all assigned.

        Raises ValueError (a partition is not assigned), TypeError.

        >>> await consumer.seek_to_end()
        >>> await consumer.position(orders)
        2
        """
        self._client.move_to(LATEST, partitions)
        self._bell.note_change()

    async def skip(self) -> None:
        """See `pylog.Consumer.skip`.

        >>> numbers = log.consumer("orders", auto_offset_reset="earliest", value_deserializer=int)
        >>> try:
        ...     await numbers.getone()
        ... except pylog.errors.DeserializationError:
        ...     await numbers.skip()
        >>> await numbers.position(orders)
        1
        """
        await self._carry_on(self._client.skip())

    async def position(self, partition: TopicPartition) -> int:
        """See `pylog.Consumer.position`.

        >>> await consumer.position(orders)
        1
        """
        return await self._carry_on(self._client.position(partition))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `pylog.Consumer.beginning_offsets`.

        >>> await consumer.beginning_offsets([orders])
        {TopicPartition(topic='orders', partition=0): 0}
        """
        return await self._carry_on(self._client.ends(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `pylog.Consumer.end_offsets`.

        >>> await consumer.end_offsets([orders])
        {TopicPartition(topic='orders', partition=0): 2}
        """
        return await self._carry_on(self._client.ends(partitions, LATEST))

    async def get_watermark_offsets(self, partition: TopicPartition) -> tuple[int, int]:
        """See `pylog.Consumer.get_watermark_offsets`.

        >>> await consumer.get_watermark_offsets(orders)
        (0, 2)
        """
        return await self._carry_on(self._client.watermarks(partition))

    async def lag(self) -> dict[TopicPartition, int]:
        """See `pylog.Consumer.lag`.

        >>> await consumer.lag()
        {TopicPartition(topic='orders', partition=0): 1}
        """
        return await self._carry_on(self._client.lag())

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `pylog.Consumer.offsets_for_times`.

        >>> (await consumer.offsets_for_times({orders: 0}))[orders].offset
        0
        """
        return await self._carry_on(self._client.offsets_for_times(timestamps))

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """See `pylog.Consumer.partitions_for_topic`.

        >>> await consumer.partitions_for_topic("orders")
        {0}
        """
        return await self._carry_on(self._client.partitions_for_topic(topic))

    async def topics(self) -> list[str]:
        """See `pylog.Consumer.topics`.

        >>> "orders" in await consumer.topics()
        True
        """
        return await self._carry_on(self._client.topics())

    # --- commits -----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """See `pylog.Consumer.commit`. Where this is cancelled, it may have been done.

        >>> await consumer.commit({orders: 1})
        >>> await consumer.committed(orders)
        1
        """
        await self._carry_on(self._client.commit(offsets, None))

    def store_offsets(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """See `pylog.Consumer.store_offsets`.

        >>> worker = log.consumer(
        ...     "orders", group_id="packing", auto_offset_reset="earliest", enable_auto_offset_store=False
        ... )
        >>> order = await worker.getone()
        >>> worker.store_offsets({orders: order.offset + 1})
        >>> await worker.commit()
        >>> await worker.committed(orders)
        1
        """
        self._client.store(offsets)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The offset that the group has committed for a partition, or None. Raises as
        `pylog.Consumer.committed`.

        >>> await consumer.commit({orders: 1})
        >>> await consumer.committed(orders)
        1
        """
        found = (await self._carry_on(self._client.committed([partition])))[partition]
        return None if found is None else found.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity of this consumer in its group now, for `send_offsets_to_transaction`. Raises InvalidGroupId.

        >>> consumer.group_metadata().group_id
        'billing'
        """
        return self._client.need_group().identity

    # --- reading -----------------------------------------------------------------------------------------------------

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        """Records from the positions on, by their partitions, and move the positions past them; waits up to
        `timeout_ms` for the first one.

        See `pylog.Consumer.poll` for what they are and what it raises; ConcurrentUse, where another task reads.

        >>> reader = log.consumer("orders", auto_offset_reset="earliest")
        >>> found = await reader.getmany(timeout_ms=60_000)
        >>> [record.value for record in found[orders]]
        [b'book', b'pen']
        """
        found: dict[TopicPartition, list[ConsumerRecord[Key, Value]]] = {}
        for record in await self._poll(timeout_ms, max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self) -> ConsumerRecord[Key, Value]:
        """The next record; waits for it for ever. The ones that were fetched with it count as unread until they are
        given. Raises as `getmany`.

        >>> (await consumer.getone()).value
        b'pen'
        """
        while (record := await self._next(FOREVER_MS)) is None:
            pass
        return record

    def __reduce__(self) -> NoReturn:
        raise TypeError("a consumer belongs to its process, and is not pickled: make one there, by log.consumer(...)")

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Key, Value]]:
        return self

    async def __anext__(self) -> ConsumerRecord[Key, Value]:
        """The next record; ends when the consumer is closed, and after `consumer_timeout_ms` where that is set."""
        limit_ms = self.config.consumer_timeout_ms
        try:
            record = await self._next(FOREVER_MS if limit_ms is None else limit_ms)
        except Closed:
            if not self._client.requests.is_ended:
                raise
            record = None
        if record is None:
            raise StopAsyncIteration
        return record

    async def _next(self, timeout_ms: float) -> ConsumerRecord[Key, Value] | None:
        loop = self._client.loop
        record = loop.next()
        if record is None:
            loop.begin(await self._poll(timeout_ms, None))
            record = loop.next()
        return record

    async def _poll(self, timeout_ms: float, max_records: int | None) -> list[ConsumerRecord[Key, Value]]:
        if self._is_reading:
            raise ConcurrentUse("another task reads from this consumer: give each task its own")
        self._is_reading = True
        try:
            await self.start()
            loop = asyncio.get_running_loop()
            if loop.time() - self._rested > UNBROKEN_SECONDS:
                await asyncio.sleep(0)
                self._rested = loop.time()
            return await self._carry_on(self._client.poll(timeout_ms, max_records))
        finally:
            self._is_reading = False

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commit the positions of the polls (with auto-commit), leave the group, and end: see `pylog.Consumer.close`.

        A task that waits for records gets Closed; one that goes through them with `async for` ends.

        >>> await consumer.close()
        """
        await self._carry_on(self._client.end("it was closed", timeout_ms))

    async def stop(self) -> None:
        """The same, by aiokafka's name.

        >>> await consumer.stop()
        """
        await self.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception without a commit, so that the records in work are read again."""
        if error is None:
            await self.close()
        else:
            await self._carry_on(self._client.end("it was closed after an error", commit=False))
