"""Requests to a node in memory in which one array or text is large, one for each of each key."""

import gc
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from fairness.requests import frames
from pylog.errors import PylogError
from pylog.server.api.call import Later, Reply
from pylog.server.api.table import APIS
from pylog.server.dispatch import read_request, response
from support.wire_node import HOST, WireNode, wire_node

SERVED = {api.key: (api.low, api.high) for api in APIS.values()}
FRAMES = dict(frames("t", uuid.UUID(int=7), SERVED, 2000))


@pytest.fixture(scope="module")
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        made.log.create_topic("t")
        yield made


@pytest.mark.parametrize("said", [said for said in FRAMES if said.endswith("longest")])
def test_the_longest_text_is_answered(node: WireNode, said: str) -> None:
    # What an answer repeats of it has to fit into a string, with what is said of it.
    call, outcome = node.call(FRAMES[said]())
    if isinstance(outcome, Reply):
        outcome.answer.abandon()
    else:
        assert response(call, outcome)[1] < 3 * len(FRAMES[said]()) + 3000


def traced() -> dict[int, PylogError]:
    """The errors with a traceback that there are, by their identity."""
    there = (one for one in gc.get_objects() if isinstance(one, PylogError))
    return {id(one): one for one in there if one.__traceback__ is not None}


def test_errors_of_many_elements_keep_no_tracebacks(node: WireNode) -> None:
    # A traceback holds frames and all that these refer to: the garbage collector looked at them for seconds.
    before, outcomes = traced(), []
    for said, make in FRAMES.items():
        if said.endswith("distinct"):
            call = read_request(bytearray(make()), HOST)
            outcome = call.answer(node.served)
            while isinstance(outcome, Later):
                outcome = outcome.call()
            if isinstance(outcome, Reply) and not outcome.answer.done():
                outcome.answer.abandon()
            outcomes.append(outcome)

    kept = Counter(type(one).__name__ for number, one in traced().items() if number not in before)
    # A request may have one as a whole; each has tens of elements.
    assert len(outcomes) > 80 and all(count < 10 for count in kept.values()), kept
