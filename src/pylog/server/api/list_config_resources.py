"""ListConfigResources: what has configs (KIP-1142): all topics, this node, and the groups on which configs are set.

    0    client metrics alone: the answer is an empty list
    1    the kinds of resources that are asked for; all where none is named

Loggers and client metrics have no configs here.
"""

from pylog.errors import UnsupportedVersion
from pylog.protocol.messages import (
    ClusterMetadata,
    ListConfigResources,
    ListedConfigResources,
    Metadata,
    ResourceType,
)
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

LOGGER, CLIENT_METRICS = 8, 16
KINDS = frozenset({*ResourceType, LOGGER, CLIENT_METRICS})
KINDS_FROM = 1


def answer(request: Request, node: ServedNode) -> Outcome:
    """List them."""
    if request.version < KINDS_FROM:
        return {"configResources": []}
    wanted = set(request.body["resourceTypes"]) or KINDS
    if not wanted <= KINDS:
        return {"errorCode": UnsupportedVersion.code}
    names: list[tuple[str, int]] = []
    if ResourceType.GROUP in wanted:
        listed: ListedConfigResources = node.ask(ListConfigResources(), request.session)
        names += [(one.name, one.type) for one in listed.resources]
    if ResourceType.TOPIC in wanted:
        found: ClusterMetadata = node.ask(Metadata(partitions_max=0), request.session)
        names += [(topic.name, ResourceType.TOPIC) for topic in found.topics]
    if ResourceType.BROKER in wanted:
        names.append((str(node.node_id), ResourceType.BROKER))
    return {"configResources": [{"resourceName": name, "resourceType": kind} for name, kind in names]}


API = api("ListConfigResources", answer, is_long=True)
