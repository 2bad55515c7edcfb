"""CreateTopics: topics with their configs; this node keeps every partition.

    2-4    the error alone            5     the number of partitions and all configs (KIP-525)
    7      the topic's id

-1 partitions and -1 replicas are the defaults. More than one replica is InvalidReplicationFactor, and an assignment to
another node InvalidReplicaAssignment; a name, or a config, that is refused is told before (Kafka:
ReplicationControlManager.createTopics). A topic that is named twice is InvalidRequest, for each of its places.
"""

from collections import Counter
from dataclasses import replace
from operator import itemgetter

from pylog.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    PylogError,
)
from pylog.protocol.described_configs import NodeEntries, topic_entries
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import (
    NODE_DEFAULT,
    ClusterMetadata,
    CreateTopics,
    Metadata,
    NewTopic,
    TopicMetadata,
    TopicsChanged,
)
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.topics import new_topic
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

DETAILS_FROM, ID_FROM = 5, 7


def answer(request: Request, node: ServedNode) -> Outcome:
    """Make the topics, and describe them."""
    topics = request.body["topics"]
    times_named = Counter(topic["name"] for topic in topics)
    errors = [
        InvalidRequest(f"topic {topic['name']!r} is named more than once in one request")
        if times_named[topic["name"]] > 1
        else _first_fault(topic, request, node)
        for topic in topics
    ]
    wanted = [new_topic(topic) for topic, error in zip(topics, errors, strict=True) if error is None]
    changed: TopicsChanged = node.ask(
        CreateTopics(wanted, validate_only=request.body["validateOnly"]), request.session
    )  # fmt: skip
    tried = iter(changed.errors)
    errors = [next(tried) if error is None else error for error in errors]
    made = {new.name: new for new in wanted}
    found: ClusterMetadata = node.ask(Metadata(list(made)), request.session)
    there = {topic.name: topic for topic in found.topics}
    return {
        "topics": [
            _result(topic["name"], error, made.get(topic["name"]), there.get(topic["name"]), request, node)
            for topic, error in zip(topics, errors, strict=True)
        ]
    }


def _first_fault(topic: Body, request: Request, node: ServedNode) -> PylogError | None:
    """The error of a topic that the node cannot see, behind those that it sees."""
    fault = _fault(topic, node)
    if fault is None:
        return None
    one = replace(new_topic(topic), partitions=NODE_DEFAULT)
    tried: TopicsChanged = node.ask(CreateTopics([one], validate_only=True), request.session)
    return tried.errors[0] or fault


def _fault(topic: Body, node: ServedNode) -> PylogError | None:
    name, assignments = topic["name"], topic["assignments"]
    without = next((config["name"] for config in topic["configs"] if config["value"] is None), None)
    if without is not None:
        return InvalidConfig(f"topic {name!r}: {without} has no value")
    if assignments:
        if topic["numPartitions"] != NODE_DEFAULT or topic["replicationFactor"] != NODE_DEFAULT:
            return InvalidRequest(
                f"topic {name!r}: give an assignment, or numbers of partitions and replicas, not both"
            )
        numbers = sorted(one["partitionIndex"] for one in assignments)
        if numbers != list(range(len(assignments))):
            return InvalidReplicaAssignment(f"topic {name!r}: partitions are numbered from 0 on, without gaps")
        return assignment_fault(name, [one["brokerIds"] for one in assignments], node)
    if topic["replicationFactor"] not in (NODE_DEFAULT, 1):
        return InvalidReplicationFactor(
            f"topic {name!r}: {topic['replicationFactor']} replicas are asked for, and there is one node"
        )
    return None


def assignment_fault(name: str, brokers: list[list[int]], node: ServedNode) -> PylogError | None:
    """The error of an assignment of partitions to nodes."""
    if any(list(one) != [node.node_id] for one in brokers):
        return InvalidReplicaAssignment(f"topic {name!r}: node {node.node_id} is the only one, and has one replica")
    return None


def _result(
    name: str, error: PylogError | None, new: NewTopic | None, there: TopicMetadata | None, request: Request,
    node: ServedNode,
) -> Body:  # fmt: skip
    version = request.version
    body: Body = {"name": name, "errorCode": error_code(error), "errorMessage": error_message(error)}
    if error is not None or new is None or version < DETAILS_FROM:
        return body
    is_there = there is not None and there.error is None
    count = len(there.partitions) if there is not None and is_there else new.partitions
    body["numPartitions"] = node.config.num_partitions if count == NODE_DEFAULT else count
    body["replicationFactor"] = 1
    body["configs"] = [
        {
            "name": name,
            "value": entry.value,
            "readOnly": entry.read_only,
            "configSource": entry.config_source,
            "isSensitive": False,
        }
        for name, entry in sorted(topic_entries(new.config, NodeEntries(node.configs)).items(), key=itemgetter(0))
    ]
    if version >= ID_FROM and there is not None and is_there:
        body["topicId"] = there.id
    return body


API = api("CreateTopics", answer, may_wait=True)
