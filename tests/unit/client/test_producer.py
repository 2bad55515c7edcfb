"""A producer before a node that is slow, full, gone or wrong."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.client.producer import Producer
from pylog.config import ProducerConfig
from pylog.errors import PylogError
from pylog.protocol.messages import Message, ProduceRequest, ProduceResponse, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import InitProducerIdRequest
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from support.described import described, names_in
from support.messages import producer_id_given
from support.patience import HANG_SECONDS
from support.produce import batch_in, produced

NODE = 1


class SlowNode:
    """A node that answers when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[ProduceRequest, Future[ProduceResponse]]] = []
        self.metadata_asked = 0
        self.refuse: PylogError | None = None
        self.arrived = threading.Semaphore(0)

    def handle(self, message: Message, session: Session) -> Future[Any]:
        if isinstance(message, MetadataRequest):
            self.metadata_asked += 1
            return completed(described(names_in(message), 2, NODE))
        if isinstance(message, InitProducerIdRequest):
            return completed(producer_id_given(None, 7, 0))
        assert isinstance(message, ProduceRequest)
        if self.refuse is not None:
            return failed(self.refuse)
        answer: Future[ProduceResponse] = Future()
        self.waiting.append((message, answer))
        self.arrived.release()
        return answer

    def answer(self, error: PylogError | None = None) -> None:
        message, answer = self.waiting.pop(0)
        answer.set_result(message.with_parts([produced(part.index, 100, error) for _, part in message.pairs]))


@pytest.fixture
def node() -> SlowNode:
    return SlowNode()


def producer(node: SlowNode, **config: Any) -> Producer:
    transport = pylog.MemoryTransport()
    transport.attach(NODE, node.handle)
    return Producer(transport, NODE, ProducerConfig.from_kafka(config), SystemClock())


def test_a_full_buffer_makes_send_fail_when_nothing_comes_free(node: SlowNode) -> None:
    sending = producer(node, buffer_memory=400, max_block_ms=20, linger_ms=1000)
    futures = [sending.send("t", b"x" * 150, partition=0) for _ in range(2)]
    with pytest.raises(errors.BufferExhausted, match="max_block_ms=20"):
        sending.send("t", b"x" * 150, partition=0)
    node.answer()
    last = sending.send("t", b"x" * 150, partition=0)
    assert [future.result(0).offset for future in futures] == [100, 101]
    with pytest.raises(TimeoutError):
        sending.close(timeout=0.01)
    with pytest.raises(errors.Closed, match="whether the node has it is not known"):
        last.result(0)
    node.answer()
    assert isinstance(last.exception(0), errors.Closed)


def test_a_send_that_waits_for_room_goes_on_when_there_is_some(node: SlowNode) -> None:
    sending = producer(node, buffer_memory=400, max_block_ms=HANG_SECONDS * 1000, linger_ms=1000)
    for _ in range(2):
        sending.send("t", b"x" * 150, partition=0)
    answered = threading.Thread(target=lambda: (node.arrived.acquire(timeout=HANG_SECONDS), node.answer()))
    answered.start()
    assert not sending.send("t", b"x" * 150, partition=0).done()
    answered.join()
    with pytest.raises(TimeoutError):
        sending.close(timeout=0)


@pytest.mark.parametrize("max_block_ms", [HANG_SECONDS * 1000, 2**63 - 1])
def test_a_send_that_waits_for_room_is_told_when_the_producer_closes(node: SlowNode, max_block_ms: int) -> None:
    sending = producer(node, buffer_memory=400, max_block_ms=max_block_ms, linger_ms=1000)
    for _ in range(2):
        sending.send("t", b"x" * 150, partition=0)
    raised: list[BaseException] = []

    def send() -> None:
        try:
            sending.send("t", b"x" * 150, partition=0)
        except PylogError as error:
            raised.append(error)

    blocked = threading.Thread(target=send)
    blocked.start()
    node.arrived.acquire(timeout=HANG_SECONDS)
    with pytest.raises(TimeoutError, match="1 batches"):
        sending.close(timeout=0.01)
    node.answer()
    blocked.join(HANG_SECONDS)
    assert [type(error) for error in raised] == [errors.Closed]


def test_flush_gives_up_in_time_and_the_batch_may_still_arrive(node: SlowNode) -> None:
    sending = producer(node, linger_ms=1000)
    future = sending.send("t", b"x")
    with pytest.raises(TimeoutError, match=r"could not be answered in time: 1 batches are not answered after [\d.]+ s"):
        sending.flush(timeout=0.01)
    assert not future.done()
    node.answer()
    sending.flush(timeout=0)
    assert future.result(0).offset == 100
    sending.close()


def test_an_unreachable_node_is_the_records_error(node: SlowNode) -> None:
    sending = producer(node, linger_ms=0, retries=0)
    sending.partitions_for("t")
    node.refuse = errors.NetworkError("gone")
    assert isinstance(sending.send("t", b"x").exception(0), errors.NetworkError)
    sending.close()


