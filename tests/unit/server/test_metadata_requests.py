"""ApiVersions and Metadata to a node in memory."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pylog.protocol.messages import NO_ID
from pylog.server.api import metadata
from pylog.server.api.api_versions import UNNAMED
from pylog.server.api.call import Later
from pylog.server.api.table import APIS
from pylog.server.dispatch import read_request
from support.wire_client import request_frame
from support.wire_node import WireNode, decoded, wire_node

UNKNOWN = uuid.UUID(int=77)

UNTOLD = -(2**31)


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_every_key_that_is_served(node: WireNode, version: int) -> None:
    software = {"clientSoftwareName": "test", "clientSoftwareVersion": "1.0"} if version >= 3 else {}

    response = node.ask("ApiVersions", version, software)

    assert response["errorCode"] == 0
    assert {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in response["apiKeys"]} == {
        api.key: (api.low if api.key else 0, api.high) for api in APIS.values() if api.name not in UNNAMED
    }
    if version >= 3:
        lowest = {one["name"]: one["minVersion"] for one in response["supportedFeatures"]}
        least = 0 if version == 4 else 1
        assert lowest == {
            "metadata.version": 30, "group.version": least, "share.version": least, "transaction.version": least,
        }  # fmt: skip
        assert lowest.keys() == {one["name"] for one in response["finalizedFeatures"]}


def test_a_client_whose_name_is_no_name_is_refused(node: WireNode) -> None:
    body = {"clientSoftwareName": "-no-", "clientSoftwareVersion": "1"}

    assert node.ask("ApiVersions", 3, body)["errorCode"] == 42


def test_a_version_from_the_future_gets_the_keys_in_version_0(node: WireNode) -> None:
    call, outcome = node.call(b"\0\x12\0\x63\0\0\0\x07 whatever")

    response = decoded(call, outcome)

    assert response["errorCode"] == 35
    assert response["apiKeys"]


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_node_and_its_topics(node: WireNode, version: int) -> None:
    node.log.create_topic("t", 2)

    response = node.ask("Metadata", version, {"topics": [{"name": "t"}]})

    assert [(one["host"], one["port"]) for one in response["brokers"]] == [("127.0.0.1", 9092)]
    (topic,) = response["topics"]
    assert topic["errorCode"] == 0
    assert topic["name"] == "t"
    assert [part["leaderId"] for part in topic["partitions"]] == [response["brokers"][0]["nodeId"]] * 2
    if version >= 10:
        assert topic["topicId"] != NO_ID


def test_no_topics_mean_all_in_version_0_and_none_later(node: WireNode) -> None:
    node.log.create_topic("t")

    assert len(node.ask("Metadata", 0, {"topics": []})["topics"]) == 1
    assert node.ask("Metadata", 1, {"topics": []})["topics"] == []
    assert len(node.ask("Metadata", 1, {"topics": None})["topics"]) == 1


@pytest.mark.parametrize("version", [4, 12])
def test_a_topic_is_described_once_however_often_it_is_named(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    topic_id = node.log.broker.image.topics["t"].id
    by_id = [{"name": None, "topicId": topic_id}] * 2 if version >= 12 else []

    response = node.ask("Metadata", version, {"topics": [{"name": "t"}] * 3 + by_id})

    assert [one["name"] for one in response["topics"]] == ["t"] * (1 + (version >= 12))


@pytest.mark.parametrize("topics", [None, [], [{"name": "t"}], [{"name": "wide"}]])
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_many_partitions_are_described_by_the_thread_of_what_is_long(
    monkeypatch: pytest.MonkeyPatch, topics: Any, limit: int
) -> None:
    monkeypatch.setattr(metadata, "PARTITIONS_AT_ONCE", limit)
    counts = {"t": 1, "u": 1, "wide": 3}
    with wire_node() as node:
        for name, partitions in counts.items():
            node.log.create_topic(name, partitions)
        frame = request_frame("Metadata", 12, {"topics": topics})[4:]
        outcome = read_request(bytearray(frame), "").answer(node.served)
        found = {one["name"]: len(one["partitions"]) for one in decoded(*node.call(frame))["topics"]}

    asked = counts if topics is None else {one["name"]: counts[one["name"]] for one in topics}
    assert found == asked
    assert (isinstance(outcome, Later) and outcome.is_long) == (sum(asked.values()) > limit)


def test_a_missing_topic_is_made_where_that_is_allowed(node: WireNode) -> None:
    asked = {"topics": [{"name": "new"}], "allowAutoTopicCreation": False}
    assert node.ask("Metadata", 12, asked)["topics"][0]["errorCode"] == 3

    made = node.ask("Metadata", 12, {**asked, "allowAutoTopicCreation": True})["topics"][0]

    assert made["errorCode"] == 0
    assert len(made["partitions"]) == 1


@pytest.mark.parametrize(("name", "code"), [("", 17), ("no such name", 17), ("__transaction_state", 3)])
def test_a_topic_that_cannot_be_made_is_an_error(node: WireNode, name: str, code: int) -> None:
    assert node.ask("Metadata", 12, {"topics": [{"name": name}]})["topics"][0]["errorCode"] == code


def test_topics_are_made_by_nobody_where_the_config_says_so() -> None:
    with wire_node(auto_create_topics_enable=False) as node:
        assert node.ask("Metadata", 4, {"topics": [{"name": "new"}]})["topics"][0]["errorCode"] == 3


def test_a_topic_is_found_by_its_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"][0]["topicId"]

    topics = node.ask(
        "Metadata", 12, {"topics": [{"name": None, "topicId": topic_id}, {"name": None, "topicId": UNKNOWN}]}
    )["topics"]

    assert [(topic["name"], topic["errorCode"]) for topic in topics] == [("t", 0), (None, 100)]


@pytest.mark.parametrize("named", [{"name": None}, {"name": "t", "topicId": UNKNOWN}])
def test_below_version_12_no_topic_is_asked_for_by_its_id(node: WireNode, named: dict[str, Any]) -> None:
    answer = node.ask("Metadata", 11, {"topics": [named, {"name": "t"}]})

    assert [topic["errorCode"] for topic in answer["topics"]] == [42, 42]
    assert (answer["brokers"], answer["controllerId"]) == ([], -1)


@pytest.mark.parametrize("wanted", [False, True])
def test_the_answer_says_what_a_client_may_do_where_it_asks(node: WireNode, wanted: bool) -> None:
    node.log.create_topic("t")
    every = {"includeTopicAuthorizedOperations": wanted, "includeClusterAuthorizedOperations": wanted}
    answer = node.ask("Metadata", 10, {"topics": [{"name": "t"}, {"name": ""}], **every})
    unknown = {"topics": [{"name": None, "topicId": UNKNOWN}], "includeTopicAuthorizedOperations": wanted}
    (nameless,) = node.ask("Metadata", 12, unknown)["topics"]
    cluster = node.ask("DescribeCluster", 2, {"includeClusterAuthorizedOperations": wanted, "endpointType": 1})
    groups = node.ask("DescribeGroups", 5, {"groups": ["g"], "includeAuthorizedOperations": wanted})["groups"]

    of_topic, of_cluster, of_group = (3576, 8096, 3400) if wanted else (UNTOLD, UNTOLD, UNTOLD)
    assert [topic["topicAuthorizedOperations"] for topic in (*answer["topics"], nameless)] == [
        of_topic, of_topic, UNTOLD,
    ]  # fmt: skip
    assert answer["clusterAuthorizedOperations"] == cluster["clusterAuthorizedOperations"] == of_cluster
    assert groups[0]["authorizedOperations"] == of_group
