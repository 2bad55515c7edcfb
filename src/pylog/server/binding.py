"""The sockets of listeners, bound.

A Unix socket has mode 0600 before it takes a connection. The file of a server that was killed is left over: where none
answers, it is replaced. A server that ends removes its own, and no other one.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pylog.files.outside import FileId, file_id, is_socket, make_private, remove_socket
from pylog.server.listeners import ListenAddress, Listener, Place, UnixAddress, is_loopback

__all__ = ["Bound", "bind", "bind_again", "bind_listener"]

BACKLOG = 1024
SOCKET_PATH_BYTES_MAX = 103
"""The shortest limit of the systems (macOS); Linux takes 107."""


class Bound(NamedTuple):
    """A socket that listens and does not block, and the file of a Unix socket."""

    socket: socket.socket
    path: str = ""
    file: FileId | None = None
    """The file at `path`. No other one gets its number while the socket is open."""

    def is_in_place(self) -> bool:
        """Whether the file of a Unix socket lies where clients look for it. Raises OSError."""
        return self.file is None or file_id(self.path) == self.file

    def release(self) -> None:
        """Remove the file of a Unix socket, where it is this one's: before the socket is closed. Raises OSError."""
        if self.file is not None and self.socket.fileno() >= 0 and self.is_in_place():
            remove_socket(self.path)


def bind_listener(listener: Listener, *, allow_plaintext: bool) -> Bound:
    """The socket of a listener.

    Raises: OSError, naming the address; ValueError (others would reach it without TLS, and that is not allowed).
    """
    return bind(listener.listen, is_private=not (listener.protocol.has_tls or allow_plaintext))


def bind(listen: Place, *, is_private: bool = False) -> Bound:
    """A socket that listens there. With `is_private` it has to be out of reach of other hosts.

    Raises OSError, naming the address; ValueError.
    """
    with _naming(listen):
        return _bind_unix(listen) if isinstance(listen, UnixAddress) else _bind_tcp(listen, is_private=is_private)


def bind_again(bound: Bound) -> Bound:
    """Another socket for a Unix socket whose file is gone. A file that has come to its place is left alone.

    Raises OSError, naming the address.
    """
    with _naming(UnixAddress(bound.path)):
        if file_id(bound.path) is not None:
            raise OSError(errno.EADDRINUSE, "a file that is not its socket lies there now: move it away")
        return _listen_at(bound.path)


@contextmanager
def _naming(listen: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {listen}: {error.strerror or error}") from error


def _bind_tcp(listen: ListenAddress, *, is_private: bool) -> Bound:
    family, kind, protocol, _, place = socket.getaddrinfo(
        "" if listen.host == "*" else listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    if is_private and not is_loopback(str(place[0])):
        raise ValueError(
            f"{listen} is reached by other hosts, and what they send there is not encrypted: give the listener TLS "
            "(--listen SASL_SSL://..., --ssl-certificate-location), or allow it with allow_plaintext "
            "(--allow-plaintext), where the network is your own, as that of a container"
        )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        _listen(listening)
    except BaseException:
        listening.close()
        raise
    return Bound(listening)


def _bind_unix(listen: UnixAddress) -> Bound:
    path = listen.path
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise OSError(errno.ENAMETOOLONG, f"the path of a socket has {SOCKET_PATH_BYTES_MAX} bytes at most")
    if is_socket(path):
        if _is_answered(path):
            raise OSError(errno.EADDRINUSE, "another server listens there")
        remove_socket(path)
    return _listen_at(path)


def _listen_at(path: str) -> Bound:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        # Nobody can connect before it listens.
        make_private(path)
        _listen(listening)
        return Bound(listening, path, file_id(path))
    except BaseException:
        listening.close()
        raise


def _listen(listening: socket.socket) -> None:
    listening.listen(BACKLOG)
    listening.setblocking(False)


def _is_answered(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        # Where its backlog is full, it is one that lives: EAGAIN.
        return asking.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)
