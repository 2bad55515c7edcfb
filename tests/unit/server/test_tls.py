"""A listener with TLS: handshakes, large answers, certificates of clients, and certificates that change."""

import contextlib
import logging
import random
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.protocol.batch import encode
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future
from pylog.server.connection import Connection
from pylog.server.loop import HANDSHAKE_MS
from pylog.server.principals import principal_of
from pylog.server.security import Security
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from pylog.server.tls import RECORDS_AT_ONCE, Certificates, TlsSocket
from pylog.testing import StandIn
from support.certificates import Authority, authority
from support.key_updates import KeyUpdater
from support.sasl_client import authenticate
from support.wire_client import WireClient, request_frame

__all__ = ["authority"]

LISTEN = "SSL://127.0.0.1:0"
METADATA = {"topics": None}
NOW = 1_700_000_000_000


def context(authority: Authority, *certificate: str, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=authority.cafile)
    if certificate:
        made.load_cert_chain(*certificate)
    for name, version in versions.items():
        setattr(made, name, version)
    return made


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    with pylog.serve(listen=LISTEN, **authority.server) as made:
        yield made


def produce(topic: str, *values: bytes) -> dict[str, Any]:
    records = bytes(encode([(value, None, NOW, ()) for value in values], now_ms=NOW).data)
    parts = [{"index": 0, "records": records}]
    return {
        "transactionalId": None, "acks": -1, "timeoutMs": 1000,
        "topicData": [{"name": topic, "partitionData": parts}],
    }  # fmt: skip


def fetch(topic: str) -> dict[str, Any]:
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 64 << 20}
    return {"maxWaitMs": 0, "minBytes": 1, "topics": [{"topic": topic, "partitions": [part]}]}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_answered_in_order(server: Server, authority: Authority, version: ssl.TLSVersion) -> None:
    tls = context(authority, minimum_version=version, maximum_version=version)
    with WireClient(server.bootstrap_servers, tls=tls) as client:
        data = b"".join(request_frame("Metadata", 12, METADATA, correlation_id=number) for number in range(50))
        client.socket.sendall(data)

        assert [client.receive("Metadata", 12)[0] for _ in range(50)] == list(range(50))


def test_a_request_that_comes_byte_by_byte_is_answered(server: Server, authority: Authority) -> None:
    with WireClient(server.bootstrap_servers, tls=context(authority)) as client:
        for byte in request_frame("Metadata", 12, METADATA):
            client.socket.sendall(bytes([byte]))

        assert client.receive("Metadata", 12)[1]["brokers"]


def test_large_batches_go_in_and_come_out_of_files(authority: Authority, tmp_path: Path) -> None:
    values = [bytes([number]) * 900_000 for number in range(9)]
    with (
        pylog.serve(tmp_path / "log", LISTEN, flush="none", **authority.server) as server,
        WireClient(server.bootstrap_servers, tls=context(authority)) as client,
    ):
        client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        for value in values:
            client.ask("Produce", 9, produce("t", value))
        answer = client.ask("Fetch", 12, fetch("t"))

    records = bytes(answer["responses"][0]["partitions"][0]["records"])
    assert len(records) > 8_000_000
    assert all(value[:1000] in records for value in values)


def test_a_client_that_reads_slowly_gets_everything(authority: Authority, tmp_path: Path) -> None:
    with (
        pylog.serve(tmp_path / "log", LISTEN, flush="none", **authority.server) as server,
        WireClient(server.bootstrap_servers, tls=context(authority)) as client,
    ):
        client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        client.ask("Produce", 9, produce("t", *[bytes(100_000)] * 8))
        for _ in range(20):
            client.send("Fetch", 12, fetch("t"))
        answers = [client.receive("Fetch", 12)[1] for _ in range(20)]

    sizes = {len(answer["responses"][0]["partitions"][0]["records"]) for answer in answers}
    assert len(sizes) == 1 and min(sizes) > 800_000


def test_many_clients_at_once_do_not_disturb_each_other(server: Server, authority: Authority) -> None:
    tls = context(authority)
    clients = [WireClient(server.bootstrap_servers, tls=tls) for _ in range(20)]
    for client in clients:
        client.send("Metadata", 12, METADATA)
    for client in clients:
        assert client.receive("Metadata", 12)[1]["brokers"]
        client.socket.close()


def test_bytes_that_are_no_tls_end_their_connection_and_no_other(server: Server, authority: Authority) -> None:
    with WireClient(server.bootstrap_servers, tls=context(authority)) as good:
        with WireClient(server.bootstrap_servers) as plain:
            plain.send("Metadata", 12, METADATA)
            while plain.socket.recv(100):
                pass  # an alert
        with WireClient(server.bootstrap_servers) as gone:
            gone.socket.sendall(b"\x16\x03\x01")

        assert good.ask("Metadata", 12, METADATA)["brokers"]


