"""Clients whose nodes are slow to answer, or refuse at once: calls keep their time limits, and nothing goes round."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.errors import Closed, NetworkError, NotLeaderOrFollower, PylogError, RequestTimedOut
from pylog.protocol.messages import Fetch, Message, ProduceRequest, Session
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from pylog.protocol.messages.records import ListOffsetsRequest
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import InitProducerIdRequest
from pylog.runtime.future import Future, failed
from pylog.transport import MemoryTransport

T0 = TopicPartition("t", 0)


class Wire(MemoryTransport):
    """Keeps messages of some kinds back until they are released, and refuses others."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[type, list[Callable[[], None]]] = {}
        self.refused: dict[type, PylogError] = {}
        self.of: str | None = None
        """Whose messages are refused; None: everybody's."""
        self.counts: Counter[type] = Counter()

    def send(self, node: int, message: Message, session: Session) -> Future[Any]:
        kind = type(message)
        self.counts[kind] += 1
        if kind in self.refused and self.of in (None, session.client_id):
            return failed(self.refused[kind])
        if kind not in self.held:
            return super().send(node, message, session)
        answer: Future[Any] = Future()

        def go() -> None:
            MemoryTransport.send(self, node, message, session).add_done_callback(
                lambda done: answer.set_result(done.result())
            )

        self.held[kind].append(go)
        return answer

    def release(self, kind: type) -> None:
        for go in self.held.pop(kind):
            go()


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def log(wire: Wire) -> Iterator[pylog.Log]:
    config = {"group_initial_rebalance_delay_ms": 0}
    with pylog.open(":memory:", transport=wire, config=config) as log:
        log.create_topic("t", partitions=2)
        log.create_topic("u", partitions=2)
        yield log


def test_a_refused_batch_is_sent_again_without_new_metadata(wire: Wire, log: pylog.Log) -> None:
    # The thread that brings answers must not wait for one.
    with log.producer(linger_ms=0, retry_backoff_ms=1) as producer:
        producer.send("t", b"first", partition=0).result()
        wire.held[MetadataRequest] = []
        wire.refused[ProduceRequest] = NotLeaderOrFollower("moved")
        future = producer.send("t", b"second", partition=0)
        del wire.refused[ProduceRequest]
        assert future.result().offset == 1
        assert len(wire.held[MetadataRequest]) == 1, "one question is enough"
        wire.release(MetadataRequest)


def test_send_waits_for_a_topic_no_longer_than_it_may(wire: Wire, log: pylog.Log) -> None:
    with log.producer(max_block_ms=20) as producer:
        wire.held[MetadataRequest] = []
        with pytest.raises(RequestTimedOut, match="has not answered a Metadata"):
            producer.send("t", b"x")
        wire.release(MetadataRequest)


def test_a_batch_is_given_up_also_while_there_is_no_producer_id(wire: Wire, log: pylog.Log) -> None:
    wire.held[InitProducerIdRequest] = []
    with log.producer(linger_ms=0, delivery_timeout_ms=20, request_timeout_ms=20) as producer:
        future = producer.send("t", b"x")
        with pytest.raises(RequestTimedOut):
            future.result()
        wire.release(InitProducerIdRequest)


def test_poll_reads_on_where_it_may_while_topics_are_asked_about(wire: Wire, log: pylog.Log) -> None:
    partition = log.topic("t")[0]
    with log.consumer("t", auto_offset_reset="earliest", retry_backoff_ms=1) as consumer:
        partition.append([pylog.Record(b"one")])
        assert [record.value for record in consumer.poll(0)] == [b"one"]
        wire.held[MetadataRequest] = []
        wire.refused[Fetch] = NotLeaderOrFollower("moved")
        assert consumer.poll(0) == []
        del wire.refused[Fetch]
        partition.append([pylog.Record(b"two")])
        assert [record.value for record in consumer.poll(60_000)] == [b"two"]
        wire.release(MetadataRequest)


