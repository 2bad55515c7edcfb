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

from pylog.errors import InvalidRequest, TopicAuthorization, UnknownTopicId, UnknownTopicOrPartition
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages import INTERNAL_TOPICS, NO_ID
from pylog.protocol.messages.topics import METADATA_BY_ID_FROM, MetadataRequest, MetadataResponse, MetadataTopic
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.served_node import ServedNode

PARTITIONS_AT_ONCE = 1000
"""How many partitions are described in the loop's thread."""
_HIDDEN = TopicAuthorization("Topic authorization failed.")


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe the topics, and make those that are missing first where that is wanted."""
    asked: MetadataRequest = request.body
    if request.version < METADATA_BY_ID_FROM and asked.is_by_id:
        return _refused(asked)
    whole = _wanted(asked, request.version)
    hidden = node.refused(request.session, AclOperation.DESCRIBE, AclResourceType.TOPIC, _names(whole))
    wanted = _without(whole, hidden)
    found: MetadataResponse = node.ask(wanted, request.session)
    missing = {
        topic.name or ""
        for topic in found.topics
        if isinstance(topic.error, UnknownTopicOrPartition) and topic.name not in INTERNAL_TOPICS
    }
    if missing and node.config.auto_create_topics_enable and asked.allow_auto_topic_creation:
        kept_out = _not_to_be_made(missing, request, node)
        hidden, wanted = hidden | kept_out, _without(wanted, kept_out)
        found.topics = [topic for topic in found.topics if topic.name not in kept_out]
        if missing - kept_out:
            # It may wait for the disk.
            creating = replace(wanted, allow_auto_topic_creation=True, partitions_max=None)
            return Later(partial(_described, creating, hidden, request, node))
    if found.lacks_partitions:
        return Later(partial(_described, replace(wanted, partitions_max=None), hidden, request, node), is_long=True)
    return _completed(found, hidden, request, node)


def _names(asked: MetadataRequest) -> list[str]:
    return [one.name for one in asked.topics or () if one.name is not None]


def _without(asked: MetadataRequest, names: set[str]) -> MetadataRequest:
    if not names:
        return asked
    return replace(asked, topics=[one for one in asked.topics or () if one.name not in names])


def _not_to_be_made(missing: set[str], request: Request, node: ServedNode) -> set[str]:
    """Those of the missing topics that the client may not make: CREATE on the cluster, or on the topic."""
    if node.allows(request.session, AclOperation.CREATE):
        return set()
    return node.refused(request.session, AclOperation.CREATE, AclResourceType.TOPIC, missing)


def _refused(asked: MetadataRequest) -> MetadataResponse:
    error = InvalidRequest(f"topics are asked for by their ids from version {METADATA_BY_ID_FROM} on")
    return MetadataResponse(
        topics=[MetadataTopic(error=error, name=one.name or "", topic_id=one.topic_id) for one in asked.topics or ()]
    )


def _described(wanted: MetadataRequest, hidden: set[str], request: Request, node: ServedNode) -> MetadataResponse:
    return _completed(node.ask(wanted, request.session), hidden, request, node)


def _wanted(asked: MetadataRequest, version: int) -> MetadataRequest:
    """The request to the node, which makes no topic."""
    topics = asked.topics
    if topics is None or (version == 0 and not topics):
        return MetadataRequest.of(partitions_max=PARTITIONS_AT_ONCE)
    # (Kafka: KafkaApis.handleTopicMetadataRequest, which makes a set of them)
    names = dict.fromkeys(one.name or "" for one in topics if one.topic_id == NO_ID)
    ids = dict.fromkeys(one.topic_id for one in topics if one.topic_id != NO_ID)
    return MetadataRequest.of(names, ids, partitions_max=PARTITIONS_AT_ONCE)


def _completed(found: MetadataResponse, hidden: set[str], request: Request, node: ServedNode) -> MetadataResponse:
    """The answer of the node, with what a client elsewhere is told besides, and without what it may not see."""
    asked: MetadataRequest = request.body
    this = MetadataResponse.MetadataResponseBroker(
        node_id=node.node_id, host=node.address.host, port=node.address.port
    )  # fmt: skip
    # Behind it the leaders that this node follows: a client that has asked the copy goes to them.
    found.brokers.insert(0, this)
    found.controller_id = node.node_id
    found.topics = _seen(found.topics, request, node)
    if asked.include_topic_authorized_operations:
        for topic in found.topics:
            if topic.name is not None and not isinstance(topic.error, UnknownTopicId):
                operations = node.operations(request.session, AclResourceType.TOPIC, topic.name)
                topic.topic_authorized_operations = operations
    found.topics += [MetadataTopic(error=_HIDDEN, name=name) for name in sorted(hidden)]
    if asked.include_cluster_authorized_operations:
        may = node.allows(request.session, AclOperation.DESCRIBE)
        operations = node.operations(request.session, AclResourceType.CLUSTER) if may else 0
        found.cluster_authorized_operations = operations
    return found


def _seen(topics: list[MetadataTopic], request: Request, node: ServedNode) -> list[MetadataTopic]:
    """The topics that a client may see. One that it has asked for by the id keeps that, which is no secret."""
    asked: MetadataRequest = request.body
    if asked.topics and not asked.is_by_id:
        # They were looked at by their names.
        return topics
    refused = node.refused(
        request.session, AclOperation.DESCRIBE, AclResourceType.TOPIC, [topic.name or "" for topic in topics]
    )  # fmt: skip
    if not refused:
        return topics
    ids = {one.topic_id for one in asked.topics or ()} - {NO_ID}
    seen = [topic for topic in topics if topic.name not in refused]
    others = [topic.topic_id for topic in topics if topic.name in refused and topic.topic_id in ids]
    return seen + [MetadataTopic(error=_HIDDEN, name=None, topic_id=one) for one in others]


API = api("Metadata", answer, into=MetadataRequest)
