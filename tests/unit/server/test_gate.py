"""The gate of a server with an authorizer: each API key, by what one ACL allows, and what leaks to those without one.

Codes are those of Kafka 4.3.1: `conformance/test_kafka_acls.py` asks both.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

import pylog
from pylog import AclBinding, AclOperation, AclPermissionType, AclResourceType, PatternType
from pylog.protocol.messages import Session
from pylog.protocol.messages.requests import REQUESTS
from pylog.protocol.schema.table import load
from pylog.server.api.table import APIS
from pylog.server.gate.needs import refusal
from pylog.server.gate.table import RULES
from support.every_request import errors_in, fitting, requests_for
from support.wire_node import WireNode

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
O = AclOperation  # noqa: E741
REFUSALS = {
    "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}  # fmt: skip
NO_TOPIC = "TOPIC_AUTHORIZATION_FAILED"
KAFKA_CLUSTER = "kafka-cluster"
FREE = {
    # Nothing is needed, or what is not there is not told.
    "ApiVersions", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry", "DescribeCluster",
    "ListGroups", "ListTransactions", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
    "DescribeDelegationToken", "AlterClientQuotas",
}  # fmt: skip


class Guarded(WireNode):
    """A node with topic "t", and clients by name."""

    def __init__(self, log: pylog.Log, authorizer: object = "standard") -> None:
        super().__init__(log, authorizer=authorizer)
        self.log.create_topic("t", exist_ok=True)
        self.topic_id = log.broker.image.topics["t"].id

    def allow(self, operation: AclOperation, kind: AclResourceType, name: str, user: str = "User:alice") -> None:
        self.log.admin.create_acls([AclBinding(kind, name, user, operation)])

    def deny(self, operation: AclOperation, kind: AclResourceType, name: str, user: str = "User:alice") -> None:
        denial = AclBinding(kind, name, user, operation, permission_type=AclPermissionType.DENY)
        self.log.admin.create_acls([denial])

    def errors(self, name: str, user: str | None, topic: str = "t") -> set[str]:
        """The errors in the answer to a key, in its highest version."""
        body, _ = requests_for(topic, self.topic_id if topic == "t" else UUID(int=5))[name]
        version = next(one for one in APIS.values() if one.name == name).high
        return errors_in(self.ask(name, version, fitting(load(f"{name}Request").fields, version, body), user))

    def every(self, user: str | None, topic: str = "t") -> dict[str, set[str]]:
        """The errors in the answers to all keys."""
        return {name: self.errors(name, user, topic) for name in requests_for(topic, self.topic_id)}


@pytest.fixture
def node() -> Iterator[Guarded]:
    with pylog.open(":memory:", config={"offsets_topic_num_partitions": 1, "super.users": "User:root"}) as log:
        yield Guarded(log)


def test_every_message_that_is_handed_on_has_a_rule() -> None:
    of_brokers = {name for name in REQUESTS if name.endswith(("ShareGroupState", "StateSummary"))}
    judged_elsewhere = of_brokers | {"Metadata", "WriteTxnMarkers"}
    assert {kind.api_name() for kind in REQUESTS.values()} - {kind.__name__[:-7] for kind in RULES} == judged_elsewhere


def test_a_client_without_acls_may_do_nothing(node: Guarded) -> None:
    for topic in ("t", "absent"):
        for name, codes in node.every("User:alice", topic).items():
            if name not in FREE:
                assert codes & (REFUSALS | BY_ID.get(name, set())), (name, codes)
                assert not codes - REFUSALS - {"OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_ID"}, (name, codes)


def test_what_is_there_is_not_told_to_those_who_may_not_describe_it(node: Guarded) -> None:
    there, absent = node.every("User:alice", "t"), node.every("User:alice", "absent")
    for name in there.keys() - BY_ID.keys():
        assert there[name] == absent[name], name


BY_ID = {name: {"UNKNOWN_TOPIC_ID"} for name in ("Produce", "Fetch")}
"""Ids of topics are no secret."""


def test_a_super_user_is_answered_as_without_an_authorizer(node: Guarded) -> None:
    free, judged = Guarded(node.log, None).every("User:root"), node.every("User:root")
    keys_of_acls = "DescribeAcls", "CreateAcls", "DeleteAcls"
    for name in free.keys() - {*keys_of_acls, *(one for one in free if one.endswith("DelegationToken"))}:
        assert judged[name] == free[name], name
    assert all(judged[name] == set() for name in keys_of_acls)


ROWS = [
    ("Produce", O.WRITE, TOPIC, "t"),
    ("Fetch", O.READ, TOPIC, "t"),
    ("ListOffsets", O.DESCRIBE, TOPIC, "t"),
    ("Metadata", O.DESCRIBE, TOPIC, "t"),
    ("OffsetForLeaderEpoch", O.DESCRIBE, TOPIC, "t"),
    ("OffsetForLeaderEpoch", O.CLUSTER_ACTION, CLUSTER, KAFKA_CLUSTER),
    ("DeleteRecords", O.DELETE, TOPIC, "t"),
    ("DescribeProducers", O.READ, TOPIC, "t"),
    ("DescribeTopicPartitions", O.DESCRIBE, TOPIC, "t"),
    ("CreateTopics", O.CREATE, TOPIC, "t"),
    ("CreateTopics", O.CREATE, CLUSTER, KAFKA_CLUSTER),
    ("CreatePartitions", O.ALTER, TOPIC, "t"),
    ("DeleteTopics", O.DELETE, TOPIC, "absent"),
    ("DeleteTopics", O.DELETE, CLUSTER, KAFKA_CLUSTER),
    ("AlterConfigs", O.ALTER_CONFIGS, TOPIC, "t"),
    ("IncrementalAlterConfigs", O.ALTER_CONFIGS, TOPIC, "t"),
    ("DescribeConfigs", O.DESCRIBE_CONFIGS, TOPIC, "t"),
    ("FindCoordinator", O.DESCRIBE, GROUP, "absent"),
    ("JoinGroup", O.READ, GROUP, "absent"),
    ("SyncGroup", O.READ, GROUP, "absent"),
    ("Heartbeat", O.READ, GROUP, "absent"),
    ("LeaveGroup", O.READ, GROUP, "absent"),
    ("DescribeGroups", O.DESCRIBE, GROUP, "absent"),
    ("DeleteGroups", O.DELETE, GROUP, "absent"),
    ("ConsumerGroupHeartbeat", O.READ, GROUP, "absent"),
    ("ConsumerGroupDescribe", O.DESCRIBE, GROUP, "absent"),
    ("InitProducerId", O.IDEMPOTENT_WRITE, CLUSTER, KAFKA_CLUSTER),
    ("InitProducerId", O.WRITE, TOPIC, "whichever"),
    ("EndTxn", O.WRITE, TRANSACTIONAL_ID, "absent"),
    ("DescribeTransactions", O.DESCRIBE, TRANSACTIONAL_ID, "absent"),
    ("AddPartitionsToTxn", O.CLUSTER_ACTION, CLUSTER, KAFKA_CLUSTER),
    ("WriteTxnMarkers", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("WriteTxnMarkers", O.CLUSTER_ACTION, CLUSTER, KAFKA_CLUSTER),
    ("DescribeAcls", O.DESCRIBE, CLUSTER, KAFKA_CLUSTER),
    ("CreateAcls", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("DeleteAcls", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("AlterReplicaLogDirs", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("DescribeLogDirs", O.DESCRIBE, CLUSTER, KAFKA_CLUSTER),
    ("ElectLeaders", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("AlterPartitionReassignments", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("ListPartitionReassignments", O.DESCRIBE, CLUSTER, KAFKA_CLUSTER),
    ("DescribeUserScramCredentials", O.DESCRIBE, CLUSTER, KAFKA_CLUSTER),
    ("AlterUserScramCredentials", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("DescribeClientQuotas", O.DESCRIBE_CONFIGS, CLUSTER, KAFKA_CLUSTER),
    ("DescribeQuorum", O.DESCRIBE, CLUSTER, KAFKA_CLUSTER),
    ("UpdateFeatures", O.ALTER, CLUSTER, KAFKA_CLUSTER),
    ("ListConfigResources", O.DESCRIBE_CONFIGS, CLUSTER, KAFKA_CLUSTER),
]


@pytest.mark.parametrize(("name", "operation", "kind", "resource"), ROWS)
def test_one_acl_is_what_a_key_needs(
    node: Guarded, name: str, operation: AclOperation, kind: AclResourceType, resource: str
) -> None:
    node.allow(operation, kind, resource)
    assert not node.errors(name, "User:alice") & REFUSALS
    assert node.errors(name, "User:bob") & REFUSALS


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("OffsetCommit", [(O.READ, GROUP, "every"), (O.READ, TOPIC, "t")]),
        ("OffsetFetch", [(O.DESCRIBE, GROUP, "every"), (O.DESCRIBE, TOPIC, "t")]),
        ("AddOffsetsToTxn", [(O.WRITE, TRANSACTIONAL_ID, "absent"), (O.READ, GROUP, "absent")]),
        (
            "TxnOffsetCommit",
            [(O.WRITE, TRANSACTIONAL_ID, "absent"), (O.READ, GROUP, "every"), (O.READ, TOPIC, "t")],
        ),
    ],
)
def test_several_acls_are_what_some_keys_need(
    node: Guarded, name: str, needs: list[tuple[AclOperation, AclResourceType, str]]
) -> None:
    for operation, kind, resource in needs:
        assert refusal(kind).kafka_name in node.errors(name, "User:alice"), kind
        node.allow(operation, kind, resource)
    assert not node.errors(name, "User:alice") & REFUSALS


def test_where_a_partition_is_refused_none_joins_a_transaction(node: Guarded) -> None:
    for kind, name in ((TRANSACTIONAL_ID, "id"), (TOPIC, "t"), (TOPIC, "absent")):
        node.allow(O.WRITE, kind, name)
    topics = [{"name": name, "partitions": [0]} for name in ("t", "u", "absent", "__consumer_offsets")]
    body = {"v3AndBelowTransactionalId": "id", "v3AndBelowProducerId": 1, "v3AndBelowProducerEpoch": 0}
    told = node.ask("AddPartitionsToTxn", 3, {**body, "v3AndBelowTopics": topics}, "User:alice")
    found = {one["name"]: one["resultsByPartition"][0] for one in told["resultsByTopicV3AndBelow"]}
    assert [found[one["name"]]["partitionErrorCode"] for one in topics] == [55, 29, 3, 29]


# --- partial answers --------------------------------------------------------------------------------------------------


def test_a_fetch_gives_what_may_be_read_and_refuses_the_rest(node: Guarded) -> None:
    node.log.create_topic("u")
    node.log.topic("t")[0].append([pylog.Record(b"x")])
    node.allow(O.READ, TOPIC, "t")
    other = node.log.broker.image.topics["u"].id
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    topics = [{"topicId": one, "partitions": [part]} for one in (node.topic_id, other, UUID(int=9))]
    answer = node.ask("Fetch", 13, {"maxBytes": 1000, "maxWaitMs": 0, "topics": topics}, "User:alice")
    found = {one["topicId"]: one["partitions"][0] for one in answer["responses"]}
    assert [found[one["topicId"]]["errorCode"] for one in topics] == [0, 29, 100]
    assert found[node.topic_id]["records"]
    assert not found[other]["records"]


def test_a_session_of_fetches_is_judged_at_each_of_them(node: Guarded) -> None:
    node.allow(O.READ, TOPIC, "t")
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body = {"maxBytes": 1000, "maxWaitMs": 0, "sessionEpoch": 0}
    begun = node.ask(
        "Fetch", 13, {**body, "topics": [{"topicId": node.topic_id, "partitions": [part]}]}, "User:alice"
    )  # fmt: skip
    assert begun["sessionId"]
    node.log.admin.delete_acls([pylog.AclBindingFilter()])
    later = node.ask(
        "Fetch", 13, {**body, "sessionId": begun["sessionId"], "sessionEpoch": 1, "topics": []}, "User:alice"
    )  # fmt: skip
    assert [one["errorCode"] for topic in later["responses"] for one in topic["partitions"]] == [29]


def test_metadata_names_no_topic_that_may_not_be_described(node: Guarded) -> None:
    node.log.create_topic("u")
    node.allow(O.DESCRIBE, TOPIC, "t")
    every = node.ask("Metadata", 12, {"topics": None, "includeTopicAuthorizedOperations": True}, "User:alice")
    assert [(one["name"], one["topicAuthorizedOperations"]) for one in every["topics"]] == [("t", 1 << O.DESCRIBE)]
    named = {"topics": [{"name": "t"}, {"name": "u"}, {"name": "absent"}], "allowAutoTopicCreation": False}
    told = node.ask("Metadata", 12, named, "User:alice")["topics"]
    assert sorted((one["name"], one["errorCode"], one["topicId"].int == 0) for one in told) == [
        ("absent", 29, True), ("t", 0, False), ("u", 29, True),
    ]  # fmt: skip
    other = node.log.broker.image.topics["u"].id
    by_id = node.ask("Metadata", 12, {"topics": [{"topicId": other, "name": None}]}, "User:alice")["topics"]
    assert [(one["name"], one["errorCode"], one["topicId"]) for one in by_id] == [(None, 29, other)]


def test_a_topic_is_made_for_those_who_may_make_it(node: Guarded) -> None:
    node.allow(O.DESCRIBE, TOPIC, "*")
    asked = {"topics": [{"name": "new"}], "allowAutoTopicCreation": True}
    assert node.ask("Metadata", 12, asked, "User:alice")["topics"][0]["errorCode"] == 29
    assert "new" not in node.log.broker.image.topics
    node.allow(O.CREATE, TOPIC, "new")
    assert node.ask("Metadata", 12, asked, "User:alice")["topics"][0]["errorCode"] == 0
    assert "new" in node.log.broker.image.topics


def test_operations_with_the_cluster_are_those_that_are_allowed(node: Guarded) -> None:
    asked = {"includeClusterAuthorizedOperations": True, "endpointType": 1}
    assert node.ask("DescribeCluster", 1, asked, "User:alice")["clusterAuthorizedOperations"] == 0
    node.allow(O.ALTER, CLUSTER, KAFKA_CLUSTER)
    told = node.ask("DescribeCluster", 1, asked, "User:alice")["clusterAuthorizedOperations"]
    assert told == 1 << O.ALTER | 1 << O.DESCRIBE
    old = {"topics": [], "includeClusterAuthorizedOperations": True}
    assert node.ask("Metadata", 8, old, "User:alice")["clusterAuthorizedOperations"] == told


def test_groups_are_listed_and_described_for_those_who_may(node: Guarded) -> None:
    for group in ("g", "h"):
        with node.log.consumer("t", group_id=group) as consumer:
            consumer.poll(timeout_ms=0)
            consumer.commit({pylog.TopicPartition("t", 0): 0})
    assert node.ask("ListGroups", 5, {}, "User:alice")["groups"] == []
    node.allow(O.READ, GROUP, "g")
    assert [one["groupId"] for one in node.ask("ListGroups", 5, {}, "User:alice")["groups"]] == ["g"]
    asked = {"groups": ["h", "g"], "includeAuthorizedOperations": True}
    told = {one["groupId"]: one for one in node.ask("DescribeGroups", 5, asked, "User:alice")["groups"]}
    assert (told["h"]["errorCode"], told["g"]["errorCode"]) == (30, 0)
    assert told["g"]["authorizedOperations"] == 1 << O.READ | 1 << O.DESCRIBE
    node.allow(O.DESCRIBE, CLUSTER, KAFKA_CLUSTER)
    assert len(node.ask("ListGroups", 5, {}, "User:alice")["groups"]) == 2


def test_offsets_of_all_topics_are_those_that_may_be_described(node: Guarded) -> None:
    node.log.create_topic("u")
    with node.log.consumer(group_id="g") as consumer:
        consumer.commit({pylog.TopicPartition(name, 0): 1 for name in ("t", "u")})
    node.allow(O.DESCRIBE, GROUP, "g")
    node.allow(O.DESCRIBE, TOPIC, "t")
    asked = {"groups": [{"groupId": "g", "topics": None}, {"groupId": "h", "topics": None}]}
    first, second = node.ask("OffsetFetch", 9, asked, "User:alice")["groups"]
    assert ([topic["name"] for topic in first["topics"]], second["errorCode"]) == (["t"], 30)
    named = [{"name": name, "partitionIndexes": [0]} for name in ("u", "t")]
    (told,) = node.ask("OffsetFetch", 9, {"groups": [{"groupId": "g", "topics": named}]}, "User:alice")["groups"]
    found = {topic["name"]: topic["partitions"][0] for topic in told["topics"]}
    assert [(found[name]["errorCode"], found[name]["committedOffset"]) for name in ("u", "t")] == [(29, -1), (0, 1)]


def test_offsets_are_deleted_of_topics_that_may_be_read(node: Guarded) -> None:
    node.log.create_topic("u")
    with node.log.consumer(group_id="g") as consumer:
        consumer.commit({pylog.TopicPartition(name, 0): 1 for name in ("t", "u")})
    topics = [{"name": name, "partitions": [{"partitionIndex": 0}]} for name in ("t", "u")]
    body = {"groupId": "g", "topics": topics}
    assert node.ask("OffsetDelete", 0, body, "User:alice")["errorCode"] == 30
    node.allow(O.DELETE, GROUP, "g")
    assert node.ask("OffsetDelete", 0, {**body, "groupId": "absent"}, "User:alice")["errorCode"] == 30
    node.allow(O.READ, TOPIC, "t")
    told = node.ask("OffsetDelete", 0, body, "User:alice")["topics"]
    assert {one["name"]: one["partitions"][0]["errorCode"] for one in told} == {"t": 0, "u": 29}
    assert list(node.log.admin.committed("g")) == [pylog.TopicPartition("u", 0)]


def test_a_topic_is_deleted_by_those_who_may_and_its_name_is_kept_from_others(node: Guarded) -> None:
    by_id = {"topics": [{"topicId": node.topic_id, "name": None}]}
    (told,) = node.ask("DeleteTopics", 6, by_id, "User:alice")["responses"]
    assert (told["name"], told["topicId"], told["errorCode"]) == (None, node.topic_id, 29)
    node.allow(O.DESCRIBE, TOPIC, "*")
    (told,) = node.ask("DeleteTopics", 6, by_id, "User:alice")["responses"]
    assert (told["name"], told["errorCode"]) == ("t", 29)
    named = {"topics": [{"name": "t"}, {"name": "absent"}]}
    told = {one["name"]: one["errorCode"] for one in node.ask("DeleteTopics", 6, named, "User:alice")["responses"]}
    assert told == {"t": 29, "absent": 3}
    node.allow(O.DELETE, TOPIC, "t")
    (told,) = node.ask("DeleteTopics", 6, by_id, "User:alice")["responses"]
    assert (told["name"], told["errorCode"]) == ("t", 0)


def test_a_new_topic_tells_its_configs_to_those_who_may_read_them(node: Guarded) -> None:
    node.allow(O.CREATE, CLUSTER, KAFKA_CLUSTER)
    body = {"topics": [{"name": "a", "numPartitions": 1, "replicationFactor": 1}]}
    (told,) = node.ask("CreateTopics", 7, body, "User:alice")["topics"]
    assert (told["errorCode"], told["topicConfigErrorCode"], told["numPartitions"], told["configs"]) == (0, 29, -1, [])
    node.allow(O.DESCRIBE_CONFIGS, TOPIC, "b")
    (told,) = node.ask("CreateTopics", 7, {"topics": [{**body["topics"][0], "name": "b"}]}, "User:alice")["topics"]
    assert (told["topicConfigErrorCode"], told["numPartitions"]) == (0, 1)
    assert told["configs"]


def test_a_denial_goes_before_a_prefix_that_allows(node: Guarded) -> None:
    node.log.admin.create_acls([AclBinding(TOPIC, "t", "User:alice", O.READ, PatternType.PREFIXED)])
    assert NO_TOPIC not in node.errors("Fetch", "User:alice")
    node.deny(O.READ, TOPIC, "t")
    assert NO_TOPIC in node.errors("Fetch", "User:alice")


def test_a_user_called_anonymous_is_not_a_client_without_a_name(node: Guarded) -> None:
    node.allow(O.DESCRIBE, CLUSTER, KAFKA_CLUSTER, "User:ANONYMOUS")
    assert node.errors("DescribeAcls", None) == set()
    assert node.errors("DescribeAcls", "User:ANONYMOUS") == {"CLUSTER_AUTHORIZATION_FAILED"}
    for operation, name in ((O.WRITE, "Produce"), (O.READ, "Fetch")):
        node.allow(operation, TOPIC, "t", "User:ANONYMOUS")
        for _ in range(2):
            assert node.errors(name, None) == set()
        assert node.errors(name, "User:ANONYMOUS") == {NO_TOPIC}


def test_what_was_allowed_before_is_allowed_until_an_acl_changes(node: Guarded) -> None:
    node.allow(O.ALL, TOPIC, "t")
    for name in ("Produce", "Fetch"):
        for _ in range(2):
            assert node.errors(name, "User:alice") == set()
        assert node.errors(name, "User:bob") == {NO_TOPIC}
    node.deny(O.ALL, TOPIC, "t")
    assert [node.errors(name, "User:alice") for name in ("Produce", "Fetch")] == [{NO_TOPIC}] * 2


# --- share groups -----------------------------------------------------------------------------------------------------

SHARE: dict[str, dict[str, Any]] = {
    "ShareGroupHeartbeat": {"groupId": "g", "memberId": "m", "memberEpoch": 7},
    "ShareGroupDescribe": {"groupIds": ["g"]},
    "ShareFetch": {"groupId": "g", "memberId": "m", "shareSessionEpoch": 7, "maxWaitMs": 0, "minBytes": 0,
        "maxRecords": 1, "batchSize": 1},
    "ShareAcknowledge": {"groupId": "g", "memberId": "m", "shareSessionEpoch": 7},
    "DescribeShareGroupOffsets": {"groups": [{"groupId": "g", "topics": None}]},
    "AlterShareGroupOffsets": {"groupId": "g", "topics": []},
    "DeleteShareGroupOffsets": {"groupId": "g", "topics": []},
}  # fmt: skip
NO_GROUP = "GROUP_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ShareGroupHeartbeat", O.READ), ("ShareGroupDescribe", O.DESCRIBE), ("ShareFetch", O.READ),
        ("ShareAcknowledge", O.READ), ("DescribeShareGroupOffsets", O.DESCRIBE), ("AlterShareGroupOffsets", O.READ),
        ("DeleteShareGroupOffsets", O.DELETE),
    ],
)  # fmt: skip
def test_a_share_group_is_for_those_who_may(node: Guarded, name: str, operation: AclOperation) -> None:
    version = next(one for one in APIS.values() if one.name == name).high
    body = fitting(load(f"{name}Request").fields, version, SHARE[name])
    assert errors_in(node.ask(name, version, body, "User:alice")) == {NO_GROUP}
    node.allow(operation, GROUP, "g")
    assert NO_GROUP not in errors_in(node.ask(name, version, body, "User:alice"))


def test_records_of_a_share_group_are_those_that_may_be_read(node: Guarded) -> None:
    node.log.create_topic("u")
    node.log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
    ids = node.topic_id, node.log.broker.image.topics["u"].id
    for name in ("t", "u"):
        node.log.topic(name)[0].append([pylog.Record(b"x")])
        node.allow(O.READ, TOPIC, name)
    node.allow(O.READ, GROUP, "g")
    joins = {"groupId": "g", "memberId": "A" * 22, "memberEpoch": 0, "subscribedTopicNames": ["t", "u"]}
    assert node.ask("ShareGroupHeartbeat", 1, joins, "User:alice")["errorCode"] == 0
    topics = [{"topicId": one, "partitions": [{"partitionIndex": 0}]} for one in ids]
    asked = {**SHARE["ShareFetch"], "memberId": "A" * 22, "shareSessionEpoch": 0, "minBytes": 0, "maxRecords": 9}
    node.deny(O.READ, TOPIC, "u")
    answer = node.ask("ShareFetch", 1, {**asked, "topics": topics}, "User:alice")
    found = {one["topicId"]: one["partitions"][0] for one in answer["responses"]}
    assert found[ids[1]]["errorCode"] == 29
    node.deny(O.READ, TOPIC, "t")
    later = node.ask("ShareFetch", 1, {**asked, "shareSessionEpoch": 1}, "User:alice")
    assert {part["errorCode"] for one in later["responses"] for part in one["partitions"]} <= {29}
    acked = {**SHARE["ShareAcknowledge"], "memberId": "A" * 22, "shareSessionEpoch": 2, "topics": [
        {"topicId": ids[0], "partitions": [{"partitionIndex": 0, "acknowledgementBatches": []}]}
    ]}  # fmt: skip
    (told,) = node.ask("ShareAcknowledge", 1, acked, "User:alice")["responses"]
    assert told["partitions"][0]["errorCode"] == 29


def test_a_member_subscribes_to_topics_that_it_may_describe(node: Guarded) -> None:
    node.allow(O.READ, GROUP, "g")
    joins = {"groupId": "g", "memberId": "A" * 22, "memberEpoch": 0, "subscribedTopicNames": ["t"]}
    more = {"rebalanceTimeoutMs": 1000, "topicPartitions": []}
    assert node.ask("ShareGroupHeartbeat", 1, joins, "User:alice")["errorCode"] == 29
    assert node.ask("ConsumerGroupHeartbeat", 1, {**joins, **more}, "User:alice")["errorCode"] == 29
    node.allow(O.DESCRIBE, TOPIC, "t")
    assert node.ask("ConsumerGroupHeartbeat", 1, {**joins, **more}, "User:alice")["errorCode"] == 0
    node.allow(O.DESCRIBE, GROUP, "g")
    (told,) = node.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g"]}, "User:alice")["groups"]
    assert (told["errorCode"], len(told["members"])) == (0, 1)
    node.deny(O.DESCRIBE, TOPIC, "t")
    (told,) = node.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g"]}, "User:alice")["groups"]
    assert (told["errorCode"], told["members"]) == (29, [])


def test_offsets_of_a_share_group_are_those_of_topics_that_may_be_read(node: Guarded) -> None:
    for operation in (O.READ, O.DELETE):
        node.allow(operation, GROUP, "g")
    altered = {"groupId": "g", "topics": [{"topicName": "t", "partitions": [{"partitionIndex": 0, "startOffset": 0}]}]}
    (told,) = node.ask("AlterShareGroupOffsets", 0, altered, "User:alice")["responses"]
    assert told["partitions"][0]["errorCode"] == 29
    deleted = {"groupId": "g", "topics": [{"topicName": "t"}]}
    assert node.ask("DeleteShareGroupOffsets", 0, deleted, "User:alice")["errorCode"] == 69, "there is no group"
    node.log.admin.alter_share_offsets("g", {pylog.TopicPartition("t", 0): 0})
    (told,) = node.ask("DeleteShareGroupOffsets", 0, deleted, "User:alice")["responses"]
    assert (told["topicName"], told["errorCode"]) == ("t", 29)
    asked = {"groups": [{"groupId": "g", "topics": [{"topicName": "t", "partitions": [0]}]}]}
    (group,) = node.ask("DescribeShareGroupOffsets", 0, asked, "User:alice")["groups"]
    assert group["topics"][0]["partitions"][0]["errorCode"] == 29


# --- authorizers of one's own -----------------------------------------------------------------------------------------


class Mine:
    """Who reads, reads everything."""

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str, /
    ) -> bool:  # fmt: skip
        assert host == "127.0.0.1"
        return principal == "User:alice" and operation.name in ("READ", "DESCRIBE")


def test_an_object_decides_by_itself() -> None:
    with pylog.open(":memory:") as log:
        node = Guarded(log, Mine())
        told = node.every("User:alice")
        assert (NO_TOPIC in told["Produce"], NO_TOPIC in told["Fetch"]) == (True, False)
        assert told["InitProducerId"] == {"CLUSTER_AUTHORIZATION_FAILED"}
        assert told["DescribeAcls"] == {"SECURITY_DISABLED"}
        assert NO_TOPIC in node.errors("Fetch", "User:bob")


def test_what_is_not_an_authorizer_is_refused() -> None:
    with pylog.open(":memory:", config={"super.users": "alice"}) as log:
        for wrong in ("strict", 7, object()):
            with pytest.raises(TypeError, match="authorizer is"):
                log.serve(authorizer=wrong)  # type: ignore[arg-type]
        with pytest.raises(pylog.errors.InvalidConfig, match="'alice' is not a principal"):
            log.serve(authorizer=True)


def test_a_message_without_a_rule_is_refused(node: Guarded) -> None:
    message = REQUESTS["WriteTxnMarkers"](markers=[])  # type: ignore[call-arg]
    with pytest.raises(pylog.errors.ClusterAuthorization, match="no rule"):
        node.served.admit(message, Session(principal="User:alice", is_proved=True))


def test_in_the_process_of_the_node_everything_is_allowed(node: Guarded) -> None:
    with node.log.producer() as producer:
        producer.send("t", b"x").result()
    assert len(list(node.log.topic("t")[0].records(0))) == 1


def test_a_topic_without_partitions_tells_nothing(node: Guarded) -> None:
    node.allow(O.READ, GROUP, "g")
    altered = {"groupId": "g", "topics": [{"topicName": "t", "partitions": []}]}
    assert node.ask("AlterShareGroupOffsets", 0, altered, "User:alice")["responses"] == []


def test_every_version_can_say_that_it_is_refused(node: Guarded) -> None:
    node.allow(O.CREATE, CLUSTER, KAFKA_CLUSTER, "User:bob")
    for name, (body, _) in requests_for("t", node.topic_id).items():
        api = next(one for one in APIS.values() if one.name == name)
        for version in range(api.low, api.high + 1):
            for user in ("User:alice", "User:bob"):
                node.ask(name, version, fitting(load(f"{name}Request").fields, version, body), user)


def test_a_group_without_a_name_is_judged_like_any_other(node: Guarded) -> None:
    (told,) = node.ask("OffsetFetch", 9, {"groups": [{"groupId": "", "topics": None}]}, "User:alice")["groups"]
    assert told["errorCode"] == 30


class Failing:
    """An authorizer that cannot tell."""

    def authorize(self, *question: object) -> bool:
        raise RuntimeError("no connection to the directory of users")

    authorize_any = authorize


def test_an_authorizer_that_raises_allows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with pylog.open(":memory:", config={"offsets_topic_num_partitions": 1}) as log:
        assert Guarded(log, Failing()).errors("Produce", "User:alice") == {NO_TOPIC}
        begin = {"transactionalId": None, "transactionTimeoutMs": 1000, "producerId": -1, "producerEpoch": -1}
        assert Guarded(log, Failing()).ask("InitProducerId", 4, begin, "User:alice")["errorCode"] == 31
    assert "the authorizer could not say whether User:alice may WRITE" in caplog.text


def test_a_transactional_id_is_for_those_who_may_write_with_it(node: Guarded) -> None:
    begin = {"transactionalId": "x", "transactionTimeoutMs": 1000, "producerId": -1, "producerEpoch": -1}
    topics = [{"name": "t", "partitions": [0]}]
    join = {"v3AndBelowTransactionalId": "x", "v3AndBelowProducerId": 1, "v3AndBelowTopics": topics}

    assert node.ask("InitProducerId", 4, begin, "User:alice")["errorCode"] == 53
    node.allow(O.WRITE, TRANSACTIONAL_ID, "x")
    assert node.ask("InitProducerId", 4, begin, "User:alice")["errorCode"] == 0
    node.allow(O.WRITE, TOPIC, "t")
    (topic,) = node.ask("AddPartitionsToTxn", 3, join, "User:alice")["resultsByTopicV3AndBelow"]
    # The coordinator has looked at it: that is another producer's id.
    assert [part["partitionErrorCode"] for part in topic["resultsByPartition"]] == [49]


def test_a_producer_without_an_id_may_write_somewhere(node: Guarded) -> None:
    begin = {"transactionalId": None, "transactionTimeoutMs": 1000, "producerId": -1, "producerEpoch": -1}
    assert node.ask("InitProducerId", 4, begin, "User:alice")["errorCode"] == 31
    node.allow(O.WRITE, TOPIC, "t")
    assert node.ask("InitProducerId", 4, begin, "User:alice")["errorCode"] == 0


def test_a_group_with_an_error_has_no_operations(node: Guarded) -> None:
    asked = {"groups": ["none"], "includeAuthorizedOperations": True}
    (group,) = node.ask("DescribeGroups", 6, asked, "User:root")["groups"]
    assert (group["errorCode"], group["authorizedOperations"]) == (69, -(1 << 31))


def test_all_topics_are_described_but_those_that_are_hidden(node: Guarded) -> None:
    asked = {"topics": [], "responsePartitionLimit": 100}
    assert node.ask("DescribeTopicPartitions", 0, asked, "User:alice")["topics"] == []
    (topic,) = node.ask("DescribeTopicPartitions", 0, asked, "User:root")["topics"]
    assert topic["name"] == "t"


def test_a_replica_that_may_act_for_the_cluster_reads_every_topic(node: Guarded) -> None:
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1, "currentLeaderEpoch": -1}
    body = {"replicaId": 5, "maxWaitMs": 0, "minBytes": 0, "topics": [{"topic": "t", "partitions": [part]}]}

    def code(user: str) -> int:
        (topic,) = node.ask("Fetch", 11, {**body, "sessionId": 0, "sessionEpoch": -1}, user)["responses"]
        told: int = topic["partitions"][0]["errorCode"]
        return told

    assert code("User:alice") == 29
    assert code("User:root") != 29
