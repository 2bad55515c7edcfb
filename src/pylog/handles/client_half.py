"""`ClientHalf`: what a log is to its clients, whether its node is in this process or behind a network.

It makes producers, consumers and the admin, and changes topics, all by messages over a transport. `Log` adds the files
to it, `ConnectedLog` nothing but how it is reached.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypeVar, Unpack, overload

from pylog.client.admin.configs import ConfigAdmin
from pylog.client.admin.topics import TopicAdmin
from pylog.client.producer import Producer
from pylog.client.producer.failures import tell_failures
from pylog.config import ConsumerConfig, ProducerConfig
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import TopicAlreadyExists
from pylog.handles.open_log import OpenLog
from pylog.kernel.values import BytesLike
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease
from pylog.runtime.shared_worker import SharedWorker
from pylog.transport import Transport

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from pylog.client.admin.admin import Admin
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.share_consumer.share_consumer import ShareConsumer
    from pylog.config.typed import ConsumerOptions, ProducerOptions, ShareConsumerOptions, TopicOptions

    # What a lambda takes or gives is Any.
    OfKey = TypeVarWithDefault("OfKey", default=Any)
    OfValue = TypeVarWithDefault("OfValue", default=Any)

__all__ = ["ClientHalf"]

View = TypeVar("View", covariant=True)
MODE = "share_acknowledgement_mode"


def _subscribe(consumer: "Consumer[Any, Any] | ShareConsumer[Any, Any]", topics: tuple[str, ...]) -> None:
    """Let a new consumer read topics, if there are any; it is closed where it cannot."""
    if topics:
        try:
            consumer.subscribe(topics)
        except BaseException:
            consumer.close()
            raise


def _check_named_one_by_one(what: str, topics: Iterable[str]) -> None:
    for name in topics:
        if not isinstance(name, str):
            raise TypeError(f"topics are named one by one, {what}('a', 'b') or {what}(*names), not {name!r}")


class ClientHalf(ABC, Generic[View]):
    """Topics, producers, consumers. `View` is what it gives for a topic. Thread-safe."""

    def __init__(self, opened: OpenLog, clock: Clock) -> None:
        self._opened = opened
        self._transport: Transport = opened.transport
        self._node_id = opened.asked
        self._clock = clock
        self._cluster = opened.cluster
        self._topics, self._configs = TopicAdmin(self._cluster), ConfigAdmin(self._cluster)
        self._lease = Lease(opened)
        self._heartbeats = SharedWorker("pylog-heartbeat", clock)

    def __repr__(self) -> str:
        return repr(self._opened)

    @property
    def admin(self) -> "Admin":
        """The administration of groups, transactions, producers, offsets and log directories."""
        from pylog.client.admin.admin import Admin

        return Admin(self._cluster, self._lease)

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, config: "TopicOptions | None" = None, *, exist_ok: bool = False
    ) -> View:
        """Make a topic. `partitions`: -1 for the node's `num.partitions`. `config`: Kafka's topic configs
        (`TopicConfig`); values may be str, int or bool.

        With `exist_ok` a topic that exists already is given as it is: its partitions and its config stay.
        Raises: TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig (suggests the nearest name),
        ReadOnly.

        >>> log.create_topic("clicks", partitions=3, config={"retention.ms": 86_400_000})
        <TopicView clicks with 3 partitions>
        """
        self._check_open()
        with suppress(TopicAlreadyExists) if exist_ok else nullcontext():
            self._topics.create_topic(name, partitions, config or {})
        return self.topic(name)

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopicOrPartition, ReadOnly.

        >>> log.delete_topic("orders")
        >>> log.topics()
        []
        """
        self._check_open()
        self._topics.delete_topic(name)

    def alter_config(
        self, name: str, config: "TopicOptions | None" = None, *, delete: Iterable[str] = (),
        append: "TopicOptions | None" = None, subtract: "TopicOptions | None" = None,
    ) -> View:  # fmt: skip
        """Set configs of a topic, take those named in `delete` back to their defaults, and add words to lists or take
        them away (`append={"cleanup.policy": "compact"}`); the others stay.

        Open partitions go by it at once. Raises UnknownTopicOrPartition, InvalidConfig, ReadOnly; nothing is changed.

        >>> log.alter_config("orders", {"retention.ms": 86_400_000}).overrides
        {'retention.ms': '86400000'}
        >>> log.alter_config("orders", delete=["retention.ms"]).overrides
        {}
        """
        self._check_open()
        self._configs.alter_config(name, config, delete, append=append, subtract=subtract)
        return self.topic(name)

    def create_partitions(self, name: str, total: int) -> View:
        """Let a topic have `total` partitions, more than it has. Records with a key go elsewhere from then on.

        Raises UnknownTopicOrPartition, InvalidPartitions, ReadOnly.

        >>> log.create_partitions("orders", 4)
        <TopicView orders with 4 partitions>
        """
        self._check_open()
        self._topics.create_partitions(name, total)
        return self.topic(name)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Let partitions start at these offsets (-1: at the high watermark); gives where they start now.

        Raises OffsetOutOfRange, PolicyViolation (a topic that is only compacted), UnknownTopicOrPartition, ReadOnly.

        >>> log.delete_records({orders: 2})
        {TopicPartition(topic='orders', partition=0): 2}
        """
        self._check_open()
        return self._topics.delete_records(offsets)

    def move_partition(self, topic: str, partition: int, path: str | os.PathLike[str]) -> None:
        """Move a partition into another of the log directories of its node, while it is in use.

        Raises LogDirNotFound, UnknownTopicOrPartition, DiskFull (it stays where it is), ReadOnly.

        >>> with pylog.open(["fast", "large"]) as disks:
        ...     topic = disks.create_topic("clicks")
        ...     disks.move_partition("clicks", 0, "large")
        ...     topic[0].path
        '.../large/clicks-0'
        """
        self._check_open()
        self._topics.move_partition(topic, partition, os.path.abspath(os.fspath(path)))

    def topics(self, *, internal: bool = False) -> list[str]:
        """The names of the topics, sorted; internal ones (the logs of coordinators) on request.

        >>> log.topics()
        ['orders']
        """
        self._check_open()
        return [topic.name for topic in self._topics.topics() if internal or topic.name not in INTERNAL_TOPICS]

    @abstractmethod
    def topic(self, name: str) -> View:
        """A topic as it is now. Raises UnknownTopicOrPartition.

        >>> log.topic("orders")
        <TopicView orders with 1 partitions>
        """

    # --- clients -----------------------------------------------------------------------------------------------------

    @overload
    def producer(
        self, *, key_serializer: None = None, value_serializer: None = None, **config: Unpack["ProducerOptions"]
    ) -> Producer: ...
    @overload
    def producer(
        self, *, key_serializer: None = None, value_serializer: "Callable[[OfValue], BytesLike]",
        **config: Unpack["ProducerOptions"],
    ) -> "Producer[BytesLike, OfValue]": ...  # fmt: skip
    @overload
    def producer(
        self, *, key_serializer: "Callable[[OfKey], BytesLike]", value_serializer: None = None,
        **config: Unpack["ProducerOptions"],
    ) -> "Producer[OfKey, BytesLike]": ...  # fmt: skip
    @overload
    def producer(
        self, *, key_serializer: "Callable[[OfKey], BytesLike]", value_serializer: "Callable[[OfValue], BytesLike]",
        **config: Unpack["ProducerOptions"],
    ) -> "Producer[OfKey, OfValue]": ...  # fmt: skip
    def producer(self, **config: object) -> Producer[Any, Any]:
        """A producer. Configs are Kafka's, with underscores: `acks`, `linger_ms`, `compression_type`...
        (`ProducerConfig`).

        `key_serializer` and `value_serializer` turn what `send` is given into bytes. Without one it is bytes, a
        bytearray or a memoryview.
        Raises: InvalidConfig, ReadOnly.

        >>> with log.producer(compression_type="lz4", value_serializer=serde.json().serialize) as producer:
        ...     producer.send("orders", {"item": "cup"}, key=b"bob").result()
        RecordMetadata(topic='orders', partition=0, offset=3, timestamp=...)
        """
        settings = self._producer_config(config)
        return Producer(self._transport, self._node_id, settings, self._clock, self._lease)

    def _producer_config(self, config: Mapping[str, object]) -> ProducerConfig:
        self._check_open()
        self._check_may_send()
        return ProducerConfig.from_kafka(config)

    @overload
    def consumer(
        self, *topics: str, group_id: str | None = None, key_deserializer: None = None,
        value_deserializer: None = None, **config: Unpack["ConsumerOptions"],
    ) -> "Consumer": ...  # fmt: skip
    @overload
    def consumer(
        self, *topics: str, group_id: str | None = None, key_deserializer: None = None,
        value_deserializer: "Callable[[bytes], OfValue]", **config: Unpack["ConsumerOptions"],
    ) -> "Consumer[bytes, OfValue]": ...  # fmt: skip
    @overload
    def consumer(
        self, *topics: str, group_id: str | None = None, key_deserializer: "Callable[[bytes], OfKey]",
        value_deserializer: None = None, **config: Unpack["ConsumerOptions"],
    ) -> "Consumer[OfKey, bytes]": ...  # fmt: skip
    @overload
    def consumer(
        self, *topics: str, group_id: str | None = None, key_deserializer: "Callable[[bytes], OfKey]",
        value_deserializer: "Callable[[bytes], OfValue]", **config: Unpack["ConsumerOptions"],
    ) -> "Consumer[OfKey, OfValue]": ...  # fmt: skip
    def consumer(self, *topics: str, group_id: str | None = None, **config: object) -> "Consumer[Any, Any]":
        """A consumer, subscribed to `topics` if any. Configs are Kafka's, with underscores (`ConsumerConfig`).

        With a `group_id` the partitions are shared with the other consumers of that group, and positions can be
        committed; without, a consumer has all of them. A topic that is not there yet is read as soon as it is made.
        `key_deserializer` and `value_deserializer` make keys and values of bytes, which they are without.
        Raises: InvalidTopic, InvalidConfig, ReadOnly, TypeError (a list in place of names).

        >>> with log.consumer("orders", group_id="billing", auto_offset_reset="earliest") as consumer:
        ...     next(consumer).value
        b'book'
        """
        settings = self._consumer_config(topics, group_id, config)
        from pylog.client.consumer.consumer import Consumer

        consumer: Consumer[Any, Any] = Consumer(
            self._transport, self._node_id, settings, self._clock, self._lease, self._heartbeats
        )
        _subscribe(consumer, topics)
        return consumer

    @overload
    def share_consumer(
        self, *topics: str, group_id: str, acknowledgement: 'Literal["implicit", "explicit"]' = "implicit",
        key_deserializer: None = None, value_deserializer: None = None, **config: Unpack["ShareConsumerOptions"],
    ) -> "ShareConsumer": ...  # fmt: skip
    @overload
    def share_consumer(
        self, *topics: str, group_id: str, acknowledgement: 'Literal["implicit", "explicit"]' = "implicit",
        key_deserializer: None = None, value_deserializer: "Callable[[bytes], OfValue]",
        **config: Unpack["ShareConsumerOptions"],
    ) -> "ShareConsumer[bytes, OfValue]": ...  # fmt: skip
    @overload
    def share_consumer(
        self, *topics: str, group_id: str, acknowledgement: 'Literal["implicit", "explicit"]' = "implicit",
        key_deserializer: "Callable[[bytes], OfKey]", value_deserializer: None = None,
        **config: Unpack["ShareConsumerOptions"],
    ) -> "ShareConsumer[OfKey, bytes]": ...  # fmt: skip
    @overload
    def share_consumer(
        self, *topics: str, group_id: str, acknowledgement: 'Literal["implicit", "explicit"]' = "implicit",
        key_deserializer: "Callable[[bytes], OfKey]", value_deserializer: "Callable[[bytes], OfValue]",
        **config: Unpack["ShareConsumerOptions"],
    ) -> "ShareConsumer[OfKey, OfValue]": ...  # fmt: skip
    def share_consumer(
        self, *topics: str, group_id: str, acknowledgement: str = "implicit", **config: object
    ) -> "ShareConsumer[Any, Any]":
        """A share consumer, subscribed to `topics` if any. Configs are Kafka's, with underscores
        (`ShareConsumerConfig`).

        Its group gives each record to one of its members, which acknowledges it; so do workers share a queue. With
        `acknowledgement="implicit"` a record is accepted when the next one, or the next poll, is taken, unless it was
        acknowledged otherwise; with "explicit" every one has to be acknowledged. A new group begins at the end of the
        topics (`share.auto.offset.reset` of the group).
        Raises: InvalidTopic, InvalidConfig, ReadOnly, TypeError (a list in place of names).

        >>> log.admin.alter_group_config("packing", {"share.auto.offset.reset": "earliest"})
        >>> with log.share_consumer("orders", group_id="packing") as worker:
        ...     next(worker).value
        b'book'
        """
        settings = self._share_config(topics, group_id, acknowledgement, config)
        from pylog.client.share_consumer.share_consumer import ShareConsumer

        consumer: ShareConsumer[Any, Any] = ShareConsumer(
            self._transport, self._node_id, settings, self._clock, self._lease, self._heartbeats
        )
        _subscribe(consumer, topics)
        return consumer

    def _share_config(
        self, topics: Iterable[str], group_id: str, acknowledgement: str, config: Mapping[str, object]
    ) -> ShareConsumerConfig:
        self._check_open()
        _check_named_one_by_one("share_consumer", topics)
        settings = ShareConsumerConfig.from_kafka({**config, "group_id": group_id, MODE: acknowledgement})
        self._check_group(settings.group_id)
        return settings

    def _consumer_config(
        self, topics: Iterable[str], group_id: str | None, config: Mapping[str, object]
    ) -> ConsumerConfig:
        self._check_open()
        _check_named_one_by_one("consumer", topics)
        settings = ConsumerConfig.from_kafka(config if group_id is None else {**config, "group_id": group_id})
        self._check_group(settings.group_id)
        return settings

    def _check_may_send(self) -> None:
        """Raise ReadOnly where nothing can be sent."""

    def _check_group(self, group_id: str | None) -> None:
        """Raise ReadOnly where a group cannot be joined."""

    # --- numbers -----------------------------------------------------------------------------------------------------

    def metrics(self) -> Metrics:
        """The numbers of this log about itself, by Kafka's names: docs/metrics.md lists them.

        Those of the node, where it is in this process; of the servers that were made here, and the producers and
        consumers that are open; and of the connections to a node elsewhere. Counters begin at 0 when the log, or the
        client, is opened. Nothing is asked over a network, and no partition is opened. Raises Closed.

        >>> log.metrics().total("MessagesInPerSec", topic="orders")
        3
        """
        self._check_open()
        return self._opened.metrics()

    # --- the end -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._opened.check_open()

    def close(self) -> None:
        """Close the servers and clients made here, then the node. All records are durable then.

        A second close waits for the first one, and does nothing. A close whose work failed raises again each time. In
        a signal's handler that has interrupted a close, it returns at once, and the interrupted close goes on.

        Raises: RuntimeError where `Producer.flush` does, and nothing is closed then; StorageError where records could
        not be made durable, and descriptors and locks are given back all the same; Undelivered, as `Producer.close`
        does, when all is closed.

        >>> log.close()
        >>> log.topics()
        Traceback (most recent call last):
            ...
        pylog.errors.Closed: this log is closed; open :memory: again
        """
        tell_failures(self._opened.close())

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a log belongs to its process, and is not pickled: open it there, by pylog.open(path) or "
            "pylog.connect(servers)"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        tell_failures(self._opened.close(), error)
