"""One connection of a client, without sockets: bytes in, answers out."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.client.network.call import Call
from pylog.client.network.dialogue import Dialogue, DialogueState
from pylog.client.network.lookup import FIND_COORDINATOR, FindCoordinator
from pylog.errors import (
    ClusterAuthorization,
    IllegalSaslState,
    InvalidRequest,
    NetworkError,
    PylogError,
    RequestTimedOut,
    SaslAuthentication,
    UnknownServer,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from pylog.protocol.batch import encode
from pylog.protocol.messages import Fetch as FetchMessage
from pylog.protocol.messages import FetchPart, ProduceRequest, Session
from pylog.protocol.messages.topics import DeleteTopicsRequest, MetadataRequest
from pylog.protocol.messages.transactions import ListTransactionsRequest
from pylog.protocol.messages.users import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from pylog.protocol.sasl.exchange import sasl_client
from pylog.protocol.schema import message as schema
from pylog.protocol.wire.questions.table import QUESTIONS
from pylog.record import Record
from pylog.runtime.future import Future
from support.messages import group_heartbeat

LIMIT = 1 << 20
KEYS = ("ApiVersions", "Metadata", "Heartbeat", "Produce", "Fetch", "SaslHandshake", "SaslAuthenticate")
ALL = {name: tuple(schema(f"{name}Request").versions) for name in KEYS}


def response(name: str, version: int, body: dict[str, Any], correlation_id: int) -> bytes:
    found = schema(f"{name}Response")
    tags = b"\0" if found.is_flexible(version) and name != "ApiVersions" else b""
    frame = correlation_id.to_bytes(4, "big", signed=True) + tags + found.encode(version, body)
    return len(frame).to_bytes(4, "big") + frame


def served(ranges: dict[str, tuple[int, int]], **more: Any) -> dict[str, Any]:
    keys = [
        {"apiKey": schema(f"{name}Request").api_key, "minVersion": low, "maxVersion": high}
        for name, (low, high) in ranges.items()
    ]
    return {"errorCode": 0, "apiKeys": keys, **more}


def ready(ranges: dict[str, tuple[int, int]] | None = None, **more: Any) -> Dialogue:
    dialogue = Dialogue("me", LIMIT)
    dialogue.begin()
    dialogue.feed(memoryview(response("ApiVersions", 4, served(ranges or ALL, **more), 1)))
    assert dialogue.state is DialogueState.READY
    return dialogue


def call(message: Any, deadline_ms: int = 1000) -> Call:
    return Call(1, message, QUESTIONS.get(type(message)), Session("me"), Future(), deadline_ms)


def asked(pieces: list[Any]) -> tuple[int, int, int, bytes]:
    """Key, version, correlation id and the rest of a request."""
    data = b"".join(map(bytes, pieces))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return (
        int.from_bytes(data[4:6], "big"), int.from_bytes(data[6:8], "big"), int.from_bytes(data[8:12], "big"), data[12:]
    )  # fmt: skip


BEAT = group_heartbeat("g", 3, "m")


# --- versions ---------------------------------------------------------------------------------------------------------


def test_the_first_request_asks_for_the_versions_and_names_the_client() -> None:
    key, version, number, rest = asked(Dialogue("me", LIMIT).begin())
    assert (key, version, number) == (18, 4, 1)
    assert rest.startswith(b"\0\2me\0")
    body, _ = schema("ApiVersionsRequest").decode(4, rest, 5)
    assert body["clientSoftwareName"] == "pylog"


def test_a_node_that_does_not_know_the_newest_versions_request_is_asked_in_its_own() -> None:
    dialogue = Dialogue("me", LIMIT)
    dialogue.begin()
    old = {**served({"ApiVersions": (0, 2)}), "errorCode": UnsupportedVersion.code}
    _, again = dialogue.feed(memoryview(response("ApiVersions", 0, old, 1)))
    assert asked(again)[:3] == (18, 2, 2)
    dialogue.feed(memoryview(response("ApiVersions", 2, served({"Heartbeat": (0, 2)}), 2)))
    assert dialogue.state is DialogueState.READY
    assert asked(dialogue.request(call(BEAT)))[:2] == (12, 2)


def test_the_highest_version_that_both_know_is_taken() -> None:
    assert asked(ready().request(call(BEAT)))[:2] == (12, 4)
    assert asked(ready({"Heartbeat": (1, 99)}).request(call(BEAT)))[:2] == (12, 4)
    assert asked(ready({"Heartbeat": (0, 1)}).request(call(BEAT)))[:2] == (12, 1)


def test_a_node_that_is_too_old_is_an_error_that_names_both_ranges() -> None:
    asked_for = ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=1), transactional_id="tx")
    with pytest.raises(UnsupportedVersion, match=r"serves Produce in the versions 0 to 8, which cannot say all"):
        ready({"Produce": (0, 8)}).request(call(asked_for))
    with pytest.raises(UnsupportedVersion, match="does not serve Heartbeat: versions 0 to 4 of it are needed"):
        ready({"Metadata": (0, 1)}).request(call(BEAT))
    with pytest.raises(UnsupportedVersion, match="in the versions 7 to 9"):
        ready({"Heartbeat": (7, 9)}).request(call(BEAT))


def test_a_topic_without_an_id_is_asked_for_in_a_version_that_names_topics() -> None:
    (_, version, _, _) = asked(ready().request(call(FetchMessage([FetchPart("t", 0, 0)]))))
    assert version == 12


def test_transactions_need_the_feature_of_the_cluster_where_it_tells_of_features() -> None:
    begun = ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=1), transactional_id="tx")
    old = [{"name": "transaction.version", "maxVersionLevel": 1, "minVersionLevel": 1}]
    with pytest.raises(UnsupportedVersion, match=r"transaction\.version=1"):
        ready(finalizedFeatures=old, finalizedFeaturesEpoch=1).request(call(begun))


# --- frames -----------------------------------------------------------------------------------------------------------


def answers(dialogue: Dialogue, data: bytes, step: int) -> Iterator[Any]:
    for at in range(0, len(data), step):
        chunk = memoryview(data)[at : at + step]
        while chunk:
            target = dialogue.framer.target()
            if target is None:
                found, _ = dialogue.feed(chunk)
                chunk = chunk[len(chunk) :]
            else:
                count = min(len(target), len(chunk))
                target[:count] = chunk[:count]
                found, _ = dialogue.filled(count)
                chunk = chunk[count:]
            yield from found


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 11, 1000])
def test_answers_come_in_order_however_their_bytes_are_cut(step: int) -> None:
    dialogue = ready()
    calls = [call(BEAT), call(MetadataRequest.of(["t"])), call(BEAT)]
    for one in calls:
        dialogue.request(one)
    topic = {"errorCode": 0, "name": "t", "partitions": []}
    data = response("Heartbeat", 4, {"errorCode": 0}, 2)
    data += response("Metadata", 13, {"topics": [topic], "brokers": []}, 3)
    data += response("Heartbeat", 4, {"errorCode": 27}, 4)
    found = list(answers(dialogue, data, step))
    assert [one.call for one in found] == calls
    assert found[0].answer.error is None
    assert found[1].answer.topics[0].name == "t"
    assert type(found[2].answer.error).__name__ == "RebalanceInProgress"
    assert dialogue.is_quiet


def test_a_correlation_id_that_is_not_the_next_breaks_the_connection() -> None:
    dialogue = ready()
    one, other = call(BEAT), call(BEAT)
    dialogue.request(one)
    dialogue.request(other)
    with pytest.raises(NetworkError, match="answers request 3 where 2 is the next"):
        dialogue.feed(memoryview(response("Heartbeat", 4, {"errorCode": 0}, 3)))
    assert dialogue.awaited == [one, other]


def test_an_answer_to_nothing_breaks_the_connection() -> None:
    with pytest.raises(NetworkError, match="was asked nothing"):
        ready().feed(memoryview(response("Heartbeat", 4, {"errorCode": 0}, 2)))


@pytest.mark.parametrize("size", [LIMIT + 1, (1 << 31) - 1, -1])
def test_a_length_beyond_the_limit_is_refused_before_memory_is_made(size: int) -> None:
    dialogue = ready()
    dialogue.request(call(BEAT))
    with pytest.raises(NetworkError, match="was announced"):
        dialogue.feed(memoryview(size.to_bytes(4, "big", signed=True)))
    assert dialogue.framer.target() is None


@pytest.mark.parametrize(
    "frame", [b"", b"\0\0\0", b"\0\0\0\2", b"\0\0\0\2\0", b"\0\0\0\2\0\0\0\0\0\0\0\7", b"\0\0\0\2\0\0\0\0\0\0\0\0\7"]
)
def test_bytes_that_are_no_response_break_the_connection(frame: bytes) -> None:
    dialogue = ready()
    dialogue.request(call(BEAT))
    with pytest.raises(NetworkError, match="what is no response"):
        dialogue.feed(memoryview(len(frame).to_bytes(4, "big") + frame))


def test_an_error_code_that_is_not_known_is_an_error_that_names_it() -> None:
    dialogue = ready()
    dialogue.request(call(BEAT))
    (found,), _ = dialogue.feed(memoryview(response("Heartbeat", 4, {"errorCode": 999}, 2)))
    assert isinstance(found.answer.error, UnknownServer)
    assert "999" in str(found.answer.error)


def test_a_part_that_the_response_lacks_is_an_error_of_that_part() -> None:
    dialogue = ready()
    dialogue.request(call(FetchMessage([FetchPart("t", 0, 0), FetchPart("t", 1, 0)])))
    part = {
        "partitionIndex": 1, "errorCode": 0, "highWatermark": 7, "abortedTransactions": None, "records": None
    }  # fmt: skip
    body = {"responses": [{"topic": "t", "partitions": [part]}]}
    (found,), _ = dialogue.feed(memoryview(response("Fetch", 12, body, 2)))
    first, second = found.answer.parts
    assert "without a word of t-0" in str(first.error)
    assert (second.error, second.high_watermark, bytes(second.data)) == (None, 7, b"")


def test_the_calls_whose_time_is_up_are_named() -> None:
    dialogue = ready()
    early, late = call(BEAT, 10), call(BEAT, 20)
    dialogue.request(early)
    dialogue.request(late)
    assert dialogue.late(9, "node 1") == []
    (found,) = dialogue.late(10, "node 1")
    assert found.call is early
    assert isinstance(found.error, RequestTimedOut)


def test_a_produce_without_acks_is_awaited_by_no_one() -> None:
    dialogue = ready()
    unacknowledged = ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=1), acks=0)
    assert asked(dialogue.request(call(unacknowledged)))[0] == 0
    assert dialogue.is_quiet


def test_record_bytes_are_sent_as_the_buffer_that_they_are() -> None:
    batch = encode([Record(b"x" * 1000)], now_ms=1)
    pieces = ready().request(call(ProduceRequest.of("t", 0, batch)))
    assert any(isinstance(piece, memoryview) and piece.obj is batch.data for piece in pieces)


# --- logging in -------------------------------------------------------------------------------------------------------


def logging_in(mechanism: str = "PLAIN") -> Dialogue:
    dialogue = Dialogue("me", LIMIT, mechanism, lambda: sasl_client(mechanism, "alice", "secret"))
    dialogue.begin()
    _, pieces = dialogue.feed(memoryview(response("ApiVersions", 4, served(ALL), 1)))
    assert asked(pieces)[:2] == (17, 1)
    assert dialogue.state is DialogueState.LOGIN
    return dialogue


def test_a_login_by_plain_is_two_requests() -> None:
    dialogue = logging_in()
    _, pieces = dialogue.feed(memoryview(response("SaslHandshake", 1, {"errorCode": 0, "mechanisms": ["PLAIN"]}, 2)))
    key, version, _, rest = asked(pieces)
    assert (key, version) == (36, 2)
    assert b"\0alice\0secret" in rest
    dialogue.feed(memoryview(response("SaslAuthenticate", 2, {"errorCode": 0, "authBytes": b""}, 3)))
    assert dialogue.state is DialogueState.READY


def test_a_session_that_ends_is_renewed_behind_the_calls_that_are_under_way() -> None:
    dialogue = logging_in()
    dialogue.feed(memoryview(response("SaslHandshake", 1, {"errorCode": 0, "mechanisms": ["PLAIN"]}, 2)))
    held = {"errorCode": 0, "authBytes": b"", "sessionLifetimeMs": 5000}
    dialogue.feed(memoryview(response("SaslAuthenticate", 2, held, 3)))
    assert dialogue.session_ms == 5000
    under_way = call(BEAT)
    dialogue.request(under_way)
    assert asked(dialogue.log_in())[:3] == (17, 1, 5)
    assert dialogue.state is DialogueState.LOGIN
    (found,), _ = dialogue.feed(memoryview(response("Heartbeat", 4, {"errorCode": 0}, 4)))
    assert found.call is under_way
    dialogue.feed(memoryview(response("SaslHandshake", 1, {"errorCode": 0, "mechanisms": ["PLAIN"]}, 5)))
    dialogue.feed(memoryview(response("SaslAuthenticate", 2, held, 6)))
    assert dialogue.state is DialogueState.READY


def test_a_mechanism_that_the_node_lacks_is_an_error_that_says_which_it_has() -> None:
    refusal = {"errorCode": UnsupportedSaslMechanism.code, "mechanisms": ["SCRAM-SHA-256"]}
    with pytest.raises(UnsupportedSaslMechanism, match="does not take PLAIN: it has SCRAM-SHA-256"):
        logging_in().feed(memoryview(response("SaslHandshake", 1, refusal, 2)))


def test_a_login_that_is_refused_says_what_the_node_says() -> None:
    dialogue = logging_in()
    dialogue.feed(memoryview(response("SaslHandshake", 1, {"errorCode": 0, "mechanisms": ["PLAIN"]}, 2)))
    refusal = {"errorCode": SaslAuthentication.code, "errorMessage": "wrong password", "authBytes": b""}
    with pytest.raises(SaslAuthentication, match="wrong password"):
        dialogue.feed(memoryview(response("SaslAuthenticate", 2, refusal, 3)))


def test_no_call_goes_out_before_the_login_has_ended() -> None:
    assert logging_in().state is not DialogueState.READY


def test_another_error_of_a_handshake_is_that_of_the_login() -> None:
    with pytest.raises(IllegalSaslState):
        logging_in().feed(memoryview(response("SaslHandshake", 1, {"errorCode": 34, "mechanisms": []}, 2)))


def test_an_error_of_the_versions_is_that_of_the_connection() -> None:
    dialogue = Dialogue("me", LIMIT)
    dialogue.begin()
    with pytest.raises(InvalidRequest):
        dialogue.feed(memoryview(response("ApiVersions", 4, {"errorCode": 42, "apiKeys": []}, 1)))


def test_a_login_that_does_not_come_to_an_end_is_given_up() -> None:
    class Endless:
        is_complete = False

        def step(self, challenge: bytes = b"") -> bytes:
            return b"more"

    dialogue = Dialogue("me", LIMIT, "PLAIN", Endless)
    dialogue.begin()
    dialogue.feed(memoryview(response("ApiVersions", 4, served(ALL), 1)))
    dialogue.feed(memoryview(response("SaslHandshake", 1, {"errorCode": 0, "mechanisms": []}, 2)))
    with pytest.raises(SaslAuthentication, match="does not come to an end"):
        for number in range(3, 20):
            dialogue.feed(memoryview(response("SaslAuthenticate", 2, {"errorCode": 0, "authBytes": b""}, number)))


def test_a_damaged_header_breaks_the_connection() -> None:
    dialogue = ready()
    dialogue.request(call(BEAT))
    frame = (2).to_bytes(4, "big") + b"\1\0\0" + schema("HeartbeatResponse").encode(4, {"errorCode": 0})
    with pytest.raises(NetworkError, match="tagged fields"):
        dialogue.feed(memoryview(len(frame).to_bytes(4, "big") + frame))
    question = replace(FIND_COORDINATOR, answer=lambda message, body, version: None + body)
    dialogue = ready({"FindCoordinator": (0, 6)})
    dialogue.request(Call(1, FindCoordinator("group", "g"), question, Session("me"), Future(), 1000))
    with pytest.raises(NetworkError, match="means nothing"):
        dialogue.feed(memoryview(response("FindCoordinator", 6, {"coordinators": []}, 2)))


def test_an_error_for_all_of_an_answer_is_that_of_the_call() -> None:
    dialogue = ready({"FindCoordinator": (0, 6)})
    dialogue.request(Call(1, FindCoordinator("group", "g"), FIND_COORDINATOR, Session("me"), Future(), 1000))
    told = {"coordinators": [{"key": "g", "errorCode": 31, "errorMessage": None}]}
    (found,), _ = dialogue.feed(memoryview(response("FindCoordinator", 6, told, 2)))
    assert isinstance(found.error, ClusterAuthorization)


# --- requests as Kafka's schemas have them ----------------------------------------------------------------------------


def test_a_request_goes_out_as_it_is_and_its_answer_is_its_response() -> None:
    dialogue = ready({"DescribeUserScramCredentials": (0, 0)})
    one = call(DescribeUserScramCredentialsRequest(users=None))

    key, version, number, _ = asked(dialogue.request(one))
    assert (key, version, one.name) == (50, 0, "DescribeUserScramCredentials")
    body = {"errorCode": 31, "results": [{"user": "ann", "errorCode": 0, "errorMessage": None}]}
    (found,), _ = dialogue.feed(memoryview(response("DescribeUserScramCredentials", 0, body, number)))

    assert found.error is None and found.answer is found.body
    assert isinstance(found.answer, DescribeUserScramCredentialsResponse)
    assert isinstance(found.answer.error, ClusterAuthorization) and found.answer.results[0].user == "ann"


@pytest.mark.parametrize(
    ("request_", "served", "version"),
    [
        (ListTransactionsRequest(), (0, 2), 2),
        (ListTransactionsRequest(), (0, 0), 0),
        (ListTransactionsRequest(duration_filter=5), (0, 1), 1),
        (ListTransactionsRequest(duration_filter=5), (0, 9), 2),
    ],
)
def test_a_request_takes_the_highest_version_that_can_say_it(
    request_: ListTransactionsRequest, served: tuple[int, int], version: int
) -> None:  # fmt: skip
    assert asked(ready({"ListTransactions": served}).request(call(request_)))[1] == version


@pytest.mark.parametrize("version", [5, 6])
def test_a_request_is_said_in_the_fields_that_a_version_has_for_it(version: int) -> None:
    request = DeleteTopicsRequest.of(["t"], 7)
    *_, body = asked(ready({"DeleteTopics": (1, version)}).request(call(request)))
    # Behind the client id and the tags of the header.
    told, end = schema("DeleteTopicsRequest").decode(version, body, 5, into=DeleteTopicsRequest)
    assert end == len(body) and [one.name for one in told.states] == ["t"] and told.timeout_ms == 7


def test_topics_by_their_ids_are_not_said_in_an_older_version() -> None:
    by_id = DeleteTopicsRequest.DeleteTopicState(topic_id=uuid.UUID(int=7))
    with pytest.raises(UnsupportedVersion, match="in the versions 1 to 5") as refused:
        ready({"DeleteTopics": (1, 5)}).request(call(DeleteTopicsRequest(topics=[by_id] * 1000)))
    assert len(str(refused.value)) < 1200


def test_what_no_version_of_the_node_can_say_is_not_asked() -> None:
    dialogue = ready({"ListTransactions": (0, 1)})
    with pytest.raises(UnsupportedVersion, match=r"in the versions 0 to 1, which cannot say all .*pattern='a'"):
        dialogue.request(call(ListTransactionsRequest(transactional_id_pattern="a")))


# --- anything at all --------------------------------------------------------------------------------------------------


@given(data=st.binary(max_size=200), cut=st.integers(1, 50), count=st.integers(0, 3))
def test_any_bytes_of_a_node_are_answers_or_a_broken_connection(data: bytes, cut: int, count: int) -> None:
    dialogue = ready()
    calls = [call(FetchMessage([FetchPart("t", 0, 0)])) for _ in range(count)]
    for one in calls:
        dialogue.request(one)
    try:
        found = list(answers(dialogue, data, cut))
    except PylogError as error:
        assert isinstance(error, NetworkError)
    else:
        assert [one.call for one in found] == calls[: len(found)]


@given(damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_answer_is_an_answer_or_a_broken_connection(damage: list[tuple[int, int]]) -> None:
    dialogue = ready()
    dialogue.request(call(FetchMessage([FetchPart("t", 0, 0)])))
    part = {
        "partitionIndex": 0, "errorCode": 0, "highWatermark": 7, "abortedTransactions": [
            {"producerId": 1, "firstOffset": 2}
        ], "records": bytes(encode([Record(b"x" * 100)], now_ms=1).data),
    }  # fmt: skip
    frame = bytearray(response("Fetch", 12, {"responses": [{"topic": "t", "partitions": [part]}]}, 2))
    for at, value in damage:
        frame[at % len(frame)] = value
    try:
        list(answers(dialogue, bytes(frame), len(frame)))
    except PylogError as error:
        assert isinstance(error, NetworkError)
