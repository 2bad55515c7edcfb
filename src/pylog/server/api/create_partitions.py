"""CreatePartitions: more partitions for topics, in all versions alike. This node keeps every one of them."""

from collections import Counter

from pylog.errors import InvalidReplicaAssignment, InvalidRequest, PylogError
from pylog.protocol.messages import ClusterMetadata, CreatePartitions, Metadata, TopicsChanged
from pylog.protocol.wire.mapping import Body, error_code, error_message
from pylog.protocol.wire.topics import new_partitions
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.create_topics import assignment_fault
from pylog.server.served_node import ServedNode


def answer(request: Request, node: ServedNode) -> Outcome:
    """Add the partitions."""
    topics = request.body["topics"]
    times_named = Counter(topic["name"] for topic in topics)
    errors = [_fault(topic, times_named[topic["name"]], request, node) for topic in topics]
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


def _fault(topic: Body, times_named: int, request: Request, node: ServedNode) -> PylogError | None:
    name, assignments = topic["name"], topic["assignments"]
    if times_named > 1:
        return InvalidRequest(f"topic {name!r} is named more than once in one request")
    if assignments is None:
        return None
    found: ClusterMetadata = node.ask(Metadata([name]), request.session)
    more = topic["count"] - len(found.topics[0].partitions)
    if found.topics[0].error is None and more != len(assignments):
        return InvalidReplicaAssignment(f"topic {name!r}: {more} partitions are new, {len(assignments)} are assigned")
    return assignment_fault(name, [one["brokerIds"] for one in assignments], node)


API = api("CreatePartitions", answer, may_wait=True)
