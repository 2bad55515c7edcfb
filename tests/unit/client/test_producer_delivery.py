"""What a producer does with configs, callbacks, errors and time, before a real node and one that is told what to do."""

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import mmh3
import pytest

import pylog
from pylog import Record, RecordMetadata, errors
from pylog.client.producer import Producer
from pylog.client.producer.completion import by_record
from pylog.client.record_append import Part
from pylog.config import ProducerConfig
from pylog.errors import PylogError
from pylog.protocol.messages import Message, ProduceRequest, ProduceResponse, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import InitProducerIdRequest
from pylog.protocol.partitioner import partition_for_key
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from pylog.testing import SimClock
from support.described import described, names_in
from support.messages import producer_id_given
from support.patience import HANG_SECONDS
from support.produce import batch_in, produced
from support.stepping import Steps

NODE = 1
T0 = 1_700_000_000_000


class Node:
    """Appends what comes, unless it is told to refuse; answers later, if it is told to wait."""

    def __init__(self) -> None:
        self.errors: list[PylogError | None] = []
        """For the next batches, one each."""
        self.id_answers: list[Exception] = []
        self.ids_asked = 0
        self.waits = False
        self.waiting: list[tuple[ProduceRequest, Future[ProduceResponse]]] = []
        self.batches: list[tuple[int, int, int, int]] = []
        """(partition, epoch, sequence, records) of all that came."""

    def handle(self, message: Message, session: Session) -> Future[Any]:
        if isinstance(message, MetadataRequest):
            return completed(described(names_in(message), 4, NODE))
        if isinstance(message, InitProducerIdRequest):
            self.ids_asked += 1
            if self.id_answers:
                error = self.id_answers.pop(0)
                if not isinstance(error, PylogError):
                    raise error
                return failed(error)
            return completed(producer_id_given(None, 6 + self.ids_asked, 0))
        assert isinstance(message, ProduceRequest)
        answer: Future[ProduceResponse] = Future()
        self.waiting.append((message, answer))
        if not self.waits:
            self.answer()
        return answer

    def answer(self) -> None:
        message, answer = self.waiting.pop(0)
        ((_, part),) = message.pairs
        error, batch = self.errors.pop(0) if self.errors else None, batch_in(message)
        self.batches.append((part.index, batch.producer_epoch, batch.base_sequence, batch.count))
        answer.set_result(message.with_parts([produced(part.index, 100, error)]))


@pytest.fixture
def node() -> Node:
    return Node()


def producer(node: Node, clock: Any = None, **config: Any) -> Producer:
    transport = pylog.MemoryTransport()
    transport.attach(NODE, node.handle)
    given = {"linger_ms": 0, "retry_backoff_ms": 0, **config}
    return Producer(transport, NODE, ProducerConfig.from_kafka(given), clock or SystemClock())


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=4)
        yield log


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_batches_are_numbered_for_each_partition_and_sent_again_as_they_were(node: Node) -> None:
    with producer(node) as sending:
        sending.send("t", b"1", partition=0).result(HANG_SECONDS)
        node.errors = [errors.NotLeaderOrFollower(""), errors.NetworkError("")]
        assert sending.send("t", b"2", partition=0).result(HANG_SECONDS).offset == 100
        sending.send("t", b"3", partition=1).result(HANG_SECONDS)
        sending.send("t", b"4", partition=0).result(HANG_SECONDS)
    assert node.ids_asked == 1
    assert node.batches == [(0, 0, 0, 1), *[(0, 0, 1, 1)] * 3, (1, 0, 0, 1), (0, 0, 2, 1)]


def test_without_idempotence_no_producer_id_is_asked_for(node: Node) -> None:
    with producer(node, enable_idempotence=False) as sending:
        sending.send("t", b"1", partition=0).result(HANG_SECONDS)
    assert node.ids_asked == 0 and node.batches == [(0, -1, -1, 1)]


def test_an_undeliverable_batch_leaves_no_gap_in_the_sequence(node: Node) -> None:
    with producer(node) as sending:
        sending.send("t", b"1", partition=0).result(HANG_SECONDS)
        sending.send("t", b"1", partition=1).result(HANG_SECONDS)
        node.errors = [errors.InvalidRecord("no")]
        assert isinstance(sending.send("t", b"2", partition=0).exception(HANG_SECONDS), errors.InvalidRecord)
        sending.send("t", b"3", partition=0).result(HANG_SECONDS)
        sending.send("t", b"4", partition=1).result(HANG_SECONDS)
    assert node.batches[2:] == [(0, 0, 1, 1), (0, 1, 0, 1), (1, 1, 0, 1)]


