"""The network's promise: a call that was sent is answered, whatever happens to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from pylog.client.network.address import Address
from pylog.client.network.call import Call
from pylog.client.network.network import Network
from pylog.config.connection import ConnectionConfig
from pylog.errors import Closed, NetworkError
from pylog.protocol.messages import Metadata, Session
from pylog.protocol.wire.questions.table import QUESTIONS
from pylog.runtime.clock import SystemClock

SECONDS = 20


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network([Address("127.0.0.1", 1)], ConnectionConfig(), SystemClock(), None)
    yield made
    made.close()


def call(network: Network, node: int = -1) -> Call:
    deadline = SystemClock().tick_ms() + 1000 * SECONDS
    return Call(node, Metadata(["t"]), QUESTIONS[Metadata], Session("me"), network.future(), deadline)


def test_a_call_to_a_node_that_is_not_there_fails(network: Network) -> None:
    asked = call(network)
    network.send(asked)
    with pytest.raises(NetworkError, match="can be reached"):
        asked.future.result(SECONDS)


def test_a_call_that_fails_within_is_answered_with_that(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    broken: Any = None
    network.routes.nodes = broken
    asked = call(network, node=7)
    network.send(asked)
    with pytest.raises(NetworkError, match="failed within: AttributeError"):
        asked.future.result(SECONDS)
    assert "a call failed within" in caplog.text


def test_a_call_after_the_close_is_answered_at_once(network: Network) -> None:
    network.close()
    asked = call(network)
    network.send(asked)
    with pytest.raises(Closed):
        asked.future.result(0)
