"""`ShareConsumer` for asyncio: carries the rounds of a share consumer's calls on in the loop, as `consumer` does.

Records are taken in the last round of a call, which ends it, with no await in between: a call that is cancelled has
taken none.
"""

from collections.abc import AsyncIterator, Coroutine, Iterable
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from pylog.aio.bell import Bell
from pylog.client.share_consumer.client import CLOSE_MS, OnAcknowledged, ShareConsumerClient
from pylog.errors import Closed, ConcurrentUse, PylogError
from pylog.kernel.values import Key, Value
from pylog.record import ShareRecord, TopicPartition
from pylog.runtime.closing import Lease
from pylog.runtime.rounds import Rounds
from pylog.runtime.signals import WHOLE

T = TypeVar("T")


class ShareConsumer(Generic[Key, Value]):
    """Reads topics with the other consumers of a share group, like workers of a queue. For one loop.

    Made by `Log.share_consumer`; see `pylog.ShareConsumer` for what becomes of a record. Close it, or use it as a
    context manager. One task reads at a time: a second one gets ConcurrentUse. Others may acknowledge meanwhile.

    >>> log = await pylog.aio.open(":memory:")
    >>> topic = await log.create_topic("orders")
    >>> appended = topic[0].append([pylog.Record(b"book"), pylog.Record(b"pen")])
    >>> await log.admin.alter_group_config("packing", {"share.auto.offset.reset": "earliest"})
    >>> worker = log.share_consumer("orders", group_id="packing")
    >>> (await anext(worker)).value
    b'book'
    """

    _lease: Lease | None = None

    def __init__(self, client: ShareConsumerClient, topics: tuple[str, ...], lease: Lease) -> None:
        self.config = client.config
        self._client = client
        self._bell = Bell(client.requests)
        self._is_reading = False
        if topics:
            # Where it raises, there is no consumer, and nothing to be closed.
            client.subscribe(topics)
        client.join(lease)
        self._lease = lease

    def __del__(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._client.handle_dropped(self, lease)

    def _carry_on(self, rounds: Rounds[T]) -> Coroutine[Any, Any, T]:
        return self._bell.carry_on(rounds, self._client.turn)

    # --- its topics --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """See `pylog.ShareConsumer.subscribe`.

        >>> worker.subscribe(["orders"])
        >>> worker.subscription()
        {'orders'}
        """
        with WHOLE, self._client.turn:
            self._client.subscribe(topics)
        self._bell.note_change()

    async def unsubscribe(self) -> None:
        """See `pylog.ShareConsumer.unsubscribe`.

        >>> await worker.unsubscribe()
        >>> worker.subscription()
        set()
        """
        await self._carry_on(self._client.unsubscribe())

    def subscription(self) -> set[str]:
        """The topics subscribed to.

        >>> worker.subscription()
        {'orders'}
        """
        return set(self._client.topics)

    # --- records -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0) -> list[ShareRecord[Key, Value]]:
        """Records that are locked for this consumer from now on: see `pylog.ShareConsumer.poll`. Raises ConcurrentUse,
        where another task reads.

        >>> [record.value for record in await worker.poll(timeout_ms=60_000)]
        [b'pen']
        """
        return await self._poll(timeout_ms, None)

    async def _poll(self, timeout_ms: float, count: int | None) -> list[ShareRecord[Any, Any]]:
        if self._is_reading:
            raise ConcurrentUse("another task reads from this share consumer: give each task its own")
        self._is_reading = True
        try:
            return await self._carry_on(self._client.poll(timeout_ms, count))
        finally:
            self._is_reading = False

    def __aiter__(self) -> AsyncIterator[ShareRecord[Key, Value]]:
        return self

    async def __anext__(self) -> ShareRecord[Key, Value]:
        """The next record; waits for it for ever, and accepts the one before, as a loop over `pylog.ShareConsumer`
        does. Ends when the consumer is closed.
        """
        while True:
            try:
                records = await self._poll(self.config.fetch_max_wait_ms, 1)
            except Closed:
                raise StopAsyncIteration from None
            if records:
                return records[0]

    def wakeup(self) -> None:
        """Let the poll in progress, or the next one, raise Wakeup. From any thread.

        >>> worker.wakeup()
        >>> try:
        ...     await worker.poll()
        ... except pylog.errors.Wakeup:
        ...     print("woken")
        woken
        """
        self._client.wakeup()

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(self, record: Any, type: str = "accept") -> None:  # noqa: A002 - Kafka's name
        """See `pylog.ShareConsumer.acknowledge`.

        >>> (pen,) = await worker.poll(timeout_ms=60_000)
        >>> worker.acknowledge(pen, "release")
        >>> (await worker.poll(timeout_ms=60_000))[0].delivery_count
        2
        """
        with WHOLE, self._client.turn:
            self._client.acknowledge((record.topic, record.partition, record.offset), type)

    async def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicPartition, PylogError | None]:
        """See `pylog.ShareConsumer.commit_sync`.

        >>> await worker.commit_sync()
        {TopicPartition(topic='orders', partition=0): None}
        """
        return await self._carry_on(self._client.commit(timeout_ms))

    def commit_async(self) -> None:
        """See `pylog.ShareConsumer.commit_async`.

        >>> worker.commit_async()
        """
        with WHOLE, self._client.turn:
            self._client.commit_in_background()

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged | None) -> None:
        """See `pylog.ShareConsumer.set_acknowledgement_commit_callback`. The callback is no coroutine.

        >>> worker.set_acknowledgement_commit_callback(lambda offsets, error: print(offsets, error))
        >>> acknowledged = await worker.commit_sync()
        {TopicPartition(topic='orders', partition=0): {0}} None
        """
        self._client.listen(callback)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a share consumer belongs to its process, and is not pickled: make one there, by log.share_consumer(...)"
        )

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """See `pylog.ShareConsumer.close`. A task that waits for records gets Closed; `async for` ends.

        >>> await worker.close()
        """
        await self._carry_on(self._client.end(timeout_ms))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception nothing is accepted by itself, so that the records in work are delivered again."""
        await self._carry_on(self._client.end(CLOSE_MS, accepts=error is None))
