"""Calls that wait for their coordinator: found, moved, not found."""

from collections.abc import Callable
from typing import Any

import pytest

from pylog.client.network.address import Address
from pylog.client.network.call import Call
from pylog.client.network.coordinators import CoordinatorLookups
from pylog.client.network.lookup import FIND_COORDINATOR, FindCoordinator
from pylog.client.network.routes import Routes
from pylog.config.connection import ConnectionConfig
from pylog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupAuthorization,
    NotCoordinator,
    PylogError,
)
from pylog.protocol.messages import Session
from pylog.protocol.messages.groups import ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest
from pylog.protocol.messages.offsets import OffsetFetchResponse
from pylog.protocol.messages.transactions import DescribeTransactionsRequest
from pylog.record import TopicPartition
from pylog.runtime.clock import MovableClock
from pylog.runtime.future import Future
from support.messages import (
    Offset,
    group_heartbeat,
    heartbeaten,
    offset_commit,
    offset_fetch,
)

PLACE = ("group", "g")
BEAT = group_heartbeat("g", 1, "m")
FOUND = {"nodeId": 7, "host": "h", "port": 1}


class Desk:
    """The coordinators of a network that a test plays: what was sent on its way, and what is to be done later."""

    def __init__(self) -> None:
        self.routed: list[Call] = []
        self.later: list[Callable[[], None]] = []
        self.clock = MovableClock()
        self.routes = Routes([Address("a", 1)], 50, 1000)
        self.coordinators = CoordinatorLookups(
            self.routes, ConnectionConfig(), self.clock, self.routed.append, lambda due, work: self.later.append(work)
        )

    def call(self, deadline_ms: int = 60_000) -> Call:
        due = self.clock.tick_ms() + deadline_ms
        return Call(-1, BEAT, None, Session("me"), Future(), due)

    def asked(self) -> Call:
        """The look-up that was sent last."""
        assert isinstance(self.routed[-1].message, FindCoordinator)
        return self.routed.pop()


def test_calls_that_wait_for_the_same_are_sent_by_one_look_up_in_order() -> None:
    desk = Desk()
    calls = [desk.call(), desk.call()]
    for one in calls:
        desk.coordinators.look_up(PLACE, one)
    desk.asked().answer(FOUND)
    assert desk.routed == calls
    assert desk.routes.coordinator(PLACE) == 7
    assert desk.routes.nodes[7] == Address("h", 1)


def test_a_look_up_that_may_succeed_later_is_made_again_for_those_that_have_time() -> None:
    desk = Desk()
    patient, hasty = desk.call(), desk.call(deadline_ms=10)
    desk.coordinators.look_up(PLACE, patient)
    desk.coordinators.look_up(PLACE, hasty)
    desk.asked().fail(CoordinatorNotAvailable("not yet"))
    assert isinstance(hasty.future.exception(0), CoordinatorNotAvailable)
    assert not patient.future.done()
    desk.later.pop()()
    desk.asked().answer(FOUND)
    assert desk.routed == [patient]


def test_a_look_up_that_is_refused_is_the_error_of_all_that_wait() -> None:
    desk = Desk()
    one = desk.call()
    desk.coordinators.look_up(PLACE, one)
    desk.asked().fail(GroupAuthorization("no"))
    assert isinstance(one.future.exception(0), GroupAuthorization)
    assert desk.later == []


def test_what_still_waits_is_given_back_at_the_end() -> None:
    desk = Desk()
    one = desk.call()
    desk.coordinators.look_up(PLACE, one)
    assert desk.coordinators.take_all() == [one]
    assert desk.coordinators.take_all() == []


MOVED = NotCoordinator("elsewhere")
COMMIT, FETCH = offset_commit("g", [Offset("t", 0, 5)]), offset_fetch("g", [TopicPartition("t", 0)])


def one_fetched(error: PylogError | None = None) -> OffsetFetchResponse:
    """An answer to FETCH with the error of its partition."""
    return OffsetFetchResponse(groups=[FETCH.groups[0].answered(lambda key, _: FETCH.groups[0].told(key, error))])


@pytest.mark.parametrize(
    ("asked", "answer", "is_forgotten"),
    [
        (BEAT, heartbeaten(MOVED), True),
        (BEAT, heartbeaten(CoordinatorNotAvailable("away")), True),
        (BEAT, heartbeaten(CoordinatorLoadInProgress("soon")), False),
        (COMMIT, COMMIT.refused(MOVED), True),
        (FETCH, FETCH.refused(MOVED), True),
        (FETCH, one_fetched(MOVED), True),
    ],
)
def test_a_call_that_a_coordinator_refuses_as_it_has_moved_is_sent_again(
    asked: Any, answer: Any, is_forgotten: bool
) -> None:
    desk = Desk()
    desk.routes.coordinates(PLACE, 7)
    one = desk.call()
    one.message = asked
    assert desk.coordinators.has_moved(one, answer)
    assert (desk.routes.coordinator(PLACE) is None) == is_forgotten
    desk.later.pop()()
    assert desk.routed == [one]


@pytest.mark.parametrize(
    "request_",
    [
        DescribeGroupsRequest(groups=["g"]), ConsumerGroupDescribeRequest(group_ids=["g"]),
        DeleteGroupsRequest(groups_names=["g"]), DescribeTransactionsRequest(transactional_ids=["g"]),
    ],
)  # fmt: skip
def test_a_request_about_a_name_whose_coordinator_has_moved_is_sent_again(request_: Any) -> None:
    desk = Desk()
    desk.routes.coordinates(PLACE, 7)
    one = desk.call()
    one.message = request_
    assert not desk.coordinators.has_moved(one, request_.refused(GroupAuthorization("no")))
    assert desk.coordinators.has_moved(one, request_.refused(MOVED))
    assert desk.routes.coordinator(PLACE) is None
    desk.later.pop()()
    assert desk.routed == [one]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (BEAT, heartbeaten()), (BEAT, heartbeaten(GroupAuthorization("no"))), (FETCH, one_fetched()),
    ],
)  # fmt: skip
def test_another_answer_is_that_of_the_call(asked: Any, answer: Any) -> None:
    one = Desk().call()
    one.message = asked
    assert not Desk().coordinators.has_moved(one, answer)


def test_a_call_without_time_for_another_attempt_has_its_answer() -> None:
    desk = Desk()
    assert not desk.coordinators.has_moved(desk.call(deadline_ms=1), heartbeaten(MOVED))
    assert desk.later == []


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_coordinator_is_asked_for_in_every_version(version: int) -> None:
    asked = FindCoordinator("transaction", "tx")
    body = FIND_COORDINATOR.body(asked, version)
    assert body["keyType"] == 1
    assert (body.get("key"), body.get("coordinatorKeys")) == (("tx", None) if version < 4 else (None, ["tx"]))
    told = {**FOUND, "errorCode": 0}
    found = told if version < 4 else {"coordinators": [{"key": "other"}, {"key": "tx", **told}]}
    assert FIND_COORDINATOR.answer(asked, found, version)["nodeId"] == 7
    with pytest.raises(PylogError, match="not there"):
        FIND_COORDINATOR.answer(asked, {"errorCode": 15, "errorMessage": "not there", "coordinators": []}, version)
