"""Groups and their offsets, as bodies and as messages.

    JoinGroup         from 4 on the first answer is MemberIdRequired (KIP-394); static members from 5 on
    SyncGroup         the protocol's type and name from 5 on
    LeaveGroup        one member up to 2, several from 3 on
    OffsetCommit      from 9 on in member epochs, too; from 10 on topics are named by id
    OffsetFetch       all partitions by None from 2 on; many groups from 8 on; topics by id from 10 on
    ConsumerGroupHeartbeat

A session timeout stands for the rebalance timeout in JoinGroup of version 0.
"""

from typing import Any

from pylog.errors import GroupIdNotFound, IllegalGeneration, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import (
    NO_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeaten,
    Heartbeat,
    Heartbeaten,
    JoinedGroup,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftGroup,
    OffsetCommit,
    OffsetCommitPart,
    OffsetFetch,
    OffsetFetchedPart,
    OffsetsCommitted,
    OffsetsFetched,
    SyncedGroup,
    SyncGroup,
)
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body, Mapping, named_again, named_code, topic_partitions
from pylog.record import TopicPartition

__all__ = ["MAPPINGS", "commit_parts", "committed"]

BY_ID_FROM = versions.BY_ID_FROM["OffsetFetch"]
EPOCHS_FROM = 9
"""The version of OffsetCommit from which on members of the consumer protocol commit by it (KIP-848)."""


# --- the classic protocol ---------------------------------------------------------------------------------------------


def _join(body: Body, version: int) -> JoinGroup:
    return JoinGroup(
        body["groupId"],
        body["memberId"],
        body.get("groupInstanceId"),
        body["protocolType"],
        [(one["name"], bytes(one["metadata"])) for one in body["protocols"]],
        body["sessionTimeoutMs"],
        body["rebalanceTimeoutMs"] if version >= 1 else body["sessionTimeoutMs"],
        requires_known_member_id=version >= 4 and body.get("groupInstanceId") is None,
        reason=body.get("reason") or "",
    )


def _joined(body: Body, answer: JoinedGroup, version: int) -> Body:
    members = [
        {"memberId": one.member_id, "groupInstanceId": one.group_instance_id, "metadata": one.metadata}
        for one in answer.members
    ]
    response: Body = {
        "errorCode": error_code(answer.error),
        "generationId": answer.generation_id,
        "protocolName": answer.protocol_name if version >= 7 else answer.protocol_name or "",
        "leader": answer.leader,
        "memberId": answer.member_id,
        "members": members,
    }
    if version >= 7:
        response["protocolType"] = answer.protocol_type
    if version >= 9:
        response["skipAssignment"] = answer.skip_assignment
    return response


def _sync(body: Body, version: int) -> SyncGroup:
    return SyncGroup(
        body["groupId"], body["generationId"], body["memberId"], body.get("groupInstanceId"),
        body.get("protocolType"), body.get("protocolName"),
        [(one["memberId"], bytes(one["assignment"])) for one in body["assignments"]],
    )  # fmt: skip


def _synced(body: Body, answer: SyncedGroup, version: int) -> Body:
    response: Body = {"errorCode": error_code(answer.error), "assignment": answer.assignment}
    if version >= 5:
        response["protocolType"], response["protocolName"] = answer.protocol_type, answer.protocol_name
    return response


def _heartbeat(body: Body, version: int) -> Heartbeat:
    return Heartbeat(body["groupId"], body["generationId"], body["memberId"], body.get("groupInstanceId"))


def _heartbeaten(body: Body, answer: Heartbeaten, version: int) -> Body:
    return {"errorCode": error_code(answer.error)}


def _leave(body: Body, version: int) -> LeaveGroup:
    if version < 3:
        return LeaveGroup(body["groupId"], [LeavingMember(body["memberId"])])
    members = [LeavingMember(one["memberId"], one["groupInstanceId"], one.get("reason")) for one in body["members"]]
    return LeaveGroup(body["groupId"], members)


def _left(body: Body, answer: LeftGroup, version: int) -> Body:
    if version < 3:
        return {"errorCode": error_code(answer.error or next(iter(answer.errors), None))}
    members = [
        {"memberId": one["memberId"], "groupInstanceId": one["groupInstanceId"], "errorCode": error_code(error)}
        for one, error in zip(body["members"], answer.errors, strict=False)
    ]
    return {"errorCode": error_code(answer.error), "members": members}


# --- the consumer protocol --------------------------------------------------------------------------------------------


def _consumer_heartbeat(body: Body, version: int) -> ConsumerGroupHeartbeat:
    owned = body["topicPartitions"]
    return ConsumerGroupHeartbeat(
        body["groupId"], body["memberId"], body["memberEpoch"], body["instanceId"], body["rackId"],
        body["rebalanceTimeoutMs"], body["subscribedTopicNames"], body.get("subscribedTopicRegex"),
        body["serverAssignor"],
        None if owned is None else [(one["topicId"], list(one["partitions"])) for one in owned],
    )  # fmt: skip


def _consumer_heartbeaten(body: Body, answer: ConsumerGroupHeartbeaten, version: int) -> Body:
    assignment = answer.assignment
    return {
        "errorCode": error_code(answer.error),
        "errorMessage": error_message(answer.error),
        "memberId": answer.member_id,
        "memberEpoch": answer.member_epoch,
        "heartbeatIntervalMs": answer.heartbeat_interval_ms,
        "assignment": None if assignment is None else {
            "topicPartitions": [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in assignment]
        },
    }  # fmt: skip


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


def _refused_commit(message: Any, error: PylogError) -> OffsetsCommitted:
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


def _refused(answer: Any) -> Any:
    return lambda message, error: answer(error)


MAPPINGS = (
    Mapping(name="JoinGroup", message=_join, response=_joined, refusal=_refused(JoinedGroup)),
    Mapping(name="SyncGroup", message=_sync, response=_synced, refusal=_refused(SyncedGroup)),
    Mapping(name="Heartbeat", message=_heartbeat, response=_heartbeaten, refusal=_refused(Heartbeaten)),
    Mapping(name="LeaveGroup", message=_leave, response=_left, refusal=_refused(LeftGroup)),
    Mapping(
        name="ConsumerGroupHeartbeat", message=_consumer_heartbeat, response=_consumer_heartbeaten,
        refusal=_refused(ConsumerGroupHeartbeaten),
    ),
    Mapping(name="OffsetCommit", message=_commit, response=_committed, refusal=_refused_commit),
    Mapping(
        name="OffsetFetch", message=_fetches, response=_offsets_fetched, refusal=_refused(OffsetsFetched), is_many=True
    ),
)  # fmt: skip
