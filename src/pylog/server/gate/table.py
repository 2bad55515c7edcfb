"""The rule of each message that a server hands to its node. A message without a rule is refused."""

from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages import Fetch, ProduceRequest
from pylog.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pylog.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from pylog.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from pylog.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from pylog.protocol.messages.records import DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from pylog.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from pylog.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
)
from pylog.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from pylog.server.gate import groups, topics
from pylog.server.gate.needs import Need, Rule, by_name, by_topic, whole

_O = AclOperation
GROUP, CLUSTER, TRANSACTIONAL_ID = AclResourceType.GROUP, AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID


def _group(operation: AclOperation) -> Need:
    return Need(operation, GROUP, "group_id")


def _cluster(operation: AclOperation) -> Rule:
    return whole(Need(operation, CLUSTER))


_WRITES = Need(_O.WRITE, TRANSACTIONAL_ID, "transactional_id")
_READS = whole(_group(_O.READ))
RULES: dict[type, Rule] = {
    # records
    ProduceRequest: topics.produce,
    Fetch: topics.fetch,
    ListOffsetsRequest: by_topic(_O.DESCRIBE),
    OffsetForLeaderEpochRequest: topics.epoch_ends,
    DeleteRecordsRequest: by_topic(_O.DELETE),
    # topics
    CreateTopicsRequest: topics.create_topics,
    CreatePartitionsRequest: topics.create_partitions,
    DeleteTopicsRequest: topics.delete_topics,
    AlterReplicaLogDirsRequest: _cluster(_O.ALTER),
    DescribeLogDirsRequest: _cluster(_O.DESCRIBE),
    # configs
    AlterConfigsRequest: topics.alter_configs,
    IncrementalAlterConfigsRequest: topics.alter_configs,
    DescribeConfigsRequest: topics.describe_configs,
    ListConfigResourcesRequest: _cluster(_O.DESCRIBE_CONFIGS),
    # groups
    JoinGroupRequest: _READS,
    SyncGroupRequest: _READS,
    HeartbeatRequest: _READS,
    LeaveGroupRequest: _READS,
    ConsumerGroupHeartbeatRequest: whole(_group(_O.READ), rest=groups.heartbeat),
    ListGroupsRequest: groups.list_groups,
    DescribeGroupsRequest: by_name(_O.DESCRIBE, GROUP, groups.show_operations),
    ConsumerGroupDescribeRequest: by_name(_O.DESCRIBE, GROUP, groups.show_members),
    DeleteGroupsRequest: by_name(_O.DELETE, GROUP, groups.show_nothing_more),
    OffsetCommitRequest: whole(_group(_O.READ), rest=by_topic(_O.READ)),
    OffsetFetchRequest: groups.offsets("name"),
    OffsetDeleteRequest: whole(_group(_O.DELETE), rest=by_topic(_O.READ, is_sent_empty=True)),
    # share groups
    ShareGroupHeartbeatRequest: whole(_group(_O.READ), rest=groups.heartbeat),
    ShareGroupDescribeRequest: by_name(_O.DESCRIBE, GROUP, groups.show_members),
    ShareFetchRequest: whole(_group(_O.READ), rest=groups.share_records),
    ShareAcknowledgeRequest: whole(_group(_O.READ), rest=groups.share_records),
    DescribeShareGroupOffsetsRequest: groups.offsets("topic_name"),
    AlterShareGroupOffsetsRequest: whole(_group(_O.READ), rest=by_topic(_O.READ)),
    DeleteShareGroupOffsetsRequest: whole(_group(_O.DELETE), rest=groups.delete_share_offsets),
    # transactions
    InitProducerIdRequest: groups.init_producer_id,
    AddPartitionsToTxnRequest: groups.add_partitions,
    AddOffsetsToTxnRequest: whole(_WRITES, _group(_O.READ)),
    TxnOffsetCommitRequest: whole(_WRITES, _group(_O.READ), rest=by_topic(_O.READ)),
    EndTxnRequest: whole(_WRITES),
    ListTransactionsRequest: groups.list_transactions,
    DescribeTransactionsRequest: by_name(_O.DESCRIBE, TRANSACTIONAL_ID, groups.show_topics),
    DescribeProducersRequest: by_topic(_O.READ),
    # users and ACLs
    DescribeUserScramCredentialsRequest: _cluster(_O.DESCRIBE),
    AlterUserScramCredentialsRequest: _cluster(_O.ALTER),
    DescribeClientQuotasRequest: _cluster(_O.DESCRIBE_CONFIGS),
    AlterClientQuotasRequest: _cluster(_O.ALTER_CONFIGS),
    DescribeAclsRequest: _cluster(_O.DESCRIBE),
    CreateAclsRequest: _cluster(_O.ALTER),
    DeleteAclsRequest: _cluster(_O.ALTER),
}
"""Brokers' messages have none: `api.plain.of_nodes` looks at them. Metadata is judged by `api.metadata`."""
