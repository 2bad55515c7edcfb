"""aiokafka as a `Client`: an event loop in a thread of its own runs what it does."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from support.clients.values import ClientError, Partition, Received, Sent
from support.patience import HANG_SECONDS
from support.raw_client import error_name

DEFAULTS = {
    "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50, "metadata_max_age_ms": 500,
}  # fmt: skip
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AioKafka:
    name = "aiokafka"
    # Its heartbeats name no instance id, so a fenced static member takes itself for lost, and joins anew.
    lacks = frozenset(["consumer", "cooperative-sticky", "fencing of static members"])

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG_SECONDS)
        except KafkaError as error:
            code = getattr(error, "errno", None)
            raise ClientError(error_name(code) if code else type(error).__name__, str(error)) from error

    def producer(self, **config: Any) -> "AioProducer":
        if config.get("compression_type") == "none":
            del config["compression_type"]
        return AioProducer(self, self.run(self._start(aiokafka.AIOKafkaProducer, config)))

    def consumer(self, **config: Any) -> "AioConsumer":
        defaults: dict[str, Any] = {**DEFAULTS}
        if config.get("group_id"):
            defaults |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
        if "assignor" in config:
            config["partition_assignment_strategy"] = [ASSIGNORS[config.pop("assignor")]]
        return AioConsumer(self, self.run(self._start(aiokafka.AIOKafkaConsumer, defaults | config)))

    async def _start(self, kind: Any, config: dict[str, Any]) -> Any:
        client = kind(bootstrap_servers=self._servers, **config)
        if kind is aiokafka.AIOKafkaProducer and "transactional_id" in config:
            return client  # `init_transactions` starts it
        await client.start()
        return client

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_SECONDS)
        self._loop.close()


class AioProducer:
    def __init__(self, client: AioKafka, producer: Any) -> None:
        self._run, self._producer = client.run, producer

    def send(self, topic: str, records: Iterable[Sent]) -> list[tuple[int, int]]:
        async def send_all() -> list[Any]:
            waiting = [
                await self._producer.send(
                    topic, sent.value, sent.key, sent.partition, sent.timestamp, headers=list(sent.headers)
                )
                for sent in records
            ]
            return [await future for future in waiting]

        found = self._run(send_all())
        return [(metadata.partition, metadata.offset) if metadata else (-1, -1) for metadata in found]

    def init_transactions(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: "AioConsumer") -> None:
        self._run(self._producer.send_offsets_to_transaction(positions(offsets), consumer.group_id))

    def close(self) -> None:
        self._run(self._producer.stop())


class AioConsumer:
    def __init__(self, client: AioKafka, consumer: Any) -> None:
        self._run, self.consumer = client.run, consumer
        self.group_id = consumer._group_id

    def subscribe(self, *topics: str) -> None:
        self._call(self.consumer.subscribe, topics)

    def subscribe_pattern(self, pattern: str) -> None:
        self._call(lambda: self.consumer.subscribe(pattern=f"^{pattern}$"))

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        self._call(self.consumer.assign, [aiokafka.TopicPartition(*partition) for partition in offsets])
        for partition, offset in offsets.items():
            self._call(self.consumer.seek, aiokafka.TopicPartition(*partition), offset)

    def assignment(self) -> set[Partition]:
        return {(found.topic, found.partition) for found in self._call(self.consumer.assignment)}

    def poll(self) -> list[Received]:
        found = self._run(self.consumer.getmany(timeout_ms=100))
        return [received(record) for records in found.values() for record in records]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        self._run(self.consumer.commit(positions(offsets)))

    def committed(self, partition: Partition) -> int | None:
        found: int | None = self._run(self.consumer.committed(aiokafka.TopicPartition(*partition)))
        return found

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        key = aiokafka.TopicPartition(*partition)
        low = self._run(self.consumer.beginning_offsets([key]))
        return low[key], self._run(self.consumer.end_offsets([key]))[key]

    def offset_for_time(self, partition: Partition, timestamp: int) -> int | None:
        key = aiokafka.TopicPartition(*partition)
        found = self._run(self.consumer.offsets_for_times({key: timestamp}))[key]
        return found.offset if found else None

    def close(self) -> None:
        self._run(self.consumer.stop())

    def _call(self, function: Any, *words: Any) -> Any:
        """Call in the loop's thread what belongs to it."""

        async def called() -> Any:
            return function(*words)

        return self._run(called())


def positions(offsets: Mapping[Partition, int]) -> dict[Any, int]:
    return {aiokafka.TopicPartition(*key): offset for key, offset in offsets.items()}


def received(record: Any) -> Received:
    headers = tuple(record.headers)
    return Received(record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, headers)
