"""Requests about users, places, leaders, coordinators and the quorum, to a node in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pylog
from pylog.broker.follower_fetcher import LeaderEndPoint
from pylog.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    ProtocolError,
)
from pylog.protocol.messages import TRANSACTIONS_TOPIC
from pylog.protocol.messages.topics import MetadataResponse
from pylog.protocol.partitioner import partition_for
from pylog.runtime.future import completed
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


@pytest.mark.parametrize(
    ("leader", "kind", "error"),
    [
        (2, 0, ElectionNotNeeded),
        (2, 1, ElectionNotNeeded),
        (1, 0, PreferredLeaderNotAvailable),
        (1, 1, ElectionNotNeeded),
        (-1, 1, EligibleLeadersNotAvailable),
    ],
)
def test_an_election_goes_by_the_replicas_that_the_cluster_has(
    node: WireNode, leader: int, kind: int, error: type[ProtocolError]
) -> None:
    topic_of = MetadataResponse.MetadataResponseTopic
    part = topic_of.MetadataResponsePartition(
        partition_index=0, leader_id=leader, replica_nodes=[2, 1], isr_nodes=[2, 1]
    )
    known = MetadataResponse(topics=[topic_of(name="t", partitions=[part])])
    there = WireNode(node.log)
    there.served = node.served.but(handle=lambda message, session: completed(known))

    answer = there.ask(
        "ElectLeaders", 2, {"electionType": kind, "topicPartitions": [{"topic": "t", "partitions": [0]}]}
    )

    assert answer["replicaElectionResults"][0]["partitionResult"][0]["errorCode"] == error.code


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


# --- a node that follows another one ---------------------------------------------------------------------------------


def follow(node: WireNode, topic: str, partitions: int, address: tuple[str, int] | None) -> None:
    """Follow node 9 in the last of a topic's partitions."""
    broker = node.log.broker
    role = pylog.Follow(
        topic=topic, topic_id=broker.image.topics[topic].id, partition=partitions - 1, partitions=partitions, leader=9,
        leader_epoch=5,
    )  # fmt: skip
    broker.apply(role, LeaderEndPoint(9, pylog.MemoryTransport(), address=address))


def test_a_copy_names_its_leader_among_the_nodes_of_the_cluster(node: WireNode) -> None:
    node.log.create_topic("t", partitions=2)
    alone = node.ask("DescribeCluster", 1, {})
    follow(node, "t", 2, ("leader", 9094))

    answer = node.ask("DescribeCluster", 1, {})

    assert [one["brokerId"] for one in alone["brokers"]] == [node.served.node_id]
    assert [(one["brokerId"], one["host"]) for one in answer["brokers"]] == [
        (node.served.node_id, "127.0.0.1"), (9, "leader"),
    ]  # fmt: skip
    assert (answer["clusterId"], answer["controllerId"]) == (alone["clusterId"], alone["controllerId"])


@pytest.mark.parametrize("address", [("leader", 9094), None])
@pytest.mark.parametrize("version", [3, 4])
def test_a_copy_names_the_leader_of_a_transaction_as_its_coordinator(
    node: WireNode, version: int, address: tuple[str, int] | None
) -> None:
    node.ask("InitProducerId", 0, {"transactionalId": "tx", "transactionTimeoutMs": 1000})
    count = len(node.log.broker.image.topics[TRANSACTIONS_TOPIC].partitions)
    follow(node, TRANSACTIONS_TOPIC, count, address)
    elsewhere = next(name for name in map(str, range(1000)) if partition_for(name, count) == count - 1)
    here = next(name for name in map(str, range(1000)) if partition_for(name, count) != count - 1)

    def found(key: str) -> tuple[int, str, int]:
        if version < 4:
            one = node.ask("FindCoordinator", version, {"keyType": 1, "key": key})
        else:
            (one,) = node.ask("FindCoordinator", version, {"keyType": 1, "coordinatorKeys": [key]})["coordinators"]
        return one["errorCode"], one["host"], one["nodeId"]

    assert found(here) == (0, "127.0.0.1", node.served.node_id)
    assert found(elsewhere) == ((0, "leader", 9) if address else (15, "", -1))


def test_replicas_and_leaders_are_those_of_the_metadata_log(node: WireNode) -> None:
    node.log.create_topic("t", partitions=2)
    follow(node, "t", 2, ("leader", 9094))
    me = node.served.node_id

    def errors(part: int, *replicas: list[int] | None) -> list[int]:
        asked = [[{"name": "t", "partitions": [{"partitionIndex": part, "replicas": one}]}] for one in replicas]
        answers = [node.ask("AlterPartitionReassignments", 1, {"topics": topics})["responses"] for topics in asked]
        return [one["partitions"][0]["errorCode"] for (one,) in answers]

    assert errors(1, [9, me], [me, 9], [me], [9, 9], [me, 8], [], None) == [0, 0, 39, 39, 39, 39, 85]
    assert errors(0, [me], [9, me]) == [0, 39]
    elected = node.ask("ElectLeaders", 2, {"topicPartitions": [{"topic": "t", "partitions": [0, 1]}]})
    (topic,) = elected["replicaElectionResults"]
    assert [(one["errorCode"], one["errorMessage"]) for one in topic["partitionResult"]] == [
        (84, f"node {me} leads it"), (84, "node 9 leads it"),
    ]  # fmt: skip
