"""PLAIN, and the choice of a mechanism."""

import pytest

from pylog.errors import SaslAuthentication, UnsupportedSaslMechanism
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.decoys import Decoys
from pylog.protocol.sasl.exchange import MECHANISMS, sasl_client, sasl_server
from pylog.protocol.sasl.hashing import credential_of_password
from pylog.protocol.sasl.plain import PlainServer


class Users:
    """One user, whose password is known."""

    def password(self, user: str) -> str | None:
        return {"alice": "pässword"}.get(user)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        password = self.password(user)
        decoy = Decoys(b"secret").credential(mechanism, user)
        return decoy if password is None else credential_of_password(mechanism, password)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_two_sides_agree(mechanism: str) -> None:
    client, server = sasl_client(mechanism, "alice", "pässword"), sasl_server(mechanism, Users())
    token = client.step()
    while token is not None:
        assert not client.is_complete
        token = client.step(server.step(token))
    assert client.is_complete
    assert server.is_complete
    assert server.user == "alice"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "password"), ("bob", "pässword")])
def test_a_wrong_user_or_password_is_refused(mechanism: str, user: str, password: str) -> None:
    client, server = sasl_client(mechanism, user, password), sasl_server(mechanism, Users())
    token = client.step()
    with pytest.raises(SaslAuthentication, match="Authentication failed"):
        while token is not None:
            token = client.step(server.step(token))
    assert not server.is_complete
    assert server.user is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "NUL user NUL password"),
        (b"alice", "NUL user NUL password"),
        (b"alice\0password", "NUL user NUL password"),
        (b"\0alice\0p\0p", "NUL user NUL password"),
        (b"\0\xff\0password", "NUL user NUL password"),
        (b"\0\0password", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        ("bob\0alice\0pässword".encode(), "authorization id"),
    ],
)
def test_a_message_that_is_wrong_is_refused_as_by_kafka(message: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthentication, match=reason):
        PlainServer(Users().password).step(message)


def test_the_authorization_id_may_be_the_user() -> None:
    server = PlainServer(Users().password)
    assert server.step("alice\0alice\0pässword".encode()) == b""
    assert server.user == "alice"
    with pytest.raises(SaslAuthentication, match="one message"):
        server.step(b"")


def test_a_challenge_of_the_server_is_refused() -> None:
    client = sasl_client("PLAIN", "alice", "secret")
    assert client.step() == b"\0alice\0secret"
    with pytest.raises(SaslAuthentication, match="challenge"):
        client.step(b"and?")


def test_a_name_with_a_nul_is_no_user() -> None:
    with pytest.raises(ValueError, match="NUL"):
        sasl_client("PLAIN", "al\0ice", "secret")


def test_a_mechanism_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedSaslMechanism, match="'GSSAPI' is not known: there is PLAIN, SCRAM-SHA-256"):
        sasl_client("GSSAPI", "alice", "secret")
    with pytest.raises(UnsupportedSaslMechanism):
        sasl_server("", Users())
