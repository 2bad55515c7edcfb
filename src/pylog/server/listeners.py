"""Addresses: those that a server binds, and those that it advertises to its clients.

    "127.0.0.1:9092"   "localhost:0"   "[::1]:9092"   ":9092" (loopback)   "unix:/run/pylog.sock"
    "SASL_SSL://0.0.0.0:9093"          the name of a listener is its security protocol
    "INSIDE://0.0.0.0:9093"            or has one in listener.security.protocol.map

A client connects to the address in the server's answers, not to the address of its first connection. So a server that
listens on every interface needs an address to advertise: `0.0.0.0` means nothing to a client.

A listener without TLS is for this host alone, unless it is said that it may be reached by others. A Unix socket is for
its owner alone.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pylog.config import SecurityProtocol
from pylog.runtime.sockets import PORT_MAX, UNIX

__all__ = [
    "ListenAddress", "Listener", "Place", "UnixAddress", "is_loopback", "parse_address", "parse_listeners",
]  # fmt: skip

DEFAULT_NAME, UNIX_NAME = "PLAINTEXT", "UNIX"
LOOPBACK = "127.0.0.1"
ANY = frozenset({"0.0.0.0", "::", "*"})
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]+){3}|::1|::ffff:127(\.[0-9]+){3}")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class ListenAddress(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def with_port(self, port: int) -> "ListenAddress":
        """This address, with `port` in place of port 0."""
        return self if self.port else ListenAddress(self.host, port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(NamedTuple):
    """The path of a Unix socket. In answers it is a host without a port."""

    path: str

    @property
    def host(self) -> str:
        """The address in answers: "unix:/run/pylog.sock"."""
        return f"{UNIX}{self.path}"

    @property
    def port(self) -> int:
        """The port in answers."""
        return 0

    def __str__(self) -> str:
        return self.host


Place = ListenAddress | UnixAddress


def parse_address(text: str) -> Place:
    """`host:port` as an address, without a host it is loopback; `unix:path` as a path. Raises ValueError."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if not path.strip("/") or "\0" in path:
            raise ValueError(f"{text!r} is not unix:PATH, as in unix:/run/pylog.sock")
        return UnixAddress(os.path.abspath(path))
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is not HOST:PORT; an IPv6 address stands in brackets, as in [::1]:9092")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:9092 (port 0: any that is free)")
    return ListenAddress(host or LOOPBACK, int(port))


class Listener(NamedTuple):
    """An address to bind, under a name, and the one that its clients are told to connect to (None: the same)."""

    name: str
    listen: Place
    advertise: Place | None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def parse_listeners(
    listen: str | Sequence[str], advertise: str | Sequence[str] | None, protocols: Mapping[str, SecurityProtocol]
) -> list[Listener]:
    """The listeners in `[NAME://]HOST:PORT`, each with the advertised address and the protocol of its name.

    Raises ValueError.
    """
    told = _named(advertise or ())
    named = {**protocols, UNIX_NAME: protocols.get(UNIX_NAME, SecurityProtocol.PLAINTEXT)}
    found = [
        Listener(name, address, told.pop(name, None), _protocol(name, named))
        for name, address in _named(listen).items()
    ]
    if not found:
        raise ValueError("there is no address to listen on: give HOST:PORT, as in 127.0.0.1:9092")
    if told:
        names = ", ".join(listener.name for listener in found)
        raise ValueError(f"{', '.join(told)}: no listener has this name to advertise an address for; there is {names}")
    for listener in found:
        _check_addresses(listener.listen, listener.advertise)
    return found


def _named(texts: str | Sequence[str]) -> dict[str, Place]:
    named: dict[str, Place] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        name, separator, place = ("", "", text) if text.startswith(UNIX) else text.partition("://")
        if not separator:
            name, place = "", text
        elif not _NAME.fullmatch(name):
            raise ValueError(f"{text!r} is not NAME://HOST:PORT: a name has letters, digits, '_' and '-'")
        address = parse_address(place)
        name = name or (UNIX_NAME if isinstance(address, UnixAddress) else DEFAULT_NAME)
        if name in named:
            raise ValueError(f"two addresses are called {name}: give each a name, as in INSIDE://127.0.0.1:9093")
        named[name] = address
    return named


def _protocol(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    found = protocols.get(name)
    if found is None:
        raise ValueError(
            f"listener {name} has no security protocol: call it {', '.join(one.value for one in SecurityProtocol)}, or "
            f"say which it has, as in --config listener.security.protocol.map={name}:SASL_SSL"
        )
    return found


def _check_addresses(listen: Place, advertise: Place | None) -> None:
    """Refuse addresses that no client could connect to. Raises ValueError."""
    if isinstance(listen, UnixAddress) or isinstance(advertise, UnixAddress):
        if advertise is not None:
            raise ValueError(f"{listen} cannot advertise {advertise}: clients of a Unix socket connect to its path")
        return
    if listen.host in ANY and advertise is None:
        raise ValueError(
            f"{listen} listens on every interface, and clients have to be told one address to connect to: give it with "
            "advertise (--advertise HOST:PORT), as in --advertise kafka.example.org:9092; in a container it is the "
            "name and the port by which clients reach it"
        )
    if advertise is not None and advertise.host in ANY:
        raise ValueError(f"{advertise} cannot be advertised: it is no address that a client could connect to")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from its own host alone."""
    return _LOOPBACK.fullmatch(host) is not None
