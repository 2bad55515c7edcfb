"""Bodies of Produce and Fetch, and the parts of their responses."""

import uuid
from typing import Any

from pylog.protocol.batch import encode
from pylog.protocol.compression import Codec

NOW = 1_700_000_000_000


def batch(*values: bytes, codec: Codec = Codec.NONE, **more: Any) -> bytes:
    return bytes(encode([(value, None, NOW, ()) for value in values], now_ms=NOW, codec=codec, **more).data)


def produce(topic: str, *records: bytes | None, acks: int = -1) -> dict[str, Any]:
    parts = [{"index": number, "records": one} for number, one in enumerate(records)]
    return {
        "transactionalId": None, "acks": acks, "timeoutMs": 1000,
        "topicData": [{"name": topic, "partitionData": parts}],
    }  # fmt: skip


def produced_parts(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for topic in response["responses"] for part in topic["partitionResponses"]]


def fetch(topic: str, offset: int = 0, *, topic_id: uuid.UUID | None = None, **more: Any) -> dict[str, Any]:
    part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    name: dict[str, Any] = {"topic": topic} if topic_id is None else {"topicId": topic_id}
    return {"maxWaitMs": 0, "minBytes": 1, "topics": [{**name, "partitions": [part]}], **more}


def fetched_part(response: dict[str, Any]) -> dict[str, Any]:
    return dict(response["responses"][0]["partitions"][0])