def test_what_is_sent_while_a_batch_is_unanswered_goes_as_one(node: SlowNode) -> None:
    sending = producer(node, linger_ms=0)
    first = sending.send("t", b"first", partition=0)
    futures = [sending.send("t", b"%d" % number, partition=0) for number in range(5)]
    other = sending.send("t", b"x", partition=1)
    assert [batch_in(message).count for message, _ in node.waiting] == [1, 1], "the five wait for an answer"
    node.answer()
    assert first.done() and not futures[0].done()
    assert [batch_in(message).count for message, _ in node.waiting] == [1, 5]
    later = sending.send("t", b"later", partition=0)
    node.answer()
    assert other.done() and len(node.waiting) == 1
    node.answer()
    assert futures[4].done() and not later.done()
    node.answer(error=errors.RecordTooLarge("no"))
    assert isinstance(later.exception(0), errors.RecordTooLarge)
    assert node.waiting == []
    last = sending.send("t", b"6", partition=0)
    node.answer()
    assert last.done()
    sending.close()


def test_a_caller_that_waits_for_a_record_ships_its_open_batch(node: SlowNode) -> None:
    sending = producer(node, linger_ms=0)
    sending.send("t", b"first", partition=0)
    node.answer()
    sending.send("t", b"second", partition=0)
    futures = [sending.send("t", b"%d" % number, partition=0) for number in range(3)]
    assert [batch_in(message).count for message, _ in node.waiting] == [1]
    with pytest.raises(TimeoutError):
        futures[2].result(0)
    assert [batch_in(message).count for message, _ in node.waiting] == [1, 3]
    node.answer()
    node.answer()
    assert [future.result(0).offset for future in futures] == [100, 101, 102]
    sending.close()


def test_a_batch_that_is_refused_unseen_takes_no_more_records(node: SlowNode) -> None:
    sending = producer(node, linger_ms=0)
    first = sending.send("t", b"x", partition=0)
    node.answer(error=errors.InvalidRequest("no"))
    second = sending.send("t", b"y", partition=0)
    assert isinstance(first.exception(0), errors.InvalidRequest) and not second.done()
    assert [batch_in(message).count for message, _ in node.waiting] == [1]
    node.answer()
    assert second.result(0).offset == 100
    sending.close()


