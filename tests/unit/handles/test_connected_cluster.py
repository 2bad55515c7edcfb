"""`pylog.connect` to a cluster of two nodes whose leaders and coordinators move, and of which one goes away."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog.protocol.messages import Fetch, ProduceRequest
from pylog.protocol.messages.groups import JoinGroupRequest
from pylog.protocol.messages.offsets import OffsetCommitRequest
from pylog.protocol.messages.transactions import EndTxnRequest
from support.patience import HANG_SECONDS
from support.two_nodes import TwoNodes

T0, T1 = pylog.TopicPartition("t", 0), pylog.TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[TwoNodes]:
    with TwoNodes() as nodes:
        nodes.log.create_topic("t", 2)
        yield nodes


@pytest.fixture
def log(cluster: TwoNodes) -> Iterator[pylog.ConnectedLog]:
    with pylog.connect(cluster.bootstrap_servers.split(",")[0]) as connected:
        yield connected


def test_each_partition_is_written_and_read_at_its_leader(cluster: TwoNodes, log: pylog.ConnectedLog) -> None:
    cluster.lead(2, T1)
    with log.producer() as producer:
        for i in range(10):
            producer.send("t", b"%d" % i, partition=i % 2)
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        got: list[bytes | None] = []
        while len(got) < 10:
            got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
    assert sorted(got) == [b"%d" % i for i in range(10)]
    assert {kind for node, kind in cluster.asked if node == 2} >= {ProduceRequest, Fetch}
    assert {kind for node, kind in cluster.asked if node == 1} >= {ProduceRequest, Fetch}


def test_a_producer_and_a_consumer_follow_a_leader_that_moves(cluster: TwoNodes, log: pylog.ConnectedLog) -> None:
    config: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5}
    got: list[bytes | None] = []
    with log.producer(linger_ms=0, retry_backoff_ms=5) as producer, log.consumer(**config) as consumer:
        consumer.assign([T0])
        for turn in range(5):
            cluster.lead(1 + turn % 2, T0)
            for i in range(40):
                producer.send("t", b"%d" % (turn * 40 + i), partition=0)
            producer.flush(HANG_SECONDS)
            while len(got) < turn * 40 + 40:
                got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
    assert got == [b"%d" % i for i in range(200)]
    assert {(1, ProduceRequest), (2, ProduceRequest), (1, Fetch), (2, Fetch)} <= set(cluster.asked)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_follows_its_coordinator(cluster: TwoNodes, log: pylog.ConnectedLog, protocol: str) -> None:
    config: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        config["heartbeat_interval_ms"] = 50
    with log.producer() as producer, log.consumer("t", **config) as consumer:
        producer.send("t", b"1", partition=0).result(HANG_SECONDS)
        assert [record.value for record in consumer.poll(HANG_SECONDS * 1000)] == [b"1"]
        consumer.commit()
        cluster.coordinator = 2
        producer.send("t", b"2", partition=0).result(HANG_SECONDS)
        assert [record.value for record in consumer.poll(HANG_SECONDS * 1000)] == [b"2"]
        consumer.commit()
        assert log.admin.committed("g")[T0].offset == 2
        assert log.admin.describe_group("g").coordinator == 2
    assert {(1, OffsetCommitRequest), (2, OffsetCommitRequest)} <= set(cluster.asked)
    assert protocol == "consumer" or (1, JoinGroupRequest) in cluster.asked


def test_a_transaction_follows_its_coordinator(cluster: TwoNodes, log: pylog.ConnectedLog) -> None:
    cluster.lead(2, T1)
    with log.producer(transactional_id="tx") as producer:
        for node in (1, 2, 1):
            with producer.transaction():
                producer.send("t", b"%d" % node, partition=node % 2)
                producer.send_offsets({T0: node}, "g")
                cluster.coordinator = node
    found = [r.value for part in log.topic("t") for r in part.records(isolation_level="read_committed")]
    assert sorted(value or b"" for value in found) == [b"1", b"1", b"2"]
    assert {(1, EndTxnRequest), (2, EndTxnRequest)} <= set(cluster.asked)


def test_what_any_node_answers_is_asked_of_the_one_that_is_left(cluster: TwoNodes) -> None:
    with pylog.connect(cluster.bootstrap_servers) as log:
        assert log.topics() == ["t"]
        cluster.lead(2, T0, T1)
        cluster.coordinator = 2
        cluster.stop(1)
        for _ in range(3):
            assert log.topics() == ["t"]
        with log.producer(retry_backoff_ms=5) as producer:
            producer.send("t", b"x", partition=0).result(HANG_SECONDS)
        log.admin.alter_offsets("g", {T0: 1})
        assert log.admin.committed("g")[T0].offset == 1


def test_a_producer_goes_on_when_the_leader_dies_and_another_node_takes_over(
    cluster: TwoNodes, log: pylog.ConnectedLog
) -> None:
    with log.producer(linger_ms=0, retry_backoff_ms=5) as producer:
        futures = []
        for i in range(100):
            if i == 50:
                cluster.stop(1)
                cluster.lead(2, T0, T1)
            futures.append(producer.send("t", b"%d" % i, partition=0))
        assert [future.exception(HANG_SECONDS) for future in futures] == [None] * 100
    assert [record.value for record in cluster.log.topic("t")[0].records()] == [b"%d" % i for i in range(100)]


def test_groups_and_transactions_of_all_nodes_are_listed_together(cluster: TwoNodes, log: pylog.ConnectedLog) -> None:
    log.admin.alter_offsets("g", {T0: 1})
    # Both nodes of this cluster have the same groups: each is listed by each.
    assert [group.group_id for group in log.admin.list_groups()] == ["g", "g"]
    assert len(log.admin.describe_log_dirs()) == 2


def test_a_topic_is_made_when_its_partitions_have_leaders(cluster: TwoNodes, log: pylog.ConnectedLog) -> None:
    later = pylog.TopicPartition("later", 0)
    cluster.lead(-1, later)
    timer = threading.Timer(0.1, cluster.lead, [2, later])
    timer.start()
    log.create_topic("later")
    assert [part.leader for part in log.admin.topic("later").partitions] == [2]
    timer.join()


def test_a_partition_without_a_leader_is_asked_for_until_it_has_one(
    cluster: TwoNodes, log: pylog.ConnectedLog
) -> None:  # fmt: skip
    cluster.lead(-1, T0)
    timer = threading.Timer(0.1, cluster.lead, [2, T0])
    timer.start()
    with log.producer(linger_ms=0, retry_backoff_ms=5) as producer:
        assert producer.send("t", b"x", partition=0).result(HANG_SECONDS).offset == 0
    timer.join()
