"""Addresses: those that a server binds, and those that it advertises to its clients.

    "127.0.0.1:9092"   "localhost:0"   "[::1]:9092"   ":9092" (loopback)   "INSIDE://0.0.0.0:9093" (with a name)

A client connects to the address in the server's answers, not to the address of its first connection. So a server that
listens on every interface needs an address to advertise: `0.0.0.0` means nothing to a client.
"""

import re
import socket
from collections.abc import Sequence
from typing import NamedTuple

DEFAULT_NAME = "PLAINTEXT"
BACKLOG = 1024
LOOPBACK = "127.0.0.1"
ANY = frozenset({"0.0.0.0", "::", "*"})
PORT_MAX = 65535


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def with_port(self, port: int) -> "Address":
        """This address, with `port` in place of port 0."""
        return self if self.port else Address(self.host, port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port` as an address; without a host it is loopback. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is not HOST:PORT; an IPv6 address stands in brackets, as in [::1]:9092")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:9092 (port 0: any that is free)")
    return Address(host or LOOPBACK, int(port))


class Listener(NamedTuple):
    """An address to bind, under a name, and the one that its clients are told to connect to (None: the same)."""

    name: str
    listen: Address
    advertise: Address | None


def parse_listeners(listen: str | Sequence[str], advertise: str | Sequence[str] | None) -> list[Listener]:
    """The listeners in `[NAME://]HOST:PORT`, each with the advertised address of its name. Raises ValueError."""
    told = _named(advertise or ())
    found = [Listener(name, address, told.pop(name, None)) for name, address in _named(listen).items()]
    if not found:
        raise ValueError("there is no address to listen on: give HOST:PORT, as in 127.0.0.1:9092")
    if told:
        names = ", ".join(listener.name for listener in found)
        raise ValueError(f"{', '.join(told)}: no listener has this name to advertise an address for; there is {names}")
    for listener in found:
        check_addresses(listener.listen, listener.advertise)
    return found


def _named(texts: str | Sequence[str]) -> dict[str, Address]:
    named: dict[str, Address] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        name, separator, place = text.rpartition("://")
        if separator and not _NAME.fullmatch(name):
            raise ValueError(f"{text!r} is not NAME://HOST:PORT: a name has letters, digits, '_' and '-'")
        name = name or DEFAULT_NAME
        if name in named:
            raise ValueError(f"two addresses are called {name}: give each a name, as in INSIDE://127.0.0.1:9093")
        named[name] = parse_address(place)
    return named


_NAME = re.compile(r"[A-Za-z0-9_-]+")


def check_addresses(listen: Address, advertise: Address | None) -> None:
    """Refuse addresses that no client could connect to. Raises ValueError."""
    if listen.host in ANY and advertise is None:
        raise ValueError(
            f"{listen} listens on every interface, and clients have to be told one address to connect to: give it with "
            "advertise (--advertise HOST:PORT), as in --advertise kafka.example.org:9092; in a container it is the "
            "name and the port by which clients reach it"
        )
    if advertise is not None and advertise.host in ANY:
        raise ValueError(f"{advertise} cannot be advertised: it is no address that a client could connect to")


def bind(listen: Address) -> socket.socket:
    """A socket that listens there and does not block. Raises OSError, naming the address."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            "" if listen.host == "*" else listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(BACKLOG)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {listen}: {error.strerror or error}") from error
    return listening