def test_a_node_that_is_away_is_asked_again_quietly(wire: Wire, log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest", retry_backoff_ms=20) as consumer:
        assert consumer.poll(0) == []
        wire.refused = {Fetch: NetworkError("away"), MetadataRequest: NetworkError("away")}
        before = wire.counts.total()
        assert consumer.poll(40) == []
        assert wire.counts.total() - before < 20
        wire.refused.clear()
        log.topic("t")[1].append([pylog.Record(b"x")])
        assert [record.value for record in consumer.poll(60_000)] == [b"x"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_on_when_one_of_its_topics_is_deleted(wire: Wire, log: pylog.Log, protocol: str) -> None:
    # The leader of a classic group, who would see to it, does not poll.
    leader = log.consumer(group_id="g", group_protocol=protocol, auto_offset_reset="earliest")
    other = log.consumer(group_id="g", group_protocol=protocol, auto_offset_reset="earliest", retry_backoff_ms=20)
    for consumer in (leader, other):
        consumer.subscribe(["t", "u"])
    while {len(leader.assignment()), len(other.assignment())} != {2}:
        leader.poll(1)
        other.poll(1)
    log.delete_topic("t")
    (rest,) = (key.partition for key in other.assignment() if key.topic == "u")
    before = wire.counts[MetadataRequest]
    polled = other.poll(40)
    log.topic("u")[rest].append([pylog.Record(b"x")])
    polled += other.poll(1000)
    assert [record.value for record in polled] == [b"x"]
    assert wire.counts[MetadataRequest] - before < 20
    for consumer in (leader, other):
        consumer.close()


def test_a_members_poll_waits_for_no_topic(wire: Wire, log: pylog.Log) -> None:
    leader = log.consumer(group_id="g")
    member = log.consumer(group_id="g", metadata_max_age_ms=20, retry_backoff_ms=1)
    for consumer in (leader, member):
        consumer.subscribe(["t", "u"])
    while {len(leader.assignment()), len(member.assignment())} != {2}:
        leader.poll(1)
        member.poll(1)
    log.delete_topic("t")
    while member._client._cluster.known(["t"]):
        member.poll(1)
    wire.held[MetadataRequest] = []
    assert member.poll(20) == [] and len(member.assignment()) == 2
    wire.release(MetadataRequest)
    for consumer in (leader, member):
        consumer.close()


def test_an_assignment_is_kept_where_its_topic_is_unknown(wire: Wire, log: pylog.Log) -> None:
    config = {
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 1,
        "heartbeat_interval_ms": 20,
        "metadata_max_age_ms": 20,
    }
    one, other = (log.consumer(group_id="g", client_id=name, **config) for name in ("one", "other"))
    for consumer in (one, other):
        consumer.subscribe(["t", "u"])

    def poll_until(count: int) -> None:
        while {len(one.assignment()), len(other.assignment())} != {count}:
            one.poll(1)
            other.poll(1)

    poll_until(2)
    log.delete_topic("t")
    poll_until(1)
    while other._client._cluster.known(["t"]):
        poll_until(1)
        other.poll(1)
    wire.of, wire.refused = "other", {MetadataRequest: NetworkError("away")}
    log.create_topic("t", partitions=2)
    poll_until(2)
    for topic in ("t", "u"):
        for partition in (0, 1):
            log.topic(topic)[partition].append([pylog.Record(b"x")])
    wire.refused.clear()
    polled = 0
    while polled < 4:
        polled += len(one.poll(1)) + len(other.poll(1))
    for consumer in (one, other):
        consumer.close()


def test_a_topic_whose_name_is_not_known_yet_is_asked_about_after_a_while(wire: Wire, log: pylog.Log) -> None:
    with log.consumer(group_id="g", group_protocol="consumer", retry_backoff_ms=20) as consumer:
        consumer.subscribe(["t"])
        log.delete_topic("t")
        log.create_topic("t")
        wire.refused[MetadataRequest] = NetworkError("away")
        before = wire.counts[MetadataRequest]
        assert consumer.poll(60) == []
        assert wire.counts[MetadataRequest] - before < 20
        wire.refused.clear()
        while not consumer.assignment():
            consumer.poll(20)


LOOK_UPS: dict[str, tuple[type, Callable[[pylog.Consumer], object]]] = {
    "subscribe": (MetadataRequest, lambda consumer: consumer.subscribe(["u"])),
    "subscribe to a pattern": (MetadataRequest, lambda consumer: consumer.subscribe(pattern="u.*")),
    "assign": (MetadataRequest, lambda consumer: consumer.assign([TopicPartition("u", 0)])),
    "topics": (MetadataRequest, lambda consumer: consumer.topics()),
    "end_offsets": (ListOffsetsRequest, lambda consumer: consumer.end_offsets([T0])),
    "lag": (ListOffsetsRequest, lambda consumer: consumer.lag()),
    "offsets_for_times": (ListOffsetsRequest, lambda consumer: consumer.offsets_for_times({T0: 0})),
    "committed": (OffsetFetchRequest, lambda consumer: consumer.committed([T0])),
}


@pytest.mark.parametrize("call", LOOK_UPS)
def test_a_call_to_a_slow_node_ends_with_the_clients_time_out(wire: Wire, log: pylog.Log, call: str) -> None:
    """Those that ask about topics waited for the time-out of a request."""
    kind, make = LOOK_UPS[call]
    with log.consumer("t", group_id="g", default_api_timeout_ms=20) as consumer:
        while not consumer.assignment():
            consumer.poll(20)
        wire.held[kind] = []
        with pytest.raises(RequestTimedOut, match=r"in 0\.0\d+ s"):
            make(consumer)
        wire.release(kind)


@pytest.mark.parametrize("call", LOOK_UPS)
def test_a_call_that_waits_ends_when_its_log_is_closed(wire: Wire, log: pylog.Log, call: str) -> None:
    kind, look_up = LOOK_UPS[call]
    consumer = log.consumer(group_id="g")
    consumer.assign([T0])
    wire.held[kind] = []
    outcome: list[BaseException | None] = []

    def wait() -> None:
        try:
            look_up(consumer)
        except PylogError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not wire.held[kind]:
        time.sleep(0.001)
    log.close()
    thread.join()
    assert [type(one) for one in outcome] == [Closed]


def test_an_answer_that_comes_during_a_look_up_is_left_to_the_next_poll(wire: Wire, log: pylog.Log) -> None:
    heard: list[PylogError | None] = []
    wire.held = {OffsetCommitRequest: [], ListOffsetsRequest: []}
    answering = threading.Timer(0.01, lambda: (wire.release(OffsetCommitRequest), wire.release(ListOffsetsRequest)))
    with log.consumer(group_id="g") as consumer:
        consumer.assign([T0])
        consumer.commit_async({T0: 1}, lambda _, error: heard.append(error))
        answering.start()
        assert consumer.end_offsets([T0]) == {T0: 0}
        assert heard == []
        consumer.poll(0)
        assert heard == [None]


def test_a_missing_topic_is_asked_about_again_after_a_refusal(wire: Wire, log: pylog.Log) -> None:
    with log.consumer(group_id="g", retry_backoff_ms=10) as consumer:
        consumer.subscribe(["t", "u"])
        while len(consumer.assignment()) != 4:
            consumer.poll(1)
        consumer.pause(T0, TopicPartition("t", 1))
        log.delete_topic("t")
        consumer._run(consumer._client._cluster.rounds.refresh(["t"]))
        wire.refused[MetadataRequest] = NetworkError("away")
        before = wire.counts[MetadataRequest]
        consumer.poll(150)
        assert wire.counts[MetadataRequest] - before >= 3, "not only every second"
        wire.refused.clear()
