"""A server over sockets: order, limits, bad bytes, and the end."""

import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import pylog
from pylog.errors import Closed
from pylog.protocol.batch import encode
from pylog.server.binding import bind
from pylog.server.connection import Connection
from pylog.server.listeners import ListenAddress
from pylog.server.server import Server
from pylog.testing import StandIn
from support.wire_client import WireClient, request_frame

NOW = 1_700_000_000_000
METADATA = {"topics": None}


@pytest.fixture
def server() -> Iterator[Server]:
    with pylog.serve() as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[WireClient]:
    with WireClient(server.bootstrap_servers) as made:
        yield made


def produce(topic: str, *values: bytes, acks: int = -1) -> dict[str, Any]:
    records = bytes(encode([(value, None, NOW, ()) for value in values], now_ms=NOW).data)
    parts = [{"index": 0, "records": records}]
    return {
        "transactionalId": None, "acks": acks, "timeoutMs": 1000,
        "topicData": [{"name": topic, "partitionData": parts}],
    }  # fmt: skip


def fetch(topic: str, offset: int = 0, wait_ms: int = 0) -> dict[str, Any]:
    part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 64 << 20}
    return {"maxWaitMs": wait_ms, "minBytes": 1, "topics": [{"topic": topic, "partitions": [part]}]}


def records_of(response: dict[str, Any]) -> bytes:
    return bytes(response["responses"][0]["partitions"][0]["records"])


# --- requests ---------------------------------------------------------------------------------------------------------


def test_requests_that_come_at_once_are_answered_in_order(client: WireClient) -> None:
    names = [("Metadata", 12, {"topics": [{"name": "t"}]}), *[("Produce", 9, produce("t", b"x"))] * 20]
    names += [("Metadata", 12, METADATA), ("Fetch", 12, fetch("t"))]
    data = b"".join(
        request_frame(name, version, body, correlation_id=index) for index, (name, version, body) in enumerate(names)
    )

    client.socket.sendall(data)

    answers = [client.receive(name, version) for name, version, _ in names]
    assert [number for number, _ in answers] == list(range(len(names)))
    assert len(records_of(answers[-1][1])) > 0


def test_a_request_that_comes_byte_by_byte_is_answered(client: WireClient) -> None:
    for byte in request_frame("Metadata", 12, METADATA):
        client.socket.sendall(bytes([byte]))

    assert client.receive("Metadata", 12)[1]["brokers"]


def test_a_large_batch_goes_in_and_comes_out(tmp_path: Any) -> None:
    with pylog.serve(tmp_path / "log", flush="none") as server, WireClient(server.bootstrap_servers) as client:
        client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        body = produce("t", *[bytes([number]) * 100_000 for number in range(9)])

        client.ask("Produce", 9, body)
        found = records_of(client.ask("Fetch", 12, fetch("t")))

        assert len(found) == len(body["topicData"][0]["partitionData"][0]["records"])
        assert found[61:] == body["topicData"][0]["partitionData"][0]["records"][61:]


def test_a_poll_is_answered_by_an_append_of_another_connection(server: Server, client: WireClient) -> None:
    client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
    client.send("Fetch", 12, fetch("t", wait_ms=20_000))

    with WireClient(server.bootstrap_servers) as other:
        other.ask("Produce", 9, produce("t", b"x"))

    assert len(records_of(client.receive("Fetch", 12)[1])) > 0


def test_nothing_is_answered_where_no_acks_are_wanted(client: WireClient) -> None:
    client.ask("Metadata", 12, {"topics": [{"name": "t"}]})

    client.send("Produce", 9, produce("t", b"x", acks=0))
    found = client.ask("Fetch", 12, fetch("t"))

    assert len(records_of(found)) > 0


def test_an_error_where_no_acks_are_wanted_ends_the_connection(client: WireClient) -> None:
    client.send("Produce", 9, produce("missing", b"x", acks=0))

    assert client.is_closed()


def test_a_durable_produce_is_answered(tmp_path: Any) -> None:
    with pylog.serve(tmp_path / "log", flush="sync") as server, WireClient(server.bootstrap_servers) as client:
        client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        for _ in range(5):
            client.send("Produce", 9, produce("t", b"x"))
        answers = [client.receive("Produce", 9)[1] for _ in range(5)]

        offsets = [one["responses"][0]["partitionResponses"][0]["baseOffset"] for one in answers]
        assert offsets == [0, 1, 2, 3, 4]


