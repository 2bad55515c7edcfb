"""Fetches of a node that only reads, which wait until the owner of the log has published more.

    park     the fetch waits; one watching thread looks whenever the owner writes, and answers
    drive    a caller that waits for its answer takes the fetch from that thread, and does the looking itself

The thread begins with the first fetch that waits and ends with `close`. It sleeps at a `Watch` of the directory; where
the system gives no word, it looks every few milliseconds. It holds nothing: a fetch belongs to the thread while it has
a ticket in `DelayedOperations`, and to its driver otherwise. (Kafka: DelayedFetch.)
"""

import os
import threading
from collections.abc import Callable
from functools import partial
from select import POLLIN, poll
from weakref import WeakSet

from pylog.broker.delayed_operations import DelayedOperations
from pylog.broker.fetch import is_enough
from pylog.errors import Closed, PylogError, StorageError, ThreadsExhausted
from pylog.files import Waker, Watch
from pylog.protocol.messages import Fetch, Fetched
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future
from pylog.runtime.signals import WholeLock, opened, whole
from pylog.runtime.threads import started

POLL_MS_MIN = 1
POLL_MS_MAX = 20
SLEEP_MS_MAX = 3_600_000
DRIVER_SECONDS_MAX = 5.0
"""How long a close waits for drivers in other threads."""


class DelayedFetch(Future[Fetched]):
    """The answer to a Fetch that waits."""

    __slots__ = ("_purgatory", "deadline_ms", "is_called_off", "message", "sleep", "ticket")

    def __init__(self, purgatory: "ReadOnlyPurgatory", message: Fetch, deadline_ms: int) -> None:
        super().__init__()
        self._purgatory = purgatory
        self.message = message
        self.deadline_ms = deadline_ms
        self.ticket = -1
        self.sleep: _Sleep | None = None
        """The `_Sleep` of its driver; None while it belongs to the watching thread."""
        self.is_called_off = False

    def drive(self, timeout: float | None = None) -> None:
        """Watch the log in the caller's thread until the answer is there; the watching thread goes on after that."""
        self._purgatory.drive(self, timeout)

    def stop_driving(self) -> None:
        self.is_called_off = True
        sleep = self.sleep
        if sleep is not None:
            sleep.waker.wake()


class ReadOnlyPurgatory:
    """The fetches that wait. Thread-safe.

    `read` answers a Fetch with what is published now. `watch` makes a watch of the directory, or gives None.
    """

    def __init__(self, clock: Clock, read: Callable[[Fetch], Fetched], watch: Callable[[], Watch | None]) -> None:
        self._clock = clock
        self._read = read
        self._watch = watch
        self._delayed: DelayedOperations[DelayedFetch] = DelayedOperations()
        self._driven: set[DelayedFetch] = set()
        self._lock = WholeLock()
        self.looking = threading.Lock()
        """Held while the thread reads: a fork waits for that, or the child would find its locks taken for ever."""
        self._thread: threading.Thread | None = None
        self._sleep: _Sleep | None = None
        """Where the watching thread sleeps."""
        self._free: list[_Sleep] = []
        """Places to sleep at that no driver uses: the kernel takes milliseconds to close a watch."""
        self._closed = False
        _purgatories.add(self)

    def park(self, message: Fetch, deadline_ms: int) -> DelayedFetch:
        """Answer when there is enough to read, or at the deadline with what there is."""
        fetch = DelayedFetch(self, message, deadline_ms)
        self._hand_over(fetch)
        return fetch

    def _hand_over(self, fetch: DelayedFetch) -> None:
        """Give a fetch to the watching thread. It fails if no such thread runs."""
        error: PylogError = Closed("this log is closed")
        with self._lock:
            if not self._closed:
                if self._sleep is None:
                    self._sleep = _Sleep(self._watch)
                try:
                    if self._thread is None:
                        self._thread = started(partial(self._run, self._sleep), "pylog-reader")
                except ThreadsExhausted as exhausted:
                    error = exhausted
                else:
                    fetch.ticket = self._delayed.add(fetch, [], fetch.deadline_ms)
                    self._sleep.waker.wake()
                    return
        fetch.set_exception(error)

    # --- the watching thread -----------------------------------------------------------------------------------------

    def _run(self, sleep: "_Sleep") -> None:
        while not self._closed:
            with self._lock:
                due, fetches = self._delayed.next_deadline, list(self._delayed.items.values())
            if due is None:
                sleep.until_woken()
                sleep.begin()
                continue
            for fetch in fetches:
                self._answer(fetch)
            sleep.wait(due - self._clock.tick_ms())

    def _answer(self, fetch: DelayedFetch) -> None:
        with self.looking:
            outcome = self._look(fetch)
        if outcome is not None and self._take(fetch):
            _complete(fetch, outcome)

    def _look(self, fetch: DelayedFetch) -> Fetched | Exception | None:
        """The answer, or the error in its place; None as long as the fetch has to wait."""
        try:
            fetched = self._read(fetch.message)
        except Exception as error:  # noqa: BLE001  (it is for the sender of the fetch)
            return error
        is_over = is_enough(fetch.message, fetched) or self._clock.tick_ms() >= fetch.deadline_ms
        return fetched if is_over else None

    def _take(self, fetch: DelayedFetch) -> bool:
        """Take a fetch from the watching thread; whether it had it."""
        with self._lock:
            return self._delayed.remove(fetch.ticket)

    # --- a driver ----------------------------------------------------------------------------------------------------

    @whole
    def drive(self, fetch: DelayedFetch, timeout: float | None) -> None:
        """See `DelayedFetch.drive`."""
        sleep = self._begin_drive(fetch)
        if sleep is None:
            return
        outcome = None
        try:
            outcome = self._drive(fetch, sleep, timeout)
        finally:
            self._end_drive(fetch, sleep)
            if outcome is None:
                self._hand_over(fetch)
        if outcome is not None:
            _complete(fetch, outcome)

    def _begin_drive(self, fetch: DelayedFetch) -> "_Sleep | None":
        """Take a fetch from the watching thread; None where that does not have it, or no descriptor is left."""
        with self._lock:
            if self._closed or fetch.ticket not in self._delayed.items:
                return None
            try:
                sleep = self._free.pop() if self._free else _Sleep(self._watch)
            except StorageError:
                return None
            self._delayed.remove(fetch.ticket)
            fetch.sleep, sleep.driver = sleep, threading.get_ident()
            sleep.in_use.acquire()
            self._driven.add(fetch)
            return sleep

    def _drive(self, fetch: DelayedFetch, sleep: "_Sleep", timeout: float | None) -> Fetched | Exception | None:
        due = fetch.deadline_ms
        if timeout is not None:
            due = min(due, int(self._clock.tick_ms() + timeout * 1000))
        sleep.begin()
        # A handler that was called in the wait may have closed the files.
        while not self._closed:
            outcome = self._look(fetch)
            if outcome is not None:
                return outcome
            left_ms = due - self._clock.tick_ms()
            if left_ms <= 0 or fetch.is_called_off:
                break
            with opened():
                sleep.wait(left_ms)
        return None

    def _end_drive(self, fetch: DelayedFetch, sleep: "_Sleep") -> None:
        with self._lock:
            self._driven.discard(fetch)
            fetch.sleep, fetch.is_called_off = None, False
            if self._closed:
                sleep.close()
            else:
                self._free.append(sleep)
            sleep.in_use.release()

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Answer every fetch with Closed, end the thread, and give the descriptors back. Drivers return soon."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting = self._delayed.drain()
            driven = [fetch.sleep for fetch in self._driven if fetch.sleep is not None]
            idle, self._free = self._free, []
        if self._sleep is not None:
            idle.append(self._sleep)
        for sleep in [*driven, *idle]:
            sleep.waker.wake()
        for fetch in waiting:
            fetch.set_exception(Closed("this log is closed"))
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for sleep in driven:
            # A driver in this very thread was interrupted by a handler, and goes on after it.
            if sleep.driver != threading.get_ident() and sleep.in_use.acquire(timeout=DRIVER_SECONDS_MAX):
                sleep.in_use.release()
        _purgatories.discard(self)
        for sleep in idle:
            sleep.close()

    def begin_anew(self) -> None:
        """Forget the thread and the waiting fetches of the parent, in a forked child."""
        self._lock, self.looking = WholeLock(), threading.Lock()
        self._delayed = DelayedOperations()
        me = threading.get_ident()
        driven = [fetch.sleep for fetch in self._driven if fetch.sleep is not None and fetch.sleep.driver != me]
        for sleep in [*self._free, *driven, *([self._sleep] if self._sleep is not None else [])]:
            sleep.abandon()
        self._driven.clear()
        self._thread = self._sleep = None
        self._free = []


