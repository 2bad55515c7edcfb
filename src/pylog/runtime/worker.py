"""A thread that does a node's work when it is due, and sleeps in between without costing anything.

It holds nothing whose loss matters: it is a daemon, and a process that ends without `close` is an ordinary crash.
Under a `SteppedClock` there is no thread: the clock calls.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from pylog.errors import ThreadsExhausted
from pylog.runtime.clock import Clock, MovableClock, SteppedClock
from pylog.runtime.signals import WHOLE
from pylog.runtime.threads import started

logger = logging.getLogger("pylog.runtime")

RETRY_SECONDS = 1.0


class Worker:
    """Calls `work()` whenever `due()` has come. The thread starts at the first `wake` that finds something to wait for.

    `due` gives a tick in milliseconds, or None when there is nothing to wait for. Where no thread can be had, `begin`
    raises, and `wake` logs it and gives False: the next one tries again.
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
        self._lacks_thread = False
        """True where something waits for a thread that could not be had."""
        if isinstance(clock, MovableClock):
            clock.on_move(self._look_again)

    def begin(self) -> None:
        """Have the thread, before something is done that counts on it. Raises ThreadsExhausted."""
        if self._thread is None and not self._closed and not isinstance(self._clock, SteppedClock):
            with WHOLE, self._lock:
                self._start()

    def wake(self) -> bool:
        """Something may be due earlier than the thread was told. Cheap when it is not. False: no thread can be had."""
        due = self._due()
        return due is None or self.wake_by(due)

    def wake_by(self, due: int) -> bool:
        """Something is due then. Cheap when the thread is awake by that time anyway. False: no thread can be had."""
        if self._closed or (self._sleeps_until is not None and self._sleeps_until <= due):
            return True
        called_for = self._called_for
        if called_for is not None and called_for <= due:
            # It was woken, and has yet to look: it sees this, too.
            return True
        if isinstance(self._clock, SteppedClock):
            self._sleeps_until = due
            self._clock.call_at(due, partial(self._called, due))
            return True
        with WHOLE, self._lock:
            try:
                self._start()
            except ThreadsExhausted as error:
                if not self._lacks_thread:
                    logger.error("the work waits for the next call that needs it: %s", error)
                self._lacks_thread = True
                return False
            self._called_for = due if self._called_for is None else min(self._called_for, due)
            self._changed.notify()
        return True

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = started(self._run, self._name)
            self._lacks_thread = False

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

    def _until(self, due: int | None, called_for: int | None, now: int) -> int | None:
        """When to look next: what the thread was woken for may be done by now, and more of its kind may come by then,
        which need not wake it again.
        """
        if called_for is None or called_for <= now or (due is not None and due < called_for):
            return due
        return called_for

    def _run(self) -> None:
        with self._lock:
            # A second signal may have ended the call that started this thread, and another one has begun since.
            if self._thread is None:
                self._thread = threading.current_thread()
            if self._thread is not threading.current_thread():
                return
        while not self._closed:
            try:
                if self._is_due():
                    self._work()
            except BaseException:  # noqa: BLE001 - `_tell_and_rest` logs it
                # No other thread would do it: work that is due stays due.
                self._tell_and_rest()

    def _is_due(self) -> bool:
        """Whether there is work now; if not, sleep first."""
        with self._lock:
            # Before it looks: who finds it set relies on that.
            called_for, self._called_for = self._called_for, None
            due = self._due()
            now = self._clock.tick_ms()
            if self._closed or (due is not None and due <= now):
                return not self._closed
            self._sleeps_until = due = self._until(due, called_for, now)
            try:
                self._changed.wait(None if due is None else min((due - now) / 1000, threading.TIMEOUT_MAX))
            finally:
                self._sleeps_until = None
            return False

    def _tell_and_rest(self) -> None:
        try:
            logger.exception("the work of thread %s failed, and is tried again", self._name)
            with self._lock:
                if not self._closed:
                    self._changed.wait(RETRY_SECONDS)
        except (MemoryError, RuntimeError):
            # There is no memory to say so, or for the lock of the wait.
            time.sleep(RETRY_SECONDS)
