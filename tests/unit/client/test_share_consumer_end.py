"""The end of a share consumer: it waits for no records, and what it has not given to its program is free."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.errors import Closed, Wakeup
from support.clients.values import until
from support.ways import WAYS, Reach, reached

HOUR_MS = 3_600_000


@pytest.fixture(params=WAYS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A log with a topic and a group, reached in one of the ways."""
    with reached(request.param, tmp_path / "log") as reach, _filled(reach) as log:
        yield log


def _filled(reach: Reach) -> Any:
    log = reach()
    log.create_topic("t")
    log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
    return log


def member(log: Any, **config: Any) -> ShareConsumer:
    return log.share_consumer("t", group_id="g", fetch_max_wait_ms=HOUR_MS, **config)  # type: ignore[no-any-return]


def polling(consumer: ShareConsumer) -> threading.Thread:
    """A thread that waits for records, with a request for them at the node."""

    def poll() -> None:
        with suppress(Wakeup, Closed):
            consumer.poll(HOUR_MS)

    thread = threading.Thread(target=poll)
    thread.start()
    until(lambda: consumer._client._fetcher.is_busy)
    return thread


def given(consumer: ShareConsumer) -> list[Any]:
    while not (records := consumer.poll(HOUR_MS)):
        pass
    return records


def test_a_close_does_not_wait_until_a_request_for_records_ends(log: Any) -> None:
    consumer = member(log)
    thread = polling(consumer)
    consumer.wakeup()
    thread.join()
    consumer.close(HOUR_MS)


def test_a_record_that_comes_after_the_close_is_free(log: Any) -> None:
    consumer = member(log)
    thread = polling(consumer)
    consumer.wakeup()
    thread.join()
    consumer.close(HOUR_MS)
    with log.producer() as producer:
        producer.send("t", b"x").result()
    with member(log) as other:
        assert [(record.value, record.delivery_count) for record in given(other)] == [(b"x", 1)]


def test_a_log_closes_while_another_thread_waits_for_records(log: Any) -> None:
    thread = polling(member(log))
    log.close()
    thread.join()


def test_a_member_that_unsubscribes_is_given_nothing_of_what_it_had_before(log: Any) -> None:
    with log.producer() as producer:
        for value in (b"1", b"2", b"3"):
            producer.send("t", value)
    with member(log, max_poll_records=3) as consumer, member(log) as other:
        first = next(consumer)
        consumer.unsubscribe()
        assert [record.value for record in given(other)] == [b"2", b"3"]
        other.commit_sync()
        consumer.subscribe(["t"])
        assert consumer.poll() == []
        assert first.value == b"1"


def test_a_member_that_unsubscribes_while_it_waits_reads_on_later(log: Any) -> None:
    with member(log) as consumer:
        thread = polling(consumer)
        consumer.wakeup()
        thread.join()
        consumer.unsubscribe()
        consumer.subscribe(["t"])
        with log.producer() as producer:
            producer.send("t", b"x")
        assert [record.value for record in given(consumer)] == [b"x"]


def test_a_consumer_of_asyncio_closes_while_a_task_waits_for_records(tmp_path: Path) -> None:
    async def main() -> None:
        async with await pylog.aio.open(tmp_path / "log") as log:
            await log.create_topic("t")
            consumer = log.share_consumer("t", group_id="g", fetch_max_wait_ms=HOUR_MS)
            waiting = asyncio.ensure_future(consumer.poll(HOUR_MS))
            while not consumer._client._fetcher.is_busy:
                await asyncio.sleep(0)
            await consumer.close(HOUR_MS)
            with pytest.raises(Closed):
                await waiting

    asyncio.run(main())