def test_a_topic_made_again_takes_new_records(log: pylog.Log) -> None:
    with log.producer(linger_ms=0) as sending:
        sending.send("t", b"old", partition=0).result(HANG_SECONDS)
        log.delete_topic("t")
        log.create_topic("t")
        assert sending.send("t", b"new", partition=0).result(HANG_SECONDS).offset == 0
        log.delete_topic("t")
        with pytest.raises(errors.UnknownTopicOrPartition):
            sending.send("t", b"none", partition=0).result(HANG_SECONDS)
        log.create_topic("t")
        assert sending.send("t", b"again", partition=0).result(HANG_SECONDS).offset == 0


def test_a_producer_id_is_asked_for_until_it_is_given(node: Node) -> None:
    node.id_answers = [errors.NetworkError("gone"), errors.CoordinatorNotAvailable("wait")]
    with producer(node, retry_backoff_ms=1) as sending:
        futures = [sending.send("t", b"x", partition=number % 2) for number in range(10)]
        assert {future.result(HANG_SECONDS).offset for future in futures} <= set(range(100, 110))
    assert node.ids_asked == 3


def test_a_producer_without_an_id_says_so_at_every_call(node: Node) -> None:
    node.id_answers = [errors.ClusterAuthorization("not you")]
    sending = producer(node)
    assert isinstance(sending.send("t", b"x").exception(HANG_SECONDS), errors.ClusterAuthorization)
    with pytest.raises(
        errors.ClusterAuthorization, match=r"can send no more \(ClusterAuthorization: not you\): close it"
    ):
        sending.send("t", b"y")
    sending.close()


def test_a_transport_that_raises_gives_no_id(node: Node) -> None:
    node.id_answers = [ZeroDivisionError()]
    sending = producer(node)
    assert isinstance(sending.send("t", b"x").exception(HANG_SECONDS), ZeroDivisionError)
    with pytest.raises(PylogError, match="can send no more"):
        sending.send("t", b"x")
    sending.close()


# --- time -------------------------------------------------------------------------------------------------------------


def test_records_not_delivered_in_time_are_an_error(node: Node) -> None:
    clock = SimClock(T0)
    node.waits = True
    sending = producer(node, clock, delivery_timeout_ms=40_000)
    under_way = sending.send("t", b"1", partition=0)
    behind = [sending.send("t", b"x" * 262_072, partition=0) for _ in range(2)]
    clock.advance(39_999)
    sending._client.sender.do_due()
    assert not under_way.done()
    clock.advance(1)
    sending._client.sender.do_due()
    assert "whether node 1 has it is not known" in str(under_way.exception(0))
    assert {str(future.exception(0)).split("; ")[1][:32] for future in behind} == {"it waited to be sent to node 1. "}
    node.answer()
    later = sending.send("t", b"2", partition=0)
    node.answer()
    assert later.result(0).offset == 100
    sending.close()


def test_the_thread_gives_up_unanswered_batches(node: Node) -> None:
    node.waits = True
    sending = producer(node, delivery_timeout_ms=30, request_timeout_ms=30)
    with pytest.raises(errors.RequestTimedOut, match="delivery_timeout_ms"):
        sending.send("t", b"x").result(HANG_SECONDS)
    sending.close()


def test_a_batch_that_has_to_wait_is_sent_again_by_a_thread(node: Node) -> None:
    with producer(node, retry_backoff_ms=1) as sending:
        node.errors = [errors.NotLeaderOrFollower("")] * 3
        assert sending.send("t", b"x").result(HANG_SECONDS).offset == 100


def test_a_batch_that_waits_longer_is_sent_again_in_its_time(node: Node) -> None:
    """Its wait begins later where its answer did, and is not over when the one before it is delivered."""
    clock = Steps()
    sending = producer(node, clock, batch_size=1, retry_backoff_ms=100)
    sending.send("t", b"0", partition=0)
    node.waits = True
    futures = [sending.send("t", value, partition=0) for value in (b"1", b"2")]
    node.errors = [errors.NetworkError("gone"), errors.NetworkError("gone")]
    node.answer()
    clock.wait(lambda: False, 50)
    node.answer()
    clock.wait(lambda: bool(node.waiting), 60)
    node.answer()
    assert futures[0].done() and clock.tick_ms() < 150 and not node.waiting
    assert clock.wait(lambda: bool(node.waiting), 100)
    node.answer()
    assert futures[1].done()


