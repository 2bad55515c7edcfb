"""Topics, as bodies and as messages.

    Metadata                  topic ids from 10 on; offline replicas from 5, leader epochs from 7 on

The server adds the nodes.
"""

from pylog.errors import LeaderNotAvailable, UnknownTopicId
from pylog.protocol.error_codes import error_code
from pylog.protocol.messages import (
    INTERNAL_TOPICS,
    NO_ID,
    PartitionMetadata,
    TopicMetadata,
)
from pylog.protocol.wire.mapping import Body

__all__ = ["partition_body", "topic_body"]


def topic_body(topic: TopicMetadata, version: int) -> Body:
    """One topic of the response to Metadata."""
    is_nameless = not topic.name and topic.id != NO_ID
    body: Body = {
        "errorCode": UnknownTopicId.code if is_nameless else error_code(topic.error),
        "name": topic.name,
        "partitions": [partition_body(part, version) for part in topic.partitions],
    }
    if version >= 1:
        body["isInternal"] = topic.name in INTERNAL_TOPICS
    if version >= 10:
        body["topicId"] = topic.id
    if version >= 12 and is_nameless:
        body["name"] = None
    return body


def partition_body(part: PartitionMetadata, version: int) -> Body:
    """One partition of the response to Metadata."""
    body: Body = {
        "errorCode": 0 if part.leader >= 0 else LeaderNotAvailable.code,
        "partitionIndex": part.partition,
        "leaderId": part.leader,
        "replicaNodes": part.replicas,
        "isrNodes": part.isr,
    }
    if version >= 7:
        body["leaderEpoch"] = part.leader_epoch
    return body
