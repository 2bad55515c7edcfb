"""At an open after an unclean stop: what no coordinator will end is ended, and no producer id is given twice."""

import errno
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.broker.broker import Broker
from pylog.broker.hanging_transactions import sightings
from pylog.client.admin.admin import Admin
from pylog.client.cluster import Cluster
from pylog.config import NodeConfig
from pylog.files import MemoryFiles
from pylog.protocol.batch import Batch, encode
from pylog.protocol.messages import NewTopic, ProduceRequest, Session, TxnMarkers
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.protocol.messages.transactions import DescribeTransactionsRequest
from pylog.record import TopicPartition
from pylog.testing import SimClock
from support.killed import killed_at_last
from support.messages import add_partitions, added, init_producer_id, marked, write_markers
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000
SESSION = Session("tester")
KEY = TopicPartition("t", 0)


class Node:
    """A node over a tree of files, whose call number `fail_at` and all after it find no room."""

    def __init__(self, tree: dict[str, bytes | None] | None = None, *, fail_at: int | None = None) -> None:
        self.tree = MemoryFiles(tree=tree)
        self.files = FaultFiles(self.tree, fail_at, error=errno.ENOSPC, once=False)
        config = NodeConfig(transaction_state_log_num_partitions=1, transaction_partition_verification_enable=False)
        transport = pylog.MemoryTransport()
        broker = Broker(
            self.files, ["log"], config=config, clock=SimClock(NOW, 0), transport=transport, node_id=None, flush="none"
        )
        self.broker = killed_at_last(broker)
        self.admin = Admin(Cluster(transport, self.broker.node_id, "admin"))
        if tree is None:
            self.ask(CreateTopicsRequest.of([NewTopic("t", 1, {})]))

    def ask(self, message: Any) -> Any:
        return self.broker.handle(message, SESSION).result()

    def append(self, batch: Batch) -> None:
        """As if there had been no coordinator."""
        self.broker.node.roles.writer(*KEY).append(batch, NOW)

    def mark(self, producer_id: int, epoch: int, *, coordinator_epoch: int = 0, version: int = 2) -> Any:
        markers = TxnMarkers(producer_id, epoch, True, coordinator_epoch, (KEY,), version)
        return marked(self.ask(write_markers(markers)))[KEY]

    def committed(self) -> list[bytes | None]:
        view = pylog.TopicView(self.broker, "t", SimClock(NOW, 0))
        return [one.value for one in view[0].records(isolation_level="read_committed")]

    def killed(self) -> "Node":
        """Another one over what this one has written so far."""
        return Node(self.tree.tree())


def batch(producer_id: int, epoch: int, value: bytes = b"x", *, transactional: bool = True, sequence: int = 0) -> Batch:
    return encode(
        [(value, None, NOW, ())], now_ms=NOW, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        transactional=transactional,
    )  # fmt: skip


def test_a_transaction_that_no_coordinator_knows_is_aborted_at_the_open() -> None:
    node = Node()
    node.append(batch(77, 3))
    assert [one.producer_id for one in node.admin.find_hanging_transactions()] == [77]
    again = node.killed()
    assert again.admin.find_hanging_transactions() == []
    partition = again.broker.partition(*KEY)
    assert partition.last_stable_offset == partition.next_offset == 2
    assert again.committed() == []


def test_a_clean_stop_is_believed() -> None:
    node = Node()
    node.append(batch(77, 3))
    node.broker.close()
    again = node.killed()
    assert [one.producer_id for one in again.admin.find_hanging_transactions()] == [77]
    again.broker.close()


def test_producer_ids_that_partitions_know_are_not_given_again() -> None:
    node = Node()
    node.append(batch(5000, 0, transactional=False))
    assert node.killed().ask(init_producer_id()).producer_id == 5001


def test_folders_from_elsewhere_keep_their_producer_ids_to_themselves() -> None:
    node = Node()
    node.append(batch(0, 0, transactional=False))
    node.append(batch(77, 3))
    node.broker.close()
    tree = {path: data for path, data in node.tree.tree().items() if "__cluster_metadata" not in path}
    again = Node(tree)
    given = again.ask(init_producer_id()).producer_id
    produced = again.ask(ProduceRequest.of(*KEY, batch(given, 0, b"new", transactional=False))).parts[0]
    assert (produced.error, produced.base_offset) == (None, 2), "a record of another producer was taken for this one"
    # Who coordinates it may live where they come from.
    assert [one.producer_id for one in again.admin.find_hanging_transactions()] == [77]
    again.broker.close()


