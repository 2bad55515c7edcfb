"""`Server`: a node that clients of Kafka's protocol reach by TCP.

A server has a thread for its sockets and a few threads for calls that may wait. `close` stops it within a second: it
accepts no more, answers the requests that it has received, and closes its connections. Closing the log closes it, too.
"""

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import NoReturn, Self

from pylog.config import protocols_of
from pylog.metrics.snapshot import Metrics
from pylog.runtime.closing import Closeable
from pylog.server.api.call import Fate
from pylog.server.binding import bind_listener
from pylog.server.calls import Counts
from pylog.server.dispatch import ServedCall
from pylog.server.door import Door
from pylog.server.listeners import ListenAddress, Listener, Place, parse_listeners
from pylog.server.loop import Loop
from pylog.server.security import LogUsers, Security, SecurityOptions
from pylog.server.served_node import ServedNode

__all__ = ["Server"]

_running: weakref.WeakSet["Server"] = weakref.WeakSet()


class Server:
    """A node that is served. Thread-safe; close it, or use it as a context manager.

    `listen` is "host:port", or several, each with a name: "INSIDE://host:port"; port 0 takes one that is free, and
    "unix:path" is a Unix socket. What `advertise` has is the address that clients of the listener of that name are told
    to connect to, if it is another one. `security`: see `SecurityOptions`. `users` are those of the log.
    `intercept` sees each request, and gives the fate of those that do not fare as the others:
    `pylog.testing` lets answers fail by it.

    Raises: ValueError (not an address, an address on every interface without one to advertise, a listener without TLS
    that other hosts would reach, no certificate), TypeError (an option that is not known), OSError.

    >>> server = log.serve("127.0.0.1:0")
    >>> server
    <Server 127.0.0.1:...>
    """

    def __init__(
        self, node: ServedNode, listen: str | Sequence[str], *, advertise: str | Sequence[str] | None = None,
        security: SecurityOptions | None = None, users: LogUsers | None = None,
        intercept: Callable[[ServedCall], Fate | None] | None = None,
    ) -> None:  # fmt: skip
        listeners = parse_listeners(listen, advertise, protocols_of(node.config.listener_security_protocol_map))
        self.addresses: dict[str, Place] = {}
        """The address that clients of each listener are told to connect to, by the listener's name."""
        with ExitStack() as opened:
            doors = []
            for listener, door in self._doors(node, listeners, Security.of(security or {}), users):
                opened.enter_context(door.bound.socket)
                opened.callback(door.bound.release)
                self.addresses[listener.name] = door.node.address
                doors.append(door)
            self._loop = Loop(doors, intercept)
            self._loop.start()
            opened.pop_all()
        self._releases = [door.bound.release for door in doors]
        self.owned: Closeable | None = None
        """It is closed with the server."""
        self._is_closed = False
        _running.add(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a server belongs to its process, and is not pickled: give its address, and connect to it there, by "
            "pylog.connect(server.bootstrap_servers)"
        )

    @staticmethod
    def _doors(
        node: ServedNode, listeners: Sequence[Listener], security: Security, users: LogUsers | None
    ) -> Iterator[tuple[Listener, Door]]:
        protocols = {listener.protocol for listener in listeners}
        for protocol in protocols:
            security.check_fits(protocol)
        certificates = sasl = None
        # They load OpenSSL.
        if any(protocol.has_tls for protocol in protocols):
            from pylog.server.tls import Certificates

            certificates = Certificates(security)
        if any(protocol.has_sasl for protocol in protocols):
            from pylog.server.authentication import Sasl
            from pylog.server.users import ServedUsers

            of_log = users or LogUsers(dict, os.urandom(16))
            secrets = ServedUsers(security.users, of_log, node.config.sasl_enabled_mechanisms)
            sasl = Sasl(node.config, secrets, node.clock, node.log)
        for listener in listeners:
            bound = bind_listener(listener, allow_plaintext=security.allow_plaintext)
            address = listener.advertise or listener.listen
            if isinstance(address, ListenAddress):
                address = address.with_port(bound.socket.getsockname()[1])
            protocol = listener.protocol
            yield (
                listener,
                Door(
                    bound, node.but(address=address), certificates if protocol.has_tls else None,
                    sasl if protocol.has_sasl else None,
                ),
            )  # fmt: skip

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

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now: see `Log.metrics`."""
        self._loop.measure(found)

    def close(self) -> None:
        """Stop serving; a second time does nothing.

        >>> server.close()
        >>> server
        <Server 127.0.0.1:..., closed>
        """
        if not self._is_closed:
            self._is_closed = True
            with ExitStack() as closing:
                closing.callback(_running.discard, self)
                closing.callback(self._loop.stop)
                for release in self._releases:
                    closing.callback(release)
        if self.owned is not None:
            self.owned.close()

    def kill(self) -> None:
        """End as a killed process does: every connection ends at once, and nothing more is answered.

        >>> server.kill()
        >>> server
        <Server 127.0.0.1:..., closed>
        """
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
