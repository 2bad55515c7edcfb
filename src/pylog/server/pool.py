"""A few threads for calls that may wait: for a disk, for a coordinator, for a topic that is made.

A thread starts with the first call that finds no other one idle. Threads are daemons and hold nothing.
"""

import logging
from collections.abc import Callable
from queue import SimpleQueue

from pylog.runtime.worker import started

logger = logging.getLogger("pylog")

THREADS_MAX = 4


class Pool:
    """Calls functions in threads of its own. `submit` and `close` are for one thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Callable[[], object]) -> None:
        """Have `call` called soon. What it raises is logged."""
        if self._calls.qsize() >= self._idle and self._threads < THREADS_MAX:
            self._threads += 1
            started(self._run, f"pylog-server-{self._threads}")
        self._calls.put(call)

    def close(self) -> None:
        """Let the threads end when everything that was submitted is done."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _run(self) -> None:
        while True:
            self._idle += 1
            call = self._calls.get()
            self._idle -= 1
            if call is None:
                return
            try:
                call()
            except Exception:
                logger.exception("a call of the server's pool failed")
