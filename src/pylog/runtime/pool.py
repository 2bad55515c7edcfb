"""A few threads for calls that wait: for a disk, for a coordinator, for a new topic.

A thread starts with a call that finds all others busy. Threads are daemons and hold nothing.
"""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from pylog.errors import ThreadsExhausted
from pylog.runtime.threads import started

logger = logging.getLogger("pylog.runtime")


class Pool:
    """Calls functions in threads of its own, `threads_max` at most, which are called `name`. Thread-safe."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name, self._threads_max = name, threads_max
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    @property
    def unfinished(self) -> int:
        """How many calls wait, or are made."""
        return self._unfinished

    def begin(self) -> None:
        """Have a thread, so that `submit` never raises. Raises ThreadsExhausted."""
        with self._lock:
            if not self._threads:
                self._start_one()

    def submit(self, call: Callable[[], object]) -> None:
        """Call `call` soon, in a thread of the pool. Its exceptions are logged.

        Where the system starts no more threads, it waits for those that there are. Raises ThreadsExhausted where there
        are none: the call is not made.
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
        """Let the threads end when all submitted calls are done; gives them. A later call begins anew."""
        with self._lock:
            ending, self._threads = self._threads, []
        for _ in ending:
            self._calls.put(None)
        return ending

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a call of %s failed", self._name)
            finally:
                with self._lock:
                    self._unfinished -= 1
