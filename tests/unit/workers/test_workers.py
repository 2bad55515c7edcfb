"""Workers over a share group: each job is accepted once or is among the dead letters, whatever it raises."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.protocol.messages.share import DescribeShareGroupOffsetsRequest
from pylog.record import ShareRecord, TopicPartition
from pylog.runtime.clock import MovableClock
from pylog.workers import Reject, Workers
from pylog.workers.member import RETRY_MS
from support.patience import HANG_SECONDS
from support.threads import no_threads

LOCK_MS, HOUR_MS = 30_000, 3_600_000
JOBS = TopicPartition("jobs", 0)
Job = ShareRecord[Any, Any]


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def log(clock: MovableClock) -> Iterator[pylog.Log]:
    config: Any = {
        "group.share.record.lock.duration.ms": LOCK_MS,
        # The time of these tests goes by quicker than heartbeats do.
        "group.share.max.session.timeout.ms": HOUR_MS,
        "group.share.session.timeout.ms": HOUR_MS,
    }
    with pylog.open(":memory:", clock=clock, config=config) as opened:
        opened.create_topic("jobs")
        opened.create_topic("jobs.dead")
        yield opened


def crew(log: pylog.Log, work: Callable[[Job], object], **config: Any) -> Workers:
    return Workers(log, "jobs", work, **{"group_id": "g", "dead_letter": "jobs.dead", **config})


def fill(log: pylog.Log, count: int) -> None:
    with log.producer() as producer:
        for number in range(count):
            producer.send("jobs", b"%d" % number, key=b"k", headers=[("trace", b"1")])


def left(log: pylog.Log) -> int:
    """How many records the group has yet to do."""
    asked = DescribeShareGroupOffsetsRequest.of("g")
    return asked.found(log._cluster.ask(asked))[JOBS].lag


def dead(log: pylog.Log) -> list[pylog.ConsumerRecord]:
    return list(log.topic("jobs.dead").records())


class Ending:
    """A job's function that stops its workers in its last call of so many."""

    def __init__(self, work: Callable[[Job], object], ends: int) -> None:
        self._work = work
        self._left = ends
        self._lock = threading.Lock()
        self.workers: Future[Workers] = Future()
        self.calls: list[tuple[Any, int]] = []

    def __call__(self, record: Job) -> None:
        with self._lock:
            self.calls.append((record.value, record.delivery_count))
            self._left -= 1
            is_last = self._left == 0
        try:
            self._work(record)
        finally:
            if is_last:
                self.workers.result(HANG_SECONDS).stop()


def run(log: pylog.Log, work: Callable[[Job], object], ends: int, **config: Any) -> tuple[Workers, Ending]:
    """Work until the function was called so often."""
    ending = Ending(work, ends)
    with crew(log, ending, **config) as workers:
        ending.workers.set_result(workers)
        workers.run()
    return workers, ending


# --- what becomes of jobs ---------------------------------------------------------------------------------------------


def test_each_job_is_done_once_by_one_of_many_threads(log: pylog.Log) -> None:
    fill(log, 100)
    names = set()
    workers, ending = run(log, lambda _: names.add(threading.current_thread().name), 100, threads=4)
    assert Counter(value for value, _ in ending.calls) == Counter(b"%d" % number for number in range(100))
    assert (workers.done, workers.retried, workers.dead, left(log)) == (100, 0, 0, 0)
    assert repr(workers) == "<Workers of group 'g': 100 done, 0 retried, 0 dead>"
    assert names <= {f"pylog-workers-{number}" for number in range(4)}


def test_a_slow_job_holds_up_no_other(log: pylog.Log) -> None:
    fill(log, 20)
    others = threading.Semaphore(0)

    def work(record: Job) -> None:
        if record.offset:
            others.release()
        else:
            assert all(others.acquire(timeout=HANG_SECONDS) for _ in range(19))

    assert run(log, work, 20, threads=2)[0].done == 20


def test_a_job_that_raises_is_tried_again_in_its_place(log: pylog.Log) -> None:
    fill(log, 2)
    failures: Counter[Any] = Counter({b"0": 2})

    def work(record: Job) -> None:
        if failures[record.value]:
            failures[record.value] -= 1
            raise OSError("not yet")

    workers, ending = run(log, work, 4, retries=2, backoff_ms=0)
    assert ending.calls == [(b"0", 1), (b"0", 1), (b"0", 1), (b"1", 1)]
    assert (workers.done, workers.retried, workers.dead, left(log)) == (2, 2, 0, 0)


