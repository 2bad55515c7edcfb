"""Sockets: the words of their addresses, and their end for all copies of a descriptor.

A child that other code than Python's forks runs no hook, so it keeps copies of all sockets. The system tells a peer
that a socket is closed when the last copy is, so a socket is shut down first, which counts at once.
"""

import socket
from contextlib import suppress

from pylog.runtime.forking import is_stray, undivided

__all__ = ["PORT_MAX", "UNIX", "hang_up", "shut_down", "stop_listening"]

PORT_MAX = 65_535
UNIX = "unix:"
"""Before the path of a Unix socket, where an address may be a host and a port."""


def hang_up(connection: socket.socket) -> None:
    """Close a connection, or one end of a pair. In a stray child: its copy of the descriptor alone."""
    shut_down(connection)
    connection.close()


def shut_down(connection: socket.socket) -> None:
    """End a connection, whose descriptor stays open. In a stray child: do nothing."""
    if not is_stray():
        # It may be shut down already, or may not be connected yet.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def stop_listening(listening: socket.socket) -> None:
    """Close a socket that listens and does not block, and the connections that nobody has accepted. In a stray child:
    its copy of the descriptor alone.
    """
    if not is_stray():
        # Nobody can connect after this (Linux). Not every system has it for a socket that listens.
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        # A copy of the descriptor would keep open what waits to be accepted.
        with undivided, suppress(OSError):
            while True:
                hang_up(listening.accept()[0])
    listening.close()
