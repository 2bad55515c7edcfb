"""Workers in an event loop: each job is accepted once or is among the dead letters, whatever it raises."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.aio import Workers
from pylog.record import ShareRecord, TopicPartition
from pylog.runtime.clock import MovableClock
from pylog.workers import Reject
from support.loops import in_loop, turns

LOCK_MS, HOUR_MS = 30_000, 3_600_000
JOBS = TopicPartition("jobs", 0)
Job = ShareRecord[Any, Any]
Log = pylog.aio.Log[pylog.TopicView]
CONFIG: Any = {
    "group.share.record.lock.duration.ms": LOCK_MS,
    # The time of these tests goes by quicker than heartbeats do.
    "group.share.max.session.timeout.ms": HOUR_MS,
    "group.share.session.timeout.ms": HOUR_MS,
}


class Opened:
    """A log with jobs in it."""

    def __init__(self, count: int, clock: MovableClock | None = None) -> None:
        self._count = count
        self._opening = pylog.aio.open(":memory:", config=CONFIG, clock=clock)

    async def __aenter__(self) -> Log:
        self.log = await self._opening.__aenter__()
        for topic in ("jobs", "jobs.dead"):
            await self.log.create_topic(topic)
        async with self.log.producer() as producer:
            for number in range(self._count):
                await producer.send("jobs", b"%d" % number, key=b"k", headers=[("trace", b"1")])
        return self.log

    async def __aexit__(self, *error: object) -> None:
        await self._opening.__aexit__(*error)


def crew(log: Log, work: Callable[[Job], Awaitable[object]], **config: Any) -> Workers:
    return Workers(log, "jobs", work, **{"group_id": "g", "dead_letter": "jobs.dead", **config})


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


async def left(log: Log) -> int | None:
    lag: int | None = (await log.admin.share_offsets("g"))[JOBS].lag
    return lag


async def dead(log: Log) -> list[pylog.ConsumerRecord]:
    return list((await log.topic("jobs.dead")).records())


async def nothing(_: Job) -> None:
    """A job."""


# --- what becomes of jobs ---------------------------------------------------------------------------------------------


@in_loop
async def test_each_job_is_done_once_by_one_of_many_tasks() -> None:
    done: list[bytes] = []

    async def work(record: Job) -> None:
        await asyncio.sleep(0)
        done.append(record.value)

    async with Opened(200) as log:
        async with crew(log, work, tasks=20) as workers:
            await until(lambda: workers.done == 200)
        assert sorted(done) == sorted(b"%d" % number for number in range(200))
        assert (repr(workers), await left(log)) == ("<Workers of group 'g': 200 done, 0 retried, 0 dead>", 0)


@in_loop
async def test_jobs_that_wait_hold_up_no_other() -> None:
    free = asyncio.Event()

    async def work(record: Job) -> None:
        if record.offset < 2:
            await free.wait()

    async with Opened(20) as log, crew(log, work, tasks=3) as workers:
        await until(lambda: workers.done == 18)
        free.set()
        await until(lambda: workers.done == 20)


@in_loop
async def test_a_job_that_raises_is_tried_again_in_its_place() -> None:
    calls: list[int] = []

    async def work(record: Job) -> None:
        calls.append(record.delivery_count)
        if len(calls) < 4:
            raise OSError("not yet")

    async with Opened(1) as log:
        async with crew(log, work, backoff_ms=1) as workers:
            await until(lambda: workers.done == 1)
        assert (calls, workers.retried, await left(log), await dead(log)) == ([1, 1, 1, 1], 3, 0, [])


@in_loop
async def test_a_job_that_raises_too_often_is_put_aside() -> None:
    calls: list[bytes] = []

    async def work(record: Job) -> None:
        calls.append(record.value)
        raise OSError("it never works")

    async with Opened(1) as log:
        async with crew(log, work, retries=2, backoff_ms=1) as workers:
            await until(lambda: workers.dead == 1)
        (letter,) = await dead(log)
        headers = dict(letter.headers)
        assert (letter.key, letter.value, len(calls), await left(log)) == (b"k", b"0", 3, 0)
        assert (headers["trace"], headers["__dlq.errors.message"]) == (b"1", b"it never works")
        assert headers["__dlq.errors.exception.class.name"] == b"OSError"


@in_loop
async def test_a_job_may_say_that_it_is_not_to_be_tried_again() -> None:
    async def work(_: Job) -> None:
        raise Reject("there is no thirteenth floor")

    async with Opened(1) as log:
        async with crew(log, work) as workers:
            await until(lambda: workers.dead == 1)
        assert (workers.retried, len(await dead(log))) == (0, 1)


@in_loop
async def test_without_a_topic_for_them_jobs_are_rejected_all_the_same() -> None:
    async def work(_: Job) -> None:
        raise Reject

    async with Opened(1) as log:
        async with crew(log, work, dead_letter=None) as workers:
            await until(lambda: workers.dead == 1)
        assert (await left(log), await dead(log)) == (0, [])


@in_loop
async def test_jobs_are_deserialized_and_put_aside_as_bytes() -> None:
    values: list[int] = []

    async def work(record: ShareRecord[bytes, int]) -> None:
        values.append(record.value)

    async with Opened(2) as log:
        async with log.producer() as producer:
            await producer.send("jobs", b"x")
        async with crew(log, work, value_deserializer=int) as workers:
            await until(lambda: (workers.done, workers.dead) == (2, 1))
        (letter,) = await dead(log)
        assert (values, letter.value) == ([0, 1], b"x")
        assert dict(letter.headers)["__dlq.errors.exception.class.name"] == b"ValueError"


@in_loop
async def test_a_record_is_put_aside_at_its_last_delivery() -> None:
    async with Opened(1) as log:
        config = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": 2}
        await log.admin.alter_group_config("g", config)
        async with log.share_consumer("jobs", group_id="g") as consumer:
            (record,) = await consumer.poll(HOUR_MS)
            consumer.acknowledge(record, "release")
        async with crew(log, nothing, group_config={}) as workers:
            await until(lambda: workers.dead == 1)
        (letter,) = await dead(log)
        assert (workers.done, dict(letter.headers)["__dlq.errors.delivery.count"]) == (0, b"2")


@in_loop
async def test_a_dead_letter_that_is_refused_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    async def work(_: Job) -> None:
        raise Reject

    async with Opened(1) as log:
        await log.alter_config("jobs.dead", {"max.message.bytes": 0})
        async with crew(log, work, backoff_ms=1) as workers:
            await until(lambda: "is tried again" in caplog.text)
            await log.alter_config("jobs.dead", delete=["max.message.bytes"])
            await until(lambda: workers.dead == 1)
        assert (workers.retried, len(await dead(log))) == (0, 1)


@in_loop
async def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    async with pylog.aio.open(tmp_path) as log:
        topic = await log.create_topic("jobs", config={"segment.bytes": 1 << 20})
        topic[0].append([pylog.Record(b"damaged")])
        topic[0].append([pylog.Record(b"whole")])
    with open(tmp_path / "jobs-0" / "00000000000000000000.log", "r+b") as file:
        file.seek(65)
        file.write(b"\xff")
    values: list[bytes] = []

    async def work(record: Job) -> None:
        values.append(record.value)

    async with (
        pylog.aio.open(tmp_path) as log,
        Workers(log, "jobs", work, group_id="g", group_config={"share.auto.offset.reset": "earliest"}) as workers,
    ):
        await until(lambda: workers.done == 1)
    assert values == [b"whole"]


# --- a job's time -----------------------------------------------------------------------------------------------------


class ClockLoop(asyncio.SelectorEventLoop):
    """A loop whose time goes by a clock that can be moved."""

    def __init__(self, clock: MovableClock) -> None:
        self._moved = clock
        super().__init__()

    def time(self) -> float:
        return self._moved.tick_ms() / 1000


def run_by(clock: MovableClock, main: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        await main()

    with asyncio.Runner(loop_factory=lambda: ClockLoop(clock)) as runner:
        runner.run(within())


async def go_by(clock: MovableClock, ms: int) -> None:
    """Let so much time go by, in steps in which locks may be renewed."""
    for _ in range(0, ms, LOCK_MS // 4):
        clock.advance(LOCK_MS // 4)
        await turns(10)


def test_a_lock_is_renewed_as_long_as_a_job_takes() -> None:
    clock, calls = MovableClock(), list[int]()

    async def main() -> None:
        free = asyncio.Event()

        async def work(record: Job) -> None:
            calls.append(record.delivery_count)
            await free.wait()

        async with Opened(1, clock) as log:
            async with crew(log, work, tasks=2) as workers:
                await until(lambda: bool(calls))
                await go_by(clock, 4 * LOCK_MS)
                free.set()
                await until(lambda: workers.done == 1)
            assert (calls, await left(log)) == ([1], 0)

    run_by(clock, main)


def test_pauses_hold_the_record_until_they_are_over() -> None:
    clock, calls = MovableClock(), list[int]()

    async def work(record: Job) -> None:
        calls.append(record.delivery_count)
        if len(calls) < 3:
            raise OSError("not yet")

    async def main() -> None:
        async with Opened(1, clock) as log:
            async with crew(log, work, backoff_ms=200_000, backoff_max_ms=300_000) as workers:
                await until(lambda: bool(calls))
                steps = 0
                while not workers.done:
                    await go_by(clock, LOCK_MS // 4)
                    steps += 1
            assert (calls, workers.retried, await left(log)) == ([1, 1, 1], 2, 0)
            # Half of 200 s and half of 300 s are the least.
            assert steps >= 250_000 // (LOCK_MS // 4)

    run_by(clock, main)


@in_loop
async def test_a_job_whose_time_is_over_is_cancelled_and_put_aside() -> None:
    ended: list[str] = []

    async def work(record: Job) -> None:
        if record.offset == 1:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with Opened(2) as log:
        async with crew(log, work, timeout_ms=1) as workers:
            await until(lambda: (workers.done, workers.dead) == (1, 1))
        (letter,) = await dead(log)
        headers = dict(letter.headers)
        assert (ended, workers.retried, await left(log)) == (["cancelled"], 0, 0)
        assert headers["__dlq.errors.message"] == b"it took more than 1 ms"
        assert headers["__dlq.errors.exception.class.name"] == b"TimeoutError"


@pytest.mark.parametrize("error", [None, OSError("it goes its own way")])
@in_loop
async def test_what_a_job_gives_after_its_time_does_not_count(error: Exception | None) -> None:
    async def work(_: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if error is not None:
                raise error from None

    async with Opened(1) as log:
        async with crew(log, work, timeout_ms=1) as workers:
            await until(lambda: workers.dead == 1)
        assert (workers.done, workers.retried) == (0, 0)


@in_loop
async def test_a_time_out_of_the_job_s_own_is_an_error_like_others() -> None:
    calls: list[int] = []

    async def work(_: Job) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise TimeoutError("no answer of a web service")

    async with Opened(1) as log, crew(log, work, timeout_ms=HOUR_MS, backoff_ms=1) as workers:
        await until(lambda: workers.done == 1)
    assert workers.retried == 1


@in_loop
async def test_a_job_in_which_something_was_cancelled_is_tried_again() -> None:
    calls: list[int] = []

    async def work(_: Job) -> None:
        calls.append(1)
        if len(calls) == 1:
            waiting = asyncio.get_running_loop().create_future()
            waiting.cancel()
            await waiting

    async with Opened(1) as log, crew(log, work, backoff_ms=1) as workers:
        await until(lambda: workers.done == 1)
    assert workers.retried == 1


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@in_loop
async def test_a_signal_lets_the_jobs_in_work_end_and_begins_no_other(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    async def work(_: Job) -> None:
        os.kill(os.getpid(), number)
        await until(lambda: workers.is_stopping)

    async with Opened(3) as log:
        async with crew(log, work) as workers:
            await workers.run()
        assert signal.getsignal(number) is before
        assert (workers.done, await left(log)) == (1, 2)


def test_a_second_signal_cancels_the_jobs_in_work() -> None:
    ended: list[str] = []

    async def main() -> None:
        async def work(_: Job) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            await until(lambda: workers.is_stopping)
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        async with Opened(1) as log:
            try:
                async with crew(log, work) as workers:
                    await workers.run()
            finally:
                ended.append(f"{workers.done} done")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert ended == ["cancelled", "0 done"]


@in_loop
async def test_jobs_of_workers_that_are_cancelled_are_given_to_others_at_once() -> None:
    begun = asyncio.Event()

    async def hang(_: Job) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Opened(1) as log:

        async def program() -> None:
            async with crew(log, hang) as workers:
                await workers.run()

        running = asyncio.create_task(program())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with crew(log, nothing) as others:
            await until(lambda: others.done == 1)


@in_loop
async def test_a_stop_in_a_pause_gives_the_job_to_others() -> None:
    failed = asyncio.Event()

    async def fail(_: Job) -> None:
        failed.set()
        raise OSError("not yet")

    async with Opened(1) as log:
        async with crew(log, fail, backoff_ms=HOUR_MS, backoff_max_ms=HOUR_MS) as workers:
            await failed.wait()
        assert (workers.done, workers.dead, await left(log)) == (0, 0, 1)
        async with crew(log, nothing) as others:
            await until(lambda: others.done == 1)


@in_loop
async def test_a_job_may_stop_the_workers() -> None:
    async def work(_: Job) -> None:
        workers.stop()

    async with Opened(2) as log:
        async with crew(log, work) as workers:
            await workers.run()
        assert (workers.done, await left(log)) == (1, 1)


def test_an_error_that_is_no_exception_ends_all_and_comes_out_of_run() -> None:
    async def main() -> None:
        async def work(_: Job) -> None:
            raise SystemExit(3)

        async with Opened(2) as log, crew(log, work, tasks=2) as workers:
            await workers.run()

    with pytest.raises(SystemExit):
        asyncio.run(main())


@in_loop
async def test_a_group_of_another_kind_ends_the_workers() -> None:
    async with Opened(1) as log, log.consumer("jobs", group_id="g") as consumer:
        await consumer.getmany()
        with pytest.raises(errors.PylogError):
            async with crew(log, nothing, tasks=2) as workers:
                await workers.run()


def test_a_log_that_closes_ends_its_workers(caplog: pytest.LogCaptureFixture) -> None:
    clock = MovableClock()

    async def main() -> None:
        begun, free = asyncio.Event(), asyncio.Event()

        async def work(_: Job) -> None:
            begun.set()
            await free.wait()
            raise Reject

        async with Opened(1, clock) as log:
            with pytest.raises(errors.Closed):
                async with crew(log, work) as workers:
                    await begun.wait()
                    await log.close()
                    clock.advance(LOCK_MS // 2)
                    await until(lambda: "the lock of jobs-0, offset 0 was not renewed" in caplog.text)
                    free.set()
                    await workers.run()
            assert workers.dead == 0

    run_by(clock, main)


@in_loop
async def test_workers_need_their_topic_for_dead_letters_before_they_begin() -> None:
    async with Opened(0) as log:
        with pytest.raises(errors.UnknownTopicOrPartition):
            await crew(log, nothing, dead_letter="nowhere").__aenter__()


@in_loop
async def test_workers_of_a_topic_that_cannot_be_leave_no_consumer_behind() -> None:
    async with Opened(0) as log:
        with pytest.raises(errors.InvalidTopic):
            await Workers(log, "no/topic", nothing, group_id="g", tasks=2).__aenter__()
        gc.collect()
        assert not log._clients


@in_loop
async def test_workers_begin_once() -> None:
    async with Opened(0) as log:
        workers = crew(log, nothing)
        await workers.close()
        async with workers:
            pass
        with pytest.raises(RuntimeError, match="make others"):
            await workers.__aenter__()


@in_loop
async def test_workers_by_a_network_share_with_those_of_threads() -> None:
    async with Opened(40) as log:
        server = log.sync.serve()
        done: list[bytes] = []

        async def work(record: Job) -> None:
            done.append(record.value)

        def work_in_thread(record: Job) -> None:
            done.append(record.value)

        with pylog.workers.Workers(log.sync, "jobs", work_in_thread, group_id="g") as threads:
            async with pylog.aio.connect(server.bootstrap_servers) as there, crew(there, work, tasks=4) as tasks:
                await until(lambda: threads.done + tasks.done == 40)
        assert sorted(done) == sorted(b"%d" % number for number in range(40))


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"retries": -1}, {"timeout_ms": 0}, {"backoff_ms": -1}])
@in_loop
async def test_numbers_have_limits(wrong: dict[str, int]) -> None:
    async with Opened(0) as log:
        with pytest.raises(ValueError, match="the least is"):
            crew(log, nothing, **wrong)


PROGRAM = """
import asyncio, sys
import pylog

