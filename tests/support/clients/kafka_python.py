"""kafka-python as a `Client`."""

from collections.abc import Iterable, Mapping
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata, TopicPartition

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
    "cooperative-sticky": CooperativeStickyAssignor,
}
CODES = {"none": None}


class KafkaPython:
    name = "kafka-python"
    # A member that joins anew because its metadata changed does not always come back from that rebalance (3.0.12).
    lacks = frozenset(["consumer", "rebalance for new metadata"])

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def producer(self, **config: Any) -> "KafkaPythonProducer":
        return KafkaPythonProducer(kafka.KafkaProducer(bootstrap_servers=self._servers, **plain(config)))

    def consumer(self, **config: Any) -> "KafkaPythonConsumer":
        defaults: dict[str, Any] = {**DEFAULTS}
        if config.get("group_id"):
            defaults |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
        if "assignor" in config:
            config["partition_assignment_strategy"] = [ASSIGNORS[config.pop("assignor")]]
        return KafkaPythonConsumer(kafka.KafkaConsumer(bootstrap_servers=self._servers, **defaults, **plain(config)))

    def close(self) -> None:
        pass


class KafkaPythonProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send(self, topic: str, records: Iterable[Sent]) -> list[tuple[int, int]]:
        waiting = [
            call(
                self._producer.send, topic, sent.value, sent.key, list(sent.headers), sent.partition, sent.timestamp
            )
            for sent in records
        ]  # fmt: skip
        found = [call(future.get, HANG_SECONDS) for future in waiting]
        return [(metadata.partition, metadata.offset) for metadata in found]

    def init_transactions(self) -> None:
        call(self._producer.init_transactions)

    def begin(self) -> None:
        call(self._producer.begin_transaction)

    def commit(self) -> None:
        call(self._producer.commit_transaction)

    def abort(self) -> None:
        call(self._producer.abort_transaction)

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: "KafkaPythonConsumer") -> None:
        call(self._producer.send_offsets_to_transaction, positions(offsets), consumer.consumer.group_metadata())

    def close(self) -> None:
        self._producer.close(1)


class KafkaPythonConsumer:
    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def subscribe(self, *topics: str) -> None:
        for topic in topics:
            self.consumer.partitions_for_topic(topic)  # the metadata before it joins: see `KafkaPython.lacks`
        self.consumer.subscribe(topics)

    def subscribe_pattern(self, pattern: str) -> None:
        self.consumer.subscribe(pattern=f"^{pattern}$")

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        self.consumer.assign([TopicPartition(*partition) for partition in offsets])
        for partition, offset in offsets.items():
            self.consumer.seek(TopicPartition(*partition), offset)

    def assignment(self) -> set[Partition]:
        return {(found.topic, found.partition) for found in self.consumer.assignment()}

    def poll(self) -> list[Received]:
        found = call(self.consumer.poll, 500)  # a poll that ends earlier may give up a rebalance that is under way
        return [received(record) for records in found.values() for record in records]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        call(self.consumer.commit, positions(offsets))

    def committed(self, partition: Partition) -> int | None:
        found: int | None = call(self.consumer.committed, TopicPartition(*partition))
        return found

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        key = TopicPartition(*partition)
        return call(self.consumer.beginning_offsets, [key])[key], call(self.consumer.end_offsets, [key])[key]

    def offset_for_time(self, partition: Partition, timestamp: int) -> int | None:
        key = TopicPartition(*partition)
        found = call(self.consumer.offsets_for_times, {key: timestamp})[key]
        return found.offset if found else None

    def close(self) -> None:
        self.consumer.close()


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: CODES.get(value, value) if isinstance(value, str) else value for name, value in config.items()}


def positions(offsets: Mapping[Partition, int]) -> dict[Any, Any]:
    return {TopicPartition(*key): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}


def received(record: Any) -> Received:
    headers = tuple((name, value) for name, value in record.headers)
    return Received(record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, headers)


def call(function: Any, *words: Any) -> Any:
    try:
        return function(*words)
    except kafka.errors.KafkaError as error:
        code = getattr(error, "errno", None)
        raise ClientError(error_name(code) if code else type(error).__name__, str(error)) from error
