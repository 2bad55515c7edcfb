"""Messages reach the node they are for, in the caller's thread; one that is not there is a failed future."""

from typing import Any

import pytest

from pylog.errors import NetworkError
from pylog.protocol.messages import Message, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.runtime.future import Future, completed
from pylog.transport import MemoryTransport


def test_a_message_reaches_its_node_until_that_is_gone() -> None:
    transport, heard = MemoryTransport(), []

    def handle(message: Message, session: Session) -> Future[Any]:
        heard.append((message, session))
        return completed("answer")

    transport.attach(1, handle)
    message, session = MetadataRequest.of(), Session("me")
    assert transport.send(1, message, session).result(0) == "answer"
    assert heard == [(message, session)] and heard[0][0] is message, "nothing is copied"
    with pytest.raises(ValueError, match="node_id"):
        transport.attach(1, handle)
    transport.detach(1)
    transport.detach(1)
    error = transport.send(1, message, session).exception(0)
    assert isinstance(error, NetworkError) and error.retriable
    transport.attach(1, handle)
    assert transport.send(1, message, session).done()