def test_a_job_that_raises_too_often_is_put_aside(log: pylog.Log) -> None:
    fill(log, 2)

    def work(record: Job) -> None:
        if record.offset == 0:
            raise OSError("no way")

    workers, _ = run(log, work, 3, retries=1, backoff_ms=0)
    assert (workers.done, workers.retried, workers.dead, left(log)) == (1, 1, 1, 0)
    (letter,) = dead(log)
    headers = dict(letter.headers)
    line = headers.pop("__dlq.errors.exception.stacktrace")
    assert line is not None and line.endswith(b", in work") and os.fsencode(__file__) in line
    assert (letter.key, letter.value, headers) == (
        b"k",
        b"0",
        {
            "trace": b"1", "__dlq.errors.topic": b"jobs", "__dlq.errors.partition": b"0", "__dlq.errors.offset": b"0",
            "__dlq.errors.group": b"g", "__dlq.errors.delivery.count": b"1", "__dlq.errors.message": b"no way",
            "__dlq.errors.exception.class.name": b"OSError",
        },
    )  # fmt: skip


def test_a_job_may_say_that_it_is_not_to_be_tried_again(log: pylog.Log) -> None:
    fill(log, 1)

    def work(_: Job) -> None:
        raise Reject("there is no such customer")

    workers, _ = run(log, work, 1)
    assert (workers.done, workers.retried, workers.dead, left(log)) == (0, 0, 1, 0)
    assert dict(dead(log)[0].headers)["__dlq.errors.exception.class.name"] == b"Reject"


def test_without_a_topic_for_them_jobs_are_rejected_all_the_same(log: pylog.Log) -> None:
    fill(log, 1)

    def work(_: Job) -> None:
        raise Reject

    assert run(log, work, 1, dead_letter=None)[0].dead == 1
    assert (left(log), dead(log)) == (0, [])


def test_jobs_are_deserialized_and_put_aside_as_bytes(log: pylog.Log) -> None:
    seen = []
    with log.producer() as producer:
        for value in (b"x", b"7"):
            producer.send("jobs", value)
    workers, _ = run(log, lambda record: seen.append(record.value), 1, value_deserializer=int)
    assert seen == [7]
    assert (workers.done, workers.retried, workers.dead, left(log)) == (1, 0, 1, 0)
    (letter,) = dead(log)
    assert (letter.value, dict(letter.headers)["__dlq.errors.exception.class.name"]) == (b"x", b"ValueError")


def test_a_registry_that_cannot_be_asked_is_asked_again(log: pylog.Log) -> None:
    fill(log, 1)
    answers: list[Any] = [errors.NetworkError("away"), "made"]
    seen = []

    def deserialize(_: bytes) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    workers, _ = run(
        log, lambda record: seen.append(record.value), 1, value_deserializer=deserialize, backoff_ms=0
    )  # fmt: skip
    assert (seen, workers.retried, workers.dead) == (["made"], 1, 0)


def test_workers_by_a_network(log: pylog.Log) -> None:
    fill(log, 10)

    def work(record: Job) -> None:
        if record.offset == 3:
            raise Reject

    with log.serve("127.0.0.1:0") as server, pylog.connect(server.bootstrap_servers) as connected:
        ending = Ending(work, 10)
        with Workers(connected, ["jobs"], ending, group_id="g", threads=2, dead_letter="jobs.dead") as workers:
            ending.workers.set_result(workers)
            workers.run()
    assert (workers.done, workers.dead, left(log)) == (9, 1, 0)


def test_a_record_is_put_aside_at_its_last_delivery(log: pylog.Log) -> None:
    fill(log, 1)
    config = {"share.delivery.count.limit": 2, "share.auto.offset.reset": "earliest"}
    log.admin.alter_group_config("g", config)
    with log.share_consumer("jobs", group_id="g") as killed:
        record = next(killed)
        killed.acknowledge(record, "release")
    with crew(log, print, group_config={}) as workers:
        wait_until(lambda: workers.dead == 1)
    assert b"delivered 2 times" in (dict(dead(log)[0].headers)["__dlq.errors.message"] or b"")
    assert left(log) == 0


