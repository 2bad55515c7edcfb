"""The loop over a node that does what a test wants: answers that come late, or wrong, or never."""

import errno
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import Closed, InvalidRequest
from pylog.protocol.messages import (
    Session,
)
from pylog.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from pylog.protocol.messages.records import OffsetForLeaderEpochResponse
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse, MetadataTopic
from pylog.protocol.messages.transactions import ListTransactionsResponse
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from pylog.server import calls, loop
from pylog.server.binding import Bound, bind
from pylog.server.door import Door
from pylog.server.listeners import ListenAddress
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from support.messages import heartbeaten, joined_group, member_heartbeaten
from support.wire_client import WireClient, request_frame

HEARTBEAT = "Heartbeat", 4, {"groupId": "g"}
JOIN = "JoinGroup", 9, {"groupId": "g"}
LEAVE = "LeaveGroup", 5, {"groupId": "g"}


def epochs(topic: str, partitions: int = 1) -> tuple[str, int, dict[str, Any]]:
    """A request that is answered at once, in the loop's thread where its elements are few."""
    parts = [{"partition": number, "currentLeaderEpoch": -1, "leaderEpoch": 0} for number in range(partitions)]
    return "OffsetForLeaderEpoch", 4, {"replicaId": -1, "topics": [{"topic": topic, "partitions": parts}]}


def epoch_ends(message: Any) -> Future[Any]:
    """The answer to it."""
    return completed(message.answered(lambda key, _: message.told(key)))


AT_ONCE = epochs("t")


