"""What a Python program would run in place of Kafka (Redis Streams, NATS JetStream), against pylog alone and served.

Each server is a process of its own on this machine, reached by its usual Python client (redis-py with hiredis,
nats-py); pylog is the library in this process, and `pylog serve` behind pylog's own client. Values have 100 bytes.

    one at a time    each record is answered before the next is sent
    many             Redis: pipelines of 1,000; NATS: `publish_async`; pylog: `send`, then `flush`
    consume          lists of 1,000: XREAD, a pull consumer without acknowledgments, `poll`
    durable          one at a time; an answer outlives a power cut

What an answer promises elsewhere: Redis with `appendfsync everysec` loses up to a second or two at a power cut, and so
does pylog with `flush="interval"`; NATS syncs every two minutes. Redis keeps the whole stream in memory.
"""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import peers
import pylog
from harness import Skipped, Way, keys_and_values, measure, report, scaled, scratch, skipping, stopwatch
from kafka_node import free_port
from nodes import served

SINGLE, SYNCED = scaled(usual=2_000, quick=20), scaled(usual=300, quick=5)
MANY = scaled(usual=50_000, quick=200)
ROUNDS = scaled(usual=5, quick=1)
AT_ONCE = 1_000
UP_SECONDS = 20.0
TOPIC = "bench"
IN_PROCESS, SERVED, REDIS, NATS = "pylog in process", "pylog served", "Redis", "NATS"
ROWS = [value for _, value in keys_and_values(MANY)]

Ways = dict[str, Way]
"""A way for each work: "one at a time", "many", "consume", or "durable" alone."""


def ways(
    single: Callable[[int], float], many: Callable[[], float], consume: Callable[[], float], *, durable: bool
) -> Ways:
    """The works of one broker, out of its three loops. `single` gets the number of records."""
    if durable:
        return {"durable": lambda: single(SYNCED)}
    return {"one at a time": lambda: single(SINGLE), "many": many, "consume": consume}


