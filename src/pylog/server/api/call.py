"""A request to an API key, and the kinds of its outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pylog.errors import PylogError
from pylog.protocol.messages import ApiRequest, ApiResponse, Session
from pylog.protocol.schema import MessageSchema, message
from pylog.protocol.wire.mapping import Body
from pylog.server.served_node import ServedNode
from pylog.transport import PendingAnswer


class Request(NamedTuple):
    """A request that was decoded. `body` is a message where the key has a class for it, else a dict."""

    version: int
    body: Any
    session: Session


class Reply(NamedTuple):
    """An answer that comes when `answer` does: `body` makes the response of it, `refused` of an error.

    They are called once, by the loop or by a pool.
    """

    answer: PendingAnswer
    body: "Callable[[Any], Made]"
    refused: "Callable[[PylogError], Made]"


class NoResponse(NamedTuple):
    """The answer to a request that wants none (acks=0). With an error the connection ends, as nothing else tells it."""

    error: PylogError | None = None


class Framed(NamedTuple):
    """An answer that is a whole frame, with its size: a token of SASL after SaslHandshake 0, or what was prepared."""

    data: bytes | bytearray


class Later(NamedTuple):
    """An answer that takes a call that may wait, which the pool makes.

    `is_append`: it may sync, or drop segments, so it takes no thread from other calls. `is_long`: it waits for nothing
    and may take long, so it has its turn in the thread of large requests.
    """

    call: "Callable[[], Outcome]"
    is_append: bool = False
    is_long: bool = False


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
Made = Body | ApiResponse | NoResponse | Framed
"""What a response is made of."""
Outcome = Made | Reply | Later
Answer = Callable[[Request, ServedNode], Outcome]


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. `answer` answers a request; with `may_wait` it is called in a pool. `into`: the class of requests.

    `is_long`: its answer may be large where its request is small, so it is made in the thread of large requests.
    `is_pipelined`: the next request of the connection may begin before the answer is there. `is_of_connection`: what it
    begins in the node ends with the connection.
    """

    name: str
    key: int
    low: int
    high: int
    request: MessageSchema
    response: MessageSchema
    answer: Answer
    may_wait: bool
    is_long: bool
    is_pipelined: bool
    is_of_connection: bool
    into: type[ApiRequest[object]] | None


def api(
    name: str, answer: Answer, *, high: int | None = None, may_wait: bool = False, is_long: bool = False,
    is_pipelined: bool = False, is_of_connection: bool = False, into: type[ApiRequest[object]] | None = None,
) -> Api:  # fmt: skip
    """An API key in all versions that its schema has, up to `high`."""
    request, response = message(f"{name}Request"), message(f"{name}Response")
    low, highest = request.versions
    return Api(
        name, request.api_key, low, highest if high is None else high, request, response, answer,
        may_wait or is_long, is_long, is_pipelined, is_of_connection, into,
    )  # fmt: skip
