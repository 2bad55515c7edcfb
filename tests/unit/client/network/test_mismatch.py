"""A client that speaks otherwise than the listener: its error names the likely reason."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pylog
import pylog.aio
from pylog.client.network.address import Address
from pylog.client.network.call import Call
from pylog.client.network.network import Network
from pylog.config.connection import ConnectionConfig
from pylog.errors import NetworkError, RequestTimedOut
from pylog.protocol.messages import Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.runtime.clock import SystemClock
from support.certificates import Authority, authority
from support.command_line import Run, failed, run
from support.patience import HANG_SECONDS

__all__ = ["authority", "run"]

LOGIN = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": "secret"}
LOGIN_WANTED = (
    "the node has closed the connection: its listener may want a login (give "
    "security.protocol=SASL_PLAINTEXT or SASL_SSL, sasl.mechanism, sasl.username and sasl.password)"
)
NO_LOGIN = "the listener takes no login: give security.protocol=PLAINTEXT, or SSL where it speaks TLS"
NO_TLS = "its listener may be without TLS (give security.protocol=PLAINTEXT or SASL_PLAINTEXT)"
TLS_WANTED = "its listener may speak TLS (give security.protocol=SSL, or SASL_SSL with a login)"
SAME = ""
EXPECTED = {
    ("PLAINTEXT", "SSL"): NO_TLS,
    ("PLAINTEXT", "SASL_PLAINTEXT"): NO_LOGIN,
    ("PLAINTEXT", "SASL_SSL"): NO_TLS,
    ("SSL", "PLAINTEXT"): TLS_WANTED,
    ("SSL", "SASL_PLAINTEXT"): TLS_WANTED,
    ("SSL", "SASL_SSL"): NO_LOGIN,
    ("SASL_PLAINTEXT", "PLAINTEXT"): LOGIN_WANTED,
    ("SASL_PLAINTEXT", "SSL"): NO_TLS,
    ("SASL_PLAINTEXT", "SASL_SSL"): NO_TLS,
    ("SASL_SSL", "PLAINTEXT"): TLS_WANTED,
    ("SASL_SSL", "SSL"): LOGIN_WANTED,
    ("SASL_SSL", "SASL_PLAINTEXT"): TLS_WANTED,
}
"""What a client of the second kind is told by a listener of the first."""

Listeners = Callable[[str], str]


@pytest.fixture
def listeners(authority: Authority) -> Iterator[Listeners]:
    """The address of a listener by its protocol."""
    certificate, key = authority.signed("listener", "/CN=listener")
    with pylog.open(":memory:") as log:

        def listen(protocol: str) -> str:
            tls = {"ssl_certificate_location": certificate, "ssl_key_location": key} if "SSL" in protocol else {}
            return log.serve(f"{protocol}://127.0.0.1:0", **tls).bootstrap_servers

        yield listen


def configs(protocol: str, authority: Authority) -> dict[str, Any]:
    tls = {"ssl_ca_location": authority.cafile} if protocol.endswith("SSL") else {}
    return {"security_protocol": protocol, **tls, **(LOGIN if protocol.startswith("SASL") else {})}


@pytest.mark.parametrize(("listener", "client"), EXPECTED)
def test_a_connection_of_another_kind_names_the_likely_reason(
    listeners: Listeners, authority: Authority, listener: str, client: str
) -> None:
    """A listener with SASL was asked again until the time was up, and no error said why."""
    with pytest.raises(NetworkError) as caught:
        pylog.connect(listeners(listener), **configs(client, authority))
    assert "no node of the cluster can be reached: 127.0.0.1:" in str(caught.value)
    assert EXPECTED[listener, client] in str(caught.value)


def test_an_event_loop_and_the_command_are_told_the_same(run: Run, listeners: Listeners) -> None:
    where = listeners("SASL_PLAINTEXT")

    async def connect() -> None:
        async with pylog.aio.connect(where):
            pass

    with pytest.raises(NetworkError) as caught:
        asyncio.run(connect())
    assert LOGIN_WANTED in str(caught.value)
    failed(run("topic", "list", "--bootstrap", where), LOGIN_WANTED)


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], Address]]:
    """A node that answers the first bytes of each connection with some bytes, and closes it."""
    ends: list[Callable[[], None]] = []

    def begin(answer: bytes) -> Address:
        listener = socket.create_server(("127.0.0.1", 0))

        def answer_all() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=answer_all)
        thread.start()
        ends.extend([lambda: listener.shutdown(socket.SHUT_RDWR), listener.close, thread.join])
        return Address(*listener.getsockname())

    yield begin
    for end in ends:
        end()


def test_an_alert_of_tls_is_known(answering: Callable[[bytes], Address]) -> None:
    """OpenSSL's and Java's servers answer what is no TLS with an alert: it was a response of 352,518,912 bytes."""
    with pytest.raises(NetworkError, match=r"speaks TLS: give security\.protocol=SSL, or SASL_SSL with a login"):
        pylog.connect(str(answering(b"\x15\x03\x03\x00\x02\x02\x46")))


def test_a_call_that_waits_too_long_tells_the_last_error_of_its_node(answering: Callable[[bytes], Address]) -> None:
    address, clock = answering(b""), SystemClock()
    network = Network([address], ConnectionConfig(reconnect_backoff_ms=10**6), clock, None)

    def asked(ms: int) -> Call:
        call = Call(7, MetadataRequest.of([]), None, Session("me"), network.future(), clock.tick_ms() + ms)
        network.send(call)
        return call

    try:
        network.routes.nodes = {7: address}
        with pytest.raises(NetworkError, match="its listener may speak TLS"):
            asked(1000 * HANG_SECONDS).future.result(HANG_SECONDS)
        with pytest.raises(RequestTimedOut, match=r"not reached in time .* Metadata: .* its listener may speak TLS"):
            asked(20).future.result(HANG_SECONDS)
    finally:
        network.close()
