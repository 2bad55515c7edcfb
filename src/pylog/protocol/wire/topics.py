"""Topics, as bodies and as messages.

    Metadata                  topic ids from 10 on; offline replicas from 5, leader epochs from 7 on
    DeleteTopics              from 6 on topics may be named by id

The server adds the nodes.
"""

from pylog.errors import LeaderNotAvailable, PylogError, UnknownTopicId
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import (
    INTERNAL_TOPICS,
    NO_ID,
    DeleteTopics,
    PartitionMetadata,
    TopicMetadata,
    TopicsChanged,
)
from pylog.protocol.wire.mapping import Body, Mapping, named_code

__all__ = ["MAPPINGS", "partition_body", "topic_body"]


# --- descriptions -----------------------------------------------------------------------------------------------------


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


# --- changes ----------------------------------------------------------------------------------------------------------


def _delete_topics(body: Body, version: int) -> DeleteTopics:
    if version < 6:
        return DeleteTopics(list(body["topicNames"]))
    return DeleteTopics([topic["name"] or "" for topic in body["topics"]])


def _topics_deleted(body: Body, answer: TopicsChanged, version: int) -> Body:
    if version < 6:
        named: list[Body] = [{"name": name} for name in body["topicNames"]]
    else:
        # A topic that was asked for by an id that is not known has no name.
        named = [
            {
                "name": None if not topic["name"] and topic["topicId"] != NO_ID else topic["name"],
                "topicId": topic["topicId"],
            }
            for topic in body["topics"]
        ]
    responses = []
    for topic, error in zip(named, answer.errors, strict=True):
        code = named_code(topic["name"] or "", error, by_id=topic.get("topicId", NO_ID) != NO_ID)
        response = {**topic, "errorCode": code}
        if version >= 5:
            response["errorMessage"] = error_message(error)
        responses.append(response)
    return {"responses": responses}


def _refused(message: DeleteTopics, error: PylogError) -> TopicsChanged:
    return TopicsChanged([error for _ in message.names])


MAPPINGS = (
    Mapping(name="DeleteTopics", message=_delete_topics, response=_topics_deleted, refusal=_refused),
)  # fmt: skip
