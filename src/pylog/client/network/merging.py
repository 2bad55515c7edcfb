"""Batches of several partitions in one request: what waits for a connection at the same moment goes out together.

A producer sends a message for each batch. Those with the same acks, time and transaction become one, with no partition
twice (Kafka: Sender.sendProduceRequests). Each gets its own part of the answer.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from uuid import UUID

from pylog.client.network.call import Call
from pylog.protocol.messages import ProduceRequest, ProduceResponse
from pylog.protocol.messages.records import ProduceTopic
from pylog.runtime.future import Future

__all__ = ["are_worth_a_request", "next_call"]

WORTH_BYTES = 64 << 10
BYTES_MAX = 1 << 20
"""How many bytes of batches go into one request, about (Kafka: max.request.size)."""
PASSED_MAX = 500
"""How many batches are looked at, and have to wait as another one of their partition goes."""


def next_call(waiting: deque[Call]) -> Call:
    """Take the next call, and with a Produce those that may go with it. The batches of a partition stay in order."""
    first = waiting.popleft()
    if not waiting or not isinstance(first.message, ProduceRequest):
        return first
    calls, passed = [first], list[Call]()
    keys = _keys(first.message)
    size = _size(first.message)
    while waiting and size < BYTES_MAX and len(passed) < PASSED_MAX and _is_like(first.message, waiting[0].message):
        call = waiting.popleft()
        theirs = _keys(call.message)
        if keys.isdisjoint(theirs):
            calls.append(call)
            size += _size(call.message)
        else:
            passed.append(call)
        keys |= theirs
    waiting.extendleft(reversed(passed))
    return first if len(calls) == 1 else _together(calls)


def are_worth_a_request(waiting: Iterable[Call]) -> bool:
    """Whether the Produces that wait have bytes enough for a request of their own, while another one is under way."""
    size = 0
    for call in waiting:
        if isinstance(call.message, ProduceRequest):
            size += _size(call.message)
            if size >= WORTH_BYTES:
                return True
    return False


def _keys(message: ProduceRequest) -> set[tuple[str, int]]:
    return {(topic.name, part.index) for topic, part in message.pairs}


def _size(message: ProduceRequest) -> int:
    return sum(0 if part.batch is None else part.batch.size for _, part in message.pairs)


def _is_like(first: ProduceRequest, other: object) -> bool:
    return isinstance(other, ProduceRequest) and (other.acks, other.timeout_ms, other.transactional_id) == (
        first.acks, first.timeout_ms, first.transactional_id
    )  # fmt: skip


def _together(calls: list[Call]) -> Call:
    first = calls[0]
    topics: dict[tuple[str, UUID], ProduceTopic] = {}
    for call in calls:
        for topic, part in call.message.pairs:
            known = topics.setdefault(
                (topic.name, topic.topic_id), ProduceTopic(name=topic.name, topic_id=topic.topic_id)
            )  # fmt: skip
            known.partition_data.append(part)
    message = replace(first.message, topic_data=list(topics.values()))
    answer: Future[ProduceResponse] = Future()
    answer.add_done_callback(partial(_tell, calls))
    return Call(
        first.node, message, first.question, first.session, answer, min(call.deadline_ms for call in calls)
    )  # fmt: skip


def _tell(calls: list[Call], answer: Future[ProduceResponse]) -> None:
    error = answer.exception()
    for call in calls:
        if error is not None:
            call.fail(error)
        elif not call.future.done():
            call.answer(call.message.with_parts(call.message.parts_of(answer.result())))
