"""One thread does the work of many, each at its own times."""

import logging
import threading

import pytest

from pylog.runtime import shared_worker as module
from pylog.runtime.clock import SystemClock
from pylog.runtime.shared_worker import SharedWorker, Shift
from support.patience import HANG_SECONDS


class Task:
    """Work that is due once, at a moment."""

    def __init__(self, worker: SharedWorker) -> None:
        self.due_ms: int | None = None
        self.done = threading.Event()
        self.thread: threading.Thread | None = None
        self.error: Exception | None = None
        self.shift: Shift = worker.shift(lambda: self.due_ms, self.work)

    def work(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.due_ms, self.thread = None, threading.current_thread()
        self.done.set()

    def wake(self, due_ms: int) -> None:
        self.due_ms = due_ms
        self.shift.wake()


def test_many_share_one_thread_that_ends_with_the_last_of_them() -> None:
    clock = SystemClock()
    worker = SharedWorker("test", clock)
    tasks = [Task(worker) for _ in range(100)]
    for number, task in enumerate(tasks):
        task.wake(clock.tick_ms() + number % 3)
    assert all(task.done.wait(HANG_SECONDS) for task in tasks)
    (thread,) = {task.thread for task in tasks}
    assert thread is not None and thread.name == "test"
    for task in tasks:
        assert thread.is_alive()
        task.shift.close()
    assert not thread.is_alive()


def test_a_shift_begins_again_after_the_thread_has_ended() -> None:
    worker = SharedWorker("test", SystemClock())
    for _ in range(2):
        task = Task(worker)
        task.wake(0)
        assert task.done.wait(HANG_SECONDS)
        task.shift.close()


def test_an_earlier_time_of_one_is_not_hidden_by_a_later_one_of_another() -> None:
    clock = SystemClock()
    worker = SharedWorker("test", clock)
    late, early = Task(worker), Task(worker)
    late.wake(clock.tick_ms() + 3_600_000)
    early.wake(clock.tick_ms() + 3_600_000)
    early.wake(clock.tick_ms())
    assert early.done.wait(HANG_SECONDS) and not late.done.is_set()
    late.shift.close()
    early.shift.close()


def test_a_time_that_has_become_a_later_one_does_no_work() -> None:
    clock = SystemClock()
    worker = SharedWorker("test", clock)
    moved, other = Task(worker), Task(worker)
    moved.wake(clock.tick_ms() + 1)
    moved.due_ms = clock.tick_ms() + 3_600_000
    other.wake(clock.tick_ms() + 2)
    assert other.done.wait(HANG_SECONDS) and not moved.done.is_set()
    moved.shift.close()
    other.shift.close()


def test_work_that_raises_is_tried_again_and_others_go_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    worker = SharedWorker("test", SystemClock())
    bad, good = Task(worker), Task(worker)
    bad.error = ValueError("no luck")
    with caplog.at_level(logging.ERROR, logger="pylog"):
        bad.wake(0)
        good.wake(0)
        assert good.done.wait(HANG_SECONDS) and bad.done.wait(HANG_SECONDS)
    assert "no luck" in caplog.text
    bad.shift.close()
    good.shift.close()


def test_a_closed_shift_is_not_woken() -> None:
    worker = SharedWorker("test", SystemClock())
    task = Task(worker)
    task.shift.close()
    task.wake(0)
    assert worker._worker is None


def test_a_closed_shift_does_not_begin_again() -> None:
    worker = SharedWorker("test", SystemClock())
    task = Task(worker)
    task.shift.close()
    task.shift.begin()
    assert not task.shift.has_begun
