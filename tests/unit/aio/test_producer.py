"""A producer in an event loop: it waits for room and for topics without blocking the loop."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.errors import (
    BufferExhausted,
    Closed,
    InvalidTxnState,
    NetworkError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    Undelivered,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import Message, ProduceRequest, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import EndTxnRequest
from pylog.runtime.future import Future
from support.loops import in_loop, turns

T0 = TopicPartition("t", 0)


class Wire(pylog.MemoryTransport):
    """A transport that keeps answers to some messages until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: set[type] = set()
        self.waiting: list[tuple[Future[Any], Future[Any]]] = []

    def send(self, node: int, message: Message, session: Session) -> Future[Any]:
        answer = super().send(node, message, session)
        if type(message) not in self.kept:
            return answer
        late: Future[Any] = Future()
        self.waiting.append((late, answer))
        return late

    def let_go(self, error: Exception | None = None) -> None:
        self.kept.clear()
        waiting, self.waiting = self.waiting, []
        for late, answer in waiting:
            if error is None:
                late.set_result(answer.result())
            else:
                late.set_exception(error)


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.let_go()


@in_loop
async def test_send_gives_a_future_and_send_and_wait_gives_where_it_is() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t", 2)
        async with log.producer() as producer:
            future = await producer.send("t", b"x", b"key", partition=1, timestamp_ms=7, headers=[("h", b"v")])
            assert await future == pylog.RecordMetadata("t", 1, 0, 7)
            assert (await producer.send_and_wait("t", b"y", partition=1)).offset == 1
            assert await producer.partitions_for("t") == [0, 1]
        with pytest.raises(Closed):
            await producer.send("t", b"z")
        record = next(iter((await log.topic("t"))[1].records()))
        assert (record.value, record.key, record.headers) == (b"x", b"key", (pylog.Header("h", b"v"),))


@in_loop
async def test_an_unknown_topic_or_partition_is_an_error_of_send() -> None:
    async with pylog.aio.open(":memory:") as log, log.producer() as producer:
        with pytest.raises(UnknownTopicOrPartition):
            await producer.send("t", b"x")
        await log.create_topic("t")
        with pytest.raises(UnknownTopicOrPartition, match="has no partition 3; it has 1"):
            await producer.send("t", b"x", partition=3)
        with pytest.raises(UnknownTopicOrPartition):
            await producer.partitions_for("u")
        await log.create_partitions("t", 4)
        assert (await producer.send_and_wait("t", b"x", partition=3)).partition == 3


