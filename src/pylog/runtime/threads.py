"""The one way to begin a thread.

`started` comes back when the thread is at its work, or raises ThreadsExhausted: then no thread was started. CPython's
own `Thread.start` gives less where memory is short. A thread that has its stack, and no memory for its first frame,
ends without a word, and `start` waits for it for ever (CPython issue 140746). So the wait is for the first step of the
work itself, and it looks whether the thread is still there: the system holds the one reference to `_bootstrap`.
"""

import threading
import weakref
from collections.abc import Callable
from functools import partial

from pylog.errors import ThreadsExhausted

__all__ = ["started"]

LOOK_SECONDS = 0.05
"""How often the wait looks whether the new thread is still there."""


def started(work: Callable[[], object], name: str) -> threading.Thread | None:
    """A daemon thread that does `work`; None where the interpreter ends, which begins none any more (Python 3.12).

    Raises ThreadsExhausted. Start the thread before anything is done that counts on it.
    """
    try:
        thread = _Thread(work, name)
        thread.start()
    except (RuntimeError, MemoryError) as error:
        if "shutdown" in str(error):
            return None
        raise ThreadsExhausted(
            f"the system gives no thread for {name} ({str(error) or 'no memory'}): raise the limit of address space "
            "(ulimit -v) or of processes (ulimit -u, pids.max), or end other threads"
        ) from error
    return thread


class _Thread(threading.Thread):
    def __init__(self, work: Callable[[], object], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work: Callable[[], object] | None = work
        self._started = _Begun()

    @property
    def _bootstrap(self) -> Callable[[], None]:
        """The function that `start` gives to the system, which lets go of it when the thread ends."""
        begin: Callable[[], None] = partial(super()._bootstrap)  # type: ignore[misc]
        self._started.life = weakref.ref(begin)
        return begin

    def start(self) -> None:
        try:
            super().start()
        except (RuntimeError, MemoryError):
            # `threading` keeps a thread that has ended before it began.
            self._work = None
            raise

    def run(self) -> None:
        self._started.lock.release()
        work, self._work = self._work, None
        assert work is not None, "a thread runs once"
        work()


class _Begun(threading.Event):
    """The thread's beginning, which `start` waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        """Held until the work begins: to release it takes no memory."""
        self.lock.acquire()
        self.life: weakref.ref[object] = weakref.ref(self)
        """To what the system holds of the thread."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the work has begun. Raises RuntimeError: the thread has ended before."""
        while not self.lock.acquire(timeout=LOOK_SECONDS):
            if self.life() is None and not self.lock.acquire(blocking=False):
                raise RuntimeError("it had no memory to begin")
        return True
