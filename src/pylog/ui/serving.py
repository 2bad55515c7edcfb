"""The server of the pages: where it listens, under which address it is opened, and how it ends."""

import secrets
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address

import uvicorn

from pylog.ui.application import application
from pylog.ui.follow import AFTER_CHARS_MAX
from pylog.ui.security import Policy
from pylog.ui.source import Source

__all__ = ["Listening", "bound", "run"]

EXAMPLE = "127.0.0.1:8080"
GRACE_SECONDS = 1
"""How long answers may take at the end. A check of every byte takes longer."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that listens, and the address to open."""

    socket: socket.socket
    url: str
    policy: Policy


@contextmanager
def bound(
    place: str, *, is_writable: bool = False, allow_plaintext: bool = False, hosts: Iterable[str] = ()
) -> Iterator[Listening]:
    """Listen at "host:port"; port 0 takes one that is free.

    A visitor needs the token, which is in the address, where the log can be changed or other hosts reach the server.
    Raises ValueError (no address, or no host of that name; one that other hosts reach, without `allow_plaintext`),
    OSError (it is taken).
    """
    host, colon, port = place.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16):
        raise ValueError(f"{place!r} is no address to listen at: give HOST:PORT, as in {EXAMPLE}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"cannot listen at {place}: {error.strerror}") from error
    is_local = ip_address(address[0]).is_loopback
    if not is_local and not allow_plaintext:
        raise ValueError(
            f"other hosts reach {place}, and these pages have no TLS: listen at {EXAMPLE}, behind a proxy that has it, "
            "or say --allow-plaintext"
        )
    with socket.create_server((str(address[0]), int(address[1])), family=family) as opened:
        number = opened.getsockname()[1]
        token = secrets.token_urlsafe(32) if is_writable or not is_local else None
        query = "" if token is None else f"?token={token}"
        names = frozenset(name.lower() for name in (*hosts, host))
        policy = Policy(token=token, hosts=names, cookie=f"pylog-ui-{number}")
        yield Listening(opened, f"http://{f'[{host}]' if ':' in host else host}:{number}/{query}", policy)


def run(source: Source, listening: Listening, on_ready: Callable[[], object] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM."""
    server = _Server(_config(source, listening), on_ready)
    server.run(sockets=[listening.socket])


def _config(source: Source, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        application(source, listening.policy), log_level="critical", access_log=False, server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS, proxy_headers=False, lifespan="on", ws="none", http="h11",
        loop="asyncio", h11_max_incomplete_event_size=2 * AFTER_CHARS_MAX,
    )  # fmt: skip


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()
