"""The sockets of a registry: what a client may take, and what it is told."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

import pylog
from pylog.errors import ThreadsExhausted
from pylog.schema_registry import SchemaRegistryServer, server

Say = Callable[[bytes], tuple[int, Any]]


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


@pytest.fixture
def registry(log: pylog.Log) -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer(log) as registry:
        yield registry


def connected(registry: SchemaRegistryServer) -> socket.socket:
    return socket.create_connection((registry.address.host, registry.address.port), 30)


def is_ended(there: socket.socket) -> bool:
    """Whether the server ends a connection; what it has not read may turn the end into a reset."""
    try:
        return there.recv(1) == b""
    except ConnectionError:
        return True


def answer(there: socket.socket) -> tuple[int, Any]:
    """The status of an answer, and its code or value."""
    with there.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        length = 0
        while line := stream.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        found = json.loads(stream.read(length))
    return status, found["error_code"] if status >= 400 else found


@pytest.fixture
def say(registry: SchemaRegistryServer) -> Say:
    def say(request: bytes) -> tuple[int, Any]:
        with closing(connected(registry)) as there:
            there.sendall(request)
            return answer(there)

    return say


GET = b"GET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /subjects/s/versions HTTP/1.1\r\nContent-Type: application/json\r\n"


def test_requests_of_one_connection_follow_each_other(registry: SchemaRegistryServer) -> None:
    body = b'{"schema": "\\"int\\""}'
    with closing(connected(registry)) as there:
        for _ in range(2):
            there.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert answer(there)[1]["id"] == 1
        there.sendall(GET)
        assert answer(there) == (200, ["s"])
    assert repr(registry) == f"<SchemaRegistryServer {registry.url}>"


REFUSED = [
    (b"hello\r\n\r\n", 400),
    (b"BREW / HTTP/1.1\r\n\r\n", 501),
    (b"GET / HTTP/9.1\r\n\r\n", 505),
    (b"OPTIONS /subjects HTTP/1.1\r\n\r\n", 405),
    (b"GET /" + b"x" * (80 << 10) + b" HTTP/1.1\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * (80 << 10), 431),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
    (POST + b"Content-Length: 4194305\r\n\r\n", 413),
    (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
    (POST + b"Content-Length: -1\r\n\r\n", 400),
    (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
    (b"POST /subjects/s/versions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 415),
    (b"POST /mode HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415),
    (b"GET /subjects HTTP/1.1\r\nHost: evil.example:8081\r\n\r\n", 403),
    (b"GET /subjects HTTP/1.1\r\nHost: [::1\r\n\r\n", 403),
]


@pytest.mark.parametrize(("request_", "status"), REFUSED, ids=[str(one[0])[:50] for one in REFUSED])
def test_a_request_that_cannot_be_served_is_refused_in_json(say: Say, request_: bytes, status: int) -> None:
    assert say(request_) == (status, status)
    assert say(GET) == (200, [])


@pytest.mark.parametrize("host", [b"127.0.0.1:80", b"[::1]:80", b"LocalHost"])
def test_a_local_name_is_served(say: Say, host: bytes) -> None:
    assert say(b"GET /subjects HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == (200, [])


def test_clients_that_hold_all_connections_keep_no_other_one_out(
    registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    with ExitStack() as held:
        slow = [held.enter_context(closing(connected(registry))) for _ in range(5)]
        for one in slow:
            # Some are ended by now.
            with suppress(ConnectionError):
                one.sendall(b"GET /sub")
        with closing(connected(registry)) as there:
            there.sendall(GET)
            assert answer(there) == (200, [])
        assert is_ended(slow[0]), "the one that has waited longest was ended"


def test_a_request_that_does_not_come_in_time_ends_its_connection(
    registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.0)
    with closing(connected(registry)) as there:
        assert is_ended(there)


def test_a_body_that_is_cut_off_changes_nothing(registry: SchemaRegistryServer, say: Say) -> None:
    with closing(connected(registry)) as there:
        there.sendall(POST + b"Content-Length: 100\r\n\r\n{")
        there.shutdown(socket.SHUT_WR)
        assert is_ended(there)
    assert say(GET) == (200, [])


def test_the_end_breaks_connections_and_frees_the_address(log: pylog.Log) -> None:
    registry = SchemaRegistryServer(log)
    with closing(connected(registry)) as there:
        there.sendall(GET)
        assert answer(there) == (200, [])
        registry.close()
        assert is_ended(there)
    registry.close()
    with SchemaRegistryServer(log, str(registry.address)) as again:
        assert again.url == registry.url


@pytest.mark.parametrize(
    ("listen", "fault"),
    [
        ("unix:/x", "a registry listens at HOST:PORT"),
        ("0.0.0.0:0", "other hosts reach 0.0.0.0:0"),
        ("x", "not HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_is_refused(log: pylog.Log, listen: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        SchemaRegistryServer(log, listen)


def test_other_hosts_reach_it_where_that_is_said(log: pylog.Log) -> None:
    with (
        SchemaRegistryServer(log, "0.0.0.0:0", allow_plaintext=True) as registry,
        closing(socket.create_connection(("127.0.0.1", registry.address.port), 30)) as there,
    ):
        there.sendall(b"GET /subjects HTTP/1.1\r\nHost: registry:8081\r\n\r\n")
        assert answer(there) == (200, [])


def test_without_threads_there_is_no_server_and_no_connection(
    log: pylog.Log, registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(work: object, name: str) -> None:
        raise ThreadsExhausted(name)

    with monkeypatch.context() as without:
        without.setattr(server, "started", refuse)
        with pytest.raises(ThreadsExhausted):
            SchemaRegistryServer(log)
        with closing(connected(registry)) as there:
            assert is_ended(there)
    with closing(connected(registry)) as there:
        there.sendall(GET)
        assert answer(there) == (200, [])


def test_a_connection_that_comes_at_the_end_is_ended() -> None:
    connections, (here, there) = server._Connections(), socket.socketpair()
    connections.stop()
    with closing(there):
        connections.begin(here, lambda: pytest.fail("no work is begun"))
        assert is_ended(there)


def test_a_connection_that_cannot_be_accepted_now_is_accepted_later(
    registry: SchemaRegistryServer, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, refused = registry._accepted, []

    def refuse_once() -> socket.socket | None:
        if refused:
            return accepted()
        refused.append(True)
        return None

    monkeypatch.setattr(registry, "_accepted", refuse_once)
    assert say(GET) == (200, []) and refused


def test_where_no_client_waits_no_connection_is_accepted(registry: SchemaRegistryServer) -> None:
    assert registry._accepted() is None


def test_a_server_that_is_made_as_the_interpreter_ends_is_closed(
    log: pylog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "started", lambda work, name: None)
    SchemaRegistryServer(log).close()
