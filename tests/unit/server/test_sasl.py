"""A listener with SASL: what it lets in, what it answers before, and sessions that end."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

import pylog
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.files import MemoryFiles
from pylog.log import Log
from pylog.protocol.sasl.exchange import MECHANISMS, sasl_client
from pylog.runtime.clock import MovableClock
from pylog.server.api.call import Fate
from pylog.server.dispatch import ServedCall
from pylog.server.loop import HANDSHAKE_MS
from pylog.server.security import LogUsers, Security
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from pylog.transport import MemoryTransport
from support.sasl_client import authenticate, handshake, tokens
from support.wire_client import WireClient, request_frame

LISTEN = "SASL_PLAINTEXT://127.0.0.1:0"
USERS = {"alice": "secret", "bob": "hidden"}
METADATA = {"topics": None}
FAILED, BAD_STATE, BAD_MECHANISM = 58, 34, 33


class Guarded:
    """A log behind a SASL listener, with a clock that the test moves, and the principals of the requests."""

    def __init__(self, **config: Any) -> None:
        self.clock = MovableClock()
        self.principals: list[str] = []
        config = {"connection_failed_authentication_delay_ms": 0, **config}
        transport = MemoryTransport()
        broker = Broker(
            MemoryFiles(self.clock), ["log"], config=NodeConfig.from_kafka(config), clock=self.clock,
            transport=transport, node_id=None, flush="none",
        )  # fmt: skip
        self.log = Log(":memory:", broker, broker, transport, self.clock)
        node = ServedNode(broker.handle, broker.node_id, broker.configs, self.clock)
        self.server = Server(
            node, LISTEN, security={"users": USERS}, intercept=self._see,
            users=LogUsers(lambda: broker.image.users, b"secret"),
        )  # fmt: skip

    def _see(self, call: ServedCall) -> Fate | None:
        if call.request is not None and call.api.name == "Metadata":
            self.principals.append(call.request.session.principal)
        return None

    def client(self) -> WireClient:
        return WireClient(self.server.bootstrap_servers)

    def close(self) -> None:
        self.server.close()
        self.log.close()


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    made = Guarded()
    yield made
    made.close()


@pytest.fixture
def renewing() -> Iterator[Guarded]:
    """One whose sessions last for a minute."""
    made = Guarded(connections_max_reauth_ms=60_000)
    yield made
    made.close()


# --- letting in -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_user_with_the_password_is_served(guarded: Guarded, mechanism: str, version: int) -> None:
    with guarded.client() as client:
        assert client.ask("ApiVersions", 0, {})["errorCode"] == 0
        answer = authenticate(client, mechanism, "alice", "secret", version)

        assert answer["errorCode"] == 0
        assert answer.get("sessionLifetimeMs", 0) == 0
        assert client.ask("Metadata", 12, METADATA)["topics"] == []
        assert guarded.principals == ["User:alice"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_of_the_first_handshake_sends_bare_tokens(guarded: Guarded, mechanism: str) -> None:
    with guarded.client() as client:
        assert handshake(client, mechanism, version=0) == {"errorCode": 0, "mechanisms": list(MECHANISMS)}
        sasl = sasl_client(mechanism, "alice", "secret")
        token = sasl.step()
        while token is not None:
            client.socket.sendall(len(token).to_bytes(4, "big") + token)
            token = sasl.step(client.receive_frame())

        assert client.ask("Metadata", 12, METADATA)["topics"] == []
        assert guarded.principals == ["User:alice"]


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_a_user_of_the_log_is_let_in_by_scram_until_it_is_deleted(guarded: Guarded, mechanism: str) -> None:
    guarded.log.admin.set_password("carol", "quiet")
    with guarded.client() as client, guarded.client() as other, guarded.client() as third:
        assert authenticate(client, mechanism, "carol", "quiet")["errorCode"] == 0
        guarded.log.admin.set_password("carol", "loud")
        assert authenticate(other, mechanism, "carol", "quiet")["errorCode"] == FAILED
        guarded.log.admin.delete_user("carol")
        assert authenticate(third, mechanism, "carol", "loud")["errorCode"] == FAILED

        assert client.ask("Metadata", 12, METADATA)["topics"] == [], "an open connection stays"


def test_a_user_of_the_log_has_no_password_for_plain(guarded: Guarded) -> None:
    guarded.log.admin.set_password("carol", "quiet")
    with guarded.client() as client:
        assert authenticate(client, "PLAIN", "carol", "quiet")["errorCode"] == FAILED


# --- refusing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "hidden"), ("nobody", "secret")])
def test_a_wrong_name_or_password_is_told_and_ends_the_connection(
    guarded: Guarded, mechanism: str, user: str, password: str
) -> None:
    with guarded.client() as client:
        answer = authenticate(client, mechanism, user, password)

        assert answer["errorCode"] == FAILED
        assert "Authentication failed" in answer["errorMessage"]
        assert client.is_closed()


def test_a_bare_token_that_is_wrong_ends_the_connection(guarded: Guarded) -> None:
    with guarded.client() as client:
        handshake(client, "PLAIN", version=0)
        client.socket.sendall(b"\0\0\0\x0c\0alice\0wrong")

        assert client.is_closed()


def test_a_mechanism_that_is_not_enabled_is_told_and_ends_the_connection(guarded: Guarded) -> None:
    with guarded.client() as client:
        assert handshake(client, "GSSAPI") == {"errorCode": BAD_MECHANISM, "mechanisms": list(MECHANISMS)}
        assert client.is_closed()


def test_a_wrong_name_is_logged_in_few_words(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    with guarded.client() as client:
        client.ask("SaslHandshake", 1, {"mechanism": "A" * 10_000})
        assert client.is_closed()
    assert "could not prove its name" in caplog.text and len(caplog.messages[0]) < 300


def test_mechanisms_may_be_switched_off() -> None:
    guarded = Guarded(sasl_enabled_mechanisms="SCRAM-SHA-512")
    with guarded.client() as client, guarded.client() as other:
        assert handshake(client, "PLAIN") == {"errorCode": BAD_MECHANISM, "mechanisms": ["SCRAM-SHA-512"]}
        assert authenticate(other, "SCRAM-SHA-512", "alice", "secret")["errorCode"] == 0
    guarded.close()


@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("Metadata", 12, METADATA),
        ("Produce", 9, {"acks": 1, "timeoutMs": 1, "topicData": [], "transactionalId": None}),
        ("SaslAuthenticate", 2, {"authBytes": b"\0alice\0secret"}),
    ],
)
def test_nothing_else_is_answered_before_the_name_is_proved(
    guarded: Guarded, name: str, version: int, body: dict[str, Any]
) -> None:
    with guarded.client() as client:
        client.send(name, version, body)
        assert client.is_closed()
    with guarded.client() as client:
        client.ask("ApiVersions", 3, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})
        client.send(name, version, body)
        assert client.is_closed()
    assert guarded.principals == []


@pytest.mark.parametrize("name", ["Metadata", "ApiVersions", "SaslHandshake"])
def test_an_exchange_that_has_begun_takes_tokens_alone(guarded: Guarded, name: str) -> None:
    with guarded.client() as client:
        handshake(client, "PLAIN")
        bodies = {"Metadata": METADATA, "SaslHandshake": {"mechanism": "PLAIN"}}
        client.send(name, 0 if name == "ApiVersions" else 1, bodies.get(name, {}))

        assert client.is_closed()


def test_a_frame_above_the_limit_ends_the_connection_before_it_is_received(guarded: Guarded) -> None:
    with guarded.client() as client:
        client.socket.sendall(((16 << 10) + 1).to_bytes(4, "big"))
        assert client.is_closed()
    with guarded.client() as client:
        client.socket.sendall((16 << 10).to_bytes(4, "big"))
        client.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)


def test_a_large_frame_is_taken_when_the_name_is_proved(guarded: Guarded) -> None:
    with guarded.client() as client:
        authenticate(client, "PLAIN", "alice", "secret")
        topics = [{"name": f"{number:05}-{'x' * 200}"} for number in range(3000)]

        answer = client.ask("Metadata", 12, {"topics": topics, "allowAutoTopicCreation": False})
        assert len(answer["topics"]) == 3000


def test_requests_that_follow_a_wrong_password_at_once_are_not_answered(guarded: Guarded) -> None:
    with guarded.client() as client:
        handshake(client, "PLAIN")
        wrong = request_frame("SaslAuthenticate", 2, {"authBytes": b"\0alice\0wrong"})
        client.socket.sendall(wrong + request_frame("Metadata", 12, METADATA))

        assert client.receive("SaslAuthenticate", 2)[1]["errorCode"] == FAILED
        assert client.is_closed()
        assert guarded.principals == []


def test_requests_that_follow_the_password_at_once_are_answered(guarded: Guarded) -> None:
    with guarded.client() as client:
        handshake(client, "PLAIN")
        right = request_frame("SaslAuthenticate", 2, {"authBytes": b"\0alice\0secret"})
        client.socket.sendall(right + request_frame("Metadata", 12, METADATA))

        assert client.receive("SaslAuthenticate", 2)[1]["errorCode"] == 0
        assert client.receive("Metadata", 12)[1]["topics"] == []


def test_a_refusal_comes_late() -> None:
    guarded = Guarded(connection_failed_authentication_delay_ms=5000)
    with guarded.client() as client:
        handshake(client, "PLAIN")
        client.send("SaslAuthenticate", 2, {"authBytes": b"\0alice\0wrong"})
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.socket.recv(1, 2)  # MSG_PEEK
        client.socket.settimeout(240)
        guarded.clock.advance(5000)

        assert client.receive("SaslAuthenticate", 2)[1]["errorCode"] == FAILED
        assert client.is_closed()
    guarded.close()


def test_a_client_that_does_not_prove_its_name_in_time_is_closed(guarded: Guarded) -> None:
    with guarded.client() as silent, guarded.client() as slow, guarded.client() as known:
        handshake(slow, "PLAIN")
        authenticate(known, "PLAIN", "alice", "secret")
        silent.ask("ApiVersions", 0, {})

        guarded.clock.advance(HANDSHAKE_MS)
        assert silent.is_closed()
        assert slow.is_closed()
        assert known.ask("Metadata", 12, METADATA)["topics"] == []


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_says_how_long_it_is_and_is_renewed(renewing: Guarded) -> None:
    with renewing.client() as client:
        assert authenticate(client, "SCRAM-SHA-256", "alice", "secret")["sessionLifetimeMs"] == 60_000
        for _ in range(3):
            renewing.clock.advance(50_000)
            assert authenticate(client, "SCRAM-SHA-256", "alice", "secret")["sessionLifetimeMs"] == 60_000
            assert client.ask("Metadata", 12, METADATA)["topics"] == []


def test_a_session_is_not_renewed_by_a_large_token(renewing: Guarded) -> None:
    with renewing.client() as client:
        authenticate(client, "SCRAM-SHA-256", "alice", "secret")
        renewing.clock.advance(50_000)
        client.ask("SaslHandshake", 1, {"mechanism": "SCRAM-SHA-256"})
        answer = client.ask("SaslAuthenticate", 2, {"authBytes": b"n,,n=" + b"a" * (16 << 10)})
        assert (answer["errorCode"], "16389 bytes" in answer["errorMessage"]) == (FAILED, True)
        assert client.is_closed()


def test_a_session_that_is_over_ends_with_the_next_request(renewing: Guarded) -> None:
    with renewing.client() as client, renewing.client() as other:
        authenticate(client, "PLAIN", "alice", "secret")
        authenticate(other, "PLAIN", "alice", "secret")
        renewing.clock.advance(60_000)
        client.send("Metadata", 12, METADATA)
        assert client.is_closed()

        assert authenticate(other, "PLAIN", "alice", "secret")["errorCode"] == 0
        assert other.ask("Metadata", 12, METADATA)["topics"] == []


def test_a_session_is_not_renewed_by_another_user_or_mechanism(renewing: Guarded) -> None:
    with renewing.client() as client, renewing.client() as other:
        authenticate(client, "PLAIN", "alice", "secret")
        authenticate(other, "PLAIN", "alice", "secret")
        renewing.clock.advance(50_000)

        answer = authenticate(client, "PLAIN", "bob", "hidden")
        assert (answer["errorCode"], "Cannot change principals" in answer["errorMessage"]) == (FAILED, True)
        assert client.is_closed()
        answer = authenticate(other, "SCRAM-SHA-256", "alice", "secret")
        assert (answer["errorCode"], "cannot change" in answer["errorMessage"]) == (FAILED, True)
        assert other.is_closed()


def test_a_password_that_was_changed_ends_the_session_when_it_is_renewed(renewing: Guarded) -> None:
    renewing.log.admin.set_password("carol", "quiet")
    with renewing.client() as client:
        authenticate(client, "SCRAM-SHA-512", "carol", "quiet")
        renewing.log.admin.set_password("carol", "loud")
        assert client.ask("Metadata", 12, METADATA)["topics"] == []
        renewing.clock.advance(50_000)

        assert authenticate(client, "SCRAM-SHA-512", "carol", "quiet")["errorCode"] == FAILED
        assert client.is_closed()


def test_a_session_is_renewed_once_a_second_at_most(renewing: Guarded) -> None:
    with renewing.client() as client:
        authenticate(client, "PLAIN", "alice", "secret")
        assert handshake(client, "PLAIN")["errorCode"] == BAD_STATE
        renewing.clock.advance(1000)
        assert handshake(client, "PLAIN")["errorCode"] == 0
        assert tokens(client, sasl_client("PLAIN", "alice", "secret"))["errorCode"] == 0


def test_sessions_without_an_end_are_not_renewed(guarded: Guarded) -> None:
    with guarded.client() as client:
        authenticate(client, "PLAIN", "alice", "secret")
        guarded.clock.advance(10_000)

        assert handshake(client, "PLAIN")["errorCode"] == BAD_STATE
        answer = client.ask("SaslAuthenticate", 2, {"authBytes": b"\0alice\0secret"})
        assert (answer["errorCode"], answer["errorMessage"]) == (
            BAD_STATE, "SaslAuthenticate request received after successful authentication",
        )  # fmt: skip
        assert client.ask("Metadata", 12, METADATA)["topics"] == []


def test_security_does_not_show_its_passwords() -> None:
    assert repr(Security.of({"users": USERS})) == "<Security of 2 users>"


# --- what is between nodes --------------------------------------------------------------------------------------------


MARKER = {
    "producerId": 1, "producerEpoch": 0, "transactionResult": False, "coordinatorEpoch": 0,
    "topics": [{"name": "t", "partitionIndexes": [0]}],
}  # fmt: skip


def marker_code(client: WireClient) -> Any:
    (marker,) = client.ask("WriteTxnMarkers", 1, {"markers": [MARKER]})["markers"]
    return marker["topics"][0]["partitions"][0]["errorCode"]


def fetch_code(client: WireClient, replica: int) -> Any:
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body = {"replicaId": replica, "maxWaitMs": 0, "minBytes": 0, "topics": [{"topic": "t", "partitions": [part]}]}
    return client.ask("Fetch", 11, body)["responses"][0]["partitions"][0]["errorCode"]


def enlisting_code(client: WireClient) -> Any:
    topics = [{"name": "t", "partitions": [0]}]
    body = {"transactions": [{"transactionalId": "tx", "producerId": 1, "producerEpoch": 0, "topics": topics}]}
    (found,) = client.ask("AddPartitionsToTxn", 4, body)["resultsByTransaction"]
    return found["topicResults"][0]["resultsByPartition"][0]["partitionErrorCode"]


def share_codes(client: WireClient) -> tuple[Any, Any]:
    """Of the question for the coordinator of a share partition, and of one about its state."""
    asked = {"keyType": 2, "coordinatorKeys": ["g:AQIDBAUGBwgJCgsMDQ4PEA:0"]}
    (found,) = client.ask("FindCoordinator", 6, asked)["coordinators"]
    topics = [{"topicId": UUID(int=7), "partitions": [{"partition": 0, "leaderEpoch": 0}]}]
    (topic,) = client.ask("ReadShareGroupState", 0, {"groupId": "g", "topics": topics})["results"]
    return found["errorCode"], topic["partitions"][0]["errorCode"]


def test_what_is_between_nodes_is_for_super_users_alone() -> None:
    guarded = Guarded(super_users="User:root; User:alice")
    guarded.log.create_topic("t")
    with guarded.client() as alice, guarded.client() as bob:
        authenticate(alice, "PLAIN", "alice", "secret")
        authenticate(bob, "PLAIN", "bob", "hidden")

        assert (marker_code(alice), marker_code(bob)) == (0, 31)
        assert enlisting_code(bob) == 31 != enlisting_code(alice)
        assert fetch_code(bob, 5) == 29 != fetch_code(alice, 5)
        assert (share_codes(alice), share_codes(bob)) == ((0, 42), (31, 31))
        assert fetch_code(bob, -1) == 0
    guarded.close()


def test_without_a_word_super_users_are_the_clients_without_a_name(guarded: Guarded) -> None:
    guarded.log.create_topic("t")
    with guarded.client() as alice:
        authenticate(alice, "PLAIN", "alice", "secret")
        assert marker_code(alice) == 31
    with pylog.serve() as plain, WireClient(plain.bootstrap_servers) as anyone:
        anyone.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        assert marker_code(anyone) == 0


def test_a_user_called_anonymous_is_a_user_and_not_trusted(guarded: Guarded) -> None:
    guarded.log.create_topic("t")
    guarded.log.admin.set_password("ANONYMOUS", "mine")
    with guarded.client() as client:
        authenticate(client, "SCRAM-SHA-256", "ANONYMOUS", "mine")
        assert (marker_code(client), fetch_code(client, 5)) == (31, 29)
        guarded.clock.advance(HANDSHAKE_MS)
        assert client.ask("Metadata", 12, METADATA)["topics"], "its handshake is done, whatever its name"
        assert guarded.principals == ["User:ANONYMOUS"]


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [{"": "x"}, {"alice": ""}, {"al\0ice": "x"}])
def test_users_that_cannot_be_are_refused(users: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not empty"):
        pylog.serve(listen=LISTEN, users=users)


def test_an_option_that_is_not_known_is_named() -> None:
    with pytest.raises(TypeError, match="user: a server has no such option; it has users, ssl_certificate_location"):
        pylog.serve(listen=LISTEN, user={"alice": "secret"})  # type: ignore[call-arg]


def test_a_request_of_many_elements_ends_a_connection_that_has_proved_no_name(guarded: Guarded) -> None:
    tags = dict.fromkeys(range(1001), b"")
    body = {"clientSoftwareName": "a", "clientSoftwareVersion": "1", "_tags": tags}
    with guarded.client() as client:
        client.send("ApiVersions", 3, body)
        assert client.is_closed()