def test_damaged_bytes_in_a_session_end_it_and_no_other(server: Server, authority: Authority) -> None:
    chance = random.Random(7)
    with WireClient(server.bootstrap_servers, tls=context(authority)) as good:
        for _ in range(20):
            with WireClient(server.bootstrap_servers, tls=context(authority)) as bad:
                bad.ask("Metadata", 12, METADATA)
                assert isinstance(bad.socket, ssl.SSLSocket)
                with socket.socket(fileno=bad.socket.detach()) as raw:
                    raw.settimeout(240)
                    raw.sendall(b"\x17\x03\x03\x00\x40" + chance.randbytes(64))
                    with contextlib.suppress(ConnectionError):
                        while raw.recv(1000):
                            pass
        assert good.ask("Metadata", 12, METADATA)["brokers"]


def test_an_old_version_of_tls_is_refused(server: Server, authority: Authority) -> None:
    with pytest.warns(DeprecationWarning):
        tls = context(authority, minimum_version=ssl.TLSVersion.TLSv1_1, maximum_version=ssl.TLSVersion.TLSv1_1)
    with pytest.raises((ssl.SSLError, OSError)):
        WireClient(server.bootstrap_servers, tls=tls)


def test_a_handshake_that_takes_too_long_is_ended(authority: Authority) -> None:
    with StandIn() as kafka:
        broker = kafka.log.broker
        node = ServedNode(broker.handle, broker.node_id, broker.configs, kafka.clock)
        with (
            Server(node, LISTEN, security=authority.server) as server,  # type: ignore[arg-type]
            WireClient(server.bootstrap_servers) as silent,
            WireClient(server.bootstrap_servers) as half,
            WireClient(server.bootstrap_servers, tls=context(authority)) as good,
        ):
            half.socket.sendall(b"\x16\x03\x01\x02\x00")
            good.ask("Metadata", 12, METADATA)
            kafka.advance(HANDSHAKE_MS)

            assert silent.is_closed()
            assert half.is_closed()
            assert good.ask("Metadata", 12, METADATA)["brokers"]


def test_a_client_that_says_the_end_hears_it_from_the_server(server: Server, authority: Authority) -> None:
    with WireClient(server.bootstrap_servers, tls=context(authority)) as client:
        client.ask("Metadata", 12, METADATA)
        assert isinstance(client.socket, ssl.SSLSocket)
        with client.socket.unwrap() as plain:
            assert plain.recv(1) == b""


def test_a_forked_child_lets_go_of_a_connection_without_a_word(authority: Authority) -> None:
    certificates = Certificates(Security.of(authority.server))  # type: ignore[arg-type]
    node = ServedNode(lambda message, session: Future(), 1, DynamicBrokerConfig(NodeConfig()), SystemClock())
    ours, theirs = socket.socketpair()
    with theirs:
        Connection(ours, "h", node, 0, None, certificates.wrap(ours)).abandon()
        assert theirs.recv(1) == b""


def test_what_the_socket_did_not_take_is_sent_later(authority: Authority) -> None:
    certificates = Certificates(Security.of(authority.server))  # type: ignore[arg-type]
    node = ServedNode(lambda message, session: Future(), 1, DynamicBrokerConfig(NodeConfig()), SystemClock())
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    made = Connection(ours, "h", node, 0, None, certificates.wrap(ours))
    assert made.tls is not None
    theirs.settimeout(240)
    tls, received, may_read = context(authority), [], threading.Event()

    def read() -> None:
        with tls.wrap_socket(theirs, server_hostname="localhost") as client:
            may_read.wait(240)
            while sum(received) < 50_000:
                received.append(len(client.recv(50_000)))

    reading = threading.Thread(target=read)
    reading.start()
    while not made.tls.is_secure:
        with contextlib.suppress(BlockingIOError):
            made.tls.recv_into(bytearray(1))
    made.outgoing.push([bytes(50_000)], 50_000)
    made.send()
    assert (made.outgoing.size, made.has_output, made.is_idle) == (0, True, False)
    may_read.set()
    while made.has_output:
        with contextlib.suppress(BlockingIOError):
            made.send()
    reading.join()
    assert sum(received) == 50_000
    made.close()


def test_a_handshake_in_many_records_takes_its_turns(authority: Authority) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    server = Certificates(Security.of(authority.server)).wrap(ours)  # type: ignore[arg-type]
    hello = b"\1\0\1\0" + bytes(96)
    theirs.sendall(b"".join(b"\x16\x03\x01\0\1" + bytes([byte]) for byte in hello))
    assert received(server) == b"" and server.pending
    assert received(server) == b"" and not server.pending and not server.is_secure
    theirs.close()
    server.close()


