"""The offsets of groups, as bodies and as messages.

OffsetCommit      from 9 on in member epochs, too; from 10 on topics are named by id
OffsetFetch       all partitions by None from 2 on; many groups from 8 on; topics by id from 10 on
"""

from collections.abc import Callable

from pylog.errors import GroupIdNotFound, IllegalGeneration, PylogError
from pylog.protocol.error_codes import error_code
from pylog.protocol.messages import (
    NO_EPOCH,
    OffsetCommit,
    OffsetCommitPart,
    OffsetFetch,
    OffsetFetchedPart,
    OffsetsCommitted,
    OffsetsFetched,
)
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body, Mapping, named_again, named_code, topic_partitions
from pylog.record import TopicPartition

__all__ = ["MAPPINGS", "commit_parts", "committed"]

BY_ID_FROM = versions.BY_ID_FROM["OffsetFetch"]
EPOCHS_FROM = 9
"""The version of OffsetCommit from which on members of the consumer protocol commit by it (KIP-848)."""


# --- offsets ----------------------------------------------------------------------------------------------------------


def commit_parts(body: Body) -> list[OffsetCommitPart]:
    """The offsets in an OffsetCommit or a TxnOffsetCommit."""
    return [
        OffsetCommitPart(
            topic["name"], part["partitionIndex"], part["committedOffset"], part.get("committedLeaderEpoch", NO_EPOCH),
            part["committedMetadata"] or "",
        )
        for topic in body["topics"]
        for part in topic["partitions"]
    ]  # fmt: skip


def committed(body: Body, answer: OffsetsCommitted, version: int) -> Body:
    """The response to these two."""
    topics = []
    for topic in body["topics"]:
        entries = []
        for part in topic["partitions"]:
            error = answer.errors.get(TopicPartition(topic["name"], part["partitionIndex"]), answer.error)
            code = named_code(topic["name"], error, by_id="topicId" in topic)
            entries.append({"partitionIndex": part["partitionIndex"], "errorCode": code})
        topics.append(named_again(topic, entries))
    return {"topics": topics}


def _commit(body: Body, version: int) -> OffsetCommit:
    return OffsetCommit(
        body["groupId"], commit_parts(body), body["generationIdOrMemberEpoch"], body["memberId"],
        body.get("groupInstanceId"), knows_epochs=version >= EPOCHS_FROM,
    )  # fmt: skip


def _committed(body: Body, answer: OffsetsCommitted, version: int) -> Body:
    """The response to an OffsetCommit: a client that understands generations alone joins again after
    IllegalGeneration.
    """
    if version < EPOCHS_FROM:
        errors = {
            key: IllegalGeneration(str(error)) if isinstance(error, GroupIdNotFound) else error
            for key, error in answer.errors.items()
        }
        answer = OffsetsCommitted(errors, answer.error)
    return committed(body, answer, version)


def _refused_commit(message: OffsetCommit, error: PylogError) -> OffsetsCommitted:
    return OffsetsCommitted({TopicPartition(part.topic, part.partition): error for part in message.parts})


def _fetches(body: Body, version: int) -> list[OffsetFetch]:
    stable = body.get("requireStable", False)
    if version < 8:
        return [OffsetFetch(body["groupId"], _asked(body["topics"]), require_stable=stable)]
    return [
        OffsetFetch(
            group["groupId"], _asked(group["topics"]), group.get("memberId"), group.get("memberEpoch", -1), stable
        )
        for group in body["groups"]
    ]


def _asked(topics: list[Body] | None) -> list[TopicPartition] | None:
    return None if topics is None else topic_partitions(topics, partitions="partitionIndexes")


def _offsets_fetched(body: Body, answers: list[OffsetsFetched], version: int) -> Body:
    if version < 8:
        (answer,) = answers
        # Version 1 has no error for the group as a whole: each partition bears it.
        error = answer.error if version < 2 else None
        topics = _fetched_topics(body["topics"], answer, version, error)
        return {"topics": topics, **({"errorCode": error_code(answer.error)} if version >= 2 else {})}
    groups = [
        {
            "groupId": group["groupId"],
            "topics": _fetched_topics(group["topics"], answer, version, None) if answer.error is None else [],
            "errorCode": error_code(answer.error),
        }
        for group, answer in zip(body["groups"], answers, strict=True)
    ]
    return {"groups": groups}


def _fetched_topics(
    asked: list[Body] | None, answer: OffsetsFetched, version: int, error: PylogError | None
) -> list[Body]:  # fmt: skip
    """The offsets in the order of the request; all that the answer has where all were asked."""
    parts = {(part.topic, part.partition): part for part in answer.parts}
    if asked is None:
        names: dict[str, Body] = {}
        for part in answer.parts:
            topic = names.setdefault(part.topic, {"name": part.topic, "partitionIndexes": []})
            topic["partitionIndexes"].append(part.partition)
        asked = list(names.values())
    topics = []
    for topic in asked:
        entries = []
        for number in topic["partitionIndexes"]:
            part = parts.get((topic["name"], number), OffsetFetchedPart(topic["name"], number, error=error))
            entries.append(_fetched_part(part, version))
        topics.append(named_again(topic, entries))
    return topics


def _fetched_part(part: OffsetFetchedPart, version: int) -> Body:
    entry: Body = {
        "partitionIndex": part.partition, "committedOffset": part.offset, "metadata": part.metadata,
        "errorCode": named_code(part.topic, part.error, by_id=version >= BY_ID_FROM),
    }  # fmt: skip
    if version >= 5:
        entry["committedLeaderEpoch"] = part.leader_epoch
    return entry


def _refused(answer: Callable[[PylogError], object]) -> Callable[[object, PylogError], object]:
    return lambda message, error: answer(error)


MAPPINGS = (
    Mapping(name="OffsetCommit", message=_commit, response=_committed, refusal=_refused_commit),
    Mapping(
        name="OffsetFetch", message=_fetches, response=_offsets_fetched, refusal=_refused(OffsetsFetched), is_many=True
    ),
)  # fmt: skip