def test_what_cannot_be_sealed_is_an_error_of_its_records_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pylog.open(tmp_path / "log") as log:
        partition = log.create_topic("t")[0]
        with log.producer(linger_ms=0) as sending:
            with monkeypatch.context() as patched:
                patched.setattr("pylog.client.producer.load.seal", lambda *_, **__: 1 // 0)
                future = sending.send("t", b"x")
            assert partition.append([pylog.Record(b"y")]).base_offset == 0
            assert isinstance(future.exception(), ZeroDivisionError)
            assert sending.send("t", b"z").result().offset == 1


def test_after_a_retriable_error_the_leader_is_asked_for_again(node: SlowNode) -> None:
    sending = producer(node, linger_ms=0, retry_backoff_ms=0)
    first = sending.send("t", b"x")
    assert node.metadata_asked == 1
    node.answer(errors.NotLeaderOrFollower("moved"))
    assert node.metadata_asked == 2 and not first.done()
    node.answer()
    assert first.result(0).offset == 100
    sending.close()


def test_linger_sends_records_without_a_flush(node: SlowNode) -> None:
    sending = producer(node, linger_ms=1)
    future = sending.send("t", b"x")
    assert node.arrived.acquire(timeout=HANG_SECONDS)
    node.answer()
    assert future.result(HANG_SECONDS).offset == 100
    sending.close()


def test_a_callback_that_raises_harms_nobody(node: SlowNode, caplog: pytest.LogCaptureFixture) -> None:
    sending = producer(node, linger_ms=1000)
    future = sending.send("t", b"x", partition=0)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    future.add_done_callback(fail)
    flushed = threading.Thread(target=sending.flush)
    flushed.start()
    node.arrived.acquire(timeout=HANG_SECONDS)
    node.answer()
    flushed.join(HANG_SECONDS)
    assert not flushed.is_alive(), "flush waits for a batch that was answered"
    assert "a callback of a record of t-0 raised" in caplog.text
    sending.close(timeout=0)


def test_a_callback_may_send_and_must_not_wait_for_itself() -> None:
    """More than a batch of it, in the thread that ships: the partition's next batches follow the one answered."""
    sent: list[Future[Any]] = []
    refused: list[str] = []

    with pylog.open(":memory:") as log, log.producer(linger_ms=5, batch_size=300) as sending:
        log.create_topic("t")

        def again(_: Future[Any]) -> None:
            sent.extend(sending.send("t", b"x" * 100) for _ in range(10))
            for wait in (sending.flush, sending.close, log.close):
                try:
                    wait()
                except RuntimeError as error:
                    refused.append(str(error))

        first = sending.send("t", b"first")
        first.add_done_callback(again)
        assert first.result(HANG_SECONDS).offset == 0
        sending.flush(HANG_SECONDS)
        assert [future.result(HANG_SECONDS).offset for future in sent] == list(range(1, 11))
    assert [text.split(" in a ")[0] for text in refused] == ["flush", "close", "close of the log"]


def test_a_callback_that_finds_the_buffer_full_is_told_so_in_time() -> None:
    """What its own batch takes comes free after the callback only."""
    refused: list[BaseException] = []

    with pylog.open(":memory:") as log, log.producer(linger_ms=5, buffer_memory=200, max_block_ms=1) as sending:
        log.create_topic("t")

        def again(_: Future[Any]) -> None:
            try:
                sending.send("t", b"x" * 150)
            except PylogError as error:
                refused.append(error)

        sending.send("t", b"x" * 150).add_done_callback(again)
        sending.flush(HANG_SECONDS)
        assert [type(error) for error in refused] == [errors.BufferExhausted]
        assert sending.send("t", b"x" * 150).result(HANG_SECONDS).offset == 1


def test_the_longest_linger_waits_until_a_flush() -> None:
    with pylog.open(":memory:") as log, log.producer(linger_ms=2**63 - 1, batch_size=300) as sending:
        log.create_topic("t")
        first = sending.send("t", b"")
        sending.flush(HANG_SECONDS)
        assert first.done()
        # The thread that lingers is still there.
        assert sending._client.sender._worker._thread is not None
        sending._client.sender._worker._thread.join(0.1)
        assert sending._client.sender._worker._thread.is_alive()


def test_an_unexpected_error_fails_the_records_and_linger_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pylog.open(":memory:") as log, log.producer(linger_ms=1) as sending:
        log.create_topic("t")
        with monkeypatch.context() as patched:
            patched.setattr("pylog.client.producer.load.seal", lambda *_, **__: 1 // 0)
            assert isinstance(sending.send("t", b"").exception(HANG_SECONDS), ZeroDivisionError)
        assert sending.send("t", b"").result(HANG_SECONDS).offset == 0


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"partition": 1.0}, TypeError),
        ({"partition": "0"}, TypeError),
        ({"timestamp_ms": 1 << 63}, ValueError),
        ({"timestamp_ms": -1}, ValueError),
    ],
)
def test_a_record_too_large_for_any_batch_is_refused_at_once(
    node: SlowNode, settings: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"partition is|64 bits|timestamp_ms is -1"):
        producer(node).send("t", b"", **settings)


@pytest.mark.parametrize("like", [bytearray, memoryview])
def test_what_is_like_bytes_is_sent_as_it_was_at_the_call(node: SlowNode, like: Callable[[bytearray], Any]) -> None:
    sending = producer(node, linger_ms=1000)
    key, value = bytearray(b"key"), bytearray(b"value")
    for _ in range(2):
        sending.send("t", like(value), key=like(key), partition=0)
    key[:], value[:] = b"KEY", b"VALUE"
    with pytest.raises(TimeoutError):
        sending.flush(timeout=0)
    batch = batch_in(node.waiting[0][0])
    assert [(record.key, record.value) for record in batch.records("t", 0)] == [(b"key", b"value")] * 2
    node.answer()
    sending.close()


def test_a_serializer_may_give_a_bytearray() -> None:
    with pylog.open(":memory:") as log, log.producer(value_serializer=bytearray) as sending:
        log.create_topic("t")
        sending.send("t", [1, 2]).result()
        assert [record.value for record in log.topic("t").records()] == [b"\x01\x02"]


def test_batches_of_a_partition_keep_their_order(node: SlowNode) -> None:
    sending = producer(node, batch_size=100, linger_ms=1000)
    for i in range(20):
        sending.send("t", b"%d" % i * 40, partition=i % 2)
    sent: dict[int, list[bytes | None]] = {0: [], 1: []}
    closing = threading.Thread(target=sending.close)
    closing.start()
    for _ in range(20):
        assert node.arrived.acquire(timeout=HANG_SECONDS)
        ((_, part),) = (message := node.waiting[0][0]).pairs
        sent[part.index] += [record.value for record in batch_in(message).records("t", 0)]
        node.answer()
    closing.join(HANG_SECONDS)
    assert sent == {n: [b"%d" % i * 40 for i in range(n, 20, 2)] for n in (0, 1)}


@pytest.mark.parametrize("use", [lambda p: p.send("t", b"x"), lambda p: p.send("t", b"x", key=b"k")])
def test_a_closed_producer_refuses(node: SlowNode, use: Callable[[Producer], object]) -> None:
    sending = producer(node)
    sending.close()
    sending.close()
    with pytest.raises(errors.Closed):
        use(sending)
