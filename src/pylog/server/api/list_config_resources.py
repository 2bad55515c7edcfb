"""ListConfigResources: what has configs that DescribeConfigs describes (KIP-1142): all topics, and this node.

    0    client metrics alone, of which there are none
    1    the kinds of resources that are asked for; all where none is named

Loggers, client metrics and groups have no configs of their own here.
"""

from pylog.errors import UnsupportedVersion
from pylog.protocol.messages import ClusterMetadata, Metadata
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.describe_configs import BROKER, TOPIC
from pylog.server.served_node import ServedNode

LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
KINDS = frozenset({TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP})
KINDS_FROM = 1


def answer(request: Request, node: ServedNode) -> Outcome:
    """List them."""
    if request.version < KINDS_FROM:
        return {"configResources": []}
    wanted = set(request.body["resourceTypes"]) or KINDS
    if not wanted <= KINDS:
        return {"errorCode": UnsupportedVersion.code}
    names: list[tuple[str, int]] = []
    if TOPIC in wanted:
        found: ClusterMetadata = node.ask(Metadata(partitions_max=0), request.session)
        names += [(topic.name, TOPIC) for topic in found.topics]
    if BROKER in wanted:
        names.append((str(node.node_id), BROKER))
    return {"configResources": [{"resourceName": name, "resourceType": kind} for name, kind in names]}


API = api("ListConfigResources", answer, is_long=True)
