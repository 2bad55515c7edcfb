"""Three clients that go on whatever happens to their server: two idempotent producers, and a consumer that commits.

Each is a thread. Producers send numbers, one after the other, to a topic of their own, and note what was acknowledged.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Any

import aiokafka
import confluent_kafka as ck
from aiokafka.errors import KafkaError

TIMEOUT_MS = 120_000
IN_FLIGHT = 200
CONFLUENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


class Load(threading.Thread, ABC):
    """A client at work until `end` is called. `failed` is what it could not bear."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(daemon=True, name=f"load of {topic}")
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        """Offsets by numbers."""
        self.highest = -1
        """The highest of these offsets."""
        self.sent = 0
        self.failed: list[str] = []
        self._servers = bootstrap_servers
        self._ends = threading.Event()

    def end(self) -> None:
        """Let it end what it has begun. Raises AssertionError where it does not."""
        self._ends.set()
        self.join(TIMEOUT_MS / 1000)
        assert not self.is_alive(), f"{self.name} does not end"
        assert not self.failed, f"{self.name}: {self.failed[:5]}"

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001
            self.failed.append(repr(error))

    def acknowledge(self, number: int, offset: int) -> None:
        """Note where a number lies."""
        self.acknowledged[number] = offset
        self.highest = max(self.highest, offset)

    @abstractmethod
    def work(self) -> None: ...


class ConfluentProducer(Load):
    """librdkafka, which numbers its batches and sends them again until they are answered."""

    def work(self) -> None:
        producer = ck.Producer({
            "bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 1,
            "message.timeout.ms": TIMEOUT_MS, **CONFLUENT,
        })  # fmt: skip
        while not self._ends.is_set():
            for _ in range(10 if len(producer) < IN_FLIGHT else 0):
                producer.produce(self.topic, b"%d" % self.sent, partition=0, on_delivery=self._delivered)
                self.sent += 1
            producer.poll(0.005)
        left = producer.flush(TIMEOUT_MS / 1000)
        if left:
            self.failed.append(f"{left} records were never answered")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledge(int(message.value()), message.offset())


class AioProducer(Load):
    """aiokafka, which has one batch of a partition on its way."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._servers, enable_idempotence=True, retry_backoff_ms=20,
            request_timeout_ms=TIMEOUT_MS, metadata_max_age_ms=1000,
        )  # fmt: skip
        await producer.start()
        try:
            while not self._ends.is_set():
                numbers = range(self.sent, self.sent + 5)
                self.sent = numbers.stop
                found = [await producer.send(self.topic, b"%d" % number, partition=0) for number in numbers]
                for number, future in zip(numbers, found, strict=True):
                    try:
                        self.acknowledge(number, (await future).offset)
                    except KafkaError as error:
                        self.failed.append(repr(error))
        finally:
            await producer.stop()


class CommittingConsumer(Load):
    """A member of a group that reads a topic of numbers and commits where it is. What it has seen is in `seen`."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str) -> None:
        super().__init__(bootstrap_servers, topic)
        self.group = group
        self.seen: dict[int, int] = {}
        """Numbers by offsets."""
        self.committed = 0

    def work(self) -> None:
        consumer = ck.Consumer({
            "bootstrap.servers": self._servers, "group.id": self.group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "session.timeout.ms": 6000, "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 20, **CONFLUENT,
        })  # fmt: skip
        consumer.subscribe([self.topic])
        while not self._ends.is_set():
            found = [message for message in consumer.consume(100, 0.05) if message.error() is None]
            for message in found:
                number = int(message.value())
                before = self.seen.setdefault(message.offset(), number)
                if before != number:
                    self.failed.append(f"offset {message.offset()} was {before} and is {number}")
            if found:
                self._commit(consumer, found[-1].offset() + 1)
        consumer.close()

    def _commit(self, consumer: Any, offset: int) -> None:
        try:
            consumer.commit(offsets=[ck.TopicPartition(self.topic, 0, offset)], asynchronous=False)
        except ck.KafkaException:
            return  # the server is away, or the group is about to be balanced
        # A commit that is sent again by a member that was away may be behind that of an earlier life.
        self.committed = offset
