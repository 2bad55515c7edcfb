"""Bodies of requests, and the parts of the responses to Produce and Fetch."""

import uuid
from typing import Any

from pylog.protocol.batch import encode
from pylog.protocol.compression import Codec

NOW = 1_700_000_000_000
NAMED = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
NUMBERED = [{"name": "t", "partitions": [0]}]


def batch(*values: bytes, codec: Codec = Codec.NONE, **more: Any) -> bytes:
    return bytes(encode([(value, None, NOW, ()) for value in values], now_ms=NOW, codec=codec, **more).data)


def produce(topic: str, *records: bytes | None, acks: int = -1) -> dict[str, Any]:
    parts = [{"index": number, "records": one} for number, one in enumerate(records)]
    return {
        "transactionalId": None, "acks": acks, "timeoutMs": 1000,
        "topicData": [{"name": topic, "partitionData": parts}],
    }  # fmt: skip


def produced_parts(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for topic in response["responses"] for part in topic["partitionResponses"]]


def fetch(topic: str, offset: int = 0, *, topic_id: uuid.UUID | None = None, **more: Any) -> dict[str, Any]:
    part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    name: dict[str, Any] = {"topic": topic} if topic_id is None else {"topicId": topic_id}
    return {"maxWaitMs": 0, "minBytes": 1, "topics": [{**name, "partitions": [part]}], **more}


def fetched_part(response: dict[str, Any]) -> dict[str, Any]:
    return dict(response["responses"][0]["partitions"][0])


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
    ("ShareGroupHeartbeat", 1): {"groupId": "g"},
    ("ShareGroupDescribe", 1): {"groupIds": ["g"]},
    ("ShareFetch", 2): {"groupId": "g"},
    ("ShareAcknowledge", 2): {"groupId": "g"},
    ("InitializeShareGroupState", 0): {"groupId": "g", "topics": [{"partitions": [{"partition": 0}]}]},
    ("ReadShareGroupState", 0): {"groupId": "g", "topics": [{"partitions": [{"partition": 0}]}]},
    ("WriteShareGroupState", 1): {"groupId": "g", "topics": [{"partitions": [{"partition": 0}]}]},
    ("DeleteShareGroupState", 0): {"groupId": "g", "topics": [{"partitions": [{"partition": 0}]}]},
    ("ReadShareGroupStateSummary", 1): {"groupId": "g", "topics": [{"partitions": [{"partition": 0}]}]},
    ("DescribeShareGroupOffsets", 1): {"groups": [{"groupId": "g", "topics": None}]},
    ("AlterShareGroupOffsets", 0): {"groupId": "g"},
    ("DeleteShareGroupOffsets", 0): {"groupId": "g"},
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
    ("DescribeUserScramCredentials", 0): {"users": None},
    ("AlterUserScramCredentials", 0): {"deletions": [{"name": "alice", "mechanism": 1}], "upsertions": []},
    ("CreateTopics", 7): {
        "topics": [{"name": "new", "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 1000,
    },
    ("DescribeConfigs", 4): {"resources": [{"resourceType": 2, "resourceName": "t", "configurationKeys": None}]},
    ("AlterConfigs", 2): {"resources": [{"resourceType": 2, "resourceName": "t", "configs": []}]},
    ("CreatePartitions", 3): {"topics": [{"name": "t", "count": 2}], "timeoutMs": 1000},
    ("IncrementalAlterConfigs", 1): {"resources": [{"resourceType": 2, "resourceName": "t", "configs": []}]},
    ("ListConfigResources", 1): {},
}  # fmt: skip
"""Requests of every key that can be refused, by name and version."""

UNREFUSED: dict[tuple[str, int], dict[str, Any]] = {
    ("Produce", 9): produce("t", batch(b"a")),
    ("Metadata", 12): {"topics": [{"name": "t"}]},
    ("FindCoordinator", 4): {"coordinatorKeys": ["g"]},
    ("SaslHandshake", 1): {"mechanism": "PLAIN"},
    ("SaslAuthenticate", 2): {"authBytes": b""},
    ("ApiVersions", 4): {"clientSoftwareName": "test", "clientSoftwareVersion": "1"},
    ("ElectLeaders", 2): {"topicPartitions": [{"topic": "t", "partitions": [0]}]},
    ("ListPartitionReassignments", 0): {"topics": None},
    ("DescribeClientQuotas", 1): {},
    ("AlterClientQuotas", 1): {"entries": [{"entity": [{"entityType": "user", "entityName": "a"}], "ops": []}]},
    ("AlterPartitionReassignments", 1): {"topics": []},
    ("UpdateFeatures", 2): {"featureUpdates": []},
    ("DescribeAcls", 3): {},
    ("CreateAcls", 3): {"creations": [{"resourceType": 2}]},
    ("DeleteAcls", 3): {"filters": [{"resourceTypeFilter": 2}]},
    ("CreateDelegationToken", 3): {"renewers": [], "maxLifetimeMs": -1},
    ("RenewDelegationToken", 2): {"hmac": b""},
    ("ExpireDelegationToken", 2): {"hmac": b""},
    ("DescribeDelegationToken", 3): {"owners": None},
    ("GetTelemetrySubscriptions", 0): {},
    ("PushTelemetry", 0): {},
    ("DescribeQuorum", 2): {},
    ("DescribeCluster", 2): {},
    ("DescribeTopicPartitions", 0): {"topics": [{"name": "t"}]},
}  # fmt: skip
"""Requests of the other keys: those whose answers hold no error of the node."""
