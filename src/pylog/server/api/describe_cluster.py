"""DescribeCluster: the nodes of the cluster, from version 1 on those of one kind: 1 brokers, 2 controllers.

This node is both, but answers for brokers alone, as a broker of Kafka does.
"""

from pylog.errors import MismatchedEndpointType, UnsupportedEndpointType
from pylog.protocol.operations import OF_CLUSTER
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

BROKERS, CONTROLLERS = 1, 2


def answer(request: Request, node: ServedNode) -> Outcome:
    """Name this node."""
    kind = request.body.get("endpointType", BROKERS)
    if kind != BROKERS:
        error = MismatchedEndpointType if kind == CONTROLLERS else UnsupportedEndpointType
        return {"errorCode": error.code, "errorMessage": "this endpoint is one of brokers", "clusterId": ""}
    brokers = [{"brokerId": node.node_id, "host": node.address.host, "port": node.address.port}]
    body = {"clusterId": node.cluster_id(request.session), "controllerId": node.node_id, "brokers": brokers}
    if request.body["includeClusterAuthorizedOperations"]:
        body["clusterAuthorizedOperations"] = OF_CLUSTER
    return body


API = api("DescribeCluster", answer)
