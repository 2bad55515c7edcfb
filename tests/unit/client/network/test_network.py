"""The network's promise: a call that was sent is answered, whatever happens to it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog.client.network.address import Address, parse
from pylog.client.network.call import Call
from pylog.client.network.lookup import FIND_COORDINATOR, FindCoordinator
from pylog.client.network.network import Network
from pylog.client.network.transport import NetworkTransport
from pylog.config.connection import ConnectionConfig
from pylog.errors import Closed, NetworkError
from pylog.protocol.messages import Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.runtime.clock import MovableClock, SystemClock
from pylog.runtime.future import Future, completed, failed
from support.messages import end_txn
from support.patience import HANG_SECONDS

NOWHERE = Address("127.0.0.1", 1)


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network([NOWHERE], ConnectionConfig(), SystemClock(), None)
    yield made
    made.close()


def call(network: Network, node: int = -1) -> Call:
    deadline = SystemClock().tick_ms() + 1000 * HANG_SECONDS
    return Call(node, MetadataRequest.of(["t"]), None, Session("me"), network.future(), deadline)


def end_transaction(network: Network, epoch: int, name: str = "x") -> Call:
    deadline, message = SystemClock().tick_ms() + 100 * 1000 * HANG_SECONDS, end_txn(name, 1, epoch, committed=True)
    return Call(-1, message, None, Session("me"), network.future(), deadline)


def test_a_call_to_a_node_that_is_not_there_fails(network: Network) -> None:
    asked = call(network)
    network.send(asked)
    with pytest.raises(NetworkError, match="can be reached"):
        asked.future.result(HANG_SECONDS)


def test_the_name_of_a_node_has_the_last_errors_of_connections(network: Network) -> None:
    """A call that was not answered in time did not say that no node could be reached."""
    transport = NetworkTransport(network, ConnectionConfig(), SystemClock())
    assert (transport.name(-1), transport.name(3)) == ("the cluster", "node 3")
    asked = call(network)
    network.send(asked)
    error = asked.future.exception(HANG_SECONDS)
    assert "127.0.0.1:1: " in str(error)
    last = str(error).removeprefix("no node of the cluster can be reached: ")
    assert (transport.name(-1), transport.name(3)) == (
        f"the cluster (last error: {last})",
        f"node 3 (last error: {last})",
    )


def test_a_call_that_fails_within_is_answered_with_that(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    broken: Any = None
    network.routes.nodes = broken
    asked = call(network, node=7)
    network.send(asked)
    with pytest.raises(NetworkError, match="failed within: AttributeError"):
        asked.future.result(HANG_SECONDS)
    assert "a call failed within" in caplog.text


def test_a_call_after_the_close_is_answered_at_once(network: Network) -> None:
    network.close()
    asked = call(network)
    network.send(asked)
    with pytest.raises(Closed):
        asked.future.result(0)


def links(network: Network) -> int:
    """How many connections there are, when all that is due has been done."""
    found: Future[int] = Future()
    network.later(0, lambda: found.set_result(len(list(network._links))))
    return found.result(HANG_SECONDS)


def test_a_connection_is_closed_when_it_was_of_no_use_for_long_and_made_anew() -> None:
    clock = MovableClock()
    with pylog.serve() as server:
        network = Network([parse(server.bootstrap_servers)], ConnectionConfig(), clock, None)
        session = Session("me")

        def ask() -> None:
            asked = Call(-1, MetadataRequest.of(["t"]), None, session, network.future(), clock.tick_ms() + 10_000)
            network.send(asked)
            asked.future.result(HANG_SECONDS)

        ask()
        clock.advance(539_000)
        ask()
        clock.advance(539_000)
        assert links(network) == 1
        clock.advance(1_000)
        assert links(network) == 0
        ask()
        network.close()


def test_a_call_as_the_interpreter_ends_is_answered_without_a_thread(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    asked = call(network)
    network.send(asked)
    with pytest.raises(Closed):
        asked.future.result(0)


def test_a_call_that_waits_to_be_sent_again_goes_to_the_successor_first() -> None:
    config = ConnectionConfig(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    network = Network([NOWHERE], config, SystemClock(), None)
    network.routes.nodes[7] = NOWHERE
    network.routes.coordinates(("transaction", "x"), 7)
    waiting, told = end_transaction(network, 1), call(network)
    passed: list[Any] = []
    done = threading.Event()

    def succeed(message: Any, session: Session) -> Future[Any]:
        passed.append(message)
        return completed(None)

    def is_over() -> bool:
        done.set()
        return not network.has_work

    network.send(waiting)
    # The first one has been tried when the other one has an answer.
    network.send(told)
    told.future.exception(HANG_SECONDS)
    # This one waits for its coordinator, which nothing finds.
    looked_up = end_transaction(network, 3, "y")
    network.send(looked_up)
    network.retire(succeed, is_over)
    later = end_transaction(network, 2)
    network.send(later)
    assert later.future.result(HANG_SECONDS) is waiting.future.result(HANG_SECONDS) is None
    assert looked_up.future.result(HANG_SECONDS) is None
    assert passed == [waiting.message, looked_up.message, later.message] and done.wait(HANG_SECONDS)
    network.close()


def test_a_call_that_is_handed_to_a_successor_has_its_answer_or_its_error(network: Network) -> None:
    def refuse(message: object, session: Session) -> Future[Any]:
        raise Closed("it is closed")

    found = call(network)
    found.hand_to(lambda message, session: completed(message))
    assert found.future.result(0) is found.message
    refused, broken = call(network), call(network)
    refused.hand_to(refuse)
    broken.hand_to(lambda message, session: failed(NetworkError("away")))
    with pytest.raises(Closed):
        refused.future.result(0)
    with pytest.raises(NetworkError, match="away"):
        broken.future.result(0)

    lookup = Call(-1, FindCoordinator("group", "g"), FIND_COORDINATOR, Session("me"), network.future(), 0)
    lookup.hand_to(refuse)
    with pytest.raises(NetworkError, match="in this process"):
        lookup.future.result(0)
