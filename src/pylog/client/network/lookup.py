"""FindCoordinator, as the network asks it for itself.

1-3    one key            4-6    several keys in one request: one is asked for
"""

from dataclasses import dataclass

from pylog.errors import PylogError
from pylog.protocol.messages import (
    ApiResponse,
    OffsetsCommitted,
    OffsetsFetched,
)
from pylog.protocol.messages.api import ApiRequest
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question, error_in
from pylog.protocol.wire.versions import SEVERAL_FROM

__all__ = ["FIND_COORDINATOR", "FindCoordinator", "coordinator_error", "found"]

KINDS = {"group": 0, "transaction": 1}


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """A request for the node that coordinates a "group" or a "transaction"."""

    kind: str
    key: str


def _body(message: FindCoordinator, version: int) -> Body:
    body: Body = {"keyType": KINDS[message.kind]}
    return {**body, "coordinatorKeys": [message.key]} if version >= SEVERAL_FROM else {**body, "key": message.key}


def found(message: FindCoordinator, body: Body, version: int) -> Body:
    """The part of the response that is about the key. Raises the error in it."""
    part = body
    if version >= SEVERAL_FROM:
        part = next((one for one in body["coordinators"] if one["key"] == message.key), body)
    error = error_in(part)
    if error is not None:
        raise error
    return part


FIND_COORDINATOR = Question(name="FindCoordinator", body=_body, answer=found, versions=lambda message: (1, 1 << 15))


def coordinator_error(message: object, answer: object) -> PylogError | None:
    """The first error of a coordinator's answer: of all of it, or of a part."""
    if isinstance(message, ApiRequest) and isinstance(answer, ApiResponse):
        return message.first_error(answer)
    if isinstance(answer, OffsetsCommitted):
        return answer.error or next((error for error in answer.errors.values() if error is not None), None)
    if isinstance(answer, OffsetsFetched) and answer.error is None:
        return next((part.error for part in answer.parts if part.error is not None), None)
    return answer.error if isinstance(answer, OffsetsFetched) else None
