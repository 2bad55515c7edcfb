"""Which requests a connection has prepared, and which ones it decodes: that they are answered alike is a property."""

import socket
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest

import pylog
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import Closed, UnknownTopicId
from pylog.protocol.compression import Codec
from pylog.protocol.messages import Message, Session
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from pylog.server import prepared
from pylog.server.api import produce as decoded
from pylog.server.api.produce import PACKED_AT_ONCE
from pylog.server.calls import ELEMENTS_AT_ONCE
from pylog.server.connection import Connection
from pylog.server.prepared import PREPARED_BYTES_MAX, PREPARED_MAX
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from support.wire_bodies import batch, produce, produced_parts
from support.wire_client import WireClient, request_frame


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


def frame(version: int, *values: bytes, topic: str = "t", more: dict[str, Any] | None = None) -> bytearray:
    body = {**produce(topic, batch(*values)), **(more or {})}
    return bytearray(request_frame("Produce", version, body, correlation_id=len(values))[4:])


def is_prepared(connection: Connection, request: bytearray) -> bool:
    call = connection.read(request, ELEMENTS_AT_ONCE)
    assert call.api in (prepared.API, decoded.API)
    assert call.correlation_id == int.from_bytes(request[4:8], "big")
    return call.api is prepared.API


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("size", [1, 300])
def test_a_request_like_one_before_is_prepared(connection: Connection, version: int, size: int) -> None:
    assert not is_prepared(connection, frame(version, b"a"))
    assert is_prepared(connection, frame(version, b"bb" * size, b"c"))
    assert not is_prepared(connection, frame(version, b"a", topic="other"))
    assert not is_prepared(connection, frame(version, b"a", more={"acks": 1}))
    assert is_prepared(connection, frame(version, b"d"))


@pytest.mark.parametrize(
    "more", [{"acks": 0}, {"acks": 5}, {"transactionalId": "tx"}, {"topicData": []}, {"topicData": [{"name": "t"}] * 2}]
)
def test_what_is_not_plain_is_decoded_each_time(connection: Connection, more: dict[str, Any]) -> None:
    assert not any(is_prepared(connection, frame(9, b"a", more=more)) for _ in range(3))


def test_a_batch_that_no_log_takes_is_decoded(connection: Connection) -> None:
    good = frame(3, b"a")
    assert not is_prepared(connection, bytearray(good))

    for at in (8 + 3, 16):  # its length, its magic
        bad = bytearray(good)
        bad[len(good) - len(batch(b"a")) + at] ^= 1
        assert not is_prepared(connection, bad)
    assert is_prepared(connection, good)


def test_a_batch_of_a_transaction_is_decoded(connection: Connection) -> None:
    data = batch(b"a", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    request = bytearray(request_frame("Produce", 3, produce("t", data))[4:])

    assert not any(is_prepared(connection, bytearray(request)) for _ in range(3))


def test_a_request_that_ends_otherwise_is_decoded_each_time(connection: Connection) -> None:
    good = frame(9, b"a")
    tagged = good[:-1] + b"\1\7\1x"
    assert not is_prepared(connection, bytearray(good))

    assert not is_prepared(connection, bytearray(tagged))
    assert is_prepared(connection, bytearray(tagged))
    assert is_prepared(connection, good)


def test_a_length_that_is_written_in_more_bytes_than_it_takes_is_decoded(connection: Connection) -> None:
    size = len(batch(b"a"))
    at = (good := frame(9, b"a")).index(batch(b"a"))
    padded = good[: at - 1] + bytes([size + 1 | 0x80, 0]) + good[at:]
    assert size + 1 < 0x80

    assert not any(is_prepared(connection, bytearray(padded)) for _ in range(3))


def test_the_oldest_is_forgotten(connection: Connection) -> None:
    topics = [f"topic-{number}" for number in range(PREPARED_MAX + 1)]
    assert not any(is_prepared(connection, frame(9, b"a", topic=topic)) for topic in topics)

    assert all(is_prepared(connection, frame(9, b"a", topic=topic)) for topic in topics[1:])
    assert not is_prepared(connection, frame(9, b"a", topic=topics[0]))


def test_what_has_much_around_its_batch_is_decoded_each_time(connection: Connection) -> None:
    for size, expected in ((PREPARED_BYTES_MAX // 2, True), (PREPARED_BYTES_MAX, False)):
        long = [frame(9, b"a", topic="t" * size) for _ in range(2)]
        assert [is_prepared(connection, one) for one in long] == [False, expected]


def test_nothing_is_prepared_where_somebody_looks_at_requests(connection: Connection) -> None:
    connection.prepares = False

    assert not any(is_prepared(connection, frame(9, b"a")) for _ in range(3))


def test_a_prepared_request_whose_append_may_take_long_is_answered_by_a_pool() -> None:
    packed = batch(Random(1).randbytes(PACKED_AT_ONCE), codec=Codec.LZ4)
    with pylog.open(":memory:") as log, log.serve() as server, WireClient(server.bootstrap_servers) as client:
        log.create_topic("t")

        answers = [client.ask("Produce", 9, produce("t", data)) for data in (batch(b"a"), packed, batch(b"b"))]

        assert [produced_parts(answer)[0]["baseOffset"] for answer in answers] == [0, 1, 2]
        assert log.topic("t")[0].next_offset == 3


def test_a_topic_without_partitions_is_answered_beside_another() -> None:
    with pylog.open(":memory:") as log, log.serve() as server, WireClient(server.bootstrap_servers) as client:
        log.create_topic("t")
        body = produce("t", batch(b"a"))
        body["topicData"].insert(0, {"name": "empty", "partitionData": []})

        answers = [client.ask("Produce", 9, body) for _ in range(2)]

        names = [[topic["name"] for topic in answer["responses"]] for answer in answers]
        assert names == [["empty", "t"]] * 2
        assert [produced_parts(answer)[0]["baseOffset"] for answer in answers] == [0, 1]


def test_a_topic_that_the_node_learns_of_later_is_written_to() -> None:
    """Its id stayed unknown on the connection that had asked before."""
    learnt: list[bool] = []
    with pylog.open(":memory:") as log:
        log.create_topic("t")

        def handle(message: Message, session: Session) -> Future[Any]:
            if isinstance(message, MetadataRequest) and not learnt:
                return completed(MetadataResponse())
            return log.broker.handle(message, session)

        server = Server(
            ServedNode(handle, 1, DynamicBrokerConfig(NodeConfig()), SystemClock()), "127.0.0.1:0"
        )  # fmt: skip
        with closing(server), WireClient(server.bootstrap_servers) as client:
            body = produce("t", batch(b"a"))
            body["topicData"][0] = {**body["topicData"][0], "topicId": log.broker.image.topics["t"].id}
            del body["topicData"][0]["name"]
            codes = []
            for _ in range(3):
                codes.append(produced_parts(client.ask("Produce", 13, body))[0]["errorCode"])
                learnt.append(True)
    assert codes == [UnknownTopicId.code, 0, 0]