@in_loop
async def test_send_waits_for_a_topic_and_the_loop_goes_on(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer() as producer:
            wire.kept.add(MetadataRequest)
            sending = asyncio.create_task(producer.send_and_wait("t", b"x"))
            await turns()
            assert not sending.done() and wire.waiting
            wire.let_go()
            assert (await sending).offset == 0


@in_loop
async def test_a_topic_that_no_node_tells_of_in_time_is_an_error(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer(max_block_ms=1) as producer:
            wire.kept.add(MetadataRequest)
            with pytest.raises(RequestTimedOut, match="max_block_ms"):
                await producer.send("t", b"x")


@in_loop
async def test_send_waits_for_room_in_the_buffer_and_keeps_its_turn(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer(buffer_memory=3000, max_in_flight_requests_per_connection=1) as producer:
            wire.kept.add(ProduceRequest)
            first = await producer.send("t", bytes(2500))
            sending = [asyncio.create_task(producer.send_and_wait("t", bytes(2000 + n))) for n in range(5)]
            await turns()
            assert not any(one.done() for one in sending)
            threading.Thread(target=wire.let_go).start()
            assert (await first).offset == 0
            assert [(await one).offset for one in sending] == [1, 2, 3, 4, 5]


@in_loop
async def test_a_bytearray_is_sent_as_it_was_at_the_call_though_there_is_no_room(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer(buffer_memory=3000) as producer:
            wire.kept.add(ProduceRequest)
            await producer.send("t", bytes(2500))
            key, value = bytearray(b"key"), bytearray(2000)
            sending = asyncio.create_task(producer.send_and_wait("t", memoryview(value), key=key))
            await turns()
            key[:], value[:] = b"KEY", b"x" * 2000
            wire.let_go()
            await sending
            last = [record async for record in log.consumer("t", auto_offset_reset="earliest", consumer_timeout_ms=1)]
            assert (last[-1].key, last[-1].value) == (b"key", bytes(2000))


@in_loop
async def test_topics_are_made_outside_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pylog.aio.open(":memory:") as log:
        changes = log.sync.broker.node.changes  # type: ignore[attr-defined]
        create, threads = changes.create_topic, []

        def noted(new: Any) -> Any:
            threads.append(threading.current_thread())
            return create(new)

        monkeypatch.setattr(changes, "create_topic", noted)
        async with (
            log.producer(allow_auto_create_topics=True) as producer,
            log.consumer("u", allow_auto_create_topics=True) as consumer,
        ):
            await producer.send_and_wait("t", b"x")
            await consumer.assign([("v", 0)])  # type: ignore[list-item]
            await consumer.subscribe("w")
        assert await log.topics() == ["t", "u", "v", "w"]
        assert threading.main_thread() not in threads


@in_loop
async def test_a_send_that_is_cancelled_while_it_waits_for_room_was_never_taken(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer(buffer_memory=3000) as producer:
            wire.kept.add(ProduceRequest)
            await producer.send("t", bytes(2500))
            sending = asyncio.create_task(producer.send_and_wait("t", bytes(2000)))
            await turns()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            wire.let_go()
            await producer.flush()
            assert (await log.topic("t"))[0].high_watermark == 1


@in_loop
async def test_a_buffer_that_stays_full_is_an_error_after_max_block_ms(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer(buffer_memory=3000, max_block_ms=1) as producer:
            wire.kept.add(ProduceRequest)
            await producer.send("t", bytes(2500))
            with pytest.raises(BufferExhausted, match="buffer_memory is 3000"):
                await producer.send("t", bytes(2000))
            wire.let_go()


@in_loop
async def test_a_cancelled_send_and_wait_has_sent_what_was_taken(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer() as producer:
            wire.kept.add(ProduceRequest)
            sending = asyncio.create_task(producer.send_and_wait("t", b"x"))
            await turns()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            wire.let_go()
            await producer.flush()
            assert (await log.topic("t"))[0].high_watermark == 1


@in_loop
async def test_many_sends_that_need_not_wait_let_the_loop_go_round() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        rounds = 0

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        async with log.producer(linger_ms=1000) as producer:
            counting = asyncio.create_task(count())
            for _ in range(1000):
                await producer.send("t", b"x")
            assert rounds >= 10
            counting.cancel()
            assert await producer.flush() is None
        assert (await log.topic("t"))[0].high_watermark == 1000


@in_loop
async def test_a_failure_that_was_not_looked_at_is_told_by_close(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        producer = log.producer(retries=0, enable_idempotence=False)
        wire.kept.add(ProduceRequest)
        await producer.send("t", b"x")
        flushing = asyncio.create_task(producer.flush())
        # The thread that lingers may send it, in its time.
        while not wire.waiting:
            await turns()
        wire.let_go(NetworkError("away"))
        failures = await flushing
        assert failures is not None and failures.count == 1
        with pytest.raises(Undelivered):
            await producer.stop()


# --- transactions ----------------------------------------------------------------------------------------------------


async def committed(log: pylog.aio.Log[pylog.TopicView]) -> list[bytes | None]:
    view = await log.topic("t")
    return [record.value for record in view[0].records(isolation_level="read_committed")]


@in_loop
async def test_a_block_commits_or_aborts() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.producer(transactional_id="x") as producer:
            async with producer.transaction():
                await producer.send("t", b"a")
            with pytest.raises(KeyError):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"b")
                    raise KeyError
            await producer.begin_transaction()
            waiting = await producer.send("t", b"c")
            await producer.abort_transaction()
            assert waiting.done()
            await producer.begin_transaction()
            await producer.send("t", b"d")
            await producer.commit_transaction()
            with pytest.raises(InvalidTxnState):
                await producer.send("t", b"e")
        assert await committed(log) == [b"a", b"d"]


@in_loop
async def test_a_cancelled_block_aborts() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.producer(transactional_id="x") as producer:
            sent = asyncio.Event()

            async def work() -> None:
                async with producer.transaction():
                    await producer.send_and_wait("t", b"a")
                    sent.set()
                    await asyncio.Event().wait()

            working = asyncio.create_task(work())
            await sent.wait()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            async with producer.transaction():
                await producer.send("t", b"b")
        assert await committed(log) == [b"b"]


@in_loop
async def test_a_transaction_begins_when_the_end_of_a_cancelled_commit_has_come(wire: Wire) -> None:
    async with pylog.aio.open(":memory:", transport=wire) as log:
        await log.create_topic("t")
        async with log.producer(transactional_id="x") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"a")
            wire.kept.add(EndTxnRequest)
            committing = asyncio.create_task(producer.commit_transaction())
            while not wire.waiting:
                await turns()
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            beginning = asyncio.create_task(producer.begin_transaction())
            await turns(20)
            assert not beginning.done()
            wire.let_go()
            await beginning
            await producer.send("t", b"b")
            await producer.commit_transaction()
        assert await committed(log) == [b"a", b"b"]


@in_loop
async def test_a_block_that_is_cancelled_as_its_commit_begins_commits() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.producer(transactional_id="x") as producer:

            async def work() -> None:
                async with producer.transaction():
                    await producer.send("t", b"a")
                    left.set()

            left = asyncio.Event()
            working = asyncio.create_task(work())
            await left.wait()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            async with producer.transaction():
                await producer.send("t", b"b")
        assert await committed(log) == [b"a", b"b"]


@in_loop
async def test_offsets_are_committed_with_a_transaction_and_an_older_producer_is_fenced() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        old = log.producer(transactional_id="x")
        await old.start()
        async with log.producer(transactional_id="x") as producer, producer.transaction():
            await producer.send("t", b"a")
            await producer.send_offsets_to_transaction({T0: 1}, "g")
        assert (await log.admin.committed("g"))[T0].offset == 1
        with pytest.raises(ProducerFenced):
            async with old.transaction():
                await old.send_and_wait("t", b"b")
        await old.close()


@in_loop
async def test_closing_aborts_an_open_transaction() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        producer = log.producer(transactional_id="x", linger_ms=100_000)
        await producer.begin_transaction()
        waiting = await producer.send("t", b"a")
        await producer.close()
        with pytest.raises(TransactionAborted):
            await waiting


@in_loop
async def test_serializers_turn_what_is_sent_into_bytes() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.producer(value_serializer=partial(str.encode, encoding="utf-8")) as producer:
            await producer.send("t", "text")
        async with log.consumer("t", auto_offset_reset="earliest", value_deserializer=bytes.decode) as consumer:
            assert (await consumer.getone()).value == "text"
