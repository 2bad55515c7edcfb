"""SCRAM: the exchange of RFC 7677, a foreign client and server, and messages that are not what they should be."""

import base64
import tracemalloc

import pytest
from aiokafka.conn import ScramAuthenticator

from pylog.errors import SaslAuthentication
from pylog.protocol.sasl.credentials import ScramMechanism
from pylog.protocol.sasl.decoys import Decoys, shapes_of
from pylog.protocol.sasl.hashing import credential_of_password
from pylog.protocol.sasl.scram import ScramClient, ScramServer

SHA_256 = ScramMechanism.SHA_256
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
"""The example of RFC 7677, section 3."""


def server(
    *, mechanism: ScramMechanism = SHA_256, user: str = "user", password: str = "pencil", nonce: str | None = None
) -> ScramServer:
    credential = credential_of_password(mechanism, password, salt=SALT)
    decoy = Decoys(b"secret").credential
    return ScramServer(mechanism, lambda name: credential if name == user else decoy(mechanism, name), nonce)


def started_server() -> ScramServer:
    """One that has had the first message of the RFC's client."""
    made = server(nonce=SERVER_NONCE)
    made.step(CLIENT_FIRST)
    return made


def started_client() -> ScramClient:
    """One that has sent its first message."""
    made = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    made.step()
    return made


def run(client: ScramClient, other: ScramServer) -> None:
    token = client.step()
    while token is not None:
        token = client.step(other.step(token))


def test_the_client_says_what_the_rfc_says() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.step() == CLIENT_FIRST
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert not client.is_complete
    assert client.step(SERVER_FINAL) is None
    assert client.is_complete


def test_the_server_says_what_the_rfc_says() -> None:
    made = server(nonce=SERVER_NONCE)
    assert made.step(CLIENT_FIRST) == SERVER_FIRST
    assert not made.is_complete
    assert made.step(CLIENT_FINAL) == SERVER_FINAL
    assert made.is_complete
    assert made.user == "user"


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "ünï", "a b"])
def test_the_two_sides_agree_on_every_name(mechanism: ScramMechanism, user: str) -> None:
    client, other = (
        ScramClient(mechanism, user, "pässword"),
        server(mechanism=mechanism, user=user, password="pässword"),
    )
    run(client, other)
    assert client.is_complete
    assert other.user == user


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_foreign_client_is_let_in_and_believes_the_server(mechanism: ScramMechanism) -> None:
    other = server(mechanism=mechanism, user="alice", password="secret")
    foreign = ScramAuthenticator(loop=None, sasl_plain_username="alice", sasl_plain_password="secret",
                                 sasl_mechanism=mechanism.sasl_name)  # fmt: skip
    steps = foreign.authenticator_scram()
    token = next(steps)[0]
    with pytest.raises(StopIteration):
        while True:
            token = steps.send(other.step(token))[0]
    assert other.user == "alice"


def test_a_wrong_password_is_refused_without_a_reason() -> None:
    with pytest.raises(SaslAuthentication) as wrong:
        run(ScramClient(SHA_256, "user", "pen"), server())
    with pytest.raises(SaslAuthentication) as nobody:
        run(ScramClient(SHA_256, "nobody", "pen"), server())
    assert str(wrong.value) == str(nobody.value)
    assert "SCRAM-SHA-256" in str(wrong.value)


def test_a_user_that_does_not_exist_is_asked_the_same_each_time() -> None:
    first, again, other = (
        server(nonce="x").step(f"n,,n={name},r=abc".encode()) for name in ("nobody", "nobody", "noone")
    )
    assert first == again != other
    assert first.startswith(b"r=abcx,s=")
    assert first.endswith(b",i=4096")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_that_does_not_exist_looks_as_others_do(mechanism: ScramMechanism) -> None:
    made = credential_of_password(mechanism, "pencil", salt=b"1kd3f6nqa1l0u4m9j2g7c8xy5z", iterations=8192)
    decoys, shapes = Decoys(b"secret"), shapes_of([made] * 9 + [credential_of_password(mechanism, "pencil")])
    found = {name: decoys.credential(mechanism, name, shapes) for name in map(str, range(300))}
    assert found == {name: Decoys(b"secret").credential(mechanism, name, shapes) for name in found}
    assert len({one.salt for one in found.values()}) == 300
    kinds = [(one.iterations, len(one.salt), one.salt.isalnum()) for one in found.values()]
    assert set(kinds) == {(8192, 26, True), (4096, 16, False)} and 10 < kinds.count((4096, 16, False)) < 60
    assert {(len(one.stored_key), len(one.server_key)) for one in found.values()} == {(len(made.stored_key),) * 2}
    other = Decoys(b"another").credential(mechanism, "1", shapes)
    assert other.salt != found["1"].salt and other.stored_key != found["1"].stored_key
    # A further user changes few of them.
    more = shapes_of([made] * 10 + [credential_of_password(mechanism, "pencil")])
    assert sum(decoys.credential(mechanism, name, more) != one for name, one in found.items()) < 20


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n,,", b"n,,n=user", b"n,,n=,r=abc", b"n,,n=user,r=", b"n,,n=us=er,r=abc", b"p=tls-unique,,n=user,r=abc",
        b"y,,n=user,r=abc", b"n,a=other,n=user,r=abc", b"n,,m=new,n=user,r=abc", b"n,,n=user,r=a\x00c",
        b"\xff\xfe", CLIENT_FINAL,
    ],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthentication):
        server().step(message)


