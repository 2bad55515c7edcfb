"""`Server`: a node that clients of Kafka's protocol reach by TCP.

A server has a thread for its sockets and a few threads for calls that may wait. `close` stops it within a second: it
accepts no more, answers the requests that it has received, and closes its connections. Closing the log closes it, too.
"""

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from pylog.server.api.call import Fate
from pylog.server.dispatch import Call
from pylog.server.listeners import Address, bind, parse_listeners
from pylog.server.loop import Counts, Loop
from pylog.server.served_node import ServedNode

__all__ = ["Server"]

_running: weakref.WeakSet["Server"] = weakref.WeakSet()


class Closeable(Protocol):
    """A thing that is closed with a server."""

    def close(self) -> None:
        """Close it; a second time does nothing."""


class Server:
    """A node that is served. Thread-safe; close it, or use it as a context manager.

    `listen` is "host:port", or several, each with a name: "INSIDE://host:port"; port 0 takes one that is free. What
    `advertise` has is the address that clients of the listener of that name are told to connect to, if it is another
    one. `intercept` sees each request, and gives the fate of those that do not fare as the others: `pylog.testing` lets
    answers fail by it.

    Raises: ValueError (not an address, or an address on every interface without one to advertise), OSError.
    """

    def __init__(
        self, node: ServedNode, listen: str | Sequence[str], *, advertise: str | Sequence[str] | None = None,
        intercept: Callable[[Call], Fate | None] | None = None,
    ) -> None:  # fmt: skip
        listeners = parse_listeners(listen, advertise)
        self.addresses: dict[str, Address] = {}
        """The address that clients of each listener are told to connect to, by the listener's name."""
        with ExitStack() as opened:
            sockets = [opened.enter_context(bind(listener.listen)) for listener in listeners]
            for (name, address, told), listening in zip(listeners, sockets, strict=True):
                port = listening.getsockname()[1]
                self.addresses[name] = (told or address).with_port(port)
            served = [node.but(address=address) for address in self.addresses.values()]
            self._loop = Loop(list(zip(sockets, served, strict=True)), intercept)
            opened.pop_all()
        self.owned: Closeable | None = None
        """It is closed with the server."""
        self._is_closed = False
        self._loop.start()
        _running.add(self)

    def __repr__(self) -> str:
        return f"<Server {self.bootstrap_servers}{', closed' if self._is_closed else ''}>"

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers` for a client of the first listener."""
        return str(next(iter(self.addresses.values())))

    @property
    def counts(self) -> Counts:
        """The connections and requests so far."""
        return self._loop.counts

    def close(self) -> None:
        """Stop serving; a second time does nothing."""
        if not self._is_closed:
            self._is_closed = True
            _running.discard(self)
            self._loop.stop()
        if self.owned is not None:
            self.owned.close()

    def kill(self) -> None:
        """End as a killed process does: every connection ends at once, and nothing more is answered."""
        if not self._is_closed:
            self._is_closed = True
            _running.discard(self)
            self._loop.kill()

    def abandon(self) -> None:
        """Close the sockets in a forked child: they belong to the parent."""
        self._is_closed = True
        self._loop.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _abandon_all() -> None:
    for server in list(_running):
        server.abandon()
    _running.clear()


os.register_at_fork(after_in_child=_abandon_all)