@pytest.fixture
def session(authority: Authority) -> Iterator[tuple[TlsSocket, socket.socket, KeyUpdater]]:
    """The server's side of a session, the client's end of its sockets, and the client."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(240)
    server = Certificates(Security.of(authority.server)).wrap(ours)  # type: ignore[arg-type]
    client = KeyUpdater(theirs, partial(received, server))
    assert received(server) == b""
    assert server.is_secure
    yield server, theirs, client
    client.close()
    server.close()


def received(server: TlsSocket) -> bytes:
    """The plain bytes that one call receives."""
    room = bytearray(1000)
    try:
        return bytes(room[: server.recv_into(room)])
    except BlockingIOError:
        return b""


def test_records_without_content_take_a_little_time_in_each_turn(session: Any) -> None:
    server, theirs, client = session
    theirs.sendall(client.updates(RECORDS_AT_ONCE * 3 + 1) + client.written(b"request"))

    turns = []
    while not turns or server.pending:
        turns.append(received(server))

    assert turns == [b"", b"", b"", b"request"]


def test_records_come_whole_however_they_are_cut(session: Any) -> None:
    server, theirs, client = session
    chance = random.Random(3)
    parts = [client.updates(3) if n % 3 else client.written(b"%d," % n * 400) for n in range(100)]
    expected = b"".join(b"%d," % n * 400 for n in range(0, 100, 3))
    data, got = b"".join(parts), b""
    while data or server.pending:
        step = chance.choice([1, 2, 4, 5, 6, 22, 27, 1000])
        theirs.sendall(data[:step])
        data = data[step:]
        got += received(server)
    assert got + received(server) == expected


def test_a_client_whose_records_have_no_content_is_refused(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.server.tls.EMPTY_RECORDS_MAX", 100)
    server, theirs, client = session
    for _ in range(20):
        theirs.sendall(client.updates(10) + client.written(b"five."))
        assert received(server) == b"five."
    theirs.sendall(client.updates(101))
    with pytest.raises(ConnectionAbortedError, match="records of TLS without content"):
        while True:
            assert received(server) == b""


def test_a_client_that_sends_records_without_content_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pylog.server")
    monkeypatch.setattr("pylog.server.tls.EMPTY_RECORDS_MAX", 100)
    host, port = server.bootstrap_servers.rsplit(":", 1)
    end = socket.create_connection((host, int(port)), 240)
    client = KeyUpdater(end, lambda: None)
    end.sendall(client.updates(200))
    with contextlib.suppress(ConnectionError):
        while end.recv(1000):
            pass
    client.close()
    assert "records of TLS without content" in caplog.text


def test_nothing_is_received_from_a_client_that_takes_no_records_of_tls(session: Any) -> None:
    node = ServedNode(lambda message, session: Future(), 1, DynamicBrokerConfig(NodeConfig()), SystemClock())
    server = session[0]
    connection = Connection(server._socket, "h", node, 0, None, server)
    assert connection.is_reading
    server.unsent = bytes(1 << 20)
    assert not connection.is_reading
    server.unsent = b""


def test_a_client_hears_that_the_server_has_ended(authority: Authority) -> None:
    server = pylog.serve(listen=LISTEN, **authority.server)
    with WireClient(server.bootstrap_servers, tls=context(authority)) as client:
        client.ask("Metadata", 12, METADATA)
        server.close()

        assert client.is_closed()


# --- clients with certificates ----------------------------------------------------------------------------------------


def principals(authority: Authority, client_auth: str, *certificate: str) -> list[str]:
    """The principals of the requests of a client with this certificate."""
    seen: list[str] = []
    with pylog.open(":memory:") as log:
        broker = log.broker
        node = ServedNode(broker.handle, broker.node_id, broker.configs, SystemClock())
        security = {**authority.server, "ssl_ca_location": authority.cafile, "ssl_client_auth": client_auth}
        served = Server(
            node, LISTEN, security=security,  # type: ignore[arg-type]
            intercept=lambda call: seen.append(call.request.session.principal),  # type: ignore[union-attr,func-returns-value]
        )  # fmt: skip
        tls = context(authority, *certificate)
        with served as server, WireClient(server.bootstrap_servers, tls=tls) as client:
            client.ask("Metadata", 12, METADATA)
    return seen


def test_a_client_is_known_by_the_name_in_its_certificate(authority: Authority) -> None:
    certificate = authority.signed("alice", "/C=DE/O=Example, Inc/OU=a/CN=alice")

    assert principals(authority, "required", *certificate) == ["User:CN=alice,OU=a,O=Example\\, Inc,C=DE"]
    assert principals(authority, "requested", *certificate)[0].startswith("User:CN=alice")
    assert principals(authority, "none", *certificate) == ["User:ANONYMOUS"]
    assert principals(authority, "requested") == ["User:ANONYMOUS"]


def test_a_principal_is_written_as_rfc_2253_says() -> None:
    parts = (
        (("countryName", "DE"),),
        (("organizationName", 'a,b+"c"<d>;\\'), ("userId", "#1 ")),
        (("emailAddress", "x"),),
    )

    assert principal_of({"subject": parts}) == 'User:emailAddress=x,O=a\\,b\\+\\"c\\"\\<d\\>\\;\\\\+UID=\\#1\\ ,C=DE'
    assert principal_of({}) is principal_of(None) is None


def test_a_client_without_a_certificate_is_refused_where_one_is_required(authority: Authority) -> None:
    with pytest.raises((OSError, EOFError)):
        principals(authority, "required")


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    certificate = stranger.signed("alice", "/CN=alice")
    for client_auth in ("required", "requested"):
        with pytest.raises((OSError, EOFError)):
            principals(authority, client_auth, *certificate)


def test_sasl_goes_over_tls(authority: Authority) -> None:
    with (
        pylog.serve(listen="SASL_SSL://127.0.0.1:0", users={"alice": "secret"}, **authority.server) as server,
        WireClient(server.bootstrap_servers, tls=context(authority)) as client,
    ):
        assert authenticate(client, "PLAIN", "alice", "secret")["errorCode"] == 0
        assert client.ask("Metadata", 12, METADATA)["brokers"]


# --- certificates -----------------------------------------------------------------------------------------------------


def subject(server: Server, authority: Authority) -> Any:
    with WireClient(server.bootstrap_servers, tls=context(authority)) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        return client.socket.getpeercert()["subject"]  # type: ignore[index]


def test_a_certificate_that_is_replaced_is_used_from_then_on(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certfile, keyfile = tmp_path / "cert.pem", tmp_path / "key.pem"
    old, new = authority.signed("old", "/CN=old"), authority.signed("new", "/CN=new")
    shutil.copy(old[0], certfile)
    shutil.copy(old[1], keyfile)
    with (
        pylog.serve(listen=LISTEN, ssl_certificate_location=str(certfile), ssl_key_location=str(keyfile)) as server,
        WireClient(server.bootstrap_servers, tls=context(authority)) as before,
    ):
        assert "old" in str(subject(server, authority))
        certfile.write_text("half of a file")
        assert "old" in str(subject(server, authority))
        assert "the old one stays" in caplog.text
        shutil.copy(new[0], certfile)
        shutil.copy(new[1], keyfile)
        assert "new" in str(subject(server, authority))

        assert before.ask("Metadata", 12, METADATA)["brokers"]


def test_certificate_and_key_may_be_in_one_file(authority: Authority, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text("".join(Path(path).read_text() for path in authority.signed("one", "/CN=one")))
    with pylog.serve(listen=LISTEN, ssl_certificate_location=str(both)) as server:
        assert "one" in str(subject(server, authority))


def test_an_encrypted_key_needs_its_password(authority: Authority, tmp_path: Path) -> None:
    certfile, keyfile = authority.signed("locked", "/CN=locked")
    locked = str(tmp_path / "locked.key")
    authority._openssl("pkey", "-in", keyfile, "-aes256", "-passout", "pass:secret", "-out", locked)
    with pylog.serve(
        listen=LISTEN, ssl_certificate_location=certfile, ssl_key_location=locked, ssl_key_password="secret"
    ) as server:
        assert "locked" in str(subject(server, authority))
    with pytest.raises(ValueError, match="not a certificate with its key"):
        pylog.serve(listen=LISTEN, ssl_certificate_location=certfile, ssl_key_location=locked)


def test_options_that_do_not_fit_are_refused(authority: Authority, tmp_path: Path) -> None:
    for listen in ("SSL://127.0.0.1:0", "SASL_SSL://127.0.0.1:0"):
        with pytest.raises(ValueError, match="needs a certificate"):
            pylog.serve(listen=listen)
    with pytest.raises(OSError, match=r"absent\.pem"):
        pylog.serve(listen=LISTEN, ssl_certificate_location=str(tmp_path / "absent.pem"))
    with pytest.raises(ValueError, match="not a certificate with its key"):
        pylog.serve(listen=LISTEN, ssl_certificate_location=authority.cafile)
    with pytest.raises(ValueError, match="needs ssl_ca_location"):
        pylog.serve(listen=LISTEN, **authority.server, ssl_client_auth="required")
    with pytest.raises(ValueError, match="'always', not one of none, requested, required"):
        pylog.serve(listen=LISTEN, **authority.server, ssl_ca_location=authority.cafile, ssl_client_auth="always")
