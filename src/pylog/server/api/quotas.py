"""DescribeClientQuotas and AlterClientQuotas: there are no quotas, and none can be set, as nothing would hold to them.

In all versions alike. To remove a quota is no error: it is not there.
"""

from pylog.errors import InvalidRequest, UnsupportedVersion
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

ENTITIES = frozenset({"user", "client-id", "ip"})


def _describe(request: Request, node: ServedNode) -> Outcome:
    for component in request.body["components"]:
        kind = component["entityType"]
        if kind not in ENTITIES:
            told = f"Unsupported entity type {kind}"
            return {"errorCode": UnsupportedVersion.code, "errorMessage": told, "entries": None}
    return {"errorCode": 0, "errorMessage": "", "entries": []}


def _alter(request: Request, node: ServedNode) -> Outcome:
    return {"entries": [_altered(entry) for entry in request.body["entries"]]}


def _altered(entry: Body) -> Body:
    told = _refusal(entry)
    code = 0 if told is None else InvalidRequest.code
    return {"errorCode": code, "errorMessage": told, "entity": entry["entity"]}


def _refusal(entry: Body) -> str | None:
    if not entry["entity"]:
        return "Invalid empty client quota entity"
    for part in entry["entity"]:
        if part["entityType"] not in ENTITIES:
            return f"Unhandled client quota entity type: {part['entityType']}"
    if all(change["remove"] for change in entry["ops"]):
        return None
    return "pylog has no quotas: nothing would hold to this one"


APIS = (api("DescribeClientQuotas", _describe), api("AlterClientQuotas", _alter))
