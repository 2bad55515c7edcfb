"""What a request is to an API key, and the three kinds of its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pylog.errors import PylogError
from pylog.protocol.messages import Session
from pylog.protocol.schema import MessageSchema, message
from pylog.protocol.wire.mapping import Body
from pylog.runtime.future import Future
from pylog.server.served_node import ServedNode


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was decoded."""

    version: int
    body: Body
    session: Session


class Reply(NamedTuple):
    """An answer that comes when `answer` does: `body` makes the response of it, `refused` of an error.

    Both are called by the loop, one at a time.
    """

    answer: Future[Any]
    body: Callable[[Any], Body]
    refused: Callable[[PylogError], Body]


class NoResponse:
    """The answer to a request that wants none (acks=0)."""


class Later(NamedTuple):
    """An answer that takes a call that may wait, which the pool makes."""

    call: "Callable[[], Outcome]"


NO_RESPONSE = NoResponse()
Outcome = Body | Reply | Later | NoResponse
Answer = Callable[[Request, ServedNode], Outcome]


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. `answer` answers a request; with `may_wait` it is called in the pool.

    `is_pipelined`: the next request of the connection may begin before the answer is there.
    """

    name: str
    low: int
    high: int
    answer: Answer
    may_wait: bool = False
    is_pipelined: bool = False

    @property
    def key(self) -> int:
        """Kafka's number of it."""
        return self.request.api_key

    @property
    def request(self) -> MessageSchema:
        """The schema of its requests."""
        return message(f"{self.name}Request")

    @property
    def response(self) -> MessageSchema:
        """The schema of its responses."""
        return message(f"{self.name}Response")


def api(
    name: str, answer: Answer, *, high: int | None = None, may_wait: bool = False, is_pipelined: bool = False
) -> Api:
    """An API key in all versions that its schema has, up to `high`."""
    versions = message(f"{name}Request").versions
    return Api(name, versions.low, versions.high if high is None else high, answer, may_wait, is_pipelined)
