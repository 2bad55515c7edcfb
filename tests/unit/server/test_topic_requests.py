"""Requests that make, delete and describe topics, to a node in memory."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

import pylog
from support.wire_node import WireNode, wire_node


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


def new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "numPartitions": partitions, "replicationFactor": replicas, "assignments": [], "configs": [],
        **more,
    }  # fmt: skip


def create(node: WireNode, *topics: dict[str, Any], version: int = 7, validate: bool = False) -> list[dict[str, Any]]:
    body = {"topics": list(topics), "timeoutMs": 1000, "validateOnly": validate}
    return list(node.ask("CreateTopics", version, body)["topics"])


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_with_its_config(node: WireNode, version: int) -> None:
    configs = [{"name": "retention.ms", "value": "5"}]

    (made,) = create(node, new("t", 3, configs=configs), version=version)

    assert made["errorCode"] == 0
    assert len(node.log.topic("t")) == 3
    if version >= 5:
        assert (made["numPartitions"], made["replicationFactor"]) == (3, 1)
        found = {one["name"]: (one["value"], one["configSource"]) for one in made["configs"]}
        assert found["retention.ms"] == ("5", 1)
        assert found["segment.ms"][1] == 5
    if version >= 7:
        assert made["topicId"] == node.log.broker.image.topics["t"].id


def test_each_topic_has_its_own_error(node: WireNode) -> None:
    node.log.create_topic("there")
    assignment = [{"partitionIndex": 0, "brokerIds": [99]}]
    gap = [{"partitionIndex": 1, "brokerIds": [1]}]

    results = create(
        node, new("good"), new("there"), new("twice"), new("twice"), new("many", replicas=3), new("bad name"),
        new("none", 0), new("wrong", configs=[{"name": "retention.ms", "value": "x"}]),
        new("away", -1, -1, assignments=assignment), new("gap", -1, -1, assignments=gap),
        new("both", 1, 1, assignments=assignment),
    )  # fmt: skip

    assert [one["errorCode"] for one in results] == [0, 36, 42, 42, 38, 17, 37, 40, 39, 39, 42]
    assert all(one["errorMessage"] for one in results[1:])
    assert node.log.topics() == ["good", "there"]


def test_a_wrong_config_is_told_before_a_wrong_number_of_partitions(node: WireNode) -> None:
    topic = {
        "name": "t",
        "numPartitions": 0,
        "replicationFactor": 1,
        "configs": [{"name": "retention.ms", "value": "x"}],
    }
    (answer,) = node.ask("CreateTopics", 7, {"topics": [topic], "timeoutMs": 1})["topics"]
    assert answer["errorCode"] == 40


def test_an_assignment_to_this_node_makes_its_partitions(node: WireNode) -> None:
    assignment = [{"partitionIndex": number, "brokerIds": [node.log.node_id]} for number in (1, 0)]

    (made,) = create(node, new("t", -1, -1, assignments=assignment))

    assert (made["errorCode"], made["numPartitions"]) == (0, 2)


def test_defaults_of_the_node_stand_for_minus_one() -> None:
    with wire_node(num_partitions=4) as node:
        (made,) = create(node, new("t", -1, -1))

        assert made["numPartitions"] == 4


def test_validation_alone_makes_nothing(node: WireNode) -> None:
    (valid, wrong) = create(node, new("t", -1), new("u", 0), validate=True)

    assert (valid["errorCode"], valid["numPartitions"]) == (0, 1)
    assert wrong["errorCode"] == 37
    assert node.log.topics() == []


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(node: WireNode, version: int) -> None:
    node.log.create_topic("t")

    responses = node.ask("DeleteTopics", version, {"topicNames": ["t", "none"], "timeoutMs": 1})["responses"]

    assert [(one["name"], one["errorCode"]) for one in responses] == [("t", 0), ("none", 3)]
    assert node.log.topics() == []


def test_topics_are_deleted_by_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.log.broker.image.topics["t"].id
    asked = [{"name": None, "topicId": topic_id}, {"name": "none"}, {"name": ""}]

    responses = node.ask("DeleteTopics", 6, {"topics": asked, "timeoutMs": 1})["responses"]
    (gone,) = node.ask("DeleteTopics", 6, {"topics": asked[:1], "timeoutMs": 1})["responses"]

    assert [(one["name"], one["errorCode"]) for one in responses] == [("t", 0), ("none", 3), ("", 3)]
    assert (gone["name"], gone["errorCode"]) == (None, 100)


def test_a_topic_that_is_deleted_by_its_name_is_told_with_its_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.log.broker.image.topics["t"].id
    asked = [{"name": "t"}, {"name": "none"}]
    responses = node.ask("DeleteTopics", 6, {"topics": asked, "timeoutMs": 1})["responses"]
    assert [one["topicId"] for one in responses] == [topic_id, UUID(int=0)]


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_more_partitions(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    assigned = [{"brokerIds": [node.log.node_id]}]
    topics = [
        {"name": "t", "count": 2, "assignments": assigned},
        {"name": "none", "count": 2, "assignments": None},
    ]  # fmt: skip

    dry = node.ask("CreatePartitions", version, {"topics": topics[:1], "timeoutMs": 1, "validateOnly": True})
    assert len(node.log.topic("t")) == 1
    results = node.ask("CreatePartitions", version, {"topics": topics, "timeoutMs": 1, "validateOnly": False})

    assert [one["errorCode"] for one in dry["results"]] == [0]
    assert [one["errorCode"] for one in results["results"]] == [0, 3]
    assert len(node.log.topic("t")) == 2


@pytest.mark.parametrize("assigned", [[], [{"brokerIds": [99]}]])
def test_partitions_are_not_assigned_elsewhere(node: WireNode, assigned: list[dict[str, Any]]) -> None:
    node.log.create_topic("t")
    topics = [{"name": "t", "count": 2, "assignments": assigned}]

    (result,) = node.ask("CreatePartitions", 3, {"topics": topics, "timeoutMs": 1, "validateOnly": False})["results"]

    assert result["errorCode"] == 39


def test_a_topic_that_is_named_twice_gets_no_partitions(node: WireNode) -> None:
    node.log.create_topic("t")
    topics = [{"name": "t", "count": 2, "assignments": None}] * 2

    results = node.ask("CreatePartitions", 3, {"topics": topics, "timeoutMs": 1, "validateOnly": False})["results"]

    assert [one["errorCode"] for one in results] == [42, 42]


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_node(node: WireNode, version: int) -> None:
    response = node.ask("DescribeCluster", version, {})

    assert response["clusterId"] == node.log.broker.cluster_id
    assert [(one["brokerId"], one["port"]) for one in response["brokers"]] == [(node.log.node_id, 9092)]
    if version >= 1:
        assert node.ask("DescribeCluster", version, {"endpointType": 2})["errorCode"] == 114
        assert node.ask("DescribeCluster", version, {"endpointType": 9})["errorCode"] == 115


def test_topics_are_described_page_by_page(node: WireNode) -> None:
    for name in ("c", "a", "b"):
        node.log.create_topic(name, 2)
    seen: list[tuple[str, int]] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        body = {"topics": [], "responsePartitionLimit": 3, "cursor": cursor}
        response = node.ask("DescribeTopicPartitions", 0, body)
        seen += [
            (topic["name"], part["partitionIndex"]) for topic in response["topics"] for part in topic["partitions"]
        ]
        cursor, pages = response["nextCursor"], pages + 1

    assert pages == 2
    assert seen == [(name, number) for name in "abc" for number in (0, 1)]


def test_a_page_that_ends_with_a_topic_names_the_next_one(node: WireNode) -> None:
    for name in ("a", "b"):
        node.log.create_topic(name, 2)
    asked = {"topics": [], "responsePartitionLimit": 2}

    response = node.ask("DescribeTopicPartitions", 0, asked)

    assert [topic["name"] for topic in response["topics"]] == ["a"]
    assert response["nextCursor"] == {"topicName": "b", "partitionIndex": 0}


def test_a_missing_topic_is_described_as_missing(node: WireNode) -> None:
    (topic,) = node.ask("DescribeTopicPartitions", 0, {"topics": [{"name": "none"}]})["topics"]

    assert topic["errorCode"] == 3


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_have_sizes(node: WireNode, version: int) -> None:
    node.log.create_topic("t", 2)
    for view in node.log.topic("t"):
        view.append([pylog.Record(b"v" * 100)])

    (everything,) = node.ask("DescribeLogDirs", version, {"topics": None})["results"]
    (one,) = node.ask("DescribeLogDirs", version, {"topics": [{"topic": "t", "partitions": [1]}]})["results"]

    assert [part["partitionIndex"] for topic in one["topics"] for part in topic["partitions"]] == [1]
    assert all(part["partitionSize"] > 100 for topic in everything["topics"] for part in topic["partitions"])


@pytest.mark.parametrize("cursor", [("t", -1), ("none", 0)])
def test_a_page_does_not_begin_at_what_was_not_asked_for(node: WireNode, cursor: tuple[str, int]) -> None:
    node.log.create_topic("t")
    place = dict(zip(("topicName", "partitionIndex"), cursor, strict=True))

    response = node.ask("DescribeTopicPartitions", 0, {"topics": [{"name": "t"}], "cursor": place})

    assert [topic["errorCode"] for topic in response["topics"]] == [42]


def test_a_name_or_a_config_is_refused_before_a_number(node: WireNode) -> None:
    node.log.create_topic("there")
    assigned = {"assignments": [{"partitionIndex": 0, "brokerIds": [99]}]}
    config = {"configs": [{"name": "retention.ms", "value": "x"}]}
    bare = {"configs": [{"name": "retention.ms", "value": None}]}

    made = create(
        node, new("there", 5, 5), new("a b", **assigned), new("bad", **assigned, **config), new("many", 1, 5),
        new("bare", 0, **bare),
    )  # fmt: skip
    asked = [
        {"name": name, "count": count, "assignments": [{"brokerIds": [99]}]}
        for name, count in (("none", 2), ("there", 1))
    ]
    grown = node.ask("CreatePartitions", 3, {"topics": asked, "timeoutMs": 1000})["results"]

    assert [one["errorCode"] for one in made] == [36, 17, 40, 38, 40]
    assert [one["errorCode"] for one in grown] == [3, 37]
    assert node.log.topics() == ["there"]


@pytest.mark.parametrize("version", [5, 6])
def test_a_topic_is_deleted_where_it_is_named_once(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    node.log.create_topic("u")
    topic_id = node.log.broker.image.topics["t"].id
    twice = ["t", "t", "u"]
    asked = {"topicNames": twice} if version < 6 else {"topics": [{"name": name} for name in twice]}

    responses = node.ask("DeleteTopics", version, {**asked, "timeoutMs": 1})["responses"]
    in_both_ways = [{"name": "t"}, {"name": None, "topicId": topic_id}]
    same = node.ask("DeleteTopics", 6, {"topics": in_both_ways, "timeoutMs": 1})["responses"]
    both = [{"name": "t", "topicId": topic_id}, {"name": None}, {"name": "t"}]
    wrong = node.ask("DeleteTopics", 6, {"topics": both, "timeoutMs": 1})["responses"]

    assert [(one["name"], one["errorCode"]) for one in responses] == [("t", 42), ("t", 42), ("u", 0)]
    assert [(one["name"], one["topicId"], one["errorCode"]) for one in same] == [("t", topic_id, 42)] * 2
    assert [one["errorCode"] for one in wrong] == [42, 42, 0]
    assert node.log.topics() == []


def test_a_full_page_ends_before_a_topic_that_is_not_there(node: WireNode) -> None:
    node.log.create_topic("a")
    asked = {"topics": [{"name": "a"}, {"name": "none"}], "responsePartitionLimit": 1}

    first = node.ask("DescribeTopicPartitions", 0, asked)
    second = node.ask("DescribeTopicPartitions", 0, {**asked, "cursor": first["nextCursor"]})

    assert first["nextCursor"] == {"topicName": "none", "partitionIndex": 0}
    assert [topic["name"] for page in (first, second) for topic in page["topics"]] == ["a", "none"]
    assert second["nextCursor"] is None
