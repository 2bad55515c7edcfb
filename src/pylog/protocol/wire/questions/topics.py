"""Topics, as a client asks for them.

Metadata                  topics are never made by it: a name that is misspelled is an error, as in process
"""

from pylog.protocol.error_codes import of_code, untold
from pylog.protocol.messages import (
    NO_ID,
    ClusterMetadata,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
)
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question

__all__ = ["QUESTIONS"]

BY_ID_FROM = versions.BY_ID_FROM["Metadata"]


def _metadata_versions(message: Metadata) -> tuple[int, int]:
    return (BY_ID_FROM if message.topic_ids else 4), 1 << 15


def _metadata(message: Metadata, version: int) -> Body:
    topics: list[Body] | None = None
    if message.topics is not None or message.topic_ids:
        topics = [{"name": name} for name in message.topics or ()]
        topics += [{"name": None, "topicId": topic_id} for topic_id in message.topic_ids]
    return {"topics": topics, "allowAutoTopicCreation": message.creates}


def _described(message: Metadata, body: Body, version: int) -> ClusterMetadata:
    found = [_topic(topic) for topic in body["topics"]]
    nodes = {one["nodeId"]: (one["host"], one["port"]) for one in body["brokers"]}
    cluster_id = body["clusterId"] or ""
    if message.topics is None or message.topic_ids:
        return ClusterMetadata(found, cluster_id, nodes)
    by_name = {topic.name: topic for topic in found}
    topics = [by_name.get(name) or TopicMetadata(name, untold(f"topic {name!r}")) for name in message.topics]
    return ClusterMetadata(topics, cluster_id, nodes)


def _topic(body: Body) -> TopicMetadata:
    name = body["name"] or ""
    error = of_code(body["errorCode"], _topic_text(name, body["errorCode"]))
    partitions = [
        PartitionMetadata(
            one["partitionIndex"], one["leaderId"], one.get("leaderEpoch", -1), one["replicaNodes"], one["isrNodes"]
        )
        for one in body["partitions"]
    ]
    partitions.sort(key=lambda one: one.partition)
    return TopicMetadata(name, error, body.get("topicId", NO_ID), partitions)


def _topic_text(name: str, code: int) -> str | None:
    error = of_code(code)
    return None if error is None else f"topic {name!r}: {error}"


QUESTIONS: dict[type, Question] = {
    Metadata: Question(name="Metadata", body=_metadata, answer=_described, versions=_metadata_versions),
}
