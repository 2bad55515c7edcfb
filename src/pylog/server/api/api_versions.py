"""ApiVersions: which keys and versions are served, and which features.

    0-2    keys; from 1 on the throttle time
    3      features (KIP-584); a feature that begins at 0 is said to begin at 1, as clients of that time refuse 0
    4      the same as it is

Produce is said to be served from version 0 on, as by Kafka: old librdkafkas look there for what a server can compress
(KIP-896). Its versions below 3 are not served.

A version that is not served is answered in version 0, with UnsupportedVersion and the keys, so that the client finds a
common one (KIP-511).
"""

import re
from collections.abc import Iterable

from pylog.errors import InvalidRequest, UnsupportedVersion
from pylog.protocol.metadata_image import FEATURES
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Api, Request
from pylog.server.served_node import ServedNode

NAME = "ApiVersions"
LOWEST = {
    "metadata.version": FEATURES["metadata.version"],
    "group.version": 0,
    "share.version": 0,
    "transaction.version": 0,
}
"""The features that are there, at the levels of the metadata log, and the lowest levels: the log is written at one."""
FEATURES_FROM, ZERO_FROM = 3, 4
PRODUCE = 0
UNNAMED = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})
"""Keys that are answered and not named: no client asks then."""
FEATURES_EPOCH = 1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def keys(apis: Iterable[Api]) -> list[Body]:
    """The served keys, as the response has them."""
    return [
        {"apiKey": one.key, "minVersion": 0 if one.key == PRODUCE else one.low, "maxVersion": one.high}
        for one in apis
        if one.name not in UNNAMED
    ]


def answer(request: Request, node: ServedNode, served: list[Body]) -> Body:
    """The response, in the version of the request."""
    version, body = request.version, request.body
    if version >= FEATURES_FROM:
        software = body["clientSoftwareName"], body["clientSoftwareVersion"]
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return {"errorCode": InvalidRequest.code}
    response: Body = {"errorCode": 0, "apiKeys": served}
    if version >= FEATURES_FROM:
        least = 0 if version >= ZERO_FROM else 1
        response["supportedFeatures"] = [
            {"name": name, "minVersion": max(low, least), "maxVersion": FEATURES[name]} for name, low in LOWEST.items()
        ]
        response["finalizedFeaturesEpoch"] = FEATURES_EPOCH
        response["finalizedFeatures"] = [
            {"name": name, "minVersionLevel": FEATURES[name], "maxVersionLevel": FEATURES[name]} for name in LOWEST
        ]
    return response


def unsupported(served: list[Body]) -> Body:
    """The response to a version from the future, in version 0."""
    return {"errorCode": UnsupportedVersion.code, "apiKeys": served}
