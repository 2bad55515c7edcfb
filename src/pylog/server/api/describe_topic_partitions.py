"""DescribeTopicPartitions: topics page by page (KIP-966), sorted by name, `responsePartitionLimit` partitions a page.

Without names all topics are meant. The cursor names the first partition of the next page: one of a topic that is not
named, or of a partition below 0, is InvalidRequest for each topic.
"""

from pylog.errors import InvalidRequest
from pylog.protocol.messages import ClusterMetadata, Metadata, PartitionMetadata
from pylog.protocol.operations import OF_TOPIC
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.topics import partition_body, topic_body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

LIMIT_MAX = 2000
AS_METADATA = 13
"""The version of Metadata whose fields are those of this answer."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """One page."""
    body = request.body
    cursor, names = body["cursor"], sorted({topic["name"] for topic in body["topics"]})
    if cursor is not None and (cursor["partitionIndex"] < 0 or (names and cursor["topicName"] not in names)):
        return {"topics": [{"errorCode": InvalidRequest.code, "name": topic["name"]} for topic in body["topics"]]}
    found: ClusterMetadata = node.ask(Metadata(names or None), request.session)
    topics: list[Body] = []
    left, following = min(max(body["responsePartitionLimit"], 1), LIMIT_MAX), None
    for topic in sorted(found.topics, key=lambda topic: topic.name):
        if cursor is not None and topic.name < cursor["topicName"]:
            continue
        first = cursor["partitionIndex"] if cursor is not None and topic.name == cursor["topicName"] else 0
        parts = [part for part in topic.partitions if part.partition >= first]
        if left <= 0:
            following = {"topicName": topic.name, "partitionIndex": parts[0].partition if parts else 0}
            break
        described = {**topic_body(topic, AS_METADATA), "partitions": [_part(part) for part in parts[:left]]}
        topics.append({**described, "topicAuthorizedOperations": OF_TOPIC})
        if len(parts) > left:
            following = {"topicName": topic.name, "partitionIndex": parts[left].partition}
            break
        left -= len(parts)
    return {"topics": topics, "nextCursor": following}


def _part(part: PartitionMetadata) -> Body:
    return {**partition_body(part, AS_METADATA), "eligibleLeaderReplicas": [], "lastKnownElr": []}


API = api("DescribeTopicPartitions", answer, is_long=True)
