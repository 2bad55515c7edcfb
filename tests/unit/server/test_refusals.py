"""The responses to messages that the node refuses as a whole."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pylog.config import NodeConfig
from pylog.errors import Closed, KafkaStorage, NotCoordinator, UnknownTopicOrPartition
from pylog.protocol.batch import encode
from pylog.protocol.messages import (
    ClusterMetadata,
    Fetched,
    FetchedPart,
    Metadata,
    PartitionMetadata,
    Session,
    TopicMetadata,
    TopicsChanged,
)
from pylog.protocol.schema import message
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from pylog.server.api.call import Later, Reply, Request
from pylog.server.api.table import APIS
from pylog.server.loop import body_of
from pylog.server.served_node import ServedNode

ERROR = NotCoordinator("elsewhere")
NAMED = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
NUMBERED = [{"name": "t", "partitions": [0]}]
BODIES: dict[tuple[str, int], dict[str, Any]] = {
    ("Fetch", 12): {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]},
    ("ListOffsets", 5): {"topics": NAMED},
    ("OffsetForLeaderEpoch", 4): {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]},
    ("DeleteRecords", 2): {"topics": NAMED},
    ("DeleteTopics", 5): {"topicNames": ["t"]},
    ("DescribeLogDirs", 5): {"topics": None},
    ("AlterReplicaLogDirs", 2): {"dirs": [{"path": "/elsewhere", "topics": NUMBERED}]},
    ("WriteTxnMarkers", 2): {"markers": [{"topics": [{"name": "t", "partitionIndexes": [0]}]}]},
    ("JoinGroup", 0): {"groupId": "g"},
    ("JoinGroup", 9): {"groupId": "g"},
    ("SyncGroup", 0): {"groupId": "g"},
    ("SyncGroup", 5): {"groupId": "g"},
    ("Heartbeat", 4): {"groupId": "g"},
    ("LeaveGroup", 0): {"groupId": "g"},
    ("LeaveGroup", 5): {"groupId": "g"},
    ("ConsumerGroupHeartbeat", 1): {"groupId": "g"},
    ("ConsumerGroupDescribe", 1): {"groupIds": ["g"]},
    ("OffsetCommit", 8): {"groupId": "g", "topics": NAMED},
    ("OffsetFetch", 1): {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0]}]},
    ("OffsetFetch", 5): {"groupId": "g", "topics": None},
    ("OffsetFetch", 9): {"groups": [{"groupId": "g", "topics": None}]},
    ("OffsetDelete", 0): {"groupId": "g", "topics": NAMED},
    ("DescribeGroups", 5): {"groups": ["g"]},
    ("DescribeGroups", 6): {"groups": ["g"]},
    ("DeleteGroups", 2): {"groupsNames": ["g"]},
    ("InitProducerId", 5): {"transactionalId": "tx"},
    ("AddPartitionsToTxn", 3): {"v3AndBelowTransactionalId": "tx", "v3AndBelowTopics": NUMBERED},
    ("AddPartitionsToTxn", 5): {"transactions": [{"transactionalId": "tx", "topics": NUMBERED}]},
    ("AddOffsetsToTxn", 4): {"transactionalId": "tx"},
    ("TxnOffsetCommit", 3): {"transactionalId": "tx", "topics": NAMED},
    ("EndTxn", 5): {"transactionalId": "tx"},
    ("ListTransactions", 2): {},
    ("ListGroups", 5): {},
    ("DescribeTransactions", 0): {"transactionalIds": ["tx"]},
    ("DescribeProducers", 0): {"topics": [{"name": "t", "partitionIndexes": [0]}]},
}  # fmt: skip
CODES = {"errorCode", "partitionErrorCode"}


def raises(asked: Any, session: Session) -> Future[Any]:
    raise ERROR


def fails(asked: Any, session: Session) -> Future[Any]:
    return failed(ERROR)


def node(handle: Callable[[Any, Session], Future[Any]]) -> ServedNode:
    return ServedNode(handle, 1, "cluster", NodeConfig(), SystemClock())


def answered(name: str, version: int, body: dict[str, Any], handle: Callable[[Any, Session], Future[Any]]) -> Any:
    """The response to a request that has been on the wire, decoded."""
    api = next(one for one in APIS.values() if one.name == name)
    decoded, _ = api.request.decode(version, api.request.encode(version, body))
    outcome = api.answer(Request(version, decoded, Session("c", "/h")), node(handle))
    while isinstance(outcome, Later):
        outcome = outcome.call()
    response = body_of(outcome) if isinstance(outcome, Reply) else outcome
    assert isinstance(response, dict)
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

    assert told == ({-1} if name == "DescribeLogDirs" else {ERROR.code})


@pytest.mark.parametrize("refuse", [raises, fails])
def test_an_error_for_a_produce_is_that_of_each_partition(refuse: Callable[[Any, Session], Future[Any]]) -> None:
    def handle(asked: Any, session: Session) -> Future[Any]:
        is_known = isinstance(asked, Metadata)
        return completed(ClusterMetadata([TopicMetadata("t")])) if is_known else refuse(asked, session)

    records = bytes(encode([(b"v", None, 5, ())], now_ms=5).data)
    parts = [{"index": number, "records": records} for number in (0, 1)]
    body = {"acks": 1, "topicData": [{"name": "t", "partitionData": parts}]}

    assert codes(answered("Produce", 9, body, handle)) == {ERROR.code}


def test_a_topic_without_a_leader_is_told_so() -> None:

    def handle(asked: Metadata, session: Session) -> Future[Any]:
        return completed(ClusterMetadata([TopicMetadata("t", None, partitions=[PartitionMetadata(0, -1, 3, [2], [])])]))

    (topic,) = answered("Metadata", 12, {"topics": [{"name": "t"}]}, handle)["topics"]

    assert [(part["errorCode"], part["leaderId"]) for part in topic["partitions"]] == [(5, -1)]


def test_an_error_of_a_topic_that_was_to_be_made_is_told() -> None:

    def handle(asked: Any, session: Session) -> Future[Any]:
        if isinstance(asked, Metadata):
            return completed(ClusterMetadata([TopicMetadata("t", UnknownTopicOrPartition("no"))]))
        return completed(TopicsChanged([KafkaStorage("full")]))

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

    def handle(asked: Metadata, session: Session) -> Future[Any]:
        return completed(ClusterMetadata([TopicMetadata(f"t{one.int}", None, one) for one in asked.topic_ids]))

    served = node(handle)
    topics: list[dict[str, Any]] = [{"topicId": uuid.UUID(int=number)} for number in (1, 1, 2, 3, 1)]

    served.known_names(topics, Session())

    assert [topic["name"] for topic in topics] == ["t1", "t1", "t2", "t3", "t1"]


def test_what_is_known_of_many_topics_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.server.served_node.NAMES_MAX", 2)
    bound = {"retention.bytes": "5", "pylog.full.policy": "block"}
    served = node(lambda asked, session: completed(ClusterMetadata([TopicMetadata("t", config=bound)])))

    assert all(served.append_may_wait(topic, 0, Session()) for topic in ("a", "a", "b", "b", "c", "c", "c") * 2)


def test_a_closed_node_has_no_answer() -> None:
    with pytest.raises(Closed):
        body_of(Reply(failed(Closed("closed")), lambda given: {}, lambda error: {}))


def test_every_key_has_a_refusal_or_needs_none() -> None:
    without = {
        "ApiVersions", "Metadata", "FindCoordinator", "DescribeCluster", "DescribeTopicPartitions", "CreateTopics",
        "CreatePartitions", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs", "Produce",
        "ElectLeaders", "ListPartitionReassignments", "DescribeClientQuotas", "DescribeUserScramCredentials",
        "SaslHandshake", "ListConfigResources", "DescribeQuorum",
    }  # fmt: skip
    assert {api.name for api in APIS.values()} == {name for name, _ in BODIES} | without
    assert all(message(f"{name}Request") for name, _ in BODIES)
