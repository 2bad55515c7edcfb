"""Requests about other nodes. Their answers follow from there being one.

    ElectLeaders                   the only replica leads already: ElectionNotNeeded; without partitions all topics are
                                   told, without any of their partitions; another type than 0 and 1 is InvalidRequest
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
    InvalidRequest,
    NoReassignmentInProgress,
    ProtocolError,
    UnknownTopicOrPartition,
)
from pylog.protocol.error_codes import brief
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

FACTOR_FROM = 1
ELECTION_TYPES, ERROR_FROM = (0, 1), 1
"""The preferred replica, or one that is not in sync; and since when the answer has an error of its own."""


def _elections(request: Request, node: ServedNode) -> Outcome:
    topics = request.body["topicPartitions"]
    if topics is None:
        every: MetadataResponse = node.ask(MetadataRequest.of(), request.session)
        topics = [{"topic": topic.name, "partitions": []} for topic in every.topics]
    if request.body.get("electionType", 0) not in ELECTION_TYPES:
        return _no_election(topics, request.version)
    names = sorted({topic["topic"] for topic in topics})
    found: MetadataResponse = node.ask(MetadataRequest.of(names), request.session)
    there = {(topic.name, part.partition_index) for topic in found.topics for part in topic.partitions}
    results = []
    for topic in topics:
        entries = [_election(number, (topic["topic"], number) in there) for number in topic["partitions"]]
        results.append({"topic": topic["topic"], "partitionResult": entries})
    return {"replicaElectionResults": results}


def _no_election(topics: list[Body], version: int) -> Body:
    error: Body = {"errorCode": InvalidRequest.code, "errorMessage": "the type of the election is 0 or 1"}
    results = [
        {"topic": one["topic"], "partitionResult": [{"partitionId": number, **error} for number in one["partitions"]]}
        for one in topics
    ]
    code = {} if version < ERROR_FROM or not topics else {"errorCode": InvalidRequest.code}
    return {**code, "replicaElectionResults": results}


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
    found: MetadataResponse = node.ask(MetadataRequest.of(names), request.session)
    there = {
        topic.name: {part.partition_index for part in topic.partitions} for topic in found.topics if topic.error is None
    }
    responses = []
    for topic in request.body["topics"]:
        parts = [_reassignment(topic["name"], part, there, node) for part in topic["partitions"]]
        responses.append({"name": topic["name"], "partitions": parts})
    body: Body = {"errorCode": 0, "errorMessage": None, "responses": responses}
    if request.version >= FACTOR_FROM and responses:
        body["allowReplicationFactorChange"] = request.body["allowReplicationFactorChange"]
    return body


def _reassignment(topic: str, part: Body, there: Mapping[str | None, set[int]], node: ServedNode) -> Body:
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
    return {"partitionIndex": number, "errorCode": code, "errorMessage": told and brief(told)}


def _handshake(request: Request, node: ServedNode) -> Outcome:
    return {"errorCode": IllegalSaslState.code, "mechanisms": []}


def _authenticate(request: Request, node: ServedNode) -> Outcome:
    told = "SaslAuthenticate request received after successful authentication"
    return {"errorCode": IllegalSaslState.code, "errorMessage": told, "authBytes": b""}


APIS = (
    api("ElectLeaders", _elections, is_long=True),
    api("ListPartitionReassignments", _reassignments),
    api("AlterPartitionReassignments", _reassigned, is_long=True),
    api("SaslHandshake", _handshake),
    api("SaslAuthenticate", _authenticate),
)
