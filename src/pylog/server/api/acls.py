"""DescribeAcls, CreateAcls and DeleteAcls: SecurityDisabled in a node whose authorizer does not go by them.

In all versions alike. A change is made in the pool: it is written down and synced.
"""

from functools import partial

from pylog.errors import SecurityDisabled
from pylog.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.api.plain import handed_on
from pylog.server.served_node import ServedNode


def _described(request: Request, node: ServedNode) -> Outcome:
    if node.has_acls:
        # There may be many.
        return Later(partial(handed_on, request, node), is_long=True)
    asked: DescribeAclsRequest = request.body
    return asked.refused(SecurityDisabled("No Authorizer is configured on the broker"))


def _changed(request: Request, node: ServedNode) -> Outcome:
    if node.has_acls:
        return Later(partial(handed_on, request, node))
    asked: CreateAclsRequest | DeleteAclsRequest = request.body
    return asked.refused(SecurityDisabled("No Authorizer is configured."))


APIS = (
    api("DescribeAcls", _described, into=DescribeAclsRequest),
    api("CreateAcls", _changed, into=CreateAclsRequest),
    api("DeleteAcls", _changed, into=DeleteAclsRequest),
)
