"""Requests about groups as a whole, as bodies and as messages.

    ListGroups             states from 4, types from 5 on
    DescribeGroups         groups of the classic protocol; from 6 on one that is absent is GroupIdNotFound, before it is
                           Dead without an error (KIP-1043)
    ConsumerGroupDescribe  groups of the consumer protocol; the member type from 1 on
    DeleteGroups

A described member has its topics by id; `described_consumer_groups` is given the names of these.
"""

import uuid

from pylog.errors import GroupIdNotFound, InvalidGroupId, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import (
    DeleteGroups,
    DescribedGroup,
    DescribedGroups,
    DescribedMember,
    DescribeGroups,
    GroupsDeleted,
    ListedGroups,
    ListGroups,
)
from pylog.protocol.wire.mapping import Body, Mapping
from pylog.protocol.wire.operations import OF_GROUP

__all__ = ["MAPPINGS", "allowed", "described_consumer_groups"]

CONSUMER_TYPE = "consumer"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def _list(body: Body, version: int) -> ListGroups:
    return ListGroups(list(body.get("statesFilter", ())), list(body.get("typesFilter", ())))


def _listed(body: Body, answer: ListedGroups, version: int) -> Body:
    groups = []
    for group in answer.groups:
        entry = {"groupId": group.group_id, "protocolType": group.protocol_type}
        if version >= 4:
            entry["groupState"] = group.state
        if version >= 5:
            entry["groupType"] = group.type.lower()
        groups.append(entry)
    return {"errorCode": error_code(answer.error), "groups": groups}


# --- descriptions----------------------------------------------------------------------------------------------------


def _describe(body: Body, version: int) -> DescribeGroups:
    return DescribeGroups(list(body["groups"]))


def _described(body: Body, answer: DescribedGroups, version: int) -> Body:
    groups = [_classic_group(group, version) for group in answer.groups]
    return {"groups": allowed(groups) if body.get("includeAuthorizedOperations") else groups}


def allowed(groups: list[Body]) -> list[Body]:
    """Described groups, those without an error with what a client may do with them."""
    return [group if group["errorCode"] else {**group, "authorizedOperations": OF_GROUP} for group in groups]


def _classic_group(group: DescribedGroup, version: int) -> Body:
    error = group.error
    if group.type.lower() == CONSUMER_TYPE:
        error = GroupIdNotFound(f"group {group.group_id!r} is one of the consumer protocol: ask ConsumerGroupDescribe")
    if error is not None:
        is_absent = isinstance(error, GroupIdNotFound)
        entry = {
            "groupId": group.group_id,
            "errorCode": 0 if is_absent and version < 6 else error_code(error),
            "groupState": "Dead" if is_absent else "",
        }
        return {**entry, "errorMessage": error_message(error)} if version >= 6 else entry
    return {
        "errorCode": 0,
        "groupId": group.group_id,
        "groupState": group.state,
        "protocolType": group.protocol_type,
        "protocolData": group.protocol,
        "members": [
            {
                "memberId": member.member_id, "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id, "clientHost": member.client_host, "memberMetadata": member.metadata,
                "memberAssignment": member.assignment,
            }
            for member in group.members
        ],
    }  # fmt: skip


def described_consumer_groups(answer: DescribedGroups, names: dict[uuid.UUID, str], version: int) -> Body:
    """The response to ConsumerGroupDescribe. `names` has the names of the topics that members own."""
    return {"groups": [_consumer_group(group, names, version) for group in answer.groups]}


def _consumer_group(group: DescribedGroup, names: dict[uuid.UUID, str], version: int) -> Body:
    error = group.error
    if not group.group_id:
        error = InvalidGroupId("a group has a name")
    elif error is None and group.type.lower() != CONSUMER_TYPE:
        error = GroupIdNotFound(f"group {group.group_id!r} is not one of the consumer protocol")
    if error is not None:
        return {"groupId": group.group_id, "errorCode": error_code(error), "errorMessage": error_message(error)}
    return {
        "errorCode": 0,
        "groupId": group.group_id,
        "groupState": group.state,
        "groupEpoch": group.generation,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": group.protocol,
        "members": [_consumer_member(member, names, version) for member in group.members],
    }


def _consumer_member(member: DescribedMember, names: dict[uuid.UUID, str], version: int) -> Body:
    entry: Body = {
        "memberId": member.member_id,
        "instanceId": member.group_instance_id,
        "memberEpoch": member.member_epoch,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": member.subscribed_topic_names,
        "subscribedTopicRegex": member.subscribed_topic_regex or "",
        "assignment": _assignment(member.owned, names),
        "targetAssignment": _assignment(member.target, names),
    }
    if version >= 1:
        entry["memberType"] = _CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER
    return entry


def _assignment(topics: list[tuple[uuid.UUID, list[int]]], names: dict[uuid.UUID, str]) -> Body:
    return {
        "topicPartitions": [
            {"topicId": topic_id, "topicName": names[topic_id], "partitions": numbers}
            for topic_id, numbers in topics
            if topic_id in names
        ]
    }


def _refused_describe(message: DescribeGroups, error: PylogError) -> DescribedGroups:
    return DescribedGroups([DescribedGroup(group_id, error) for group_id in message.group_ids])


# --- deletion ---------------------------------------------------------------------------------------------------------


def _delete(body: Body, version: int) -> DeleteGroups:
    return DeleteGroups(list(body["groupsNames"]))


def _deleted(body: Body, answer: GroupsDeleted, version: int) -> Body:
    return {
        "results": [
            {"groupId": group_id, "errorCode": error_code(error)}
            for group_id, error in zip(body["groupsNames"], answer.errors, strict=True)
        ]
    }


MAPPINGS = (
    Mapping(
        name="ListGroups", message=_list, response=_listed, refusal=lambda message, error: ListedGroups(error=error)
    ),
    Mapping(name="DescribeGroups", message=_describe, response=_described, refusal=_refused_describe),
    Mapping(
        name="DeleteGroups", message=_delete, response=_deleted,
        refusal=lambda message, error: GroupsDeleted([error for _ in message.group_ids]),
    ),
)  # fmt: skip