def _complete(fetch: DelayedFetch, outcome: Fetched | Exception) -> None:
    if isinstance(outcome, Fetched):
        fetch.set_result(outcome)
    else:
        fetch.set_exception(outcome)


class _Sleep:
    """A place for one thread to sleep at: until the owner writes, another thread wakes it, or the time is up."""

    def __init__(self, make_watch: Callable[[], Watch | None]) -> None:
        self.waker = Waker()
        self.driver = 0
        """The thread that drives here."""
        self.in_use = threading.Lock()
        self._make_watch = make_watch
        self._watch: Watch | None = None
        self._pause_ms = POLL_MS_MIN
        self._woken = poll()
        self._woken.register(self.waker, POLLIN)
        self._told = poll()
        self._told.register(self.waker, POLLIN)

    def begin(self) -> None:
        """Let a write from now on end the next `wait`; look at the log after this."""
        self._pause_ms = POLL_MS_MIN
        if self._watch is not None:
            self._watch.take()
            return
        # Its owner may have published something since the last time.
        self._watch = self._make_watch()
        if self._watch is not None:
            self._told.register(self._watch, POLLIN)

    def wait(self, timeout_ms: float) -> None:
        """Sleep up to so long; where there is no word of writes, a pause that grows."""
        left_ms = min(max(timeout_ms, 0), SLEEP_MS_MAX)
        if self._watch is None:
            left_ms = min(left_ms, self._pause_ms)
            self._pause_ms = min(self._pause_ms * 2, POLL_MS_MAX)
        for descriptor, _ in self._told.poll(left_ms):
            if descriptor == self.waker.fileno():
                self.waker.take()
                self.begin()
            else:
                assert self._watch is not None, "nothing else is registered"
                self._watch.take()

    def until_woken(self) -> None:
        """Sleep until another thread wakes this one."""
        self._woken.poll()
        self.waker.take()

    def close(self) -> None:
        """Give the descriptors back."""
        self.waker.close()
        if self._watch is not None:
            self._watch.close()

    def abandon(self) -> None:
        """Give the descriptors back, in a forked child."""
        self.waker.begin_anew()
        self.close()


_purgatories: WeakSet[ReadOnlyPurgatory] = WeakSet()
_held: list[threading.Lock] = []
"""The locks that a fork under way holds."""


def _before_fork() -> None:
    for purgatory in list(_purgatories):
        purgatory.looking.acquire()
        _held.append(purgatory.looking)


def _after_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_in_child() -> None:
    _held.clear()
    for purgatory in list(_purgatories):
        purgatory.begin_anew()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