def test_a_closed_log_does_not_wait_for_retriable_errors() -> None:
    with pytest.raises(errors.Undelivered), pylog.open(":memory:", config={"replica.fetch.backoff.ms": 1}) as log:
        log.create_topic("t")
        log.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=5, replicas=(1, 2)))
        producer = log.producer()
        future = producer.send("t", b"x")
    assert isinstance(future.exception(0), errors.RequestTimedOut)


def test_a_close_without_time_fails_unanswered_records(node: Node) -> None:
    node.waits = True
    sending = producer(node)
    futures = [sending.send("t", b"x" * 262_072, partition=0) for _ in range(3)]
    with pytest.raises(TimeoutError, match="could not close in time"):
        sending.close(timeout=0)
    assert {type(future.exception(0)) for future in futures} == {errors.Closed}
    node.answer()


# --- batches that are too large ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_batch_too_large_for_its_topic_is_sent_in_parts(log: pylog.Log, compression: str) -> None:
    log.alter_config("t", {"max.message.bytes": 400})
    values = [b"%03d" % number + bytes((number * 7 + at * at) % 251 for at in range(60)) for number in range(40)]
    values[13] = values[13] + bytes((at * at * 31) % 253 for at in range(500))
    with log.producer(compression_type=compression, linger_ms=1000) as sending:
        futures = [sending.send("t", value, partition=0) for value in values]
        assert str(sending.flush()).startswith("a record was not delivered")
        assert isinstance(futures[13].exception(0), errors.RecordTooLarge)
        more = sending.send("t", b"more", partition=0)
    found = list(log.topic("t")[0].records(0))
    assert [record.value for record in found] == [*values[:13], *values[14:], b"more"]
    good = [future for number, future in enumerate(futures) if number != 13] + [more]
    assert [future.result(0).offset for future in good] == list(range(40))
    assert [future.result(0).timestamp for future in good] == [record.timestamp for record in found]


# --- callbacks --------------------------------------------------------------------------------------------------------


def test_a_callback_gets_the_result_of_the_future(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[RecordMetadata | None, BaseException | None]] = []

    def note(metadata: RecordMetadata | None, error: BaseException | None) -> None:
        told.append((metadata, error))
        raise ZeroDivisionError

    with producer(node, linger_ms=1000) as sending:
        first = sending.send("t", b"1", partition=0, on_delivery=note)
        second = sending.send("t", b"2", partition=0, on_delivery=note)
        sending.flush()
        node.errors = [errors.InvalidRecord("no")]
        third = sending.send("t", b"3", partition=0, on_delivery=note)
        with pytest.raises(TypeError, match="on_delivery is int"):
            sending.send("t", b"4", partition=0, on_delivery=5)  # type: ignore[arg-type]
    assert told == [(first.result(0), None), (second.result(0), None), (None, third.exception(0))]
    assert caplog.text.count("on_delivery of a record raised") == 3


def test_callbacks_of_a_batch_run_in_the_order_they_were_added_in(node: Node) -> None:
    told: list[str] = []
    with producer(node, linger_ms=1000) as sending:
        for number in range(4):
            future = sending.send("t", b"v", partition=0, on_delivery=lambda *_, n=number: told.append(f"record {n}"))
            with pytest.raises(TimeoutError):
                future.result(0)
            future.add_done_callback(lambda _, n=number: told.append(f"future {n}"))
        sending.flush()
    assert told == [f"{what} {number}" for number in range(4) for what in ("record", "future")]


# --- what a record becomes, and where it goes -------------------------------------------------------------------------


def test_serializers_make_bytes_of_keys_and_values(log: pylog.Log) -> None:
    with log.producer(key_serializer=str.encode, value_serializer=lambda value: json.dumps(value).encode()) as sending:
        futures = sending.send_many("t", [{"a": 1}, [2]])
        futures.append(sending.send("t", {"b": None}, key="user", partition=0))  # type: ignore[arg-type]
        futures.append(sending.send("t", None, key="user"))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="JSON serializable"):
            sending.send("t", {1, 2})  # type: ignore[arg-type]
    where = [future.result(0) for future in futures]
    found = [next(iter(log.topic("t")[one.partition].records(one.offset))) for one in where]
    assert [(record.key, record.value) for record in found] == [
        (None, b'{"a": 1}'), (None, b"[2]"), (b"user", b'{"b": null}'), (b"user", None)
    ]  # fmt: skip
    assert where[3].partition == partition_for_key(b"user", 4)


