"""The checks of sending a file to a socket, and of pinning it: a part of `check_files`."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pylog.errors import Closed
from pylog.files import Files, join
from tests.support.outcomes import refuses, same


@contextmanager
def _sockets(timeout: float | None = 10) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two that are connected; 0 for sockets that do not wait."""
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(timeout)
        far.settimeout(timeout)
        yield near, far


def what_is_sent_arrives(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    with _sockets() as (near, far):
        sent = [
            file.send(near.fileno(), position, size)
            for position, size in ((0, 10), (3, 4), (8, 5), (10, 5), (90, 5), (2, 0))
        ]
        same(sent, [10, 4, 2, 0, 0, 0])
        same(far.recv(100), b"0123456789345689")


def what_is_reserved_is_not_sent(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    file.allocate(10_000)
    with _sockets() as (near, far):
        same([file.send(near.fileno(), 0, 10), file.send(near.fileno(), 3, 10)], [3, 0])
        same(far.recv(100), b"abc")


def a_socket_takes_what_it_can(files: Files, root: str) -> None:
    data = os.urandom(1 << 20)
    file = files.open(join(root, "f"), create=True)
    file.write(0, data)
    arrived, position, refused = bytearray(), 0, 0
    with _sockets(0) as (near, far):
        while position < len(data):
            try:
                position += file.send(near.fileno(), position, len(data) - position)
            except BlockingIOError:
                refused += 1
                arrived += far.recv(1 << 20)
        near.shutdown(socket.SHUT_WR)
        while more := far.recv(1 << 20):
            arrived += more
    same(refused > 0, True)
    same(arrived == data, True)


def nobody_at_the_socket_is_the_senders_affair(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    with _sockets() as (near, far):
        far.close()
        try:
            file.send(near.fileno(), 0, 3)
        except ConnectionError:
            return
    raise AssertionError("bytes were sent to a closed socket")


def a_pinned_file_outlives_its_handle_and_its_name(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.write(0, b"abc")
    file.pin()
    file.pin()
    file.close()
    files.remove(path)
    files.open(join(root, "other"), create=True).write(0, b"pushes the descriptor out")
    file.unpin()
    with _sockets() as (near, far):
        same((file.read(1, 5), file.send(near.fileno(), 0, 3), far.recv(10)), (b"bc", 3, b"abc"))
        refuses(Closed, "is closed", lambda: file.write(3, b"d"), lambda: file.truncate(0), file.sync)
        file.unpin()
        refuses(Closed, "is closed", lambda: file.read(0, 1), lambda: file.send(near.fileno(), 0, 3), file.pin)


SENDING_CHECKS = (
    what_is_sent_arrives,
    what_is_reserved_is_not_sent,
    a_socket_takes_what_it_can,
    nobody_at_the_socket_is_the_senders_affair,
    a_pinned_file_outlives_its_handle_and_its_name,
)
