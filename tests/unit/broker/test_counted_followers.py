"""A leader whose followers count, and what waits for one that is away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition, errors
from pylog.protocol.batch import encode
from pylog.protocol.messages import ACKS_ALL, Fetch, FetchPart, ProduceRequest, Session
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest, DescribeGroupsRequest, ListGroupsRequest
from pylog.protocol.messages.transactions import DescribeTransactionsRequest
from support.clients.values import until
from support.copies import QUICK
from support.messages import (
    Offset,
    add_partitions,
    added,
    commit_errors,
    end_txn,
    fetched,
    group_heartbeat,
    init_producer_id,
    member_heartbeat,
    offset_commit,
    offset_fetch,
)
from support.patience import HANG_SECONDS

SESSION = Session()
T0 = TopicPartition("t", 0)
ONE = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with pylog.open(tmp_path / "log", node_id=1, config=ONE) as log:
        log.create_topic("t")
        log.admin.alter_offsets("g", {T0: 1})
        yield log


def ask(log: pylog.Log, message: Any) -> Any:
    """The answer, which waits for nothing."""
    return log.broker.handle(message, SESSION).result(0)


def position(log: pylog.Log, group: str = "g") -> int:
    (part,) = fetched(ask(log, offset_fetch(group, [T0])))
    assert part.error is None
    offset: int = part.offset
    return offset


def lead_with_follower(log: pylog.Log, topic: str) -> None:
    """Lead a topic of one partition with node 2 in the ISR: it says that it has everything, and is heard of no more."""
    log.lead(topic, followers={2})
    role = log.broker.node.roles.leader(topic, 0)
    fetch = Fetch([FetchPart(topic, 0, role.partition.next_offset, high_watermark=0)], replica_id=2, max_wait_ms=0)
    ask(log, fetch)
    assert role.isr == {2}


def test_what_is_not_appended_waits_for_no_follower(log: pylog.Log) -> None:
    lead_with_follower(log, "__consumer_offsets")
    commit = log.broker.handle(offset_commit("g", [Offset("t", 0, 5)]), SESSION)
    assert not commit.done()
    assert (position(log), position(log, "another")) == (1, -1)
    assert [group.group_id for group in ask(log, ListGroupsRequest()).groups] == ["g"]
    assert ask(log, DescribeGroupsRequest(groups=["g"])).groups[0].error is None
    assert isinstance(ask(log, group_heartbeat("another", "m", 1)).error, errors.UnknownMemberId)
    log.lead("__consumer_offsets")
    assert commit_errors(commit.result(0)) == {T0: None}
    assert position(log) == 5


def test_a_consumer_group_waits_for_its_own_records_alone(log: pylog.Log) -> None:
    def heartbeat(group: str, member: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return member_heartbeat(
            group, member, epoch, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )

    joined = ask(log, heartbeat("h", "m", 0))
    assert joined.error is None
    lead_with_follower(log, "__consumer_offsets")
    waiting = log.broker.handle(heartbeat("late", "m", 0), SESSION)
    again = log.broker.handle(heartbeat("late", "m", 0), SESSION)
    assert not waiting.done() and not again.done()
    assert ask(log, heartbeat("h", "m", joined.member_epoch)).error is None
    log.lead("__consumer_offsets")
    assert waiting.result(0).error is None and again.result(0).error is None


def test_a_transactional_id_waits_for_its_own_records_alone(log: pylog.Log) -> None:
    known = ask(log, init_producer_id("known"))
    lead_with_follower(log, "__transaction_state")
    waiting = log.broker.handle(init_producer_id("late"), SESSION)
    assert not waiting.done()
    with log.producer() as producer:
        assert producer.send("t", b"x").result(HANG_SECONDS).offset == 0
    assert [one.transactional_id for one in log.admin.list_transactions()] == ["known", "late"]
    fenced = ask(log, init_producer_id("known", 60_000, known.producer_id, known.producer_epoch + 5))
    assert isinstance(fenced.error, errors.ProducerFenced)
    log.lead("__transaction_state")
    assert waiting.result(0).error is None


# --- the topics of coordinators ---------------------------------------------------------------------------------------


class Pair:
    """A leader and a copy that follows its topic `t`, over TCP."""

    def __init__(self, root: Path) -> None:
        self.leader = pylog.open(root / "leader", node_id=1, config=ONE)
        self.copy = pylog.open(root / "copy", node_id=2, config={**ONE, **QUICK})
        self.server = self.leader.serve()
        self.leader.create_topic("t")

    def follow(self) -> pylog.Following:
        return self.copy.follow(self.server.bootstrap_servers, ["t"])

    def counts(self, following: pylog.Following, topic: str) -> bool:
        """Whether the copy counts, as the leader says, and has caught up."""
        following._refresh()
        lags = [lag for key, lag in following.lag().items() if key.topic == topic]
        return bool(lags) and all(lag.is_in_sync and lag.lag == 0 for lag in lags)

    def close(self) -> None:
        self.copy.close()
        self.leader.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def isr(log: pylog.Log, topic: str) -> list[int]:
    (part,) = log.broker.image.topics[topic].partitions.values()
    return list(part.isr)


def described(log: pylog.Log, name: str) -> Any:
    return (
        log.broker.handle(DescribeTransactionsRequest(transactional_ids=[name]), SESSION)
        .result(HANG_SECONDS)
        .transaction_states[0]
    )


def committed(log: pylog.Log) -> list[bytes | None]:
    return [record.value for record in log.topic("t")[0].records(isolation_level="read_committed")]


@pytest.mark.parametrize("is_made_first", [True, False])
def test_groups_count_a_follower_once_it_has_caught_up(pair: Pair, is_made_first: bool) -> None:
    leader = pair.leader
    if is_made_first:
        leader.admin.alter_offsets("g", {T0: 1})
    leader.lead("t", followers={2})
    leader.admin.alter_offsets("g", {T0: 2})  # the copy has never come, and stops no group
    assert isr(leader, "__consumer_offsets") == [1]
    following = pair.follow()
    until(lambda: pair.counts(following, "__consumer_offsets"))
    assert isr(leader, "__consumer_offsets") == [1, 2]
    following.close()
    waiting = leader.broker.handle(offset_commit("g", [Offset("t", 0, 3)]), SESSION)
    assert not waiting.done()
    assert position(leader) == 2
    leader.lead("t")
    assert commit_errors(waiting.result(0)) == {T0: None}
    assert isr(leader, "__consumer_offsets") == [1]


def test_a_follower_that_has_caught_up_counts_after_an_open(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.leader.lead("t", followers={2})
    pair.leader.admin.alter_offsets("g", {T0: 1})
    following = pair.follow()
    until(lambda: pair.counts(following, "__consumer_offsets"))
    pair.close()
    with pylog.open(tmp_path / "leader", node_id=1) as leader:
        waiting = leader.broker.handle(offset_commit("g", [Offset("t", 0, 3)]), SESSION)
        assert not waiting.done()
        assert position(leader) == 1


def test_the_coordinators_come_along_where_a_copy_is_promoted(pair: Pair) -> None:
    pair.leader.lead("t", followers={2})
    pair.leader.admin.alter_offsets("g", {T0: 1})
    following = pair.follow()
    with pair.leader.producer(transactional_id="tx") as producer:
        with producer.transaction():
            producer.send("t", b"before")
        for name in ("__consumer_offsets", "__transaction_state"):
            until(lambda name=name: pair.counts(following, name))  # type: ignore[misc]
        with producer.transaction():
            producer.send("t", b"committed")
            producer.send_offsets({T0: 7}, pylog.ConsumerGroupMetadata("g"))
        pair.server.close()
        pair.leader.close()
    assert set(pair.copy.lead("t")) == {0}
    assert position(pair.copy) == 7
    assert committed(pair.copy) == [b"before", b"committed"]
    with pair.copy.producer(transactional_id="tx") as producer, producer.transaction():
        producer.send("t", b"after")
    assert committed(pair.copy) == [b"before", b"committed", b"after"]


@pytest.mark.parametrize("order", [("t",), ("__transaction_state", "t"), ("t", "__transaction_state")])
def test_a_transaction_that_its_leader_left_open_is_aborted_in_each_order(pair: Pair, order: tuple[str, ...]) -> None:
    pair.leader.lead("t", followers={2})
    following = pair.follow()
    with pair.leader.producer(transactional_id="idle") as idle:
        with idle.transaction():
            idle.send("t", b"committed")
        until(lambda: pair.counts(following, "__transaction_state"))
        known = described(pair.leader, "idle")
        producer = pair.leader.producer(transactional_id="tx")
        producer.begin()
        producer.send("t", b"open").result(HANG_SECONDS)
        pair.server.close()
        pair.leader.close()
    for name in order:
        pair.copy.lead(name)
    with pair.copy.producer() as plain:
        plain.send("t", b"plain").result(HANG_SECONDS)
    until(lambda: committed(pair.copy) == [b"committed", b"plain"])
    view = pair.copy.topic("t")[0]
    assert view.last_stable_offset == view.high_watermark
    assert not pair.copy.admin.find_hanging_transactions()
    assert described(pair.copy, "idle").producer_epoch == known.producer_epoch, "who has nothing open goes on"


def test_a_copy_that_never_had_the_coordinators_aborts_what_is_open(pair: Pair) -> None:
    pair.follow()
    producer = pair.leader.producer(transactional_id="tx")
    producer.begin()
    producer.send("t", b"open").result(HANG_SECONDS)
    pair.leader.flush()
    until(lambda: pair.copy.topic("t")[0].next_offset == 1)
    pair.leader.close()
    pair.copy.lead("t")
    view = pair.copy.topic("t")[0]
    assert (committed(pair.copy), view.last_stable_offset) == ([], view.high_watermark)


def test_a_transaction_commits_when_the_follower_has_all_its_records(pair: Pair) -> None:
    """Records whose sender has not heard of them yet are on the follower before the decision is."""
    leader = pair.leader
    leader.lead("t", followers={2})
    with leader.producer(transactional_id="tx", linger_ms=0) as producer:
        producer.begin()
        producer.send("t", b"x")
        held = leader.broker.node.roles.leader("t", 0)
        until(lambda: held.partition.next_offset == 1)
        known = described(leader, "tx")
        end = end_txn("tx", known.producer_id, known.producer_epoch, True)
        waiting = leader.broker.handle(end, SESSION)
        assert not waiting.done() and held.partition.next_offset == 1
        pair.follow()
        assert waiting.result(HANG_SECONDS).error is None
        until(lambda: committed(leader) == [b"x"])


def test_an_abort_waits_for_no_follower(log: pylog.Log) -> None:
    given = ask(log, init_producer_id("tx"))
    joins = add_partitions("tx", given.producer_id, given.producer_epoch, [T0])
    assert added(ask(log, joins)) == {T0: None}
    lead_with_follower(log, "__transaction_state")
    assert ask(log, end_txn("tx", given.producer_id, given.producer_epoch, False)).error is None


# --- what is made later -----------------------------------------------------------------------------------------------


def appends_wait(log: pylog.Log, partition: int = 0) -> bool:
    batch = encode([pylog.Record(b"x")], now_ms=1)
    answer = log.broker.handle(ProduceRequest.of("t", partition, batch, acks=ACKS_ALL, timeout_ms=50), SESSION).result(
        HANG_SECONDS
    )
    return isinstance(answer.parts[0].error, errors.RequestTimedOut)


def test_partitions_that_are_added_count_the_followers(log: pylog.Log) -> None:
    log.lead("t", followers={2})
    log.create_partitions("t", 2)
    assert appends_wait(log, 1)


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_topic_that_is_made_again_counts_its_followers(tmp_path: Path, is_opened_again: bool) -> None:
    small = {"metadata.log.max.record.bytes.between.snapshots": 1}
    log = pylog.open(tmp_path, node_id=1, config=small)
    log.create_topic("t")
    log.lead("t", followers={2})
    log.delete_topic("t")
    if is_opened_again:
        for _ in range(3):  # snapshots come in between
            log.create_topic("other", config={"retention.ms": 1}, exist_ok=True)
            log.alter_config("other", {"retention.bytes": 1000})
            log.close()
            log = pylog.open(tmp_path, node_id=1, config=small)
    with log:
        log.create_topic("t")
        assert appends_wait(log)
        log.lead("t")
        log.delete_topic("t")
        log.create_topic("t")
        assert not appends_wait(log)


# --- who is in sync ---------------------------------------------------------------------------------------------------


def test_a_follower_of_a_partition_with_records_counts_once_it_has_caught_up(log: pylog.Log) -> None:
    view = log.topic("t")[0]
    view.append([pylog.Record(b"x")])
    log.lead("t", followers={2})
    assert (view.replicas, view.isr) == ((1, 2), (1,))
    assert not appends_wait(log)
    lead_with_follower(log, "t")
    assert (view.replicas, view.isr) == ((1, 2), (1, 2))
    assert appends_wait(log)
    log.delete_topic("t")
    with pytest.raises(errors.UnknownTopicOrPartition):
        _ = view.isr


def test_who_takes_the_lead_out_of_the_isr_is_warned(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    def warned() -> list[str]:
        return [record.getMessage() for record in caplog.records if "takes the lead" in record.getMessage()]

    pair.leader.lead("t", followers={2})
    following = pair.follow()
    until(lambda: pair.counts(following, "t"))
    pair.copy.lead("t")
    assert not warned()
    with pair.copy.serve() as server, pair.leader.follow(server.bootstrap_servers, ["t"]):
        pair.leader.lead("t")
        assert warned() == [
            "t-0: this node takes the lead, and node 2 did not have it in the ISR: what was acknowledged may be missing"
        ]


# --- who is a follower ------------------------------------------------------------------------------------------------


def test_of_two_copies_with_one_id_the_second_is_refused(pair: Pair, tmp_path: Path) -> None:
    pair.leader.lead("t", followers={2})
    following = pair.follow()
    with pylog.open(tmp_path / "clone", node_id=2, config=QUICK) as clone:
        with pytest.raises(errors.DuplicateBrokerRegistration, match="followers=\\{2\\}"):
            clone.follow(pair.server.bootstrap_servers, ["t"])
        assert pair.leader.metrics().total("connection-count") > 0
        following.close()
        with pytest.raises(errors.DuplicateBrokerRegistration):
            clone.follow(pair.server.bootstrap_servers, ["t"])
        # A fetch of the first one that is looked at once more would register it again.
        until(lambda: pair.leader.metrics().total("connection-count") == 0)
        pair.leader.lead("t", followers={2})
        clone.follow(pair.server.bootstrap_servers, ["t"])
        back = pair.copy.broker
        fetch = FetchPart("t", 0, 0, high_watermark=0, directory_id=back.directory_id)
        answer = pair.leader.broker.handle(Fetch([fetch], replica_id=2), SESSION).result(HANG_SECONDS)
        assert isinstance(answer.parts[0].error, errors.DuplicateBrokerRegistration)


def test_a_copy_that_does_not_count_may_have_the_id_of_one_that_is_gone(pair: Pair, tmp_path: Path) -> None:
    pair.follow()
    with pylog.open(tmp_path / "other", node_id=2, config=QUICK) as other:
        other.follow(pair.server.bootstrap_servers, ["t"])
        assert 2 not in pair.leader.broker.image.nodes


def test_a_partition_that_two_leaders_have_added_is_told_apart(pair: Pair) -> None:
    """The first leader has added it, and no copy has heard of that."""
    pair.leader.lead("t")
    following = pair.follow()
    until(lambda: len(following.lag()) == 1)
    following.close()
    pair.leader.create_partitions("t", 2)
    pair.copy.lead("t")
    pair.copy.create_partitions("t", 2)
    pair.copy.topic("t")[1].append([pylog.Record(b"of the second leader")])
    with pair.copy.serve() as server:
        pair.leader.follow(server.bootstrap_servers, ["t"])
        until(lambda: pair.leader.topic("t")[1].high_watermark == 1)
