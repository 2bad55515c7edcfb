"""The interface of every Kafka client of the tests, and the values that pass through it.

Configs are Kafka's, with underscores. Errors are `ClientError` with Kafka's name of the error code.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from support.patience import HANG_SECONDS

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]
Partition = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record to send; `partition` None leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = 0
    timestamp: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Received:
    """A record as a consumer has it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ClientError(Exception):
    """A client's exception for an error of the server; `name` is the error's in Kafka's table."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Producer(Protocol):
    def send(self, topic: str, records: Iterable[Sent]) -> list[tuple[int, int]]:
        """Send, and wait for all: the partition and offset of each record, -1 where acks=0 tells none."""

    def init_transactions(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: "Consumer") -> None: ...

    def close(self) -> None: ...


class Consumer(Protocol):
    def subscribe(self, *topics: str) -> None: ...

    def subscribe_pattern(self, pattern: str) -> None: ...

    def assign(self, offsets: Mapping[Partition, int]) -> None: ...

    def assignment(self) -> set[Partition]: ...

    def poll(self) -> list[Received]:
        """The records that come within a tenth of a second, or half a one."""

    def commit(self, offsets: Mapping[Partition, int]) -> None: ...

    def committed(self, partition: Partition) -> int | None: ...

    def watermarks(self, partition: Partition) -> tuple[int, int]: ...

    def offset_for_time(self, partition: Partition, timestamp: int) -> int | None:
        """The first offset at or after a time; None where there is none."""

    def close(self) -> None: ...


class Client(Protocol):
    """A client library. What it lacks is in `lacks`: assignors, "consumer" (the protocol of KIP-848), and more."""

    name: str
    lacks: frozenset[str]

    def producer(self, **config: Any) -> Producer: ...

    def consumer(self, **config: Any) -> Consumer: ...

    def close(self) -> None: ...


def until(found: Callable[[], T], *, patience: float = HANG_SECONDS) -> T:
    """Ask again and again until the answer is true; gives it. Fails with the last answer after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        answer = found()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"after {patience:.0f} s it is still {answer!r}"
        time.sleep(0.01)


def read_all(consumer: Consumer, count: int) -> list[Received]:
    """Poll until `count` records have come; one more poll has to give none."""
    received: list[Received] = []
    deadline = time.monotonic() + HANG_SECONDS
    while len(received) < count:
        received += consumer.poll()
        assert time.monotonic() < deadline, f"{len(received)} of {count} records came: {received[-3:]}"
    received += consumer.poll()
    assert len(received) == count, received[count:]
    return sorted(received, key=lambda record: (record.topic, record.partition, record.offset))
