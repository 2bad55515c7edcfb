"""FindCoordinator, as the network asks it for itself.

1-3    one key            4-6    several keys in one request: one is asked for
"""

from dataclasses import dataclass

from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question, error_in
from pylog.protocol.wire.versions import SEVERAL_FROM

__all__ = ["FIND_COORDINATOR", "FindCoordinator", "found"]

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
