"""DescribeGroups: groups of the classic protocol.

An absent one is GroupIdNotFound from 6 on; before that it is Dead, without an error (KIP-1043).
"""

from dataclasses import replace
from functools import partial

from pylog.errors import GroupIdNotFound
from pylog.protocol.acls import AclResourceType
from pylog.protocol.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse
from pylog.protocol.operations import UNTOLD
from pylog.server.api.call import Outcome, Reply, Request, api
from pylog.server.api.plain import handed_on
from pylog.server.served_node import ServedNode

NOT_FOUND_FROM = 6


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe the groups."""
    outcome = handed_on(request, node)
    if isinstance(outcome, Reply) and request.version < NOT_FOUND_FROM:
        return outcome._replace(body=partial(_without_error, request, node))
    return outcome


def _without_error(request: Request, node: ServedNode, answer: DescribeGroupsResponse) -> DescribeGroupsResponse:
    is_asked = request.body.include_authorized_operations
    groups = [
        replace(
            group,
            error=None,
            authorized_operations=node.operations(request.session, AclResourceType.GROUP, group.group_id)
            if is_asked
            else UNTOLD,
        )
        if isinstance(group.error, GroupIdNotFound)
        else group
        for group in answer.groups
    ]
    return replace(answer, groups=groups)


API = api("DescribeGroups", answer, may_wait=True, into=DescribeGroupsRequest)
