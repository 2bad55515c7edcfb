"""A real Kafka broker as a context manager: one node, KRaft, on a log directory of ours.

`make kafka` puts its jars into build/kafka. A broker is up in two or three seconds, has 512 MB of heap, and is stopped
by SIGTERM at the end, as a clean stop wants it.
"""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.dump_log import JARS

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
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.cleaner.enable=false
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def java(*words: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(["java", "-Xmx512m", "-cp", f"{JARS}/*", *words], stdout=out, stderr=out)


@contextlib.contextmanager
def broker(data: Path, work: Path, *, kill: bool = False) -> Iterator[str]:
    """Run Kafka on the log directory `data`, formatted first where it is new; gives its bootstrap servers.

    With `kill` it ends by SIGKILL instead of a clean stop.
    """
    port, controller = free_port(), free_port()
    settings, log = work / "server.properties", work / "broker.log"
    settings.write_text(SETTINGS.format(port=port, controller=controller, data=data))
    if not (data / "meta.properties").exists():
        tool = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings), log=log)
        assert tool.wait(UP_SECONDS) == 0, log.read_text()
    process = java("kafka.Kafka", str(settings), log=log)
    try:
        servers = f"127.0.0.1:{port}"
        _wait_until_up(servers, process, log)
        yield servers
    finally:
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"the broker did not stop: {log.read_text()[-3000:]}")


def _wait_until_up(servers: str, process: subprocess.Popen[bytes], log: Path) -> None:
    from confluent_kafka import KafkaException

    until = time.monotonic() + UP_SECONDS
    while True:
        assert process.poll() is None, f"the broker has died: {log.read_text()[-3000:]}"
        try:
            admin(servers).list_topics(timeout=2)
            return
        except KafkaException:
            assert time.monotonic() < until, f"the broker does not answer: {log.read_text()[-3000:]}"
            time.sleep(0.2)


def admin(servers: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def create_topics(servers: str, topics: dict[str, dict[str, str]]) -> None:
    """Let Kafka make topics of one partition each, with these configs."""
    from confluent_kafka.admin import NewTopic

    client = admin(servers)
    made = client.create_topics([NewTopic(name, 1, 1, config=config) for name, config in topics.items()])
    for answer in made.values():
        answer.result(UP_SECONDS)


Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def consume(servers: str, topic: str, isolation: str) -> list[Row]:
    """Every record of partition 0 that confluent-kafka sees: offset, timestamp, key, value, headers."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False, "isolation.level": isolation,
        "check.crcs": True, "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    rows: list[Row] = []
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=UP_SECONDS)
        consumer.assign([TopicPartition(topic, 0, start)])
        while True:
            message = consumer.poll(UP_SECONDS)
            assert message is not None, f"{topic}: nothing came"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return rows
            headers = tuple(message.headers() or ())
            rows.append((message.offset(), message.timestamp()[1], message.key(), message.value(), headers))
    finally:
        consumer.close()
