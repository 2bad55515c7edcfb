"""pylog's own client at a real Kafka of three brokers, of which one is killed and another one is stopped.

Every topic has three replicas, and two have to have a record. So what was acknowledged is there whoever dies.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from conformance import dump_log
from conformance.kafka_broker import CLUSTER_ID, free_port, java
from conformance.wire.conftest import CHOSEN
from pylog.errors import PylogError
from support.clients.values import until

pytestmark = pytest.mark.skipif("kafka" not in CHOSEN, reason="a real Kafka was not asked for (PYLOG_SERVERS)")

UP_SECONDS = 90.0
SECONDS = 60.0
SETTINGS = """\
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.num.partitions=4
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
min.insync.replicas=2
default.replication.factor=3
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class Brokers:
    """Three brokers, of which the first is the controller, too."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._controller = free_port()
        self._ports = {node: free_port() for node in (1, 2, 3)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, node: int) -> None:
        place, data = f"PLAINTEXT://127.0.0.1:{self._ports[node]}", self._work / f"data{node}"
        is_first = node == 1
        listeners = f"{place},CONTROLLER://127.0.0.1:{self._controller}" if is_first else place
        properties = self._work / f"{node}.properties"
        properties.write_text(
            f"process.roles={'broker,controller' if is_first else 'broker'}\nnode.id={node}\nlisteners={listeners}\n"
            f"advertised.listeners={place}\nlog.dirs={data}\nbroker.rack=rack{node}\n"
            + SETTINGS.format(controller=self._controller)
        )
        log = self._work / f"{node}.log"
        if not (data / "meta.properties").exists():
            words = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
            assert java(*words, log=log).wait(SECONDS) == 0
        self._processes[node] = java("kafka.Kafka", str(properties), log=log)

    def tell(self, node: int, number: signal.Signals) -> None:
        self._processes[node].send_signal(number)

    def end(self, node: int, number: signal.Signals) -> None:
        process = self._processes.pop(node)
        process.send_signal(number)
        process.wait(SECONDS)

    def close(self) -> None:
        for node in list(self._processes):
            self.end(node, signal.SIGKILL)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    if reason := dump_log.missing():
        pytest.skip(reason)
    cluster = Brokers(tmp_path)
    try:
        for node in (1, 2, 3):
            cluster.start(node)
        until(lambda: _is_up(cluster), patience=UP_SECONDS)
        yield cluster
    finally:
        cluster.close()


def _is_up(cluster: Brokers) -> bool:
    """Whether a topic gets its three replicas."""
    try:
        with pylog.connect(cluster.bootstrap_servers) as log:
            log.create_topic("t", 6)
            return True
    except PylogError:
        return False


def test_nothing_is_lost_or_twice_when_brokers_die_under_a_producer_and_a_group(brokers: Brokers) -> None:
    sent: list[Any] = []
    got: list[bytes | None] = []
    with pylog.connect(brokers.bootstrap_servers) as log:
        reader = threading.Thread(target=_read, args=(log, got))
        reader.start()
        with log.producer(linger_ms=1) as producer:

            def burst(count: int) -> None:
                for _ in range(count):
                    value = b"%d" % len(sent)
                    sent.append(producer.send("t", value, key=value))

            burst(2000)
            brokers.end(2, signal.SIGKILL)
            burst(5000)
            producer.flush(SECONDS)
            brokers.start(2)
            until(lambda: _is_whole(log), patience=UP_SECONDS)
            burst(2000)
            brokers.end(3, signal.SIGTERM)
            burst(5000)
        assert [future.exception(SECONDS) for future in sent if future.exception(SECONDS) is not None] == []
        with log.producer(transactional_id="tx") as producer, producer.transaction():
            producer.send("t", b"end", partition=0)
            producer.send_offsets({pylog.TopicPartition("t", 0): 1}, "offsets")
        until(lambda: b"end" in got)
        until(lambda: len(got) == len(sent) + 1)
        reader.join(SECONDS)
        for part in log.topic("t"):
            numbers = [int(r.value or b"") for r in part.records(isolation_level="read_committed") if r.value != b"end"]
            assert numbers == sorted(set(numbers))
    assert sorted(int(value or b"") for value in got if value != b"end") == list(range(len(sent)))


def test_a_consumer_with_a_rack_reads_from_the_replica_there(brokers: Brokers) -> None:
    with pylog.connect(brokers.bootstrap_servers) as log:
        until(lambda: _is_whole(log), patience=UP_SECONDS)
        # Node 1 is the controller as well: it has to run on.
        part = next(part for part in log.admin.topic("t").partitions if part.leader != 1)
        place = pylog.TopicPartition("t", part.partition)
        with log.producer() as producer:
            producer.send("t", b"x", partition=place.partition)
        with log.consumer(client_rack="rack1", auto_offset_reset="earliest") as consumer:
            consumer.assign([place])
            assert [record.value for record in consumer.poll(SECONDS * 1000)] == [b"x"]
            brokers.tell(part.leader, signal.SIGSTOP)
            try:
                # The cluster takes three seconds to miss the leader.
                consumer.seek(place, 0)
                assert [record.value for record in consumer.poll(2000)] == [b"x"]
                assert log.admin.topic("t").partitions[part.partition].leader == part.leader
            finally:
                brokers.tell(part.leader, signal.SIGCONT)


def _is_whole(log: pylog.ConnectedLog) -> bool:
    """Whether every replica of the topic is in sync."""
    return all(len(part.isr) == 3 for part in log.admin.topic("t").partitions)


def _read(log: pylog.ConnectedLog, got: list[bytes | None]) -> None:
    with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        while b"end" not in got or consumer.lag() != dict.fromkeys(consumer.assignment(), 0):
            got += [record.value for record in consumer.poll(500)]