def test_an_append_that_waits_for_room_holds_nobody_else_up(server: Server, client: WireClient) -> None:
    with pylog.open(":memory:") as log, log.serve() as served, WireClient(served.bootstrap_servers) as waiting:
        log.create_topic("t", config={"retention.bytes": 1000, "pylog.full.policy": "block"})
        assert waiting.ask("Produce", 9, produce("t", b"x" * 800))["responses"]
        waiting.send("Produce", 9, {**produce("t", b"y" * 800), "timeoutMs": 60_000})
        with WireClient(served.bootstrap_servers) as other:
            assert other.ask("Metadata", 12, METADATA)["brokers"]
            log.delete_records({pylog.TopicPartition("t", 0): -1})

        (topic,) = waiting.receive("Produce", 9)[1]["responses"]

    assert topic["partitionResponses"][0]["errorCode"] == 0


def test_many_appends_that_wait_for_room_leave_threads_for_other_calls() -> None:
    with pylog.open(":memory:") as log, log.serve() as served, ExitStack() as closing:
        # One that takes nearly all of it, and seven that all have room when that is gone.
        log.create_topic("t", config={"retention.bytes": 1400, "pylog.full.policy": "block"})
        clients = [closing.enter_context(WireClient(served.bootstrap_servers)) for _ in range(8)]
        assert clients[0].ask("Produce", 9, produce("t", b"x" * 1300))["responses"]
        for one in clients[1:]:
            one.send("Produce", 9, {**produce("t", b"y" * 100), "timeoutMs": 60_000})
        deleted = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": -1}]}], "timeoutMs": 1000}

        clients[0].ask("DeleteRecords", 2, deleted)

        answers = [one.receive("Produce", 9)[1] for one in clients[1:]]
    assert {one["responses"][0]["partitionResponses"][0]["errorCode"] for one in answers} == {0}


# --- bad bytes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\x02\0\0",
        b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\x01\xff\xff",
        b"\0\0\0\x0a\0\0\0\x01\0\0\0\x01\xff\xff",
        b"\0\0\0\x0a\0\x03\0\x01\0\0\0\x01\x00\x10",
        b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_end_their_connection_alone(
    server: Server, client: WireClient, data: bytes
) -> None:  # fmt: skip
    with WireClient(server.bootstrap_servers) as bad:
        bad.socket.sendall(data)
        assert bad.is_closed()

    assert client.ask("Metadata", 12, METADATA)["brokers"]


def test_a_frame_above_the_limit_ends_the_connection() -> None:
    config = {"socket.request.max.bytes": 1000}
    with pylog.serve(config=config) as server, WireClient(server.bootstrap_servers) as client:
        client.socket.sendall((1001).to_bytes(4, "big"))

        assert client.is_closed()


def test_a_client_that_goes_away_in_the_middle_leaves_nothing(server: Server, client: WireClient) -> None:
    with WireClient(server.bootstrap_servers) as other:
        other.socket.sendall(b"\0\x10\0\0 some")

    assert client.ask("Metadata", 12, METADATA)["brokers"]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_one_connection_too_many_is_closed() -> None:
    with pylog.serve(config={"max.connections": 1}) as server, WireClient(server.bootstrap_servers) as client:
        client.ask("Metadata", 12, METADATA)
        with WireClient(server.bootstrap_servers) as second:
            assert second.is_closed()

        assert client.ask("Metadata", 12, METADATA)["brokers"]


def test_a_silent_connection_is_closed_when_its_time_is_up() -> None:
    config = {"connections.max.idle.ms": 50}
    with pylog.serve(config=config) as server, WireClient(server.bootstrap_servers) as client:
        assert client.is_closed()


def test_a_connection_that_waits_for_an_answer_is_not_silent() -> None:
    with (
        StandIn(config={"connections.max.idle.ms": 100_000}) as kafka,
        WireClient(kafka.bootstrap_servers) as client,
        WireClient(kafka.bootstrap_servers) as other,
    ):
        other.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        client.send("Fetch", 12, fetch("t", wait_ms=500_000))
        while not kafka.requests_of("Fetch"):
            other.ask("Metadata", 12, METADATA)
        for _ in range(4):
            kafka.advance(50_000)
            other.ask("Metadata", 12, METADATA)
        other.ask("Produce", 9, produce("t", b"x"))
        assert client.receive("Fetch", 12)[1]["responses"]


