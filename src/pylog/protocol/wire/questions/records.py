"""Produce and Fetch, as a client asks them.

    Produce      from 12 on partitions join a transaction by being written to (KIP-890); by id from 13 on
    Fetch        without a session; by id from 13 on; of a consumer from 11 on with its rack (KIP-392); of a replica
                 from 15 on with its state, from 18 on with the high watermark that it knows (KIP-903, KIP-1166)

The records of a Produce are the bytes of its batches, and those of a Fetched are views into the response.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

from pylog.errors import BatchRefused, PylogError, RecordError
from pylog.protocol.error_codes import untold
from pylog.protocol.messages import (
    CONSUMER,
    NO_EPOCH,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    Produce,
    Produced,
    ProducedPart,
    ProducePart,
)
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body, OfPartition, by_topic
from pylog.protocol.wire.questions.question import ANY_VERSION, Question, entries, error_in
from pylog.record import TopicPartition

__all__ = ["QUESTIONS"]

BY_ID_FROM = versions.BY_ID_FROM["Fetch"]
JOINS_FROM, SESSIONS_FROM = 12, 7
EPOCHS_FROM, LEADER_EPOCHS_FROM, RACKS_FROM, STATE_FROM, DIRECTORIES_FROM, HIGH_WATERMARKS_FROM = 12, 9, 11, 15, 17, 18
NO_RECORDS = memoryview(b"")


def _key(part: OfPartition) -> TopicPartition:
    return TopicPartition(part.topic, part.partition)


def _id_versions(parts: Sequence[ProducePart | FetchPart], low: int) -> tuple[int, int]:
    return low, ANY_VERSION if all(part.topic_id.int for part in parts) else BY_ID_FROM - 1


def _names(message: Produce | Fetch, version: int) -> dict[UUID, str] | None:
    return {part.topic_id: part.topic for part in message.parts} if version >= BY_ID_FROM else None


def _naming(name: str, version: int) -> dict[str, Any]:
    """The naming of topics in a request, for `by_topic`."""
    return {"topics": "topicId", "key": attrgetter("topic_id")} if version >= BY_ID_FROM else {"topics": name}


# --- produce ----------------------------------------------------------------------------------------------------------


def _produce_versions(message: Produce) -> tuple[int, int]:
    return _id_versions(message.parts, 0 if message.transactional_id is None else JOINS_FROM)


def _produce(message: Produce, version: int) -> Body:
    def one(part: ProducePart) -> Body:
        return {"index": part.partition, "records": part.batch.data}

    return {
        "transactionalId": message.transactional_id,
        "acks": message.acks,
        "timeoutMs": message.timeout_ms,
        "topicData": by_topic(message.parts, one, partitions="partitionData", **_naming("name", version)),
    }


def _produced(message: Produce, body: Body, version: int) -> Produced:
    found = entries(
        body["responses"], partitions="partitionResponses", index="index", names=_names(message, version)
    )  # fmt: skip
    return Produced([_produced_part(part, found.get(_key(part))) for part in message.parts])


def _produced_part(part: ProducePart, entry: Body | None) -> ProducedPart:
    if entry is None:
        return ProducedPart(part.topic, part.partition, untold(part.topic, part.partition))
    error = _batch_error(entry)
    if error is not None:
        return ProducedPart(part.topic, part.partition, error)
    base, appended = entry["baseOffset"], entry["logAppendTimeMs"]
    return ProducedPart(
        part.topic, part.partition, None, base, base + part.batch.count, None if appended < 0 else appended,
        entry.get("logStartOffset", -1),
    )  # fmt: skip


def _batch_error(entry: Body) -> PylogError | None:
    error = error_in(entry)
    if isinstance(error, BatchRefused):
        told = [
            RecordError(one["batchIndex"], one["batchIndexErrorMessage"] or str(error))
            for one in entry.get("recordErrors", ())
        ]
        return type(error)(str(error), told)
    return error


def unanswered(message: Produce) -> Produced:
    """The answer to a Produce without acks, which the node does not answer."""
    return Produced([ProducedPart(part.topic, part.partition) for part in message.parts])


# --- fetch ------------------------------------------------------------------------------------------------------------


def _fetch_versions(message: Fetch) -> tuple[int, int]:
    return _id_versions(message.parts, 0)


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
        "topics": by_topic(message.parts, one, **_naming("topic", version)),
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
    found = entries(body["responses"], name="topic", names=_names(message, version))
    return Fetched([_fetched_part(part, found.get(_key(part))) for part in message.parts])


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
    Produce: Question(name="Produce", body=_produce, answer=_produced, versions=_produce_versions),
    Fetch: Question(name="Fetch", body=_fetch, answer=_fetched, versions=_fetch_versions),
}
