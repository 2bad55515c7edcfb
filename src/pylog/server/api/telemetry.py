"""GetTelemetrySubscriptions and PushTelemetry: the metrics of clients (KIP-714). None are wanted.

ApiVersions does not name these keys, as in a Kafka without a plugin for them, so clients keep their metrics. A client
that asks all the same gets a subscription to nothing, and what it sends is dropped. (Kafka: ClientMetricsManager)
"""

import uuid
import zlib

from pylog.errors import InvalidRequest, TelemetryTooLarge, UnknownSubscriptionId
from pylog.protocol.messages import NO_ID
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

PUSH_INTERVAL_MS = 300_000
TELEMETRY_BYTES_MAX = 1 << 20
COMPRESSION_TYPES = [4, 3, 1, 2]
"""zstd, lz4, gzip, snappy."""
INT_BIT = 1 << 31


def _subscription_id(client: uuid.UUID) -> int:
    return (zlib.crc32(client.bytes) ^ INT_BIT) - INT_BIT


def _subscriptions(request: Request, node: ServedNode) -> Outcome:
    asked: uuid.UUID = request.body["clientInstanceId"]
    client = uuid.uuid4() if asked == NO_ID else asked
    return {
        "errorCode": 0, "clientInstanceId": client, "subscriptionId": _subscription_id(client),
        "acceptedCompressionTypes": COMPRESSION_TYPES, "pushIntervalMs": PUSH_INTERVAL_MS,
        "telemetryMaxBytes": TELEMETRY_BYTES_MAX, "deltaTemporality": True, "requestedMetrics": [],
    }  # fmt: skip


def _push(request: Request, node: ServedNode) -> Outcome:
    body = request.body
    if body["clientInstanceId"] == NO_ID:
        return {"errorCode": InvalidRequest.code}
    if body["subscriptionId"] != _subscription_id(body["clientInstanceId"]):
        return {"errorCode": UnknownSubscriptionId.code}
    return {"errorCode": TelemetryTooLarge.code if len(body["metrics"]) > TELEMETRY_BYTES_MAX else 0}


APIS = (api("GetTelemetrySubscriptions", _subscriptions), api("PushTelemetry", _push))
