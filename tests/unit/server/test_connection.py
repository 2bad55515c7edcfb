import socket
from collections.abc import Iterator

import pytest

from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import Closed, UnsupportedVersion
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import failed
from pylog.server.api.call import NO_RESPONSE, Later
from pylog.server.connection import PIPELINED_BYTES, PIPELINED_MAX, UNSENT_BYTES, Connection
from pylog.server.dispatch import ServedCall, read_request, response
from pylog.server.served_node import ServedNode
from support.wire_client import request_frame

PRODUCE = {"acks": 1, "timeoutMs": 1, "transactionalId": None, "topicData": []}


def frame(name: str, version: int, body: dict[str, object], correlation_id: int = 1) -> bytearray:
    return bytearray(request_frame(name, version, body, correlation_id=correlation_id)[4:])


@pytest.fixture
def connection() -> Iterator[Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        node = ServedNode(
            lambda message, session: failed(Closed("")), 1, DynamicBrokerConfig(NodeConfig()), SystemClock()
        )
        made = Connection(ours, "/host", node, 0)
        yield made
        made.close()


def begin(connection: Connection, outcome: object = NO_RESPONSE) -> ServedCall | None:
    if not (connection.frames and connection.may_begin):
        return None
    taken = connection.frames.popleft()
    call = read_request(taken, connection.host)
    connection.begun(call, outcome, len(taken), 0)
    return call


def test_a_request_waits_for_the_one_before_it(connection: Connection) -> None:
    connection.frames += [frame("Metadata", 1, {"topics": []}), frame("Metadata", 1, {"topics": []})]

    assert begin(connection) is not None
    assert begin(connection) is None

    connection.answers[0].pieces = []
    connection.answered()
    assert begin(connection) is not None


def test_produces_begin_behind_each_other_and_answers_keep_their_order(connection: Connection) -> None:
    connection.frames += [frame("Produce", 3, PRODUCE, number) for number in (1, 2)]
    connection.frames.append(frame("Metadata", 1, {"topics": []}))

    assert begin(connection) is not None
    assert begin(connection) is not None
    assert begin(connection) is None

    connection.answers[1].pieces, connection.answers[1].size = [b"second"], 6
    connection.answered()
    assert connection.outgoing.size == 0

    connection.answers[0].pieces, connection.answers[0].size = [b"first"], 5
    connection.answered()
    assert connection.outgoing.size == 11


def test_a_produce_that_waits_in_the_pool_is_alone(connection: Connection) -> None:
    connection.frames += [frame("Produce", 3, PRODUCE), frame("Produce", 3, PRODUCE)]

    assert begin(connection, Later(lambda: NO_RESPONSE)) is not None
    assert begin(connection) is None


def test_only_so_many_produces_are_under_way(connection: Connection) -> None:
    connection.frames += [frame("Produce", 3, PRODUCE)] * (PIPELINED_MAX + 1)

    for _ in range(PIPELINED_MAX):
        assert begin(connection) is not None
    assert begin(connection) is None


def test_no_produce_begins_behind_too_many_bytes_of_others(connection: Connection) -> None:
    call = read_request(frame("Produce", 3, PRODUCE), "/host")
    first = connection.begun(call, NO_RESPONSE, PIPELINED_BYTES, 0)
    connection.frames.append(frame("Produce", 3, PRODUCE))

    assert connection.held > PIPELINED_BYTES
    assert begin(connection) is None

    first.pieces = []
    connection.answered()
    assert begin(connection) is not None
    assert connection.held < 100


def test_a_client_that_does_not_read_is_not_read_from(connection: Connection) -> None:
    assert connection.is_reading
    connection.outgoing.push([b"x" * UNSENT_BYTES], UNSENT_BYTES)

    assert not connection.is_reading
    assert not connection.is_idle


def test_no_request_begins_behind_answers_that_are_not_read(connection: Connection) -> None:
    connection.frames += [frame("Metadata", 1, {"topics": []})] * 2
    begin(connection)
    connection.answers[0].pieces, connection.answers[0].size = [b"x" * UNSENT_BYTES], UNSENT_BYTES
    connection.answered()

    assert begin(connection) is None

    connection.outgoing.close()
    assert begin(connection) is not None


def test_a_client_whose_request_waits_is_not_read_from(connection: Connection) -> None:
    connection.frames.append(frame("Metadata", 1, {"topics": []}))

    assert not connection.is_reading
    assert connection.held == len(connection.frames[0])


def test_a_socket_that_takes_more_than_there_is_gets_nothing(connection: Connection) -> None:
    connection.send()

    assert not connection.has_output


def test_a_closed_connection_holds_nothing_of_an_unfinished_frame(connection: Connection) -> None:
    connection.framer.feed(memoryview(b"\0\x10\0\0the beginning"))
    target = connection.framer.target()
    assert target is not None and connection.held >= len(target)
    target.release()

    connection.close()

    assert connection.held == 0


def test_a_key_or_version_that_is_not_served_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="API key 999"):
        read_request(bytearray((999).to_bytes(2, "big") + bytes(8)), "/host")
    with pytest.raises(UnsupportedVersion, match="Produce is served from version 3 to 13, not 2"):
        read_request(bytearray(b"\0\0\0\2" + bytes(6)), "/host")


def test_a_version_from_the_future_of_api_versions_is_answered_in_version_0() -> None:
    call = read_request(bytearray(b"\0\x12\0\x63\0\0\0\x07 whatever"), "/host")

    assert (call.version, call.correlation_id, call.request) == (0, 7, None)


def test_a_request_without_a_response_has_no_pieces() -> None:
    call = read_request(frame("Produce", 3, PRODUCE), "/host")

    assert response(call, NO_RESPONSE) == ([], 0)
