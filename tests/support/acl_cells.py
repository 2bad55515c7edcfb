"""The cells of a table: a user that has one ACL sends a request of each key, about what is there and what is not.

What a cell holds is told by the answer alone: the names of its errors, and the operations that it names.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from pylog.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, AclResourceType
from pylog.protocol.operations import supported
from pylog.protocol.schema.table import load
from support.every_request import errors_in, fitting, requests_for
from support.raw_client import Body, DisconnectedError, WireClient
from support.wire_requests import TIMEOUT_MS, Requests

PASSWORD = "secret"
UP_SECONDS = 60.0
THERE, ABSENT = "t", "absent"
UNKNOWN_ID = UUID(int=77)
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
OPERATIONS = {
    **{kind: supported(kind) for kind in (TOPIC, GROUP, CLUSTER)},
    TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
NAMES = {TOPIC: ("*",), GROUP: ("*",), TRANSACTIONAL_ID: ("*",), CLUSTER: (CLUSTER_NAME,)}
KEPT_OUT = frozenset({"SaslHandshake", "SaslAuthenticate", "ApiVersions"})
"""Keys of connections, which need nothing."""
MEMBER = "m" * 22


class User(NamedTuple):
    """A user, and what it has."""

    name: str
    acls: tuple[tuple[AclResourceType, AclOperation, AclPermissionType], ...]

    @property
    def creations(self) -> Iterator[Body]:
        """The ACLs to make for it."""
        for kind, operation, permission in self.acls:
            for name in NAMES[kind]:
                yield {
                    "resourceType": int(kind), "resourceName": name, "resourcePatternType": 3,
                    "principal": f"User:{self.name}", "host": "*", "operation": int(operation),
                    "permissionType": int(permission),
                }  # fmt: skip


def _users() -> Iterator[User]:
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    yield User("nobody", ())
    for kind, operations in OPERATIONS.items():
        for operation in operations:
            yield User(f"{kind.name.lower()}-{operation.name.lower()}", ((kind, operation, allow),))
    every = tuple((kind, AclOperation.ALL, allow) for kind in OPERATIONS)
    yield User("everything", every)
    yield User("all-but-write", (*every, (TOPIC, AclOperation.WRITE, deny), (GROUP, AclOperation.READ, deny)))
    reads = (TOPIC, AclOperation.READ, allow), (GROUP, AclOperation.READ, allow)
    yield User("consumer", reads)
    writes = (TOPIC, AclOperation.WRITE, allow), (TRANSACTIONAL_ID, AclOperation.WRITE, allow)
    yield User("producer", writes)
    yield User("etl", (*reads, *writes))


USERS = tuple(_users())


def prepare(root: WireClient) -> None:
    """Make the topic and the ACLs."""
    body = {"topics": [{"name": THERE, "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": TIMEOUT_MS}
    assert root.ask("CreateTopics", body, version=7)["topics"][0]["errorCode"] == 0
    creations = [one for user in USERS for one in user.creations]
    made = root.ask("CreateAcls", {"creations": creations}, version=3)["results"]
    assert {one["errorCode"] for one in made} == {0}
    _await_coordinators(root)


def _await_coordinators(root: WireClient) -> None:
    """Until the coordinators of groups and transactions answer: a broker makes their topics at the first look."""
    asked = (
        ("FindCoordinator", {"keyType": 0, "coordinatorKeys": ["absent"]}),
        ("DescribeGroups", {"groups": ["absent", "every"]}),
        ("FindCoordinator", {"keyType": 2, "coordinatorKeys": [f"g:{'A' * 22}:0"]}),
        ("FindCoordinator", {"keyType": 1, "coordinatorKeys": ["absent"]}),
        ("InitProducerId", {"transactionalId": "warm", "transactionTimeoutMs": 1000}),
        ("InitProducerId", {"transactionalId": None, "transactionTimeoutMs": 1000}),
    )  # fmt: skip
    until = time.monotonic() + UP_SECONDS
    for name, body in asked:
        while any("COORDINATOR" in error for error in errors_in(root.ask(name, body))):
            assert time.monotonic() < until, f"{name}: there is no coordinator"
            time.sleep(0.1)


def authenticate(client: WireClient, user: str) -> None:
    """Prove a name by PLAIN."""
    assert client.ask("SaslHandshake", {"mechanism": "PLAIN"}, version=1)["errorCode"] == 0
    token = f"\0{user}\0{PASSWORD}".encode()
    assert client.ask("SaslAuthenticate", {"authBytes": token}, version=2)["errorCode"] == 0


class Case(NamedTuple):
    """A request: the label of its cells, its key, its body, and its version, where that is not the highest."""

    label: str
    name: str
    body: Body
    version: int | None = None


def cases(topic: str, topic_id: Any) -> Iterator[Case]:
    """A request for each key, and what else a key may be asked."""
    for name, (body, _) in requests_for(topic, topic_id).items():
        if name not in KEPT_OUT:
            # Kafka never answers one about all users that it refuses.
            yield Case(name, name, {"users": []} if name == "DescribeUserScramCredentials" else body)
    yield from _of_share_groups(topic, topic_id)
    yield from _operations_asked(topic)
    yield from _of_topics(topic, topic_id)
    yield from _of_groups(topic)
    yield from _of_configs(topic)


def _of_share_groups(topic: str, topic_id: Any) -> Iterator[Case]:
    member = {"groupId": "absent", "memberId": MEMBER}
    session = {**member, "shareSessionEpoch": 7, "maxRecords": 1, "batchSize": 1}
    part = {"topicId": topic_id, "partitions": [{"partitionIndex": 0, "acknowledgementBatches": []}]}
    yield Case("ShareGroupHeartbeat", "ShareGroupHeartbeat", {**member, "memberEpoch": 7})
    subscribed = {**member, "memberEpoch": 7, "subscribedTopicNames": [topic]}
    yield Case("ShareGroupHeartbeat of a topic", "ShareGroupHeartbeat", subscribed)
    yield Case(
        "ShareGroupDescribe", "ShareGroupDescribe", {"groupIds": ["absent"], "includeAuthorizedOperations": True}
    )
    yield Case("ShareFetch", "ShareFetch", {**session, "topics": [part]})
    yield Case("ShareAcknowledge", "ShareAcknowledge", {**session, "topics": [part]})
    offsets = {"topicName": topic, "partitions": [0]}
    yield Case(
        "DescribeShareGroupOffsets", "DescribeShareGroupOffsets",
        {"groups": [{"groupId": "absent", "topics": [offsets]}, {"groupId": "absent", "topics": None}]},
    )  # fmt: skip
    altered = {"topicName": topic, "partitions": [{"partitionIndex": 0, "startOffset": 0}]}
    yield Case("AlterShareGroupOffsets", "AlterShareGroupOffsets", {"groupId": "absent", "topics": [altered]})
    yield Case(
        "DeleteShareGroupOffsets", "DeleteShareGroupOffsets", {"groupId": "absent", "topics": [{"topicName": topic}]}
    )  # fmt: skip


def _operations_asked(topic: str) -> Iterator[Case]:
    cluster, topics, groups = (f"include{one}AuthorizedOperations" for one in ("Cluster", "Topic", ""))
    yield Case("operations of DescribeCluster", "DescribeCluster", {"endpointType": 1, cluster: True})
    named = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}
    yield Case("operations of Metadata", "Metadata", {**named, topics: True})
    yield Case("operations of Metadata 8", "Metadata", {**named, topics: True, cluster: True}, 8)
    yield Case("operations of DescribeGroups", "DescribeGroups", {"groups": ["absent"], groups: True})
    yield Case("operations of DescribeGroups 5", "DescribeGroups", {"groups": ["absent"], groups: True}, 5)
    yield Case("operations of ConsumerGroupDescribe", "ConsumerGroupDescribe", {"groupIds": ["absent"], groups: True})


def _of_topics(topic: str, topic_id: Any) -> Iterator[Case]:
    by_id = {"topicId": topic_id, "name": None}
    yield Case("Metadata of all", "Metadata", {"topics": None})
    yield Case("Metadata by id", "Metadata", {"topics": [by_id], "allowAutoTopicCreation": False})
    yield Case(
        "DescribeTopicPartitions of all", "DescribeTopicPartitions", {"topics": [], "responsePartitionLimit": 99}
    )
    yield Case("DeleteTopics by id", "DeleteTopics", {"topics": [{"topicId": UNKNOWN_ID, "name": None}]})
    made = {"name": topic, "numPartitions": 1, "replicationFactor": 1}
    yield Case("CreateTopics, validated", "CreateTopics", {"topics": [{**made, "name": "other"}], "validateOnly": True})
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    yield Case("Fetch by name", "Fetch", {"maxBytes": 1000, "topics": [{"topic": topic, "partitions": [part]}]}, 12)
    broken = {"index": 0, "records": b""}
    for version in (9, 12):
        yield Case(
            f"Produce {version} without records", "Produce",
            {"acks": 1, "topicData": [{"name": topic, "partitionData": [broken]}]}, version,
        )  # fmt: skip
    yield Case(
        "InitProducerId of a transaction", "InitProducerId", {"transactionalId": "id", "transactionTimeoutMs": 9}
    )
    for kind, key in ((1, "absent"), (2, f"g:{'A' * 22}:0")):
        yield Case(f"FindCoordinator {kind}", "FindCoordinator", {"keyType": kind, "coordinatorKeys": [key]})
    yield Case("FindCoordinator 1, version 3", "FindCoordinator", {"keyType": 1, "key": "absent"}, 3)
    added = {"v3AndBelowTransactionalId": "absent", "v3AndBelowProducerId": 10**9, "v3AndBelowProducerEpoch": 0}
    for other in (topic, "__consumer_offsets"):
        topics = [{"name": one, "partitions": [0]} for one in (topic, other)]
        yield Case(f"AddPartitionsToTxn 3 {other}", "AddPartitionsToTxn", {**added, "v3AndBelowTopics": topics}, 3)


def _of_groups(topic: str) -> Iterator[Case]:
    offset = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    simple = {"groupId": "every", "generationIdOrMemberEpoch": -1, "memberId": ""}
    for version in (2, 8, 9):
        yield Case(
            f"OffsetCommit {version}", "OffsetCommit", {**simple, "topics": [{"name": topic, "partitions": [offset]}]},
            version,
        )  # fmt: skip
        wanted = [{"name": topic, "partitionIndexes": [0]}]
        asked = {"groupId": "every", "topics": wanted, "groups": [{"groupId": "every", "topics": wanted}]}
        yield Case(f"OffsetFetch {version}", "OffsetFetch", asked, version)
        every = {"groupId": "every", "topics": None, "groups": [{"groupId": "every", "topics": None}]}
        yield Case(f"OffsetFetch {version} of all", "OffsetFetch", every, version)
    yield Case("LeaveGroup 2", "LeaveGroup", {"groupId": "absent", "memberId": "absent"}, 2)
    subscribed = {"groupId": "absent", "memberId": MEMBER, "memberEpoch": 7, "subscribedTopicNames": [topic]}
    yield Case("ConsumerGroupHeartbeat of a topic", "ConsumerGroupHeartbeat", subscribed)


def _of_configs(topic: str) -> Iterator[Case]:
    for kind, name in ((2, topic), (4, "1"), (4, ""), (32, "absent")):
        yield Case(
            f"DescribeConfigs {kind} {name}", "DescribeConfigs",
            {"resources": [{"resourceType": kind, "resourceName": name, "configurationKeys": None}]},
        )  # fmt: skip
        yield Case(
            f"IncrementalAlterConfigs {kind} {name}", "IncrementalAlterConfigs",
            {"validateOnly": True, "resources": [{"resourceType": kind, "resourceName": name, "configs": []}]},
        )  # fmt: skip


def told(answer: Any) -> str:
    """The errors of an answer, and the operations that it names."""
    operations = sorted(set(_operations(answer)))
    return " ".join([*sorted(errors_in(answer)), *map(str, operations)])


def _operations(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for name, one in value.items():
            if name.lower().endswith("authorizedoperations"):
                yield one
            else:
                yield from _operations(one)
    elif isinstance(value, list):
        for one in value:
            yield from _operations(one)


class Asker:
    """One user, and its connection, which is made again where the server ends it."""

    def __init__(self, address: str, user: User) -> None:
        self._address, self._user = address, user
        self._client: WireClient | None = None

    def cell(self, case: Case) -> str:
        """What the answer to a request tells."""
        client = self._connected()
        version = case.version or client.highest(case.name)
        asked = fitting(load(f"{case.name}Request").fields, version, {"timeoutMs": TIMEOUT_MS, **case.body})
        try:
            return told(client.ask(case.name, asked, version=version))
        except DisconnectedError:
            self.close()
            return "disconnected"

    def _connected(self) -> WireClient:
        if self._client is None:
            self._client = WireClient(self._address)
            authenticate(self._client, self._user.name)
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def cells(root: WireClient, address: str) -> dict[tuple[str, str, str], str]:
    """By user, topic and case: what the answer tells."""
    found, topic_id = {}, Requests(root).topic_id(THERE)
    for user in USERS:
        asker = Asker(address, user)
        for topic in (THERE, ABSENT):
            for case in cases(topic, topic_id if topic == THERE else UNKNOWN_ID):
                found[user.name, topic, case.label] = asker.cell(case)
        asker.close()
    return found
