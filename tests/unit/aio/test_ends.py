"""What clients of an event loop show, and what they leave behind where they end in another way than usual."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.aio.threads import THREADS_MAX, Threads, _finish_all
from pylog.errors import Closed, ConcurrentUse, LogDirNotFound, TransactionAbortable
from pylog.protocol.messages import Message, Session
from pylog.protocol.messages.transactions import EndTxnRequest
from pylog.runtime.future import Future, failed
from support.loops import in_loop, turns


class Refusing(pylog.MemoryTransport):
    """A transport that refuses the first end of a transaction."""

    refused = False

    def send(self, node: int, message: Message, session: Session) -> Future[Any]:
        if type(message) is EndTxnRequest and not self.refused:
            self.refused = True
            return failed(TransactionAbortable("no"))
        return super().send(node, message, session)


@in_loop
async def test_a_log_and_its_clients_show_what_they_are(tmp_path: Path) -> None:
    async with pylog.aio.open(tmp_path / "log") as log:
        await log.create_topic("t")
        producer = log.producer(client_id="mine")
        assert str(tmp_path) in repr(log)
        assert "mine" in repr(producer) and "closed" not in repr(producer)
        await producer.stop()
        assert "closed" in repr(producer)
        consumer = log.consumer("t", group_id="g")
        assert consumer.group_metadata().group_id == "g"
        with pytest.raises(LogDirNotFound):
            await log.move_partition("t", 0, tmp_path / "nowhere")


@in_loop
async def test_a_closed_log_makes_no_clients_and_leaves_nothing_of_them() -> None:
    log = await pylog.aio.open(":memory:")
    async with log:
        pass
    with pytest.raises(Closed):
        log.consumer("t", group_id="g")
    with pytest.raises(Closed):
        log.producer()


@in_loop
async def test_a_loop_over_a_consumer_ends_after_its_time_without_a_record() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        consumer = log.consumer("t", consumer_timeout_ms=1)
        assert [record async for record in consumer] == []


@in_loop
async def test_a_producer_that_is_dropped_delivers_and_says_so() -> None:
    async with pylog.aio.open(":memory:") as log:
        view = await log.create_topic("t")
        producer = log.producer()
        await producer.send("t", b"x")
        with pytest.warns(ResourceWarning, match="Producer"):
            del producer
            gc.collect()
        while not view[0].high_watermark:
            await asyncio.sleep(0)


@in_loop
async def test_a_block_whose_commit_is_refused_aborts_and_goes_on() -> None:
    async with pylog.aio.open(":memory:", transport=Refusing()) as log:
        await log.create_topic("t")
        async with log.producer(transactional_id="x") as producer:
            with pytest.raises(TransactionAbortable):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"a")
            async with producer.transaction():
                await producer.send("t", b"b")
        values = [one.value for one in (await log.topic("t"))[0].records(isolation_level="read_committed")]
        assert values == [b"b"]


def test_a_listener_must_not_close_its_consumer() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")

        class Closing(pylog.RebalanceListener):
            def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                consumer.close()

        with log.consumer(group_id="g") as consumer:
            consumer.subscribe(["t"], listener=Closing())
            with pytest.raises(ConcurrentUse, match="must not close"):
                consumer.poll(timeout_ms=5000)


@in_loop
async def test_a_consumer_that_a_closing_log_does_not_take_is_ended() -> None:
    log = await pylog.aio.open(":memory:")
    await log.create_topic("t")
    taken = log.consumer("t")
    lease = taken._lease
    assert lease is not None
    await log.close()
    with pytest.raises(Closed):
        pylog.aio.Consumer(taken._client, (), lease, log._threads)
    gc.collect()


@in_loop
async def test_a_wait_whose_loop_has_gone_takes_no_record() -> None:
    async with pylog.aio.open(":memory:") as log:
        view = await log.create_topic("t")
        consumer = log.consumer("t", auto_offset_reset="earliest")
        await consumer.start()
        waiting = consumer.getmany(timeout_ms=60_000)
        waiting.send(None)
        waiting.close()
        view[0].append([pylog.Record(b"x")])
        assert (await consumer.getone()).value == b"x"


def test_a_call_that_waits_in_a_loop_that_has_gone_is_over() -> None:
    async def opened() -> tuple[pylog.aio.Log[pylog.TopicView], pylog.aio.Consumer]:
        log = await pylog.aio.open(":memory:")
        await log.create_topic("t")
        return log, log.consumer("t", auto_offset_reset="earliest")

    loop = asyncio.new_event_loop()
    log, consumer = loop.run_until_complete(opened())
    waiting = consumer.getmany(timeout_ms=60_000)
    task = loop.create_task(waiting)
    loop.run_until_complete(turns(20))
    waiting.close()
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.run_until_complete(log.close())
    loop.close()


def test_threads_end_with_the_calls_that_were_begun() -> None:
    threads, gate, done = Threads(), threading.Event(), threading.Event()
    begun = [threads._submit(gate.wait) for _ in range(THREADS_MAX)]
    cancelled = threads._submit(done.set)
    assert cancelled.cancel()
    gate.set()
    _finish_all()
    assert all(call.result() for call in begun) and not done.is_set()
