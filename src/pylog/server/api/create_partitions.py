"""CreatePartitions: more partitions for topics, in all versions alike. This node keeps every one of them.

A number of partitions that is refused is told before an assignment is (Kafka: ReplicationControlManager).
"""

from collections import Counter

from pylog.errors import InvalidReplicaAssignment, InvalidRequest, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import ClusterMetadata, CreatePartitions, Metadata, TopicsChanged
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.topics import new_partitions
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.create_topics import assignment_fault
from pylog.server.served_node import ServedNode


def answer(request: Request, node: ServedNode) -> Outcome:
    """Add the partitions."""
    topics = request.body["topics"]
    times_named = Counter(topic["name"] for topic in topics)
    errors = [
        InvalidRequest(f"topic {topic['name']!r} is named more than once in one request")
        if times_named[topic["name"]] > 1
        else _fault(topic, request, node)
        for topic in topics
    ]
    wanted = [new_partitions(topic) for topic, error in zip(topics, errors, strict=True) if error is None]
    changed: TopicsChanged = node.ask(
        CreatePartitions(wanted, validate_only=request.body["validateOnly"]), request.session
    )  # fmt: skip
    tried = iter(changed.errors)
    results: list[Body] = []
    for topic, fault in zip(topics, errors, strict=True):
        error = next(tried) if fault is None else fault
        results.append({
            "name": topic["name"], "errorCode": error_code(error), "errorMessage": error_message(error),
        })  # fmt: skip
    return {"results": results}


def _fault(topic: Body, request: Request, node: ServedNode) -> PylogError | None:
    name, assignments = topic["name"], topic["assignments"]
    if assignments is None:
        return None
    tried: TopicsChanged = node.ask(CreatePartitions([new_partitions(topic)], validate_only=True), request.session)
    if tried.errors[0] is not None:
        return tried.errors[0]
    found: ClusterMetadata = node.ask(Metadata([name]), request.session)
    more = topic["count"] - len(found.topics[0].partitions)
    if more != len(assignments):
        return InvalidReplicaAssignment(f"topic {name!r}: {more} partitions are new, {len(assignments)} are assigned")
    return assignment_fault(name, [one["brokerIds"] for one in assignments], node)


API = api("CreatePartitions", answer, may_wait=True)
