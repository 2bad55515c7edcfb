"""A consumer in an event loop: what it reads, what waits, and what a cancelled call leaves as it was."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

import pylog
from pylog import TopicPartition
from pylog.aio import Consumer, Log
from pylog.errors import Closed, ConcurrentUse, InvalidGroupId, UnknownTopicOrPartition
from support.loops import in_loop, turns

T0 = TopicPartition("t", 0)
LONG_MS = 3_600_000


async def filled(log: Log[pylog.TopicView], count: int, topic: str = "t") -> None:
    """Make a topic with records whose values are their numbers."""
    await log.create_topic(topic, exist_ok=True)
    async with log.producer() as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number)


async def joined(consumer: Consumer) -> None:
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=100)


def values(records: Sequence[pylog.ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


@in_loop
async def test_a_loop_over_a_consumer_gives_the_records_and_ends_when_it_is_closed() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 5)
        consumer = log.consumer("t", auto_offset_reset="earliest")
        found = []
        async for record in consumer:
            found.append(record)
            if len(found) == 5:
                await consumer.stop()
        assert values(found) == [b"%d" % number for number in range(5)]


@in_loop
async def test_a_waiting_loop_ends_when_another_task_closes_the_consumer() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        consumer = log.consumer("t")

        async def read() -> list[pylog.ConsumerRecord]:
            return [record async for record in consumer]

        reading = asyncio.create_task(read())
        await turns(20)
        await consumer.close()
        assert await reading == []
        with pytest.raises(Closed):
            await consumer.getmany()


@in_loop
async def test_getmany_waits_for_a_record_of_another_thread() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.consumer("t", auto_offset_reset="earliest") as consumer:
            reading = asyncio.create_task(consumer.getmany(timeout_ms=LONG_MS))
            await turns(20)
            assert not reading.done()

            def send() -> None:
                with log.sync.producer() as producer:
                    producer.send("t", b"x").result()

            thread = threading.Thread(target=send)
            thread.start()
            found = await reading
            thread.join()
            assert list(found) == [T0] and values(found[T0]) == [b"x"]


@in_loop
async def test_getmany_gives_nothing_when_the_time_is_up_and_at_most_so_many_records() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.consumer("t", auto_offset_reset="earliest") as consumer:
            assert await consumer.getmany(timeout_ms=1) == {}
            await filled(log, 5)
            found = await consumer.getmany(timeout_ms=LONG_MS, max_records=2)
            assert values(found[T0]) == [b"0", b"1"]


@in_loop
async def test_records_that_getone_has_not_come_to_count_as_unread() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 5)
        async with log.consumer("t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
            assert (await consumer.getone()).value == b"0"
            assert (await consumer.getone()).value == b"1"
            assert await consumer.position(T0) == 2
            await consumer.commit()
            assert await consumer.committed(T0) == 2
            assert values((await consumer.getmany(timeout_ms=LONG_MS))[T0]) == [b"2", b"3", b"4"]


@in_loop
async def test_a_cancelled_wait_loses_no_record() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        async with log.consumer("t", auto_offset_reset="earliest") as consumer, log.producer() as producer:
            found: list[pylog.ConsumerRecord] = []
            for number in range(50):
                reading = asyncio.create_task(consumer.getone())
                await turns(number % 7)
                await producer.send_and_wait("t", b"%d" % number)
                await turns(number % 5)
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    found.append(await reading)
                    raise asyncio.CancelledError
            while len(found) < 50:
                found.append(await consumer.getone())
            assert values(found) == [b"%d" % number for number in range(50)]


@in_loop
async def test_one_task_reads_and_others_may_commit_seek_and_look_meanwhile() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 3)
        async with log.consumer("t", group_id="g", auto_offset_reset="latest") as consumer:
            await joined(consumer)
            await consumer.position(T0)
            reading = asyncio.create_task(consumer.getmany(timeout_ms=LONG_MS))
            await turns(20)
            with pytest.raises(ConcurrentUse, match="another task"):
                await consumer.getone()
            assert await consumer.end_offsets([T0]) == {T0: 3}
            await consumer.commit({T0: 1})
            assert await consumer.committed(T0) == 1
            consumer.seek(T0, 1)
            assert values((await reading)[T0]) == [b"1", b"2"]


@in_loop
async def test_a_paused_partition_gives_records_once_it_is_resumed() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 1)
        async with log.consumer("t", auto_offset_reset="earliest") as consumer:
            consumer.pause(T0)
            assert consumer.paused() == {T0}
            reading = asyncio.create_task(consumer.getone())
            await turns(20)
            assert not reading.done()
            consumer.resume(T0)
            assert (await reading).value == b"0"


@in_loop
async def test_a_listener_may_be_a_coroutine_that_commits() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 3)
        consumer = log.consumer(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
        heard: list[str] = []

        class Listener:
            async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                heard.append("assigned")
                await turns()

            async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                await consumer.commit()
                heard.append("revoked")

        await consumer.subscribe(["t"], listener=Listener())
        await consumer.getone()
        await consumer.close()
        assert heard == ["assigned", "revoked"]
        offsets = await log.admin.committed("g")
        assert offsets[T0].offset == 1


def test_a_synchronous_consumer_refuses_a_listener_that_is_a_coroutine() -> None:
    class Listener:
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            pass

    with pylog.open(":memory:") as log:
        log.create_topic("t")
        with log.consumer(group_id="g") as consumer:
            consumer.subscribe(["t"], listener=Listener())
            with pytest.raises(TypeError, match=r"only a consumer of pylog\.aio"):
                while True:
                    consumer.poll(100)


@in_loop
async def test_members_of_a_group_share_the_partitions_and_leave_with_a_commit() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t", 2)
        async with log.producer() as producer:
            for partition in (0, 1):
                await producer.send_and_wait("t", b"%d" % partition, partition=partition)
        ready = asyncio.Barrier(2)

        async def member() -> set[TopicPartition]:
            async with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
                while len(consumer.assignment()) != 1:
                    await consumer.getmany(timeout_ms=50)
                await ready.wait()
                while await consumer.position(*consumer.assignment()) != 1:
                    await consumer.getmany(timeout_ms=50)
                return consumer.assignment()

        one, other = await asyncio.gather(member(), member())
        assert one | other == {T0, TopicPartition("t", 1)}
        assert sum(at.offset for at in (await log.admin.committed("g")).values() if at is not None) == 2


@in_loop
async def test_an_error_in_the_block_closes_the_consumer_without_a_commit() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 1)
        with pytest.raises(KeyError):
            async with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
                await consumer.getone()
                raise KeyError
        assert not await log.admin.committed("g")


@in_loop
async def test_positions_ends_and_times_are_as_the_synchronous_face_gives_them() -> None:
    async with pylog.aio.open(":memory:") as log:
        await filled(log, 3)
        async with log.consumer("t") as consumer:
            assert consumer.subscription() == {"t"} and consumer.assignment() == {T0}
            await consumer.seek_to_beginning()
            assert await consumer.position(T0) == 0
            assert await consumer.lag() == {T0: 3}
            await consumer.seek_to_end(T0)
            assert await consumer.position(T0) == 3
            assert await consumer.beginning_offsets([T0]) == {T0: 0}
            found = (await consumer.offsets_for_times({T0: 0}))[T0]
            assert found is not None and found.offset == 0
            assert await consumer.topics() == ["t"] and await consumer.partitions_for_topic("t") == {0}
            with pytest.raises(UnknownTopicOrPartition):
                await consumer.assign([TopicPartition("u", 0)])
            with pytest.raises(InvalidGroupId):
                await consumer.commit()
            with pytest.raises(ValueError, match="nothing to skip"):
                await consumer.skip()
            await consumer.unsubscribe()
            assert consumer.assignment() == set()


@in_loop
async def test_a_hundred_waiting_consumers_have_no_thread_each() -> None:
    others = set(threading.enumerate())
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        consumers = [log.consumer("t", group_id=f"g{number}") for number in range(100)]
        await asyncio.gather(*(joined(consumer) for consumer in consumers))
        reading = [asyncio.create_task(consumer.getone()) for consumer in consumers]
        for consumer in consumers:
            while not consumer.assignment() or await consumer.position(T0) != 0:
                await turns()
        names = [one.name for one in set(threading.enumerate()) - others]
        assert names.count("pylog-heartbeat") == 1 and len(names) < 20, names
        async with log.producer() as producer:
            await producer.send_and_wait("t", b"x")
        assert values(await asyncio.gather(*reading)) == [b"x"] * 100


@in_loop
async def test_a_consumer_that_is_dropped_open_leaves_its_group() -> None:
    async with pylog.aio.open(":memory:") as log:
        await log.create_topic("t")
        consumer = log.consumer("t", group_id="g")
        await joined(consumer)
        with pytest.warns(ResourceWarning, match="a consumer of group 'g'"):
            del consumer
        while (await log.admin.describe_group("g")).members:
            pass


@in_loop
async def test_a_reader_of_a_directory_waits_for_its_owner(tmp_path: str) -> None:
    async with pylog.aio.open(tmp_path) as owner:
        await owner.create_topic("t")
        async with (
            pylog.aio.open(tmp_path, mode="read") as log,
            log.consumer("t", auto_offset_reset="earliest") as consumer,
            owner.producer() as producer,
        ):
            reading = asyncio.create_task(consumer.getone())
            await turns(20)
            await producer.send_and_wait("t", b"x")
            assert (await reading).value == b"x"
