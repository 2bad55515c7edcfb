"""A worker does what is due, when it is due, and ends when it is told."""

import threading

import pytest

from pylog.runtime import worker as worker_module
from pylog.runtime.clock import SystemClock
from pylog.runtime.worker import Worker
from support.patience import HANG_SECONDS
from support.stepping import Steps


def test_work_is_done_when_it_is_due_or_woken() -> None:
    clock = SystemClock()
    due: list[int] = []
    done = threading.Event()

    def work() -> None:
        due.clear()
        done.set()

    worker = Worker("test", clock, lambda: due[0] if due else None, work)
    worker.wake()
    assert worker._thread is None, "there is nothing to wait for"
    for wait_ms in (0, 5):
        due.append(clock.tick_ms() + wait_ms)
        worker.wake()
        assert done.wait(HANG_SECONDS)
        done.clear()
    worker.close()
    worker.wake()
    assert worker._thread is not None and not worker._thread.is_alive()


def test_an_earlier_deadline_wakes_it_up() -> None:
    clock = SystemClock()
    due = [clock.tick_ms() + 60_000]
    done = threading.Event()

    def work() -> None:
        due[0] = clock.tick_ms() + 60_000
        done.set()

    worker = Worker("test", clock, lambda: due[0], work)
    worker.wake()
    due[0] = clock.tick_ms()
    worker.wake()
    assert done.wait(HANG_SECONDS)
    worker.close()


def test_one_call_for_what_is_done_by_then_wakes_it_once_however_often_it_comes() -> None:
    """A producer's batch is to go when its linger is over, and is often taken before: so is the next one."""
    clock = SystemClock()
    asked = threading.Event()

    def next_due() -> int | None:
        if threading.current_thread() is worker._thread:
            asked.set()
        return None

    worker = Worker("test", clock, next_due, lambda: None)
    until = clock.tick_ms() + 60_000
    with worker._lock:  # the thread looks when the work is done already
        worker.wake_by(until)
    assert asked.wait(HANG_SECONDS)
    with worker._lock:  # it sleeps now
        assert worker._sleeps_until == until
    asked.clear()
    worker.wake_by(until + 5)
    with worker._lock:
        assert worker._sleeps_until == until and not asked.is_set()
    worker.close()


def test_closing_before_anything_was_due_is_fine() -> None:
    threads = threading.active_count()
    Worker("test", SystemClock(), lambda: None, lambda: None).close()
    assert threading.active_count() == threads


def test_under_a_stepped_clock_the_clock_calls_and_there_is_no_thread() -> None:
    clock = Steps()
    due: list[int] = []
    done: list[int] = []

    def work() -> None:
        done.append(clock.tick_ms())
        due[:] = [clock.tick_ms() + 50] if len(done) < 3 else []

    worker = Worker("test", clock, lambda: due[0] if due else None, work)
    worker.wake()
    due.append(100)
    worker.wake()
    due[0] = 20
    worker.wake()
    assert not clock.wait(lambda: False, 1000)
    assert done == [20, 70, 120]
    assert worker._thread is None
    due.append(2000)
    worker.wake()
    worker.close()
    clock.wait(lambda: False, 2000)
    assert done == [20, 70, 120]


def test_work_that_fails_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "RETRY_SECONDS", 0.001)
    clock = SystemClock()
    due = [clock.tick_ms()]
    done = threading.Event()
    left = [ValueError("once"), SystemExit()]

    def work() -> None:
        if left:
            raise left.pop(0)
        due.clear()
        done.set()

    worker = Worker("test", clock, lambda: due[0] if due else None, work)
    worker.wake()
    assert done.wait(HANG_SECONDS)
    worker.close()
    assert caplog.text.count("the work of thread test failed") == 2
