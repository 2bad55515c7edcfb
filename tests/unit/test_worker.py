"""A worker does what is due, when it is due, and ends when it is told."""

import threading

from pylog.clock import SystemClock
from pylog.worker import Worker

SECONDS = 20


def test_work_is_done_when_it_is_due_and_not_before_anybody_wakes_it() -> None:
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
        assert done.wait(SECONDS)
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
    assert done.wait(SECONDS)
    worker.close()


def test_closing_before_anything_was_due_is_fine() -> None:
    Worker("test", SystemClock(), lambda: None, lambda: None).close()
