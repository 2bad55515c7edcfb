"""Records of an open transaction are not synced until it commits; a reader of uncommitted records has them synced."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import pylog
from pylog.broker.broker import Broker
from pylog.broker.replica_manager import EndedRoles
from pylog.config import NodeConfig
from pylog.errors import StorageError
from pylog.files import MemoryFiles
from pylog.protocol.batch import encode
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import Fetch, FetchPart, NewTopic, ProduceRequest, Session
from pylog.protocol.messages.records import ListOffsetsRequest
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.record import TopicPartition
from pylog.runtime.future import Future
from support.messages import init_producer_id
from support.stepping import Steps
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000
SESSION = Session("tester")
LATEST = -1


class Node:
    """A node with a topic of two partitions, and a producer that sends in a transaction."""

    def __init__(self) -> None:
        # Without threads: one of them would do at once what `node.broker.work` is to do.
        self.clock = Steps()
        self.files = FaultFiles(MemoryFiles(self.clock))
        config = NodeConfig(transaction_state_log_num_partitions=1)
        self.broker = Broker(
            self.files, ["log"], config=config, clock=self.clock, transport=pylog.MemoryTransport(), node_id=None,
            flush="sync",
        )  # fmt: skip
        self.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})])).result()
        self.producer = self.ask(init_producer_id("x")).result()
        self.sent = [0, 0]

    def ask(self, message: Any) -> Future[Any]:
        return self.broker.handle(message, SESSION)

    def send(self, number: int = 0) -> None:
        batch = encode(
            [(b"value", None, NOW, ())], now_ms=NOW, producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch, base_sequence=self.sent[number], transactional=True,
        )  # fmt: skip
        (part,) = self.ask(ProduceRequest.of("t", number, batch, transactional_id="x")).result().parts
        assert part.error is None
        self.sent[number] += 1

    def ends(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> Future[Any]:
        return self.ask(ListOffsetsRequest.of({TopicPartition("t", number): LATEST for number in range(2)}, isolation))

    def fetch(self, *, wait_ms: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> Future[Any]:
        return self.ask(Fetch([FetchPart("t", 0, 0)], max_wait_ms=wait_ms, isolation=isolation))

    @property
    def durable(self) -> list[int]:
        return [self.broker.partition("t", number).durable_offset for number in range(2)]


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    with suppress(StorageError):  # a partition has failed
        node.broker.close()


def offsets(listed: Future[Any]) -> list[int]:
    return [part.offset for topic in listed.result(0).topics for part in topic.partitions]


def test_the_end_of_the_log_counts_what_was_answered(node: Node) -> None:
    for number in (0, 0, 1):
        node.send(number)
    listed = node.ends()
    assert not listed.done()
    node.broker.work()
    assert offsets(listed) == [2, 1]
    assert offsets(node.ends()) == [2, 1], "nothing is hidden any more"


def test_the_end_of_committed_records_waits_for_nothing(node: Node) -> None:
    node.send()
    assert offsets(node.ends(Isolation.READ_COMMITTED)) == [0, 0]
    node.broker.work()
    assert node.durable == [0, 0]


def test_a_fetch_that_waits_gets_a_record_when_it_is_answered(node: Node) -> None:
    fetched = node.fetch(wait_ms=60_000)
    node.send()
    node.broker.work()
    assert fetched.result(0).parts[0].high_watermark == 1 and fetched.result(0).size > 0


def test_a_fetch_that_comes_behind_the_record_does_so_too(node: Node) -> None:
    node.send()
    fetched = node.fetch(wait_ms=60_000)
    assert not fetched.done()
    node.broker.work()
    assert fetched.result(0).size > 0


def test_a_fetch_that_does_not_wait_lets_the_next_one_have_it(node: Node) -> None:
    node.send()
    assert node.fetch(wait_ms=0).result(0).size == 0
    node.broker.work()
    assert node.fetch(wait_ms=0).result(0).size > 0


@pytest.mark.parametrize("is_read", [False, True])
def test_without_a_reader_of_uncommitted_records_nothing_is_synced(node: Node, is_read: bool) -> None:
    if is_read:
        node.fetch(wait_ms=60_000, isolation=Isolation.READ_COMMITTED)
    node.send()
    node.broker.work()
    assert node.durable == [0, 0]
    node.clock.now_ms += 1_000
    node.broker.work()
    assert node.durable == [1, 0]


def test_a_disk_that_refuses_leaves_no_listing_waiting(node: Node) -> None:
    node.send()
    assert node.durable == [0, 0]
    listed = node.ends()
    node.files.faults.once, node.files.faults.fail_at = False, 1
    node.broker.work()
    assert offsets(listed) == [0, 0]
    assert offsets(node.ends()) == [0, 0], "nothing of a failed partition becomes visible"
    node.files.heal()


def test_a_listing_does_not_wait_for_ever(node: Node) -> None:
    node.send()
    listed = node.ends()
    node.broker.close()
    assert listed.done()


def test_a_partition_that_goes_meanwhile_is_not_waited_for(node: Node) -> None:
    node.send()
    listed = node.ends()
    node.broker.node.changes.delete_topic("t", EndedRoles())
    node.clock.now_ms += 10_000
    node.broker.work()
    assert all(part.error is not None for topic in listed.result(0).topics for part in topic.partitions)
