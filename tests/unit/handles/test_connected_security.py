"""`pylog.connect` by TLS, by SASL and by Unix sockets."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.errors import SaslAuthentication, SslAuthentication, UnsupportedSaslMechanism
from pylog.server.server import Server
from support.certificates import Authority, authority
from support.patience import HANG_SECONDS

__all__ = ["authority"]

USERS = {"alice": "secret"}
ALICE = {"sasl_username": "alice", "sasl_password": "secret"}


def round_trip(log: pylog.ConnectedLog, size: int = 10) -> None:
    """Send some records, read them in a group, and commit."""
    log.create_topic("t", config={"max.message.bytes": 64 << 20})
    sent = [os.urandom(size) for _ in range(20)]
    with log.producer(max_request_size=64 << 20, buffer_memory=256 << 20) as producer:
        for future in producer.send_many("t", sent):
            future.result(HANG_SECONDS)
    got: list[bytes | None] = []
    with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        while len(got) < len(sent):
            got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
        consumer.commit()
    assert got == sent


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_records_go_and_come_by_tls(authority: Authority, size: int) -> None:
    with (
        pylog.serve(listen="SSL://127.0.0.1:0", **authority.server) as server,
        pylog.connect(server.bootstrap_servers, security_protocol="SSL", ssl_ca_location=authority.cafile) as log,
    ):
        round_trip(log, size)


def test_a_certificate_of_the_client_is_shown(authority: Authority) -> None:
    certificate, key = authority.signed("client", "/CN=client")
    options: dict[str, Any] = {"ssl_ca_location": authority.cafile, "ssl_client_auth": "required", **authority.server}
    with pylog.serve(listen="SSL://127.0.0.1:0", **options) as server:
        trusting = {"security_protocol": "SSL", "ssl_ca_location": authority.cafile}
        shown = {"ssl_certificate_location": certificate, "ssl_key_location": key}
        with pylog.connect(server.bootstrap_servers, **trusting, **shown) as log:
            assert log.topics() == []
        with pytest.raises(pylog.PylogError):
            pylog.connect(server.bootstrap_servers, **trusting)


def test_an_authority_that_is_not_known_is_refused(authority: Authority) -> None:
    with pylog.serve(listen="SSL://127.0.0.1:0", **authority.server) as server:
        with pytest.raises(SslAuthentication, match="certificate verify failed"):
            pylog.connect(server.bootstrap_servers, security_protocol="SSL")
        careless = {"security_protocol": "SSL", "enable_ssl_certificate_verification": False}
        with pylog.connect(server.bootstrap_servers, **careless) as log:
            assert log.topics() == []


def test_a_certificate_for_another_host_is_refused(authority: Authority) -> None:
    certificate, key = authority.signed("elsewhere", "/CN=elsewhere.example", "subjectAltName=DNS:elsewhere.example\n")
    with pylog.serve(listen="SSL://127.0.0.1:0", ssl_certificate_location=certificate, ssl_key_location=key) as server:
        trusting = {"security_protocol": "SSL", "ssl_ca_location": authority.cafile}
        with pytest.raises(SslAuthentication, match="127"):
            pylog.connect(server.bootstrap_servers, **trusting)
        with pylog.connect(server.bootstrap_servers, **trusting, ssl_endpoint_identification_algorithm="none") as log:
            assert log.topics() == []


def test_a_plain_client_and_a_tls_client_at_the_wrong_listeners_are_told_so(authority: Authority) -> None:
    with (
        pylog.serve(listen="SSL://127.0.0.1:0", **authority.server) as secured,
        pylog.serve() as plain,
    ):
        with pytest.raises(pylog.PylogError):
            pylog.connect(secured.bootstrap_servers, request_timeout_ms=2000)
        with pytest.raises(pylog.PylogError):
            pylog.connect(plain.bootstrap_servers, security_protocol="SSL", request_timeout_ms=2000)


# --- SASL -------------------------------------------------------------------------------------------------------------


def guarded(**config: str) -> Server:
    return pylog.serve(listen="SASL_PLAINTEXT://127.0.0.1:0", users=USERS, config=config)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in(mechanism: str) -> None:
    protocol = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    with guarded() as server, pylog.connect(server.bootstrap_servers, **protocol, **ALICE) as log:
        round_trip(log)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(
    "user", [{"sasl_username": "alice", "sasl_password": "wrong"}, {"sasl_username": "eve", "sasl_password": "secret"}]
)
def test_a_user_with_the_wrong_password_is_refused_at_once(mechanism: str, user: dict[str, str]) -> None:
    protocol = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    with guarded() as server, pytest.raises(SaslAuthentication):
        pylog.connect(server.bootstrap_servers, **protocol, **user)


def test_a_mechanism_that_is_not_enabled_is_refused() -> None:
    protocol = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with (
        guarded(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256"}) as server,
        pytest.raises(UnsupportedSaslMechanism, match="SCRAM-SHA-256"),
    ):
        pylog.connect(server.bootstrap_servers, **protocol, **ALICE)


def test_a_login_is_renewed_before_its_session_ends() -> None:
    protocol = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    with (
        guarded(**{"connections.max.reauth.ms": "1200"}) as server,
        pylog.connect(server.bootstrap_servers, **protocol, **ALICE) as log,
    ):
        log.create_topic("t")
        pause = threading.Event()
        with log.producer(linger_ms=0, retries=0, enable_idempotence=False) as producer:
            for _ in range(15):
                assert producer.send("t", b"x").exception(HANG_SECONDS) is None
                pause.wait(0.1)
        assert server.counts.connections == 2


def test_a_user_of_the_log_logs_in_by_tls(authority: Authority) -> None:
    with pylog.open(":memory:") as here:
        here.admin.set_password("bob", "hidden")
        server = here.serve("SASL_SSL://127.0.0.1:0", **authority.server)
        with pylog.connect(
            server.bootstrap_servers, security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512",
            sasl_username="bob", sasl_password="hidden", ssl_ca_location=authority.cafile,
        ) as log:  # fmt: skip
            round_trip(log)
            assert list(log.admin.users()) == ["bob"]


# --- Unix sockets -----------------------------------------------------------------------------------------------------


def test_a_unix_socket_is_a_whole_cluster(tmp_path: Path) -> None:
    path = f"unix:{tmp_path}/socket"
    with pylog.serve(listen=path), pylog.connect(path) as log:
        round_trip(log)
        assert log.admin.describe_group("g").coordinator == 1


def test_a_unix_socket_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(pylog.PylogError, match=r"unix:.*/socket.*No such file"):
        pylog.connect(f"unix:{tmp_path}/socket")
