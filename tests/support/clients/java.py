"""Kafka's Java clients as a `Client`: a program in a JVM does what lines on its standard input say.

Its source is in tests/conformance/java; `make conformance` compiles it into build/java.
"""

import base64
import json
import subprocess
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conformance.dump_log import JAVA, QUIET
from support.clients.values import ClientError, Partition, Received, Sent

CLASSES = Path(__file__).parents[3] / "build" / "java" / "classes"
ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
PACKAGE = "org.apache.kafka.clients.consumer."


class Java:
    name = "java"
    lacks = frozenset[str]()

    def __init__(self, bootstrap_servers: str) -> None:
        *options, _, jars = JAVA[1:]
        command = ["java", QUIET, *options, "-cp", f"{CLASSES}:{jars}", "pylog.Main"]
        self._servers = {"bootstrap.servers": bootstrap_servers}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._count = 0
        self._lock = threading.Lock()

    def producer(self, **config: Any) -> "JavaProducer":
        return JavaProducer(self, self.make("producer", config))

    def consumer(self, **config: Any) -> "JavaConsumer":
        defaults: dict[str, Any] = {
            "auto_offset_reset": "earliest", "enable_auto_commit": "false", "fetch_max_wait_ms": 50,
            "metadata_max_age_ms": 500,
        }  # fmt: skip
        assignor, remote = config.pop("assignor", None), config.pop("remote_assignor", None)
        if config.get("group_id") and config.get("group_protocol") != "consumer":
            defaults |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
        if assignor:
            defaults["partition_assignment_strategy"] = PACKAGE + ASSIGNORS[assignor]
        if remote:
            defaults["group_remote_assignor"] = remote
        return JavaConsumer(self, self.make("consumer", defaults | config))

    def admin(self) -> "JavaObject":
        return JavaObject(self, self.make("admin", {}))

    def make(self, kind: str, config: Mapping[str, Any]) -> int:
        self._count += 1
        dotted = {name.replace("_", "."): value for name, value in config.items()}
        self.call(self._count, kind, config={**self._servers, **dotted})
        return self._count

    def call(self, on: int, name: str, /, **words: Any) -> Any:
        """Have a method called, and give what it returned. Raises ClientError."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"on": on, "call": name, **words}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, f"the JVM has ended in {name}"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"], answer["message"])
        return answer["value"]

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


class JavaObject:
    """An object in the JVM, known by its number."""

    def __init__(self, java: Java, number: int) -> None:
        self._java, self.number = java, number

    def call(self, name: str, /, **words: Any) -> Any:
        return self._java.call(self.number, name, **words)

    def close(self) -> None:
        self.call("close")


class JavaProducer(JavaObject):
    def send(self, topic: str, records: Iterable[Sent]) -> list[tuple[int, int]]:
        rows = [
            {
                "partition": sent.partition, "timestamp": sent.timestamp, "key": encoded(sent.key),
                "value": encoded(sent.value), "headers": [[name, encoded(value)] for name, value in sent.headers],
            }
            for sent in records
        ]  # fmt: skip
        return [(partition, offset) for partition, offset in self.call("send", topic=topic, records=rows)]

    def init_transactions(self) -> None:
        self.call("initTransactions")

    def begin(self) -> None:
        self.call("begin")

    def commit(self) -> None:
        self.call("commit")

    def abort(self) -> None:
        self.call("abort")

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: "JavaConsumer") -> None:
        self.call("sendOffsets", offsets=rows(offsets), consumer=consumer.number)


class JavaConsumer(JavaObject):
    def subscribe(self, *topics: str) -> None:
        self.call("subscribe", topics=topics)

    def subscribe_pattern(self, pattern: str) -> None:
        self.call("subscribePattern", pattern=pattern)

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        self.call("assign", offsets=rows(offsets))

    def assignment(self) -> set[Partition]:
        return {(topic, partition) for topic, partition in self.call("assignment")}

    def poll(self) -> list[Received]:
        return [received(row) for row in self.call("poll", millis=100)]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.call("commit", offsets=rows(offsets))

    def committed(self, partition: Partition) -> int | None:
        found: int | None = self.call("committed", partition=partition)
        return found

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        low, high = self.call("watermarks", partition=partition)
        return low, high

    def offset_for_time(self, partition: Partition, timestamp: int) -> int | None:
        found: int | None = self.call("offsetForTime", partition=partition, timestamp=timestamp)
        return found


def rows(offsets: Mapping[Partition, int]) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for (topic, partition), offset in offsets.items()]


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def received(row: list[Any]) -> Received:
    topic, partition, offset, timestamp, key, value, headers = row
    pairs = tuple((name, decoded(text)) for name, text in headers)
    return Received(topic, partition, offset, timestamp, decoded(key), decoded(value), pairs)


def missing() -> str | None:
    """Why the program cannot run here, or None."""
    if not (CLASSES / "pylog" / "Main.class").exists():
        return "the Java program is not compiled: run `make conformance` first"
    return None