def test_a_coordinator_leads_beyond_the_epochs_that_markers_have() -> None:
    node = Node()
    given = node.ask(init_producer_id("tx"))
    assert node.mark(given.producer_id, 1, coordinator_epoch=9) is None
    node.append(batch(given.producer_id, 1))
    again = node.killed()
    (found,) = again.ask(DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states
    assert (found.transaction_state, found.producer_epoch) == ("CompleteAbort", 2)
    (entry,) = again.admin.describe_producers([KEY])[KEY]
    assert (entry.current_txn_start_offset, entry.coordinator_epoch) == (-1, 9)


def test_a_commit_does_not_end_an_older_transaction_that_lost_its_end() -> None:
    node = Node()
    node.append(batch(77, 3, b"of long ago"))
    assert node.mark(77, 8) is None
    assert node.committed() == []
    node.append(batch(77, 8, b"of now"))
    assert node.mark(77, 9) is None
    assert node.committed() == [b"of now"]


def test_transactions_of_an_unreadable_coordinator_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.ask(init_producer_id("tx"))
    node.append(batch(77, 3))
    node.broker.sync()
    tree = node.tree.tree()
    (path,) = [path for path in tree if "__transaction_state" in path and path.endswith(".log")]
    log = bytearray(tree[path] or b"")
    tree |= {path: bytes(log[:16]) + b"\x07" + bytes(log[17:])}
    again = Node(tree)
    assert again.broker.partition(*KEY).last_stable_offset == 0
    assert "cannot be ended" in caplog.text
    with pytest.raises(errors.PylogError):
        again.ask(init_producer_id("tx"))


def test_a_transaction_of_a_later_epoch_than_the_coordinators_hangs() -> None:
    node = Node()
    given = node.ask(init_producer_id("tx"))
    produced = node.ask(ProduceRequest.of(*KEY, batch(given.producer_id, 0), transactional_id="tx"))
    assert produced.parts[0].error is None
    assert node.admin.find_hanging_transactions() == []
    assert node.mark(given.producer_id, 1) is None
    node.append(batch(given.producer_id, 5))
    assert [one.producer_epoch for one in node.admin.find_hanging_transactions()] == [5]


def test_a_disk_that_is_full_at_the_open_leaves_it_to_the_next_one() -> None:
    node = Node()
    given = node.ask(init_producer_id("tx"))
    assert node.mark(given.producer_id, 1, coordinator_epoch=9) is None
    for producer_id in (given.producer_id, 5000):
        node.append(batch(producer_id, 1, sequence=0))
    node.broker.sync()
    tree = node.tree.tree()
    calls = len(Node(tree).files.sites)
    for fail_at in range(1, calls + 1):
        try:
            full = Node(tree, fail_at=fail_at)
        except errors.PylogError:
            continue
        full.files.heal()
        assert full.killed().admin.find_hanging_transactions() == []


def test_transactions_that_followers_have_are_left_to_their_leader() -> None:
    node = Node()
    node.append(batch(77, 3))
    tree = node.tree.tree()
    node.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=9, replicas=(1, 2)))
    assert sightings(node.broker.node) == {}
    assert sightings(Node(tree).broker.node)[77].epoch == 3


@pytest.mark.parametrize(("replicas", "state"), [((1,), "CompleteAbort"), ((1, 2), "Ongoing")])
def test_a_known_transaction_is_aborted_unless_a_follower_has_it(replicas: tuple[int, ...], state: str) -> None:
    node = Node()
    given = node.ask(init_producer_id("tx"))
    answer = node.ask(add_partitions("tx", given.producer_id, given.producer_epoch, [KEY]))
    assert added(answer) == {KEY: None}
    node.append(batch(given.producer_id, given.producer_epoch))
    node.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=9, replicas=replicas))
    (found,) = node.killed().ask(DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states
    assert found.transaction_state == state


@pytest.mark.parametrize(("leader_of_coordinators", "end"), [(2, 2), (9, 0)])
def test_a_promoted_node_ends_nothing_that_another_coordinates(leader_of_coordinators: int, end: int) -> None:
    node = Node()
    node.ask(init_producer_id("tx"))
    node.append(batch(77, 3))
    for topic, leader in (("t", 2), ("__transaction_state", leader_of_coordinators)):
        topic_id = node.broker.image.topics[topic].id
        node.broker.apply(
            pylog.Follow(topic=topic, topic_id=topic_id, partition=0, partitions=1, leader=leader, leader_epoch=5)
        )
    node.broker.lead("t", ())
    assert node.broker.partition(*KEY).last_stable_offset == end
    node.broker.close()
