"""The end of sockets that another process has copies of."""

import socket
import sys
from pathlib import Path

import pytest

from pylog.runtime.sockets import hang_up, stop_listening


def test_a_peer_sees_the_end_of_a_connection_that_has_a_copy() -> None:
    near, far = socket.socketpair()
    with near.dup(), far:
        hang_up(near)
        assert far.recv(1) == b""


def test_a_connection_that_is_not_connected_or_has_ended_is_closed() -> None:
    near, far = socket.socketpair()
    far.close()
    for made in (socket.socket(socket.AF_UNIX), near):
        hang_up(made)
        assert made.fileno() == -1


@pytest.mark.skipif(sys.platform != "linux", reason="a socket that listens cannot be shut down everywhere")
def test_nothing_waits_at_a_listening_socket_that_has_a_copy(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(2)
    listening.setblocking(False)
    with listening.dup(), socket.socket(socket.AF_UNIX) as early, socket.socket(socket.AF_UNIX) as late:
        early.connect(path)
        stop_listening(listening)
        assert early.recv(1) == b"" and listening.fileno() == -1
        with pytest.raises(ConnectionRefusedError):
            late.connect(path)