def connections() -> set[Connection]:
    """Those of this process, of other tests, too."""
    gc.collect()
    return {one for one in gc.get_objects() if isinstance(one, Connection)}


def test_nothing_is_kept_of_connections_that_have_gone(server: Server, client: WireClient) -> None:
    before = connections()
    for _ in range(100):
        with WireClient(server.bootstrap_servers) as other:
            other.ask("Metadata", 12, METADATA)
    client.ask("Metadata", 12, METADATA)

    assert len(connections() - before) < 10, "this client's, and those whose end has not been seen yet"


def test_a_connection_is_silent_from_its_last_answer_on() -> None:
    with (
        StandIn(config={"connections.max.idle.ms": 100_000}) as kafka,
        WireClient(kafka.bootstrap_servers) as client,
        WireClient(kafka.bootstrap_servers) as other,
    ):
        kafka.delay("ApiVersions", 90_000)
        client.send("ApiVersions", 0, {})
        while not kafka.requests_of("ApiVersions"):
            other.ask("Metadata", 12, METADATA)
        other.ask("Metadata", 12, METADATA)
        kafka.advance(90_000)
        assert client.receive("ApiVersions", 0)[1]["apiKeys"]
        kafka.advance(50_000)
        assert client.ask("Metadata", 12, METADATA)["brokers"]
        kafka.advance(100_000)
        assert client.is_closed()


def test_a_client_that_does_not_read_gets_all_when_it_does(server: Server, client: WireClient) -> None:
    client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
    client.ask("Produce", 9, produce("t", b"x" * 500_000))
    frames = b"".join(request_frame("Fetch", 12, fetch("t"), correlation_id=number) for number in range(40))
    sending = threading.Thread(target=client.socket.sendall, args=(frames,))
    sending.start()

    answers = [client.receive("Fetch", 12) for _ in range(40)]
    sending.join()

    assert [number for number, _ in answers] == list(range(40))
    assert all(len(records_of(body)) > 500_000 for _, body in answers)


def test_little_memory_for_requests_holds_nobody_up_for_ever() -> None:
    config = {"queued.max.request.bytes": 1000}
    with pylog.serve(config=config) as server:
        clients = [WireClient(server.bootstrap_servers) for _ in range(4)]
        clients[0].ask("Metadata", 12, {"topics": [{"name": "t"}]})
        for one in clients:
            one.send("Produce", 9, produce("t", b"x" * 300_000))
        answers = [one.receive("Produce", 9)[1] for one in clients]
        for one in clients:
            one.socket.close()

    assert [one["responses"][0]["partitionResponses"][0]["errorCode"] for one in answers] == [0] * 4


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_stop_answers_what_was_received_and_waits_for_nobody() -> None:
    server = pylog.serve()
    with WireClient(server.bootstrap_servers) as client, WireClient(server.bootstrap_servers) as poller:
        client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        # Longer than a test may take.
        poller.send("Fetch", 12, fetch("t", wait_ms=600_000))
        client.send("Produce", 9, produce("t", b"x"))
        server.close()

        assert client.receive("Produce", 9)[1]["responses"]
        assert client.is_closed()
        assert poller.is_closed()


def test_a_closed_server_can_be_closed_again_and_serves_nobody() -> None:
    server = pylog.serve()
    server.close()
    server.close()

    with pytest.raises(OSError):
        WireClient(server.bootstrap_servers)
    assert "closed" in repr(server)


def test_a_log_closes_its_servers() -> None:
    with pylog.open(":memory:") as log:
        server = log.serve()
        client = WireClient(server.bootstrap_servers)
        assert client.ask("Metadata", 12, METADATA)["brokers"]

    assert client.is_closed()
    client.socket.close()
    with pytest.raises(Closed):
        log.serve()


def test_closing_a_server_of_a_log_leaves_the_log_open() -> None:
    with pylog.open(":memory:") as log:
        log.serve().close()
        with log.serve() as again, WireClient(again.bootstrap_servers) as client:
            assert client.ask("Metadata", 12, METADATA)["brokers"]

        assert log.topics() == []


def test_counts_say_what_was_answered(server: Server, client: WireClient) -> None:
    client.ask("Metadata", 12, METADATA)
    client.ask("Metadata", 12, METADATA)

    assert (server.counts.connections, server.counts.requests) == (1, 2)


