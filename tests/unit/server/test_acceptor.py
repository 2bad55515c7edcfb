"""The acceptor of a loop, with a selector that is asked by hand."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from pylog.server import acceptor
from pylog.server.acceptor import Acceptor
from pylog.server.binding import bind
from pylog.server.listeners import ListenAddress


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with bind(ListenAddress("127.0.0.1", 0)).socket as made:
        yield made


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as made:
        yield made


@pytest.fixture
def accepted(listening: socket.socket, selector: selectors.BaseSelector) -> Iterator[list[socket.socket]]:
    taken: list[socket.socket] = []
    yield taken
    for one in taken:
        one.close()


def turn(selector: selectors.BaseSelector) -> None:
    for key, events in selector.select(10):
        key.data(events)


def test_a_turn_takes_so_many_connections_and_the_next_one_the_rest(
    listening: socket.socket, selector: selectors.BaseSelector, accepted: list[socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(acceptor, "ACCEPTED_MAX", 2)
    made = Acceptor(listening, selector, lambda client, host: accepted.append(client), lambda ms, call: None)
    made.resume()
    clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]

    turn(selector)
    assert len(accepted) == 2
    turn(selector)
    assert len(accepted) == 3

    made.close()
    for client in clients:
        client.close()


def test_a_closed_acceptor_stays_closed(
    listening: socket.socket, selector: selectors.BaseSelector, accepted: list[socket.socket]
) -> None:
    made = Acceptor(listening, selector, lambda client, host: accepted.append(client), lambda ms, call: None)

    made.close()
    made.close()
    made.resume()

    assert not selector.get_map()
    assert listening.fileno() == -1


def test_an_acceptor_that_has_to_wait_goes_on_when_its_time_has_come(
    listening: socket.socket, selector: selectors.BaseSelector, accepted: list[socket.socket]
) -> None:
    waits, later = [0, 700, 0, 0], []
    made = Acceptor(
        listening, selector, lambda client, host: accepted.append(client), lambda ms, call: later.append((ms, call)),
        lambda: waits.pop(0) if waits else 0,
    )  # fmt: skip
    made.resume()
    clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]

    turn(selector)
    assert len(accepted) == 1
    assert not selector.get_map(), "it listens for nothing meanwhile"
    ((ms, resume),) = later
    assert ms == 700
    resume()
    turn(selector)
    assert len(accepted) == 3

    made.close()
    for client in clients:
        client.close()


def test_a_closed_acceptor_does_not_move(listening: socket.socket, selector: selectors.BaseSelector) -> None:
    made = Acceptor(listening, selector, lambda client, host: None, lambda ms, call: None)
    made.close()
    with socket.create_server(("127.0.0.1", 0)) as another:
        made.move(another)
        assert another.fileno() == -1
