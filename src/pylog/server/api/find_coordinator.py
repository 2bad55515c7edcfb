"""FindCoordinator: this node coordinates everything.

    0      groups alone
    1-3    a group or a transactional id
    4-6    several keys at once

Share groups (key type 2) are not there.
"""

from pylog.errors import InvalidRequest
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

KINDS = frozenset({0, 1})
SEVERAL_FROM = 4
NOBODY = {"nodeId": -1, "host": "", "port": -1}


def answer(request: Request, node: ServedNode) -> Outcome:
    """Name the coordinator of each key."""
    body, version = request.body, request.version
    is_known = body.get("keyType", 0) in KINDS
    place = {"nodeId": node.node_id, "host": node.address.host, "port": node.address.port} if is_known else NOBODY
    code = 0 if is_known else InvalidRequest.code
    if version >= SEVERAL_FROM:
        coordinators: list[Body] = [{"key": key, **place, "errorCode": code} for key in body["coordinatorKeys"]]
        return {"coordinators": coordinators}
    return {**place, "errorCode": code}


API = api("FindCoordinator", answer)
