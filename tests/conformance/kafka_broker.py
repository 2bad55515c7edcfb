"""A real Kafka broker as a context manager: one node, KRaft, on a log directory of ours.

`make kafka` puts its jars into build/kafka. A broker is up in three to six seconds, has 512 MB of heap, and is stopped
by SIGTERM at the end, as a clean stop wants it. What it logs is in `broker.log` of the working directory, anew for each
run; `said` gives what it was not content with.
"""

import contextlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.dump_log import JAVA, QUIET

UP_SECONDS = 60.0
STOP_SECONDS = 60.0
CLUSTER_ID = "ESIzRFVmd4iZqrvM3e7_AQ"
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
"""
# What a broker warns of in every run, on its own files too; and, stopped while it still loads the partitions of
# `__consumer_offsets`, that it stopped loading them.
ITS_OWN = re.compile(
    r"Performing controller activation|Attempting to close NetworkClient|NodeToControllerChannel"
    r"|Stopped loading records"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def java(*words: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen([*JAVA, *words], stdout=out, stderr=out)


class Node:
    """A broker at a fixed address that can be started and stopped again and again.

    `data` is its log directory, formatted at the first start; `settings` are broker configs beside ours.
    """

    def __init__(self, data: Path, work: Path, settings: Mapping[str, str] | None = None) -> None:
        port, controller = free_port(), free_port()
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._data, self._log, self._properties = data, work / "broker.log", work / "server.properties"
        more = "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        self._properties.write_text(SETTINGS.format(port=port, controller=controller, data=data) + more)
        self._log.write_bytes(b"")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        properties = str(self._properties)
        if not (self._data / "meta.properties").exists():
            words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties]
            _ended(java(*words, log=self._log), self._log)
        self._process = java("kafka.Kafka", properties, log=self._log)
        try:
            _wait_until_up(self.bootstrap_servers, self._process, self._log)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop it cleanly."""
        self._end(signal.SIGTERM, (0, 128 + signal.SIGTERM, -signal.SIGTERM))

    def kill(self) -> None:
        self._end(signal.SIGKILL, (-signal.SIGKILL,))

    def _end(self, number: signal.Signals, codes: tuple[int, ...]) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            _ended(process, self._log, codes)


@contextlib.contextmanager
def broker(data: Path, work: Path, *, kill: bool = False, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run Kafka on the log directory `data`; gives its bootstrap servers.

    With `kill` it ends by SIGKILL instead of a clean stop.
    """
    node = Node(data, work, settings)
    node.start()
    try:
        yield node.bootstrap_servers
    except BaseException:
        kill = True
        raise
    finally:
        if kill:
            node.kill()
        else:
            node.stop()


def _ended(process: subprocess.Popen[bytes], log: Path, codes: tuple[int, ...] = (0,)) -> None:
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        pytest.fail(f"Kafka did not end: {log.read_text()[-3000:]}")
    assert process.returncode in codes, f"exit code {process.returncode}: {log.read_text()[-3000:]}"


def _wait_until_up(servers: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the broker leads every partition that it has."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    until = time.monotonic() + UP_SECONDS
    client = admin(servers)
    while True:
        assert process.poll() is None, f"the broker has died: {log.read_text()[-3000:]}"
        try:
            topics = client.list_topics(timeout=2).topics
            keys = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
            for answer in client.list_offsets({key: OffsetSpec.latest() for key in keys}).values() if keys else ():
                answer.result(UP_SECONDS)
            return
        except KafkaException:
            assert time.monotonic() < until, f"the broker does not answer: {log.read_text()[-3000:]}"
            time.sleep(0.2)


def said(work: Path) -> list[str]:
    """What the last broker warned of, or failed at, but for what it always does."""
    lines = (work / "broker.log").read_text().splitlines()
    return [line for line in lines if re.search(r" (WARN|ERROR) ", line) and not ITS_OWN.search(line)]


def transactions(servers: str, *words: str) -> list[dict[str, str]]:
    """What Kafka's `kafka-transactions.sh` prints for these words: a row a producer, by its titles."""
    tool = "org.apache.kafka.tools.TransactionsCommand"
    command = [*JAVA[:1], QUIET, *JAVA[1:], tool, "--bootstrap-server", servers, *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=UP_SECONDS)
    assert ran.returncode == 0, ran.stderr or ran.stdout
    lines = [[cell.strip() for cell in line.split("\t")] for line in ran.stdout.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def admin(servers: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def create_topics(servers: str, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Let Kafka make topics of one partition each, with these configs."""
    from confluent_kafka.admin import NewTopic

    client = admin(servers)
    made = client.create_topics([NewTopic(name, 1, 1, config=dict(config)) for name, config in topics.items()])
    for answer in made.values():
        answer.result(UP_SECONDS)


Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def messages(servers: str, topic: str, isolation: str) -> Iterator[Any]:
    """Every message of partition 0 that confluent-kafka sees."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False, "isolation.level": isolation,
        "check.crcs": True, "enable.partition.eof": True, "fetch.wait.max.ms": 10, "log_level": 0,
    })  # fmt: skip
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=UP_SECONDS)
        consumer.assign([TopicPartition(topic, 0, start)])
        while True:
            message = consumer.poll(UP_SECONDS)
            assert message is not None, f"{topic}: nothing came"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return
            yield message
    finally:
        consumer.close()


def consume(servers: str, topic: str, isolation: str) -> list[Row]:
    """Every record of partition 0 that confluent-kafka sees: offset, timestamp, key, value, headers."""
    return [
        (message.offset(), message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ()))
        for message in messages(servers, topic, isolation)
    ]
