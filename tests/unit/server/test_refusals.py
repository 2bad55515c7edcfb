"""The responses to messages that the node refuses as a whole."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import Closed, KafkaStorage, NotCoordinator, UnknownTopicOrPartition
from pylog.protocol.batch import encode
from pylog.protocol.messages import Fetched, FetchedPart, Session
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse, MetadataTopic
from pylog.protocol.schema import message
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from pylog.server.api.call import Later, Reply, Request
from pylog.server.api.table import APIS
from pylog.server.calls import body_of
from pylog.server.served_node import ServedNode
from support.wire_bodies import BODIES, UNREFUSED

ERROR = NotCoordinator("elsewhere")


CODES = {"errorCode", "partitionErrorCode"}


def raises(asked: Any, session: Session) -> Future[Any]:
    raise ERROR


def fails(asked: Any, session: Session) -> Future[Any]:
    return failed(ERROR)


def node(handle: Callable[[Any, Session], Future[Any]]) -> ServedNode:
    return ServedNode(handle, 1, DynamicBrokerConfig(NodeConfig()), SystemClock())


def answered(name: str, version: int, body: dict[str, Any], handle: Callable[[Any, Session], Future[Any]]) -> Any:
    """The response to a request that has been on the wire, decoded."""
    api = next(one for one in APIS.values() if one.name == name)
    decoded, _ = api.request.decode(version, api.request.encode(version, body), into=api.into)
    outcome = api.answer(Request(version, decoded, Session("c", "/h")), node(handle))
    while isinstance(outcome, Later):
        outcome = outcome.call()
    response = body_of(outcome) if isinstance(outcome, Reply) else outcome
    return api.response.decode(version, api.response.encode(version, response))[0]


def codes(value: Any) -> set[int]:
    """All error codes in a body."""
    if isinstance(value, dict):
        own = {code for name, code in value.items() if name in CODES}
        return own.union(*(codes(inner) for inner in value.values()))
    return set().union(*map(codes, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("handle", [raises, fails])
@pytest.mark.parametrize(("name", "version"), BODIES)
def test_an_error_for_a_message_is_in_its_response(
    name: str, version: int, handle: Callable[[Any, Session], Future[Any]]
) -> None:  # fmt: skip
    told = codes(answered(name, version, BODIES[name, version], handle)) - {0}

    assert told == {ERROR.code}


@pytest.mark.parametrize("refuse", [raises, fails])
def test_an_error_for_a_produce_is_that_of_each_partition(refuse: Callable[[Any, Session], Future[Any]]) -> None:
    def handle(asked: Any, session: Session) -> Future[Any]:
        is_known = isinstance(asked, MetadataRequest)
        return completed(MetadataResponse(topics=[MetadataTopic(name="t")])) if is_known else refuse(asked, session)

    records = bytes(encode([(b"v", None, 5, ())], now_ms=5).data)
    parts = [{"index": number, "records": records} for number in (0, 1)]
    body = {"acks": 1, "topicData": [{"name": "t", "partitionData": parts}]}

    assert codes(answered("Produce", 9, body, handle)) == {ERROR.code}


def test_an_error_of_a_topic_that_was_to_be_made_is_told() -> None:

    def handle(asked: Any, session: Session) -> Future[Any]:
        error = KafkaStorage("full") if asked.allow_auto_topic_creation else UnknownTopicOrPartition("no")
        return completed(MetadataResponse(topics=[MetadataTopic(name="t", error=error)]))

    (topic,) = answered("Metadata", 12, {"topics": [{"name": "t"}]}, handle)["topics"]

    assert topic["errorCode"] == KafkaStorage.code


def test_a_follower_hears_where_its_log_parts_from_the_leaders() -> None:

    def handle(asked: Any, session: Session) -> Future[Any]:
        return completed(Fetched([FetchedPart("t", 0, diverging=(3, 7))]))

    body = BODIES["Fetch", 12]
    (topic,) = answered("Fetch", 12, body, handle)["responses"]

    assert topic["partitions"][0]["divergingEpoch"] == {"epoch": 3, "endOffset": 7}


def test_names_of_many_topics_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr("pylog.server.served_node.NAMES_MAX", 2)

    def handle(asked: MetadataRequest, session: Session) -> Future[Any]:
        ids = [one.topic_id for one in asked.topics or ()]
        return completed(MetadataResponse(topics=[MetadataTopic(name=f"t{one.int}", topic_id=one) for one in ids]))

    served = node(handle)
    names = [served.known_name(uuid.UUID(int=number), Session()) for number in (1, 1, 2, 3, 1)]

    assert names == ["t1", "t1", "t2", "t3", "t1"]


def test_a_closed_node_has_no_answer() -> None:
    with pytest.raises(Closed):
        body_of(Reply(failed(Closed("closed")), lambda given: {}, lambda error: {}))


def test_every_key_has_a_refusal_or_needs_none() -> None:
    assert {api.name for api in APIS.values()} == {name for name, _ in BODIES | UNREFUSED}
    assert all(message(f"{name}Request") for name, _ in BODIES)
