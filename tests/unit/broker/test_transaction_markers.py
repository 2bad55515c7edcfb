"""When what is in a transaction is durable and visible, and what its coordinator has ahead of its log."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.broker.broker import Broker
from pylog.broker.coordinator_host import CoordinatorHost
from pylog.broker.coordinators import NAMES_MAX
from pylog.broker.replica_manager import EndedRoles
from pylog.config import NodeConfig
from pylog.controller.roles import Lead
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.files import MemoryFiles
from pylog.handles.views import TopicView
from pylog.partition import Partition
from pylog.protocol.batch import encode
from pylog.protocol.messages import Fetch, FetchPart, NewTopic, ProduceRequest, Replacement, Session, TxnMarkers
from pylog.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from pylog.protocol.messages.transactions import DescribeTransactionsRequest
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.testing import SimClock
from support.killed import killed_at_last
from support.messages import Offset, commit_errors, end_txn, init_producer_id, marked, txn_offset_commit, write_markers

NOW = 1_700_000_000_000
SESSION = Session("tester")
CONFIG = NodeConfig(transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1)
KEYS = [TopicPartition("t", 0), TopicPartition("t", 1)]
LAZY_MS = 1_000


class Node:
    """A node with a topic of two partitions, and one transactional producer; `tree` is what another has left."""

    def __init__(
        self, flush: str = "sync", tree: dict[str, bytes | None] | None = None, paths: tuple[str, ...] = ("log",)
    ) -> None:
        self.clock = SimClock(NOW, 0)
        self.memory = MemoryFiles(self.clock, tree)
        broker = Broker(
            self.memory, paths, config=CONFIG, clock=self.clock, transport=pylog.MemoryTransport(), node_id=None,
            flush=flush,
        )  # fmt: skip
        self.broker = killed_at_last(broker)
        if tree is None:
            self.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
            self.init()

    def init(self) -> None:
        given = self.ask(init_producer_id("tx"))
        if isinstance(given.error, errors.ConcurrentTransactions):
            given = self.ask(init_producer_id("tx"))
        assert given.error is None
        self.id, self.epoch, self.sent = given.producer_id, given.producer_epoch, dict.fromkeys(KEYS, 0)

    def ask(self, message: Any) -> Any:
        return self.broker.handle(message, SESSION).result()

    def send(self, key: TopicPartition, name: str | None = "tx") -> Any:
        batch = encode(
            [(b"v", None, NOW, ())], now_ms=NOW, producer_id=self.id, producer_epoch=self.epoch,
            base_sequence=self.sent[key], transactional=True,
        )  # fmt: skip
        self.sent[key] += 1
        return self.ask(ProduceRequest.of(*key, batch, transactional_id=name)).parts[0]

    def commit_offset(self, offset: int) -> None:
        message = txn_offset_commit("tx", "g", self.id, self.epoch, [Offset("t", 0, offset)])
        assert commit_errors(self.ask(message)) == {KEYS[0]: None}

    def end(self, *, committed: bool = True) -> Any:
        ended = self.ask(end_txn("tx", self.id, self.epoch, committed))
        if ended.error is None:
            self.id, self.epoch, self.sent = ended.producer_id, ended.producer_epoch, dict.fromkeys(KEYS, 0)
        return ended.error

    def partition(self, key: TopicPartition) -> Partition:
        return self.broker.partition(*key)

    def refuse_appends(self, topic: str) -> None:
        """Let the disk be full for one topic."""
        produce: Any = self.broker._produce
        append = produce.append

        def full(leader: Leader, *more: Any, **how: Any) -> Any:
            if leader.partition.topic == topic:
                raise errors.DiskFull("no room")
            return append(leader, *more, **how)

        produce.append = full

    @property
    def host(self) -> CoordinatorHost:
        return self.broker._coordinating._coordinators.of("__transaction_state", "tx")

    @property
    def states(self) -> tuple[str, str]:
        """Of the transactional id: what its log says, and what is so."""
        machine = self.host.machine
        assert isinstance(machine, TransactionCoordinator)
        (now,) = self.ask(DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states
        return machine.transactions["tx"].state.title, now.transaction_state

    def later(self, ms: int = LAZY_MS) -> None:
        self.clock.advance(ms)
        self.broker.work()

    def committed(self, key: TopicPartition = KEYS[0]) -> int:
        view = TopicView(self.broker, key.topic, SimClock(NOW, 0))[key.partition]
        return sum(1 for _ in view.records(isolation_level="read_committed"))


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.broker.close()


def send_of_another(node: Node) -> None:
    """Leave a transaction of another producer open."""
    given = node.ask(init_producer_id("other"))
    batch = encode(
        [(b"v", None, NOW, ())], now_ms=NOW, producer_id=given.producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    assert node.ask(ProduceRequest.of(*KEYS[0], batch, transactional_id="other")).parts[0].error is None


def ends(partition: Partition) -> tuple[int, int, int]:
    return partition.durable_offset, partition.high_watermark, partition.next_offset


def test_a_record_in_a_transaction_is_answered_before_it_is_durable(node: Node) -> None:
    assert node.send(KEYS[0]).error is None
    assert ends(node.partition(KEYS[0])) == (0, 0, 1)


def test_a_record_in_an_open_transaction_is_durable_and_visible_a_second_later(node: Node) -> None:
    node.send(KEYS[0])
    node.later()
    assert ends(node.partition(KEYS[0])) == (1, 1, 1)
    assert node.partition(KEYS[0]).last_stable_offset == 0


def test_a_commit_is_read_when_it_is_answered_and_its_marker_is_durable_later(node: Node) -> None:
    node.send(KEYS[0])
    assert node.end() is None
    assert ends(node.partition(KEYS[0])) == (1, 2, 2)
    assert node.committed() == 1
    node.later()
    assert ends(node.partition(KEYS[0])) == (2, 2, 2)


def test_a_transaction_of_one_partition_takes_two_syncs(node: Node) -> None:
    for _ in range(2):
        node.send(KEYS[0])
        node.end()
    synced: list[str] = []
    for partition in (node.partition(KEYS[0]), node.host.leader.partition):
        sync = partition.sync

        def counted(upto: int | None = None, sync: Any = sync, name: str = partition.topic) -> int:
            synced.append(name)
            return int(sync(upto))

        partition.sync = counted
    node.send(KEYS[0])
    assert synced == []
    node.end()
    assert synced == ["t", "__transaction_state"]


def test_an_abort_is_answered_without_a_sync_and_its_marker_shown_when_durable(node: Node) -> None:
    node.send(KEYS[0])
    partition = node.partition(KEYS[0])
    sync, threads = partition.sync, []

    def noted(upto: int | None = None) -> int:
        threads.append(threading.get_ident())
        return sync(upto)

    partition.sync = noted
    assert node.end(committed=False) is None
    assert threading.get_ident() not in threads, "the background does it"
    node.later(0)
    assert ends(node.partition(KEYS[0])) == (2, 2, 2)
    assert node.partition(KEYS[0]).last_stable_offset == 2
    assert node.committed() == 0


def test_a_marker_behind_another_open_transaction_is_synced_before_it_is_shown(node: Node) -> None:
    node.send(KEYS[0])
    send_of_another(node)
    assert node.end() is None
    # It was synced together with the other's record, which is not read before its own end.
    partition = node.partition(KEYS[0])
    assert partition.high_watermark == 3 and partition.last_stable_offset == 1
    assert node.committed() == 1


def test_offsets_in_a_transaction_are_durable_when_it_commits(node: Node) -> None:
    node.commit_offset(7)
    offsets = node.broker.partition("__consumer_offsets", 0)
    durable, _, end = ends(offsets)
    assert durable < end
    assert node.end() is None
    durable, high, end = ends(offsets)
    assert (durable, high) == (end - 1, end)


def test_records_that_cannot_be_made_durable_cannot_be_committed(node: Node) -> None:
    node.send(KEYS[0])
    partition = node.partition(KEYS[0])

    def broken(*_: object) -> int:
        raise errors.DurabilityUnknown("the disk said no")

    whole, partition.sync = partition.sync, broken
    assert isinstance(node.end(), errors.TransactionAbortable)
    partition.sync = whole
    assert node.end(committed=False) is None
    assert node.committed() == 0


def test_a_partition_that_is_gone_has_nothing_to_end(node: Node) -> None:
    node.send(KEYS[0])
    node.ask(DeleteTopicsRequest.of(["t"]))
    assert node.end() is None
    assert node.states == ("PrepareCommit", "CompleteCommit")


def test_a_marker_that_the_disk_refuses_is_written_later(node: Node) -> None:
    node.send(KEYS[0])
    node.refuse_appends("t")
    assert node.end() is None
    assert node.states == ("PrepareCommit", "PrepareCommit") and node.committed() == 0
    del node.broker._produce.append  # type: ignore[attr-defined]
    node.later()
    assert node.states[1] == "CompleteCommit" and node.committed() == 1


def test_a_marker_that_cannot_be_shown_is_shown_later(node: Node) -> None:
    node.send(KEYS[0])
    partition = node.partition(KEYS[0])
    advance = partition.advance_high_watermark

    def refused(offset: int) -> bool:
        if offset == 2:
            raise errors.DiskFull("no room")
        return advance(offset)

    partition.advance_high_watermark = refused  # type: ignore[method-assign]
    assert node.end() is None
    assert node.states == ("PrepareCommit", "PrepareCommit") and node.committed() == 0
    del partition.advance_high_watermark
    node.later()
    assert node.states[1] == "CompleteCommit" and node.committed() == 1


def test_records_that_are_durable_when_their_sync_fails_are_committed(node: Node) -> None:
    node.send(KEYS[0])
    partition = node.partition(KEYS[0])
    sync = partition.sync

    def late(upto: int | None = None) -> int:
        sync(upto)
        raise errors.DurabilityUnknown("another thread's sync failed after this one")

    whole, partition.sync = partition.sync, late
    assert node.end() is None
    partition.sync = whole
    assert node.committed() == 1


def test_a_partition_that_is_deleted_as_it_refuses_a_marker_has_nothing_to_end(node: Node) -> None:
    node.send(KEYS[0])
    produce: Any = node.broker._produce
    append = produce.append

    def deleted(leader: Leader, *more: Any, **how: Any) -> Any:
        if leader.partition.topic == "t":
            node.broker.node.changes.delete_topic("t", EndedRoles())
            raise errors.InvalidProducerEpoch("a later one is there")
        return append(leader, *more, **how)

    produce.append = deleted
    assert node.end() is None
    assert node.states == ("PrepareCommit", "CompleteCommit")
    del produce.append


def test_what_a_transaction_left_to_a_partition_that_is_led_anew_is_left_alone(node: Node) -> None:
    node.send(KEYS[0])
    node.broker.apply(Lead(topic="t", partition=0, leader_epoch=9, replicas=(node.broker.node_id,)))
    node.later()
    assert node.end() is None
    assert node.committed() == 1


def test_a_partition_that_knows_a_later_epoch_needs_no_marker(node: Node) -> None:
    node.send(KEYS[0])
    later = TxnMarkers(node.id, node.epoch + 5, False, 0, (KEYS[0],))
    assert marked(node.ask(write_markers(later))) == {KEYS[0]: None}
    assert node.end() is None
    assert node.states == ("PrepareCommit", "CompleteCommit")
    assert node.partition(KEYS[0]).next_offset == 2


# --- ahead of the log ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["sync", "none"])
def test_a_beginning_and_a_completion_are_ahead_of_the_log_and_written_down_later(flush: str) -> None:
    node = Node(flush)
    node.send(KEYS[0])
    assert node.states == ("Empty", "Ongoing")
    node.later()
    assert node.states == ("Ongoing", "Ongoing")
    node.end()
    assert node.states == ("PrepareCommit", "CompleteCommit")
    node.later()
    assert node.states == ("CompleteCommit", "CompleteCommit")
    node.broker.close()


def test_a_decision_overtakes_the_completion_before_it(node: Node) -> None:
    for _ in range(3):
        node.send(KEYS[0])
        node.end()
    assert node.states == ("PrepareCommit", "CompleteCommit")
    assert node.host.leader.partition.next_offset == 4


def test_no_decision_follows_another_whose_markers_are_not_durable(node: Node) -> None:
    node.send(KEYS[0])
    node.end()
    assert ends(node.partition(KEYS[0])) == (1, 2, 2)
    node.send(KEYS[1])
    node.end()
    assert ends(node.partition(KEYS[0])) == (2, 2, 2)


def test_an_id_whose_markers_cannot_be_made_durable_waits_for_the_next_open(node: Node) -> None:
    node.send(KEYS[0])
    node.end()
    partition = node.partition(KEYS[0])

    def broken(*_: object) -> int:
        raise errors.DurabilityUnknown("the disk said no")

    whole, partition.sync = partition.sync, broken
    node.send(KEYS[1])
    assert isinstance(node.end(), errors.ConcurrentTransactions)
    node.later()
    assert node.states == ("PrepareCommit", "Ongoing")
    partition.sync = whole
    assert node.end() is None


@pytest.mark.parametrize("flush", ["sync", "none"])
def test_a_close_writes_down_what_is_open(flush: str) -> None:
    node = Node(flush)
    node.send(KEYS[0])
    node.broker.close()
    again = Node(flush, node.memory.tree())
    assert again.states == ("Ongoing", "Ongoing")
    assert again.broker.handle(end_txn("tx", node.id, node.epoch, True), SESSION).result().error is None
    assert again.committed() == 1
    again.broker.close()


def test_an_open_transaction_that_a_close_cannot_write_down_ends_at_the_next_open() -> None:
    node = Node()
    node.send(KEYS[0])
    node.refuse_appends("__transaction_state")
    node.broker.close()
    again = Node(tree=node.memory.tree())
    partition = again.partition(KEYS[0])
    assert again.states[1] == "CompleteAbort"
    again.later(0)
    assert partition.last_stable_offset == partition.next_offset
    assert again.committed() == 0
    again.broker.close()


def lead_coordinators(node: Node) -> None:
    node.broker.apply(Lead(topic="__transaction_state", partition=0, leader_epoch=9, replicas=(node.broker.node_id,)))


def move_coordinator(node: Node) -> None:
    before = node.host
    home = before.leader.partition.directory.partition("/")[0]
    other = {"log": "other", "other": "log"}[home]
    node.broker._move(Replacement("__transaction_state", 0, other))
    assert node.host is not before, "it is made anew"


AGAIN = pytest.mark.parametrize("begin_again", [lead_coordinators, move_coordinator])


@AGAIN
def test_a_coordinator_that_leads_again_goes_on_with_what_is_open(begin_again: Callable[[Node], None]) -> None:
    node = Node(paths=("log", "other"))
    node.send(KEYS[0])
    begin_again(node)
    assert node.states == ("Empty", "Ongoing")
    assert node.end() is None
    assert node.committed() == 1


@AGAIN
def test_a_coordinator_that_leads_again_ends_what_had_ended_ahead_of_its_log(
    begin_again: Callable[[Node], None],
) -> None:
    node = Node(paths=("log", "other"))
    send_of_another(node)
    node.send(KEYS[0])
    assert node.end() is None
    begin_again(node)
    node.later()
    assert node.states[1] == "CompleteCommit"
    (other,) = node.ask(DescribeTransactionsRequest(transactional_ids=["other"])).transaction_states
    assert other.transaction_state == "Ongoing"


def test_a_partition_with_followers_joins_in_the_log_before_it_is_written_to() -> None:
    node = Node()
    node.broker.apply(Lead(topic="t", partition=0, leader_epoch=9, replicas=(node.broker.node_id, 77)))
    batch = encode(
        [(b"v", None, NOW, ())], now_ms=NOW, producer_id=node.id, producer_epoch=node.epoch, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    answer = node.broker.handle(ProduceRequest.of(*KEYS[0], batch, transactional_id="tx"), SESSION)
    assert not answer.done()
    assert node.states == ("Ongoing", "Ongoing")
    assert node.partition(KEYS[0]).durable_offset == 1
    node.broker.close()


def fetched(node: Node, key: TopicPartition) -> None:
    """The follower has all that its leader has."""
    part = FetchPart(*key, node.broker.partition(*key).next_offset, high_watermark=0)
    assert node.ask(Fetch([part], replica_id=77)).parts[0].error is None


def test_a_transaction_in_a_partition_with_followers_is_over_when_they_have_its_marker(node: Node) -> None:
    node.send(KEYS[0])
    node.broker.apply(Lead(topic="t", partition=0, leader_epoch=9, replicas=(node.broker.node_id, 77)))
    ended = node.broker.handle(end_txn("tx", node.id, node.epoch, True), SESSION)
    assert not ended.done(), "the follower counts since, and lacks its records"
    fetched(node, KEYS[0])
    assert ended.result(0).error is None
    assert node.states == ("PrepareCommit", "PrepareCommit")
    fetched(node, KEYS[0])
    assert node.states == ("PrepareCommit", "CompleteCommit")


def test_an_end_is_answered_when_the_followers_of_the_coordinator_have_the_decision(node: Node) -> None:
    log = TopicPartition("__transaction_state", 0)
    node.send(KEYS[0])
    node.broker.apply(Lead(topic=log.topic, partition=0, leader_epoch=9, replicas=(node.broker.node_id, 77)))
    ended = node.broker.handle(end_txn("tx", node.id, node.epoch, True), SESSION)
    assert not ended.done()
    assert node.partition(KEYS[0]).next_offset == 1, "a marker waits for the decision"
    fetched(node, log)
    assert ended.result().error is None
    assert node.partition(KEYS[0]).next_offset == 2


def test_a_coordinator_that_is_gone_ends_no_transaction_in_its_log(node: Node) -> None:
    node.commit_offset(7)
    group = node.broker._coordinating._coordinators.of("__consumer_offsets", "g")
    group.abandon(errors.NotCoordinator("gone"))
    with pytest.raises(errors.NotCoordinator):
        group.append_marker(TxnMarkers(node.id, node.epoch, True, 0, (TopicPartition("__consumer_offsets", 0),)))
    with pytest.raises(errors.NotCoordinator):
        group.ask(lambda now: now)


def test_more_ids_than_are_kept_with_their_coordinators_are_found(node: Node) -> None:
    coordinators = node.broker._coordinating._coordinators
    for number in range(NAMES_MAX + 5):
        assert coordinators.of("__transaction_state", str(number)) is node.host
    assert len(coordinators._named) <= NAMES_MAX


def test_what_has_to_be_durable_is_asked_of_a_machine_that_nobody_else_is_in(node: Node) -> None:
    """A tick asks in the background, while requests come in."""
    host, machine = node.host, node.host.machine
    unsafe, lock = machine.unsafe, host._lock.inner
    entered: list[bool] = []

    def enter() -> None:
        entered.append(lock.acquire(blocking=False))
        if entered[-1]:
            lock.release()

    def looked_at(message: object = None) -> Any:
        other = threading.Thread(target=enter)
        other.start()
        other.join()
        return unsafe(message)

    machine.unsafe = looked_at  # type: ignore[method-assign]
    host.tick()
    assert entered and not any(entered)
