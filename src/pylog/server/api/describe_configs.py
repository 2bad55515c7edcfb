"""DescribeConfigs: the configs of topics, of the node, of all nodes and of groups, with where each comes from.

    1-2    sources and synonyms            3    types, and documentation where it is asked for (KIP-569)

The first documentation is read from files, so all of it is outside of the loop.
"""

from functools import partial

from pylog.protocol.messages.configs import DescribeConfigsRequest
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.api.plain import handed_on
from pylog.server.served_node import ServedNode

RESOURCES_AT_ONCE = 4
"""How many resources are described in the loop's thread: one takes half a millisecond."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe each resource."""
    asked: DescribeConfigsRequest = request.body
    if len(asked.resources) > RESOURCES_AT_ONCE or asked.include_documentation:
        return Later(partial(handed_on, request, node), is_long=True)
    return handed_on(request, node)


API = api("DescribeConfigs", answer, into=DescribeConfigsRequest)
