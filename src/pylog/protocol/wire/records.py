"""Fetch, as bodies and as messages.

    7     sessions
    12    the current leader
    13    topics are named by id

The records of a Fetched are bytes, or an extent of a file.
"""

import uuid
from collections.abc import Sequence

from pylog.errors import PylogError, TopicAuthorization, UnknownTopicId, UnknownTopicOrPartition
from pylog.protocol.error_codes import error_code
from pylog.protocol.isolation import isolation_of
from pylog.protocol.messages import HIGH_WATERMARK_UNTOLD, NO_EPOCH, NO_ID, Fetch, FetchedPart, FetchPart
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body

__all__ = ["fetch", "fetch_part", "fetched", "fetched_part"]

FETCH_BY_ID_FROM = versions.BY_ID_FROM["Fetch"]


def fetch(body: Body, parts: list[FetchPart]) -> Fetch:
    """The message of a Fetch for these parts, which a session may know."""
    replica = body.get("replicaState", {}).get("replicaId", body.get("replicaId", -1))
    return Fetch(
        parts, replica, body["maxWaitMs"], body["minBytes"], body["maxBytes"], isolation_of(body["isolationLevel"])
    )


def fetch_part(topic: Body, part: Body) -> FetchPart:
    """One partition of a Fetch. Any epoch below 0 means no epoch."""
    return FetchPart(
        topic["topic"], part["partition"], part["fetchOffset"], part["partitionMaxBytes"],
        max(part.get("currentLeaderEpoch", NO_EPOCH), NO_EPOCH), max(part.get("lastFetchedEpoch", NO_EPOCH), NO_EPOCH),
        part.get("highWatermark", HIGH_WATERMARK_UNTOLD), topic.get("topicId", NO_ID),
        part.get("replicaDirectoryId", NO_ID),
    )  # fmt: skip


def fetched(
    parts: Sequence[tuple[FetchPart, FetchedPart]], version: int, *, session_id: int = 0,
    error: PylogError | None = None, lists_aborted: bool = True,
) -> Body:  # fmt: skip
    """The response to a Fetch: these parts, each with its part of the request. `lists_aborted`: committed records were
    asked for; else, and beside an error of reading, the list of aborted transactions is null.
    """
    topics: dict[tuple[str, uuid.UUID], Body] = {}
    for asked, part in parts:
        key = asked.topic, asked.topic_id
        topic = topics.get(key)
        if topic is None:
            name: Body = {"topic": asked.topic} if version < FETCH_BY_ID_FROM else {"topicId": asked.topic_id}
            topic = topics[key] = {**name, "partitions": []}
        topic["partitions"].append(fetched_part(part, version, lists_aborted=lists_aborted))
    body: Body = {"responses": list(topics.values())}
    if version >= 7:
        body["errorCode"], body["sessionId"] = error_code(error), session_id
    return body


_UNREAD = (UnknownTopicId, UnknownTopicOrPartition, TopicAuthorization)
"""Errors that are told before a partition is read."""


def fetched_part(part: FetchedPart, version: int, *, lists_aborted: bool) -> Body:
    """One partition of the response to a Fetch. One with an error has no offsets."""
    if part.error is not None:
        # A topic that was named by an id and has no name has an id that is not known.
        is_unknown = version >= FETCH_BY_ID_FROM and not part.topic
        return {
            "partitionIndex": part.partition, "highWatermark": -1, "records": b"",
            "abortedTransactions": [] if isinstance(part.error, _UNREAD) else None,
            "errorCode": UnknownTopicId.code if is_unknown else error_code(part.error),
        }  # fmt: skip
    entry: Body = {
        "partitionIndex": part.partition,
        "errorCode": 0,
        "highWatermark": part.high_watermark,
        "lastStableOffset": part.last_stable_offset,
        "abortedTransactions": (
            [{"producerId": producer, "firstOffset": first} for producer, first in part.aborted]
            if lists_aborted or part.diverging is not None
            else None
        ),
        "records": part.data if part.extent is None else part.extent,
    }
    if version >= 5:
        entry["logStartOffset"] = part.log_start_offset
    if version >= 12 and part.diverging is not None:
        entry["divergingEpoch"] = {"epoch": part.diverging[0], "endOffset": part.diverging[1]}
    return entry
