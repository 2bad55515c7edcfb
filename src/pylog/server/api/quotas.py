"""DescribeClientQuotas and AlterClientQuotas: there are no quotas, and none can be set, as nothing would hold to them.

In all versions alike. To remove a quota is no error: it is not there.
"""

from pylog.errors import InvalidRequest, ProtocolError, UnsupportedVersion
from pylog.protocol.acls import AclOperation
from pylog.protocol.error_codes import brief
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import needing
from pylog.server.served_node import ServedNode

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a component of a DescribeClientQuotas matches: a name, the default, any name."""
ENTITIES = frozenset({"user", "client-id", "ip"})


def _describe(request: Request, node: ServedNode) -> Outcome:
    kinds: list[str] = []
    for component in request.body["components"]:
        fault = _fault(component, kinds)
        if fault is not None:
            return {"errorCode": fault.code, "errorMessage": brief(str(fault)), "entries": None}
        kinds.append(component["entityType"])
    if "ip" in kinds and len(kinds) > 1:
        told = "Invalid entity filter component combination, IP filter component should not be used with others"
        return {"errorCode": InvalidRequest.code, "errorMessage": told, "entries": None}
    return {"errorCode": 0, "errorMessage": "", "entries": []}


def _fault(component: Body, kinds: list[str]) -> ProtocolError | None:
    """The error of a component behind those of these kinds."""
    kind, how, match = component["entityType"], component["matchType"], component["match"]
    if not kind or kind in kinds:
        return InvalidRequest(f"Entity type {kind!r} is named twice" if kind else "Invalid empty entity type")
    if kind not in ENTITIES:
        return UnsupportedVersion(f"Unsupported entity type {kind}")
    if how not in (EXACT, DEFAULT, SPECIFIED):
        return InvalidRequest(f"Unknown match type {how}")
    return InvalidRequest(f"Match type {how} with the name {match!r}") if (how == EXACT) == (match is None) else None


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


def _all_refused(body: Body, code: int, text: str) -> Body:
    return {"entries": [{"errorCode": code, "errorMessage": text, "entity": one["entity"]} for one in body["entries"]]}


def _not_described(body: Body, code: int, text: str) -> Body:
    return {"errorCode": code, "errorMessage": text, "entries": None}


APIS = (
    api("DescribeClientQuotas", needing(AclOperation.DESCRIBE_CONFIGS, _describe, _not_described)),
    api("AlterClientQuotas", needing(AclOperation.ALTER_CONFIGS, _alter, _all_refused)),
)
