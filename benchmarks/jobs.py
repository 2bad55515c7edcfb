"""A work queue: jobs of 100 bytes that wait are taken one at a time, and each is acknowledged before the next is taken.

    pylog in process, served    a loop over a share consumer, of one record a poll
    Kafka's share groups        confluent-kafka's ShareConsumer at a broker: a poll of one, which accepts the one before
    Redis Streams               XREADGROUP of one, XACK
    persist-queue               SQLiteAckQueue: get, ack
    huey (SQLite)               dequeue: it has no acknowledgment, what a killed worker had is lost
    sqlite3                     UPDATE ... RETURNING of the oldest free row, then DELETE

One worker, and eight threads on one partition. "durable": an acknowledgment outlives a power cut; else a kill alone
(Redis syncs each second, SQLite never).
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import kafka_node
import pylog
from brokers import redis_client
from harness import Skipped, Way, keys_and_values, measure, report, scaled, scratch, skipping, stopwatch
from nodes import served

JOBS = scaled(usual=1_000, quick=16)
DURABLE_JOBS = scaled(usual=300, quick=16)
ROUNDS = scaled(usual=5, quick=1)
WORKERS = 8
VALUES = [value for _, value in keys_and_values(JOBS + WORKERS)]
GROUP = "workers"
EARLIEST = {"share.auto.offset.reset": "earliest"}
ONE: Any = {"max_poll_records": 1, "share_acquire_mode": "record_limit"}
IN_PROCESS, SERVED, REDIS = "pylog in process", "pylog served", "Redis Streams"
KAFKA = "Kafka (confluent-kafka)"
PERSIST_QUEUE, HUEY, SQLITE = "persist-queue", "huey (SQLite)", "sqlite3"

Taker = Callable[[], object]
"""Takes one job and acknowledges it."""


class Queue:
    """A queue: `put` adds jobs, `taker` is called by each worker, in its thread, and gives what takes a job there."""

    def __init__(self, put: Callable[[list[bytes]], object], taker: Callable[[], Any]) -> None:
        self._put, self._taker = put, taker

    def way(self, workers: int, jobs: int) -> Way:
        """So many workers take so many jobs, which lie there before."""

        def take(number: int, ready: threading.Barrier) -> None:
            with self._taker() as one:
                # The first one joins the group, or opens a file.
                one()
                ready.wait()
                for _ in range(number):
                    one()
                ready.wait()

        def run() -> float:
            self._put(VALUES[: jobs + workers])
            ready = threading.Barrier(workers + 1)
            threads = [threading.Thread(target=take, args=(jobs // workers, ready)) for _ in range(workers)]
            for thread in threads:
                thread.start()
            ready.wait()
            taken = stopwatch()
            ready.wait()
            seconds = taken()
            for thread in threads:
                thread.join()
            return seconds / (jobs // workers * workers)

        return run


# --- pylog ------------------------------------------------------------------------------------------------------------


def pylog_queue(log: pylog.Log) -> Queue:
    topics = (f"jobs-{number}" for number in count())
    topic = ""

    def put(values: list[bytes]) -> None:
        # A topic of its own: a new share group begins at its start.
        nonlocal topic
        topic = next(topics)
        log.create_topic(topic)
        log.admin.alter_group_config(topic, EARLIEST)
        with log.producer() as producer:
            for value in values:
                producer.send(topic, value)

    @contextmanager
    def taker() -> Iterator[Taker]:
        with log.share_consumer(topic, group_id=topic, **ONE) as consumer:
            # To take the next one accepts the one before, in one request.
            yield lambda: next(consumer)

    return Queue(put, taker)


@contextmanager
def in_process(folder: Path, *, durable: bool) -> Iterator[Queue]:
    with pylog.open(folder / "pylog", flush="sync" if durable else "none") as log:
        yield pylog_queue(log)


@contextmanager
def behind_a_server(folder: Path, *, durable: bool) -> Iterator[Queue]:
    with served(folder / "served", "--flush", "sync" if durable else "none") as node:  # noqa: SIM117
        with pylog.connect(node.servers) as log:
            yield pylog_queue(log)


# --- Kafka ------------------------------------------------------------------------------------------------------------


@contextmanager
def kafka_share_group(folder: Path, *, durable: bool) -> Iterator[Queue]:
    kafka_node.require()
    import confluent_kafka

    settings = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
    if durable:
        settings["log.flush.interval.messages"] = "1"
    with kafka_node.broker(folder / "kafka", folder, settings) as node, pylog.connect(node.servers) as log:
        topics = (f"jobs-{number}" for number in count())
        topic = ""
        own = {"bootstrap.servers": node.servers, "log_level": 0}

        def put(values: list[bytes]) -> None:
            nonlocal topic
            topic = next(topics)
            log.create_topic(topic)
            log.admin.alter_group_config(topic, EARLIEST)
            # librdkafka has no limit that holds: one record comes alone where its batch has no other one.
            producer = confluent_kafka.Producer({**own, "batch.num.messages": 1})
            for value in values:
                producer.produce(topic, value)
            producer.flush()

        @contextmanager
        def taker() -> Iterator[Taker]:
            consumer: Any = confluent_kafka.ShareConsumer({**own, "group.id": topic, "max.poll.records": 1})
            consumer.subscribe([topic])

            def take() -> None:
                while not (found := consumer.poll(1)):
                    pass
                assert len(found) == 1

            yield take
            consumer.close()

        yield Queue(put, taker)


# --- the others -------------------------------------------------------------------------------------------------------


@contextmanager
def redis_streams(folder: Path, *, durable: bool) -> Iterator[Queue]:
    with redis_client(folder / "redis", durable=durable) as client:
        client.xgroup_create("jobs", GROUP, id="0", mkstream=True)
        names = count()

        def put(values: list[bytes]) -> None:
            client.delete("jobs")
            client.xgroup_create("jobs", GROUP, id="0", mkstream=True)
            pipeline = client.pipeline(transaction=False)
            for value in values:
                pipeline.xadd("jobs", {"v": value})
            pipeline.execute()

        @contextmanager
        def taker() -> Iterator[Taker]:
            name = f"worker-{next(names)}"

            def take() -> None:
                ((_, ((job, _),)),) = client.xreadgroup(GROUP, name, {"jobs": ">"}, count=1, block=10_000)
                client.xack("jobs", GROUP, job)

            yield take

        yield Queue(put, taker)


@contextmanager
def persist_queue(folder: Path, *, durable: bool) -> Iterator[Queue]:
    if durable:
        raise Skipped("persist-queue does not say when it syncs")
    from persistqueue import SQLiteAckQueue

    queue: Any = SQLiteAckQueue(str(folder / "queue"), multithreading=True, auto_commit=True)

    def put(values: list[bytes]) -> None:
        for value in values:
            queue.put(value)

    @contextmanager
    def taker() -> Iterator[Taker]:
        yield lambda: queue.ack(queue.get())

    yield Queue(put, taker)
    queue.close()


@contextmanager
def huey_sqlite(folder: Path, *, durable: bool) -> Iterator[Queue]:
    from huey import SqliteHuey

    huey: Any = SqliteHuey(filename=str(folder / "huey.db"), fsync=durable)
    handle = huey.task()(len)

    def put(values: list[bytes]) -> None:
        for value in values:
            handle(value)

    @contextmanager
    def taker() -> Iterator[Taker]:
        yield lambda: huey.execute(huey.dequeue())

    yield Queue(put, taker)


@contextmanager
def sqlite_table(folder: Path, *, durable: bool) -> Iterator[Queue]:
    path = folder / "jobs.db"

    def connection() -> sqlite3.Connection:
        made = sqlite3.connect(path, isolation_level=None, timeout=60)
        made.execute("PRAGMA journal_mode = WAL")
        made.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        return made

    first = connection()
    first.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, value BLOB, taken INTEGER DEFAULT 0)")
    first.execute("CREATE INDEX free ON jobs (id) WHERE taken = 0")

    def put(values: list[bytes]) -> None:
        first.execute("BEGIN")
        first.execute("DELETE FROM jobs")
        first.executemany("INSERT INTO jobs (value) VALUES (?)", [(value,) for value in values])
        first.execute("COMMIT")

    @contextmanager
    def taker() -> Iterator[Taker]:
        mine = connection()
        oldest = "UPDATE jobs SET taken = 1 WHERE id = (SELECT min(id) FROM jobs WHERE taken = 0) RETURNING id, value"

        def take() -> None:
            ((job, _),) = mine.execute(oldest).fetchall()
            mine.execute("DELETE FROM jobs WHERE id = ?", (job,))

        yield take
        mine.close()

    yield Queue(put, taker)
    first.close()


# --- all of them ------------------------------------------------------------------------------------------------------

QUEUES: dict[str, Callable[..., Any]] = {
    IN_PROCESS: in_process, SERVED: behind_a_server, KAFKA: kafka_share_group, REDIS: redis_streams,
    PERSIST_QUEUE: persist_queue, HUEY: huey_sqlite, SQLITE: sqlite_table,
}  # fmt: skip


def ways(stack: ExitStack, folder: Path, *, durable: bool) -> dict[str, Way]:
    """A way for each queue and number of workers, until the stack ends."""
    found: dict[str, Way] = {}
    jobs = DURABLE_JOBS if durable else JOBS
    for name, queue in QUEUES.items():
        place = folder / f"{name}-{durable}"
        place.mkdir()
        names = {workers: f"{name}, {workers}{', durable' * durable}" for workers in (1, WORKERS)}
        try:
            made: Queue = stack.enter_context(queue(place, durable=durable))
        except (Skipped, ModuleNotFoundError) as error:
            found |= skipping(names.values(), error)
        else:
            found |= {way: made.way(workers, jobs) for workers, way in names.items()}
    return found


def main() -> None:
    figures = []
    for durable in (False, True):
        with scratch() as folder, ExitStack() as stack:
            measured = measure(ways(stack, folder, durable=durable), ROUNDS, unit="job")
        for workers in (1, WORKERS):
            end = f", {workers}{', durable' * durable}"
            figures += [
                measured.speed(f"{who}{end}", f"{who}{end}", f"{other}{end}")
                for other in (KAFKA, REDIS, PERSIST_QUEUE, HUEY, SQLITE) for who in (IN_PROCESS, SERVED)
            ]  # fmt: skip
    report(
        "jobs",
        figures,
        jobs=[JOBS, DURABLE_JOBS],
    )


if __name__ == "__main__":
    main()
