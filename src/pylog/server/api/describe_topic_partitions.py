"""DescribeTopicPartitions: topics page by page (KIP-966), sorted by name, `responsePartitionLimit` partitions a page.

Without names all topics are meant. The cursor names the first partition of the next page: one of a topic that is not
named, or of a partition below 0, is InvalidRequest for each topic.
"""

from pylog.errors import InvalidRequest, TopicAuthorization
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.error_codes import error_code
from pylog.protocol.messages.topics import MetadataPartition, MetadataRequest, MetadataResponse
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

LIMIT_MAX = 2000


def answer(request: Request, node: ServedNode) -> Outcome:
    """One page."""
    body = request.body
    cursor, names = body["cursor"], sorted({topic["name"] for topic in body["topics"]})
    if cursor is not None and (cursor["partitionIndex"] < 0 or (names and cursor["topicName"] not in names)):
        return {"topics": [{"errorCode": InvalidRequest.code, "name": topic["name"]} for topic in body["topics"]]}
    refused = {name for name in names if not _may(name, request, node)}
    wanted = [name for name in names if name not in refused]
    found: MetadataResponse = node.ask(MetadataRequest.of(wanted if names else None), request.session)
    topics: list[Body] = []
    left, following = min(max(body["responsePartitionLimit"], 1), LIMIT_MAX), None
    for topic in sorted(found.topics, key=lambda topic: topic.name or ""):
        if cursor is not None and (topic.name or "") < cursor["topicName"]:
            continue
        if not names and not _may(topic.name or "", request, node):
            continue
        first = cursor["partitionIndex"] if cursor is not None and topic.name == cursor["topicName"] else 0
        parts = [part for part in topic.partitions if part.partition_index >= first]
        if left <= 0:
            following = {"topicName": topic.name, "partitionIndex": parts[0].partition_index if parts else 0}
            break
        topics.append({
            "errorCode": error_code(topic.error), "name": topic.name, "topicId": topic.topic_id,
            "isInternal": topic.is_internal, "partitions": [_part(part) for part in parts[:left]],
            "topicAuthorizedOperations": node.operations(request.session, AclResourceType.TOPIC, topic.name or ""),
        })  # fmt: skip
        if len(parts) > left:
            following = {"topicName": topic.name, "partitionIndex": parts[left].partition_index}
            break
        left -= len(parts)
    topics += [{"errorCode": TopicAuthorization.code, "name": name} for name in sorted(refused)]
    return {"topics": topics, "nextCursor": following}


def _may(name: str, request: Request, node: ServedNode) -> bool:
    return node.allows(request.session, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def _part(part: MetadataPartition) -> Body:
    return {
        "errorCode": error_code(part.error), "partitionIndex": part.partition_index, "leaderId": part.leader_id,
        "leaderEpoch": part.leader_epoch, "replicaNodes": part.replica_nodes, "isrNodes": part.isr_nodes,
        "eligibleLeaderReplicas": [], "lastKnownElr": [],
    }  # fmt: skip


API = api("DescribeTopicPartitions", answer, is_long=True)
