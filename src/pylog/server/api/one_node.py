"""Requests about other nodes. Their answers follow from there being one.

    ElectLeaders                   the only replica leads already: ElectionNotNeeded; without partitions nothing is told
    ListPartitionReassignments     no partition moves to another node
    AlterPartitionReassignments    every replica is here already: no error; another node is InvalidReplicaAssignment
    SaslHandshake                  there is no SASL, or none now: IllegalSaslState, as on a plain-text listener of Kafka
    SaslAuthenticate               the same; `authentication` answers both where there is SASL

In all versions alike.
"""

from collections.abc import Mapping

from pylog.errors import (
    ElectionNotNeeded,
    IllegalSaslState,
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
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


def _reassigned(request: Request, node: ServedNode) -> Outcome:
    names = sorted({topic["name"] for topic in request.body["topics"]})
    found: ClusterMetadata = node.ask(Metadata(names), request.session)
    there = {topic.name: {part.partition for part in topic.partitions} for topic in found.topics if topic.error is None}
    responses = []
    for topic in request.body["topics"]:
        parts = [_reassignment(topic["name"], part, there, node) for part in topic["partitions"]]
        responses.append({"name": topic["name"], "partitions": parts})
    return {"errorCode": 0, "errorMessage": None, "responses": responses}


def _reassignment(topic: str, part: Body, there: Mapping[str, set[int]], node: ServedNode) -> Body:
    number, replicas = part["partitionIndex"], part["replicas"]
    code, told = 0, None
    if topic not in there:
        code, told = UnknownTopicOrPartition.code, f"Unable to find a topic named {topic}."
    elif number not in there[topic]:
        code, told = UnknownTopicOrPartition.code, f"Unable to find partition {topic}:{number}."
    elif replicas is None:
        code = NoReassignmentInProgress.code
    elif not replicas:
        code, told = InvalidReplicaAssignment.code, "The manual partition assignment includes an empty replica list."
    elif replicas != [node.node_id]:
        strange = next((one for one in replicas if one != node.node_id), node.node_id)
        told = f"The manual partition assignment includes broker {strange}, but no such broker is registered."
        if strange == node.node_id:
            told = f"The manual partition assignment includes the broker {strange} more than once."
        code = InvalidReplicaAssignment.code
    return {"partitionIndex": number, "errorCode": code, "errorMessage": told}


def _handshake(request: Request, node: ServedNode) -> Outcome:
    return {"errorCode": IllegalSaslState.code, "mechanisms": []}


def _authenticate(request: Request, node: ServedNode) -> Outcome:
    told = "SaslAuthenticate request received after successful authentication"
    return {"errorCode": IllegalSaslState.code, "errorMessage": told, "authBytes": b""}


APIS = (
    api("ElectLeaders", _elections),
    api("ListPartitionReassignments", _reassignments),
    api("AlterPartitionReassignments", _reassigned),
    api("SaslHandshake", _handshake),
    api("SaslAuthenticate", _authenticate),
)
