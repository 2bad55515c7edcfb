"""Requests about users, places, elections and the quorum, to a node in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pylog
from pylog.errors import InvalidRequest
from support.wire_node import WireNode, wire_node


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


@pytest.mark.parametrize("version", range(3))
def test_no_leader_is_elected_where_the_only_replica_leads(node: WireNode, version: int) -> None:
    node.log.create_topic("t")

    answer = node.ask("ElectLeaders", version, {"topicPartitions": [{"topic": "t", "partitions": [0, 9]}]})

    (topic,) = answer["replicaElectionResults"]
    assert [one["errorCode"] for one in topic["partitionResult"]] == [84, 3]
    every = node.ask("ElectLeaders", version, {"topicPartitions": None})
    assert every["replicaElectionResults"] == [{"topic": "t", "partitionResult": []}]


@pytest.mark.parametrize("version", [1, 2])
def test_an_election_of_another_type_is_refused(node: WireNode, version: int) -> None:
    asked = {"electionType": 2, "topicPartitions": [{"topic": "t", "partitions": [0]}]}

    answer = node.ask("ElectLeaders", version, asked)

    assert answer["errorCode"] == InvalidRequest.code
    assert answer["replicaElectionResults"][0]["partitionResult"][0]["errorCode"] == InvalidRequest.code
    assert node.ask("ElectLeaders", version, {**asked, "topicPartitions": []})["errorCode"] == 0


def test_the_answer_to_a_reassignment_says_what_was_allowed(node: WireNode) -> None:
    part = {"partitionIndex": 0, "replicas": [1]}
    for topics, allowed in (([{"name": "none", "partitions": [part]}], False), ([], True)):
        asked = {"allowReplicationFactorChange": False, "topics": topics}
        assert node.ask("AlterPartitionReassignments", 1, asked)["allowReplicationFactorChange"] is allowed


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