class Node:
    """Answers what `answer` gives; without one a Heartbeat and a JoinGroup are answered well."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], Future[Any]] | None = None

    def handle(self, message: Any, session: Session) -> Future[Any]:
        if self.answer is not None:
            return self.answer(message)
        return completed(heartbeaten() if isinstance(message, HeartbeatRequest) else joined_group())


def served(node: Node, **config: Any) -> ServedNode:
    return ServedNode(node.handle, 1, DynamicBrokerConfig(NodeConfig(**config)), SystemClock())


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def server(node: Node) -> Iterator[Server]:
    with Server(served(node), "127.0.0.1:0") as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[WireClient]:
    with WireClient(server.bootstrap_servers) as made:
        yield made


def raising(error: Exception) -> Callable[[Any], Future[Any]]:
    def answer(message: Any) -> Future[Any]:
        raise error

    return answer


@pytest.mark.parametrize("request_", [AT_ONCE, JOIN])
@pytest.mark.parametrize(
    "answer",
    [
        raising(RuntimeError("odd")),
        lambda message: failed(RuntimeError("odd")),
        lambda message: completed("odd"),
    ],
)
def test_a_call_without_an_answer_ends_its_connection_and_is_logged(
    server: Server, node: Node, client: WireClient, caplog: pytest.LogCaptureFixture,
    request_: tuple[str, int, dict[str, Any]], answer: Callable[[Any], Future[Any]],
) -> None:  # fmt: skip
    node.answer = answer
    client.send(*request_)
    assert client.is_closed()

    node.answer = None
    with WireClient(server.bootstrap_servers) as other:
        assert other.ask(*HEARTBEAT)["errorCode"] == 0
    assert "could not be answered" in caplog.text


@pytest.mark.parametrize("slow", [HEARTBEAT, ("ConsumerGroupHeartbeat", 1, {"groupId": "g"})])
def test_a_heartbeat_that_waits_for_a_disk_holds_nobody_up(
    server: Server, node: Node, client: WireClient, slow: tuple[str, int, dict[str, Any]]
) -> None:  # fmt: skip
    entered, gate = threading.Event(), threading.Event()

    def answer(message: Any) -> Future[Any]:
        if isinstance(message, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
            entered.set()
            gate.wait(240)
            return completed(heartbeaten() if isinstance(message, HeartbeatRequest) else member_heartbeaten())
        return epoch_ends(message)

    node.answer = answer
    client.send(*slow)
    entered.wait(240)
    with WireClient(server.bootstrap_servers) as other:
        other.socket.settimeout(240)
        assert other.ask(*AT_ONCE)["topics"][0]["partitions"][0]["errorCode"] == 0
    gate.set()

    assert client.receive(*slow[:2])[1]["errorCode"] == 0


def test_a_node_that_closes_ends_connections_quietly(
    node: Node, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    node.answer = lambda message: failed(Closed("closed"))
    client.send(*HEARTBEAT)

    assert client.is_closed()
    assert caplog.text == ""


def test_a_client_that_has_ended_its_side_gets_the_answers_it_is_owed(node: Node, client: WireClient) -> None:
    future: Future[Any] = Future()
    node.answer = lambda message: future
    client.send(*JOIN)
    client.send(*JOIN, correlation_id=2)
    client.socket.shutdown(socket.SHUT_WR)

    threading.Timer(0.05, future.set_result, (joined_group(),)).start()

    assert [client.receive(*JOIN[:2])[0] for _ in range(2)] == [1, 2]
    assert client.is_closed()


def test_a_client_with_many_requests_gives_others_their_turn(server: Server, node: Node, client: WireClient) -> None:
    begun: list[str] = []
    with WireClient(server.bootstrap_servers) as other:

        def answer(message: Any) -> Future[Any]:
            if not begun:
                other.send(*epochs("other"))
            begun.append(message.topics[0].topic)
            return epoch_ends(message)

        node.answer = answer
        frame = request_frame(*AT_ONCE)
        client.socket.sendall(frame * 2000)
        other.receive(*AT_ONCE[:2])
        for _ in range(2000):
            client.receive(*AT_ONCE[:2])

    assert begun.index("other") < 1000


def test_requests_behind_long_answers_begin_when_those_are_sent(node: Node, client: WireClient) -> None:
    node.answer = epoch_ends
    client.socket.sendall(request_frame(*epochs("t", 20_000)) * 4)

    for _ in range(4):
        assert len(client.receive(*AT_ONCE[:2])[1]["topics"][0]["partitions"]) == 20_000


LARGE = epochs("t", 2000)


def pools(threads: list[str]) -> set[str]:
    """The pools of these threads."""
    return {name.rpartition("-")[0] for name in threads}


def test_a_request_of_many_elements_holds_nobody_up(server: Server, node: Node, client: WireClient) -> None:
    entered, gate = threading.Event(), threading.Event()

    def answer(message: Any) -> Future[Any]:
        if len(message.keyed()) > 1:
            entered.set()
            gate.wait(240)
        return epoch_ends(message)

    node.answer = answer
    client.send(*LARGE)
    entered.wait(240)
    with WireClient(server.bootstrap_servers) as other:
        assert other.ask(*AT_ONCE)["topics"][0]["partitions"][0]["errorCode"] == 0
    gate.set()

    assert len(client.receive(*LARGE[:2])[1]["topics"][0]["partitions"]) == 2000


def test_a_request_of_many_elements_that_waits_lets_the_next_ones_begin(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LARGE_PATIENCE_S", 0.001)
    entered, gate = threading.Event(), threading.Event()

    def answer(message: Any) -> Future[Any]:
        if message.topics[0].topic == "slow":
            entered.set()
            gate.wait(240)
        return epoch_ends(message)

    node.answer = answer
    slow = epochs("slow", 2000)
    with Server(served(node), "127.0.0.1:0") as server, WireClient(server.bootstrap_servers) as client:
        client.send(*slow)
        entered.wait(240)
        with WireClient(server.bootstrap_servers) as other:
            assert len(other.ask(*LARGE)["topics"][0]["partitions"]) == 2000
        gate.set()
        assert len(client.receive(*slow[:2])[1]["topics"][0]["partitions"]) == 2000


def test_an_answer_is_made_and_encoded_by_the_thread_that_its_key_has(node: Node, client: WireClient) -> None:
    threads: list[str] = []

    class Noted(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.current_thread().name)
            return super().__iter__()

    def answer(message: Any) -> Future[Any]:
        threads.append(threading.current_thread().name)
        if isinstance(message, MetadataRequest):
            return completed(MetadataResponse(topics=[MetadataTopic(name="t")]))
        if isinstance(message, DescribeConfigsRequest):
            return completed(DescribeConfigsResponse())
        return completed(
            ListGroupsResponse(groups=Noted())
            if isinstance(message, ListGroupsRequest)
            else OffsetForLeaderEpochResponse(topics=Noted())
        )

    node.answer = answer
    client.ask("ListGroups", 4, {})
    assert pools(threads) == {"pylog-server-calls"} and len(threads) > 1
    threads.clear()
    client.ask(*LARGE)
    assert pools(threads) == {"pylog-server-large"} and len(threads) > 1
    threads.clear()
    client.ask(*AT_ONCE)
    assert set(threads) == {"pylog-server"}
    threads.clear()
    client.ask("DescribeConfigs", 4, {"resources": [{"resourceType": 2, "resourceName": "t"}] * 5})
    assert pools(threads) == {"pylog-server-large"}


def test_a_late_answer_to_many_elements_is_encoded_by_their_thread(
    server: Server, node: Node, client: WireClient
) -> None:  # fmt: skip
    threads: list[str] = []
    asked, future = threading.Event(), Future[Any]()

    class Noted(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.current_thread().name)
            return iter(())

    def answer(message: Any) -> Future[Any]:
        asked.set()
        return future

    node.answer = answer
    client.send(*LARGE)
    asked.wait(240)
    # When another one is answered, that thread has left the answer to the one that completes it.
    node.answer = epoch_ends
    with WireClient(server.bootstrap_servers) as other:
        other.ask(*LARGE)
    future.set_result(OffsetForLeaderEpochResponse(topics=Noted()))

    assert client.receive(*LARGE[:2])[1]["topics"] == []
    assert pools(threads) == {"pylog-server-large"}


def test_requests_behind_one_of_many_elements_keep_their_order(server: Server, node: Node, client: WireClient) -> None:
    node.answer = epoch_ends

    client.socket.sendall(request_frame(*LARGE) + request_frame(*AT_ONCE, correlation_id=2))

    assert client.receive(*LARGE[:2])[0] == 1
    assert client.receive(*AT_ONCE[:2])[0] == 2


def test_a_damaged_request_of_many_elements_ends_its_connection(
    server: Server, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    frame = bytearray(request_frame(*LARGE)[:-1])
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    client.socket.sendall(frame)

    assert client.is_closed()
    assert "it ends in the middle of a field" in caplog.text
    with WireClient(server.bootstrap_servers) as other:
        assert other.ask(*HEARTBEAT)["errorCode"] == 0


def test_too_many_elements_are_an_error_where_the_answer_has_a_place_for_it(
    client: WireClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(calls, "REQUEST_ELEMENTS_MAX", 1500)
    parts = [{"partition": number, "fetchOffset": 0, "partitionMaxBytes": 1} for number in range(1500)]
    fetch = {"maxWaitMs": 0, "minBytes": 0, "topics": [{"topic": "t", "partitions": parts}]}
    filters = {"stateFilters": ["Empty"] * 1501}

    assert client.ask("Fetch", 12, fetch)["errorCode"] == InvalidRequest.code
    assert client.ask("ListTransactions", 0, filters)["errorCode"] == InvalidRequest.code
    client.send("Fetch", 6, fetch)
    assert client.is_closed()
    assert "more than 1500 elements" in caplog.text


def test_a_request_may_have_more_elements_the_more_it_sends() -> None:
    small = calls.MEMORY_BYTES // calls.ELEMENT_BYTES
    assert calls.elements_max(0) == calls.elements_max(1 << 20) == small
    assert small < calls.elements_max(2 << 20) == calls.MEMORY_TIMES * (2 << 20) // calls.ELEMENT_BYTES
    assert calls.elements_max(100 << 20) == calls.REQUEST_ELEMENTS_MAX


def test_many_elements_of_few_bytes_are_refused(node: Node, client: WireClient) -> None:
    node.answer = lambda message: completed(ListTransactionsResponse())
    few = calls.elements_max(0)
    answered = client.ask("ListTransactions", 0, {"stateFilters": [""] * (few + 1)})
    assert answered["errorCode"] == InvalidRequest.code
    assert client.ask("ListTransactions", 0, {"stateFilters": ["x" * 70] * (few + 1)})["errorCode"] == 0


@pytest.mark.parametrize("answer", [raising(RuntimeError("odd")), lambda message: completed("odd")])
def test_a_request_of_many_elements_without_an_answer_is_logged(
    node: Node, client: WireClient, caplog: pytest.LogCaptureFixture, answer: Callable[[Any], Future[Any]]
) -> None:
    node.answer = answer
    client.send(*LARGE)

    assert client.is_closed()
    assert "could not be answered" in caplog.text


def test_an_answer_to_many_elements_is_dropped_where_nobody_is_left(server: Server, node: Node) -> None:
    entered, gate = threading.Event(), threading.Event()

    class Slow(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            entered.set()
            gate.wait(240)
            return iter(())

    node.answer = lambda message: completed(OffsetForLeaderEpochResponse(topics=Slow()))
    with WireClient(server.bootstrap_servers) as client:
        client.send(*LARGE)
        entered.wait(240)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with WireClient(server.bootstrap_servers) as other:
        node.answer = None
        assert other.ask(*HEARTBEAT)["errorCode"] == 0
        gate.set()
        node.answer = epoch_ends
        assert len(other.ask(*LARGE)["topics"][0]["partitions"]) == 2000


def test_a_client_that_has_ended_its_side_is_not_kept_for_ever(node: Node) -> None:
    node.answer = lambda message: Future()
    served_shortly = served(node, connections_max_idle_ms=50)
    with Server(served_shortly, "127.0.0.1:0") as server, WireClient(server.bootstrap_servers) as client:
        client.send(*JOIN)
        client.socket.shutdown(socket.SHUT_WR)

        assert client.is_closed()


def test_an_answer_that_comes_from_another_thread_is_sent(node: Node, client: WireClient) -> None:
    future: Future[Any] = Future()
    node.answer = lambda message: future
    client.send(*JOIN)

    threading.Timer(0.01, future.set_result, (joined_group(),)).start()

    assert client.receive(*JOIN[:2])[1]["errorCode"] == 0


def test_a_late_answer_to_who_has_gone_is_dropped(server: Server, node: Node) -> None:
    future: Future[Any] = Future()
    entered, gate = threading.Event(), threading.Event()

    def answer(message: Any) -> Future[Any]:
        if isinstance(message, JoinGroupRequest):
            entered.set()
            gate.wait(240)
            raise RuntimeError("odd")
        return future

    node.answer = answer
    for asked in (HEARTBEAT, JOIN):
        with WireClient(server.bootstrap_servers) as gone:
            gone.send(*asked)
            if asked is JOIN:
                entered.wait(240)
    node.answer = None
    with WireClient(server.bootstrap_servers) as other:
        other.ask(*HEARTBEAT)
        gate.set()
        future.set_result(heartbeaten())

        assert other.ask(*HEARTBEAT)["errorCode"] == 0


def test_a_good_late_answer_of_the_pool_to_who_has_gone_is_dropped(server: Server, node: Node) -> None:
    entered, gate, left = threading.Event(), threading.Event(), threading.Event()

    def answer(message: Any) -> Future[Any]:
        entered.set()
        gate.wait(240)
        left.set()
        return completed(joined_group())

    node.answer = answer
    with WireClient(server.bootstrap_servers) as gone:
        gone.send(*JOIN)
        entered.wait(240)
    node.answer = None
    with WireClient(server.bootstrap_servers) as other:
        other.ask(*HEARTBEAT)
        gate.set()
        left.wait(240)

        assert other.ask(*JOIN)["errorCode"] == 0


def test_a_stop_waits_only_so_long_for_an_answer(
    server: Server, node: Node, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(loop, "GRACE_MS", 30)
    entered = threading.Event()

    def answer(message: Any) -> Future[Any]:
        entered.set()
        return Future()

    node.answer = answer
    client.send(*LEAVE)
    entered.wait(240)

    server.close()

    assert client.is_closed()


def test_a_stop_does_not_wait_for_requests_behind_a_poll(
    server: Server, node: Node, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(loop, "GRACE_MS", 60_000)
    entered = threading.Event()

    def answer(message: Any) -> Future[Any]:
        entered.set()
        return Future()

    node.answer = answer
    client.send(*JOIN)
    client.send(*LEAVE)
    entered.wait(240)

    server.close()

    assert client.is_closed()


def test_a_stop_that_was_begun_is_not_begun_again(server: Server) -> None:
    server._loop._agenda.post(server._loop._begin_stop)
    server.close()

    assert server._loop._thread is not None
    assert not server._loop._thread.is_alive()


class Flaky(socket.socket):
    """A listening socket that fails first, in these ways."""

    def __init__(self, errors: list[OSError]) -> None:
        super().__init__(fileno=bind(ListenAddress("127.0.0.1", 0)).socket.detach())
        self.errors = errors

    def accept(self) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return super().accept()


def test_accepting_goes_on_after_errors(caplog: pytest.LogCaptureFixture) -> None:
    errors = [ConnectionAbortedError("gone"), OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
    listening = Flaky(errors)
    made = loop.Loop([Door(Bound(listening, lambda: None), served(Node()))])
    made.start()
    try:
        host, port = listening.getsockname()
        with WireClient(f"{host}:{port}") as client:
            assert client.ask(*HEARTBEAT)["errorCode"] == 0
    finally:
        made.stop()

    assert errors == []
    assert "cannot be accepted now" in caplog.text


class Broken(socket.socket):
    """A listening socket whose first connection is broken before it is served."""

    is_whole = False

    def accept(self) -> Any:
        client, place = super().accept()
        if not self.is_whole:
            client.close()
            self.is_whole = True
        return client, place


def test_a_connection_that_ends_as_it_begins_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    listening = Broken(fileno=bind(ListenAddress("127.0.0.1", 0)).socket.detach())
    made = loop.Loop([Door(Bound(listening, lambda: None), served(Node()))])
    made.start()
    try:
        host, port = listening.getsockname()
        with WireClient(f"{host}:{port}") as first, WireClient(f"{host}:{port}") as second:
            assert first.is_closed()
            assert second.ask(*HEARTBEAT)["errorCode"] == 0
    finally:
        made.stop()

    assert "ended as it began" in caplog.text


def test_a_loop_that_fails_says_so_and_closes_everything(
    server: Server, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    server._loop._agenda.post(lambda: 1 // 0)

    assert client.is_closed()
    server.close()
    assert "the server is closed" in caplog.text


def test_a_client_that_resets_its_connection_harms_no_other(server: Server, client: WireClient) -> None:
    with WireClient(server.bootstrap_servers) as other:
        other.ask(*HEARTBEAT)
        other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    assert client.ask(*HEARTBEAT)["errorCode"] == 0


def test_connections_may_be_silent_for_ever(node: Node) -> None:
    forever = served(node, connections_max_idle_ms=-1)
    with Server(forever, "127.0.0.1:0") as server, WireClient(server.bootstrap_servers) as client:
        assert client.ask(*HEARTBEAT)["errorCode"] == 0


def test_an_advertised_port_of_zero_is_the_one_that_is_bound(node: Node) -> None:
    with Server(served(node), "127.0.0.1:0", advertise="localhost:0") as server:
        assert server.bootstrap_servers == f"localhost:{server.addresses['PLAINTEXT'].port}"
        with WireClient(server.bootstrap_servers) as client:
            assert client.ask(*HEARTBEAT)["errorCode"] == 0


def test_a_forked_child_does_not_hold_the_port(server: Server) -> None:
    with WireClient(server.bootstrap_servers) as client:
        client.ask(*HEARTBEAT)
        reading, writing = os.pipe()
        told, telling = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.write(telling, b".")
            os.read(reading, 1)
            os._exit(0 if "closed" in repr(server) else 1)
        os.read(told, 1)
        server.close()
        assert client.is_closed()
        with pytest.raises(OSError):
            WireClient(server.bootstrap_servers)
        for one in (reading, writing, told, telling):
            os.close(one)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
