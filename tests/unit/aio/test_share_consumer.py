"""A share consumer in an event loop."""

import asyncio
import gc
import pickle
import threading

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.errors import Closed, ConcurrentUse, DeserializationError, Wakeup
from support.loops import in_loop

T0 = TopicPartition("t", 0)
WAIT_MS = 60_000


async def filled(log: pylog.aio.Log[pylog.TopicView], count: int) -> None:
    topic = await log.create_topic("t")
    if count:
        topic[0].append([Record(b"%d" % number) for number in range(count)])
    await log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})


async def left(log: pylog.aio.Log[pylog.TopicView]) -> int | None:
    lag: int | None = (await log.admin.share_offsets("g"))[T0].lag
    return lag


@in_loop
async def test_a_loop_accepts_each_record_as_it_takes_the_next() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 3)
        async with log.share_consumer("t", group_id="g") as worker:
            values = []
            async for record in worker:
                values.append(record.value)
                if len(values) == 3:
                    break
            await worker.commit_sync()
            assert values == [b"0", b"1", b"2"] and await left(log) == 0


@in_loop
async def test_many_tasks_share_one_partition() -> None:
    one: pylog.ShareConsumerOptions = {"max_poll_records": 1, "share_acquire_mode": "record_limit"}
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 40)
        done: list[bytes | None] = []

        async def work() -> None:
            async with log.share_consumer("t", group_id="g", **one) as worker:
                while len(done) < 40:
                    for record in await worker.poll(20):
                        done.append(record.value)
                        await asyncio.sleep(0)

        await asyncio.gather(*(work() for _ in range(8)))
        assert sorted(done) == sorted(b"%d" % number for number in range(40))
        assert await left(log) == 0


@in_loop
async def test_a_poll_that_is_cancelled_has_taken_nothing() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 1)
        async with log.share_consumer("t", group_id="g") as worker:
            assert [record.value for record in await worker.poll(WAIT_MS)] == [b"0"]
            waiting = asyncio.create_task(worker.poll(WAIT_MS))
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentUse, match="another task"):
                await worker.poll()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            (await log.topic("t"))[0].append([Record(b"1")])
            assert [record.value for record in await worker.poll(WAIT_MS)] == [b"1"]


@in_loop
async def test_words_are_sent_and_heard_of() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 3)
        heard: list[set[int]] = []
        async with log.share_consumer("t", group_id="g", acknowledgement="explicit") as worker:
            worker.set_acknowledgement_commit_callback(lambda offsets, error: heard.append(offsets[T0]))
            for record, word in zip(await worker.poll(WAIT_MS), ("accept", "release", "reject"), strict=True):
                worker.acknowledge(record, word)
            assert await worker.commit_sync() == {T0: None}
            (again,) = await worker.poll(WAIT_MS)
            assert (again.value, again.delivery_count, heard) == (b"1", 2, [{0, 1, 2}])
            worker.acknowledge(again)
            worker.commit_async()
        assert heard == [{0, 1, 2}, {1}] and await left(log) == 0


@in_loop
async def test_after_an_exception_nothing_is_accepted_by_itself() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 1)
        with pytest.raises(ZeroDivisionError):
            async with log.share_consumer("t", group_id="g") as worker:
                await worker.poll(WAIT_MS)
                raise ZeroDivisionError
        async with log.share_consumer("t", group_id="g") as worker:
            assert [record.delivery_count for record in await worker.poll(WAIT_MS)] == [2]


@in_loop
async def test_a_waiting_poll_is_woken_by_a_wakeup_a_subscription_and_a_close() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 1)
        await log.create_topic("other")
        worker = log.share_consumer("other", group_id="g")
        waiting = asyncio.create_task(worker.poll(WAIT_MS))
        await asyncio.sleep(0)
        threading.Thread(target=worker.wakeup).start()
        with pytest.raises(Wakeup):
            await waiting
        waiting = asyncio.create_task(worker.poll(WAIT_MS))
        await asyncio.sleep(0)
        worker.subscribe(["t"])
        assert [record.value for record in await waiting] == [b"0"]
        await worker.unsubscribe()
        assert worker.subscription() == set()
        worker.subscribe(["other"])
        following = asyncio.create_task(anext(worker))
        await asyncio.sleep(0)
        await worker.close()
        with pytest.raises(StopAsyncIteration):
            await following
        with pytest.raises(Closed):
            await worker.poll()


@in_loop
async def test_a_log_closes_its_share_consumers_and_its_loops_fail() -> None:
    log = await pylog.aio.open(":memory:")
    await filled(log, 1)
    worker = log.share_consumer("t", group_id="g")
    assert await worker.poll(WAIT_MS)
    await log.close()
    with pytest.raises(Closed):
        await worker.poll()


@in_loop
async def test_a_poison_record_is_named_and_comes_free() -> None:
    async with pylog.aio.open(":memory:") as log:
        (await log.create_topic("t"))[0].append([Record(b"x")])
        await log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
        async with log.share_consumer("t", group_id="g", value_deserializer=int) as worker:
            with pytest.raises(DeserializationError) as caught:
                await worker.poll(WAIT_MS)
            worker.acknowledge(caught.value.record, "reject")
            await worker.commit_sync()
            assert await left(log) == 0


@in_loop
async def test_one_that_is_dropped_warns_and_none_is_pickled() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 1)
        worker = log.share_consumer("t", group_id="g")
        with pytest.raises(TypeError, match=r"by log.share_consumer\(...\)"):
            pickle.dumps(worker)
        with pytest.warns(ResourceWarning, match="a share consumer of group 'g'"):
            del worker
            gc.collect()


@in_loop
async def test_one_without_topics_is_subscribed_later_and_waits_for_records() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 0)
        async with log.share_consumer(group_id="g", fetch_max_wait_ms=1) as worker:
            worker.subscribe(["t"])
            waiting = asyncio.create_task(anext(worker))
            for _ in range(3):
                assert not (await asyncio.wait([waiting], timeout=0.01))[0]
            (await log.topic("t"))[0].append([Record(b"late")])
            assert (await waiting).value == b"late"
