"""Consumers that share topics: in one thread, in several, coming, going and dying; what they commit."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import pylog
from pylog import Consumer, OffsetAndMetadata, RebalanceListener, Record, TopicPartition, errors
from pylog.client.consumer.membership import MembershipState
from pylog.protocol.messages import LEAVE_EPOCH, Session
from pylog.testing import SimClock
from support.messages import leave_group, leaving, member_heartbeat
from support.patience import HANG_SECONDS

PARTITIONS = 6
RECORDS = 50
KEYS = [TopicPartition("t", number) for number in range(PARTITIONS)]


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        fill(opened.create_topic("t", partitions=PARTITIONS))
        yield opened


def fill(topic: pylog.TopicView) -> None:
    for partition in topic:
        partition.append([Record(b"%d" % i, timestamp=1000 + i) for i in range(RECORDS)])


def member(log: pylog.Log, *topics: str, **config: Any) -> Consumer:
    config = {"group_id": "g", "auto_offset_reset": "earliest"} | config
    return log.consumer(*topics or ("t",), **config)


def until(holds: Callable[[], bool], *consumers: Consumer) -> list[pylog.ConsumerRecord]:
    """Poll in turn, without waiting, until that holds; gives what came."""
    records: list[pylog.ConsumerRecord] = []
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        for consumer in consumers:
            records += consumer.poll(0)
        if holds():
            return records
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]


def shared_by(*consumers: Consumer) -> bool:
    """Whether every partition has one owner, and nobody more than others by two."""
    owned = Counter(key for consumer in consumers for key in consumer.assignment())
    counts = [len(consumer.assignment()) for consumer in consumers]
    return owned == Counter(KEYS) and max(counts) - min(counts) <= 1


class Noting(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def note(self, name: str, partitions: list[TopicPartition]) -> None:
        self.calls.append((name, [key.partition for key in partitions]))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.note("revoked", partitions)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.note("assigned", partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.note("lost", partitions)


# --- sharing ---------------------------------------------------------------------------------------------------------


STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky"]
WAYS = [{"partition_assignment_strategy": strategy} for strategy in STRATEGIES]
WAYS += [{"group_protocol": "consumer", "group_remote_assignor": name} for name in ("uniform", "range", None)]
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.mark.parametrize("config", WAYS, ids=lambda config: "-".join(map(str, config.values())))
def test_members_in_one_thread_share_and_take_over(log: pylog.Log, config: dict[str, Any]) -> None:
    """Polled in turn without waiting, they get through every rebalance; no record is lost or given twice."""
    first = member(log, **config)
    records = until(lambda: shared_by(first), first)
    others = [member(log, **config) for _ in range(2)]
    records += until(lambda: shared_by(first, *others), first, *others)
    records += until(lambda: len(records) >= 0, first, *others)
    first.close()
    records += until(lambda: shared_by(*others), *others)
    fill(log.topic("t"))
    count = len(records)
    wanted = 2 * RECORDS * PARTITIONS
    while count < wanted:
        more = until(lambda: True, *others)
        records += more
        count += len(more)
    seen = Counter((record.partition, record.offset) for record in records)
    assert seen == Counter((key.partition, offset) for key in KEYS for offset in range(2 * RECORDS))
    for other in others:
        other.close()


@BOTH
def test_a_member_goes_on_where_the_last_one_has_stopped(log: pylog.Log, protocol: str) -> None:
    with member(log, group_protocol=protocol, max_poll_records=70) as first:
        records = until(lambda: bool(first.assignment()), first)
    with member(log, group_protocol=protocol) as second:
        records += until(lambda: sum(second.lag().values()) == 0, second)
    assert Counter((r.partition, r.offset) for r in records) == Counter(
        (key.partition, offset) for key in KEYS for offset in range(RECORDS)
    )


@BOTH
def test_a_waiting_poll_hears_of_a_rebalance_before_the_next_heartbeat(protocol: str) -> None:
    # Longer than a test may take.
    rarely = {
        "group.consumer.heartbeat.interval.ms": 600_000, "group.consumer.max.heartbeat.interval.ms": 600_000,
        "group.consumer.session.timeout.ms": 1_800_000, "group.consumer.max.session.timeout.ms": 1_800_000,
    }  # fmt: skip
    times = {"heartbeat_interval_ms": 600_000, "session_timeout_ms": 1_800_000} if protocol == "classic" else {}
    log = pylog.open(":memory:", config=rarely)
    fill(log.create_topic("t", partitions=PARTITIONS))
    first = member(log, group_protocol=protocol, **times)
    until(lambda: shared_by(first), first)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            first.poll(600_000)
        except errors.Wakeup as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    second = member(log, group_protocol=protocol, **times)
    until(lambda: len(second.assignment()) == PARTITIONS // 2, second)
    with pytest.raises(errors.ConcurrentUse, match="another thread"):
        first.poll(0)
    first.wakeup()
    thread.join()
    assert len(ended) == 1
    # The second one may have its half before the first one has heard of its own.
    until(lambda: shared_by(first, second), first, second)
    first.close()
    second.close()
    log.close()


@BOTH
def test_members_in_threads_read_everything(log: pylog.Log, protocol: str) -> None:
    """Members come and go while a producer writes: every record is read at least once, and offsets only rise."""
    seen: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()
    total = PARTITIONS * RECORDS * 3
    failures: list[BaseException] = []
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}

    def run(rounds: int) -> None:
        try:
            for _ in range(rounds):
                with member(log, group_protocol=protocol, **cooperative) as consumer:
                    for _ in range(30):
                        records = consumer.poll(20)
                        with lock:
                            seen.update((record.partition, record.offset) for record in records)
                            if len(seen) >= total:
                                return
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(40,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        fill(log.topic("t"))
    for thread in threads:
        thread.join()
    assert not failures
    assert set(seen) == {(key.partition, offset) for key in KEYS for offset in range(RECORDS * 3)}


@BOTH
def test_topics_may_be_subscribed_to_by_some(log: pylog.Log, protocol: str) -> None:
    log.create_topic("u", partitions=2)
    one, both = member(log, "t", group_protocol=protocol), member(log, "t", "u", group_protocol=protocol)
    until(lambda: {key.topic for key in both.assignment()} >= {"u"} and len(one.assignment()) > 0, one, both)
    assert {key.topic for key in one.assignment()} == {"t"}
    assert one.assignment() | both.assignment() == {*KEYS, TopicPartition("u", 0), TopicPartition("u", 1)}
    one.close()
    both.close()


@BOTH
def test_a_new_subscription_and_none(log: pylog.Log, protocol: str) -> None:
    log.create_topic("u", partitions=2)
    noting = Noting()
    with member(log, group_protocol=protocol) as consumer:
        consumer.subscribe(["t"], listener=noting)
        until(lambda: shared_by(consumer), consumer)
        consumer.subscribe(["u"], listener=noting)
        until(lambda: {key.topic for key in consumer.assignment()} == {"u"}, consumer)
        assert consumer.subscription() == {"u"}
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.subscribe([])
        with pytest.raises(RuntimeError, match="reads nothing"):
            consumer.poll(0)
        consumer.subscribe(["t"], listener=noting)
        until(lambda: shared_by(consumer), consumer)
    every = list(range(PARTITIONS))
    calls = [call for call in noting.calls if call != ("assigned", [])]  # what the newer protocol gives comes piecemeal
    assert calls == [
        ("assigned", every), ("revoked", every), ("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", every),
        ("revoked", every),
    ]  # fmt: skip


@BOTH
def test_new_partitions_and_new_topics_are_seen(log: pylog.Log, protocol: str) -> None:
    """At the next look: here at each poll."""
    one = member(log, group_protocol=protocol, metadata_max_age_ms=0)
    other = member(log, group_protocol=protocol, metadata_max_age_ms=0)
    until(lambda: shared_by(one, other), one, other)
    log.create_partitions("t", PARTITIONS + 2)
    until(lambda: len(one.assignment() | other.assignment()) == PARTITIONS + 2, one, other)
    for consumer in (one, other):
        consumer.subscribe(pattern="t|new.*")
    log.create_topic("new-1")
    log.create_topic("other")
    log.create_topic("__new")
    until(lambda: TopicPartition("new-1", 0) in one.assignment() | other.assignment(), one, other)
    assert one.subscription() == {"t", "new-1"}
    log.delete_topic("t")
    until(lambda: one.assignment() | other.assignment() == {TopicPartition("new-1", 0)}, one, other)
    one.close()
    other.close()


@BOTH
def test_members_wait_for_a_topic_that_is_not_there_yet(log: pylog.Log, protocol: str) -> None:
    config: dict[str, Any] = {"group_protocol": protocol, "metadata_max_age_ms": 0, "auto_offset_reset": "earliest"}
    one, other = (log.consumer("new", group_id="waiting", **config) for _ in range(2))
    until(lambda: one.group_metadata().generation_id >= 0 <= other.group_metadata().generation_id, one, other)
    assert one.assignment() == other.assignment() == set()
    log.create_topic("new", partitions=2)[1].append([Record(b"first")])
    records = until(lambda: len(one.assignment()) == len(other.assignment()) == 1, one, other)
    records += until(lambda: sum([*one.lag().values(), *other.lag().values()]) == 0, one, other)
    assert [record.value for record in records] == [b"first"]
    one.close()
    other.close()


# --- listeners -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_listener_hears_of_assigned_and_revoked_partitions(log: pylog.Log, strategy: str) -> None:
    noting = Noting()
    first = member(log, partition_assignment_strategy=strategy)
    first.subscribe(["t"], listener=noting)
    until(lambda: shared_by(first), first)
    second = member(log, partition_assignment_strategy=strategy)
    until(lambda: shared_by(first, second), first, second)
    kept = sorted(key.partition for key in first.assignment())
    gone = sorted(key.partition for key in second.assignment())
    second.close()
    until(lambda: shared_by(first), first)
    first.close()
    every = list(range(PARTITIONS))
    if strategy == "range":
        wanted = [
            ("assigned", every), ("revoked", every), ("assigned", kept), ("revoked", kept), ("assigned", every),
            ("revoked", every),
        ]  # fmt: skip
    else:
        # It gives back what goes when it knows what that is, and the last round gives nothing new.
        wanted = [
            ("assigned", every), ("revoked", gone), ("assigned", []), ("assigned", []), ("assigned", gone),
            ("revoked", every),
        ]  # fmt: skip
    assert noting.calls == wanted


@BOTH
def test_a_listener_may_commit_and_seek_and_fail(log: pylog.Log, protocol: str) -> None:
    class Own:
        """Keeps positions of its own, as a listener of few words."""

        def __init__(self) -> None:
            self.fails = False

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            for key in partitions:
                first.seek(key, 40)

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            first.commit({key: OffsetAndMetadata(first.position(key), "bye") for key in partitions})
            with pytest.raises(errors.ConcurrentUse, match="listener"):
                first.poll(0)
            if self.fails:
                raise ZeroDivisionError

    own = Own()
    first = member(log, group_protocol=protocol, enable_auto_commit=False)
    first.subscribe(["t"], listener=own)
    records = until(lambda: sum(first.lag().values()) == 0 if first.assignment() else False, first)
    assert {record.offset for record in records} == set(range(40, RECORDS))
    second = member(log, group_protocol=protocol, enable_auto_commit=False)
    own.fails = True
    with pytest.raises(ZeroDivisionError):
        until(lambda: shared_by(first, second), first, second)
    own.fails = False
    until(lambda: shared_by(first, second), first, second)
    key = min(second.assignment())
    assert second.committed([key]) == {key: OffsetAndMetadata(RECORDS, "bye")}
    own.fails = True
    with pytest.raises(ZeroDivisionError):
        first.close()
    with pytest.raises(errors.Closed):
        first.poll(0)
    until(lambda: shared_by(second), second)
    second.close()


def test_a_listener_needs_a_group(log: pylog.Log) -> None:
    with log.consumer() as consumer, pytest.raises(ValueError, match="group_id"):
        consumer.subscribe(["t"], listener=Noting())


# --- dying -----------------------------------------------------------------------------------------------------------


def remove(log: pylog.Log, consumer: Consumer) -> None:
    """As the coordinator does when a session ends."""
    member_id = consumer.group_metadata().member_id
    message: Any = leave_group("g", [leaving(member_id)])
    if consumer.config.group_protocol == "consumer":
        message = member_heartbeat("g", member_id, LEAVE_EPOCH)
    log.broker.handle(message, Session()).result()


def test_a_member_that_was_thrown_out_loses_its_partitions_and_comes_back(log: pylog.Log) -> None:
    noting = Noting()
    with member(log, max_poll_records=10) as consumer:
        consumer.subscribe(["t"], listener=noting)
        until(lambda: shared_by(consumer), consumer)
        before = consumer.group_metadata()
        remove(log, consumer)
        with pytest.raises(errors.CommitFailed, match="others may read"):
            consumer.commit()
        until(lambda: len(noting.calls) == 3, consumer)
        after = consumer.group_metadata()
        assert after.member_id != before.member_id and after.generation_id > before.generation_id
        consumer.commit()
    every = list(range(PARTITIONS))
    assert noting.calls == [("assigned", every), ("lost", every), ("assigned", every), ("revoked", every)]


@BOTH
def test_a_fenced_member_cannot_commit_in_a_transaction(log: pylog.Log, protocol: str) -> None:
    """Also where it has heard of that since it has polled: it must not pass for nobody in particular."""
    with member(log, group_protocol=protocol) as consumer, log.producer(transactional_id="job") as producer:
        until(lambda: shared_by(consumer), consumer)
        remove(log, consumer)
        with pytest.raises(errors.CommitFailed):
            consumer.commit()
        producer.begin()
        with pytest.raises(errors.TransactionAbortable):
            producer.send_offsets({KEYS[0]: RECORDS}, consumer.group_metadata())
        producer.abort()
        assert consumer.committed(KEYS[:1]) == {KEYS[0]: None}


@BOTH
def test_lost_partitions_are_revoked_for_a_listener_without_on_lost(log: pylog.Log, protocol: str) -> None:
    class Short:
        def __init__(self) -> None:
            self.revoked: list[TopicPartition] = []

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            self.revoked += partitions

    short = Short()
    with member(log, group_protocol=protocol) as consumer:
        consumer.subscribe(["t"], listener=short)
        until(lambda: shared_by(consumer), consumer)
        remove(log, consumer)
        until(lambda: bool(short.revoked), consumer)
        assert short.revoked == KEYS


@BOTH
def test_a_member_that_does_not_poll_leaves(log: pylog.Log, protocol: str) -> None:
    slow = member(log, group_protocol=protocol, max_poll_interval_ms=50)
    quick = member(log, group_protocol=protocol)
    until(lambda: len(slow.assignment()) == PARTITIONS, slow)
    until(lambda: shared_by(quick), quick)
    with pytest.raises(errors.CommitFailed, match="max_poll_interval_ms"):
        slow.commit()
    quick.close()
    until(lambda: shared_by(slow), slow)
    slow.close()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(log: pylog.Log) -> None:
    noting = Noting()
    other = member(log)
    other.subscribe(["t"], listener=noting)
    static = member(log, group_instance_id="one")
    until(lambda: shared_by(static, other), static, other)
    had, calls = static.assignment(), list(noting.calls)
    generation = other.group_metadata().generation_id
    static.close()
    again = member(log, group_instance_id="one")
    until(lambda: again.assignment() == had, again, other)
    assert noting.calls == calls and again.group_metadata().generation_id == generation
    twin = member(log, group_instance_id="one")
    until(lambda: twin.assignment() == had, twin)
    with pytest.raises(errors.FencedInstanceId, match="close this one"):
        until(lambda: False, again)
    with pytest.raises(errors.FencedInstanceId):
        again.commit({KEYS[0]: 1})
    for consumer in (again, twin, other):
        consumer.close()


# --- committing ------------------------------------------------------------------------------------------------------


def test_commits_are_positions_or_given_offsets(log: pylog.Log) -> None:
    with member(log, enable_auto_commit=False) as consumer:
        consumer.assign(KEYS[:2])
        assert consumer.committed(KEYS[:2]) == {KEYS[0]: None, KEYS[1]: None}
        assert consumer.committed([]) == {}
        consumer.commit()
        consumer.seek(KEYS[0], 7)
        consumer.commit()
        assert consumer.committed(KEYS[:2]) == {KEYS[0]: OffsetAndMetadata(7), KEYS[1]: None}
        consumer.commit({KEYS[0]: 9, KEYS[1]: OffsetAndMetadata(3, "three", 0)})
        until(lambda: sum(consumer.lag().values()) == 0, consumer)
        consumer.commit(timeout_ms=1000)
        found = consumer.committed(KEYS[:3])
        assert found == {key: OffsetAndMetadata(RECORDS, "", 0) for key in KEYS[:2]} | {KEYS[2]: None}
        for bad, kind in ((-1, ValueError), (1.5, TypeError), (True, TypeError)):
            with pytest.raises(kind):
                consumer.commit({KEYS[0]: bad})  # type: ignore[dict-item]
        with pytest.raises(errors.OffsetMetadataTooLarge):
            consumer.commit({KEYS[0]: OffsetAndMetadata(1, "x" * 10_000)})
    with member(log) as later:
        later.assign([KEYS[0]])
        assert later.position(KEYS[0]) == RECORDS


def test_without_a_group_nothing_is_committed(log: pylog.Log) -> None:
    with log.consumer("t") as consumer:
        for use in (consumer.commit, consumer.commit_async, consumer.group_metadata, lambda: consumer.committed(KEYS)):
            with pytest.raises(errors.InvalidGroupId, match="group_id"):
                use()


def test_a_commit_in_the_background_is_told_by_a_later_call(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[dict[TopicPartition, OffsetAndMetadata], errors.PylogError | None]] = []
    with member(log, enable_auto_commit=False) as consumer:
        until(lambda: shared_by(consumer), consumer)
        consumer.commit_async({KEYS[0]: 5}, lambda *what: told.append(what))
        consumer.commit_async()
        assert told == []
        consumer.poll(0)
        assert told == [({KEYS[0]: OffsetAndMetadata(5)}, None)]
        remove(log, consumer)
        consumer.commit_async(callback=lambda *what: told.append(what))
        consumer.poll(0)
        assert isinstance(told[1][1], errors.CommitFailed) and set(told[1][0]) == set(KEYS)
        consumer.commit_async({KEYS[0]: OffsetAndMetadata(5, "x" * 10_000)})
        consumer.poll(0)
        assert "a commit in the background has failed" in caplog.text


def test_in_a_loop_the_record_in_hand_is_done(log: pylog.Log) -> None:
    with member(log, enable_auto_commit=False) as consumer:
        consumer.assign([KEYS[0]])
        for record in consumer:
            consumer.commit()
            assert consumer.committed([KEYS[0]]) == {KEYS[0]: OffsetAndMetadata(record.offset + 1, "", 0)}
            if record.offset == 20:
                break
    with member(log) as consumer:
        consumer.assign([KEYS[0]])
        assert next(iter(consumer)).offset == 21


@pytest.mark.parametrize("commits", [False, True])
def test_a_loop_left_in_a_batch_commits_the_leader_epoch(log: pylog.Log, commits: bool) -> None:
    with member(log) as consumer:
        consumer.assign([KEYS[0]])
        for record in consumer:
            if record.offset == 20:
                break
        if commits:
            consumer.commit()
    assert log.admin.committed("g") == {KEYS[0]: OffsetAndMetadata(21, "", 0)}


def test_records_of_a_poll_are_committed_by_the_next_polls() -> None:
    clock = SimClock(wall_ms=1_700_000_000_000)
    with pylog.open(":memory:", clock=clock) as log:
        fill(log.create_topic("t", partitions=1))
        key = KEYS[0]
        consumer = member(log, max_poll_records=10, auto_commit_interval_ms=5000)
        watcher = log.consumer(group_id="g")
        assert len(until(lambda: bool(consumer.assignment()), consumer)) == 10
        clock.advance(4999)
        consumer.poll(0)
        assert watcher.committed([key]) == {key: None}
        clock.advance(1)
        consumer.poll(0)
        assert watcher.committed([key]) == {key: OffsetAndMetadata(20, "", 0)}, "not what this poll has given"
        clock.advance(4999)
        consumer.poll(0)
        assert watcher.committed([key]) == {key: OffsetAndMetadata(20, "", 0)}
        consumer.close()
        assert watcher.committed([key]) == {key: OffsetAndMetadata(40, "", 0)}


def test_records_in_work_are_read_again_after_an_exception(log: pylog.Log) -> None:
    with pytest.raises(ZeroDivisionError), member(log) as consumer:
        until(lambda: shared_by(consumer), consumer)
        raise ZeroDivisionError
    with member(log) as consumer:
        assert {r.offset for r in until(lambda: shared_by(consumer), consumer)} == set(range(RECORDS))


@BOTH
def test_members_commit_the_partitions_that_they_give_back(log: pylog.Log, protocol: str) -> None:
    first, second = (
        member(log, group_protocol=protocol, max_poll_records=7),
        member(log, group_protocol=protocol, max_poll_records=7),
    )
    records = until(lambda: shared_by(first), first)
    records += until(lambda: shared_by(first, second), first, second)
    committed = first.committed(KEYS)
    assert any(at is not None for at in committed.values())
    records += until(lambda: sum(first.lag().values()) + sum(second.lag().values()) == 0, first, second)
    assert max(Counter((r.partition, r.offset) for r in records).values()) == 1
    first.close()
    second.close()


def test_committed_offsets_outlive_the_log_and_deleted_records_do_not(tmp_path: Any) -> None:
    with pylog.open(tmp_path) as log:
        fill(log.create_topic("t", partitions=PARTITIONS))
        with member(log, max_poll_records=20) as consumer:
            until(lambda: shared_by(consumer), consumer)
            consumer.seek(KEYS[0], 5)
            consumer.commit({KEYS[0]: 5, KEYS[1]: 6})
    with pylog.open(tmp_path) as log:
        log.delete_records({KEYS[0]: 30})
        with member(log) as consumer:
            records = until(lambda: sum(consumer.lag().values()) == 0 if consumer.assignment() else False, consumer)
            assert min(record.offset for record in records if record.partition == 0) == 30
        with member(log, auto_offset_reset="none", group_id="new") as consumer:
            with pytest.raises(errors.NoOffsetForPartition):
                until(lambda: False, consumer)
            consumer.seek_to_beginning()
            assert until(lambda: True, consumer)


# --- around it -------------------------------------------------------------------------------------------------------


def test_a_reader_has_no_groups(tmp_path: Any) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
    with pylog.open(tmp_path, mode="read") as log, pytest.raises(errors.ReadOnly, match="group_id='g'"):
        log.consumer("t", group_id="g")


def test_a_log_that_closes_takes_its_consumers_out_of_their_groups(tmp_path: Any) -> None:
    """Whoever polled in this thread commits; what another thread has polled may be in the middle of its work."""
    with pylog.open(tmp_path) as log:
        fill(log.create_topic("t", partitions=PARTITIONS))
        mine = member(log)
        until(lambda: shared_by(mine), mine)
        theirs = member(log, group_id="theirs")
        until_done = threading.Thread(target=lambda: until(lambda: shared_by(theirs), theirs))
        until_done.start()
        until_done.join()
    for consumer in (mine, theirs):
        with pytest.raises(errors.Closed):
            consumer.poll(0)
    with pylog.open(tmp_path) as log, log.consumer(group_id="g") as one, log.consumer(group_id="theirs") as other:
        assert set(one.committed(KEYS).values()) == {OffsetAndMetadata(RECORDS, "", 0)}
        assert set(other.committed(KEYS).values()) == {None}


def test_a_poll_ends_when_its_log_is_closed() -> None:
    log = pylog.open(":memory:")
    log.create_topic("t")
    consumer = member(log)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            while True:
                consumer.poll(60_000)
                consumer.poll(0)
        except errors.Closed as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not consumer._client.subscription.states:
        pass
    log.close()
    thread.join()
    assert len(ended) == 1


# --- at random -------------------------------------------------------------------------------------------------------


class Crowd:
    """Members that come, go, die and poll as chance will have it, and what must hold all the time."""

    def __init__(self, log: pylog.Log, seed: int, config: dict[str, Any], *, deaths: bool) -> None:
        self.log = log
        self.chance = random.Random(seed)
        self.config = config
        self.deaths = deaths
        self.members: list[Consumer] = []
        self.seen: Counter[tuple[int, int]] = Counter()
        self.watcher = log.consumer(group_id="g")
        self.committed = dict.fromkeys(KEYS, 0)

    def step(self) -> None:
        what = self.chance.random()
        if not self.members or (what < 0.06 and len(self.members) < 4):
            self.members.append(member(self.log, max_poll_records=self.chance.choice([1, 7, 500]), **self.config))
        elif what < 0.09:
            self.pick().close()
        elif what < 0.12 and self.deaths:
            self.kill(self.pick())
        elif what < 0.25:
            key = self.chance.choice(KEYS)
            self.log.topic("t")[key.partition].append([Record(b"x")] * self.chance.randrange(1, 20))
        else:
            self.poll(self.chance.choice(self.members))

    def pick(self) -> Consumer:
        return self.members.pop(self.chance.randrange(len(self.members)))

    def kill(self, consumer: Consumer) -> None:
        """Its process is gone, and after a while its session is over."""
        assert consumer._client.group is not None
        consumer._client.group.close()
        consumer._client.requests.end()
        if consumer._client.group.identity.member_id:
            remove(self.log, consumer)

    def poll(self, consumer: Consumer) -> None:
        self.seen.update((record.partition, record.offset) for record in consumer.poll(0))
        if self.chance.random() < 0.2 and consumer.assignment():
            with suppress(errors.CommitFailed, errors.RebalanceInProgress):
                consumer.commit()

    def check(self) -> None:
        machines = [one._client.group._machine for one in self.members if one._client.group is not None]
        owned = [(one.generation, key) for one in machines if one.state is MembershipState.STABLE for key in one.owned]
        assert len(set(owned)) == len(owned), "a partition has two owners in one generation"
        for key, at in self.watcher.committed(KEYS).items():
            offset = 0 if at is None else at.offset
            assert offset >= self.committed[key], "a commit went back"
            self.committed[key] = offset

    def finish(self) -> None:
        for _ in range(3):
            self.members.append(member(self.log, **self.config))
        ends = {partition.partition: partition.next_offset for partition in self.log.topic("t")}
        wanted = {(number, offset) for number, end in ends.items() for offset in range(end)}
        deadline = time.monotonic() + HANG_SECONDS
        while not (wanted <= set(self.seen) and shared_by(*self.members)):
            for consumer in self.members:
                self.poll(consumer)
            self.check()
            assert time.monotonic() < deadline, "the group has not come to an end"
        assert set(self.seen) == wanted
        # A cooperative member that is closed in the middle of a rebalance cannot commit what it has kept.
        if not self.deaths and self.config.get("partition_assignment_strategy") != "cooperative-sticky":
            assert set(self.seen.values()) == {1}, "a record was given twice, and nobody has died"
        for consumer in (*self.members, self.watcher):
            consumer.close()


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("config", [WAYS[i] for i in (0, 2, 3, -1)], ids=["eager", "sticky", "cooperative", "consumer"])
@pytest.mark.parametrize("seed", range(2))
def test_a_crowd_reads_everything(log: pylog.Log, seed: int, config: dict[str, Any], deaths: bool) -> None:
    crowd = Crowd(log, seed, config, deaths=deaths)
    for _ in range(250):
        crowd.step()
        crowd.check()
    crowd.finish()


def test_a_log_closes_all_clients_whatever_one_of_them_raises() -> None:
    class Raising:
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            raise ZeroDivisionError

    log = pylog.open(":memory:")
    log.create_topic("t", 3)
    raising = [log.consumer(group_id=f"g{number}") for number in range(4)]
    for consumer in raising:
        consumer.subscribe(["t"], listener=Raising())
        until(lambda consumer=consumer: len(consumer.assignment()) == 3, consumer)
    producers = [log.producer(linger_ms=60_000) for _ in range(8)]
    futures = [producer.send("t", b"x", partition=0) for producer in producers]
    with pytest.raises(ZeroDivisionError):
        log.close()
    assert sorted(future.result(0).offset for future in futures) == list(range(8))


# --- commits of one's own, and those that come by themselves ----------------------------------------------------------


def committed(log: pylog.Log) -> int | None:
    found = log.admin.committed("g").get(KEYS[0])
    return None if found is None else found.offset


def test_the_end_of_a_consumer_commits_nothing_over_an_offset_that_was_committed() -> None:
    """Of what was read only a part was done, and the program has said so."""
    with pylog.open(":memory:") as log:
        fill(log.create_topic("t"))
        with member(log) as consumer:
            assert len(consumer.poll(timeout_ms=60_000, max_records=10)) == 10
            consumer.commit({KEYS[0]: 4})
        assert committed(log) == 4

        with member(log) as consumer:
            assert [record.offset for record in consumer.poll(timeout_ms=60_000, max_records=2)] == [4, 5]
            consumer.commit({KEYS[0]: 5})
            assert len(consumer.poll(timeout_ms=60_000, max_records=3)) == 3
        # What was read after it counts as done, as always.
        assert committed(log) == 9


def test_a_loop_that_is_left_commits_nothing_over_an_offset_that_was_committed() -> None:
    with pylog.open(":memory:") as log:
        fill(log.create_topic("t"))
        with member(log) as consumer:
            for record in consumer:
                if record.offset == 7:
                    consumer.commit({KEYS[0]: 3})
                    break
        assert committed(log) == 3


def test_an_automatic_commit_passes_over_an_offset_that_was_committed() -> None:
    clock = SimClock()
    with pylog.open(":memory:", clock=clock) as log:
        fill(log.create_topic("t"))
        with member(log, auto_commit_interval_ms=1000) as consumer:
            assert len(consumer.poll(timeout_ms=60_000, max_records=10)) == 10
            consumer.commit({KEYS[0]: 4})
            clock.advance(5000)
            consumer.poll(max_records=1)
            assert committed(log) == 4
            clock.advance(5000)
            consumer.poll(max_records=1)
            assert committed(log) == 11
