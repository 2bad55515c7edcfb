"""One thread for the work of many: each has a `Shift`, with its own times, and what it does then.

    SharedWorker    the thread, a `Worker`: from the first shift that begins until the last one has ended
    Shift           `begin` before anything counts on the thread, `wake` when its time may be an earlier one, `close`
                    when there is nothing to do any more

A hundred members of groups have one thread for their heartbeats. So work has to be short: what one does, the others
wait for. Where it raises, it is logged and tried again after a while, and the others go on.
"""

import logging
from collections.abc import Callable

from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock
from pylog.runtime.worker import RETRY_SECONDS, Worker

logger = logging.getLogger("pylog.runtime")


class Shift:
    """The work of one. `due` gives a tick in milliseconds, or None when there is nothing to wait for."""

    def __init__(self, shared: "SharedWorker", due: Callable[[], int | None], work: Callable[[], object]) -> None:
        self._shared = shared
        self.due = due
        self.work = work
        self.has_begun = False
        self.due_ms: int | None = None
        """When it is due, as the thread was told last."""

    def begin(self) -> None:
        """Have the thread, before something is done that counts on it. Raises ThreadsExhausted."""
        if not self.has_begun:
            self._shared.begin(self)

    def wake(self) -> None:
        """Something may be due earlier than the thread was told. Cheap when it is not."""
        self._shared.wake(self)

    def close(self) -> None:
        """Do nothing more. The last one ends the thread."""
        self._shared.remove(self)


class SharedWorker:
    """Calls the `work` of each shift when its time has come. Thread-safe."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = WholeLock()
        self._shifts: dict[Shift, None] = {}
        self._worker: Worker | None = None

    def shift(self, due: Callable[[], int | None], work: Callable[[], object]) -> Shift:
        """A shift. It costs nothing before its `begin`, or its first `wake`."""
        return Shift(self, due, work)

    def begin(self, shift: Shift) -> None:
        """See `Shift.begin`."""
        with self._lock:
            if shift.due is _never:
                return
            self._shifts[shift] = None
            worker = self._its_worker()
        worker.begin()
        shift.has_begun = True

    def wake(self, shift: Shift) -> None:
        """See `Shift.wake`. The first one of a shift begins it."""
        with self._lock:
            # Asked for in here, or an older answer could come last.
            shift.due_ms = due = shift.due()
            if due is None:
                return
            self._shifts[shift] = None
            worker = self._its_worker()
        worker.wake_by(due)

    def _its_worker(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._name, self._clock, self._next_due, self._do_due)
        return self._worker

    def remove(self, shift: Shift) -> None:
        """See `Shift.close`."""
        worker = None
        with self._lock:
            self._shifts.pop(shift, None)
            shift.due = _never
            if not self._shifts:
                worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def _next_due(self) -> int | None:
        with self._lock:
            return min((one.due_ms for one in self._shifts if one.due_ms is not None), default=None)

    def _do_due(self) -> None:
        now = self._clock.tick_ms()
        with self._lock:
            shifts = [one for one in self._shifts if one.due_ms is not None and one.due_ms <= now]
        for shift in shifts:
            rest_ms = 0
            try:
                # It may be a later time by now, of which nothing was said.
                due = shift.due()
                if due is not None and due <= now:
                    shift.work()
            except BaseException:
                # No other thread would do it: work that is due stays due.
                logger.exception("the work of thread %s failed, and is tried again", self._name)
                rest_ms = round(RETRY_SECONDS * 1000)
            with self._lock:
                due = shift.due()
                shift.due_ms = due if due is None else max(due, now + rest_ms)


def _never() -> None:
    """When a shift is due that was closed: at no time."""
