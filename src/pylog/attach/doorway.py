"""The owner's door for other processes: a Unix socket that listens, and a thread that sleeps until one connects.

    parked    the thread waits for the first connection; nothing of a server is in memory
    serving   a server's loop has the socket; the thread has ended

The socket is this user's alone (mode 0600). A log that cannot listen is open all the same, and says why in its notice.
(Kafka's protocol, as every listener.)
"""

import logging
import os
import select
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pylog.attach.notice import Notice, places_of, unusual
from pylog.attach.places import listening
from pylog.broker.broker import Broker
from pylog.errors import StorageError
from pylog.runtime.clock import Clock
from pylog.runtime.forking import undivided
from pylog.runtime.signals import WholeLock
from pylog.runtime.worker import started
from pylog.server.listeners import UnixAddress

if TYPE_CHECKING:
    from pylog.server.binding import Bound
    from pylog.server.loop import Loop

__all__ = ["Doorway"]

logger = logging.getLogger("pylog")

_open: weakref.WeakSet["Doorway"] = weakref.WeakSet()


class Doorway:
    """The door of one node. Close it before the node."""

    def __init__(self, broker: Broker, paths: Sequence[str], clock: Clock, flush: str) -> None:
        self._broker = broker
        self._clock = clock
        self._lock = WholeLock()
        self._is_closed = False
        self._loop: Loop | None = None
        self._bound: Bound | None = None
        self._thread: threading.Thread | None = None
        self._waking, self._wake = socket.socketpair()
        self._place = obstacle = ""
        with undivided:
            try:
                self._bound, self._place = listening(paths[0])
            except OSError as error:
                obstacle = str(error)
                logger.warning("no other process can attach to %s: %s", paths[0], error)
            _open.add(self)
        try:
            self._announce(Notice(
                pid=os.getpid(), socket=self._place, obstacle=obstacle, node_id=broker.node_id, flush=flush,
                paths=tuple(paths), places=places_of(paths), config=unusual(broker.config),
            ))  # fmt: skip
            if self._bound is not None:
                self._thread = started(self._park, "pylog-doorway")
        except BaseException:
            self.close()
            raise

    def _announce(self, notice: Notice) -> None:
        try:
            self._broker.announce(notice.text())
        except StorageError as error:
            # A full disk is no reason not to open.
            logger.warning("no other process can attach to %s: %s", notice.paths[0], error)

    def _park(self) -> None:
        assert self._bound is not None, "it listens"
        waiting = select.poll()
        for one in (self._bound.socket, self._waking):
            waiting.register(one, select.POLLIN)
        waiting.poll()
        try:
            self._serve(self._bound)
        except Exception:
            logger.exception("no other process can attach any more")

    def _serve(self, bound: "Bound") -> None:
        if self._is_closed:
            return
        # The child of a fork in between would wait for ever for the rest of an import.
        with undivided:
            from pylog.server.door import Door
            from pylog.server.loop import Loop
            from pylog.server.served_node import ServedNode

        broker = self._broker
        with self._lock:
            if not self._is_closed:
                place = UnixAddress(bound.socket.getsockname())
                node = ServedNode(broker.handle, broker.node_id, broker.cluster_id, broker.config, self._clock, place)
                self._loop = Loop([Door(bound, node)])
                self._loop.start()

    def close(self) -> None:
        """Answer what was received, and let nobody in any more. A second time does nothing."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        self._wake.close()
        if self._loop is not None:
            self._loop.stop()
        elif self._bound is not None:
            self._bound.socket.close()
        # Not before: what a child that is forked meanwhile has of it would look alive.
        _open.discard(self)
        if self._bound is not None:
            self._bound.release()
        if self._thread is not None:
            self._thread.join()
        self._waking.close()

    def abandon(self) -> None:
        """Close the descriptors in a forked child: they belong to the parent."""
        self._is_closed = True
        for one in (self._waking, self._wake):
            one.close()
        if self._loop is not None:
            self._loop.abandon()
        elif self._bound is not None:
            self._bound.socket.close()


def _abandon_all() -> None:
    for door in list(_open):
        door.abandon()
    _open.clear()


os.register_at_fork(after_in_child=_abandon_all)
