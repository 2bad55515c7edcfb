"""Followers that lag leave the ISR, by the clock of a node; appends go on without them, or are refused."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.files import MemoryFiles
from pylog.metrics.snapshot import Metrics
from pylog.protocol.batch import encode
from pylog.protocol.messages import ACKS_ALL, Fetch, FetchPart, NewTopic, ProduceRequest, Session
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.replica import Leader
from pylog.runtime.future import Future
from support.messages import Offset, commit_errors, offset_commit
from support.stepping import Steps
from tests.support.faults import FaultFiles

LAG_MS = 1000
SESSION = Session()
CONFIG = NodeConfig(replica_lag_time_max_ms=LAG_MS, offsets_topic_num_partitions=1)


class Node:
    """Node 1, without threads, that leads topic `t` with node 2 as a follower in the ISR."""

    def __init__(self, flush: str, config: dict[str, str]) -> None:
        self.clock, self.flush = Steps(), flush
        self.files = FaultFiles(MemoryFiles(self.clock))
        self.open()
        self.broker.handle(CreateTopicsRequest.of([NewTopic("t", 1, config)]), SESSION).result(0)
        self.broker.lead("t", [2])

    def open(self) -> None:
        self.broker = Broker(
            self.files, ["log"], config=CONFIG, clock=self.clock, transport=pylog.MemoryTransport(), node_id=1,
            flush=self.flush,
        )  # fmt: skip

    @property
    def leader(self) -> Leader:
        return self.broker.node.roles.leader("t", 0)

    @property
    def isr(self) -> list[int]:
        return list(self.broker.image.topics["t"].partitions[0].isr)

    def send(self, acks: int = ACKS_ALL) -> Future[Any]:
        batch = encode([pylog.Record(b"x")], now_ms=1)
        return self.broker.handle(ProduceRequest.of("t", 0, batch, acks=acks, timeout_ms=60_000), SESSION)

    def error(self, acks: int = ACKS_ALL) -> errors.PylogError | None:
        error: errors.PylogError | None = self.send(acks).result(0).parts[0].error
        return error

    def follow(self) -> None:
        """A fetch of node 2, which has everything."""
        part = FetchPart("t", 0, self.leader.partition.next_offset, high_watermark=0)
        answer = self.broker.handle(Fetch([part], replica_id=2, max_wait_ms=0), SESSION).result(0)
        assert answer.parts[0].error is None

    def wait(self, ms: int = 2 * LAG_MS) -> None:
        self.clock.now_ms += ms
        self.broker.work()


@pytest.fixture(params=["none", "sync"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    node = Node(request.param, {})
    yield node
    with suppress(errors.PylogError):
        node.broker.close()


@pytest.fixture
def strict() -> Iterator[Node]:
    node = Node("none", {"min.insync.replicas": "2"})
    yield node
    node.broker.close()


def test_a_follower_that_is_away_stops_nothing_for_longer_than_its_lag_time(node: Node) -> None:
    waiting = node.send()
    node.wait(LAG_MS)
    assert not waiting.done() and node.isr == [1, 2]
    node.wait(LAG_MS)
    assert waiting.result(0).parts[0].error is None
    assert node.isr == [1] and node.leader.partition.high_watermark == 1
    assert node.error() is None, "the next one does not wait at all"


def test_a_follower_that_has_caught_up_is_in_the_isr_again(node: Node) -> None:
    node.send()
    node.wait()
    node.follow()
    assert node.isr == [1, 2]
    waiting = node.send()
    assert not waiting.done()
    node.follow()
    assert waiting.result(0).parts[0].error is None


def test_a_follower_that_comes_in_time_stays_in_the_isr(node: Node) -> None:
    for _ in range(5):
        waiting = node.send()
        node.wait(LAG_MS)
        node.follow()
        assert waiting.result(0).parts[0].error is None and node.isr == [1, 2]


def test_nobody_is_dropped_before_that_is_written_down(node: Node) -> None:
    waiting = node.send()
    faults = node.files.faults
    faults.error, faults.once, faults.fail_at = errno.ENOSPC, False, 1
    node.wait()
    assert not waiting.done() and node.isr == [1, 2] and node.leader.isr == {2}
    node.files.heal()
    node.wait()
    assert waiting.result(0).parts[0].error is None and node.isr == [1]


def test_a_join_counts_where_the_disk_refuses_to_note_it(node: Node) -> None:
    node.send()
    node.wait()
    faults = node.files.faults
    faults.error, faults.once, faults.fail_at = errno.ENOSPC, False, 1
    node.follow()
    node.files.heal()
    assert node.leader.isr == {2} and node.isr == [1]
    waiting = node.send()
    assert not waiting.done()
    node.follow()
    assert waiting.result(0).parts[0].error is None


def test_who_has_left_is_not_waited_for_after_an_open(node: Node) -> None:
    node.send()
    node.wait()
    node.broker.close()
    node.open()
    assert node.error() is None
    assert node.leader.followers == {2} and node.leader.isr == frozenset()


def test_who_is_in_the_isr_has_a_whole_lag_time_after_an_open(node: Node) -> None:
    node.broker.close()
    node.open()
    node.clock.now_ms += 10 * LAG_MS
    waiting = node.send()
    node.wait(LAG_MS)
    assert not waiting.done()
    node.wait(LAG_MS)
    assert waiting.result(0).parts[0].error is None


def test_the_isr_of_a_topic_that_is_gone_is_not_written(node: Node) -> None:
    leader = node.leader
    node.send()
    node.broker._delete_topic("t")
    assert node.broker.node.roles.drop_lagging({leader: frozenset({2})}) == []
    leader.shrink_isr(frozenset({2}))
    node.broker._guarantees.isr_changed(leader)
    assert leader.partition.high_watermark == 0


def test_a_join_that_is_over_is_not_written(node: Node) -> None:
    node.send()
    node.wait()
    roles, key = node.broker.node.roles, pylog.TopicPartition("t", 0)
    roles.note_in_sync(2, [key, pylog.TopicPartition("gone", 0)])
    assert node.isr == [1]
    node.follow()
    roles.note_in_sync(2, [key])
    assert node.isr == [1, 2], "once"


def test_nothing_is_due_without_followers() -> None:
    node = Node("none", {})
    assert node.broker._isr_changes.due_ms is not None
    node.broker.close()
    node.broker = Broker(
        MemoryFiles(), ["log"], config=CONFIG, clock=node.clock, transport=pylog.MemoryTransport(), node_id=1,
        flush="none",
    )  # fmt: skip
    assert node.broker._isr_changes.due_ms is None
    node.wait()
    node.broker.close()


# --- min.insync.replicas ----------------------------------------------------------------------------------------------


def test_too_few_replicas_refuse_what_was_appended_and_what_comes(strict: Node) -> None:
    waiting = strict.send()
    strict.wait()
    after = waiting.result(0).parts[0].error
    assert isinstance(after, errors.NotEnoughReplicasAfterAppend)
    before = strict.error()
    assert isinstance(before, errors.NotEnoughReplicas)
    for error in (after, before):
        assert "1 of 2 replicas are in sync, and min.insync.replicas is 2; not in sync: node 2" in str(error)
    assert strict.leader.partition.next_offset == 1, "nothing was appended"


def test_appends_that_wait_for_nobody_go_on_and_are_hidden(strict: Node) -> None:
    strict.send()
    strict.wait()
    assert strict.isr == [1]
    assert strict.error(acks=1) is None and strict.error(acks=0) is None
    assert (strict.leader.partition.next_offset, strict.leader.partition.high_watermark) == (3, 0)
    strict.follow()
    assert strict.isr == [1, 2] and strict.leader.partition.high_watermark == 3
    assert not strict.send().done()


def test_the_minimum_is_looked_at_as_it_is_now(node: Node) -> None:
    node.send()
    node.wait()
    assert node.error() is None
    node.broker.node.cluster_changes.take_topic_config("t", {"min.insync.replicas": "2"})
    assert isinstance(node.error(), errors.NotEnoughReplicas)
    node.broker.lead("t", [])
    assert node.error() is None, "there is one replica, which is in sync"


def test_what_coordinators_have_written_waits_for_its_replicas(strict: Node) -> None:
    commit = offset_commit("g", [Offset("t", 0, 0)])
    strict.broker.handle(commit, SESSION).result(0)
    strict.broker.node.cluster_changes.take_topic_config("__consumer_offsets", {"min.insync.replicas": "2"})
    waiting = strict.broker.handle(commit, SESSION)
    assert not waiting.done()
    strict.broker.lead("__consumer_offsets", [])
    assert commit_errors(waiting.result(0)) == {pylog.TopicPartition("t", 0): None}


def test_metrics_tell_the_isr(strict: Node) -> None:
    def numbers() -> list[float]:
        found = Metrics()
        strict.broker.measure(found)
        names = ("ReplicasCount", "InSyncReplicasCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount")
        return [found.total(name) for name in names]

    assert numbers() == [2, 2, 0, 0]
    strict.send()
    strict.wait()
    assert numbers() == [2, 1, 1, 1]
