"""Requests that make, change and describe topics and configs, to a node in memory."""

from collections.abc import Iterator
from pathlib import Path
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


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_with_its_config(node: WireNode, version: int) -> None:
    configs = [{"name": "retention.ms", "value": "5"}, {"name": "segment.ms", "value": None}]

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
    asked = [{"name": None, "topicId": topic_id}, {"name": "none"}]

    responses = node.ask("DeleteTopics", 6, {"topics": asked, "timeoutMs": 1})["responses"]
    (gone,) = node.ask("DeleteTopics", 6, {"topics": asked[:1], "timeoutMs": 1})["responses"]

    assert [(one["name"], one["errorCode"]) for one in responses] == [("t", 0), ("none", 3)]
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


# --- descriptions -----------------------------------------------------------------------------------------------------


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


# --- configs ----------------------------------------------------------------------------------------------------------


def described(node: WireNode, version: int = 4, **resource: Any) -> dict[str, Any]:
    asked = {"resourceType": 2, "resourceName": "t", "configurationKeys": None, **resource}
    (result,) = node.ask("DescribeConfigs", version, {"resources": [asked], "includeSynonyms": True})["results"]
    return dict(result)


@pytest.mark.parametrize("version", range(1, 5))
def test_a_config_of_a_topic_says_where_it_comes_from(version: int) -> None:
    with wire_node(log_retention_ms=77) as node:
        node.log.create_topic("t", config={"segment.bytes": 2_000_000})

        configs = {one["name"]: one for one in described(node, version)["configs"]}

        assert [configs[name]["configSource"] for name in ("segment.bytes", "retention.ms", "segment.ms")] == [1, 4, 5]
        synonyms = configs["retention.ms"]["synonyms"]
        assert [(one["name"], one["value"], one["source"]) for one in synonyms] == [
            ("log.retention.ms", "77", 4), ("log.retention.ms", "-1", 5),
        ]  # fmt: skip
        if version >= 3:
            types = [configs[name]["configType"] for name in ("segment.bytes", "retention.ms", "preallocate")]
            assert types == [3, 5, 1]


def test_the_configs_of_the_node_are_read_only(node: WireNode) -> None:
    name = str(node.log.node_id)

    configs = {one["name"]: one for one in described(node, resourceType=4, resourceName=name)["configs"]}

    assert configs["offsets.topic.num.partitions"]["configSource"] == 4
    assert configs["log.segment.bytes"]["configType"] == 3
    assert all(one["readOnly"] for one in configs.values())


def test_only_the_configs_that_are_asked_for_are_described(node: WireNode) -> None:
    node.log.create_topic("t")

    configs = described(node, configurationKeys=["retention.ms", "none"])["configs"]

    assert [one["name"] for one in configs] == ["retention.ms"]


@pytest.mark.parametrize(
    ("resource", "code"), [({"resourceName": "none"}, 3), ({"resourceType": 4}, 42), ({"resourceType": 8}, 42)]
)
def test_what_has_no_configs_is_an_error(node: WireNode, resource: dict[str, Any], code: int) -> None:
    result = described(node, **resource)

    assert (result["errorCode"], result["configs"]) == (code, [])


def alter(node: WireNode, *changes: tuple[str, int, str | None], validate: bool = False, **more: Any) -> int:
    configs = [{"name": name, "configOperation": operation, "value": value} for name, operation, value in changes]
    resource = {"resourceType": 2, "resourceName": "t", "configs": configs, **more}
    (result,) = node.ask(
        "IncrementalAlterConfigs", 1, {"resources": [resource], "validateOnly": validate}
    )["responses"]  # fmt: skip
    return int(result["errorCode"])


def overrides(node: WireNode) -> dict[str, str]:
    return dict(node.log.broker.image.topics["t"].config)


