"""pylog's own client over a network as a `Client`."""

from collections.abc import Iterable, Mapping
from typing import Any

import pylog
from pylog.errors import ProtocolError
from support.clients.values import ClientError, Partition, Received, Sent
from support.patience import HANG_SECONDS

DEFAULTS = {
    "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50, "metadata_max_age_ms": 500,
}  # fmt: skip
CLASSIC = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
POLL_MS = 200


class Pylog:
    name = "pylog"
    lacks: frozenset[str] = frozenset()

    def __init__(self, bootstrap_servers: str) -> None:
        self._log = pylog.connect(bootstrap_servers, allow_auto_create_topics=True)

    def producer(self, **config: Any) -> "PylogProducer":
        return PylogProducer(self._log, config)

    def consumer(self, **config: Any) -> "PylogConsumer":
        defaults: dict[str, Any] = {**DEFAULTS}
        if not config.get("group_id"):
            del defaults["enable_auto_commit"]
        elif config.get("group_protocol") != "consumer":
            defaults |= CLASSIC
        ours = {"assignor": "partition_assignment_strategy", "remote_assignor": "group_remote_assignor"}
        named = {ours.get(name, name): value for name, value in config.items()}
        return PylogConsumer(self._log.consumer(**defaults, **named))

    def close(self) -> None:
        self._log.close()


class PylogProducer:
    def __init__(self, log: pylog.ConnectedLog, config: dict[str, Any]) -> None:
        self._log, self._config = log, config
        self._made: pylog.Producer | None = None

    @property
    def _producer(self) -> pylog.Producer:
        # One with transactions is initialised when it is made.
        if self._made is None:
            self._made = call(self._log.producer, **self._config)
        return self._made

    def send(self, topic: str, records: Iterable[Sent]) -> list[tuple[int, int]]:
        futures = [
            call(
                self._producer.send, topic, sent.value, sent.key, partition=sent.partition,
                timestamp_ms=sent.timestamp, headers=sent.headers,
            )
            for sent in records
        ]  # fmt: skip
        found = [call(future.result, HANG_SECONDS) for future in futures]
        return [(metadata.partition, metadata.offset) for metadata in found]

    def init_transactions(self) -> None:
        assert self._producer

    def begin(self) -> None:
        call(self._producer.begin)

    def commit(self) -> None:
        call(self._producer.commit)

    def abort(self) -> None:
        call(self._producer.abort)

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: "PylogConsumer") -> None:
        call(self._producer.send_offsets, positions(offsets), consumer.consumer.group_metadata())

    def close(self) -> None:
        if self._made is not None:
            self._made.close(HANG_SECONDS)


class PylogConsumer:
    def __init__(self, consumer: pylog.Consumer) -> None:
        self.consumer = consumer

    def subscribe(self, *topics: str) -> None:
        self.consumer.subscribe(topics)

    def subscribe_pattern(self, pattern: str) -> None:
        self.consumer.subscribe(pattern=pattern)

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        self.consumer.assign([pylog.TopicPartition(*partition) for partition in offsets])
        for partition, offset in offsets.items():
            self.consumer.seek(pylog.TopicPartition(*partition), offset)

    def assignment(self) -> set[Partition]:
        return {tuple(found) for found in self.consumer.assignment()}

    def poll(self) -> list[Received]:
        return [received(record) for record in call(self.consumer.poll, POLL_MS)]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        call(self.consumer.commit, positions(offsets))

    def committed(self, partition: Partition) -> int | None:
        key = pylog.TopicPartition(*partition)
        found = call(self.consumer.committed, [key])[key]
        return None if found is None else int(found.offset)

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        key = pylog.TopicPartition(*partition)
        return call(self.consumer.beginning_offsets, [key])[key], call(self.consumer.end_offsets, [key])[key]

    def offset_for_time(self, partition: Partition, timestamp: int) -> int | None:
        key = pylog.TopicPartition(*partition)
        found = call(self.consumer.offsets_for_times, {key: timestamp})[key]
        return None if found is None else int(found.offset)

    def close(self) -> None:
        self.consumer.close()


def positions(offsets: Mapping[Partition, int]) -> dict[pylog.TopicPartition, int]:
    return {pylog.TopicPartition(*partition): offset for partition, offset in offsets.items()}


def received(record: pylog.ConsumerRecord) -> Received:
    headers = tuple((header.key, header.value) for header in record.headers)
    return Received(
        record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, headers
    )  # fmt: skip


def call(function: Any, *words: Any, **named: Any) -> Any:
    try:
        return function(*words, **named)
    except ProtocolError as error:
        raise ClientError(error.kafka_name, str(error)) from error
