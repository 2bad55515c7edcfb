"""Metadata: the nodes, the topics and where their partitions are led.

    0       an empty list of topics means all of them; from 1 on None does
    4       whether a topic that is missing may be made
    8-10    authorized operations: none are told, there are no ACLs
    10-13   topics may be asked for by id (from 12 on without a name), and have their id in the answer

A missing topic is made with the node's `num.partitions` where `auto.create.topics.enable` and the client allow it, and
is in the answer then; Kafka says UnknownTopicOrPartition first, and the client asks again.
"""

from dataclasses import replace

from pylog.errors import TopicAlreadyExists, UnknownTopicOrPartition
from pylog.protocol.messages import (
    INTERNAL_TOPICS,
    NO_ID,
    ClusterMetadata,
    CreateTopics,
    Metadata,
    NewTopic,
    Session,
    TopicMetadata,
    TopicsChanged,
)
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.topics import topic_body
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.served_node import ServedNode

NODE_DEFAULT = -1


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe the topics, and make those that are missing first where that is wanted."""
    wanted = _wanted(request)
    found: ClusterMetadata = node.ask(wanted, request.session)
    missing = [
        topic.name
        for topic in found.topics
        if isinstance(topic.error, UnknownTopicOrPartition) and topic.name not in INTERNAL_TOPICS
    ]
    allowed = node.config.auto_create_topics_enable and request.body.get("allowAutoTopicCreation", True)
    if missing and allowed:
        return Later(lambda: _make(missing, request, node))
    return _response(found.topics, request, node, found)


def _wanted(request: Request) -> Metadata:
    topics = request.body["topics"]
    if topics is None or (request.version == 0 and not topics):
        return Metadata()
    names = [topic["name"] for topic in topics if topic.get("topicId", NO_ID) == NO_ID]
    ids = [topic["topicId"] for topic in topics if topic.get("topicId", NO_ID) != NO_ID]
    return Metadata([name or "" for name in names], ids)


def _make(names: list[str], request: Request, node: ServedNode) -> Body:
    """Make topics, then describe all that were asked for."""
    errors = dict(zip(names, made(names, node, request.session).errors, strict=True))
    found: ClusterMetadata = node.ask(_wanted(request), request.session)
    topics = []
    for topic in found.topics:
        error = errors.get(topic.name)
        is_refused = topic.error is not None and error is not None and not isinstance(error, TopicAlreadyExists)
        topics.append(replace(topic, error=error) if is_refused else topic)
    return _response(topics, request, node, found)


def made(names: list[str], node: ServedNode, session: Session) -> TopicsChanged:
    """Make topics with the node's defaults."""
    changed: TopicsChanged = node.ask(CreateTopics([NewTopic(name, NODE_DEFAULT) for name in names]), session)
    return changed


def _response(topics: list[TopicMetadata], request: Request, node: ServedNode, found: ClusterMetadata) -> Body:
    version = request.version
    brokers = node.brokers()
    # The leaders that this node follows: a client that has asked the copy goes to them.
    brokers += [{"nodeId": other, "host": host, "port": port} for other, (host, port) in found.nodes.items()]
    body: Body = {"brokers": brokers, "topics": [topic_body(topic, version) for topic in topics]}
    if version >= 1:
        body["controllerId"] = node.node_id
    if version >= 2:
        body["clusterId"] = found.cluster_id
    return body


API = api("Metadata", answer)
