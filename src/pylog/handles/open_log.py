"""The logs that this process has open.

A log outlives its `Log` handle, if that is dropped, until it is closed. The process keeps all open logs here. Its exit
hook closes those that are left, and so delivers all records that were sent, as `Log.close` does.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from pylog.client.cluster import Cluster
from pylog.client.producer.client import ProducerClient
from pylog.client.producer.failures import log_failures, together
from pylog.errors import Closed, Undelivered
from pylog.metrics.snapshot import Metrics
from pylog.runtime.closing import drop, has_dropped, settle
from pylog.runtime.signals import WholeLock, pause, whole
from pylog.transport import Transport

if TYPE_CHECKING:
    from pylog.client.consumer.client import ConsumerClient

_open: set["OpenLog"] = set()

PAUSE_SECONDS = 3600.0


class Served(Protocol):
    """A server of the log."""

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now."""

    def close(self) -> None:
        """Answer what was received, and serve no more."""


class Node(Protocol):
    """The node below a log, or the way to one."""

    def hurry(self) -> bool:
        """Let no answer wait for others longer than need be, as the log is about to close. Gives whether the node ends
        with the log: nothing is to be sent again then.
        """

    def close(self) -> None:
        """Close it. Again: raise what the first close has raised."""

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now."""


class OpenLog:
    """A node, or the way to one, how to reach it, and its clients in this process. `words` name it, as in a message,
    and `opens` is the verb for what leads to it.
    """

    def __init__(
        self, path: str, words: Callable[[], str], node: Node, transport: Transport, asked: int, opens: str = "open"
    ) -> None:
        self.path = path
        self.node = node
        self.transport = transport
        self.asked = asked
        """The node that clients ask about topics."""
        self.cluster = Cluster(transport, asked, "admin")
        self._words = words
        self._opens = opens
        self.clients: weakref.WeakSet[ProducerClient | ConsumerClient] = weakref.WeakSet()
        """Those that were dropped open are in `closing`."""
        self.servers: list[Served] = []
        self.closed = False
        self.is_inherited = False
        """Whether this process was forked from the one that opened it."""
        self.anew = WholeLock(threading.RLock())
        """Held by the thread that opens the log again in a forked child. A handler that strikes there does so
        itself.
        """
        self._claim = WholeLock()
        self._closer: int | None = None
        """The thread that closes it."""
        self._over = threading.Event()
        """Whether that has come to its end."""
        _open.add(self)

    def __repr__(self) -> str:
        return f"<Log {self._words()}>"

    @whole
    def close(self) -> Undelivered | None:
        """See `Log.close`; gives what that raises last of all."""
        if self.closed:
            self._close_again()
            return None
        for producer in self._producers():
            producer.refuse_inside("close of the log")
        if any(producer.is_closing_here for producer in self._producers()):
            # The handler of a signal has interrupted a close: the thread that closes dropped logs waits for it.
            drop(self, self)
            return None
        if self.node.hurry():
            for producer in self._producers():
                producer.hurry()
        if has_dropped(self):
            settle()
        failures: list[Undelivered | None] = []
        is_first = False
        try:
            with self._claim:
                is_first, self.closed = not self.closed, True
                if is_first:
                    self._closer = threading.get_ident()
            if not is_first:
                self._close_again()
                return None
            self._close_all(list(self.clients), failures)
        except BaseException:
            log_failures(together(failures))
            raise
        finally:
            if is_first:
                _open.discard(self)
                self._over.set()
        return together(failures)

    def _close_again(self) -> None:
        """Wait for the thread that closes it, and raise what that has come to. The handler of a signal that has struck
        in a close leaves it to that.
        """
        if self._closer == threading.get_ident() and not self._over.is_set():
            return
        while self._closer is not None and not pause(self._over, PAUSE_SECONDS):
            pass
        if not self.is_inherited:
            # A second signal may have ended the first close, and the node may be gone: the futures say so.
            for producer in self._producers():
                with suppress(TimeoutError):
                    producer.close(0)
            self.node.close()

    def _close_all(self, clients: "list[ProducerClient | ConsumerClient]", failures: list[Undelivered | None]) -> None:
        with ExitStack() as closing:
            # Last in, first out: each is closed, whatever another one raises. Servers first: they answer what they have
            # received.
            closing.callback(self.node.close)
            closing.callback(self.cluster.release, self._why_closed())
            for client in clients:
                if isinstance(client, ProducerClient):
                    closing.callback(_close_producer, client, failures)
                else:
                    closing.callback(client.log_closes)
            for server in self.servers:
                closing.callback(server.close)

    def metrics(self) -> Metrics:
        """See `ClientHalf.metrics`."""
        found = Metrics()
        for one in (self.node, *self.servers, *self.clients):
            one.measure(found)
        return found

    def add(self, client: "ProducerClient | ConsumerClient") -> None:
        """Have a client closed with the log, which ends what it waits for. Raises Closed: it is for its maker then."""
        self.clients.add(client)
        self.check_open()

    def add_server(self, server: "Served") -> None:
        """Have a server closed with the log, before the node. Raises Closed, and closes it: the log is closed."""
        self.servers.append(server)
        try:
            self.check_open()
        except Closed:
            server.close()
            raise

    def check_open(self) -> None:
        if self.is_inherited:
            raise Closed(f"this log was opened before the process forked: {self._opens} {self.path} again in the child")
        if self.closed:
            raise Closed(self._why_closed())

    def _why_closed(self) -> str:
        return f"this log is closed; {self._opens} {self.path} again"

    def close_dropped(self) -> None:
        """Close it: there is no handle any more."""
        log_failures(self.close())

    def abandon(self) -> None:
        """Let go of it as a process that is killed does."""
        self.closed = self.is_inherited = True
        self.anew = WholeLock(threading.RLock())
        _open.discard(self)
        for producer in self._producers():
            producer.abandon()
        self.transport.abandon()

    def _producers(self) -> list[ProducerClient]:
        return [client for client in list(self.clients) if isinstance(client, ProducerClient)]


def _close_producer(producer: ProducerClient, failures: list[Undelivered | None]) -> None:
    failures.append(producer.close())


@atexit.register
def _close_all() -> None:
    with ExitStack() as closing:
        try:
            settle()
        finally:
            for log in list(_open):
                closing.callback(log.close_dropped)


def _abandon_all() -> None:
    for log in list(_open):
        log.abandon()


# What a child inherits is its parent's: closing it there would flush and answer for records that are not the child's.
os.register_at_fork(after_in_child=_abandon_all)
