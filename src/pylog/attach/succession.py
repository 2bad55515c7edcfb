"""The thread by which an attached process learns that its owner has gone, and what comes then.

    ATTACHED --the connection ends--> WITHOUT --the lock is free--> OWNER          the thread has ended
        ^                                |
        +------ another one listens -----+

The connection carries no bytes: the system closes it when the owner ends, however it ends, and at no other moment. A
stopped process keeps it open. A server that closes it as idle is asked for another one. A child that was forked by
other code than Python's keeps it open, too, when the owner is killed: so the owner's process is watched as well, where
the system tells of it.
"""

import select
import socket
import threading
from collections.abc import Callable

from pylog.attach.places import peer_of
from pylog.errors import ThreadsExhausted
from pylog.files.processes import RunningProcess, can_watch, is_gone
from pylog.runtime.clock import Clock
from pylog.runtime.sockets import hang_up
from pylog.runtime.threads import started

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
        try:
            self._thread = started(self._run, "pylog-attached")
        except ThreadsExhausted:
            self._waking.close()
            self._wake.close()
            raise

    def _run(self) -> None:
        pause_ms = 0
        while not self._ended.is_set():
            begun = self._clock.tick_ms()
            self._wait_for_the_end()
            self._drop()
            if self._clock.tick_ms() - begun >= SHORT_MS:
                pause_ms = 0
            if not self._ended.is_set():
                self._lost()
            while self._connection is None and not self._ended.is_set():
                self._wait(pause_ms)
                pause_ms = min(max(2 * pause_ms, PAUSE_MS), PAUSE_MS_MAX)
                if not self._ended.is_set():
                    self._connection = self._seek()
                if self._is_over():
                    return

    def _wait_for_the_end(self) -> None:
        """Wait until the owner ends: its connection, or its process where the system tells of it."""
        assert self._connection is not None, "there is an owner"
        pid = peer_of(self._connection)
        if not (pid and can_watch()):
            self._wait(None, self._connection)
            return
        try:
            owner = RunningProcess(pid)
        except OSError:
            # Where it has ended already a child may keep the connection open for ever.
            if not is_gone(pid):
                self._wait(None, self._connection)
            return
        try:
            self._wait(None, self._connection, owner)
        finally:
            owner.close()

    def _wait(self, timeout_ms: int | None, *others: socket.socket | RunningProcess) -> None:
        waiting = select.poll()
        for one in (self._waking, *others):
            waiting.register(one, select.POLLIN)
        waiting.poll(timeout_ms)

    def _drop(self) -> None:
        if self._connection is not None:
            hang_up(self._connection)
            self._connection = None

    def close(self) -> None:
        """End the thread, and the connection."""
        self._ended.set()
        hang_up(self._wake)
        if self._thread is not None:
            self._thread.join()
        self._drop()
        self._waking.close()

    def abandon(self) -> None:  # pragma: no cover - in a forked child
        """Close the descriptors in a forked child: the thread is its parent's."""
        self._ended.set()
        for one in (self._connection, self._waking, self._wake):
            if one is not None:
                one.close()
