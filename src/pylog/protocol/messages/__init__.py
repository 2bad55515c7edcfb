"""The messages between nodes and clients: values that mirror Kafka's requests and answers.

    records        Produce, Fetch, ListOffsets, DeleteRecords
    topics         Metadata, CreateTopics...
    groups         JoinGroup, OffsetCommit...
    transactions   InitProducerId, EndTxn...
    users          AlterUserScramCredentials...

A message names many topic-partitions; its answer has one part for each, in the same order. A part that failed carries
the error as a value: the failure of one partition is no reason to fail the others. Record bytes are opaque here: a
`Produce` carries encoded batches, a `Fetched` carries the bytes that lie in the log, or says where they lie.

The values are slotted and by convention never changed after they were sent.
"""

from pylog.protocol.messages.groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeaten,
    DeleteGroups,
    DescribedGroup,
    DescribedGroups,
    DescribedMember,
    DescribeGroups,
    GroupsDeleted,
    Heartbeat,
    Heartbeaten,
    JoinedGroup,
    JoinedMember,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftGroup,
    ListedGroup,
    ListedGroups,
    ListGroups,
    OffsetCommit,
    OffsetCommitPart,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchedPart,
    OffsetsCommitted,
    OffsetsFetched,
    OfGroup,
    SyncedGroup,
    SyncGroup,
    TxnOffsetCommit,
)
from pylog.protocol.messages.records import (
    ACKS_ALL,
    CONSUMER,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NO_EPOCH,
    NO_ID,
    DeletedPart,
    DeleteRecords,
    DeleteRecordsPart,
    EpochEndPart,
    EpochEnds,
    Extent,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListedOffsets,
    ListedPart,
    ListOffsets,
    ListOffsetsPart,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPart,
    Produce,
    Produced,
    ProducedPart,
    ProducePart,
    RecordsDeleted,
    Session,
)
from pylog.protocol.messages.topics import (
    GROUPS_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTIONS_TOPIC,
    AlterConfigs,
    AlterReplicaLogDirs,
    ClusterMetadata,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribedLogDir,
    DescribedLogDirs,
    DescribedNodeConfig,
    DescribedQuorum,
    DescribedTopicConfigs,
    DescribeLogDirs,
    DescribeNodeConfig,
    DescribeQuorum,
    DescribeTopicConfigs,
    Metadata,
    NewPartitions,
    NewTopic,
    PartitionMetadata,
    Replacement,
    TopicChange,
    TopicMetadata,
    TopicsChanged,
)
from pylog.protocol.messages.transactions import (
    ActiveProducer,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribedProducers,
    DescribedTransaction,
    DescribedTransactions,
    DescribeProducers,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    ListedTransaction,
    ListedTransactions,
    ListTransactions,
    OffsetsAdded,
    OfTransaction,
    PartitionsAdded,
    ProducerIdGiven,
    TxnEnded,
    TxnMarkers,
    TxnMarkersWritten,
    WriteTxnMarkers,
)
from pylog.protocol.messages.users import (
    AlterUserScramCredentials,
    DescribedUser,
    DescribedUsers,
    DescribeUserScramCredentials,
    ScramDeletion,
    ScramUpsertion,
    UserScramCredentialsAltered,
)

__all__ = [
    "ACKS_ALL",
    "CONSUMER",
    "EARLIEST",
    "GROUPS_TOPIC",
    "INTERNAL_TOPICS",
    "JOIN_EPOCH",
    "LATEST",
    "LEAVE_EPOCH",
    "LEAVE_STATIC_EPOCH",
    "MAX_TIMESTAMP",
    "NO_EPOCH",
    "NO_ID",
    "TRANSACTIONS_TOPIC",
    "ActiveProducer",
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "AlterUserScramCredentials",
    "ClusterMetadata",
    "ConfigChange",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupHeartbeaten",
    "CreatePartitions",
    "CreateTopics",
    "DeleteGroups",
    "DeleteRecords",
    "DeleteRecordsPart",
    "DeleteTopics",
    "DeletedPart",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeNodeConfig",
    "DescribeProducers",
    "DescribeQuorum",
    "DescribeTopicConfigs",
    "DescribeTransactions",
    "DescribeUserScramCredentials",
    "DescribedGroup",
    "DescribedGroups",
    "DescribedLogDir",
    "DescribedLogDirs",
    "DescribedMember",
    "DescribedNodeConfig",
    "DescribedProducers",
    "DescribedQuorum",
    "DescribedTopicConfigs",
    "DescribedTransaction",
    "DescribedTransactions",
    "DescribedUser",
    "DescribedUsers",
    "EndTxn",
    "EpochEndPart",
    "EpochEnds",
    "Extent",
    "Fetch",
    "FetchPart",
    "Fetched",
    "FetchedPart",
    "GroupsDeleted",
    "Heartbeat",
    "Heartbeaten",
    "InitProducerId",
    "JoinGroup",
    "JoinedGroup",
    "JoinedMember",
    "LeaveGroup",
    "LeavingMember",
    "LeftGroup",
    "ListGroups",
    "ListOffsets",
    "ListOffsetsPart",
    "ListTransactions",
    "ListedGroup",
    "ListedGroups",
    "ListedOffsets",
    "ListedPart",
    "ListedTransaction",
    "ListedTransactions",
    "Message",
    "Metadata",
    "NewPartitions",
    "NewTopic",
    "OfGroup",
    "OfTransaction",
    "OffsetCommit",
    "OffsetCommitPart",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetFetchedPart",
    "OffsetForLeaderEpoch",
    "OffsetForLeaderEpochPart",
    "OffsetsAdded",
    "OffsetsCommitted",
    "OffsetsFetched",
    "PartitionMetadata",
    "PartitionsAdded",
    "Produce",
    "ProducePart",
    "Produced",
    "ProducedPart",
    "ProducerIdGiven",
    "RecordsDeleted",
    "Replacement",
    "ScramDeletion",
    "ScramUpsertion",
    "Session",
    "SyncGroup",
    "SyncedGroup",
    "TopicChange",
    "TopicMetadata",
    "TopicsChanged",
    "TxnEnded",
    "TxnMarkers",
    "TxnMarkersWritten",
    "TxnOffsetCommit",
    "UserScramCredentialsAltered",
    "WriteTxnMarkers",
]


Message = (
    Produce
    | Fetch
    | ListOffsets
    | OffsetForLeaderEpoch
    | Metadata
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | AlterReplicaLogDirs
    | DeleteRecords
    | OfGroup
    | ListGroups
    | DescribeGroups
    | DeleteGroups
    | OfTransaction
    | WriteTxnMarkers
    | ListTransactions
    | DescribeTransactions
    | DescribeProducers
    | DescribeLogDirs
    | DescribeNodeConfig
    | DescribeTopicConfigs
    | DescribeQuorum
    | DescribeUserScramCredentials
    | AlterUserScramCredentials
)
