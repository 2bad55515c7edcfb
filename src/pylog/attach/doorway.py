"""The owner's door for other processes: a Unix socket that listens, and a thread that waits until one connects.

    parked    the thread waits for the first connection; nothing of a server is in memory
    serving   a server's loop has the socket; the thread waits for the ends of the processes that came in (`peers`)
    blocked   it cannot listen, say so, or serve: the thread tries again every second

The thread looks once a second whether the socket's file is in its place, also while nothing is appended: a process that
finds none cannot say so to the owner. A file that is gone at two looks is made again. Connections are not touched by
that. A file that somebody has put there is left alone, and a directory that was replaced gets no socket.

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
from time import monotonic
from typing import TYPE_CHECKING

from pylog.attach.notice import Notice, places_of, unusual
from pylog.attach.peers import Peers
from pylog.attach.places import listening, listening_again
from pylog.broker.broker import Broker
from pylog.errors import DirectoryReplaced, StorageError
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

LOOK_SECONDS = 1.0

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
        self._is_missed = False
        """Whether the socket's file was missing at the last look."""
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
        self.look(broker)
        self._thread = started(lambda: self._run(broker), "pylog-doorway")

    def look(self, broker: Broker) -> None:
        """Let other processes in where that could not be before, or where the socket's file is gone."""
        with self._lock:
            if self._is_closed:
                return
            obstacle = self._listen() if self._bound is None else self._listen_again(self._bound, broker)
            if obstacle == self._obstacle:
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
                self._bound, self._place = listening(self._paths[0])
            except OSError as error:
                return str(error)
        return ""

    def _listen_again(self, bound: "Bound", broker: Broker) -> str:
        """Listen at the same place where the file was gone a second ago, too; gives why that cannot be."""
        try:
            was_missed, self._is_missed = self._is_missed, not bound.is_in_place()
            if not self._is_missed:
                return ""
            if not was_missed:
                # A directory that is being removed loses its files one by one.
                return self._obstacle or ""
            broker.check_in_place()
            with undivided:
                self._bound = listening_again(bound, self._place)
        except DirectoryReplaced:
            # Appends are told of it (`broker/place_watch`).
            return self._obstacle or ""
        except (OSError, StorageError) as error:
            return str(error)
        self._is_missed = False
        if self._loop is not None:
            self._loop.move(self._bound.socket)
        else:
            stop_listening(bound.socket)
        logger.warning("%s was removed, and is there again: other processes attach by it", self._bound.path)
        return ""

    def _notice(self, broker: Broker, obstacle: str) -> Notice:
        return Notice(
            pid=os.getpid(), socket="" if obstacle else self._place, obstacle=obstacle, node_id=broker.node_id,
            flush=self._flush, paths=self._paths, places=places_of(self._paths), config=unusual(broker.config),
        )  # fmt: skip

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self, broker: Broker) -> None:
        look_at = monotonic() + LOOK_SECONDS
        may_serve = True
        while not self._is_closed:
            is_called = self._wait(look_at, may_serve=may_serve)
            if monotonic() >= look_at:
                self.look(broker)
                look_at, may_serve = monotonic() + LOOK_SECONDS, True
            elif is_called:
                may_serve = self._answer(broker)

    def _answer(self, broker: Broker) -> bool:
        """Serve the processes that connect, or tell of those that have ended; gives whether that could be."""
        try:
            if self._loop is None:
                self._serve(broker)
            elif self._peers is not None:
                self._peers.tell()
        except Exception:
            logger.exception("%s cannot be attached to, or members of processes that ended stay", self._paths[0])
            return False
        return True

    def _wait(self, until: float, *, may_serve: bool) -> bool:
        """Wait until that time, or until there is something to answer; gives whether there is."""
        waiting = select.poll()
        waiting.register(self._waking, select.POLLIN)
        if may_serve:
            if self._peers is not None:
                waiting.register(self._peers, select.POLLIN)
            if self._loop is None and self._bound is not None and not self._obstacle:
                waiting.register(self._bound.socket, select.POLLIN)
        return bool(waiting.poll(max(0, (until - monotonic()) * 1000)))

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
            node = ServedNode(broker.handle, broker.node_id, broker.configs, self._clock, place)
            if self._peers is None and can_watch():
                self._peers = Peers(broker.process_ended)
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
        try:
            if self._bound is not None:
                self._bound.release()
        except OSError as error:
            raise typed_error(error, "remove", self._place) from error
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._loop is not None:
            self._loop.stop()
        if self._bound is not None:
            # A loop that has failed does not have it.
            stop_listening(self._bound.socket)
        # Not before: what a child that is forked meanwhile has of it would look alive.
        _open.discard(self)
        if self._peers is not None:
            self._peers.close()
        self._waking.close()

    def abandon(self) -> None:  # pragma: no cover - in a forked child
        """Close the descriptors in a forked child: they belong to the parent."""
        self._is_closed = True
        for one in (self._waking, self._wake):
            one.close()
        if self._loop is not None:
            self._loop.abandon()
        if self._bound is not None:
            self._bound.socket.close()
        if self._peers is not None:
            self._peers.close()


def _abandon_all() -> None:
    for door in list(_open):
        door.abandon()
    _open.clear()


os.register_at_fork(after_in_child=_abandon_all)