def wait_until(is_so: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(HANG_SECONDS * 1000):
        if is_so():
            return
        moment.wait(0.001)
    raise AssertionError("it takes too long")


def test_a_dead_letter_that_is_refused_is_sent_again(log: pylog.Log) -> None:
    fill(log, 1)
    log.alter_config("jobs.dead", {"max.message.bytes": 10})

    def work(_: Job) -> None:
        raise Reject

    with crew(log, work, backoff_ms=1, backoff_max_ms=1) as workers:
        wait_until(lambda: workers._members[0]._resume is not None)
        log.alter_config("jobs.dead", {"max.message.bytes": 1 << 20})
        wait_until(lambda: workers.dead == 1)
    assert ([letter.value for letter in dead(log)], left(log)) == ([b"0"], 0)


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log, log.producer(linger_ms=0) as producer:
        log.create_topic("jobs")
        for number in range(3):
            producer.send("jobs", b"job-%d" % number).result()
        (file,) = tmp_path.glob("jobs-0/*.log")
        file.write_bytes(file.read_bytes().replace(b"job-1", b"job-9"))
        workers, ending = run(log, lambda _: None, 2, dead_letter=None)
        assert ([value for value, _ in ending.calls], left(log)) == ([b"job-0", b"job-2"], 0)
    assert workers.done == 2


# --- time -------------------------------------------------------------------------------------------------------------


def go_by(workers: Workers, clock: MovableClock, ms: int) -> None:
    """Let the time go by, as slowly as the timekeeper of the workers takes."""
    for _ in range(0, ms, 10_000):
        clock.advance(10_000)
        wait_until(lambda: (workers._due() or clock.tick_ms() + 1) > clock.tick_ms())


def test_a_lock_is_renewed_as_long_as_a_job_takes(log: pylog.Log, clock: MovableClock) -> None:
    fill(log, 1)
    begun, free = threading.Event(), threading.Event()
    calls = []

    def work(record: Job) -> None:
        calls.append(record.delivery_count)
        begun.set()
        assert free.wait(HANG_SECONDS)

    with crew(log, work, threads=2) as workers:
        assert begun.wait(HANG_SECONDS)
        go_by(workers, clock, 4 * LOCK_MS)
        free.set()
        wait_until(lambda: workers.done == 1)
    assert (calls, left(log)) == ([1], 0)


def test_pauses_hold_the_record_until_they_are_over(log: pylog.Log, clock: MovableClock) -> None:
    fill(log, 1)
    begun = threading.Event()
    calls = []

    def work(record: Job) -> None:
        calls.append(record.delivery_count)
        begun.set()
        if len(calls) < 3:
            raise OSError("not yet")

    with crew(log, work, backoff_ms=200_000, backoff_max_ms=300_000) as workers:
        assert begun.wait(HANG_SECONDS)
        steps = 0
        while not workers.done:
            go_by(workers, clock, 10_000)
            steps += 1
    assert (calls, workers.retried, left(log)) == ([1, 1, 1], 2, 0)
    # Half of 200 s and half of 300 s are the least.
    assert steps >= 25


def test_a_job_whose_time_is_over_is_put_aside_and_its_thread_replaced(
    log: pylog.Log, clock: MovableClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(log, 2)
    begun, free, other = threading.Event(), threading.Event(), threading.Event()

    def work(record: Job) -> None:
        if record.offset == 1:
            other.set()
            return
        begun.set()
        assert free.wait(HANG_SECONDS)

    with crew(log, work, timeout_ms=1000) as workers:
        assert begun.wait(HANG_SECONDS)
        clock.advance(1000)
        assert other.wait(HANG_SECONDS)
        wait_until(lambda: workers.done == 1)
    assert (workers.done, workers.dead, left(log)) == (1, 1, 0)
    assert dict(dead(log)[0].headers)["__dlq.errors.message"] == b"it took more than 1000 ms"
    free.set()
    wait_until(lambda: "jobs-0, offset 0 ended after its time, which does not count: None" in caplog.text)


def test_a_job_whose_time_is_over_waits_for_a_thread_in_its_place(
    log: pylog.Log, clock: MovableClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(log, 1)
    begun, free = threading.Event(), threading.Event()

    def work(_: Job) -> None:
        begun.set()
        assert free.wait(HANG_SECONDS)

    with crew(log, work, timeout_ms=1000) as workers:
        assert begun.wait(HANG_SECONDS)
        with no_threads():
            clock.advance(1000)
            wait_until(lambda: "there is no thread to go on" in caplog.text)
        clock.advance(RETRY_MS)
        wait_until(lambda: workers.dead == 1)
    free.set()
    wait_until(lambda: "ended after its time" in caplog.text)


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_jobs_in_work_end_and_begins_no_other(log: pylog.Log, number: signal.Signals) -> None:
    fill(log, 3)
    before = signal.getsignal(number)

    def work(_: Job) -> None:
        os.kill(os.getpid(), number)
        wait_until(lambda: workers.is_stopping)

    with crew(log, work) as workers:
        workers.run()
    assert signal.getsignal(number) is before
    assert (workers.done, left(log)) == (1, 2)


def test_a_second_signal_waits_for_no_job(log: pylog.Log) -> None:
    fill(log, 1)
    free = threading.Event()

    def work(_: Job) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: workers.is_stopping)
        os.kill(os.getpid(), signal.SIGINT)
        assert free.wait(HANG_SECONDS)

    with pytest.raises(KeyboardInterrupt), crew(log, work) as workers:
        workers.run()
    assert workers.done == 0
    free.set()
    workers.close()


def test_a_stop_in_a_pause_gives_the_job_to_others(log: pylog.Log) -> None:
    fill(log, 1)

    def fail(_: Job) -> None:
        raise OSError("not yet")

    workers, _ = run(log, fail, 1)
    assert (workers.done, workers.dead, left(log)) == (0, 0, 1)
    _, ending = run(log, lambda _: None, 1)
    assert (ending.calls, left(log)) == ([(b"0", 2)], 0)


def test_an_error_that_is_no_exception_ends_all_and_comes_out_of_run(log: pylog.Log) -> None:
    fill(log, 2)

    def work(_: Job) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit), crew(log, work, threads=2) as workers:
        workers.run()
    assert workers.done == 0


def test_a_group_of_another_kind_ends_the_workers(log: pylog.Log) -> None:
    with log.consumer("jobs", group_id="g") as consumer:
        consumer.poll(0)
        with pytest.raises(errors.PylogError), crew(log, print, threads=2) as workers:
            workers.run()


def test_workers_need_their_topic_for_dead_letters_before_they_begin(log: pylog.Log) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition), crew(log, print, dead_letter="nowhere"):
        pass


