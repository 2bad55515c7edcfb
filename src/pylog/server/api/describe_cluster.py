"""DescribeCluster: the nodes of the cluster, from version 1 on those of one kind: 1 brokers, 2 controllers.

They are this node and the leaders that it follows. It is its own controller, but answers for brokers alone, as a broker
of Kafka does.
"""

from pylog.errors import MismatchedEndpointType, UnsupportedEndpointType
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

BROKERS, CONTROLLERS = 1, 2


def answer(request: Request, node: ServedNode) -> Outcome:
    """Name the nodes."""
    kind = request.body.get("endpointType", BROKERS)
    if kind != BROKERS:
        error = MismatchedEndpointType if kind == CONTROLLERS else UnsupportedEndpointType
        return {"errorCode": error.code, "errorMessage": "this endpoint is one of brokers", "clusterId": ""}
    found: MetadataResponse = node.ask(MetadataRequest.of([]), request.session)
    brokers = [{"brokerId": one, "host": host, "port": port} for one, (host, port) in node.nodes(found).items()]
    body = {"clusterId": found.cluster_id or "", "controllerId": node.node_id, "brokers": brokers}
    if request.body["includeClusterAuthorizedOperations"]:
        may = node.allows(request.session, AclOperation.DESCRIBE)
        body["clusterAuthorizedOperations"] = node.operations(request.session, AclResourceType.CLUSTER) if may else 0
    return body


API = api("DescribeCluster", answer)
