"""The address of a node: `host:port`, `[::1]:9092`, or `unix:/path` for a socket in a directory."""

from collections.abc import Sequence
from typing import NamedTuple

from pylog.runtime.sockets import PORT_MAX, UNIX

__all__ = ["Address", "parse", "parse_all"]


class Address(NamedTuple):
    """A host and a port; for a Unix socket its path, and the port 0."""

    host: str
    port: int

    @property
    def is_unix(self) -> bool:
        """True for the path of a Unix socket."""
        return self.host.startswith(UNIX)

    @property
    def path(self) -> str:
        """The path of a Unix socket."""
        return self.host.removeprefix(UNIX)

    def __str__(self) -> str:
        if self.is_unix:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """The address that a text means. Raises ValueError, TypeError."""
    if not isinstance(text, str):
        raise TypeError(f"an address is a str like '127.0.0.1:9092', not {type(text).__name__}")
    wanted = text.strip()
    if wanted.startswith(UNIX):
        if wanted == UNIX:
            raise ValueError(f"{text!r} names no path: give unix:/path/of/the/socket")
        return Address(wanted, 0)
    host, colon, port = wanted.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(PORT_MAX))
    if not colon or not host or not is_number or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"{text!r} is no address: give HOST:PORT, as in 127.0.0.1:9092, or unix:/path")
    return Address(host, int(port))


def parse_all(given: str | Sequence[str]) -> list[Address]:
    """The addresses in a list, or in a text with commas between them; each once. Raises ValueError, TypeError."""
    if not isinstance(given, Sequence):
        raise TypeError(f"bootstrap_servers is a str or a list of them, not {type(given).__name__}")
    texts = [text for text in given.split(",") if text.strip()] if isinstance(given, str) else given
    found = list(dict.fromkeys(parse(text) for text in texts))
    if not found:
        raise ValueError("no address was given: give HOST:PORT of one or more nodes of the cluster")
    return found
