"""Requests about other nodes, users and quotas. Their answers follow from there being one node, and none of the others.

    ElectLeaders                   the only replica leads already: ElectionNotNeeded; without partitions nothing is told
    ListPartitionReassignments     no partition moves to another node
    DescribeClientQuotas           there are no quotas
    SaslHandshake                  there is no SASL, or none now: IllegalSaslState, as on a plain-text listener of Kafka
    SaslAuthenticate               the same; `authentication` answers both where there is SASL

In all versions alike.
"""

from pylog.errors import (
    ElectionNotNeeded,
    IllegalSaslState,
    ProtocolError,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import ClusterMetadata, Metadata
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode


def _elections(request: Request, node: ServedNode) -> Outcome:
    topics = request.body["topicPartitions"] or []
    names = sorted({topic["topic"] for topic in topics})
    found: ClusterMetadata = node.ask(Metadata(names), request.session)
    there = {(topic.name, part.partition) for topic in found.topics for part in topic.partitions}
    results = []
    for topic in topics:
        entries = [_election(number, (topic["topic"], number) in there) for number in topic["partitions"]]
        results.append({"topic": topic["topic"], "partitionResult": entries})
    return {"replicaElectionResults": results}


def _election(number: int, is_there: bool) -> Body:
    error: ProtocolError = (
        ElectionNotNeeded("its only replica leads it")
        if is_there
        else UnknownTopicOrPartition("there is no such partition")
    )
    return {"partitionId": number, "errorCode": error.code, "errorMessage": str(error)}


def _reassignments(request: Request, node: ServedNode) -> Outcome:
    return {"topics": []}


def _quotas(request: Request, node: ServedNode) -> Outcome:
    return {"entries": []}


def _handshake(request: Request, node: ServedNode) -> Outcome:
    return {"errorCode": IllegalSaslState.code, "mechanisms": []}


def _authenticate(request: Request, node: ServedNode) -> Outcome:
    told = "SaslAuthenticate request received after successful authentication"
    return {"errorCode": IllegalSaslState.code, "errorMessage": told, "authBytes": b""}


APIS = (
    api("ElectLeaders", _elections),
    api("ListPartitionReassignments", _reassignments),
    api("DescribeClientQuotas", _quotas),
    api("SaslHandshake", _handshake),
    api("SaslAuthenticate", _authenticate),
)
