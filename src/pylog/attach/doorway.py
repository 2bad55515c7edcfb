"""The owner's door for other processes: a Unix socket that listens, and a thread that sleeps until one connects.

    parked    the thread waits for the first connection; nothing of a server is in memory
    serving   a server's loop has the socket; the thread waits for the ends of the processes that came in (`peers`)
    blocked   it cannot listen, say so, or serve: the thread tries again every second

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
from pylog.attach.peers import Peers
from pylog.attach.places import listening
from pylog.broker.broker import Broker
from pylog.errors import StorageError
from pylog.files.processes import can_watch
from pylog.files.protocol import typed_error
from pylog.runtime.clock import Clock
from pylog.runtime.forking import undivided
from pylog.runtime.signals import WholeLock
from pylog.runtime.sockets import hang_up, stop_listening
from pylog.runtime.threads import started
from pylog.server.listeners import UnixAddress

if TYPE_CHECKING:
    from pylog.server.binding import Bound
    from pylog.server.loop import Loop

__all__ = ["Doorway"]

logger = logging.getLogger("pylog.attach")

AGAIN_MS = 1000

_open: weakref.WeakSet["Doorway"] = weakref.WeakSet()


class Doorway:
    """The door of one node. It is closed before the node. Raises StorageError: there are no descriptors for it."""

    def __init__(self, paths: Sequence[str], clock: Clock, flush: str) -> None:
        self._paths = tuple(paths)
        self._clock = clock
        self._flush = flush
        self._lock = WholeLock()
        self._is_closed = False
        self._loop: Loop | None = None
        self._bound: Bound | None = None
        self._place = ""
        self._obstacle: str | None = None
        """Why no process comes in, as it was said last; "" if one may."""
        self._peers: Peers | None = None
        self._thread: threading.Thread | None = None
        try:
            self._waking, self._wake = socket.socketpair()
        except OSError as error:
            raise typed_error(error, "let other processes attach to", paths[0]) from error

    def open(self, broker: Broker) -> None:
        """Let other processes in from now on, or else as soon as that can be."""
        with undivided:
            _open.add(self)
        self._let_in(broker)
        self._thread = started(lambda: self._run(broker), "pylog-doorway")

    def _let_in(self, broker: Broker) -> None:
        with self._lock:
            if self._is_closed:
                return
            obstacle = self._listen()
            if obstacle and obstacle == self._obstacle:
                return
            try:
                broker.announce(self._notice(broker, obstacle).text())
            except StorageError as error:
                # A full disk is no reason not to open.
                obstacle = str(error)
            if obstacle and obstacle != self._obstacle:
                logger.warning("no other process can attach to %s now: %s", self._paths[0], obstacle)
            self._obstacle = obstacle

    def _listen(self) -> str:
        """Listen; gives why that cannot be."""
        with undivided:
            try:
                if self._bound is None:
                    self._bound, self._place = listening(self._paths[0])
            except OSError as error:
                return str(error)
        return ""

    def _notice(self, broker: Broker, obstacle: str) -> Notice:
        return Notice(
            pid=os.getpid(), socket=self._place, obstacle=obstacle, node_id=broker.node_id, flush=self._flush,
            paths=self._paths, places=places_of(self._paths), config=unusual(broker.config),
        )  # fmt: skip

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self, broker: Broker) -> None:
        while not self._is_closed:
            if self._loop is not None:
                self._watch()
                continue
            if self._obstacle:
                self._wait(None, AGAIN_MS)
                self._let_in(broker)
                continue
            self._wait(self._bound, None)
            try:
                self._serve(broker)
            except Exception:
                logger.exception("no other process can attach to %s now", self._paths[0])
                self._wait(None, AGAIN_MS)

    def _watch(self) -> None:
        if self._peers is None:
            self._wait(None, None)
            return
        try:
            self._peers.wait()
        except Exception:
            logger.exception("members of groups of a process that has ended have to be waited for")

    def _wait(self, bound: "Bound | None", timeout_ms: int | None) -> None:
        waiting = select.poll()
        waiting.register(self._waking, select.POLLIN)
        if bound is not None:
            waiting.register(bound.socket, select.POLLIN)
        waiting.poll(timeout_ms)

    def _serve(self, broker: Broker) -> None:
        # The child of a fork in between would wait for ever for the rest of an import.
        with self._lock, undivided:
            if self._is_closed:
                return
            from pylog.server.door import Door
            from pylog.server.loop import Loop
            from pylog.server.served_node import ServedNode

            assert self._bound is not None, "it listens"
            place = UnixAddress(self._bound.socket.getsockname())
            node = ServedNode(broker.handle, broker.node_id, broker.config, self._clock, place)
            if self._peers is None and can_watch():
                self._peers = Peers(broker.process_ended, self._waking)
            loop = Loop([Door(self._bound, node, host_of=self._peers.host_of if self._peers is not None else None)])
            loop.start()
            self._loop = loop

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Answer what was received, and let no process in any more. A second time does nothing."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        hang_up(self._wake)
        # It looks at the sockets until it has ended.
        if self._thread is not None:
            self._thread.join()
        if self._loop is not None:
            self._loop.stop()
        elif self._bound is not None:
            stop_listening(self._bound.socket)
        # Not before: what a child that is forked meanwhile has of it would look alive.
        _open.discard(self)
        if self._peers is not None:
            self._peers.close()
        self._waking.close()
        if self._bound is not None:
            try:
                self._bound.release()
            except OSError as error:
                raise typed_error(error, "remove", self._place) from error

    def abandon(self) -> None:  # pragma: no cover - in a forked child
        """Close the descriptors in a forked child: they belong to the parent."""
        self._is_closed = True
        for one in (self._waking, self._wake):
            one.close()
        if self._loop is not None:
            self._loop.abandon()
        elif self._bound is not None:
            self._bound.socket.close()
        if self._peers is not None:
            self._peers.close()


def _abandon_all() -> None:
    for door in list(_open):
        door.abandon()
    _open.clear()


os.register_at_fork(after_in_child=_abandon_all)
