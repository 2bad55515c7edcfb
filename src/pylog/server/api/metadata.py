"""Metadata: the nodes, the topics and where their partitions are led.

    0       an empty list of topics means all of them; from 1 on None does
    4       whether a topic that is missing may be made
    8-10    authorized operations of the cluster, where they are asked for; from 8 on those of topics
    10-13   topics have their id in the answer; from 12 on they may be asked for by it, below that is InvalidRequest

Each topic is described once, however often it is named. A description of many partitions is made in the thread of large
requests.

A missing topic is made with the node's `num.partitions` where `auto.create.topics.enable` and the client allow it, and
is in the answer then; Kafka says UnknownTopicOrPartition first, and the client asks again.
"""

from dataclasses import replace
from functools import partial

from pylog.errors import InvalidRequest, UnknownTopicId, UnknownTopicOrPartition
from pylog.protocol.messages import INTERNAL_TOPICS, NO_ID, ClusterMetadata, Metadata
from pylog.protocol.operations import OF_CLUSTER, OF_TOPIC
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.topics import topic_body
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.served_node import ServedNode

BY_ID_FROM = versions.BY_ID_FROM["Metadata"]
PARTITIONS_AT_ONCE = 1000
"""How many partitions are described in the loop's thread."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe the topics, and make those that are missing first where that is wanted."""
    if request.version < BY_ID_FROM and _is_by_id(request.body):
        return _refused(request.body)
    wanted = _wanted(request)
    found: ClusterMetadata = node.ask(wanted, request.session)
    lacks = any(
        isinstance(topic.error, UnknownTopicOrPartition) and topic.name not in INTERNAL_TOPICS for topic in found.topics
    )
    allowed = node.config.auto_create_topics_enable and request.body.get("allowAutoTopicCreation", True)
    if lacks and allowed:
        # It may wait for the disk.
        return Later(partial(_described, replace(wanted, creates=True, partitions_max=None), request, node))
    if found.lacks_partitions:
        return Later(partial(_described, replace(wanted, partitions_max=None), request, node), is_long=True)
    return _response(found, request, node)


def _is_by_id(body: Body) -> bool:
    return any(topic["name"] is None or topic.get("topicId", NO_ID) != NO_ID for topic in body["topics"] or ())


def _refused(body: Body) -> Body:
    topics = [
        {"errorCode": InvalidRequest.code, "name": topic["name"] or "", "topicId": topic.get("topicId", NO_ID)}
        for topic in body["topics"]
    ]
    return {"brokers": [], "topics": topics}


def _described(wanted: Metadata, request: Request, node: ServedNode) -> Body:
    return _response(node.ask(wanted, request.session), request, node)


def _wanted(request: Request) -> Metadata:
    topics = request.body["topics"]
    if topics is None or (request.version == 0 and not topics):
        return Metadata(partitions_max=PARTITIONS_AT_ONCE)
    # (Kafka: KafkaApis.handleTopicMetadataRequest, which makes a set of them)
    names = dict.fromkeys(topic["name"] or "" for topic in topics if topic.get("topicId", NO_ID) == NO_ID)
    ids = dict.fromkeys(topic["topicId"] for topic in topics if topic.get("topicId", NO_ID) != NO_ID)
    return Metadata(list(names), list(ids), partitions_max=PARTITIONS_AT_ONCE)


def _response(found: ClusterMetadata, request: Request, node: ServedNode) -> Body:
    version = request.version
    brokers = node.brokers()
    # The leaders that this node follows: a client that has asked the copy goes to them.
    brokers += [{"nodeId": other, "host": host, "port": port} for other, (host, port) in found.nodes.items()]
    topics = [topic_body(topic, version) for topic in found.topics]
    if request.body.get("includeTopicAuthorizedOperations"):
        topics = [
            topic if topic["errorCode"] == UnknownTopicId.code else {**topic, "topicAuthorizedOperations": OF_TOPIC}
            for topic in topics
        ]
    body: Body = {"brokers": brokers, "topics": topics}
    if request.body.get("includeClusterAuthorizedOperations"):
        body["clusterAuthorizedOperations"] = OF_CLUSTER
    if version >= 1:
        body["controllerId"] = node.node_id
    if version >= 2:
        body["clusterId"] = found.cluster_id
    return body


API = api("Metadata", answer)
