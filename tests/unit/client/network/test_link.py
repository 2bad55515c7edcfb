"""One connection over a socket: what it says of answers that came before it broke."""

import selectors
import socket
from pathlib import Path

import pytest

from pylog.client.network.address import Address
from pylog.client.network.call import Call
from pylog.client.network.dialogue import Answered, Dialogue
from pylog.client.network.link import Link
from pylog.client.network.selector import LinkSelector
from pylog.client.network.traffic import Traffic
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.schema import message as schema
from pylog.protocol.wire.questions.table import QUESTIONS
from pylog.record import Record
from pylog.runtime.future import Future

BUFFER_BYTES = 1 << 10
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


def frame(name: str, version: int, body: dict[str, object], correlation_id: int) -> bytes:
    found = schema(f"{name}Response")
    tags = b"\0" if found.is_flexible(version) and name != "ApiVersions" else b""
    data = correlation_id.to_bytes(4, "big") + tags + found.encode(version, body)
    return len(data).to_bytes(4, "big") + data


def talking(folder: Path) -> tuple[Link, socket.socket]:
    """A link that is ready, and its node's end of the connection."""
    path = str(folder / "node")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        link = Link(
            (Address(f"unix:{path}", 0), 0, ""), Address(f"unix:{path}", 0), Dialogue("me", 1 << 20),
            LinkSelector(), bytearray(BUFFER_BYTES), None, lambda _: True, 0, Traffic(),
        )  # fmt: skip
        link.open(0)
        node, _ = listener.accept()
    link.handle(WRITE, 0, [])
    node.recv(BUFFER_BYTES)
    versions = [{"apiKey": key, "minVersion": 9, "maxVersion": 9} for key in (0, 3)]
    node.sendall(frame("ApiVersions", 4, {"errorCode": 0, "apiKeys": versions}, 1))
    link.handle(READ, 0, [])
    assert link.is_ready
    return link, node


def call(message: MetadataRequest | ProduceRequest) -> Call:
    return Call(1, message, QUESTIONS.get(type(message)), Session("me"), Future(), 1000)


def test_an_answer_that_came_right_before_the_end_is_given(tmp_path: Path) -> None:
    link, node = talking(tmp_path)
    asked, answers = call(MetadataRequest.of([])), list[Answered]()
    link.give(asked)
    link.send_waiting(0, answers)
    node.recv(BUFFER_BYTES)
    # A large one, which is received in several pieces.
    brokers = [{"nodeId": number, "host": "h" * 100, "port": 9092} for number in range(40)]
    node.sendall(frame("Metadata", 9, {"brokers": brokers, "clusterId": "c", "controllerId": 1, "topics": []}, 2))
    node.close()
    with pytest.raises(ConnectionResetError, match="has closed the connection"):
        for _ in range(9):
            link.handle(READ, 0, answers)
    link.close()

    assert [one.call for one in answers] == [asked]
    assert not link.in_flight


def test_an_answer_that_is_known_at_once_is_given_where_the_sending_fails(tmp_path: Path) -> None:
    link, node = talking(tmp_path)
    node.close()
    batch = encode([Record(b"v")], now_ms=1)
    asked, answers = call(ProduceRequest.of("t", 0, batch, acks=0, timeout_ms=1000)), list[Answered]()
    link.give(asked)
    with pytest.raises(OSError, match="pipe"):
        link.send_waiting(0, answers)
    link.close()

    assert [one.call for one in answers] == [asked]
