"""A request of each API key in all versions, in which nothing exists but one topic."""

from typing import Any

from support.raw_client import Body, error_name
from support.wire_requests import T0, records

NO_MEMBER, NO_GROUP = "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"
NO_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
NO_TOKENS = {"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "DELEGATION_TOKEN_AUTH_DISABLED"}


def requests_for(topic: str, topic_id: Any) -> dict[str, tuple[Body, set[str]]]:
    """By message: a body with the fields of all versions, and the errors that the answer may have."""
    named = {"name": topic, "topic": topic, "topicId": topic_id}
    offset = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    producer = {"producerId": 10**9, "producerEpoch": 0, "transactionalId": "absent"}
    member = {"groupId": "absent", "memberId": "absent", "generationId": 1}
    config = {"resourceType": 2, "resourceName": topic}
    retention = {"name": "retention.ms", "value": "1000000", "configOperation": 0}
    return {
        "Produce": ({"acks": -1, "timeoutMs": 9, "topicData": [
            {**named, "partitionData": [{"index": 0, "records": records(b"x")}]}]}, set()),
        "Fetch": ({"maxBytes": 1000, "replicaState": {}, "topics": [{**named, "partitions": [
            {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}]}]}, set()),
        "ListOffsets": ({"replicaId": -1, "topics": [{**named, "partitions": [
            {"partitionIndex": 0, "timestamp": T0}]}]}, set()),
        "Metadata": ({"topics": [{"name": topic}], "allowAutoTopicCreation": False}, set()),
        "OffsetCommit": ({"groupId": "every", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [
            {**named, "partitions": [offset]}]}, set()),
        "OffsetFetch": ({"groupId": "every", "topics": [{**named, "partitionIndexes": [0]}], "groups": [
            {"groupId": "every", "topics": [{**named, "partitionIndexes": [0]}]}]}, set()),
        "FindCoordinator": ({"key": "absent", "keyType": 0, "coordinatorKeys": ["absent"]}, set()),
        "JoinGroup": ({"groupId": "absent", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000,
            "memberId": "absent", "protocolType": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
            {NO_MEMBER}),
        "Heartbeat": (member, {NO_MEMBER}),
        "LeaveGroup": ({**member, "members": [{"memberId": "absent"}]}, {NO_MEMBER}),
        "SyncGroup": ({**member, "protocolType": "consumer", "protocolName": "range", "assignments": []}, {NO_MEMBER}),
        "DescribeGroups": ({"groups": ["absent"]}, {NO_GROUP}),
        "ListGroups": ({}, set()),
        "SaslHandshake": ({"mechanism": "PLAIN"}, {"ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM"}),
        "ApiVersions": ({"clientSoftwareName": "a", "clientSoftwareVersion": "1"}, set()),
        "CreateTopics": ({"topics": [{"name": topic, "numPartitions": 1, "replicationFactor": 1}]},
            {"TOPIC_ALREADY_EXISTS"}),
        "DeleteTopics": ({"topics": [{"name": "absent"}], "topicNames": ["absent"]}, {"UNKNOWN_TOPIC_OR_PARTITION"}),
        "DeleteRecords": ({"topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "offset": 0}]}]}, set()),
        "InitProducerId": ({"transactionalId": None, "transactionTimeoutMs": 1000}, set()),
        "OffsetForLeaderEpoch": ({"replicaId": -1, "topics": [{**named, "partitions": [
            {"partition": 0, "leaderEpoch": 0}]}]}, set()),
        "AddPartitionsToTxn": ({"v3AndBelowTransactionalId": "absent", "v3AndBelowProducerId": 10**9,
            "v3AndBelowProducerEpoch": 0, "v3AndBelowTopics": [{"name": topic, "partitions": [0]}],
            "transactions": [{**producer, "topics": [{"name": topic, "partitions": [0]}]}]}, {NO_MAPPING}),
        "AddOffsetsToTxn": ({**producer, "groupId": "absent"}, {NO_MAPPING}),
        "EndTxn": ({**producer, "committed": True}, {NO_MAPPING}),
        "TxnOffsetCommit": ({**producer, "groupId": "every", "topics": [{**named, "partitions": [offset]}]},
            {"TRANSACTIONAL_ID_NOT_FOUND", NO_MAPPING}),
        "DescribeConfigs": ({"resources": [{**config, "configurationKeys": None}]}, set()),
        "AlterConfigs": ({"resources": [{**config, "configs": [retention]}]}, set()),
        "AlterReplicaLogDirs": ({"dirs": [{"path": "/absent", "topics": [{"name": topic, "partitions": [0]}]}]},
            {"LOG_DIR_NOT_FOUND"}),
        "DescribeLogDirs": ({"topics": None}, set()),
        "CreatePartitions": ({"topics": [{"name": topic, "count": 1, "assignments": None}]}, {"INVALID_PARTITIONS"}),
        "DeleteGroups": ({"groupsNames": ["absent"]}, {NO_GROUP}),
        "ElectLeaders": ({"topicPartitions": [{"topic": topic, "partitions": [0]}]}, {"ELECTION_NOT_NEEDED"}),
        "IncrementalAlterConfigs": ({"resources": [{**config, "configs": [retention]}]}, set()),
        "ListPartitionReassignments": ({"topics": None}, set()),
        "OffsetDelete": ({"groupId": "absent", "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]},
            {NO_GROUP}),
        "DescribeUserScramCredentials": ({"users": None}, set()),
        "AlterUserScramCredentials": ({"deletions": [{"name": "absent", "mechanism": 1}], "upsertions": []},
            {"RESOURCE_NOT_FOUND"}),
        "DescribeClientQuotas": ({"components": []}, set()),
        "DescribeCluster": ({"endpointType": 1}, set()),
        "DescribeProducers": ({"topics": [{"name": topic, "partitionIndexes": [0]}]}, set()),
        "DescribeTransactions": ({"transactionalIds": ["absent"]}, {"TRANSACTIONAL_ID_NOT_FOUND"}),
        "ListTransactions": ({}, set()),
        "ConsumerGroupHeartbeat": ({"groupId": "absent", "memberId": "absent", "memberEpoch": 5}, {NO_GROUP}),
        "ConsumerGroupDescribe": ({"groupIds": ["absent"]}, {NO_GROUP}),
        "ListConfigResources": ({"resourceTypes": []}, set()),
        "DescribeTopicPartitions": ({"topics": [{"name": topic}], "responsePartitionLimit": 100}, set()),
        **_of_administrators(topic),
    }  # fmt: skip


def _of_administrators(topic: str) -> dict[str, tuple[Body, set[str]]]:
    """Requests for what neither server here has: an authorizer, tokens, users; and of one node."""
    acl = {"resourceType": 2, "resourceName": topic, "resourcePatternType": 3, "principal": "User:a", "host": "*",
        "operation": 3, "permissionType": 3}  # fmt: skip
    searched = {"resourceTypeFilter": 1, "patternTypeFilter": 1, "operation": 1, "permissionType": 1}
    marker = {"producerId": 10**9, "transactionResult": True, "topics": [{"name": topic, "partitionIndexes": [0]}]}
    return {
        "WriteTxnMarkers": ({"markers": [marker]}, set()),
        "DescribeAcls": (searched, {"SECURITY_DISABLED"}),
        "CreateAcls": ({"creations": [acl]}, {"SECURITY_DISABLED"}),
        "DeleteAcls": ({"filters": [searched]}, {"SECURITY_DISABLED"}),
        "SaslAuthenticate": ({"authBytes": b"a"}, {"ILLEGAL_SASL_STATE"}),
        "CreateDelegationToken": ({"renewers": []}, NO_TOKENS),
        "RenewDelegationToken": ({"hmac": b"a"}, NO_TOKENS),
        "ExpireDelegationToken": ({"hmac": b"a"}, NO_TOKENS),
        "DescribeDelegationToken": ({"owners": None}, NO_TOKENS),
        "AlterPartitionReassignments": ({"topics": [{"name": topic, "partitions": [{"replicas": None}]}]},
            {"NO_REASSIGNMENT_IN_PROGRESS"}),
        "AlterClientQuotas": ({"entries": []}, set()),
        "DescribeQuorum": ({"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]},
            set()),
        "UpdateFeatures": ({"featureUpdates": []}, set()),
    }  # fmt: skip


MESSAGES = sorted(requests_for("", None))


def fitting(fields: Any, version: int, value: Body) -> Body:
    """The value without the fields that this version has not."""
    found: Body = {}
    for field in fields:
        if field.name not in value or version not in field.versions:
            continue
        given = value[field.name]
        if field.fields and isinstance(given, list):
            given = [fitting(field.fields, version, item) for item in given]
        elif field.fields and given is not None:
            given = fitting(field.fields, version, given)
        found[field.name] = given
    return found


def errors_in(value: Any) -> set[str]:
    """The names of all error codes of an answer, wherever they are."""
    if isinstance(value, list):
        return set[str]().union(*map(errors_in, value))
    if not isinstance(value, dict):
        return set()
    codes = {error_name(code) for name, code in value.items() if name.lower().endswith("errorcode") and code}
    return codes.union(*map(errors_in, value.values()))
