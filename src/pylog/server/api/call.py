"""A request to an API key, and the kinds of its outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pylog.errors import PylogError
from pylog.protocol.messages import Session
from pylog.protocol.schema import MessageSchema, message
from pylog.protocol.wire.mapping import Body
from pylog.runtime.future import Future
from pylog.server.served_node import ServedNode


class Request(NamedTuple):
    """A request that was decoded."""

    version: int
    body: Body
    session: Session


class Reply(NamedTuple):
    """An answer that comes when `answer` does: `body` makes the response of it, `refused` of an error.

    Both are called by the loop, one at a time.
    """

    answer: Future[Any]
    body: "Callable[[Any], Body | NoResponse]"
    refused: "Callable[[PylogError], Body | NoResponse]"


class NoResponse(NamedTuple):
    """The answer to a request that wants none (acks=0). With an error the connection ends, as nothing else tells it."""

    error: PylogError | None = None


class BareToken(NamedTuple):
    """An answer that is a frame without a header: a token of SASL after SaslHandshake 0."""

    data: bytes


class Later(NamedTuple):
    """An answer that takes a call that may wait, which the pool makes.

    `is_append`: it may sync, or drop segments, so it takes no thread from other calls.
    """

    call: "Callable[[], Outcome]"
    is_append: bool = False


class Fate(NamedTuple):
    """A request, or its answer, fares otherwise than others do: an interceptor says how.

    `answer` answers in place of the key. `delay_ms`: the answer comes so much later. `ends_connection`: the connection
    ends in its place. `is_lost`: the answer never comes.
    """

    answer: "Callable[[ServedNode], Outcome] | None" = None
    delay_ms: int | None = None
    ends_connection: bool = False
    is_lost: bool = False


NO_RESPONSE = NoResponse()
Outcome = Body | Reply | Later | NoResponse | BareToken
Answer = Callable[[Request, ServedNode], Outcome]


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. `answer` answers a request; with `may_wait` it is called in the pool.

    `is_pipelined`: the next request of the connection may begin before the answer is there.
    """

    name: str
    key: int
    low: int
    high: int
    request: MessageSchema
    response: MessageSchema
    answer: Answer
    may_wait: bool
    is_pipelined: bool


def api(
    name: str, answer: Answer, *, high: int | None = None, may_wait: bool = False, is_pipelined: bool = False
) -> Api:
    """An API key in all versions that its schema has, up to `high`."""
    request, response = message(f"{name}Request"), message(f"{name}Response")
    low, highest = request.versions
    return Api(
        name, request.api_key, low, highest if high is None else high, request, response, answer, may_wait, is_pipelined
    )  # fmt: skip
