"""Fetch, as a client asks it: without a session.

    11    a consumer tells its rack (KIP-392)
    13    topics are named by id
    15    a replica tells its state, from 18 on with the high watermark that it knows (KIP-903, KIP-1166)

The records of a Fetched are views into the response.
"""

from pylog.protocol.error_codes import untold
from pylog.protocol.messages import CONSUMER, NO_EPOCH, Fetch, Fetched, FetchedPart, FetchPart
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body, by_topic
from pylog.protocol.wire.questions.question import ANY_VERSION, Question, entries, error_in
from pylog.record import TopicPartition

__all__ = ["QUESTIONS"]

BY_ID_FROM = versions.BY_ID_FROM["Fetch"]
EPOCHS_FROM, LEADER_EPOCHS_FROM, RACKS_FROM, STATE_FROM, DIRECTORIES_FROM, HIGH_WATERMARKS_FROM = 12, 9, 11, 15, 17, 18
NO_RECORDS = memoryview(b"")


def _fetch_versions(message: Fetch) -> tuple[int, int]:
    return 0, ANY_VERSION if all(part.topic_id.int for part in message.parts) else BY_ID_FROM - 1


def _fetch(message: Fetch, version: int) -> Body:
    def one(part: FetchPart) -> Body:
        entry: Body = {
            "partition": part.partition, "fetchOffset": part.offset, "partitionMaxBytes": part.max_bytes
        }  # fmt: skip
        if version >= LEADER_EPOCHS_FROM:
            entry["currentLeaderEpoch"] = part.current_leader_epoch
        if version >= EPOCHS_FROM:
            entry["lastFetchedEpoch"] = part.last_fetched_epoch
        if version >= DIRECTORIES_FROM and message.replica_id != CONSUMER:
            entry["replicaDirectoryId"] = part.directory_id
        if version >= HIGH_WATERMARKS_FROM and message.replica_id != CONSUMER:
            entry["highWatermark"] = part.high_watermark
        return entry

    body: Body = {
        "maxWaitMs": message.max_wait_ms,
        "minBytes": message.min_bytes,
        "maxBytes": message.max_bytes,
        "isolationLevel": message.isolation.value,
        "topics": by_topic(message.parts, one, by_id=version >= BY_ID_FROM),
    }
    if version >= RACKS_FROM:
        body["rackId"] = message.rack_id
    if version < STATE_FROM:
        body["replicaId"] = message.replica_id
    elif message.replica_id != CONSUMER:
        body["replicaState"] = {"replicaId": message.replica_id, "replicaEpoch": NO_EPOCH}
    return body


def _fetched(message: Fetch, body: Body, version: int) -> Fetched:
    error = error_in(body)
    if error is not None:
        return Fetched([FetchedPart(part.topic, part.partition, error) for part in message.parts])
    names = {part.topic_id: part.topic for part in message.parts} if version >= BY_ID_FROM else None
    found = entries(body["responses"], names)
    return Fetched(
        [_fetched_part(part, found.get(TopicPartition(part.topic, part.partition))) for part in message.parts]
    )


def _fetched_part(part: FetchPart, entry: Body | None) -> FetchedPart:
    if entry is None:
        return FetchedPart(part.topic, part.partition, untold(part.topic, part.partition))
    error = error_in(entry)
    if error is not None:
        return FetchedPart(part.topic, part.partition, error)
    diverging = entry.get("divergingEpoch") or {}
    epoch, end = diverging.get("epoch", -1), diverging.get("endOffset", -1)
    return FetchedPart(
        part.topic, part.partition, None, entry["records"] or NO_RECORDS,
        high_watermark=entry["highWatermark"],
        last_stable_offset=entry["lastStableOffset"],
        log_start_offset=entry.get("logStartOffset", -1),
        aborted=[(one["producerId"], one["firstOffset"]) for one in entry["abortedTransactions"] or ()],
        diverging=None if end < 0 else (epoch, end),
        preferred_read_replica=entry.get("preferredReadReplica", -1),
    )  # fmt: skip


QUESTIONS: dict[type, Question] = {
    Fetch: Question(name="Fetch", body=_fetch, answer=_fetched, versions=_fetch_versions),
}
