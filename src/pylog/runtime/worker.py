"""A thread that does a node's work when it is due, and sleeps in between without costing anything.

It holds nothing whose loss matters: it is a daemon, and a process that ends without `close` is an ordinary crash.
Under a `SteppedClock` there is no thread: the clock calls.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial

from pylog.runtime.clock import Clock, MovableClock, SteppedClock
from pylog.runtime.signals import WHOLE

logger = logging.getLogger("pylog.runtime")

RETRY_SECONDS = 1.0


def started(work: Callable[[], None], name: str) -> threading.Thread | None:
    """A daemon thread that does `work`; None where the interpreter ends, which begins none any more (Python 3.12)."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
        return None
    return thread


class Worker:
    """Calls `work()` whenever `due()` has come. The thread starts at the first `wake` that finds something to wait for.

    `due` gives a tick in milliseconds, or None when there is nothing to wait for.
    """

    def __init__(self, name: str, clock: Clock, due: Callable[[], int | None], work: Callable[[], None]) -> None:
        self._name = name
        self._clock = clock
        self._due = due
        self._work = work
        # To enter a condition itself is a call that a signal may end, and then it stays locked.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._sleeps_until: int | None = None
        self._called_for: int | None = None
        """The earliest time that the thread was woken for, and has not seen yet."""
        self._closed = False
        if isinstance(clock, MovableClock):
            clock.on_move(self._look_again)

    def wake(self) -> None:
        """Something may be due earlier than the thread knows. Cheap when it is not."""
        due = self._due()
        if due is not None:
            self.wake_by(due)

    def wake_by(self, due: int) -> None:
        """Something is due then. Cheap when the thread is awake by that time anyway."""
        if self._closed or (self._sleeps_until is not None and self._sleeps_until <= due):
            return
        if isinstance(self._clock, SteppedClock):
            self._sleeps_until = due
            self._clock.call_at(due, partial(self._called, due))
            return
        with WHOLE, self._lock:
            if self._thread is None and not self._closed:
                self._thread = started(self._run, self._name)
            self._called_for = due if self._called_for is None else min(self._called_for, due)
            self._changed.notify()

    def close(self, timeout: float | None = None) -> None:
        """Stop the thread and wait for it, `timeout` seconds at most, unless it is the caller."""
        with WHOLE, self._lock:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _look_again(self) -> None:
        with WHOLE, self._lock:
            self._changed.notify()

    def _called(self, due: int) -> None:
        """Do as the thread does that wakes up at `due`, unless it was woken earlier, and sleeps again."""
        if self._closed or self._sleeps_until != due:
            return
        self._sleeps_until = None
        now_due = self._due()
        if now_due is not None and now_due <= self._clock.tick_ms():
            self._work()
        self.wake()

    def _until(self, due: int | None, now: int) -> int | None:
        """When to look next: what the thread was woken for may be done by now, and more of its kind may come by then,
        which need not wake it again.
        """
        called_for = self._called_for
        if called_for is None or called_for <= now or (due is not None and due < called_for):
            return due
        return called_for

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                due = self._due()
                now = self._clock.tick_ms()
                if due is None or due > now:
                    due, self._called_for = self._until(due, now), None
                    self._sleeps_until = due
                    self._changed.wait(None if due is None else min((due - now) / 1000, threading.TIMEOUT_MAX))
                    self._sleeps_until = None
                    continue
            try:
                self._work()
            except BaseException:
                # No other thread would do it: work that is due stays due.
                logger.exception("the work of thread %s failed, and is tried again", self._name)
                with self._lock:
                    if not self._closed:
                        self._changed.wait(RETRY_SECONDS)
