"""DescribeClientQuotas and AlterClientQuotas: there are no quotas, and none can be set, as nothing would hold to them.

In all versions alike. To remove a quota is no error: it is not there.
"""

from pylog.errors import InvalidRequest, UnsupportedVersion
from pylog.protocol.wire.mapping import Body, brief
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a component of a DescribeClientQuotas matches: a name, the default, any name."""
ENTITIES = frozenset({"user", "client-id", "ip"})


def _describe(request: Request, node: ServedNode) -> Outcome:
    components = request.body["components"]
    kinds = [component["entityType"] for component in components]
    told = next(filter(None, map(_fault, components)), None)
    if told is None and len(set(kinds)) < len(kinds):
        told = "An entity type is named twice"
    if told is None and "ip" in kinds and len(kinds) > 1:
        told = "Invalid entity filter component combination, IP filter component should not be used with others"
    if told is not None:
        return {"errorCode": InvalidRequest.code, "errorMessage": brief(told), "entries": None}
    strange = next((kind for kind in kinds if kind not in ENTITIES), None)
    if strange is not None:
        told = f"Unsupported entity type {strange}"
        return {"errorCode": UnsupportedVersion.code, "errorMessage": brief(told), "entries": None}
    return {"errorCode": 0, "errorMessage": "", "entries": []}


def _fault(component: Body) -> str | None:
    kind, match = component["matchType"], component["match"]
    if not component["entityType"]:
        return "Invalid empty entity type"
    if kind not in (EXACT, DEFAULT, SPECIFIED):
        return f"Unknown match type {kind}"
    if (kind == EXACT) == (match is None):
        return f"Match type {kind} with the name {match!r}"
    return None


def _alter(request: Request, node: ServedNode) -> Outcome:
    return {"entries": [_altered(entry) for entry in request.body["entries"]]}


def _altered(entry: Body) -> Body:
    told = _refusal(entry)
    code = 0 if told is None else InvalidRequest.code
    return {"errorCode": code, "errorMessage": told and brief(told), "entity": entry["entity"]}


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
