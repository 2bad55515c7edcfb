"""`Consumer` for asyncio: carries the rounds of a consumer's calls (`runtime/rounds`) on in the loop.

    a round             runs through in the loop's thread
    between rounds      the call waits for a ring of the consumer's bell, or for a time
    a ring              of whatever thread has brought an answer: it wakes all calls of this consumer that wait (`bell`)

Records are taken in the last round of a call, which ends it, with no await in between: a call that is cancelled has
taken none. (aiokafka: AIOKafkaConsumer.)
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Generic, NoReturn, Self, TypeVar

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
from pylog.runtime.signals import WHOLE

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

    # --- carrying on -------------------------------------------------------------------------------------------------

    async def _carry_on(self, rounds: Rounds[T]) -> T:
        """The answer of a call. Raises in its rounds what ends a wait."""
        error: BaseException | None = None
        while True:
            try:
                with WHOLE, self._client.turn:
                    pause = next(rounds) if error is None else rounds.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            error = None
            try:
                await self._bell.pause(pause)
            except GeneratorExit:
                # The loop is gone.
                rounds.close()
                raise
            except BaseException as raised:  # noqa: BLE001 - the call sees it
                error = raised

    # --- its partitions ----------------------------------------------------------------------------------------------

    async def _make(self, names: Iterable[str]) -> None:
        # In a thread: a node of this process waits for its disk then.
        if names and self.config.allow_auto_create_topics:
            await (await self._threads.call(self._client.make_topics, names))

    async def start(self) -> None:
        """Subscribe to the topics that it was made with. `async with` and the first poll do this, too."""
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
        """
        self._topics = ()
        wanted = [topics] if isinstance(topics, str) else None if topics is None else list(topics)
        await self._make(wanted or ())
        await self._carry_on(self._client.subscribe(wanted, pattern, listener))
        self._bell.note_change()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `pylog.Consumer.assign`."""
        self._topics = ()
        wanted = [checked_partition(one) for one in partitions]
        await self._make({one.topic for one in wanted})
        await self._carry_on(self._client.assign(wanted))
        self._bell.note_change()

    async def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `pylog.Consumer.incremental_assign`."""
        await self._carry_on(self._client.assign_more(partitions))
        self._bell.note_change()

    async def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `pylog.Consumer.incremental_unassign`."""
        await self._carry_on(self._client.assign_less(partitions))
        self._bell.note_change()

    def enforce_rebalance(self) -> None:
        """See `pylog.Consumer.enforce_rebalance`."""
        self._client.need_group().rebalance()
        self._bell.note_change()

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        await self.assign([])

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._client.subscription.states)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._client.subscription.topics or self._topics)

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Give no records of these partitions until `resume`; fetched records are kept. They are given one by one, or
        as a list. Raises ValueError (one is not assigned), TypeError.
        """
        self._client.pause(partitions)

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        self._client.resume(partitions)
        self._bell.note_change()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._client.paused()

    # --- its positions -----------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `pylog.Consumer.seek`."""
        self._client.positions.seek(self._client.checked([partition]), offset)
        self._bell.note_change()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all assigned."""
        self._client.move_to(EARLIEST, partitions)
        self._bell.note_change()

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all assigned."""
        self._client.move_to(LATEST, partitions)
        self._bell.note_change()

    async def skip(self) -> None:
        """See `pylog.Consumer.skip`."""
        await self._carry_on(self._client.skip())

    async def position(self, partition: TopicPartition) -> int:
        """See `pylog.Consumer.position`."""
        return await self._carry_on(self._client.position(partition))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `pylog.Consumer.beginning_offsets`."""
        return await self._carry_on(self._client.ends(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `pylog.Consumer.end_offsets`."""
        return await self._carry_on(self._client.ends(partitions, LATEST))

    async def get_watermark_offsets(self, partition: TopicPartition) -> tuple[int, int]:
        """See `pylog.Consumer.get_watermark_offsets`."""
        return await self._carry_on(self._client.watermarks(partition))

    async def lag(self) -> dict[TopicPartition, int]:
        """See `pylog.Consumer.lag`."""
        return await self._carry_on(self._client.lag())

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `pylog.Consumer.offsets_for_times`."""
        return await self._carry_on(self._client.offsets_for_times(timestamps))

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """See `pylog.Consumer.partitions_for_topic`."""
        return await self._carry_on(self._client.partitions_for_topic(topic))

    async def topics(self) -> list[str]:
        """See `pylog.Consumer.topics`."""
        return await self._carry_on(self._client.topics())

    # --- commits -----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """See `pylog.Consumer.commit`. Where this is cancelled, it may have been done."""
        await self._carry_on(self._client.commit(offsets, None))

    def store_offsets(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """See `pylog.Consumer.store_offsets`."""
        self._client.store(offsets)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The offset that the group has committed for a partition, or None. Raises as
        `pylog.Consumer.committed`.
        """
        found = (await self._carry_on(self._client.committed([partition])))[partition]
        return None if found is None else found.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity of this consumer in its group now, for `send_offsets_to_transaction`. Raises InvalidGroupId."""
        return self._client.need_group().identity

    # --- reading -----------------------------------------------------------------------------------------------------

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        """Records from the positions on, by their partitions, and move the positions past them; waits up to
        `timeout_ms` for the first one.

        See `pylog.Consumer.poll` for what they are and what it raises; ConcurrentUse, where another task reads.
        """
        found: dict[TopicPartition, list[ConsumerRecord[Key, Value]]] = {}
        for record in await self._poll(timeout_ms, max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self) -> ConsumerRecord[Key, Value]:
        """The next record; waits for it for ever. The ones that were fetched with it count as unread until they are
        given. Raises as `getmany`.
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
        """
        await self._carry_on(self._client.end("it was closed", timeout_ms))

    async def stop(self) -> None:
        """The same, by aiokafka's name."""
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
