"""A few threads for calls that may wait for a disk, for a coordinator or for a new topic.

A thread starts with a call that finds all others busy. Threads are daemons and hold nothing.
"""

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock

from pylog.runtime.worker import started

logger = logging.getLogger("pylog.server")


class Pool:
    """Calls functions in threads of its own, `threads_max` at most, which are called `name`. Thread-safe."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name, self._threads_max = name, threads_max
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = Lock()
        self._threads = 0
        self._unfinished = 0

    @property
    def unfinished(self) -> int:
        """How many calls wait, or are made."""
        return self._unfinished

    def submit(self, call: Callable[[], object]) -> None:
        """Call `call` soon, in a thread of the pool. Its exceptions are logged.

        Where the system starts no more threads, it waits for those that there are. Raises RuntimeError where there are
        none: the call is not made.
        """
        with self._lock:
            if self._unfinished >= self._threads and self._threads < self._threads_max:
                self._start_one()
            self._unfinished += 1
        self._calls.put(call)

    def _start_one(self) -> None:
        try:
            started(self._run, f"pylog-server-{self._name}-{self._threads + 1}")
        except RuntimeError as error:
            if self._threads == 0:
                raise
            logger.warning("the pool %s goes on with %d threads: %s", self._name, self._threads, error)
        else:
            self._threads += 1

    def close(self) -> None:
        """Let the threads end when all submitted calls are done."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a call of the server's pool failed")
            finally:
                with self._lock:
                    self._unfinished -= 1