def test_clients_are_told_the_address_of_the_listener_by_which_they_came() -> None:
    config = {"listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT"}
    with pylog.open(":memory:", config=config) as log:
        listen = ["127.0.0.1:0", "IN://127.0.0.1:0", "OUT://127.0.0.1:0"]
        with log.serve(listen, advertise=["OUT://kafka.example.org:19092"]) as server:
            plain, inside, outside = server.addresses.values()
            assert len({plain.port, inside.port}) == 2 and str(outside) == "kafka.example.org:19092"
            for address in (plain, inside):
                with WireClient(str(address)) as client:
                    (broker,) = client.ask("Metadata", 12, METADATA)["brokers"]
                    assert (broker["host"], broker["port"]) == address
                    coordinator = client.ask("FindCoordinator", 3, {"key": "g", "keyType": 0})
                    assert (coordinator["host"], coordinator["port"]) == address

        with pytest.raises(OSError, match="cannot listen"):
            log.serve([f"127.0.0.1:{plain.port}", f"IN://127.0.0.1:{plain.port}"])
        log.serve(f"127.0.0.1:{plain.port}").close()


def test_a_fetch_session_goes_on_at_another_listener() -> None:
    config = {"listener.security.protocol.map": "IN:PLAINTEXT"}
    with pylog.open(":memory:", config=config) as log, log.serve(["127.0.0.1:0", "IN://127.0.0.1:0"]) as server:
        log.create_topic("t")
        plain, inside = map(str, server.addresses.values())
        with WireClient(plain) as client:
            begun = client.ask("Fetch", 12, {**fetch("t"), "sessionEpoch": 0})
        with WireClient(inside) as client:
            gone_on = client.ask("Fetch", 12, {"sessionId": begun["sessionId"], "sessionEpoch": 1, "topics": []})

        assert begun["sessionId"] == gone_on["sessionId"] > 0
        assert (begun["errorCode"], gone_on["errorCode"]) == (0, 0)


def test_clients_are_told_the_advertised_address() -> None:
    with bind(ListenAddress("127.0.0.1", 0)).socket as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    with pylog.open(":memory:") as log, log.serve(listen, advertise="kafka.example.org:19092") as server:
        assert server.bootstrap_servers == "kafka.example.org:19092"
        with WireClient(listen) as client:
            (broker,) = client.ask("Metadata", 12, METADATA)["brokers"]

        assert (broker["host"], broker["port"]) == ("kafka.example.org", 19092)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nothing"])
def test_an_address_that_no_client_could_use_is_refused(listen: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|host:port"):
        pylog.serve(listen=listen)


def test_a_port_that_is_taken_is_an_error(server: Server) -> None:
    with pytest.raises(OSError, match="cannot listen"):
        pylog.serve(listen=server.bootstrap_servers)


def test_a_server_listens_on_ipv6_where_it_is_told_to() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        server = pylog.serve(listen="[::1]:0")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with server:
        assert server.bootstrap_servers.startswith("[::1]:")


# --- clients that leave -----------------------------------------------------------------------------------------------


def test_a_poll_ends_with_its_client() -> None:
    with pylog.open(":memory:") as log, log.serve() as server:
        log.create_topic("t")

        def waiting() -> float:
            return log.metrics().total("PurgatorySize", delayedOperation="Fetch")

        with WireClient(server.bootstrap_servers) as other:
            with WireClient(server.bootstrap_servers) as client:
                client.send("Fetch", 9, fetch("t", wait_ms=2**31 - 1))
                while not waiting():
                    other.ask("Metadata", 12, METADATA)
            while waiting():
                other.ask("Metadata", 12, METADATA)


def test_a_client_that_has_ended_its_side_gets_the_answers_behind_its_poll() -> None:
    with pylog.open(":memory:") as log, log.serve() as server, WireClient(server.bootstrap_servers) as client:
        log.create_topic("t")
        poll = request_frame("Fetch", 9, fetch("t", wait_ms=100))
        client.socket.sendall(poll + request_frame("Metadata", 12, METADATA, correlation_id=2))
        client.socket.shutdown(socket.SHUT_WR)

        assert client.receive("Fetch", 9)[1]["errorCode"] == 0
        assert client.receive("Metadata", 12)[0] == 2
        assert client.is_closed()
