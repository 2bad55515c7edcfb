"""The two directions of the mapping, held to each other in every version that a client may take.

message -> request of the client -> bytes -> message of the server       the same
answer  -> response of the server -> bytes -> answer of the client       the same
"""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from pylog.errors import NotLeaderOrFollower
from pylog.protocol import messages as m
from pylog.protocol.batch import encode
from pylog.protocol.error_codes import of_code
from pylog.protocol.isolation import Isolation
from pylog.protocol.schema import message as schema
from pylog.protocol.wire import records as of_server
from pylog.protocol.wire.questions.table import QUESTIONS
from pylog.record import Record, TopicPartition

ID = uuid.UUID(int=7)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FAILED = NotLeaderOrFollower("elsewhere")
ONE = encode([Record(b"x"), Record(b"y")], now_ms=1)


def decoded(name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """A body as the other side reads it."""
    found, _ = schema(name).decode(version, schema(name).encode(version, body))
    return found


def plain(value: Any) -> Any:
    """A value with errors as their codes: texts are not in every version."""
    if isinstance(value, Exception):
        return getattr(value, "code", type(value))
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return bytes(value) if isinstance(value, memoryview) else value


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_is_heard_as_it_was_said(version: int) -> None:
    parts = [m.FetchPart("t", 0, 5, 100, 2, 1, topic_id=ID), m.FetchPart("t", 1, 6, topic_id=ID)]
    message = m.Fetch(parts, max_wait_ms=7, min_bytes=8, max_bytes=9, isolation=Isolation.READ_COMMITTED)
    question = QUESTIONS[m.Fetch]
    request = decoded("FetchRequest", version, question.body(message, version))
    for topic in request["topics"]:
        topic["topic"] = "t"
    heard = of_server.fetch(
        request, [of_server.fetch_part(topic, p) for topic in request["topics"] for p in topic["partitions"]]
    )
    assert [(p.topic, p.partition, p.offset, p.max_bytes) for p in heard.parts] == [
        ("t", 0, 5, 100),
        ("t", 1, 6, 1 << 20),
    ]
    assert (heard.replica_id, heard.max_wait_ms, heard.min_bytes, heard.max_bytes, heard.isolation) == (
        -1, 7, 8, 9, Isolation.READ_COMMITTED
    )  # fmt: skip
    told = [
        m.FetchedPart("t", 0, None, ONE.data, high_watermark=9, last_stable_offset=8, aborted=[(4, 5)]),
        m.FetchedPart("t", 1, FAILED),
    ]
    body = of_server.fetched(list(zip(parts, told, strict=True)), version)
    answer = question.answer(message, decoded("FetchResponse", version, body), version)
    assert plain(answer.parts[0]) == plain(replace(told[0], log_start_offset=-1))
    assert isinstance(answer.parts[1].error, NotLeaderOrFollower)


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_says_its_rack_and_hears_of_a_replica_nearby(version: int) -> None:
    message = m.Fetch([m.FetchPart("t", 0, 5, topic_id=ID)], rack_id="r")
    request = decoded("FetchRequest", version, QUESTIONS[m.Fetch].body(message, version))
    assert request.get("rackId") == ("r" if version >= 11 else None)
    body = of_server.fetched([(message.parts[0], m.FetchedPart("t", 0))], version)
    if version >= 11:
        body["responses"][0]["partitions"][0]["preferredReadReplica"] = 3
    (part,) = QUESTIONS[m.Fetch].answer(message, decoded("FetchResponse", version, body), version).parts
    assert part.preferred_read_replica == (3 if version >= 11 else -1)


@pytest.mark.parametrize("version", range(9, 19))
def test_a_fetch_of_a_replica_is_heard_as_one(version: int) -> None:
    """Its high watermark goes along from version 18 on; without it a leader has no news for it (KIP-1166)."""
    message = m.Fetch([m.FetchPart("t", 0, 5, 100, 2, 1, high_watermark=4, topic_id=ID)], replica_id=7)
    request = decoded("FetchRequest", version, QUESTIONS[m.Fetch].body(message, version))
    (topic,) = request["topics"]
    topic["topic"] = "t"
    heard = of_server.fetch(request, [of_server.fetch_part(topic, part) for part in topic["partitions"]])
    assert (heard.replica_id, heard.parts[0].high_watermark) == (7, 4 if version >= 18 else m.HIGH_WATERMARK_UNTOLD)
    assert (heard.parts[0].current_leader_epoch, heard.parts[0].last_fetched_epoch) == (2, 1 if version >= 12 else -1)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_code_without_a_text_has_the_text_of_its_error() -> None:
    assert of_code(0, "all is well") is None
    assert "NOT_LEADER_OR_FOLLOWER" in str(of_code(6))
    assert str(of_code(6, "moved")) == "moved"


# --- what is missing in a response ------------------------------------------------------------------------------------


def test_a_part_that_is_missing_is_an_error_of_that_part() -> None:
    message = m.Fetch([m.FetchPart("t", 0, 0)])
    (part,) = QUESTIONS[m.Fetch].answer(message, {"errorCode": 0, "responses": []}, 12).parts
    assert "without a word of t-0" in str(part.error)


def test_an_error_for_a_request_as_a_whole_is_that_of_its_parts() -> None:
    fetch = m.Fetch([m.FetchPart("t", 0, 0)])
    (part,) = QUESTIONS[m.Fetch].answer(fetch, {"errorCode": 6, "responses": []}, 12).parts
    assert isinstance(part.error, NotLeaderOrFollower)


def test_a_topic_of_an_id_that_was_not_asked_for_is_left_out() -> None:
    message = m.Fetch([m.FetchPart("t", 0, 0, topic_id=ID)])
    strange = {"topicId": uuid.UUID(int=99), "partitions": []}
    (part,) = QUESTIONS[m.Fetch].answer(message, {"errorCode": 0, "responses": [strange]}, 13).parts
    assert "without a word" in str(part.error)
