"""An event loop that waits for a record receives the answer of a node itself."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import pylog
from pylog.aio import Producer
from pylog.client.network.network import LentLink, Network
from pylog.testing import StandIn
from support.loops import in_loop

LATE_MS = 5_000
ROUND = 0.001


@asynccontextmanager
async def warm(kafka: StandIn) -> AsyncIterator[tuple[Producer[Any, Any], Network]]:
    """A producer that has sent a record, and its network, whose thread sleeps."""
    kafka.log.create_topic("t", partitions=2)
    async with pylog.aio.connect(kafka.bootstrap_servers) as log, log.producer(linger_ms=0) as producer:
        await producer.send_and_wait("t", b"first", partition=0)
        network: Network = producer._client._cluster._transport._network  # type: ignore[attr-defined]
        settle(network)
        yield producer, network


def settle(network: Network) -> None:
    network._turn.take()
    network._turn.leave()


async def until_asked(kafka: StandIn, count: int) -> None:
    while len(kafka.requests_of("Produce")) < count:
        await asyncio.sleep(ROUND)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that a connection came back from."""
    found: list[int] = []
    take_back = LentLink.take_back

    def noted(lent: LentLink) -> None:
        found.append(threading.get_ident())
        take_back(lent)

    monkeypatch.setattr(LentLink, "take_back", noted)
    return found


@in_loop
async def test_a_loop_receives_the_answer_that_it_waits_for(threads: list[int]) -> None:
    with StandIn() as kafka:
        async with warm(kafka) as (producer, _):
            kafka.delay("Produce", LATE_MS)
            sending = asyncio.create_task(producer.send_and_wait("t", b"x", partition=0))
            await until_asked(kafka, 2)
            kafka.advance(LATE_MS)
            assert (await sending).offset == 1
            assert threads[-1] == threading.get_ident()


@in_loop
async def test_a_call_that_is_cancelled_gives_the_socket_back(threads: list[int]) -> None:
    with StandIn() as kafka:
        async with warm(kafka) as (producer, _):
            kafka.delay("Produce", LATE_MS)
            sending = asyncio.create_task(producer.send_and_wait("t", b"x", partition=0))
            await until_asked(kafka, 2)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert threads[-1] == threading.get_ident()
            kafka.advance(LATE_MS)
            assert (await producer.send_and_wait("t", b"y", partition=0)).offset == 2


@in_loop
async def test_a_call_that_blocks_the_loop_receives_the_answer(threads: list[int]) -> None:
    with StandIn() as kafka:
        async with warm(kafka) as (producer, _):
            kafka.delay("Produce", LATE_MS)
            sending = asyncio.create_task(producer.send_and_wait("t", b"x", partition=0))
            await until_asked(kafka, 2)
            kafka.advance(LATE_MS)
            producer._client.flush(None)
            assert sending.done() is False and not producer._client.batches.unanswered
            assert (await sending).offset == 1
            assert (await producer.send_and_wait("t", b"y", partition=0)).offset == 2


@in_loop
async def test_answers_to_several_calls_come(threads: list[int]) -> None:
    with StandIn() as kafka:
        async with warm(kafka) as (producer, _):
            kafka.delay("Produce", LATE_MS)
            sending = [asyncio.create_task(producer.send_and_wait("t", b"x", partition=at)) for at in (0, 1, 0)]
            await until_asked(kafka, 2)
            kafka.advance(LATE_MS)
            assert sorted([(await one).offset for one in sending]) == [0, 1, 2]


@in_loop
async def test_a_loop_does_not_wait_for_a_network_that_is_at_work(threads: list[int]) -> None:
    with StandIn() as kafka:
        async with warm(kafka) as (producer, network):
            kafka.delay("Produce", LATE_MS)
            sending = asyncio.create_task(producer.send_and_wait("t", b"x", partition=0))
            await until_asked(kafka, 2)
            network._turn.take()
            kafka.advance(LATE_MS)
            while len(threads) < 1:
                await asyncio.sleep(ROUND)
            network._turn.leave()
            assert (await sending).offset == 1


@in_loop
async def test_a_connection_that_ends_fails_the_call_in_the_loop() -> None:
    with StandIn() as kafka:
        async with warm(kafka) as (producer, _):
            kafka.drop("Produce")
            sending = asyncio.create_task(producer.send_and_wait("t", b"x", partition=0))
            await until_asked(kafka, 2)
            kafka.kill()
            kafka.restart()
            assert (await sending).offset in (1, 2)
