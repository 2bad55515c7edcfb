"""FindCoordinator: this node coordinates everything.

    0      groups alone
    1-3    a group or a transactional id; the message beside no error is "NONE"
    4-6    several keys at once; the message beside no error is empty

Share groups (key type 2) are not there.
"""

from pylog.errors import InvalidRequest
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.versions import SEVERAL_FROM
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

KINDS = frozenset({0, 1})
NOBODY = {"nodeId": -1, "host": "", "port": -1}


def answer(request: Request, node: ServedNode) -> Outcome:
    """Name the coordinator of each key."""
    body, version = request.body, request.version
    is_known = body.get("keyType", 0) in KINDS
    place = {"nodeId": node.node_id, "host": node.address.host, "port": node.address.port} if is_known else NOBODY
    code = 0 if is_known else InvalidRequest.code
    refusal = f"keys of type {body.get('keyType')} have no coordinator here: groups (0) and transactional ids (1) have"
    if version >= SEVERAL_FROM:
        found = {**place, "errorCode": code, "errorMessage": "" if is_known else refusal}
        coordinators: list[Body] = [{"key": key, **found} for key in body["coordinatorKeys"]]
        return {"coordinators": coordinators}
    return {**place, "errorCode": code, "errorMessage": "NONE" if is_known else refusal}


API = api("FindCoordinator", answer)
