"""The thread by which an attached process learns that its owner has gone, and what comes then.

    ATTACHED --the connection ends--> WITHOUT --the lock is free--> OWNER          the thread has ended
        ^                                |
        +------ another one listens -----+

The connection says nothing: the system closes it when the owner ends, however it ends, and at no other moment. A
stopped process keeps it open. A server that closes it as idle is asked for another one.
"""

import select
import socket
import threading
from collections.abc import Callable

from pylog.runtime.clock import Clock
from pylog.runtime.worker import started

__all__ = ["Succession"]

PAUSE_MS, PAUSE_MS_MAX = 4, 64
SHORT_MS = 1000
"""A connection that ends sooner was refused: the next one is made after a pause."""


class Succession:
    """Calls `seek` again and again while there is no owner: it gives a connection to a new one, or None.

    It ends when `is_over` says so, and at `close`. `lost` is called when an owner has gone.
    """

    def __init__(
        self, connection: socket.socket, clock: Clock, lost: Callable[[], None],
        seek: Callable[[], socket.socket | None], is_over: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._connection: socket.socket | None = connection
        self._clock = clock
        self._lost = lost
        self._seek = seek
        self._is_over = is_over
        self._ended = threading.Event()
        self._waking, self._wake = socket.socketpair()
        self._thread = started(self._run, "pylog-attached")

    def _run(self) -> None:
        pause_ms = 0
        while not self._ended.is_set():
            begun = self._clock.tick_ms()
            self._wait(self._connection, None)
            self._drop()
            if self._clock.tick_ms() - begun >= SHORT_MS:
                pause_ms = 0
            if not self._ended.is_set():
                self._lost()
            while self._connection is None and not self._ended.is_set():
                self._wait(None, pause_ms)
                pause_ms = min(max(2 * pause_ms, PAUSE_MS), PAUSE_MS_MAX)
                if not self._ended.is_set():
                    self._connection = self._seek()
                if self._is_over():
                    return

    def _wait(self, connection: socket.socket | None, timeout_ms: int | None) -> None:
        waiting = select.poll()
        waiting.register(self._waking, select.POLLIN)
        if connection is not None:
            waiting.register(connection, select.POLLIN)
        waiting.poll(timeout_ms)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """End the thread, and the connection."""
        self._ended.set()
        self._wake.close()
        if self._thread is not None:
            self._thread.join()
        self._drop()
        self._waking.close()

    def abandon(self) -> None:  # pragma: no cover - in a forked child
        """Close the descriptors in a forked child: the thread is its parent's."""
        self._ended.set()
        self._drop()
        for one in (self._waking, self._wake):
            one.close()
