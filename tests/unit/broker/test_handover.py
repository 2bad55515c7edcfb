"""What a role owes when it ends, and what a leader owes that leads on."""

import threading
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.files import MemoryFiles
from pylog.protocol.batch import encode
from pylog.protocol.messages import ACKS_ALL, Fetch, FetchPart, NewTopic, ProduceRequest, Replacement, Session
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.testing import SimClock
from support.messages import init_producer_id
from support.patience import HANG_SECONDS

SESSION = Session()
NOW = 1_700_000_000_000
WITHOUT, WITH = (0,), (0, 2)


@pytest.fixture
def broker() -> Broker:
    return Broker(
        MemoryFiles(), ["log", "other"], config=NodeConfig(), clock=SimClock(NOW, 0),
        transport=pylog.MemoryTransport(), node_id=0, flush="sync",
    )  # fmt: skip


def ask(broker: Broker, message: object) -> object:
    return broker.handle(message, SESSION).result(HANG_SECONDS)  # type: ignore[arg-type]


def lead(broker: Broker, replicas: tuple[int, ...], epoch: int) -> None:
    broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=epoch, replicas=replicas))


def follow(broker: Broker, epoch: int) -> None:
    topic = broker.image.topics["t"]
    broker.apply(pylog.Follow(topic="t", topic_id=topic.id, partition=0, partitions=1, leader=2, leader_epoch=epoch))


def begin_transaction(broker: Broker) -> None:
    """Append a record whose sync, and whose being seen, is left to a second later."""
    given = ask(broker, init_producer_id("tx"))
    batch = encode(
        [(b"x", None, NOW, ())], now_ms=NOW, producer_id=given.producer_id,  # type: ignore[attr-defined]
        producer_epoch=given.producer_epoch, base_sequence=0, transactional=True,  # type: ignore[attr-defined]
    )  # fmt: skip
    answer = ask(broker, ProduceRequest.of("t", 0, batch, transactional_id="tx"))
    assert answer.parts[0].error is None  # type: ignore[attr-defined]


def test_the_tail_of_a_leader_that_leads_on_is_durable_a_second_later(broker: Broker) -> None:
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    begin_transaction(broker)
    lead(broker, WITHOUT, 1)
    partition = broker.partition("t", 0)
    assert partition.durable_offset == 0
    broker._clock.advance(1000)  # type: ignore[attr-defined]
    broker.work()
    assert (partition.durable_offset, partition.high_watermark, partition.next_offset) == (1, 1, 1)
    broker.close()


def test_a_leader_that_follows_has_made_its_tail_durable(broker: Broker) -> None:
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    begin_transaction(broker)
    assert broker.partition("t", 0).durable_offset == 0
    follow(broker, 1)
    assert broker.partition("t", 0).durable_offset == 1
    broker.close()


def test_an_append_that_waits_is_answered_when_the_leader_goes_on_alone(broker: Broker) -> None:
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    lead(broker, WITH, 1)
    waiting = broker.handle(
        ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=NOW), acks=ACKS_ALL, timeout_ms=9000), SESSION
    )
    lead(broker, WITH, 2)
    assert not waiting.done()
    lead(broker, WITHOUT, 3)
    assert waiting.result(HANG_SECONDS).parts[0].error is None
    assert broker.partition("t", 0).high_watermark == 1
    broker.close()


def test_an_append_that_waits_for_a_role_that_ends_is_told(broker: Broker) -> None:
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    lead(broker, WITH, 1)
    waiting = broker.handle(
        ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=NOW), acks=ACKS_ALL, timeout_ms=9000), SESSION
    )
    follow(broker, 2)
    assert isinstance(waiting.result(HANG_SECONDS).parts[0].error, errors.NotLeaderOrFollower)
    broker.close()


def test_a_fetch_that_waits_in_an_older_epoch_is_told_of_the_next(broker: Broker) -> None:
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    lead(broker, WITHOUT, 1)
    part = FetchPart("t", 0, 0, 1000, current_leader_epoch=1)
    waiting = broker.handle(Fetch([part], max_wait_ms=9000), SESSION)
    lead(broker, WITHOUT, 2)
    assert isinstance(waiting.result(0).parts[0].error, errors.FencedLeaderEpoch)
    broker.close()


def test_what_a_coordinator_is_ahead_by_is_kept_where_its_log_moves(broker: Broker) -> None:
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    begin_transaction(broker)
    host = broker._coordinating._coordinators.of("__transaction_state", "tx")
    partition = host.leader.partition
    assert host.machine.is_ahead
    other = next(one.path for one in broker.node.directories if not partition.directory.startswith(one.path + "/"))
    broker._move(Replacement("__transaction_state", partition.number, other))
    assert broker._coordinating._coordinators.of("__transaction_state", "tx").machine.is_ahead
    broker.close()


def test_appends_of_many_threads_go_on_while_the_leader_leads_on(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as log:
        log.create_topic("t")
        found: list[int] = []
        ended = threading.Event()

        def append() -> None:
            while not ended.is_set():
                found.append(log.topic("t")[0].append([Record(b"x")]).base_offset)

        threads = [threading.Thread(target=append) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(30):
            log.lead("t")
        ended.set()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(log.topic("t")[0].high_watermark))


class NoticedLock:
    """A lock that tells when somebody is about to take it."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock
        self.asked = threading.Event()

    def __enter__(self) -> None:
        self.asked.set()
        self.lock.__enter__()

    def __exit__(self, *raised: object) -> None:
        self.lock.__exit__(*raised)


def test_a_thread_that_was_about_to_take_an_epoch_takes_no_lead_from_the_leader(broker: Broker) -> None:
    """A coordinator's thread took the lead of a copy: its records were not the leader's, in an epoch of its own."""
    ask(broker, CreateTopicsRequest.of([NewTopic("t")]))
    roles, refused = broker.node.roles, list[BaseException]()
    lock = NoticedLock(roles._lock)

    def take() -> None:
        with pytest.raises(errors.NotLeaderOrFollower) as raised:
            roles.writer("t", 0)
        refused.append(raised.value)

    thread = threading.Thread(target=take)
    assert roles.leader("t", 0).epoch is None
    with lock.lock:
        roles._lock = lock  # type: ignore[assignment]
        thread.start()
        assert lock.asked.wait(HANG_SECONDS)
        follow(broker, 2_000_000)
    thread.join()
    assert refused
    state = broker.image.topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch) == (2, 2_000_000)
    broker.close()
