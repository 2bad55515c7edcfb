"""ApiVersions: which keys and versions are served, and which features.

    0-2    keys; from 1 on the throttle time
    3      features (KIP-584); a feature that begins at 0 is said to begin at 1, as clients of that time refuse 0
    4      the same as it is

A version that is not served is answered in version 0, with UnsupportedVersion and the keys, so that the client finds a
common one (KIP-511).
"""

import re
from collections.abc import Iterable

from pylog.errors import InvalidRequest, UnsupportedVersion
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Api, Request
from pylog.server.served_node import ServedNode

NAME = "ApiVersions"
FEATURES = {"group.version": 1, "transaction.version": 2}
"""The features that are there, each from 0 on, and their levels: KIP-848 and KIP-890."""
FEATURES_FROM, ZERO_FROM = 3, 4
FEATURES_EPOCH = 1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def keys(apis: Iterable[Api]) -> list[Body]:
    """The served keys, as the response has them."""
    return [{"apiKey": one.key, "minVersion": one.low, "maxVersion": one.high} for one in apis]


def answer(request: Request, node: ServedNode, served: list[Body]) -> Body:
    """The response, in the version of the request."""
    version, body = request.version, request.body
    if version >= FEATURES_FROM:
        software = body["clientSoftwareName"], body["clientSoftwareVersion"]
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return {"errorCode": InvalidRequest.code}
    response: Body = {"errorCode": 0, "apiKeys": served}
    if version >= FEATURES_FROM:
        lowest = 0 if version >= ZERO_FROM else 1
        response["supportedFeatures"] = [
            {"name": name, "minVersion": lowest, "maxVersion": level} for name, level in FEATURES.items()
        ]
        response["finalizedFeaturesEpoch"] = FEATURES_EPOCH
        response["finalizedFeatures"] = [
            {"name": name, "minVersionLevel": level, "maxVersionLevel": level} for name, level in FEATURES.items()
        ]
    return response


def unsupported(served: list[Body]) -> Body:
    """The response to a version from the future, in version 0."""
    return {"errorCode": UnsupportedVersion.code, "apiKeys": served}
