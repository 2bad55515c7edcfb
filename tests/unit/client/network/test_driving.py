"""A caller that sends its request itself, and receives the answer that it waits for."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog.client.network.address import Address
from pylog.client.network.call import Call, NetworkFuture
from pylog.client.network.link import Link
from pylog.client.network.network import Network
from pylog.config.connection import ConnectionConfig
from pylog.errors import NetworkError
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, ProduceResponse, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.schema import message as schema
from pylog.record import Record
from pylog.runtime.clock import SystemClock
from support.patience import HANG_SECONDS

SESSION = Session("me")
VERSION = 9
BUFFER_BYTES = 1 << 16
MILLISECOND = 0.001


class Node:
    """A node by hand: `answer` tells the client that a batch is at an offset."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._count = 0

    def tell(self, name: str, version: int, body: dict[str, object]) -> None:
        self._count += 1
        found = schema(f"{name}Response")
        tags = b"\0" if found.is_flexible(version) and name != "ApiVersions" else b""
        data = self._count.to_bytes(4, "big") + tags + found.encode(version, body)
        self.connection.sendall(len(data).to_bytes(4, "big") + data)

    def answer(self, offset: int, partition: int = 0) -> None:
        self.connection.recv(BUFFER_BYTES)
        part = {"index": partition, "errorCode": 0, "baseOffset": offset, "logAppendTimeMs": -1}
        self.tell("Produce", VERSION, {"responses": [{"name": "t", "partitionResponses": [part]}]})


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    made = Network([Address(f"unix:{tmp_path}/node", 0)], ConnectionConfig(), SystemClock(), None)
    yield made
    made.close()


@pytest.fixture
def node(network: Network, tmp_path: Path) -> Iterator[Node]:
    """The node, when the network has a connection to it that is ready, and its thread sleeps."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/node")
        listener.listen()
        asked = Call(-1, MetadataRequest.of([]), None, SESSION, network.future(), deadline())
        network.send(asked)
        made = Node(listener.accept()[0])
    made.connection.recv(BUFFER_BYTES)
    versions = [{"apiKey": key, "minVersion": VERSION, "maxVersion": VERSION} for key in (0, 3)]
    made.tell("ApiVersions", 4, {"errorCode": 0, "apiKeys": versions})
    made.connection.recv(BUFFER_BYTES)
    made.tell("Metadata", VERSION, {"brokers": [{"nodeId": 1, "host": "h", "port": 1}], "topics": []})
    asked.future.result(HANG_SECONDS)
    settle(network)
    with made.connection:
        yield made


def deadline() -> int:
    return SystemClock().tick_ms() + 1000 * HANG_SECONDS


def settle(network: Network) -> None:
    """Wait until the thread of the network sleeps."""
    network._turn.take()
    network._turn.leave()


def sent(network: Network, partition: int = 0, acks: int = -1) -> NetworkFuture:
    batch = encode([Record(b"x")], now_ms=0)
    said, future = ProduceRequest.of("t", partition, batch, acks=acks), network.future()
    network.send(Call(1, said, None, SESSION, future, deadline()))
    return future


def link_of(future: NetworkFuture) -> Link:
    link: Link = future.link
    assert not link.is_lent
    return link


def as_it_waits(future: NetworkFuture, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen when a caller has the socket of an answer, before it sleeps there."""
    link = link_of(future)
    wait = link.wait

    def waits(seconds: float) -> None:
        assert link.is_lent
        happens()
        wait(seconds)

    monkeypatch.setattr(link, "wait", waits)


def offset(future: NetworkFuture) -> int:
    answer: ProduceResponse = future.result(HANG_SECONDS)
    return answer.parts[0].base_offset


def test_a_caller_that_waits_for_other_things_too_reads_for_a_while_only(network: Network, node: Node) -> None:
    future = sent(network)
    future.drive_seconds = MILLISECOND
    future.drive(HANG_SECONDS)
    assert not future.done() and not link_of(future).is_lent
    node.answer(5)
    assert offset(future) == 5


