"""`Log` for asyncio: what `pylog.aio.open` and `pylog.aio.connect` give."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack
from weakref import WeakSet

from pylog.aio.consumer import Consumer
from pylog.aio.producer import Producer
from pylog.aio.share_consumer import ShareConsumer
from pylog.aio.threads import Threads
from pylog.client.consumer.client import ConsumerClient
from pylog.client.producer.client import ProducerClient
from pylog.client.share_consumer.client import ShareConsumerClient
from pylog.handles.client_half import ClientHalf
from pylog.kernel.values import BytesLike, Key, SentKey, SentValue, Value
from pylog.metrics import Metrics
from pylog.record import TopicPartition

if TYPE_CHECKING:
    from pylog.config.typed import ConsumerOptions, ProducerOptions, ShareConsumerOptions, TopicOptions

View = TypeVar("View")


class Log(Generic[View]):
    """An open log, or a cluster that is connected to: topics, producers, consumers. Made by `pylog.aio.open` and
    `pylog.aio.connect`; close it, or use it as a context manager.

    `sync` is the log as threads use it: its calls wait in the thread that makes them.

    >>> log = await pylog.aio.open(":memory:")
    >>> await log.create_topic("orders")
    <TopicView orders with 1 partitions>
    """

    def __init__(self, log: ClientHalf[View], threads: Threads) -> None:
        self.sync = log
        self._threads = threads
        self._is_closed = False
        self._clients: WeakSet[AbstractAsyncContextManager[object, None]] = WeakSet()

    def __repr__(self) -> str:
        return f"<pylog.aio {self.sync!r}>"

    @property
    def admin(self) -> "Admin":
        """The calls of `Log.admin`, each to be awaited."""
        return Admin(self.sync.admin, self._threads)

    def metrics(self) -> Metrics:
        """See `Log.metrics`. It waits for nothing.

        >>> log.metrics()
        <Metrics, ... of them>
        """
        return self.sync.metrics()

    # --- topics ------------------------------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int = 1, config: "TopicOptions | None" = None, *, exist_ok: bool = False
    ) -> View:
        """See `Log.create_topic`. What it gives is for threads, as `sync` is.

        >>> await log.create_topic("clicks", partitions=3)
        <TopicView clicks with 3 partitions>
        """
        return await self._threads.call(self.sync.create_topic, name, partitions, config, exist_ok=exist_ok)

    async def delete_topic(self, name: str) -> None:
        """See `Log.delete_topic`.

        >>> await log.delete_topic("orders")
        >>> await log.topics()
        []
        """
        await self._threads.call(self.sync.delete_topic, name)

    async def alter_config(
        self, name: str, config: "TopicOptions | None" = None, *, delete: Iterable[str] = (),
        append: "TopicOptions | None" = None, subtract: "TopicOptions | None" = None,
    ) -> View:  # fmt: skip
        """See `Log.alter_config`.

        >>> (await log.alter_config("orders", {"retention.ms": 86_400_000})).overrides
        {'retention.ms': '86400000'}
        """
        alter = self.sync.alter_config
        return await self._threads.call(alter, name, config, delete=delete, append=append, subtract=subtract)

    async def create_partitions(self, name: str, total: int) -> View:
        """See `Log.create_partitions`.

        >>> await log.create_partitions("orders", 4)
        <TopicView orders with 4 partitions>
        """
        return await self._threads.call(self.sync.create_partitions, name, total)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `Log.delete_records`.

        >>> await log.delete_records({orders: -1})
        {TopicPartition(topic='orders', partition=0): 0}
        """
        return await self._threads.call(self.sync.delete_records, offsets)

    async def move_partition(self, topic: str, partition: int, path: str | os.PathLike[str]) -> None:
        """See `Log.move_partition`.

        >>> async with pylog.aio.open(["fast", "large"]) as disks:
        ...     topic = await disks.create_topic("clicks")
        ...     await disks.move_partition("clicks", 0, "large")
        ...     topic[0].path
        '.../large/clicks-0'
        """
        await self._threads.call(self.sync.move_partition, topic, partition, path)

    async def topics(self, *, internal: bool = False) -> list[str]:
        """See `Log.topics`.

        >>> await log.topics()
        ['orders']
        """
        return await self._threads.call(self.sync.topics, internal=internal)

    async def topic(self, name: str) -> View:
        """See `Log.topic`. What it gives is for threads, as `sync` is.

        >>> await log.topic("orders")
        <TopicView orders with 1 partitions>
        """
        return await self._threads.call(self.sync.topic, name)

    # --- clients -----------------------------------------------------------------------------------------------------

    def producer(
        self, *, key_serializer: Callable[[SentKey], BytesLike] | None = None,
        value_serializer: Callable[[SentValue], BytesLike] | None = None, **config: Unpack["ProducerOptions"],
    ) -> Producer[SentKey, SentValue]:  # fmt: skip
        """A producer. Configs and errors are those of `Log.producer`.

        >>> async with log.producer(compression_type="lz4") as producer:
        ...     placed = await producer.send_and_wait("orders", b"cup", key=b"bob")
        >>> placed.offset
        0
        """
        log = self.sync
        given = {**config, "key_serializer": key_serializer, "value_serializer": value_serializer}
        settings = log._producer_config(given)
        client = ProducerClient(log._transport, log._node_id, settings, log._clock, waits=False)
        producer: Producer[SentKey, SentValue] = Producer(client, log._clock, log._lease, self._threads)
        self._clients.add(producer)
        return producer

    def consumer(
        self, *topics: str, group_id: str | None = None, key_deserializer: Callable[[bytes], Key] | None = None,
        value_deserializer: Callable[[bytes], Value] | None = None, **config: Unpack["ConsumerOptions"],
    ) -> Consumer[Key, Value]:  # fmt: skip
        """A consumer of `topics`, which it subscribes to when it is entered, or at its first poll. Configs and errors
        are those of `Log.consumer`.

        >>> async with log.consumer("orders", group_id="billing") as consumer:
        ...     found = await consumer.getmany()
        >>> found
        {}
        """
        log = self.sync
        given = {**config, "key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        settings = log._consumer_config(topics, group_id, given)
        client = ConsumerClient(log._transport, log._node_id, settings, log._clock, log._heartbeats)
        consumer: Consumer[Key, Value] = Consumer(client, topics, log._lease, self._threads)
        self._clients.add(consumer)
        return consumer

    def share_consumer(
        self, *topics: str, group_id: str, acknowledgement: Literal["implicit", "explicit"] = "implicit",
        key_deserializer: Callable[[bytes], Key] | None = None,
        value_deserializer: Callable[[bytes], Value] | None = None, **config: Unpack["ShareConsumerOptions"],
    ) -> ShareConsumer[Key, Value]:  # fmt: skip
        """A share consumer, subscribed to `topics` if any. Configs and errors are those of `Log.share_consumer`.

        >>> await log.admin.alter_group_config("packing", {"share.auto.offset.reset": "earliest"})
        >>> async with log.share_consumer("orders", group_id="packing") as worker:
        ...     await worker.poll()
        []
        """
        log = self.sync
        given = {**config, "key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        settings = log._share_config(topics, group_id, acknowledgement, given)
        client = ShareConsumerClient(log._transport, log._node_id, settings, log._clock, log._heartbeats)
        consumer: ShareConsumer[Key, Value] = ShareConsumer(client, topics, log._lease)
        self._clients.add(consumer)
        return consumer

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the clients made here, then the log, as `pylog.Log.close` does, and raise what that raises.

        >>> await log.close()
        """
        await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        async with AsyncExitStack() as closing:
            closing.callback(self._threads.close)
            closing.push_async_callback(self._threads.call, self.sync.__exit__, kind, error, traceback)
            for client in list(self._clients):
                closing.push_async_callback(client.__aexit__, kind, error, traceback)


class Admin:
    """The calls of `pylog.Admin` by the same names: each gives what is to be awaited.

    >>> async with pylog.aio.open(":memory:") as log:
    ...     await log.admin.create_topics({"orders": 1, "clicks": 3})
    {'orders': None, 'clicks': None}
    """

    def __init__(self, admin: object, threads: Threads) -> None:
        self._admin = admin
        self._threads = threads

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        return partial(self._threads.call, getattr(self._admin, name))

    def __dir__(self) -> list[str]:
        return dir(self._admin)
