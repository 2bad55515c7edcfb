"""A few threads for calls that wait: for a disk, for a coordinator, for a new topic.

A thread starts with a call that finds all others busy. Threads are daemons and hold nothing.

A pool whose calls mostly compute makes one at a time, so that the rest of the process shares the interpreter with one
thread. A call that takes longer than the patience of the pool loses its turn: the next one is made beside it.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue

from pylog.errors import ThreadsExhausted
from pylog.runtime.threads import started

logger = logging.getLogger("pylog.runtime")


class Turn:
    """The turn that one thread has at a time, for `patience_s` while others wait. Thread-safe."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._changing = threading.Lock()
        self._held = threading.Lock()
        self._times = 0
        """How often the turn was taken."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for the turn, and give it back."""
        held = self._take()
        try:
            yield
        finally:
            held.release()

    def _take(self) -> threading.Lock:
        while True:
            with self._changing:
                held, times = self._held, self._times
            is_free = held.acquire(timeout=self._patience_s)
            with self._changing:
                is_current = held is self._held
                if is_free and is_current:
                    self._times += 1
                    return held
                if is_free:
                    held.release()
                elif is_current and times == self._times:
                    # One thread has had it all the time. It goes on without it.
                    self._held = threading.Lock()


class Pool:
    """Calls functions in threads of its own, `threads_max` at most, which are called `name`. Thread-safe.

    `patience_s`: the pool makes one call at a time, until that has taken so long; None: as many as there are threads.
    """

    def __init__(self, name: str, threads_max: int, patience_s: float | None = None) -> None:
        self._name, self._threads_max = name, threads_max
        self._turn = None if patience_s is None else Turn(patience_s)
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    @property
    def unfinished(self) -> int:
        """The number of calls that wait, or are made."""
        return self._unfinished

    def begin(self) -> None:
        """Have a thread, so that `submit` never raises. Raises ThreadsExhausted."""
        with self._lock:
            if not self._threads:
                self._start_one()

    def submit(self, call: Callable[[], object]) -> None:
        """Call `call` soon, in a thread of the pool. Its exceptions are logged.

        Where the system starts no more threads, it waits for the ones that run. Raises ThreadsExhausted where none
        runs: the call is not made.
        """
        with self._lock:
            if self._unfinished >= len(self._threads) < self._threads_max:
                try:
                    self._start_one()
                except ThreadsExhausted as error:
                    if not self._threads:
                        raise
                    logger.warning("%s goes on with %d threads: %s", self._name, len(self._threads), error)
            self._unfinished += 1
        self._calls.put(call)

    def _start_one(self) -> None:
        name = f"{self._name}-{len(self._threads) + 1}"
        thread = started(self._run, name)
        if thread is None:
            raise ThreadsExhausted(f"there is no thread for {name}: the interpreter ends")
        self._threads.append(thread)

    def close(self) -> list[threading.Thread]:
        """Let the threads end when all submitted calls are done; gives them. A later call begins again."""
        with self._lock:
            ending, self._threads = self._threads, []
        for _ in ending:
            self._calls.put(None)
        return ending

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                with nullcontext() if self._turn is None else self._turn.taken():
                    call()
            except Exception:
                logger.exception("a call of %s failed", self._name)
            finally:
                with self._lock:
                    self._unfinished -= 1