def test_single_configs_are_set_appended_to_subtracted_from_and_deleted(node: WireNode) -> None:
    node.log.create_topic("t")

    assert alter(node, ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact")) == 0
    assert overrides(node) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert alter(node, ("retention.ms", 1, None), ("cleanup.policy", 3, "delete")) == 0
    assert overrides(node) == {"cleanup.policy": "compact"}


def test_changes_that_make_no_sense_change_nothing(node: WireNode) -> None:
    node.log.create_topic("t")

    assert alter(node, ("retention.ms", 9, "5")) == 42
    assert alter(node, ("retention.ms", 0, "5"), ("retention.ms", 0, "6")) == 42
    assert alter(node, ("retention.ms", 0, "x")) == 40
    assert alter(node, ("retention.ms", 0, "5"), validate=True) == 0
    assert alter(node, ("a", 0, "5"), resourceType=4, resourceName="") == 42
    assert alter(node, ("retention.ms", 0, "5"), resourceName="none") == 3
    assert alter(node, ("retention.ms", 0, "x"), resourceName="none") == 40
    assert alter(node, ("retention.ms", 2, "5"), resourceName="none") == 40
    assert alter(node, ("retention.ms", 0, None)) == 40
    assert overrides(node) == {}


@pytest.mark.parametrize("version", range(3))
def test_all_configs_are_replaced_at_once(node: WireNode, version: int) -> None:
    node.log.create_topic("t", config={"retention.ms": 5, "segment.ms": 6})
    configs = [{"name": "segment.ms", "value": "7"}, {"name": "preallocate", "value": "true"}]
    resource = {"resourceType": 2, "resourceName": "t", "configs": configs}

    (result,) = node.ask("AlterConfigs", version, {"resources": [resource], "validateOnly": False})["responses"]

    assert result["errorCode"] == 0
    assert overrides(node) == {"segment.ms": "7", "preallocate": "true"}


def test_a_resource_that_is_named_twice_is_refused(node: WireNode) -> None:
    node.log.create_topic("t")
    resource = {"resourceType": 2, "resourceName": "t", "configs": [{"name": "retention.ms", "value": None}]}

    once = node.ask("AlterConfigs", 2, {"resources": [resource], "validateOnly": False})["responses"]
    twice = node.ask("AlterConfigs", 2, {"resources": [resource] * 2, "validateOnly": False})["responses"]

    assert [one["errorCode"] for one in once] == [40]
    assert [one["errorCode"] for one in twice] == [42, 42]


# --- one node ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_no_leader_is_elected_where_the_only_replica_leads(node: WireNode, version: int) -> None:
    node.log.create_topic("t")

    answer = node.ask("ElectLeaders", version, {"topicPartitions": [{"topic": "t", "partitions": [0, 9]}]})

    (topic,) = answer["replicaElectionResults"]
    assert [one["errorCode"] for one in topic["partitionResult"]] == [84, 3]
    assert node.ask("ElectLeaders", version, {"topicPartitions": None})["replicaElectionResults"] == []


def test_nothing_moves_and_nothing_is_limited(node: WireNode) -> None:
    assert node.ask("ListPartitionReassignments", 0, {"topics": None})["topics"] == []
    assert node.ask("DescribeClientQuotas", 1, {"components": []})["entries"] == []


def test_users_are_set_and_described(node: WireNode) -> None:
    change = {"name": "ann", "mechanism": 1, "iterations": 4096, "salt": b"s" * 16, "saltedPassword": b"p" * 32}
    body = {"deletions": [{"name": "bob", "mechanism": 1}], "upsertions": [change]}

    results = node.ask("AlterUserScramCredentials", 0, body)["results"]
    assert {one["user"]: one["errorCode"] for one in results} == {"ann": 0, "bob": 91}
    answer = node.ask("DescribeUserScramCredentials", 0, {"users": [{"name": "ann"}, {"name": "bob"}]})
    assert [(one["user"], one["errorCode"]) for one in answer["results"]] == [("ann", 0), ("bob", 91)]
    assert answer["results"][0]["credentialInfos"] == [{"mechanism": 1, "iterations": 4096}]
    for users in (None, []):
        assert len(node.ask("DescribeUserScramCredentials", 0, {"users": users})["results"]) == 1


def test_a_plain_listener_has_no_sasl(node: WireNode) -> None:
    assert node.ask("SaslHandshake", 1, {"mechanism": "PLAIN"}) == {"errorCode": 34, "mechanisms": []}


def test_resources_with_configs_are_listed(node: WireNode) -> None:
    node.log.create_topic("t")
    broker = str(node.served.node_id)

    def listed(*kinds: int) -> list[tuple[str, int]]:
        answer = node.ask("ListConfigResources", 1, {"resourceTypes": list(kinds)})
        return [(one["resourceName"], one["resourceType"]) for one in answer["configResources"]]

    assert listed() == [("t", 2), (broker, 4)]
    assert listed(2) == [("t", 2)]
    assert listed(4) == [(broker, 4)]
    assert listed(8, 16, 32) == []
    assert node.ask("ListConfigResources", 1, {"resourceTypes": [3]})["errorCode"] == 35
    assert node.ask("ListConfigResources", 0, {})["configResources"] == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_does_not_move_where_there_is_no_directory(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    dirs = [{"path": "/elsewhere", "topics": [{"name": "t", "partitions": [0, 9]}]}]

    (topic,) = node.ask("AlterReplicaLogDirs", version, {"dirs": dirs})["results"]

    assert [(one["partitionIndex"], one["errorCode"]) for one in topic["partitions"]] == [(0, 57), (9, 3)]


def test_a_partition_moves_to_another_directory(tmp_path: Path) -> None:
    places = [str(tmp_path / name) for name in ("a", "b")]
    with pylog.open(places, flush="none") as log:
        log.create_topic("t")
        node = WireNode(log)
        where = dict.fromkeys(places, 0)
        for path in places:
            dirs = [{"path": path, "topics": [{"name": "t", "partitions": [0]}]}]
            (topic,) = node.ask("AlterReplicaLogDirs", 2, {"dirs": dirs})["results"]
            assert topic["partitions"][0]["errorCode"] == 0
            for one in node.ask("DescribeLogDirs", 4, {"topics": None})["results"]:
                where[one["logDir"]] = len(one["topics"])
            assert where[path] == 1
            assert sum(where.values()) == 1


@pytest.mark.parametrize("version", range(3))
def test_the_node_is_the_only_voter_of_its_quorum(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    asked = [
        {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}, {"partitionIndex": 1}]},
        {"topicName": "t", "partitions": [{"partitionIndex": 0}]},
    ]

    answer = node.ask("DescribeQuorum", version, {"topics": asked})

    (there, absent), (other,) = (topic["partitions"] for topic in answer["topics"])
    (voter,) = there["currentVoters"]
    assert there["leaderId"] == voter["replicaId"] == node.served.node_id
    assert 0 < there["highWatermark"] == voter["logEndOffset"]
    assert (absent["errorCode"], other["errorCode"]) == (3, 3)
    if version >= 2:
        assert answer["nodes"][0]["listeners"] == [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092}]


def test_the_quorum_of_a_log_without_topics_is_at_its_beginning(node: WireNode) -> None:
    asked = [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]

    (topic,) = node.ask("DescribeQuorum", 2, {"topics": asked})["topics"]

    assert (topic["partitions"][0]["errorCode"], topic["partitions"][0]["highWatermark"]) == (0, 0)
