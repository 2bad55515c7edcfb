"""What nodes and clients say to each other: values that mirror Kafka's requests and answers.

    records        Produce, Fetch, ListOffsets, DeleteRecords
    topics         Metadata, CreateTopics...
    groups         JoinGroup, OffsetCommit...
    transactions   InitProducerId, EndTxn...

A message names many topic-partitions; its answer has one part for each, in the same order. A part that failed carries
the error as a value: one partition's trouble is no reason to fail the others. Record bytes are opaque here: a `Produce`
carries encoded batches, a `Fetched` carries the bytes that lie in the log, or says where they lie.

The values are slotted and by convention never changed after they were sent.
"""

from pylog.message.groups import (
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
from pylog.message.records import (
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
    Extent,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListedOffsets,
    ListedPart,
    ListOffsets,
    ListOffsetsPart,
    Produce,
    Produced,
    ProducedPart,
    ProducePart,
    RecordsDeleted,
    Session,
)
from pylog.message.topics import (
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
    DescribeLogDirs,
    DescribeNodeConfig,
    Metadata,
    NewPartitions,
    NewTopic,
    PartitionMetadata,
    Replacement,
    TopicChange,
    TopicMetadata,
    TopicsChanged,
)
from pylog.message.transactions import (
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

__all__ = [
    "ACKS_ALL",
    "CONSUMER",
    "EARLIEST",
    "JOIN_EPOCH",
    "LATEST",
    "LEAVE_EPOCH",
    "LEAVE_STATIC_EPOCH",
    "MAX_TIMESTAMP",
    "NO_EPOCH",
    "NO_ID",
    "ActiveProducer",
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "AlterConfigs",
    "AlterReplicaLogDirs",
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
    "DescribeTransactions",
    "DescribedGroup",
    "DescribedGroups",
    "DescribedLogDir",
    "DescribedLogDirs",
    "DescribedMember",
    "DescribedNodeConfig",
    "DescribedProducers",
    "DescribedTransaction",
    "DescribedTransactions",
    "EndTxn",
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
    "WriteTxnMarkers",
]


Message = (
    Produce
    | Fetch
    | ListOffsets
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
)
