"""Requests about leaders and replicas, which a person gives by hand (`Log.lead`): nothing is changed by them.

    ElectLeaders                   the wanted replica leads already: ElectionNotNeeded; else there is nobody who would
                                   elect it; without partitions all topics are told, without any of their partitions;
                                   another type than 0 and 1 is InvalidRequest
    ListPartitionReassignments     no partition is on its way to another node
    AlterPartitionReassignments    to the replicas that there are: no error; to others: InvalidReplicaAssignment

In all versions alike.
"""

from collections.abc import Mapping

from pylog.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    ProtocolError,
    UnknownTopicOrPartition,
)
from pylog.protocol.acls import AclOperation
from pylog.protocol.error_codes import brief
from pylog.protocol.messages import Session
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import needing, whole_error
from pylog.server.served_node import ServedNode

FACTOR_FROM = 1
PREFERRED, UNCLEAN = 0, 1
"""The types of an election: the first replica, or any that is there."""
ERROR_FROM = 1
"""Since when the answer to an election has an error of its own."""

Part = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
Known = Mapping[tuple[str | None, int], Part]


def _known(names: set[str], session: Session, node: ServedNode) -> tuple[set[str | None], Known]:
    """Those of these topics that there are, and their partitions."""
    found: MetadataResponse = node.ask(MetadataRequest.of(sorted(names)), session)
    there = [topic for topic in found.topics if topic.error is None]
    return {topic.name for topic in there}, {
        (topic.name, part.partition_index): part for topic in there for part in topic.partitions
    }


def _elections(request: Request, node: ServedNode) -> Outcome:
    topics, kind = request.body["topicPartitions"], request.body.get("electionType", PREFERRED)
    if topics is None:
        every: MetadataResponse = node.ask(MetadataRequest.of(), request.session)
        topics = [{"topic": topic.name, "partitions": []} for topic in every.topics]
    if kind not in (PREFERRED, UNCLEAN):
        return _no_election(topics, request.version)
    _, known = _known({topic["topic"] for topic in topics}, request.session, node)
    results = [
        {
            "topic": topic["topic"],
            "partitionResult": [
                _election(number, known.get((topic["topic"], number)), kind) for number in topic["partitions"]
            ],
        }
        for topic in topics
    ]
    return {"replicaElectionResults": results}


def _no_election(topics: list[Body], version: int) -> Body:
    error: Body = {"errorCode": InvalidRequest.code, "errorMessage": "the type of the election is 0 or 1"}
    results = [
        {"topic": one["topic"], "partitionResult": [{"partitionId": number, **error} for number in one["partitions"]]}
        for one in topics
    ]
    code = {} if version < ERROR_FROM or not topics else {"errorCode": InvalidRequest.code}
    return {**code, "replicaElectionResults": results}


def _election(number: int, part: Part | None, kind: int) -> Body:
    error: ProtocolError
    if part is None:
        error = UnknownTopicOrPartition("there is no such partition")
    elif part.leader_id == part.replica_nodes[0] or (kind == UNCLEAN and part.leader_id >= 0):
        error = ElectionNotNeeded(f"node {part.leader_id} leads it")
    elif kind == PREFERRED:
        error = PreferredLeaderNotAvailable(f"node {part.replica_nodes[0]} leads it when it is told so")
    else:
        error = EligibleLeadersNotAvailable("a replica leads it when it is told so")
    return {"partitionId": number, "errorCode": error.code, "errorMessage": str(error)}


def _no_elections(request: Request, code: int, text: str) -> Body:
    error: Body = {"errorCode": code, "errorMessage": text}
    results = [
        {"topic": one["topic"], "partitionResult": [{"partitionId": number, **error} for number in one["partitions"]]}
        for one in request.body["topicPartitions"] or ()
    ]
    whole: Body = {"errorCode": code} if request.version >= ERROR_FROM else {}
    return {**whole, "replicaElectionResults": results}


def _reassignments(request: Request, node: ServedNode) -> Outcome:
    return {"topics": []}


def _reassigned(request: Request, node: ServedNode) -> Outcome:
    names, known = _known({topic["name"] for topic in request.body["topics"]}, request.session, node)
    responses = []
    for topic in request.body["topics"]:
        name = topic["name"]
        parts = [
            _reassignment(f"{name}:{part['partitionIndex']}", part, known.get((name, part["partitionIndex"])))
            if name in names
            else _refused(part, UnknownTopicOrPartition(f"Unable to find a topic named {name}."))
            for part in topic["partitions"]
        ]
        responses.append({"name": name, "partitions": parts})
    body: Body = {"errorCode": 0, "errorMessage": None, "responses": responses}
    if request.version >= FACTOR_FROM and responses:
        body["allowReplicationFactorChange"] = request.body["allowReplicationFactorChange"]
    return body


def _reassignment(name: str, part: Body, known: Part | None) -> Body:
    replicas: list[int] | None = part["replicas"]
    untold: Body = {"partitionIndex": part["partitionIndex"], "errorCode": 0, "errorMessage": None}
    if known is None:
        return _refused(part, UnknownTopicOrPartition(f"Unable to find partition {name}."))
    if replicas is None:
        return {**untold, "errorCode": NoReassignmentInProgress.code}
    told = _fault(replicas, known)
    return _refused(part, InvalidReplicaAssignment(told)) if told else untold


def _fault(replicas: list[int], known: Part) -> str | None:
    """The reason why a partition cannot have these replicas; None: it has them."""
    twice = next((one for one in replicas if replicas.count(one) > 1), None)
    strange = next((one for one in replicas if one not in known.replica_nodes), None)
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    if strange is not None:
        return f"The manual partition assignment includes broker {strange}, but no such broker is registered."
    if twice is not None:
        return f"The manual partition assignment includes the broker {twice} more than once."
    if set(replicas) != set(known.replica_nodes):
        return "A follower goes when its leader is told so."
    return None


def _refused(part: Body, error: ProtocolError) -> Body:
    return {"partitionIndex": part["partitionIndex"], "errorCode": error.code, "errorMessage": brief(str(error))}


APIS = (
    api("ElectLeaders", needing(AclOperation.ALTER, _elections, _no_elections), is_long=True),
    api("ListPartitionReassignments", needing(AclOperation.DESCRIBE, _reassignments, whole_error)),
    api("AlterPartitionReassignments", needing(AclOperation.ALTER, _reassigned, whole_error), is_long=True),
)