@contextmanager
def server(name: str, get: str, port: int, *words: str) -> Iterator[None]:
    """Run another server until it listens on a port. `get` says how to have it."""
    if shutil.which(name) is None:
        raise Skipped(f"{name} is not on the PATH: {get}")
    with subprocess.Popen([name, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + UP_SECONDS
            while True:
                assert process.poll() is None and time.monotonic() < until, f"{name} did not start"
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


# --- pylog ------------------------------------------------------------------------------------------------------------


def pylog_ways(log: pylog.Log, *, durable: bool) -> Ways:
    log.create_topic(TOPIC)
    single = log.producer(linger_ms=0)
    bulk = log.producer()

    def one_at_a_time(count: int) -> float:
        taken = stopwatch()
        for value in ROWS[:count]:
            single.send(TOPIC, value).result()
        return taken() / count

    def many() -> float:
        taken = stopwatch()
        for value in ROWS:
            bulk.send(TOPIC, value)
        bulk.flush()
        return taken() / MANY

    def consume() -> float:
        with log.consumer(TOPIC, auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
            taken, size, left = stopwatch(), 0, MANY
            while left > 0:
                records = consumer.poll(timeout_ms=10_000)
                left -= len(records)
                size += sum(len(record.value) for record in records)
            return taken() / (MANY - left)

    return ways(one_at_a_time, many, consume, durable=durable)


@contextmanager
def in_process(folder: Path, *, durable: bool) -> Iterator[Ways]:
    with pylog.open(folder / "pylog", flush="sync" if durable else "interval") as log:
        yield pylog_ways(log, durable=durable)


@contextmanager
def behind_a_server(folder: Path, *, durable: bool) -> Iterator[Ways]:
    with served(folder / "served", "--flush", "sync" if durable else "interval") as node:  # noqa: SIM117
        with pylog.connect(node.servers) as log:
            yield pylog_ways(log, durable=durable)


# --- Redis ------------------------------------------------------------------------------------------------------------


@contextmanager
def redis_client(folder: Path, *, durable: bool) -> Iterator[Any]:
    """A Redis server of its own, with an append-only file, and a client."""
    import redis

    folder.mkdir()
    port = free_port()
    words = {
        "--port": port, "--bind": "127.0.0.1", "--dir": folder, "--save": "", "--appendonly": "yes",
        "--appendfsync": "always" if durable else "everysec",
    }  # fmt: skip
    get = "Debian has it as redis-server"
    with server("redis-server", get, port, *(str(word) for pair in words.items() for word in pair)):
        client: Any = redis.Redis("127.0.0.1", port)
        yield client
        client.close()


@contextmanager
def redis_streams(folder: Path, *, durable: bool) -> Iterator[Ways]:
    with redis_client(folder / "redis", durable=durable) as client:
        yield redis_ways(client, durable=durable)


def redis_ways(client: Any, *, durable: bool) -> Ways:
    def one_at_a_time(count: int) -> float:
        taken = stopwatch()
        for value in ROWS[:count]:
            client.xadd(TOPIC, {"v": value})
        return taken() / count

    def many() -> float:
        taken = stopwatch()
        for some in peers.chunks(ROWS, AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for value in some:
                pipeline.xadd(TOPIC, {"v": value})
            pipeline.execute()
        return taken() / MANY

    def consume() -> float:
        taken, size, left, last = stopwatch(), 0, MANY, b"0"
        while left > 0:
            ((_, entries),) = client.xread({TOPIC: last}, count=AT_ONCE)
            left -= len(entries)
            last = entries[-1][0]
            size += sum(len(fields[b"v"]) for _, fields in entries)
        return taken() / (MANY - left)

    return ways(one_at_a_time, many, consume, durable=durable)


# --- NATS -------------------------------------------------------------------------------------------------------------


@contextmanager
def jetstream(folder: Path, *, durable: bool) -> Iterator[Ways]:
    import nats

    port, settings = free_port(), folder / "nats.conf"
    sync = "sync_interval: always" if durable else ""
    settings.write_text(f'jetstream {{ store_dir: "{folder / "nats"}"\n{sync}\n}}\n')
    get = "go install github.com/nats-io/nats-server/v2@latest"
    with (
        server("nats-server", get, port, "-c", str(settings), "-a", "127.0.0.1", "-p", str(port)),
        asyncio.Runner() as loop,
    ):
        client: Any = loop.run(nats.connect(f"nats://127.0.0.1:{port}"))
        yield nats_ways(client.jetstream(), loop, durable=durable)
        loop.run(client.close())


def nats_ways(stream: Any, loop: asyncio.Runner, *, durable: bool) -> Ways:
    from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

    loop.run(stream.add_stream(StreamConfig(name=TOPIC, subjects=[TOPIC], storage=StorageType.FILE)))

    async def one_at_a_time(count: int) -> float:
        taken = stopwatch()
        for value in ROWS[:count]:
            await stream.publish(TOPIC, value)
        return taken() / count

    async def many() -> float:
        taken = stopwatch()
        for value in ROWS:
            await stream.publish_async(TOPIC, value, wait_stall=UP_SECONDS)
        await stream.publish_async_completed()
        return taken() / MANY

    async def consume() -> float:
        reader = await stream.pull_subscribe(TOPIC, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
        taken, size, left = stopwatch(), 0, MANY
        while left > 0:
            messages = await reader.fetch(min(AT_ONCE, left), timeout=UP_SECONDS)
            left -= len(messages)
            size += sum(len(message.data) for message in messages)
        seconds = taken() / (MANY - left)
        await reader.unsubscribe()
        return seconds

    return ways(
        lambda count: loop.run(one_at_a_time(count)), lambda: loop.run(many()), lambda: loop.run(consume()),
        durable=durable,
    )  # fmt: skip


# --- all of them ------------------------------------------------------------------------------------------------------

BROKERS: dict[str, Callable[..., Any]] = {
    IN_PROCESS: in_process, SERVED: behind_a_server, REDIS: redis_streams, NATS: jetstream,
}  # fmt: skip
WORKS = {"one at a time": False, "many": False, "consume": False, "durable": True}


def all_ways(stack: ExitStack, folder: Path, *, durable: bool) -> Ways:
    """A way for each work and broker, which run until the stack ends."""
    works = [work for work, is_durable in WORKS.items() if is_durable == durable]
    found: Ways = {}
    for name, broker in BROKERS.items():
        place = folder / f"{name}-{durable}"
        place.mkdir()
        try:
            its_ways = stack.enter_context(broker(place, durable=durable))
        except (Skipped, ModuleNotFoundError) as error:
            its_ways = skipping(works, error)
        found |= {f"{work}, {name}": its_ways[work] for work in works}
    return found


def main() -> None:
    figures = []
    for durable in (False, True):
        with scratch() as folder, ExitStack() as stack:
            measured = measure(all_ways(stack, folder, durable=durable), ROUNDS)
        for work, is_durable in WORKS.items():
            if is_durable == durable:
                figures += [
                    measured.speed(f"{work}, {who}", f"{work}, {who}", f"{work}, {other}")
                    for other in (REDIS, NATS) for who in (IN_PROCESS, SERVED)
                ]  # fmt: skip
    report(
        "brokers",
        figures,
        records=[SINGLE, MANY, SYNCED],
    )


if __name__ == "__main__":
    main()
