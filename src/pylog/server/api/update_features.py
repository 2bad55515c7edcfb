"""UpdateFeatures: the levels of features do not change, as the metadata log is written at one. (KIP-584)

    0      a downgrade is allowed or not      1    or of a kind: 1 upgrade, 2 safe, 3 unsafe; validate_only
    0-1    a result for each feature          2    none: all change, or none does

A feature that is at its level already is no change, and no error.
"""

from pylog.errors import InvalidUpdateVersion
from pylog.protocol.acls import AclOperation
from pylog.protocol.error_codes import brief
from pylog.protocol.metadata_image import FEATURES
from pylog.protocol.wire.mapping import Body
from pylog.server.api.api_versions import LOWEST
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import needing, whole_error
from pylog.server.served_node import ServedNode

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
KINDS_FROM, RESULTS_TO = 1, 1


def answer(request: Request, node: ServedNode) -> Outcome:
    """Refuse every change."""
    version = request.version
    for update in request.body["featureUpdates"]:
        reason = _refusal(update, version, node)
        if reason is not None:
            name, level = update["feature"], update["maxVersionLevel"]
            told = (
                "The update failed for all features since the following feature had an error: Invalid update version "
                f"{level} for feature {name}. {reason}"
            )
            return _body(version, InvalidUpdateVersion.code, told, [])
    names = [update["feature"] for update in request.body["featureUpdates"]]
    return _body(version, 0, None, [{"feature": name, "errorCode": 0, "errorMessage": "NONE"} for name in names])


def _body(version: int, code: int, told: str | None, results: list[Body]) -> Body:
    body: Body = {"errorCode": code, "errorMessage": told and brief(told)}
    return {**body, "results": results} if version <= RESULTS_TO else body


def _refusal(update: Body, version: int, node: ServedNode) -> str | None:
    name, level = update["feature"], update["maxVersionLevel"]
    if version >= KINDS_FROM:
        kind = update["upgradeType"]
    else:
        kind = UNSAFE_DOWNGRADE if update["allowDowngrade"] else UPGRADE
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if name not in FEATURES:
        is_removed = level == 0
        return (
            f"Feature {name} not found."
            if is_removed
            else f"Local controller {node.node_id} does not support this feature."
        )
    highest = FEATURES[name]
    if level > highest:
        return f"Local controller {node.node_id} only supports versions {LOWEST.get(name, highest)}-{highest}"
    if level == highest:
        return None
    if kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return f"Its level here is {highest}, and does not change."


API = api("UpdateFeatures", needing(AclOperation.ALTER, answer, whole_error))
