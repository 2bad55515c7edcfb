"""An attack: a name, and a function that strikes a target and gives the bytes that it has sent and received."""

import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

PATIENCE_SECONDS = 4.0
"""How long an attacker waits for an answer that may be made to wait."""
PIECE_BYTES = 1 << 20


class Traffic(NamedTuple):
    """Bytes of an attack. `refused`: its connection was closed in place of an answer."""

    sent: int
    received: int = 0
    is_refused: bool = False


class Target(Protocol):
    """The addresses of the server under attack."""

    @property
    def addresses(self) -> dict[str, tuple[str, int]]: ...


Strike = Callable[[Target], Traffic]


@dataclass(frozen=True, slots=True)
class Attack:
    """`prepare` makes what is sent, which is not measured, and gives the strike itself.

    `leaves_state`: the server owes it to keep what it gets (topics, offsets), so its memory is not judged.
    """

    name: str
    prepare: Callable[[], Strike]
    leaves_state: bool = field(default=False, kw_only=True)


def connected(target: Target, listener: str = "PLAINTEXT", seconds: float = 60.0) -> socket.socket:
    """A connection to a listener."""
    return socket.create_connection(target.addresses[listener], seconds)


def framed(data: bytes) -> bytes:
    """A frame."""
    return struct.pack(">i", len(data)) + data


def exchanged(client: socket.socket, data: bytes, answers: int = 1, seconds: float = 60.0) -> Traffic:
    """Send bytes, and receive so many answers, for so long at most."""
    received, until = 0, time.monotonic() + seconds
    client.settimeout(seconds)
    try:
        client.sendall(data)
        for _ in range(answers):
            size = int.from_bytes(_exactly(client, 4, until), "big")
            received += 4 + size
            while size:
                size -= len(_exactly(client, min(size, PIECE_BYTES), until))
    except TimeoutError:
        return Traffic(len(data), received)
    except (ConnectionError, EOFError):
        return Traffic(len(data), received, is_refused=True)
    return Traffic(len(data), received)


def _exactly(client: socket.socket, size: int, until: float) -> bytes:
    found = b""
    while len(found) < size:
        client.settimeout(max(until - time.monotonic(), 0.001))
        more = client.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def one_request(frame: bytes, seconds: float = 60.0, listener: str = "PLAINTEXT") -> Strike:
    """Send one frame by a connection of its own, and wait for the answer."""

    def strike(target: Target) -> Traffic:
        with connected(target, listener) as client:
            return exchanged(client, framed(frame), seconds=seconds)

    return strike


def summed(traffic: Iterable[Traffic]) -> Traffic:
    """All of them together."""
    found = list(traffic)
    return Traffic(
        sum(one.sent for one in found), sum(one.received for one in found), any(one.is_refused for one in found)
    )