def test_workers_begin_once(log: pylog.Log) -> None:
    with crew(log, print) as workers:
        pass
    with pytest.raises(RuntimeError, match="make others"):
        workers.__enter__()


@pytest.mark.parametrize("has_timekeeper", [False, True])
def test_without_a_thread_nothing_begins(log: pylog.Log, has_timekeeper: bool) -> None:
    workers = crew(log, print, dead_letter=None)
    if has_timekeeper:
        workers._timekeeper.begin()
    with no_threads(), pytest.raises(errors.ThreadsExhausted):
        workers.__enter__()
    assert workers.is_stopping


def test_a_log_that_closes_ends_its_workers(
    log: pylog.Log, clock: MovableClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(log, 1)
    begun, free = threading.Event(), threading.Event()

    def work(_: Job) -> None:
        begun.set()
        assert free.wait(HANG_SECONDS)
        raise Reject

    with pytest.raises(errors.Closed), crew(log, work) as workers:
        assert begun.wait(HANG_SECONDS)
        log.close()
        clock.advance(LOCK_MS // 2)
        wait_until(lambda: "the lock of jobs-0, offset 0 was not renewed" in caplog.text)
        free.set()
        workers.run()
    assert workers.dead == 0


def test_workers_may_run_beside_the_main_thread_and_ignored_signals_stay_so(log: pylog.Log) -> None:
    fill(log, 2)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(run, log, lambda _: None, 1).result()[0].done == 1
        assert run(log, lambda _: os.kill(os.getpid(), signal.SIGINT), 1)[0].done == 1
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"retries": -1}, {"timeout_ms": 0}, {"backoff_ms": -1}])
def test_numbers_have_limits(log: pylog.Log, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="the least is"):
        crew(log, print, **wrong)
