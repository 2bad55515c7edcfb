import socket
from collections.abc import Iterator

import pytest

from pylog.errors import Truncated
from pylog.runtime.outgoing import BUFFERS_MAX, TURN_BYTES, Outgoing


class Region:
    """A region of a file that is sent from memory; `is_cut`: the file was cut."""

    def __init__(self, data: bytes, *, is_cut: bool = False) -> None:
        self.data = data
        self.left = self.size = len(data)
        self.is_cut = is_cut
        self.is_closed = False

    def __len__(self) -> int:
        return self.size

    def send(self, target: int) -> int:
        if self.is_cut:
            raise Truncated("the file was cut")
        with socket.socket(fileno=socket.dup(target)) as other:
            start = self.size - self.left
            sent = other.send(self.data[start : start + 50_000])
        self.left -= sent
        return sent

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(240)
        yield ours, theirs


def sent(outgoing: Outgoing, pair: tuple[socket.socket, socket.socket]) -> bytes:
    """Everything that goes out while the other side reads."""
    data = b""
    while outgoing.size:
        outgoing.send(pair[0])
        data += pair[1].recv(1 << 20)
    pair[0].shutdown(socket.SHUT_WR)
    while more := pair[1].recv(1 << 20):
        data += more
    return data


def test_buffers_and_regions_go_out_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    outgoing = Outgoing()
    pieces = [b"head", memoryview(b"body"), Region(b"r" * 5000), b"", b"tail"]
    outgoing.push(pieces, 5012)

    assert sent(outgoing, pair) == b"headbody" + b"r" * 5000 + b"tail"


def test_more_buffers_than_one_call_takes_all_go_out(pair: tuple[socket.socket, socket.socket]) -> None:
    outgoing = Outgoing()
    outgoing.push([b"x"] * (3 * BUFFERS_MAX), 3 * BUFFERS_MAX)

    assert sent(outgoing, pair) == b"x" * (3 * BUFFERS_MAX)


def test_a_socket_that_is_full_keeps_the_rest_waiting(pair: tuple[socket.socket, socket.socket]) -> None:
    outgoing, data = Outgoing(), bytes(range(256)) * (8 << 9)
    outgoing.push([data, Region(data)], 2 * len(data))

    outgoing.send(pair[0])

    assert 0 < outgoing.size < 2 * len(data)
    assert sent(outgoing, pair) == data + data


def test_a_turn_has_a_share(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.runtime.outgoing.TURN_BYTES", 10)
    outgoing = Outgoing()
    outgoing.push([b"a" * 10, Region(b"b" * 10)], 20)

    outgoing.send(pair[0])

    assert outgoing.size == 10
    assert TURN_BYTES > 1 << 20


def test_a_region_of_a_file_that_was_cut_raises(pair: tuple[socket.socket, socket.socket]) -> None:
    outgoing, region = Outgoing(), Region(b"x", is_cut=True)
    outgoing.push([region], 1)

    with pytest.raises(Truncated):
        outgoing.send(pair[0])
    outgoing.close()

    assert region.is_closed
    assert outgoing.size == 0
