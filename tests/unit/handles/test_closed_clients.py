"""What calls of clients raise after their log was closed: Closed, whatever they have done before, and however the log
was reached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.errors import Closed
from pylog.handles.client_half import ClientHalf
from support.ways import WAYS, Reach, reached

PART = TopicPartition("t", 0)


@pytest.fixture(params=WAYS)
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reach]:
    """Opens a log in one of the ways."""
    with reached(request.param, tmp_path / "log") as reach:
        yield reach


def made(reach: Reach) -> ClientHalf[Any]:
    log = reach()
    log.create_topic("t", exist_ok=True)
    return log


PRODUCER_CALLS: dict[str, Callable[[pylog.Producer], object]] = {
    "send": lambda producer: producer.send("t", b"x"),
    "send to a partition": lambda producer: producer.send("t", b"x", partition=0),
    "send with a key": lambda producer: producer.send("t", b"x", b"k", headers=[("h", b"")]),
    "partitions_for": lambda producer: producer.partitions_for("t"),
}
CONSUMER_CALLS: dict[str, Callable[[pylog.Consumer], object]] = {
    "poll": lambda consumer: consumer.poll(1000),
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "assign": lambda consumer: consumer.assign([PART]),
    "commit": lambda consumer: consumer.commit({PART: 0}),
    "committed": lambda consumer: consumer.committed(PART),
    "end_offsets": lambda consumer: consumer.end_offsets([PART]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({PART: 0}),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("t"),
    "topics": lambda consumer: consumer.topics(),
}
SHARE_CALLS: dict[str, Callable[[pylog.ShareConsumer], object]] = {
    "poll": lambda consumer: consumer.poll(1000),
    "next": next,
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "commit_sync": lambda consumer: consumer.commit_sync(),
    "commit_async": lambda consumer: consumer.commit_async(),
}
ADMIN_CALLS: dict[str, Callable[[pylog.Admin], object]] = {
    "list_groups": lambda admin: admin.list_groups(),
    "committed": lambda admin: admin.committed("g"),
    "lag": lambda admin: admin.lag("g"),
    "create_topics": lambda admin: admin.create_topics({"u": 1}),
    "describe_group_config": lambda admin: admin.describe_group_config("g"),
    "topics": lambda admin: admin.topics(),
}


@pytest.mark.parametrize("is_used", [False, True])
def test_a_producer_of_a_closed_log_raises_closed(reach: Reach, is_used: bool) -> None:
    log = made(reach)
    producer = log.producer()
    if is_used:
        producer.send("t", b"x").result()
    log.close()
    for call in PRODUCER_CALLS.values():
        with pytest.raises(Closed):
            call(producer)


@pytest.mark.parametrize("is_used", [False, True])
def test_a_consumer_of_a_closed_log_raises_closed(reach: Reach, is_used: bool) -> None:
    log = made(reach)
    consumer = log.consumer("t", group_id="g")
    if is_used:
        consumer.poll()
        consumer.partitions_for_topic("t")
    log.close()
    for call in CONSUMER_CALLS.values():
        with pytest.raises(Closed):
            call(consumer)
    with pytest.raises(StopIteration):
        next(consumer)


@pytest.mark.parametrize("is_used", [False, True])
def test_a_share_consumer_of_a_closed_log_raises_closed(reach: Reach, is_used: bool) -> None:
    log = made(reach)
    consumer = log.share_consumer("t", group_id="s")
    if is_used:
        consumer.poll()
    log.close()
    for call in SHARE_CALLS.values():
        with pytest.raises(Closed):
            call(consumer)


@pytest.mark.parametrize("is_used", [False, True])
def test_an_admin_of_a_closed_log_raises_closed(reach: Reach, is_used: bool) -> None:
    log = made(reach)
    admin = log.admin
    if is_used:
        admin.topics()
    log.close()
    for call in (*ADMIN_CALLS.values(), lambda _: log.admin.list_groups(), lambda _: log.topics()):
        with pytest.raises(Closed):
            call(admin)


def test_a_client_that_was_closed_by_itself_raises_closed(reach: Reach) -> None:
    with made(reach) as log:
        producer, consumer, sharer = log.producer(), log.consumer("t"), log.share_consumer("t", group_id="s")
        for client in (producer, consumer, sharer):
            client.close()
        with pytest.raises(Closed):
            producer.send("t", b"x")
        with pytest.raises(Closed):
            consumer.topics()
        with pytest.raises(Closed):
            sharer.poll()


def test_clients_of_asyncio_raise_closed_after_their_log_was_closed(tmp_path: Path) -> None:
    async def main() -> None:
        log = await pylog.aio.open(tmp_path / "log")
        await log.create_topic("t")
        producer, consumer, admin = log.producer(), log.consumer("t"), log.admin
        sharer = log.share_consumer("t", group_id="s")
        await log.close()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: producer.send("t", b"x"), lambda: producer.send_and_wait("t", b"x"), consumer.getone,
            consumer.topics, lambda: consumer.partitions_for_topic("t"), sharer.poll, sharer.commit_sync,
            admin.list_groups, log.topics, lambda: producer.partitions_for("t"),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(Closed):
                await call()

    asyncio.run(main())


def test_other_logs_on_one_transport_are_away_and_not_closed_for_their_clients() -> None:
    """A node that is gone may come back: its neighbours are told of the network, and send again."""
    transport = pylog.MemoryTransport()
    with pylog.open(":memory:", node_id=1, transport=transport) as first:
        second = pylog.open(":memory:", node_id=2, transport=transport)
        second.close()
        with pytest.raises(pylog.errors.NetworkError):
            first._cluster.ask(first._cluster.question([]), node=2)
