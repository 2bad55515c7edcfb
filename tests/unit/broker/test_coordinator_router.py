"""Coordinators inside a node: their messages, what they write, and how they come back after an owner has gone."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition, errors
from pylog.broker.broker import Broker
from pylog.client.admin.groups import GroupDescription
from pylog.config import NodeConfig
from pylog.coordinator.effects import Answer
from pylog.files import MemoryFiles
from pylog.partition import Partition
from pylog.protocol.batch import Origin, encode
from pylog.protocol.messages import GROUPS_TOPIC, NewTopic, ProduceRequest, ProduceResponse, Session, TxnMarkers
from pylog.protocol.messages.groups import DescribeGroupsRequest
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from pylog.protocol.partitioner import partition_for
from pylog.runtime.future import completed
from pylog.testing import SimClock
from support.clients.values import until
from support.killed import killed_at_last
from support.messages import (
    Offset,
    add_partitions,
    added,
    commit_errors,
    end_txn,
    errors_in,
    fetched,
    init_producer_id,
    join_group,
    marked,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
    write_markers,
)
from tests.support.faults import FaultFiles

SESSION = Session("tester")
NOW = 1_700_000_000_000


class Client:
    """A transactional producer that says what it is told to."""

    def __init__(self, log: pylog.Log, name: str = "tx") -> None:
        self.log = log
        self.name = name
        self.sequences: dict[tuple[str, int], int] = {}
        given = self.ask(init_producer_id(name))
        if given.error is not None:
            raise given.error
        self.id, self.epoch = given.producer_id, given.producer_epoch

    def ask(self, message: Any) -> Any:
        return self.log.broker.handle(message, SESSION).result()

    def send(
        self, value: bytes, partition: int = 0, *, transactional_id: str | None = "tx"
    ) -> errors.PylogError | None:
        sequence = self.sequences.get(("t", partition), 0)
        batch = encode(
            [(value, None, NOW, ())], now_ms=NOW, producer_id=self.id, producer_epoch=self.epoch,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        answer = self.ask(ProduceRequest.of("t", partition, batch, transactional_id=transactional_id))
        self.sequences["t", partition] = sequence + 1
        error: errors.PylogError | None = answer.parts[0].error
        return error

    def end(self, *, committed: bool) -> errors.PylogError | None:
        ended = self.ask(end_txn(self.name, self.id, self.epoch, committed))
        if ended.error is None:
            self.id, self.epoch, self.sequences = ended.producer_id, ended.producer_epoch, {}
        error: errors.PylogError | None = ended.error
        return error

    def commit_offset(self, offset: int, group: str = "g") -> errors.PylogError | None:
        part = Offset("t", 0, offset)
        answer = self.ask(txn_offset_commit(self.name, group, self.id, self.epoch, [part]))
        error: errors.PylogError | None = commit_errors(answer)[TopicPartition("t", 0)]
        return error


@pytest.fixture(params=["none", "sync"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log", flush=request.param) as log:
        log.create_topic("t", partitions=2)
        yield log


def committed(log: pylog.Log, partition: int = 0) -> list[bytes | None]:
    return [one.value for one in log.topic("t")[partition].records(isolation_level="read_committed")]


def offset(log: pylog.Log, group: str = "g", *, stable: bool = False) -> int | errors.PylogError:
    fetch = offset_fetch(group, [TopicPartition("t", 0)], require_stable=stable)
    (part,) = fetched(log.broker.handle(fetch, SESSION).result())
    return part.error if part.error is not None else part.offset


def test_a_transaction_is_seen_when_it_is_committed_in_all_its_partitions(log: pylog.Log) -> None:
    client = Client(log)
    assert client.send(b"a") is client.send(b"b", 1) is client.send(b"c") is None
    assert committed(log) == committed(log, 1) == []
    assert client.end(committed=True) is None
    assert (committed(log), committed(log, 1)) == ([b"a", b"c"], [b"b"])


def test_an_aborted_one_is_not_and_the_next_is(log: pylog.Log) -> None:
    client = Client(log)
    assert client.send(b"a") is client.end(committed=False) is client.send(b"b") is client.end(committed=True) is None
    assert committed(log) == [b"b"]
    assert log.topic("t")[0].last_stable_offset == log.topic("t")[0].next_offset == 4


def test_offsets_count_with_the_commit_of_their_transaction(log: pylog.Log) -> None:
    client = Client(log)
    assert client.commit_offset(3) is client.send(b"a") is None
    assert offset(log) == -1
    assert isinstance(offset(log, stable=True), errors.UnstableOffsetCommit)
    assert client.end(committed=True) is None
    assert offset(log) == offset(log, stable=True) == 3
    assert client.commit_offset(5) is client.end(committed=False) is None
    assert offset(log) == 3


def test_a_newer_producer_fences_the_older_and_aborts_its_transaction(log: pylog.Log) -> None:
    elder = Client(log)
    assert elder.send(b"a") is None
    first = log.broker.handle(init_producer_id("tx"), SESSION).result()
    assert isinstance(first.error, errors.ConcurrentTransactions)
    younger = Client(log)
    assert younger.id == elder.id and younger.epoch > elder.epoch
    assert isinstance(elder.send(b"b"), errors.InvalidProducerEpoch)
    assert isinstance(elder.end(committed=True), errors.ProducerFenced)
    assert younger.send(b"c") is younger.end(committed=True) is None
    assert committed(log) == [b"c"]


def test_records_of_a_transaction_without_its_id_are_refused(log: pylog.Log) -> None:
    client = Client(log)
    assert isinstance(client.send(b"a", transactional_id=None), errors.InvalidTxnState)
    assert log.topic("t")[0].next_offset == 0


def test_partitions_can_join_as_they_did_before_they_joined_by_themselves(log: pylog.Log) -> None:
    client = Client(log)
    keys = [TopicPartition("t", 0), TopicPartition("nowhere", 0)]
    refused = added(client.ask(add_partitions("tx", client.id, client.epoch, keys)))
    assert isinstance(refused[keys[1]], errors.UnknownTopicOrPartition)
    assert isinstance(refused[keys[0]], errors.OperationNotAttempted)
    assert added(client.ask(add_partitions("tx", client.id, client.epoch, keys[:1]))) == {keys[0]: None}
    assert (
        client.ask(
            AddOffsetsToTxnRequest(
                transactional_id="tx", producer_id=client.id, producer_epoch=client.epoch, group_id="g"
            )
        ).error
        is None
    )
    assert client.send(b"a") is client.commit_offset(1) is client.end(committed=True) is None
    assert (committed(log), offset(log)) == ([b"a"], 1)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    given = []
    for _ in range(3):
        with pylog.open(tmp_path) as log:
            given += [log.broker.handle(init_producer_id(), SESSION).result().producer_id for _ in range(1001)]
    assert len(set(given)) == len(given)


def test_a_producer_with_the_id_of_another_joins_no_transaction(log: pylog.Log) -> None:
    client = Client(log)
    Client(log, "other")
    assert isinstance(client.send(b"a", transactional_id="other"), errors.InvalidPidMapping)
    assert log.topic("t")[0].next_offset == 0


def test_an_open_transaction_of_a_former_owner_ends_by_its_time_out(tmp_path: Path) -> None:
    clock = SimClock(NOW, 0)
    with pylog.open(tmp_path, clock=clock) as log:
        log.create_topic("t")
        client = Client(log)
        assert client.send(b"a") is client.commit_offset(7) is None
    with pylog.open(tmp_path, clock=clock) as log:
        assert committed(log) == []
        assert [one.state for one in log.admin.list_transactions()] == ["Ongoing"]
        assert log.topic("t")[0].last_stable_offset == 0
        # The thread that settles what is open may be awake, and would do half of the work.
        log.broker._worker.close()
        clock.advance(80_000)
        log.broker.work()
        assert log.topic("t")[0].last_stable_offset == log.topic("t")[0].next_offset == 2
        assert (committed(log), offset(log, stable=True)) == ([], -1)


@pytest.mark.parametrize("committed_", [True, False])
def test_markers_that_a_former_owner_decided_are_written(tmp_path: Path, committed_: bool) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", partitions=2)
        client = Client(log)
        assert client.send(b"a") is client.send(b"b", 1) is client.commit_offset(7) is None
        # Killed behind the decision: nothing of the markers.
        shard = next(
            s for k, s in log.broker._coordinating._coordinators._hosts.items() if k.topic == "__transaction_state"
        )
        shard._markers.write = lambda *_: None
        client.ask(end_txn("tx", client.id, client.epoch, committed_))
        assert committed(log) == []
    with pylog.open(tmp_path) as log:
        Client(log)
        assert (committed(log), committed(log, 1)) == (([b"a"], [b"b"]) if committed_ else ([], []))
        assert offset(log, stable=True) == (7 if committed_ else -1)


def test_offsets_are_known_again_after_an_open(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        committed_ = log.broker.handle(offset_commit("g", [Offset("t", 0, 5, metadata="m")]), SESSION).result()
        assert commit_errors(committed_) == {TopicPartition("t", 0): None}
    with pylog.open(tmp_path, mode="read") as reader:
        assert reader.admin.committed("g") == {TopicPartition("t", 0): (5, "m", -1)}
    with pylog.open(tmp_path) as log:
        assert offset(log) == 5


def test_a_reader_sees_the_commits_of_the_owner(log: pylog.Log) -> None:
    with pylog.open(log.path, mode="read") as reader:
        assert reader.admin.list_transactions() == reader.admin.list_groups() == []
        with pytest.raises(errors.GroupIdNotFound):
            reader.admin.describe_group("g")
        client = Client(log)
        assert client.send(b"a") is client.commit_offset(1) is None
        assert [one.state for one in log.admin.list_transactions()] == ["Ongoing"]
        assert reader.admin.committed("g") == {}
        assert client.end(committed=True) is None
        assert reader.admin.committed("g")[TopicPartition("t", 0)].offset == 1
        assert [one.group_id for one in reader.admin.list_groups()] == ["g"]
        # That it is complete need not be durable: it was decided before.
        assert reader.admin.describe_transaction("tx").state in ("PrepareCommit", "CompleteCommit")
        with pytest.raises(errors.ReadOnly):
            reader.admin.delete_group("g")


def test_a_transaction_that_hangs_is_found_and_aborted(tmp_path: Path) -> None:
    # As brokers left them before partitions were verified (KAFKA-14402).
    config = {"transaction.partition.verification.enable": False}
    with pylog.open(tmp_path, config=config) as log:
        log.create_topic("t")
        log.broker.partition("t", 0)
        batch = encode(
            [(b"x", None, NOW, ())], now_ms=NOW, producer_id=77, producer_epoch=1, base_sequence=0, transactional=True
        )
        log.broker.node.roles.writer("t", 0).append(batch, NOW)
        log.broker.sync()
        (hanging,) = log.admin.find_hanging_transactions()
        assert (hanging.producer_id, hanging.start_offset, hanging.last_timestamp) == (77, 0, NOW)
        assert log.admin.find_hanging_transactions(older_than_ms=NOW) == []
        log.admin.abort_transaction(hanging)
        assert log.admin.find_hanging_transactions() == []
        assert log.topic("t")[0].last_stable_offset == 2


def test_producers_and_markers_of_partitions_that_are_not_there(log: pylog.Log) -> None:
    missing = TopicPartition("nowhere", 0)
    asked = DescribeProducersRequest.TopicRequest(name="nowhere", partition_indexes=[0])
    (topic,) = log.broker.handle(DescribeProducersRequest(topics=[asked]), SESSION).result().topics
    assert isinstance(topic.partitions[0].error, errors.UnknownTopicOrPartition)
    markers = TxnMarkers(1, 0, True, 0, (missing, TopicPartition("t", 0)))
    written = marked(log.broker.handle(write_markers(markers), SESSION).result())
    assert isinstance(written[missing], errors.UnknownTopicOrPartition) and written[TopicPartition("t", 0)] is None


def test_nothing_is_made_to_be_looked_at(log: pylog.Log) -> None:
    assert log.admin.list_transactions() == log.admin.list_groups() == []
    assert log.broker.handle(ListTransactionsRequest(), SESSION).result().transaction_states == []
    assert log.topics(internal=True) == ["t"]


def follow_coordinators(log: pylog.Log) -> None:
    """Let another node lead the coordinators of transactions."""
    state = log.topic("__transaction_state")
    for view in state:
        log.broker.apply(
            pylog.Follow(
                topic=state.name, topic_id=state.id, partition=view.partition, partitions=len(state), leader=9,
                leader_epoch=5,
            )
        )  # fmt: skip


def test_a_node_that_does_not_lead_does_not_coordinate(log: pylog.Log) -> None:
    client = Client(log)
    follow_coordinators(log)
    answer = log.broker.handle(end_txn("tx", client.id, client.epoch, True), SESSION)
    assert isinstance(answer.exception(), errors.NotCoordinator)
    described = log.broker.handle(DescribeTransactionsRequest(transactional_ids=["tx"]), SESSION)
    assert isinstance(described.result().transaction_states[0].error, errors.NotCoordinator)


def test_what_another_node_coordinates_is_neither_settled_nor_expired_here(
    log: pylog.Log, caplog: pytest.LogCaptureFixture
) -> None:
    Client(log)
    coordinating = log.broker._coordinating
    assert len(list(coordinating.expire("__transaction_state", None))) == 1
    follow_coordinators(log)
    coordinating._coordinators._is_unsettled = True
    coordinating.tick(NOW)
    assert list(coordinating.expire("__transaction_state", None)) == []
    assert coordinating._coordinators.made("__transaction_state") == []
    assert "ended" not in caplog.text and "expires" not in caplog.text


def test_an_elder_is_refused_where_it_has_not_been_yet(log: pylog.Log) -> None:
    elder = Client(log)
    assert elder.send(b"a") is elder.end(committed=True) is None
    Client(log)
    # An append is answered as its partition would answer it (Kafka: AddPartitionsToTxnManager).
    assert type(elder.send(b"b", 1)) is errors.InvalidProducerEpoch
    with pytest.raises(errors.InvalidProducerEpoch):
        elder.commit_offset(1)
    assert isinstance(elder.end(committed=False), errors.ProducerFenced)


def test_a_coordinator_is_made_anew_where_its_partition_went(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(places) as log:
        log.create_topic("t")
        client = Client(log)
        assert client.send(b"a") is None
        waiting = log.broker.handle(join_group("g", "missing"), SESSION)
        assert isinstance(waiting.result().error, errors.UnknownMemberId)
        dirs = log.admin.describe_log_dirs()
        home = next((one.path, key) for one in dirs for key in one.partitions if key.topic == "__transaction_state")
        log.move_partition(*home[1], next(str(place) for place in places if str(place) != home[0]))
        assert client.end(committed=True) is None
        assert committed(log) == [b"a"]


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)


def test_damage_in_the_log_of_transactions_is_an_error_of_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        assert Client(log).send(b"a") is None
    (path,) = [one for one in tmp_path.glob("__transaction_state-*/*.log") if one.stat().st_size]
    damage(path)
    with pylog.open(tmp_path, clock=SimClock(NOW, 0)) as log:
        with pytest.raises(errors.CorruptBatch):
            log.admin.list_transactions()
        log.broker._coordinating._coordinators._is_unsettled = True
        log.broker.work()
        assert "transactions that were left open cannot be ended" in caplog.text


class Node:
    """A node over files that fail when they are told to."""

    def __init__(self, flush: str = "sync") -> None:
        self.files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
        self.clock = SimClock(NOW, 0)
        broker = Broker(
            self.files, ["log"], config=NodeConfig(), clock=self.clock, transport=pylog.MemoryTransport(), node_id=None,
            flush=flush,
        )  # fmt: skip
        self.broker = killed_at_last(broker)

    def ask(self, message: Any) -> Any:
        return self.broker.handle(message, SESSION).result()


def test_a_request_refused_by_a_full_disk_works_again_later() -> None:
    node = Node()
    given = node.ask(init_producer_id("tx"))
    shard = next(iter(node.broker._coordinating._coordinators._hosts.values()))
    door: Any = node.broker._produce

    def full(*_: object, **how: object) -> Any:
        raise errors.DiskFull("no room")

    door.append = full
    refused = node.ask(init_producer_id("tx"))
    assert isinstance(refused.error, errors.PylogError) and refused.error.retriable
    del door.append
    assert node.ask(init_producer_id("tx")).producer_epoch == given.producer_epoch + 1
    # Nothing is published then, which would be refused as well: whoever asked hears of it, and nobody waits for ever.
    node.files.faults.fail_at = len(node.files.sites) + 1
    assert node.ask(init_producer_id("tx")).error.retriable
    assert not shard._waiting
    node.files.heal()
    assert node.ask(init_producer_id("tx")).producer_epoch == given.producer_epoch + 2
    node.broker.close()


def test_a_request_that_is_not_durable_is_answered_with_an_error() -> None:
    node = Node()
    given = node.ask(init_producer_id("tx"))
    shard = next(iter(node.broker._coordinating._coordinators._hosts.values()))
    partition = shard.leader.partition

    def broken(*_: object) -> int:
        raise errors.DurabilityUnknown("the disk said no")

    whole, partition.sync = partition.sync, broken
    ended = node.broker.handle(add_partitions("tx", given.producer_id, given.producer_epoch, []), SESSION)
    partition.sync = whole
    assert ended.done()
    node.ask(CreateTopicsRequest.of([NewTopic("t")]))
    answer = node.ask(add_partitions("tx", given.producer_id, given.producer_epoch, [TopicPartition("t", 0)]))
    assert added(answer) == {TopicPartition("t", 0): None}
    whole, partition.sync = partition.sync, broken
    decided = node.broker.handle(end_txn("tx", given.producer_id, given.producer_epoch, True), SESSION)
    assert isinstance(decided.exception(), errors.DurabilityUnknown)
    partition.sync = whole
    assert node.broker.partition("t", 0).next_offset == 0  # no marker before the decision is durable
    node.clock.advance(500)
    node.broker.work()
    assert node.broker.partition("t", 0).next_offset == 1
    node.broker.close()


def with_something_that_nobody_waits_for(node: Node) -> Partition:
    """The abort of a transaction, which is in the log and not durable; a second later it is due."""
    given = node.ask(init_producer_id("tx"))
    node.ask(CreateTopicsRequest.of([NewTopic("t")]))
    node.ask(add_partitions("tx", given.producer_id, given.producer_epoch, [TopicPartition("t", 0)]))
    assert node.ask(end_txn("tx", given.producer_id, given.producer_epoch, False)).error is None
    partition = next(iter(node.broker._coordinating._coordinators._hosts.values())).leader.partition
    assert partition.high_watermark == partition.durable_offset == partition.next_offset - 1
    node.clock.advance(1000)
    return partition


def test_records_without_a_waiter_are_durable_a_second_later() -> None:
    node = Node()
    partition = with_something_that_nobody_waits_for(node)
    node.broker.work()
    assert partition.high_watermark == partition.durable_offset == partition.next_offset
    node.broker.close()


def test_a_failed_sync_without_a_waiter_latches_and_the_node_goes_on() -> None:
    node = Node()
    partition = with_something_that_nobody_waits_for(node)
    node.files.faults.fail_at = len(node.files.sites) + 1
    node.broker.work()
    assert partition.failed
    node.files.heal()
    node.broker.work()
    assert isinstance(node.ask(init_producer_id("tx")).error, errors.PylogError)


def test_unknown_records_are_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        log.broker.handle(offset_commit("g", [Offset("t", 0, 5)]), SESSION).result()
        view = next(view for view in log.topic("__consumer_offsets") if view.next_offset)
        unknown = encode(
            [(b"", b"\0\0\0\x09", NOW, ())],
            now_ms=NOW,
            producer_id=5,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        leader = log.broker.node.roles.writer("__consumer_offsets", view.partition)
        for batch in (encode([(b"?", b"\0\x63newer", NOW, ())], now_ms=NOW), unknown):
            leader.append(batch, NOW, origin=Origin.COORDINATOR)
    with pylog.open(tmp_path) as log:
        assert offset(log) == 5
    assert "is passed over" in caplog.text


def test_a_coordinator_elsewhere_is_the_error_of_its_groups_alone() -> None:
    with pylog.open(":memory:", config={"offsets.topic.num.partitions": 2}) as log:
        log.create_topic("t")
        by_shard = {partition_for(name, 2): name for name in ("a", "b", "c")}
        for name in by_shard.values():
            log.admin.alter_offsets(name, {TopicPartition("t", 0): 1})
        follow = pylog.Follow(
            topic=GROUPS_TOPIC, topic_id=log.topic(GROUPS_TOPIC).id, partition=1, partitions=2, leader=9, leader_epoch=9
        )
        log.broker.apply(follow)

        found = log.admin.describe_groups([by_shard[1], by_shard[0]])
        deleted = log.admin.delete_groups([by_shard[1], by_shard[0]])

    assert list(found) == list(deleted) == [by_shard[1], by_shard[0]]
    assert isinstance(found[by_shard[1]], errors.NotCoordinator) and isinstance(found[by_shard[0]], GroupDescription)
    assert isinstance(deleted[by_shard[1]], errors.NotCoordinator) and deleted[by_shard[0]] is None


def test_members_of_a_former_owners_process_are_gone_at_once(tmp_path: Path) -> None:
    far = Session("far", "/192.0.2.1")
    with pylog.open(tmp_path) as log:
        for name, session in (("here", SESSION), ("there", far)):
            joined = log.broker.handle(join_group(name, protocols=[("range", b"")]), session).result()
            synced = log.broker.handle(sync_group(name, 1, joined.member_id), session).result()
            assert joined.error is synced.error is None
        assert log.admin.describe_group("there").members[0].host == "/192.0.2.1"
        assert log.admin.describe_group("here").members[0].host.startswith("process ")
    with pylog.open(tmp_path) as log:
        assert [(one.group_id, one.state) for one in log.admin.list_groups()] == [
            ("here", "Empty"),
            ("there", "Stable"),
        ]
        assert [one.group_id for one in log.admin.list_groups(states=["stable"])] == ["there"]


def test_a_group_and_its_offsets_are_forgotten(log: pylog.Log) -> None:
    log.admin.alter_offsets("g", {TopicPartition("t", 0): 1, TopicPartition("t", 1): pylog.OffsetAndMetadata(2, "m")})
    log.admin.delete_offsets("g", [TopicPartition("t", 0)])
    assert log.admin.committed("g", [TopicPartition("t", 1)]) == {TopicPartition("t", 1): (2, "m", -1)}
    log.admin.delete_group("g")
    assert log.admin.list_groups() == []
    with pytest.raises(errors.GroupIdNotFound):
        log.admin.delete_group("g")
    with pytest.raises(errors.GroupIdNotFound):
        log.admin.describe_group("g")


def test_a_close_answers_every_waiting_member_though_an_answer_raises() -> None:
    with pylog.open(":memory:", config={"offsets.topic.num.partitions": 2}) as log:
        names = ["a", "b"]
        keys = {partition_for(name, 2) for name in names}
        assert len(keys) == 2, "two coordinators"
        joined = [log.broker.handle(join_group(name, protocols=[("range", b"")]), SESSION) for name in names * 3]
        waiting = [future for future in joined if not future.done()]
        assert len(waiting) == 4

        def interrupted(_: object) -> None:
            raise KeyboardInterrupt

        for future in waiting:
            future.add_done_callback(interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.broker.close()
        assert [type(future.exception(0)) for future in waiting] == [errors.Closed] * 4


def test_a_joining_member_hears_when_the_node_stops_coordinating(log: pylog.Log) -> None:
    first = log.broker.handle(join_group("g", protocols=[("range", b"")]), SESSION).result()
    waiting = log.broker.handle(join_group("g", protocols=[("range", b"")]), SESSION)
    assert first.error is None and not waiting.done()
    (shard,) = log.broker._coordinating._coordinators._hosts.values()
    state = log.topic("__consumer_offsets")
    for view in state:
        log.broker.apply(
            pylog.Follow(
                topic=state.name, topic_id=state.id, partition=view.partition, partitions=len(state), leader=9,
                leader_epoch=5,
            )
        )  # fmt: skip
    assert isinstance(waiting.exception(), errors.NotCoordinator)
    # Who was on the way to it when that happened changes nothing any more, and what it had to say is said.
    assert isinstance(shard.handle(join_group("g"), SESSION).exception(), errors.NotCoordinator)
    with pytest.raises(errors.NotCoordinator):
        shard.append_marker(TxnMarkers(1, 0, True, 0, ()))
    shard._send([Answer(0, None)], completed(ProduceResponse()))
    described = log.broker.handle(DescribeGroupsRequest(groups=["g"]), SESSION)
    assert isinstance(described.result().groups[0].error, errors.NotCoordinator)


def test_offsets_of_partitions_that_are_not_there_are_refused(log: pylog.Log) -> None:
    missing, there = TopicPartition("nowhere", 0), TopicPartition("t", 0)
    parts = [Offset(*missing, 1), Offset(*there, 1)]
    both = commit_errors(log.broker.handle(offset_commit("g", parts), SESSION).result())
    assert isinstance(both[missing], errors.UnknownTopicOrPartition) and both[there] is None
    (error,) = commit_errors(log.broker.handle(offset_commit("g", parts[:1]), SESSION).result()).values()
    assert isinstance(error, errors.UnknownTopicOrPartition)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_only_coordinators_write_their_logs_and_nothing_is_taken_from_them(log: pylog.Log, topic: str) -> None:
    client = Client(log)
    assert client.send(b"a") is client.commit_offset(3) is client.end(committed=True) is None
    number = next(one.partition for one in log.topic(topic) if one.next_offset)
    view, at = log.topic(topic)[number], TopicPartition(topic, number)
    records = [pylog.Record(b"v", b"k")]
    with log.producer() as producer, pytest.raises(errors.InvalidTopic, match="log of coordinators"):
        producer.send(topic, b"v", b"k", partition=number).result()
    for refused in (
        lambda: view.append(records),
        lambda: log.delete_records({at: -1}),
        lambda: log.delete_topic(topic),
        lambda: log.create_partitions(topic, 60),
    ):
        with pytest.raises(errors.InvalidTopic):
            refused()
    # The coordinator itself may write that a transaction has ended at any time.
    assert view.start_offset == 0 and b"k" not in [record.key for record in view.records(0)]
    assert offset(log) == 3
    # As with Kafka, how they are kept is for their owner to say.
    assert log.alter_config(topic, {"cleanup.policy": "delete"}).config.cleanup_policy == {"delete"}
    with pytest.raises(errors.InvalidTopic):
        view.append(records)


def test_the_list_of_topics_is_no_topic_to_clients(log: pylog.Log) -> None:
    name = "__cluster_metadata"
    batch = encode([(b"v", b"k", NOW, ())], now_ms=NOW)
    answer = log.broker.handle(ProduceRequest.of(name, 0, batch), SESSION).result()
    assert isinstance(answer.parts[0].error, errors.UnknownTopicOrPartition)
    for refused in (
        lambda: log.delete_records({TopicPartition(name, 0): 1}),
        lambda: log.delete_topic(name),
        lambda: log.alter_config(name, {"retention.ms": 1}),
    ):
        with pytest.raises(errors.UnknownTopicOrPartition):
            refused()
    with pytest.raises(errors.InvalidTopic):
        log.create_topic(name)


def test_a_topic_is_not_internal_by_its_underscores(log: pylog.Log) -> None:
    log.create_topic("__mine")
    assert log.topics() == ["__mine", "t"]
    log.delete_topic("__mine")


def test_offsets_of_a_deleted_topic_are_gone_with_it(tmp_path: Path) -> None:
    def tombstones(log: pylog.Log) -> int:
        every = [record for view in log.topic("__consumer_offsets") for record in view.records()]
        return sum(record.value is None for record in every)

    with pylog.open(tmp_path) as log:
        for name in ("t", "u"):
            log.create_topic(name)
            log.admin.alter_offsets("g", {TopicPartition(name, 0): 0})
        client = Client(log)
        assert client.commit_offset(0, "in transactions") is client.end(committed=True) is None
    with pylog.open(tmp_path) as log:
        log.delete_topic("t")
        assert set(log.admin.committed("g")) == {TopicPartition("u", 0)}
        assert log.admin.committed("in transactions") == {}
        until(lambda: tombstones(log) == 2)  # coordinators that were not asked yet do it, too
        log.create_topic("t")
        assert set(log.admin.committed("g")) == {TopicPartition("u", 0)}
        assert log.admin.committed("in transactions") == {}


def test_a_coordinator_that_cannot_be_read_lets_a_topic_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        log.admin.alter_offsets("g", {TopicPartition("t", 0): 0})
        (path,) = [view.path for view in log.topic("__consumer_offsets") if view.next_offset]
    damage(next(Path(path).glob("*.log")))
    with pylog.open(tmp_path) as log:
        log.delete_topic("t")
        assert log.topics() == []
    assert "keeps how far groups are in 't'" in caplog.text


def test_offsets_of_partitions_that_are_not_there_cannot_be_deleted(log: pylog.Log) -> None:
    here, missing = TopicPartition("t", 0), [TopicPartition("nowhere", 0), TopicPartition("t", 9)]
    log.admin.alter_offsets("g", {here: 0})
    for one in missing:
        with pytest.raises(errors.UnknownTopicOrPartition):
            log.admin.delete_offsets("g", [one])
    message = offset_delete("g", [*missing, here])
    errors_of = errors_in(message, log.broker.handle(message, SESSION).result())
    assert {key: type(error) for key, error in errors_of.items()} == {
        **dict.fromkeys(missing, errors.UnknownTopicOrPartition), here: type(None)
    }  # fmt: skip
    assert log.admin.committed("g") == {}
