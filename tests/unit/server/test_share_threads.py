"""In which thread a server answers a request of a share group."""

import uuid
from typing import Any

import pytest

from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import Closed, NotCoordinator, PylogError
from pylog.protocol.messages import Session
from pylog.protocol.messages.share import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed
from pylog.server.api.call import Later, Outcome, Reply, Request
from pylog.server.api.share import answer
from pylog.server.served_node import ServedNode


def outcome(answers: list[Future[Any] | PylogError]) -> tuple[Outcome, list[bool]]:
    """The outcome where the node answers so, and whether it was asked in a thread that may wait for the disk."""
    asked: list[bool] = []

    def handle(message: Any, session: Session) -> Future[Any]:
        asked.append(message.may_block)
        given = answers.pop(0)
        if isinstance(given, PylogError):
            raise given
        return given

    topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=uuid.UUID(int=1), partitions=[])
    message = ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=1, topics=[topic])
    node = ServedNode(handle, 1, DynamicBrokerConfig(NodeConfig()), SystemClock())
    made = answer(Request(1, message, Session()), node)
    return made.call() if isinstance(made, Later) else made, asked


def test_what_waits_for_nothing_is_answered_in_the_thread_of_the_loop() -> None:
    told = completed(ShareAcknowledgeResponse())
    found, asked = outcome([told])
    assert isinstance(found, Reply) and found.answer is told and asked == [False]


def test_an_answer_that_comes_later_is_waited_for_by_the_loop() -> None:
    found, asked = outcome([Future()])
    assert isinstance(found, Reply) and not found.answer.done() and asked == [False]


def test_what_waits_for_the_disk_goes_to_the_pool() -> None:
    told = completed(ShareAcknowledgeResponse())
    found, asked = outcome([completed(None), told])
    assert isinstance(found, Reply) and found.answer is told and asked == [False, True]


@pytest.mark.parametrize("error", [Closed("this log is closed"), NotCoordinator("elsewhere")])
def test_an_error_is_the_answer(error: PylogError) -> None:
    failed: Future[Any] = Future()
    failed.set_exception(error)
    found, asked = outcome([failed])
    assert isinstance(found, Reply) and found.answer.exception() is error and asked == [False]
    found, asked = outcome([error])
    assert isinstance(found, ShareAcknowledgeResponse) and found.error is error