def test_a_caller_that_waits_receives_its_answer_itself(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, refused = list[int](), list[str]()

    def look(_: object) -> None:
        threads.append(threading.get_ident())
        with pytest.raises(RuntimeError, match="would wait for ever") as raised:
            network.future().result()
        refused.append(str(raised.value))

    for number in range(3):
        future = sent(network)
        future.add_done_callback(look)
        as_it_waits(future, monkeypatch, lambda number=number: node.answer(number))  # type: ignore[misc]
        future.drive(HANG_SECONDS)
        assert future.done() and offset(future) == number
        link_of(future)
        monkeypatch.undo()
    assert threads == [threading.get_ident()] * 3 and len(refused) == 3


def test_a_callback_may_send(network: Network, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the turn of its thread: what it sends goes out by the network's thread."""
    future, others = sent(network), list[NetworkFuture]()
    future.add_done_callback(lambda _: others.append(sent(network)))
    as_it_waits(future, monkeypatch, lambda: node.answer(1))
    future.drive(HANG_SECONDS)
    assert others[0].link is None
    node.answer(2)
    assert offset(others[0]) == 2


def test_a_callback_may_close_the_network(network: Network, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    future = sent(network)
    future.add_done_callback(lambda _: network.close())
    as_it_waits(future, monkeypatch, lambda: node.answer(1))
    future.drive(HANG_SECONDS)
    assert offset(future) == 1
    network.close()


def test_an_answer_in_pieces_is_received(network: Network, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    future, left = sent(network), list[bytes]()
    real, pieces = node.connection, [b""]

    class Cut:
        def recv(self, size: int) -> bytes:
            return real.recv(size)

        def sendall(self, data: bytes) -> None:
            left.extend((data[:3], data[3:9], data[9:]))

    node.connection = Cut()  # type: ignore[assignment]
    node.answer(5)
    node.connection = real
    as_it_waits(future, monkeypatch, lambda: real.sendall(left.pop(0)))
    future.drive(HANG_SECONDS)
    assert (offset(future), left, pieces) == (5, [], [b""])


def test_a_caller_that_stops_waiting_leaves_the_answer_to_the_network(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = sent(network)
    future.drive(MILLISECOND)
    assert not future.done()

    def interrupt() -> None:
        raise KeyboardInterrupt

    as_it_waits(future, monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        future.drive()
    link_of(future)
    node.answer(3)
    assert offset(future) == 3


def test_a_signal_ends_the_wait_and_leaves_the_answer_to_the_network(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler does not run while the caller has the socket: it might wait for an answer that this one brings."""
    future, lent = sent(network), list[bool]()
    link = link_of(future)

    def look(number: int, frame: object) -> None:
        lent.append(link.is_lent)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, look)
    try:
        as_it_waits(future, monkeypatch, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
        with pytest.raises(KeyboardInterrupt):
            future.drive()
    finally:
        signal.signal(signal.SIGINT, before)
    assert lent == [False]
    node.answer(3)
    assert offset(future) == 3


def test_what_a_callback_raises_leaves_the_turn(network: Network, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: object) -> None:
        raise KeyboardInterrupt

    future = sent(network)
    future.add_done_callback(end)
    as_it_waits(future, monkeypatch, lambda: node.answer(1))
    with pytest.raises(KeyboardInterrupt):
        future.drive()
    monkeypatch.undo()
    future = sent(network)
    node.answer(2)
    assert offset(future) == 2


def test_an_answer_behind_others_is_left_to_the_network(network: Network, node: Node) -> None:
    first, second = sent(network), sent(network, partition=1)
    for future in (first, second):
        future.drive(HANG_SECONDS)
        assert not future.done()
    node.answer(1)
    assert offset(first) == 1
    node.answer(2, partition=1)
    assert offset(second) == 2


def test_what_others_send_meanwhile_goes_out_with_the_answer(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future, others = sent(network), list[NetworkFuture]()

    def meet() -> None:
        others.append(sent(network, partition=1))
        node.answer(1)

    as_it_waits(future, monkeypatch, meet)
    future.drive(HANG_SECONDS)
    node.answer(2, partition=1)
    assert (offset(future), offset(others[0])) == (1, 2)


def test_a_caller_hears_of_the_end_of_its_connection(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = sent(network)
    as_it_waits(future, monkeypatch, node.connection.close)
    future.drive(HANG_SECONDS)
    with pytest.raises(NetworkError, match="was lost"):
        future.result(0)


def test_a_close_ends_with_the_answer_that_a_caller_receives(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future, closing = sent(network), threading.Thread(target=network.close)

    def close() -> None:
        closing.start()
        while network._ends_by_ms is None:
            settle(network)
        node.answer(1)

    as_it_waits(future, monkeypatch, close)
    monkeypatch.setattr(network._clock, "tick_ms", lambda: 0)
    future.drive(HANG_SECONDS)
    assert offset(future) == 1
    closing.join(HANG_SECONDS)
    assert not closing.is_alive()


def test_a_lent_connection_that_has_ended_keeps_no_thread_busy(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of an end also where a socket is passed over."""
    future, seen = sent(network), list[int]()
    link = link_of(future)

    def end() -> None:
        node.connection.close()
        looked = threading.Event()
        network.later(0, looked.set)
        assert looked.wait(HANG_SECONDS)
        seen.append(link._events)

    as_it_waits(future, monkeypatch, end)
    future.drive(HANG_SECONDS)
    with pytest.raises(NetworkError, match="was lost"):
        future.result(0)
    assert seen == [0]


def test_a_connection_that_was_forgotten_is_known_again(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = sent(network)
    as_it_waits(future, monkeypatch, link_of(future).ignore)
    future.drive(MILLISECOND)
    node.answer(6)
    assert offset(future) == 6


def test_a_connection_that_the_network_gives_up_wakes_the_caller(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = sent(network)
    link = link_of(future)
    as_it_waits(future, monkeypatch, lambda: network.later(0, lambda: network._fail(link, NetworkError("gone"))))
    future.drive(HANG_SECONDS)
    with pytest.raises(NetworkError, match="gone"):
        future.result(0)
    # The descriptor is closed, as nobody waits at it any more.
    link_of(future)
    future.drive(HANG_SECONDS)
    assert node.connection.recv(BUFFER_BYTES) is not None


def test_a_caller_does_not_wait_for_a_network_that_is_at_work(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = sent(network)
    network._turn.take()
    future.drive(HANG_SECONDS)
    network._turn.leave()
    link = link_of(future)
    as_it_waits(future, monkeypatch, network._turn.take)
    monkeypatch.setattr(network, "_submit", lambda work: (network._turn.leave(), Network._submit(network, work)))
    future.drive(MILLISECOND)
    monkeypatch.undo()
    node.answer(4)
    assert offset(future) == 4 and not link.is_lent


def test_a_connection_that_breaks_as_a_caller_sends_fails_the_call(
    network: Network, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BrokenPipeError("no")

    monkeypatch.setattr(Link, "send_waiting", refuse)
    with pytest.raises(NetworkError, match="no"):
        sent(network).result(HANG_SECONDS)


def test_a_produce_that_is_not_answered_is_done_when_it_is_sent(network: Network, node: Node) -> None:
    assert offset(sent(network, acks=0)) == -1