def test_a_serializer_that_gives_no_bytes_is_refused(node: Node) -> None:
    with producer(node, value_serializer=lambda value: value) as sending, pytest.raises(TypeError, match="str"):
        sending.send("t", "text")  # type: ignore[arg-type]


def test_many_records_have_a_future_each(log: pylog.Log) -> None:
    records = [Record(b"%d" % number, key=b"k", timestamp=T0 + number, headers=(("h", b"v"),)) for number in range(10)]
    with log.producer() as sending:
        futures = sending.send_many("t", records)
        sending.flush()
    assert [future.result(0).offset for future in futures] == list(range(10))
    found = list(log.topic("t")[futures[0].result(0).partition].records(0))
    assert [(one.value, one.key, one.timestamp, one.headers) for one in found] == [
        (one.value, one.key, one.timestamp, one.headers) for one in records
    ]


def test_headers_are_given_by_name_or_in_pairs(log: pylog.Log) -> None:
    given = {"trace": b"1", "empty": None}
    pairs = [("trace", b"1"), ("trace", b"2")]
    assert Record(b"x", headers=given).headers == tuple(given.items())
    with log.producer() as sending:
        sending.send("t", b"by name", headers=given, partition=0)
        sending.send("t", b"in pairs", headers=pairs, partition=0)
        sending.send("t", b"none", headers={}, partition=0)
        with pytest.raises(TypeError, match="not a pair"):
            sending.send("t", b"x", headers={"trace": "1"})  # type: ignore[dict-item]
    assert [one.headers for one in log.topic("t")[0].records(0)] == [tuple(given.items()), tuple(pairs), ()]


KEYS = [b"%d" % number for number in range(40)]


def partitions(log: pylog.Log, keys: list[bytes] | list[None], **config: Any) -> list[int]:
    with log.producer(**config) as sending:
        futures = [sending.send("t", b"x", key=key) for key in keys]
        sending.flush()
        return [future.result(0).partition for future in futures]


def test_partitioners_by_name(log: pylog.Log) -> None:
    usual = [partition_for_key(key, 4) for key in KEYS]
    assert partitions(log, KEYS) == partitions(log, KEYS, partitioner="murmur2") == usual
    assert partitions(log, KEYS, partitioner="murmur3") == [mmh3.hash(key, signed=False) % 4 for key in KEYS]
    assert partitions(log, KEYS, partitioner="round_robin") == [0, 1, 2, 3] * 10
    for sticky in (
        {"partitioner": "sticky"}, {"partitioner_ignore_keys": True},
        {"partitioner": "murmur3", "partitioner_ignore_keys": True},
    ):  # fmt: skip
        assert len(set(partitions(log, KEYS, **sticky))) == 1
    assert len(set(partitions(log, [None] * 40, partitioner="murmur3"))) == 1
    assert partitions(log, KEYS, partitioner="consistent_random") == [zlib.crc32(key) % 4 for key in KEYS]
    assert len(set(partitions(log, [b""] * 40, partitioner="consistent_random"))) == 1


def test_a_key_lands_where_a_confluent_kafka_producer_puts_it(log: pylog.Log) -> None:
    landed: dict[bytes, int] = {}

    def note(error: object, message: Any) -> None:
        assert error is None
        landed[message.key()] = message.partition()

    sending = confluent_kafka.Producer({"bootstrap.servers": log.serve().bootstrap_servers})
    for key in KEYS:
        sending.produce("t", b"x", key=key, on_delivery=note)
    assert sending.flush(20) == 0
    assert partitions(log, KEYS, partitioner="consistent_random") == [landed[key] for key in KEYS]


def test_a_partitioner_of_ones_own(log: pylog.Log) -> None:
    asked: list[tuple[object, ...]] = []

    def choose(*given: object) -> Any:
        asked.append(given)
        return 3

    with log.producer(partitioner=choose, value_serializer=str.encode) as sending:
        assert sending.send("t", "v", key=b"k").result(HANG_SECONDS).partition == 3  # type: ignore[arg-type]
        assert sending.send("t", "v", partition=1).result(HANG_SECONDS).partition == 1  # type: ignore[arg-type]
    assert asked == [("t", b"k", b"v", 4)]


