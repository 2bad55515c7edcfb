"""A node in memory that is asked by bodies, without sockets and threads, as by the loop of a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pylog
from pylog.runtime.clock import SystemClock
from pylog.server.api.call import Later, NoResponse, Reply
from pylog.server.dispatch import ServedCall, read_request, response
from pylog.server.listeners import ListenAddress
from pylog.server.security import authorizer_of
from pylog.server.served_node import ServedNode
from support.wire_client import request_frame, response_body

HOST = "/127.0.0.1"


class WireNode:
    """Answers requests as a server at 127.0.0.1:9092 does."""

    def __init__(self, log: pylog.Log, *, authorizer: Any = None) -> None:
        broker = log.broker
        self.log = log
        judge = authorizer_of({"authorizer": authorizer}, lambda: broker.image.acls, broker.config)
        self.served = ServedNode(broker.handle, broker.node_id, broker.configs, SystemClock(), authorizer=judge)
        self.served.address = ListenAddress("127.0.0.1", 9092)

    def call(self, frame: bytes, principal: str | None = None) -> tuple[ServedCall, Any]:
        """The call of a frame, and its body, a `Reply` that waits, or NO_RESPONSE. Raises PylogError."""
        call = read_request(bytearray(frame), HOST, principal)
        outcome = call.answer(self.served)
        while isinstance(outcome, Later):
            outcome = outcome.call()
        if isinstance(outcome, Reply) and outcome.answer.done():
            error = outcome.answer.exception()
            outcome = outcome.body(outcome.answer.result()) if error is None else outcome.refused(error)
        return call, outcome

    def ask(self, name: str, version: int, body: dict[str, Any], principal: str | None = None) -> dict[str, Any]:
        """The response, encoded and decoded, for a client that has proved this name."""
        call, outcome = self.call(request_frame(name, version, body)[4:], principal)
        assert not isinstance(outcome, Reply | NoResponse), "there is no response yet"
        return decoded(call, outcome)


def decoded(call: ServedCall, outcome: Any) -> dict[str, Any]:
    """The body of an outcome, as a client reads it."""
    pieces, size = response(call, outcome)
    data = b"".join(bytes(piece) if not hasattr(piece, "read") else piece.read() for piece in pieces)
    assert len(data) == size
    return response_body(call.api.name, call.version, data[4:])[1]


@contextmanager
def wire_node(**config: Any) -> Iterator[WireNode]:
    """A node over a log in memory."""
    with pylog.open(":memory:", config={"offsets_topic_num_partitions": 1, **config}) as log:
        yield WireNode(log)