async def work(record):
    print(record.offset, flush=True)
    await asyncio.Event().wait()

async def main():
    async with pylog.aio.open(sys.argv[1], mode="attach") as log:
        async with pylog.aio.Workers(log, "jobs", work, group_id="g", tasks=3) as workers:
            await workers.run()

asyncio.run(main())
"""


def test_the_jobs_of_a_process_that_is_killed_are_done_by_another_at_once(tmp_path: Path) -> None:
    deliveries: dict[int, int] = {}

    async def work(record: Job) -> None:
        deliveries[record.offset] = record.delivery_count

    async def main() -> None:
        async with pylog.aio.open(tmp_path / "log", config=CONFIG) as log:
            await log.create_topic("jobs")
            async with log.producer() as producer:
                for number in range(6):
                    await producer.send("jobs", b"%d" % number)
            command = [sys.executable, "-c", PROGRAM, os.fspath(tmp_path / "log")]
            other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            assert other.stdout is not None
            begun = {int(await other.stdout.readline()) for _ in range(3)}
            other.kill()
            await other.wait()
            async with Workers(log, "jobs", work, group_id="g", tasks=2) as workers:
                # Long before their locks end: the owner sees that the connections are gone.
                await until(lambda: workers.done == 6)
        assert deliveries == {offset: 2 if offset in begun else 1 for offset in range(6)}

    asyncio.run(main())


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Worker'"):
        pylog.aio.Worker  # type: ignore[attr-defined]  # noqa: B018