@pytest.mark.parametrize(
    ("chosen", "error"), [(4, errors.UnknownTopicOrPartition), (-1, errors.UnknownTopicOrPartition), ("0", TypeError)]
)
def test_a_partitioner_has_to_choose_one_that_there_is(log: pylog.Log, chosen: Any, error: type[Exception]) -> None:
    with log.producer(partitioner=lambda *_: chosen) as sending, pytest.raises(error):
        sending.send("t", b"x")


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, {"max_in_flight_requests_per_connection": 1}, {"linger_ms": 0}])
def test_threads_keep_their_order_before_a_node_that_refuses_at_times(config: dict[str, Any]) -> None:
    """Each batch that is refused, or has no answer, is sent again; the node is a real one."""
    count = 300
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=2)
        transport, calls = pylog.MemoryTransport(), Counter[str]()

        def handle(message: Message, session: Session) -> Future[Any]:
            calls["all"] += isinstance(message, ProduceRequest)
            if isinstance(message, ProduceRequest) and calls["all"] % 3 == 0:
                return failed(errors.NetworkError("before"))
            answer: Future[Any] = log._transport.send(log.node_id, message, session)
            if isinstance(message, ProduceRequest) and calls["all"] % 7 == 0:
                answer.result(HANG_SECONDS)
                return failed(errors.NetworkError("behind"))
            return answer

        transport.attach(log.node_id, handle)
        given = {"batch_size": 200, "retry_backoff_ms": 1, **config}
        sending = Producer(transport, log.node_id, ProducerConfig.from_kafka(given), SystemClock())
        futures = run(lambda me: [sending.send("t", b"%d %d" % (me, n), partition=n % 2) for n in range(count)])
        sending.close()
        for future in futures:
            assert future.result(0).offset >= 0
        found = [record for number in range(2) for record in log.topic("t")[number].records(0)]
    assert len(found) == 3 * count
    last: dict[tuple[int, int], int] = {}
    for record in found:
        me, number = map(int, (record.value or b"").split())
        assert last.get((record.partition, me), -1) < number
        last[record.partition, me] = number


def run(work: Callable[[int], list[Future[Any]]]) -> list[Future[Any]]:
    done: list[Future[Any]] = []
    threads = [threading.Thread(target=lambda me=me: done.extend(work(me))) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        assert not thread.is_alive()
    return done


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_only_the_culprits_of_a_refused_batch_get_its_error(codec: str) -> None:
    """The others learn that they are good, as with Kafka (KIP-467)."""
    with pylog.open(":memory:") as log, log.producer(linger_ms=10_000, compression_type=codec) as sending:
        log.create_topic("t", config={"cleanup.policy": "compact"})
        several = [sending.send("t", b"v", key) for key in (b"0", None, b"2", b"3", None)]
        sending.flush(HANG_SECONDS)
        raised = [future.exception(0) for future in several]
        good, bad = errors.RefusedWithBatch, errors.InvalidRecord
        assert [type(error) for error in raised] == [good, bad, good, good, bad]
        assert "no key" in str(raised[1])
        one, heard = [sending.send("t", b"v", b"k"), sending.send("t", b"v", b"k", timestamp_ms=1 << 62)], []
        one[1].add_done_callback(lambda done: heard.append(type(done.exception())))
        sending.flush(HANG_SECONDS)
        # One alone has the very error of the batch.
        assert [type(future.exception(0)) for future in one] == [good, errors.InvalidTimestamp]
        assert heard == [errors.InvalidTimestamp]
        last = sending.send("t", b"v", b"k")
        sending.flush(HANG_SECONDS)
        assert last.result(0).offset == 0


def test_a_refused_half_of_a_batch_names_its_culprits() -> None:
    refused = errors.InvalidRecord("1 of 4", [errors.RecordError(1, "bad")])
    parts = by_record(Part(4, error=refused), 4)
    assert [part.first for part in parts] == [4, 5, 6]
    assert [type(part.error) for part in parts] == [
        errors.RefusedWithBatch, errors.InvalidRecord, errors.RefusedWithBatch
    ]  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRecord("all of it"),
        errors.DiskFull("no room"),
        # A node may say anything.
        errors.InvalidRecord("x", [errors.RecordError(-1, "bad"), errors.RecordError(9, "bad")]),
    ],
)
def test_a_batch_that_names_no_culprit_is_refused_as_a_whole(error: errors.PylogError) -> None:
    answer = Part(0, error=error)
    assert by_record(answer, 4) == [answer]
