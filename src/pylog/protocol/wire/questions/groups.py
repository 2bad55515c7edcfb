"""Groups and their offsets, as a client asks for them.

OffsetCommit            up to 9, OffsetFetch from 7 (KIP-447) to 9: from 10 on topics are named by id
"""

from operator import attrgetter

from pylog.errors import PylogError
from pylog.protocol.error_codes import of_code, untold
from pylog.protocol.messages import (
    OffsetCommit,
    OffsetCommitPart,
    OffsetFetch,
    OffsetFetchedPart,
    OffsetsCommitted,
    OffsetsFetched,
)
from pylog.protocol.wire.mapping import Body, by_topic
from pylog.protocol.wire.questions.question import Question, entries
from pylog.record import TopicPartition

__all__ = ["QUESTIONS", "commit_topics", "offsets_committed"]

NAMED_UP_TO = 9
MANY_FROM = 8


# --- offsets ----------------------------------------------------------------------------------------------------------


def commit_topics(parts: list[OffsetCommitPart], *, epochs: bool) -> list[Body]:
    """The offsets of a commit, by topic; with the leader `epochs` of the records, where the version has them."""

    def one(part: OffsetCommitPart) -> Body:
        entry: Body = {
            "partitionIndex": part.partition, "committedOffset": part.offset, "committedMetadata": part.metadata
        }  # fmt: skip
        return {**entry, "committedLeaderEpoch": part.leader_epoch} if epochs else entry

    return by_topic(parts, one)


def offsets_committed(parts: list[OffsetCommitPart], body: Body) -> OffsetsCommitted:
    """The answer to a commit of these parts."""
    found = entries(body["topics"])
    errors: dict[TopicPartition, PylogError | None] = {}
    for part in parts:
        key = TopicPartition(part.topic, part.partition)
        errors[key] = of_code(found[key]["errorCode"]) if key in found else untold(*key)
    return OffsetsCommitted(errors)


def _commit_versions(message: OffsetCommit) -> tuple[int, int]:
    return (5 if message.group_instance_id is None else 7), NAMED_UP_TO


def _commit(message: OffsetCommit, version: int) -> Body:
    body: Body = {
        "groupId": message.group_id,
        "generationIdOrMemberEpoch": message.generation_id,
        "memberId": message.member_id,
        "topics": commit_topics(message.parts, epochs=version >= 6),
    }
    return {**body, "groupInstanceId": message.group_instance_id} if version >= 7 else body


def _committed(message: OffsetCommit, body: Body, version: int) -> OffsetsCommitted:
    return offsets_committed(message.parts, body)


def _fetch_versions(message: OffsetFetch) -> tuple[int, int]:
    low = 9 if message.member_id is not None else 7 if message.require_stable else 2
    return low, NAMED_UP_TO


def _fetch(message: OffsetFetch, version: int) -> Body:
    keys = message.partitions
    topics = None if keys is None else by_topic(keys, attrgetter("partition"), partitions="partitionIndexes")
    if version < MANY_FROM:
        body: Body = {"groupId": message.group_id, "topics": topics}
        return {**body, "requireStable": message.require_stable} if version >= 7 else body
    group: Body = {"groupId": message.group_id, "topics": topics}
    if version >= 9:
        group["memberId"], group["memberEpoch"] = message.member_id, message.member_epoch
    return {"groups": [group], "requireStable": message.require_stable}


def _fetched(message: OffsetFetch, body: Body, version: int) -> OffsetsFetched:
    if version >= MANY_FROM:
        group = next((one for one in body["groups"] if one["groupId"] == message.group_id), None)
        if group is None:
            return OffsetsFetched(untold(f"group {message.group_id!r}"))
        body = group
    error = of_code(body["errorCode"])
    if error is not None:
        return OffsetsFetched(error)
    found = entries(body["topics"])
    wanted = list(found) if message.partitions is None else message.partitions
    return OffsetsFetched(None, [_fetched_part(key, found.get(key)) for key in wanted])


def _fetched_part(key: TopicPartition, entry: Body | None) -> OffsetFetchedPart:
    if entry is None:
        return OffsetFetchedPart(*key, error=untold(*key))
    return OffsetFetchedPart(
        *key, entry["committedOffset"], entry.get("committedLeaderEpoch", -1), entry["metadata"] or "",
        of_code(entry["errorCode"]),
    )  # fmt: skip


QUESTIONS: dict[type, Question] = {
    OffsetCommit: Question(name="OffsetCommit", body=_commit, answer=_committed, versions=_commit_versions),
    OffsetFetch: Question(name="OffsetFetch", body=_fetch, answer=_fetched, versions=_fetch_versions),
}  # fmt: skip
