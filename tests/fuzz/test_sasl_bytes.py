"""Any token of the other side ends in a proof or in SaslAuthentication, on both sides of SASL."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import SaslAuthentication
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.decoys import Decoys
from pylog.protocol.sasl.exchange import MECHANISMS, sasl_client, sasl_server
from pylog.protocol.sasl.hashing import credential_of_password

CREDENTIALS = {mechanism: credential_of_password(mechanism, "secret", salt=b"s" * 16) for mechanism in ScramMechanism}


class Users:
    """alice, whose password is "secret"."""

    def password(self, user: str) -> str | None:
        return "secret" if user == "alice" else None

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        decoy = Decoys(b"secret").credential(mechanism, user)
        return CREDENTIALS[mechanism] if user == "alice" else decoy


texts = st.text(st.sampled_from("nraeicspvm=,+/\0\x7fünullalice0123456789"), max_size=60).map(str.encode)
tokens = st.one_of(st.binary(max_size=80), texts)


def damaged(token: bytes, at: int, byte: int) -> bytes:
    """The token with another byte at one place, or cut there."""
    at %= len(token) + 1
    return token[:at] if byte > 255 else token[:at] + bytes([byte]) + token[at + 1 :]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(given=st.lists(tokens, max_size=4))
def test_a_server_lets_nobody_in_by_strange_tokens(mechanism: str, given: list[bytes]) -> None:
    server = sasl_server(mechanism, Users())
    with contextlib.suppress(SaslAuthentication):
        for token in given:
            server.step(token)
    assert server.user is None or b"\0alice\0secret" in given


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(which=st.integers(0, 1), at=st.integers(0, 300), byte=st.integers(0, 300))
def test_a_damaged_token_lets_nobody_in_under_another_name(mechanism: str, which: int, at: int, byte: int) -> None:
    client, server = sasl_client(mechanism, "alice", "secret"), sasl_server(mechanism, Users())
    with contextlib.suppress(SaslAuthentication):
        token, number = client.step(), 0
        while token is not None:
            sent = damaged(token, at, byte) if number == which else token
            token, number = client.step(server.step(sent)), number + 1
    assert server.user in (None, "alice")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(given=st.lists(tokens, min_size=1, max_size=3))
def test_a_client_believes_no_server_that_says_strange_things(mechanism: str, given: list[bytes]) -> None:
    client = sasl_client(mechanism, "alice", "secret")
    client.step()
    with contextlib.suppress(SaslAuthentication):
        for token in given:
            client.step(token)
    assert not client.is_complete or (mechanism == "PLAIN" and given[0] == b"")


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
@given(which=st.integers(0, 1), at=st.integers(0, 300), byte=st.integers(0, 300))
def test_a_client_takes_an_answer_that_was_changed_for_no_proof(mechanism: str, which: int, at: int, byte: int) -> None:
    client, server = sasl_client(mechanism, "alice", "secret"), sasl_server(mechanism, Users())
    was_changed = False
    with contextlib.suppress(SaslAuthentication):
        token, number = client.step(), 0
        while token is not None:
            answer = server.step(token)
            sent = damaged(answer, at, byte) if number == which else answer
            was_changed |= sent != answer
            token, number = client.step(sent), number + 1
    assert client.is_complete is not was_changed
