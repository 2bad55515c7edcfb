"""ListConfigResources: the resources that have configs (KIP-1142).

In version 0 it is about client metrics alone, which are not kept here.
"""

from pylog.protocol.messages.configs import ListConfigResourcesRequest, ListConfigResourcesResponse
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import handed_on
from pylog.server.served_node import ServedNode

KINDS_FROM = 1


def answer(request: Request, node: ServedNode) -> Outcome:
    """List them."""
    return handed_on(request, node) if request.version >= KINDS_FROM else ListConfigResourcesResponse()


API = api("ListConfigResources", answer, is_long=True, into=ListConfigResourcesRequest)
