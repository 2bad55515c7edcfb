"""Requests whose connection ends before their answer is there, and answers that come late. There is no loop."""

import selectors
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import Closed
from pylog.protocol.messages import ProduceRequest, ProduceResponse
from pylog.protocol.messages.records import OffsetForLeaderEpochResponse
from pylog.runtime.agenda import Agenda
from pylog.runtime.clock import MovableClock
from pylog.runtime.future import Future, completed
from pylog.server.api.call import Fate
from pylog.server.calls import Calls, Counts
from pylog.server.connection import Connection
from pylog.server.served_node import ServedNode
from support.wire_bodies import batch
from support.wire_bodies import produce as produced
from support.wire_client import request_frame

AT_ONCE = request_frame("OffsetForLeaderEpoch", 4, {"topics": []})[4:]
BY_POOL = request_frame("ListGroups", 4, {})[4:]


class Desk:
    """Calls for one connection, and what became of it."""

    def __init__(self, fate: Fate | None = None) -> None:
        self.clock = MovableClock()
        self.answers: list[Future[Any]] = []
        self.bug: Exception | None = None
        self.went_on = 0
        self.selector = selectors.DefaultSelector()
        self.agenda = Agenda(self.clock, self.selector)
        node = ServedNode(
            lambda message, session: self._asked(message), 1, DynamicBrokerConfig(NodeConfig()), self.clock
        )
        ours, self.theirs = socket.socketpair()
        self.connection = Connection(ours, "h", node, 0)
        self.calls = Calls(self, self.agenda, Counts(), lambda call: fate)

    def _asked(self, message: Any) -> Future[Any]:
        if self.bug is not None:
            raise self.bug
        if isinstance(message, ProduceRequest) and not message.may_block:
            # Each append blocks.
            return completed(ProduceResponse())
        self.answers.append(Future())
        return self.answers[-1]

    def go_on(self, connection: Connection) -> None:
        self.went_on += 1

    def refuse(self, connection: Connection, error: BaseException) -> None:
        raise AssertionError("nothing is wrong")

    def close(self, connection: Connection) -> None:
        connection.close()

    def turn(self) -> None:
        """Make the calls that are due, when there are some."""
        for key, events in self.selector.select(5):
            key.data(events)
        self.agenda.call_due(self.clock.tick_ms())

    def end(self) -> None:
        self.connection.close()
        self.theirs.close()
        self.calls.close()
        self.agenda.close()
        self.selector.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.end()


def test_an_answer_that_comes_by_another_thread_goes_out(desk: Desk) -> None:
    desk.calls.begin(desk.connection, bytearray(AT_ONCE))
    assert not desk.connection.outgoing.size
    desk.answers[0].set_result(OffsetForLeaderEpochResponse())
    desk.turn()

    assert desk.connection.outgoing.size
    assert desk.went_on == 1


def test_an_answer_that_cannot_be_written_ends_its_connection(desk: Desk) -> None:
    desk.calls.begin(desk.connection, bytearray(AT_ONCE))
    desk.answers[0].set_exception(Closed("the log is closed"))
    desk.turn()

    assert desk.connection.is_closed
    assert desk.went_on == 0


def test_an_answer_to_a_connection_that_has_ended_goes_nowhere(desk: Desk) -> None:
    desk.calls.begin(desk.connection, bytearray(AT_ONCE))
    desk.connection.close()
    desk.answers[0].set_result(OffsetForLeaderEpochResponse())
    desk.turn()

    assert (desk.connection.outgoing.size, desk.went_on) == (0, 0)


@pytest.mark.parametrize("bug", [None, RuntimeError("a bug")])
def test_a_call_of_the_pool_that_ends_too_late_goes_nowhere(desk: Desk, bug: Exception | None) -> None:
    desk.bug = bug
    desk.calls.begin(desk.connection, bytearray(BY_POOL))
    desk.connection.close()
    desk.turn()

    assert (desk.connection.outgoing.size, desk.went_on) == (0, 0)


@pytest.mark.parametrize("is_pipelined", [True, False])
def test_the_next_produce_waits_for_the_call_of_the_pool_and_not_for_its_answer(
    desk: Desk, is_pipelined: bool
) -> None:  # fmt: skip
    produce = bytearray(request_frame("Produce", 9, produced("t", batch(b"a")))[4:])
    desk.connection.frames.append(produce)
    desk.calls.begin(desk.connection, produce if is_pipelined else bytearray(BY_POOL))
    assert not desk.connection.may_begin, "the pool has the call"
    desk.turn()

    assert len(desk.answers) == 1 and not desk.answers[0].done()
    assert desk.connection.may_begin == is_pipelined


def test_a_late_answer_to_a_connection_that_has_ended_goes_nowhere() -> None:
    desk = Desk(Fate(delay_ms=1000))
    desk.calls.begin(desk.connection, bytearray(AT_ONCE))
    desk.answers[0].set_result(OffsetForLeaderEpochResponse())
    desk.turn()
    assert not desk.connection.outgoing.size, "it comes a second later"
    desk.connection.close()
    desk.clock.advance(1000)
    desk.agenda.call_due(desk.clock.tick_ms())

    assert (desk.connection.outgoing.size, desk.went_on) == (0, 1)
    desk.end()
