"""asyncio: `pylog.aio` beside aiokafka, and how long a loop waits for its turn while consumers wait for records.

Both clients talk to one warm Kafka broker, which is a process of its own; "in process" is a log that the loop's own
process has open. Values have 100 bytes, the topic one partition; nothing is synced. The lag is how much later than
asked the loop wakes a task that sleeps 5 ms, again and again, for some seconds: of a loop that has nothing else to do,
and of one in which consumers, each in a group of its own, wait for records that do not come. On a busy machine the idle
loop is late, too; the processor time that waiting takes hides nothing.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import kafka_node
import pylog
from harness import Measured, Skipped, at_least, at_most, figure, measure, report, scaled, scratch, skipping, stopwatch
from results import Figure

COUNT = scaled(usual=50_000, quick=500)
SINGLE = scaled(usual=500, quick=20)
WAITING = scaled(usual=100, quick=4)
SECONDS = scaled(usual=5.0, quick=0.1)
ROUNDS = scaled(usual=5, quick=1)
VALUE = bytes(100)
PATIENCE_MS = 30_000
LOOK = 0.005
IN_PROCESS, PYLOG, AIOKAFKA = "in process", "pylog.aio", "aiokafka"
_topics = (f"aio-{number}" for number in count())

Make = Callable[[], Any]
"""Gives a client that is not entered yet."""


async def producing(producer: Any, topic: str) -> float:
    async with producer:
        await producer.send_and_wait(topic, VALUE)
        taken = stopwatch()
        for _ in range(COUNT):
            last = await producer.send(topic, VALUE)
        await last
        return taken() / COUNT


async def one_at_a_time(producer: Any, topic: str) -> float:
    async with producer:
        await producer.send_and_wait(topic, VALUE)
        seconds = []
        for _ in range(SINGLE):
            taken = stopwatch()
            await producer.send_and_wait(topic, VALUE)
            seconds.append(taken())
        return statistics.median(seconds)


async def many_at_once(consumer: Any) -> float:
    async with consumer:
        await consumer.getone()
        taken, left = stopwatch(), COUNT - 1
        while left > 0:
            left -= sum(map(len, (await consumer.getmany(timeout_ms=PATIENCE_MS)).values()))
        return taken() / COUNT


async def by_a_loop(consumer: Any) -> float:
    async with consumer:
        await consumer.getone()
        taken, left = stopwatch(), COUNT - 1
        async for _ in consumer:
            left -= 1
            if not left:
                return taken() / COUNT
    raise AssertionError("it does not end")


async def lags(seconds: float) -> list[float]:
    """How much later than asked a task wakes up."""
    found = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        await asyncio.sleep(LOOK)
        found.append(time.perf_counter() - begun - LOOK)
    return sorted(found)


async def waiting(consumers: list[Any]) -> tuple[list[float], float]:
    """The lags while they wait, and the share of a processor that they take."""
    async with AsyncExitStack() as stack:
        for consumer in await asyncio.gather(*map(stack.enter_async_context, consumers)):
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)
        tasks = [asyncio.create_task(consumer.getone()) for consumer in consumers]
        await asyncio.sleep(min(1.0, SECONDS))
        spent, taken = time.process_time(), stopwatch()
        found = await lags(SECONDS)
        share = (time.process_time() - spent) / taken()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found, share


class Ways:
    """The works by each client. `open_log` gives a log of `pylog.aio`; None: the client is aiokafka."""

    def __init__(self, servers: str, open_log: Callable[[], Any] | None) -> None:
        self._servers = servers
        self._open_log = open_log

    def _run(self, work: Callable[..., Awaitable[Any]], of: str, topics: list[str], **config: Any) -> Any:
        async def run() -> Any:
            async with AsyncExitStack() as stack:
                log = await stack.enter_async_context(self._open_log()) if self._open_log else None
                if log is not None and not self._servers:
                    await log.create_topic(topics[0], exist_ok=True)
                if of == "producer":
                    return await work(self._producer(log, **config), topics[0])
                if of == "consumer":
                    return await work(self._consumer(log, topics[0], **config))
                groups = [f"{topics[0]}-{number}" for number in range(WAITING)]
                return await work([self._consumer(log, topics[0], group_id=group) for group in groups])

        return asyncio.run(run())

    def _producer(self, log: Any, linger_ms: int = 5) -> Any:
        if log is not None:
            return log.producer(linger_ms=linger_ms)
        from aiokafka import AIOKafkaProducer

        return AIOKafkaProducer(bootstrap_servers=self._servers, linger_ms=linger_ms)

    def _consumer(self, log: Any, topic: str, **config: Any) -> Any:
        if log is not None:
            return log.consumer(topic, **config)
        from aiokafka import AIOKafkaConsumer

        return AIOKafkaConsumer(topic, bootstrap_servers=self._servers, **config)

    def _topic(self) -> str:
        name = next(_topics)
        if self._servers:
            kafka_node.create_topic(self._servers, name)
        return name

    def works(self) -> Iterator[tuple[str, Callable[[], float]]]:
        filled = self._topic()
        self._run(producing, "producer", [filled])
        yield "sends", lambda: self._run(producing, "producer", [self._topic()])
        yield "sends one at a time, p50", lambda: self._run(one_at_a_time, "producer", [self._topic()], linger_ms=0)
        for work, name in ((many_at_once, "getmany"), (by_a_loop, "async for")):
            yield (
                name,
                lambda work=work: self._run(work, "consumer", [filled], auto_offset_reset="earliest"),  # type: ignore[misc]
            )

    def waiting(self) -> tuple[list[float], float]:
        found: tuple[list[float], float] = self._run(waiting, "consumers", [self._topic()])
        return found


def clients(folder: Path, stack: ExitStack) -> tuple[dict[str, Ways], list[Skipped]]:
    """The clients, as far as they can run here."""
    found = {IN_PROCESS: Ways("", lambda: pylog.aio.open(folder / "log", flush="none"))}
    try:
        kafka_node.require()
    except Skipped as reason:
        return found, [reason]
    place = folder / "kafka"
    place.mkdir()
    servers = stack.enter_context(kafka_node.broker(place, folder, {})).servers
    return found | {PYLOG: Ways(servers, lambda: pylog.aio.connect(servers)), AIOKAFKA: Ways(servers, None)}, []


def of_waiting(found: dict[str, Ways], reasons: list[Skipped]) -> list[Figure]:
    figures, shares = [], {}
    seen = {"an idle loop": asyncio.run(lags(SECONDS))}
    for name, ways in found.items():
        seen[f"{WAITING} waiting consumers, {name}"], shares[name] = ways.waiting()
    for who, lag in seen.items():
        target = at_most(5.0) if who.endswith((IN_PROCESS, PYLOG)) else None
        figures.append(figure(f"lag, {who}, p99", 1000 * lag[len(lag) * 99 // 100], "ms", target))
        figures.append(figure(f"lag, {who}, most", 1000 * lag[-1], "ms"))
    missing = {} if not reasons else dict.fromkeys((PYLOG, AIOKAFKA), str(reasons[0]))
    measured = Measured({name: [share] for name, share in shares.items()}, missing, "s")
    for name, what in ((IN_PROCESS, IN_PROCESS), (PYLOG, "to a broker")):
        figures.append(measured.time(f"processor of {WAITING} waiting consumers, {what}", name, AIOKAFKA, at_most(1.0)))
    return figures


def main() -> None:
    with scratch() as folder, ExitStack() as stack:
        found, reasons = clients(folder, stack)
        ways = {f"{work}, {name}": way for name, of in found.items() for work, way in of.works()}
        works = [name.removesuffix(f", {IN_PROCESS}") for name in ways if name.endswith(IN_PROCESS)]
        for reason in reasons:
            ways |= skipping([f"{work}, {name}" for work in works for name in (PYLOG, AIOKAFKA)], reason)
        measured = measure(ways, ROUNDS)
        figures = []
        for work in works:
            theirs, target = f"{work}, {AIOKAFKA}", at_least(1.0)
            figures.append(measured.speed(f"{work}, to a broker", f"{work}, {PYLOG}", theirs, target))
            figures.append(measured.speed(f"{work}, {IN_PROCESS}", f"{work}, {IN_PROCESS}", theirs, target))
        figures += of_waiting(found, reasons)
    report(
        "aio",
        figures,
        records=[COUNT, SINGLE],
    )


if __name__ == "__main__":
    main()
