"""Whenever a call in an event loop is cancelled, no record is lost, and none comes twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import pylog
from pylog import TopicPartition
from pylog.aio import Consumer
from support.loops import in_loop, turns

RECORDS = 30
steps = st.lists(st.tuples(st.sampled_from(["getone", "getmany", "loop"]), st.integers(0, 12)), max_size=40)


async def one(consumer: Consumer, found: list[pylog.ConsumerRecord]) -> None:
    found.append(await consumer.getone())


async def many(consumer: Consumer, found: list[pylog.ConsumerRecord]) -> None:
    for records in (await consumer.getmany(timeout_ms=60_000, max_records=4)).values():
        found.extend(records)


async def loop(consumer: Consumer, found: list[pylog.ConsumerRecord]) -> None:
    async for record in consumer:
        found.append(record)
        if record.offset % 3 == 0:
            return


CALLS: dict[str, Callable[[Consumer, list[pylog.ConsumerRecord]], Coroutine[Any, Any, None]]] = {
    "getone": one,
    "getmany": many,
    "loop": loop,
}


@given(steps)
@in_loop
async def test_reading_that_is_cancelled_anywhere_goes_on_with_the_next_record(steps: list[tuple[str, int]]) -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t", 2)
        found: list[pylog.ConsumerRecord] = []
        async with (
            log.producer(linger_ms=0) as producer,
            log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            for number, (call, rest) in enumerate(steps):
                reading = asyncio.create_task(CALLS[call](consumer, found))
                await turns(rest)
                if number < RECORDS:
                    await producer.send_and_wait("t", b"%d" % number, partition=number % 2)
                await turns(rest % 5)
                reading.cancel()
                await asyncio.wait([reading])
            for number in range(len(steps), RECORDS):
                await producer.send_and_wait("t", b"%d" % number, partition=number % 2)
            while len(found) < RECORDS:
                await one(consumer, found)
        for partition in (0, 1):
            offsets = [record.offset for record in found if record.partition == partition]
            assert offsets == list(range(RECORDS // 2))


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 6)), min_size=1, max_size=30))
@in_loop
async def test_a_send_that_is_cancelled_anywhere_is_there_once_or_not_at_all(sends: list[tuple[int, int]]) -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        done: dict[int, int] = {}

        async def send(number: int, size: int) -> None:
            value = number.to_bytes(4) + bytes(size)
            done[number] = (await producer.send_and_wait("t", value)).offset

        async with log.producer(buffer_memory=1200, linger_ms=0, batch_size=1000) as producer:
            sending = [asyncio.create_task(send(number, size)) for number, (size, _) in enumerate(sends)]
            for task, (_, rest) in zip(sending, sends, strict=True):
                await turns(rest)
                if rest % 2:
                    task.cancel()
            await asyncio.wait(sending)
        view = (await log.topic("t"))[0]
        there = {int.from_bytes((record.value or b"")[:4]): record.offset for record in view.records()}
        assert len(there) == view.high_watermark, "none is there twice"
        assert done.items() <= there.items()
        assert all(number in done for number, (_, rest) in enumerate(sends) if not rest % 2)
        assert list(there) == sorted(there)


T0 = TopicPartition("t", 0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 30))
@in_loop
async def test_a_block_of_a_transaction_that_is_cancelled_anywhere_commits_all_or_nothing(rest: int) -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")

        async def work() -> None:
            async with producer.transaction():
                for _ in range(3):
                    await producer.send_and_wait("t", b"x")
                await producer.send_offsets_to_transaction({T0: 3}, "g")

        async with log.producer(transactional_id="x", linger_ms=0) as producer:
            working = asyncio.create_task(work())
            await turns(rest)
            working.cancel()
            await asyncio.wait([working])
            async with producer.transaction():
                await producer.send("t", b"last")
        values = [record.value for record in (await log.topic("t"))[0].records(isolation_level="read_committed")]
        committed = (await log.admin.committed("g")).get(T0)
        assert values == [b"x"] * (3 if committed else 0) + [b"last"]
