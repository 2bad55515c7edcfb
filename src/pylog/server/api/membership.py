"""JoinGroup and LeaveGroup, where versions mean something else.

JoinGroup     0      the session timeout stands for the rebalance timeout
              4      the first answer is MemberIdRequired (KIP-394)
              7, 9   no protocol is None, and not an empty text; the leader may keep its assignment (KIP-814)
LeaveGroup    3      several members; below that one, whose error is that of the answer
"""

from dataclasses import replace

from pylog.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import changed, handed_on
from pylog.server.served_node import ServedNode

REBALANCE_FROM, KNOWN_FROM, NO_PROTOCOL_FROM, SKIPS_FROM = 1, 4, 7, 9
SEVERAL_FROM = 3


def _join(request: Request, node: ServedNode) -> Outcome:
    asked: JoinGroupRequest = request.body
    version = request.version
    if version < REBALANCE_FROM:
        asked.rebalance_timeout_ms = asked.session_timeout_ms
    asked.requires_known_member_id = version >= KNOWN_FROM and asked.group_instance_id is None

    def told(answer: JoinGroupResponse) -> JoinGroupResponse:
        name = answer.protocol_name if version >= NO_PROTOCOL_FROM else answer.protocol_name or ""
        return replace(answer, protocol_name=name, skip_assignment=version >= SKIPS_FROM and answer.skip_assignment)

    return changed(handed_on(request, node), told)


def _leave(request: Request, node: ServedNode) -> Outcome:
    asked: LeaveGroupRequest = request.body
    if request.version >= SEVERAL_FROM:
        return handed_on(request, node)
    whole = replace(asked, members=[asked.MemberIdentity(member_id=asked.member_id)])

    def told(answer: LeaveGroupResponse) -> LeaveGroupResponse:
        return LeaveGroupResponse(error=answer.error or next((one.error for one in answer.members), None))

    return changed(handed_on(request._replace(body=whole), node), told)


APIS = (
    api("JoinGroup", _join, may_wait=True, into=JoinGroupRequest),
    api("LeaveGroup", _leave, may_wait=True, into=LeaveGroupRequest),
)
