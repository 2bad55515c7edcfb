"""Produces that wait for one connection, as requests: who goes with whom, and who gets which part of the answer."""

from collections import deque
from typing import Any

import pytest

from pylog.client.network.call import Call
from pylog.client.network.merging import WORTH_BYTES, are_worth_a_request, next_call
from pylog.errors import NetworkError
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.wire.questions.table import QUESTIONS
from pylog.record import Record
from pylog.runtime.future import Future
from support.produce import produced

SMALL = encode([Record(b"x")], now_ms=1)


def call(message: Any, deadline_ms: int = 100) -> Call:
    return Call(1, message, QUESTIONS.get(type(message)), Session("me"), Future(), deadline_ms)


def produce(partition: int, *, size: int = 1, deadline_ms: int = 100, **more: Any) -> Call:
    batch = SMALL if size == 1 else encode([Record(b"x" * size)], now_ms=1)
    return call(ProduceRequest.of("t", partition, batch, **more), deadline_ms)


def partitions(taken: Call) -> list[int]:
    return [part.index for _, part in taken.message.pairs]


def test_batches_of_several_partitions_go_together_and_those_of_one_stay_in_order() -> None:
    calls = [produce(number) for number in (0, 0, 1, 2, 1, 0)]
    waiting = deque(calls)
    assert partitions(next_call(waiting)) == [0, 1, 2]
    assert list(waiting) == [calls[1], calls[4], calls[5]]
    assert partitions(next_call(waiting)) == [0, 1]
    assert next_call(waiting) is calls[5]
    assert not waiting


def test_each_call_gets_its_part_of_the_answer() -> None:
    calls = [produce(0), produce(1), produce(2)]
    together = next_call(deque(calls))
    parts = [produced(number, number * 10) for number in range(3)]
    together.answer(together.message.with_parts(parts))
    assert [one.future.result(0).parts for one in calls] == [[part] for part in parts]


def test_an_error_is_that_of_each_call() -> None:
    calls = [produce(0), produce(1)]
    next_call(deque(calls)).fail(NetworkError("gone"))
    assert all(isinstance(one.future.exception(0), NetworkError) for one in calls)


def test_the_first_deadline_is_that_of_all() -> None:
    assert next_call(deque([produce(0, deadline_ms=50), produce(1, deadline_ms=20)])).deadline_ms == 20


@pytest.mark.parametrize("more", [{"acks": 1}, {"timeout_ms": 5}, {"transactional_id": "tx"}])
def test_batches_that_are_sent_otherwise_do_not_go_with_them(more: dict[str, Any]) -> None:
    waiting = deque([produce(0), produce(1, **more), produce(2)])
    assert [partitions(next_call(waiting)) for _ in range(3)] == [[0], [1], [2]]


def test_another_message_is_overtaken_by_no_batch() -> None:
    question = call(MetadataRequest.of(["t"]))
    waiting = deque([produce(0), question, produce(1)])
    assert partitions(next_call(waiting)) == [0]
    assert next_call(waiting) is question
    assert partitions(next_call(waiting)) == [1]


def test_a_request_ends_where_it_is_large() -> None:
    waiting = deque([produce(number, size=600_000) for number in range(5)])
    assert [partitions(next_call(waiting)) for _ in range(3)] == [[0, 1], [2, 3], [4]]


def test_little_is_not_worth_a_request_while_another_one_is_under_way() -> None:
    assert not are_worth_a_request([produce(0), produce(1), call(MetadataRequest.of([]))])
    assert are_worth_a_request([produce(0), produce(1, size=WORTH_BYTES)])


def test_a_call_that_was_answered_meanwhile_keeps_its_answer() -> None:
    calls = [produce(0), produce(1)]
    together = next_call(deque(calls))
    calls[1].fail(NetworkError("its time was up"))
    together.answer(together.message.with_parts([produced(0), produced(1)]))
    assert isinstance(calls[1].future.exception(0), NetworkError)


def test_what_a_callback_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise ValueError("in a callback")

    good, bad = produce(0), produce(1)
    for one in (good, bad):
        one.future.add_done_callback(fail)
    good.answer(good.message.with_parts([produced(0)]))
    bad.fail(NetworkError("gone"))
    bad.fail(NetworkError("a second time"))
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "gone" in str(bad.future.exception(0))