def test_the_authorization_id_may_be_the_user() -> None:
    made = server(nonce="x")
    made.step(b"n,a=user,n=user,r=abc")
    with pytest.raises(SaslAuthentication):
        made.step(CLIENT_FINAL)


@pytest.mark.parametrize(
    "message",
    [
        b"", CLIENT_FINAL[:-1], CLIENT_FINAL[:-48], CLIENT_FINAL.replace(b"biws", b"eSws"),
        CLIENT_FINAL.replace(b"NGfw", b"NGfx"), CLIENT_FINAL.replace(b"p=dHzb", b"p=dHzc"), CLIENT_FIRST,
        CLIENT_FINAL.replace(b",p=", b",x=y,p="), CLIENT_FINAL.replace(b"p=d", b"p=*"),
        CLIENT_FINAL[: CLIENT_FINAL.index(b"p=")] + b"p=" + base64.b64encode(bytes(31)),
    ],
)  # fmt: skip
def test_a_final_message_that_was_changed_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthentication):
        started_server().step(message)


def test_nothing_follows_a_complete_exchange() -> None:
    made = started_server()
    made.step(CLIENT_FINAL)
    with pytest.raises(SaslAuthentication):
        made.step(CLIENT_FINAL)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"4096", b"2000000000"), "2000000000 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=-1"), "no SCRAM"),
        (SERVER_FIRST.replace(b"s=W22", b"s=W2"), "base64"),
        (b"e=unknown-user", "'unknown-user'"),
        (b"\xff", "utf-8"),
        (b"", "no SCRAM"),
    ],
)
def test_a_client_refuses_a_first_answer_that_is_wrong(message: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthentication, match=reason):
        started_client().step(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"e=other-error", "'other-error'"),
        (b"v=" + base64.b64encode(bytes(32)), "does not know the password"),
        (SERVER_FINAL.replace(b"G4=", b"G5="), "not base64"),
        (b"v=", "no SCRAM"),
        (b"", "no SCRAM"),
    ],
)
def test_a_client_does_not_believe_a_server_without_the_password(message: bytes, reason: str) -> None:
    client = started_client()
    client.step(SERVER_FIRST)
    with pytest.raises(SaslAuthentication, match=reason):
        client.step(message)
    assert not client.is_complete


def test_a_credential_does_not_show_its_secrets() -> None:
    credential = credential_of_password(SHA_256, "pencil", salt=SALT)
    assert repr(credential) == "ScramCredential(mechanism=<ScramMechanism.SHA_256: 1>, iterations=4096)"


def test_each_credential_has_a_salt_of_its_own() -> None:
    one, other = (credential_of_password(SHA_256, "pencil") for _ in range(2))
    assert one.salt != other.salt
    assert len(one.salt) == 16


@pytest.mark.parametrize("user", ["", "a\0b"])
def test_a_client_has_a_name_that_a_user_can_have(user: str) -> None:
    with pytest.raises(ValueError, match="not the name of a user"):
        ScramClient(SHA_256, user, "pencil")


@pytest.mark.parametrize(
    ("name", "extensions"),
    [(b"a" * 300_000, b""), (b"=2C" * 100_000, b""), (b"a=3D" * 75_000, b""), (b"a", b",a=b" * 75_000)],
    ids=["letters", "commas", "both", "extensions"],
)
def test_a_long_message_takes_little_memory(name: bytes, extensions: bytes) -> None:
    made = server()
    tracemalloc.start()
    try:
        made.step(b"n,,n=" + name + b",r=nonce" + extensions)
        # 60 to 230 times as much as the message, where `re` may come back to each part of it.
        assert tracemalloc.get_traced_memory()[1] < 16 * 300_000
    finally:
        tracemalloc.stop()
