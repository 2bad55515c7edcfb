"""confluent-kafka (librdkafka) as a `Client`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import confluent_kafka as ck

from support.clients.values import ClientError, Partition, Received, Sent
from support.patience import HANG_SECONDS
from support.raw_client import error_name

DEFAULTS = {"log_level": 0, "allow.auto.create.topics": True}
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
# librdkafka looks for topics that a pattern matches at another interval.
METADATA = {"metadata.max.age.ms": 500, "topic.metadata.refresh.interval.ms": 500}


class Confluent:
    name = "confluent"
    lacks = frozenset(["sticky"])

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = {"bootstrap.servers": bootstrap_servers, **DEFAULTS}

    def producer(self, **config: Any) -> "ConfluentProducer":
        return ConfluentProducer({**self._servers, **dotted(config)})

    def consumer(self, **config: Any) -> "ConfluentConsumer":
        defaults = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 50, **METADATA}
        assignors = {"partition.assignment.strategy": "assignor", "group.remote.assignor": "remote_assignor"}
        given = {name: config.pop(ours) for name, ours in assignors.items() if ours in config}
        if config.get("group_protocol") != "consumer":
            defaults |= CLASSIC
        config.setdefault("group_id", "unused")  # librdkafka has no consumer without a group
        return ConfluentConsumer({**self._servers, **defaults, **dotted(config), **given})

    def close(self) -> None:
        pass


class ConfluentProducer:
    def __init__(self, config: dict[str, Any]) -> None:
        self._producer = ck.Producer(config)

    def send(self, topic: str, records: Iterable[Sent]) -> list[tuple[int, int]]:
        reports: list[tuple[Any, Any]] = []
        for sent in records:
            more = {} if sent.partition is None else {"partition": sent.partition}
            more |= {} if sent.timestamp is None else {"timestamp": sent.timestamp}
            headers = list(sent.headers)
            self._producer.produce(topic, sent.value, sent.key, headers=headers, on_delivery=_into(reports), **more)
        assert self._producer.flush(HANG_SECONDS) == 0
        for error, _ in reports:
            raise_for(error)
        return [(message.partition(), -1 if message.offset() is None else message.offset()) for _, message in reports]

    def init_transactions(self) -> None:
        call(self._producer.init_transactions, HANG_SECONDS)

    def begin(self) -> None:
        call(self._producer.begin_transaction)

    def commit(self) -> None:
        call(self._producer.commit_transaction, HANG_SECONDS)

    def abort(self) -> None:
        call(self._producer.abort_transaction, HANG_SECONDS)

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: "ConfluentConsumer") -> None:
        metadata = consumer.consumer.consumer_group_metadata()
        call(self._producer.send_offsets_to_transaction, positions(offsets), metadata, HANG_SECONDS)

    def close(self) -> None:
        self._producer.flush(HANG_SECONDS)


class ConfluentConsumer:
    def __init__(self, config: dict[str, Any]) -> None:
        self.consumer = ck.Consumer(config)

    def subscribe(self, *topics: str) -> None:
        self.consumer.subscribe(list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        self.consumer.subscribe([f"^{pattern}$"])

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        self.consumer.assign(positions(offsets))

    def assignment(self) -> set[Partition]:
        return {(found.topic, found.partition) for found in self.consumer.assignment()}

    def poll(self) -> list[Received]:
        return [received(message) for message in self.consumer.consume(500, 0.1)]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        for done in call(self.consumer.commit, offsets=positions(offsets), asynchronous=False):
            raise_for(done.error)

    def committed(self, partition: Partition) -> int | None:
        (found,) = call(self.consumer.committed, [ck.TopicPartition(*partition)], HANG_SECONDS)
        return found.offset if found.offset >= 0 else None

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        low, high = call(self.consumer.get_watermark_offsets, ck.TopicPartition(*partition), HANG_SECONDS)
        return low, high

    def offset_for_time(self, partition: Partition, timestamp: int) -> int | None:
        asked = [ck.TopicPartition(*partition, timestamp)]
        (found,) = call(self.consumer.offsets_for_times, asked, HANG_SECONDS)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self.consumer.close()


def _into(reports: list[tuple[Any, Any]]) -> Callable[[Any, Any], None]:
    return lambda error, message: reports.append((error, message))


def dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def positions(offsets: Mapping[Partition, int]) -> list[Any]:
    return [ck.TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]


def received(message: Any) -> Received:
    raise_for(message.error())
    headers = tuple(message.headers() or ())
    return Received(
        message.topic(), message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(),
        headers,
    )  # fmt: skip


def call(function: Any, *words: Any, **named: Any) -> Any:
    try:
        return function(*words, **named)
    except ck.KafkaException as error:
        raise_for(error.args[0])


def raise_for(error: Any) -> None:
    if error is not None:
        name = error_name(error.code()) if error.code() > 0 else error.name()
        raise ClientError(name, error.str())
