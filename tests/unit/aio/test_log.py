"""A log in an event loop: opening, closing, topics, the admin, a cluster behind a network."""

import asyncio
import inspect
import pickle
import threading

import pytest

import pylog
from pylog.aio.threads import Threads
from pylog.errors import Closed, NetworkError, ReadOnly, TopicAlreadyExists
from pylog.handles.client_half import ClientHalf
from support.loops import in_loop


@in_loop
async def test_a_log_is_awaited_or_entered_and_closes_what_it_has_made(tmp_path: str) -> None:
    others = set(threading.enumerate())
    log = await pylog.aio.open(tmp_path)
    await log.create_topic("t")
    consumer, producer = log.consumer("t", group_id="g", auto_offset_reset="earliest"), log.producer()
    await producer.send("t", b"x")
    await consumer.getone()
    await log.close()
    await log.close()
    with pytest.raises(Closed):
        await consumer.getmany()
    with pytest.raises(Closed):
        await producer.send("t", b"x")
    async with pylog.aio.open(tmp_path) as log:
        assert (await log.topic("t"))[0].high_watermark == 1
        assert (await log.admin.committed("g"))[pylog.TopicPartition("t", 0)].offset == 1
    assert not [one for one in set(threading.enumerate()) - others if one.name == "pylog-heartbeat"]


@in_loop
async def test_what_belongs_to_a_process_says_how_it_is_made_in_another() -> None:
    async with pylog.aio.open(":memory:") as log, log.producer() as producer, log.consumer(group_id="g") as consumer:
        for one, way in ((log, "pylog.open"), (producer, "log.producer"), (consumer, "log.consumer")):
            with pytest.raises(TypeError, match=f"is not pickled: .* there, by {way}"):
                pickle.dumps(one)


@in_loop
async def test_topics_and_the_admin_are_awaited() -> None:
    async with pylog.aio.open(":memory:") as log:
        view = await log.create_topic("t", config={"retention.ms": 1000})
        assert view.name == "t"
        with pytest.raises(TopicAlreadyExists):
            await log.create_topic("t")
        await log.alter_config("t", {"retention.ms": 2000})
        assert (await log.admin.describe_topic_config("t"))["retention.ms"].value == "2000"
        assert len(await log.create_partitions("t", 2)) == 2
        assert await log.delete_records({pylog.TopicPartition("t", 0): 0}) == {pylog.TopicPartition("t", 0): 0}
        assert await log.topics() == ["t"]
        assert "list_groups" in dir(log.admin)
        with pytest.raises(AttributeError):
            await log.admin.no_such_call()
        await log.delete_topic("t")
        assert await log.topics() == []


def test_a_log_has_the_calls_and_parameters_of_the_synchronous_one() -> None:
    calls = {name for name in dir(ClientHalf) if not name.startswith("_")}
    assert calls == {name for name in dir(pylog.aio.Log) if not name.startswith("_")}
    for name in calls - {"admin", "producer", "consumer", "share_consumer"}:
        ours, theirs = inspect.signature(getattr(pylog.aio.Log, name)), inspect.signature(getattr(ClientHalf, name))
        assert list(ours.parameters) == list(theirs.parameters), name


@in_loop
async def test_what_cannot_be_opened_raises_and_a_reader_does_not_send(tmp_path: str) -> None:
    with pytest.raises(pylog.errors.LogNotFound):
        await pylog.aio.open(f"{tmp_path}/none", mode="read")
    async with pylog.aio.open(tmp_path):
        pass
    async with pylog.aio.open(tmp_path, mode="read") as log:
        with pytest.raises(ReadOnly):
            log.producer()
    with pytest.raises(NetworkError):
        await pylog.aio.connect("127.0.0.1:1")


@in_loop
async def test_an_opening_that_is_cancelled_leaves_nothing_open() -> None:
    begun, go_on, undone = threading.Event(), threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        go_on.wait()
        return "made"

    threads = Threads()
    making = asyncio.create_task(threads.make(make, lambda made: undone.set() if made == "made" else None))
    await asyncio.to_thread(begun.wait)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    go_on.set()
    assert await asyncio.to_thread(undone.wait, 20)


@in_loop
async def test_a_cluster_behind_a_network_is_used_alike() -> None:
    async with pylog.aio.open(":memory:") as node:
        server = node.sync.serve()
        async with pylog.aio.connect(server.bootstrap_servers) as log:
            await log.create_topic("t")
            async with (
                log.producer() as producer,
                log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer,
            ):
                reading = asyncio.create_task(consumer.getone())
                assert (await producer.send_and_wait("t", b"x")).offset == 0
                assert (await reading).value == b"x"
                await consumer.commit()
                assert await consumer.committed(pylog.TopicPartition("t", 0)) == 1
                assert await consumer.lag() == {pylog.TopicPartition("t", 0): 0}
            async with log.producer(transactional_id="x") as producer, producer.transaction():
                await producer.send("t", b"y")
            assert await log.topics() == ["t"]
