"""The messages between nodes and clients: values that mirror Kafka's requests and answers.

    records        Produce, Fetch, ListOffsets, DeleteRecords
    topics         Metadata, CreateTopics...
    configs        DescribeConfigs, AlterConfigs
    groups         JoinGroup, OffsetCommit...
    transactions   InitProducerId, EndTxn...
    share          ShareFetch, ShareGroupHeartbeat...
    share_state    WriteShareGroupState...
    users          AlterUserScramCredentials...
    acls           CreateAcls...
    api            a request and a response as Kafka's schemas have them
    requests       all of these, by API key

A message names many topic-partitions; its answer has one part for each, in the same order. A part that failed carries
the error as a value: the failure of one partition is no reason to fail the others. Record bytes are opaque here: a
ProduceRequest carries encoded batches, a `Fetched` carries the bytes that lie in the log, or says where they lie.

The values are slotted and by convention never changed after they were sent.
"""

from pylog.kernel.format import NO_EPOCH
from pylog.protocol.messages.api import ApiRequest, ApiResponse
from pylog.protocol.messages.configs import ConfigChange, ConfigResource, ConfigSource, ResourceChange, ResourceType
from pylog.protocol.messages.groups import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, OfGroup
from pylog.protocol.messages.records import (
    ACKS_ALL,
    ANONYMOUS,
    CONSUMER,
    EARLIEST,
    HIGH_WATERMARK_UNTOLD,
    LATEST,
    MAX_TIMESTAMP,
    NO_HIGH_WATERMARK,
    NO_ID,
    ClientGone,
    Extent,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ProducedPart,
    ProducePart,
    ProduceRequest,
    ProduceResponse,
    Session,
)
from pylog.protocol.messages.topics import (
    GROUPS_TOPIC,
    INTERNAL_TOPICS,
    NODE_DEFAULT,
    SHARE_STATES_TOPIC,
    TRANSACTIONS_TOPIC,
    DescribedQuorum,
    DescribeQuorum,
    NewPartitions,
    NewTopic,
    Replacement,
)
from pylog.protocol.messages.transactions import ANY_TRANSACTION_VERSION, TxnMarkers

__all__ = [
    "ACKS_ALL",
    "ANONYMOUS",
    "ANY_TRANSACTION_VERSION",
    "CONSUMER",
    "EARLIEST",
    "GROUPS_TOPIC",
    "HIGH_WATERMARK_UNTOLD",
    "INTERNAL_TOPICS",
    "JOIN_EPOCH",
    "LATEST",
    "LEAVE_EPOCH",
    "LEAVE_STATIC_EPOCH",
    "MAX_TIMESTAMP",
    "NODE_DEFAULT",
    "NO_EPOCH",
    "NO_HIGH_WATERMARK",
    "NO_ID",
    "SHARE_STATES_TOPIC",
    "TRANSACTIONS_TOPIC",
    "ApiRequest",
    "ApiResponse",
    "ClientGone",
    "ConfigChange",
    "ConfigResource",
    "ConfigSource",
    "DescribeQuorum",
    "DescribedQuorum",
    "Extent",
    "Fetch",
    "FetchPart",
    "Fetched",
    "FetchedPart",
    "Message",
    "NewPartitions",
    "NewTopic",
    "OfGroup",
    "ProducePart",
    "ProduceRequest",
    "ProduceResponse",
    "ProducedPart",
    "Replacement",
    "ResourceChange",
    "ResourceType",
    "Session",
    "TxnMarkers",
]


Message = Fetch | OfGroup | DescribeQuorum | ClientGone | ApiRequest[object]
