"""Batches of several partitions in one request: what waits for a connection at the same moment goes out together.

A producer sends a message for each batch. Those with the same acks, time and transaction become one, with no partition
twice (Kafka: Sender.sendProduceRequests). Each gets its own part of the answer.
"""

from collections import deque
from collections.abc import Iterable
from functools import partial

from pylog.client.network.call import Call
from pylog.protocol.messages import Produce, Produced, ProducePart
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
    if not waiting or not isinstance(first.message, Produce):
        return first
    calls, passed = [first], list[Call]()
    parts = list(first.message.parts)
    keys = {(part.topic, part.partition) for part in parts}
    size = _size(parts)
    while waiting and size < BYTES_MAX and len(passed) < PASSED_MAX and _is_like(first.message, waiting[0].message):
        call = waiting.popleft()
        theirs = {(part.topic, part.partition) for part in call.message.parts}
        if keys.isdisjoint(theirs):
            calls.append(call)
            parts += call.message.parts
            size += _size(call.message.parts)
        else:
            passed.append(call)
        keys |= theirs
    waiting.extendleft(reversed(passed))
    return first if len(calls) == 1 else _together(calls, parts)


def are_worth_a_request(waiting: Iterable[Call]) -> bool:
    """Whether the Produces that wait have bytes enough for a request of their own, while another one is under way."""
    size = 0
    for call in waiting:
        if isinstance(call.message, Produce):
            size += _size(call.message.parts)
            if size >= WORTH_BYTES:
                return True
    return False


def _size(parts: list[ProducePart]) -> int:
    return sum(part.batch.size for part in parts)


def _is_like(first: Produce, other: object) -> bool:
    return isinstance(other, Produce) and (other.acks, other.timeout_ms, other.transactional_id) == (
        first.acks, first.timeout_ms, first.transactional_id
    )  # fmt: skip


def _together(calls: list[Call], parts: list[ProducePart]) -> Call:
    first = calls[0]
    said: Produce = first.message
    message = Produce(parts, said.acks, said.timeout_ms, said.transactional_id)
    answer: Future[Produced] = Future()
    answer.add_done_callback(partial(_tell, calls))
    return Call(
        first.node, message, first.question, first.session, answer, min(call.deadline_ms for call in calls)
    )  # fmt: skip


def _tell(calls: list[Call], answer: Future[Produced]) -> None:
    error = answer.exception()
    parts = iter(()) if error is not None else iter(answer.result().parts)
    for call in calls:
        if error is not None:
            call.fail(error)
        elif not call.future.done():
            call.answer(Produced([next(parts) for _ in call.message.parts]))
