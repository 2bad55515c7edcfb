import threading

import pytest

from pylog.errors import ThreadsExhausted
from pylog.runtime.pool import Pool, Turn

THREADS_MAX = 4


def test_calls_that_wait_do_not_hold_up_the_others() -> None:
    pool, gate, done = Pool("few", THREADS_MAX), threading.Event(), threading.Event()
    for _ in range(THREADS_MAX - 1):
        pool.submit(gate.wait)

    pool.submit(done.set)

    assert done.wait(240)
    gate.set()
    pool.close()


def test_there_are_no_more_threads_than_are_allowed() -> None:
    pool, gate, left = Pool("few", THREADS_MAX), threading.Event(), threading.Semaphore(0)
    for _ in range(3 * THREADS_MAX):
        pool.submit(lambda: (gate.wait(), left.release()))
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("few-")]

    gate.set()

    assert len(names) == THREADS_MAX
    assert all(left.acquire(timeout=240) for _ in range(3 * THREADS_MAX))
    pool.close()


def test_a_call_that_raises_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    pool, done = Pool("one", 1), threading.Event()
    pool.submit(lambda: 1 // 0)
    pool.submit(done.set)

    assert done.wait(240)
    pool.close()
    assert "ZeroDivisionError" in caplog.text


def test_a_thread_that_does_not_start_is_not_counted() -> None:
    """A stack as large as no address space has room for: the system refuses the thread."""
    pool, done = Pool("few", THREADS_MAX), threading.Event()
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(ThreadsExhausted):
            pool.submit(done.set)
        assert pool.unfinished == 0
    finally:
        threading.stack_size(before)
    pool.submit(done.set)
    assert done.wait(240)
    pool.close()


def test_a_pool_begins_once_and_needs_no_thread_then(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, done = Pool("one", 1), threading.Event()
    pool.begin()
    monkeypatch.setattr("pylog.runtime.pool.started", lambda run, name: None)
    pool.begin()
    pool.submit(done.set)
    assert done.wait(240)
    pool.close()


def test_an_interpreter_that_ends_gives_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr("threading._start_new_thread", refuse)
    pool = Pool("late", 1)
    with pytest.raises(ThreadsExhausted, match="the interpreter ends"):
        pool.begin()


def test_a_pool_with_patience_makes_one_call_at_a_time() -> None:
    pool, under_way, most, done = Pool("one", THREADS_MAX, 3600), [], [], threading.Semaphore(0)

    def call() -> None:
        under_way.append(None)
        most.append(len(under_way))
        threading.Event().wait(0.001)
        under_way.pop()
        done.release()

    for _ in range(50):
        pool.submit(call)

    assert all(done.acquire(timeout=240) for _ in range(50))
    assert max(most) == 1
    pool.close()


def test_a_call_that_takes_longer_than_the_patience_lets_the_next_one_begin() -> None:
    pool, gate, done = Pool("few", THREADS_MAX, 0.001), threading.Event(), threading.Semaphore(0)
    for _ in range(THREADS_MAX - 1):
        pool.submit(lambda: (gate.wait(), done.release()))

    for _ in range(3):
        pool.submit(done.release)

    assert all(done.acquire(timeout=240) for _ in range(3))
    gate.set()
    assert all(done.acquire(timeout=240) for _ in range(THREADS_MAX - 1))
    pool.close()


def test_who_waits_behind_a_turn_that_was_lost_waits_for_the_next_one() -> None:
    """A waits for the turn of a holder who loses it to B, and gets the old lock when that is given back."""
    turn = Turn(3600)
    with turn.taken():
        lost = turn._held
        waiting = threading.Thread(target=lambda: turn._take().release())
        waiting.start()
        turn._held = threading.Lock()
    waiting.join(240)
    assert not waiting.is_alive() and not lost.locked() and not turn._held.locked()
    assert turn._times == 2
