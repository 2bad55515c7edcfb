"""Groups as a whole, as a client asks for them.

ConsumerGroupDescribe   groups of the consumer protocol; of another one it is GroupIdNotFound
DescribeGroups          groups of the classic protocol; an absent one is "Dead" up to 5 (KIP-1043)
"""

import uuid

from pylog.errors import GroupIdNotFound, PylogError, UnknownServer
from pylog.protocol.error_codes import of_code
from pylog.protocol.messages import (
    DeleteGroups,
    DescribedGroup,
    DescribedGroups,
    DescribedMember,
    DescribeGroups,
    GroupsDeleted,
    ListedGroup,
    ListedGroups,
    ListGroups,
)
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question, error_in

__all__ = ["CONSUMER_GROUPS", "QUESTIONS"]

CLASSIC_MEMBER = 0
DEAD = "Dead"


def _list_versions(message: ListGroups) -> tuple[int, int]:
    return (5 if message.types else 4 if message.states else 3), 1 << 15


def _list(message: ListGroups, version: int) -> Body:
    body: Body = {}
    if version >= 4:
        body["statesFilter"] = message.states
    if version >= 5:
        body["typesFilter"] = message.types
    return body


def _listed(message: ListGroups, body: Body, version: int) -> ListedGroups:
    groups = [
        ListedGroup(
            one["groupId"], one["protocolType"], one.get("groupState", ""),
            (one.get("groupType") or "classic").capitalize(),
        )
        for one in body["groups"]
    ]  # fmt: skip
    return ListedGroups(groups, of_code(body["errorCode"]))


# --- descriptions -----------------------------------------------------------------------------------------------------


def _absent(group_id: str) -> PylogError:
    return GroupIdNotFound(f"there is no group {group_id!r}")


def _in_order(message: DescribeGroups, found: dict[str, DescribedGroup]) -> DescribedGroups:
    silent = UnknownServer("the node has answered without a word of it")
    return DescribedGroups([found.get(name) or DescribedGroup(name, silent) for name in message.group_ids])


def _describe(message: DescribeGroups, version: int) -> Body:
    return {"groups": message.group_ids}


def _described(message: DescribeGroups, body: Body, version: int) -> DescribedGroups:
    return _in_order(message, {one["groupId"]: _classic(one) for one in body["groups"]})


def _classic(body: Body) -> DescribedGroup:
    error = error_in(body)
    if error is None and body["groupState"] == DEAD:
        error = _absent(body["groupId"])
    if error is not None:
        return DescribedGroup(body["groupId"], error)
    members = [
        DescribedMember(
            one["memberId"], one.get("groupInstanceId"), one["clientId"], one["clientHost"],
            bytes(one["memberMetadata"]), bytes(one["memberAssignment"]),
        )
        for one in body["members"]
    ]  # fmt: skip
    return DescribedGroup(
        body["groupId"], None, body["groupState"], "Classic", body["protocolType"], body["protocolData"],
        members=members,
    )  # fmt: skip


def _describe_consumer(message: DescribeGroups, version: int) -> Body:
    return {"groupIds": message.group_ids}


def _described_consumer(message: DescribeGroups, body: Body, version: int) -> DescribedGroups:
    return _in_order(message, {one["groupId"]: _consumer(one) for one in body["groups"]})


def _consumer(body: Body) -> DescribedGroup:
    error = error_in(body)
    if error is not None:
        return DescribedGroup(body["groupId"], error)
    return DescribedGroup(
        body["groupId"], None, body["groupState"], "Consumer", "consumer", body["assignorName"], body["groupEpoch"],
        body["assignmentEpoch"], [_consumer_member(one) for one in body["members"]],
    )  # fmt: skip


def _consumer_member(body: Body) -> DescribedMember:
    return DescribedMember(
        body["memberId"], body["instanceId"], body["clientId"], body["clientHost"],
        member_epoch=body["memberEpoch"],
        subscribed_topic_names=list(body["subscribedTopicNames"]),
        subscribed_topic_regex=body["subscribedTopicRegex"] or None,
        owned=_assignment(body["assignment"]),
        target=_assignment(body["targetAssignment"]),
        is_classic=body.get("memberType", -1) == CLASSIC_MEMBER,
    )  # fmt: skip


def _assignment(body: Body) -> list[tuple[uuid.UUID, list[int]]]:
    return [(one["topicId"], list(one["partitions"])) for one in body["topicPartitions"]]


# --- deletion ---------------------------------------------------------------------------------------------------------


def _delete(message: DeleteGroups, version: int) -> Body:
    return {"groupsNames": message.group_ids}


def _deleted(message: DeleteGroups, body: Body, version: int) -> GroupsDeleted:
    found = {one["groupId"]: of_code(one["errorCode"], _text(one)) for one in body["results"]}
    silent = UnknownServer("the node has answered without a word of it")
    return GroupsDeleted([found.get(name, silent) for name in message.group_ids])


def _text(body: Body) -> str | None:
    error = of_code(body["errorCode"])
    return None if error is None else f"group {body['groupId']!r}: {error}"


CONSUMER_GROUPS = Question(name="ConsumerGroupDescribe", body=_describe_consumer, answer=_described_consumer)
QUESTIONS: dict[type, Question] = {
    ListGroups: Question(name="ListGroups", body=_list, answer=_listed, versions=_list_versions),
    DescribeGroups: Question(name="DescribeGroups", body=_describe, answer=_described),
    DeleteGroups: Question(name="DeleteGroups", body=_delete, answer=_deleted),
}
