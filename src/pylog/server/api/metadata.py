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
from pylog.protocol.messages import INTERNAL_TOPICS, NO_ID
from pylog.protocol.messages.topics import METADATA_BY_ID_FROM, MetadataRequest, MetadataResponse, MetadataTopic
from pylog.protocol.operations import OF_CLUSTER, OF_TOPIC
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.served_node import ServedNode

PARTITIONS_AT_ONCE = 1000
"""How many partitions are described in the loop's thread."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe the topics, and make those that are missing first where that is wanted."""
    asked: MetadataRequest = request.body
    if request.version < METADATA_BY_ID_FROM and asked.is_by_id:
        return _refused(asked)
    wanted = _wanted(asked, request.version)
    found: MetadataResponse = node.ask(wanted, request.session)
    lacks = any(
        isinstance(topic.error, UnknownTopicOrPartition) and topic.name not in INTERNAL_TOPICS for topic in found.topics
    )
    if lacks and node.config.auto_create_topics_enable and asked.allow_auto_topic_creation:
        # It may wait for the disk.
        creating = replace(wanted, allow_auto_topic_creation=True, partitions_max=None)
        return Later(partial(_described, creating, request, node))
    if found.lacks_partitions:
        return Later(partial(_described, replace(wanted, partitions_max=None), request, node), is_long=True)
    return _completed(found, asked, node)


def _refused(asked: MetadataRequest) -> MetadataResponse:
    error = InvalidRequest(f"topics are asked for by their ids from version {METADATA_BY_ID_FROM} on")
    return MetadataResponse(
        topics=[MetadataTopic(error=error, name=one.name or "", topic_id=one.topic_id) for one in asked.topics or ()]
    )


def _described(wanted: MetadataRequest, request: Request, node: ServedNode) -> MetadataResponse:
    return _completed(node.ask(wanted, request.session), request.body, node)


def _wanted(asked: MetadataRequest, version: int) -> MetadataRequest:
    """The request to the node, which makes no topic."""
    topics = asked.topics
    if topics is None or (version == 0 and not topics):
        return MetadataRequest.of(partitions_max=PARTITIONS_AT_ONCE)
    # (Kafka: KafkaApis.handleTopicMetadataRequest, which makes a set of them)
    names = dict.fromkeys(one.name or "" for one in topics if one.topic_id == NO_ID)
    ids = dict.fromkeys(one.topic_id for one in topics if one.topic_id != NO_ID)
    return MetadataRequest.of(names, ids, partitions_max=PARTITIONS_AT_ONCE)


def _completed(found: MetadataResponse, asked: MetadataRequest, node: ServedNode) -> MetadataResponse:
    """The answer of the node, with what a client elsewhere is told besides."""
    this = MetadataResponse.MetadataResponseBroker(
        node_id=node.node_id, host=node.address.host, port=node.address.port
    )  # fmt: skip
    # Behind it the leaders that this node follows: a client that has asked the copy goes to them.
    found.brokers.insert(0, this)
    found.controller_id = node.node_id
    if asked.include_topic_authorized_operations:
        for topic in found.topics:
            if not isinstance(topic.error, UnknownTopicId):
                topic.topic_authorized_operations = OF_TOPIC
    if asked.include_cluster_authorized_operations:
        found.cluster_authorized_operations = OF_CLUSTER
    return found


API = api("Metadata", answer, into=MetadataRequest)
