"""Requests about groups and their offsets to a node in memory, in the versions in which they differ."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pylog.errors import InvalidGroupId
from support.wire_node import WireNode, wire_node

UNKNOWN = uuid.UUID(int=77)
JOINING: dict[str, Any] = {
    "groupId": "g", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "memberId": "",
    "protocolType": "consumer", "protocols": [{"name": "range", "metadata": b"m"}],
}  # fmt: skip


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


@pytest.mark.parametrize("version", range(7))
def test_this_node_coordinates_everything(node: WireNode, version: int) -> None:
    asked: dict[str, Any] = {"coordinatorKeys": ["a", "b"]} if version >= 4 else {"key": "a"}

    response = node.ask("FindCoordinator", version, asked)

    places = response["coordinators"] if version >= 4 else [response]
    assert {(one["host"], one["port"], one["errorCode"]) for one in places} == {("127.0.0.1", 9092, 0)}
    assert {one.get("errorMessage") for one in places} == {None if version < 1 else "NONE" if version < 4 else ""}


def test_a_coordinator_of_another_kind_is_not_there(node: WireNode) -> None:
    (found,) = node.ask("FindCoordinator", 6, {"keyType": 3, "coordinatorKeys": ["a"]})["coordinators"]

    assert (found["errorCode"], found["errorMessage"][:14]) == (42, "keys of type 3")


def test_this_node_coordinates_share_partitions(node: WireNode) -> None:
    names = ["a:b:AQIDBAUGBwgJCgsMDQ4PEA:4", "a", ":AQIDBAUGBwgJCgsMDQ4PEA:4", "a:AQID:4", "a:AQIDBAUGBwgJCgsMDQ4PEA:x"]

    found = node.ask("FindCoordinator", 6, {"keyType": 2, "coordinatorKeys": names})["coordinators"]
    (older,) = node.ask("FindCoordinator", 5, {"keyType": 2, "coordinatorKeys": names[:1]})["coordinators"]

    assert [(one["errorCode"], one["port"]) for one in found] == [(0, 9092)] + [(42, -1)] * 4
    assert older["errorCode"] == 42


def commit(node: WireNode, version: int, offset: int, *, topic: dict[str, Any] | None = None) -> int:
    parts = [{"partitionIndex": 0, "committedOffset": offset, "committedMetadata": "m"}]
    body = {"groupId": "g", "topics": [{**(topic or {"name": "t"}), "partitions": parts}]}
    (answered,) = node.ask("OffsetCommit", version, body)["topics"]
    return int(answered["partitions"][0]["errorCode"])


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_and_found_again(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    name: dict[str, Any] = {"name": "t"} if version < 10 else {"topicId": node.log.broker.image.topics["t"].id}
    assert commit(node, version, 5, topic=name) == 0

    asked = [{**name, "partitionIndexes": [0, 1]}]
    if version >= 8:
        (group,) = node.ask("OffsetFetch", version, {"groups": [{"groupId": "g", "topics": asked}]})["groups"]
    else:
        group = node.ask("OffsetFetch", version, {"groupId": "g", "topics": asked})

    (topic,) = group["topics"]
    found = [(part["committedOffset"], part["metadata"], part["errorCode"]) for part in topic["partitions"]]
    assert found == [(5, "m", 0), (-1, "", 0)]


def test_all_offsets_of_a_group_come_with_the_ids_of_their_topics(node: WireNode) -> None:
    for name in ("t", "u"):
        node.log.create_topic(name)
        assert commit(node, 9, 5, topic={"name": name}) == 0
    ids = {name: node.log.broker.image.topics[name].id for name in ("t", "u")}
    by_id = [{"topicId": ids["t"], "partitionIndexes": [0]}]
    asked = [{"groupId": "g", "topics": None}, {"groupId": "g", "topics": by_id}]
    group, other = node.ask("OffsetFetch", 10, {"groups": asked})["groups"]
    assert [topic["topicId"] for topic in other["topics"]] == [ids["t"]]
    found = {topic["topicId"]: topic["partitions"][0]["committedOffset"] for topic in group["topics"]}
    assert found == dict.fromkeys(ids.values(), 5)


def test_all_offsets_of_many_groups_are_found_at_once(node: WireNode) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)
    asked = [{"groupId": group, "topics": None} for group in ("g", "other")]

    groups = node.ask("OffsetFetch", 8, {"groups": asked})["groups"]

    assert [group["groupId"] for group in groups] == ["g", "other"]
    assert [len(group["topics"]) for group in groups] == [1, 0]


def test_a_commit_for_an_unknown_id_is_an_error(node: WireNode) -> None:
    assert commit(node, 10, 5, topic={"topicId": UNKNOWN}) == 100


def test_a_member_joins_syncs_and_leaves(node: WireNode) -> None:
    asked = node.ask("JoinGroup", 9, JOINING)
    assert asked["errorCode"] == 79

    joined = node.ask("JoinGroup", 9, {**JOINING, "memberId": asked["memberId"]})
    member = {"groupId": "g", "generationId": joined["generationId"], "memberId": joined["memberId"]}
    assignments = [{"memberId": joined["memberId"], "assignment": b"all"}]
    synced = node.ask("SyncGroup", 5, {**member, "assignments": assignments})
    beat = node.ask("Heartbeat", 4, member)
    (described,) = node.ask("DescribeGroups", 6, {"groups": ["g"]})["groups"]
    left = node.ask("LeaveGroup", 5, {"groupId": "g", "members": [{"memberId": joined["memberId"]}]})

    assert joined["members"][0]["metadata"] == b"m"
    assert bytes(synced["assignment"]) == b"all"
    assert beat["errorCode"] == left["errorCode"] == left["members"][0]["errorCode"] == 0
    assert described["members"][0]["clientHost"] == "/127.0.0.1"
    assert described["members"][0]["clientId"] == "test"


@pytest.mark.parametrize("version", range(10))
def test_no_protocol_is_an_empty_text_to_an_old_member(node: WireNode, version: int) -> None:
    refused = node.ask("JoinGroup", version, {**JOINING, "sessionTimeoutMs": 1})
    assert (refused["errorCode"], refused["protocolName"]) == (26, None if version >= 7 else "")
    assert node.ask("JoinGroup", version, JOINING)["errorCode"] == (79 if version >= 4 else 0)


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_leader_keeps_its_assignment_from_version_9_on(node: WireNode, version: int) -> None:
    joining = {**JOINING, "groupInstanceId": "i"}
    first = node.ask("JoinGroup", version, joining)
    node.ask("SyncGroup", 5, {
        "groupId": "g", "generationId": 1, "memberId": first["memberId"], "groupInstanceId": "i",
        "assignments": [{"memberId": first["memberId"], "assignment": b"all"}],
    })  # fmt: skip

    again = node.ask("JoinGroup", version, joining)

    assert (again["errorCode"], again["generationId"], again["leader"]) == (0, 1, again["memberId"])
    assert again.get("skipAssignment", False) == (version >= 9)


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, 69)])
def test_a_group_that_is_absent_is_dead_or_not_found(node: WireNode, version: int, code: int) -> None:
    (group,) = node.ask("DescribeGroups", version, {"groups": ["none"]})["groups"]

    assert (group["errorCode"], group["groupState"]) == (code, "Dead")


@pytest.mark.parametrize("version", range(2))
def test_a_consumer_group_is_described_with_the_names_of_its_topics(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    beat = node.ask("ConsumerGroupHeartbeat", version, {
        "groupId": "g", "memberId": str(uuid.uuid4()), "memberEpoch": 0, "rebalanceTimeoutMs": 1000,
        "subscribedTopicNames": ["t"], "topicPartitions": [],
    })  # fmt: skip
    assert beat["errorCode"] == 0

    asked = {"groupIds": ["g"], "includeAuthorizedOperations": True}
    (group,) = node.ask("ConsumerGroupDescribe", version, asked)["groups"]
    (classic,) = node.ask("DescribeGroups", 6, {"groups": ["g"]})["groups"]

    target = group["members"][0]["targetAssignment"]["topicPartitions"]
    assert [(one["topicName"], one["partitions"]) for one in target] == [("t", [0])]
    assert classic["errorCode"] == 69
    assert (group["authorizedOperations"], group["members"][0]["subscribedTopicRegex"]) == (3400, "")

    node.log.delete_topic("t")
    (bare,) = node.ask("ConsumerGroupDescribe", version, {"groupIds": ["g"]})["groups"]
    assert bare["members"][0]["targetAssignment"]["topicPartitions"] == []
    assert bare["authorizedOperations"] == -(2**31)


def test_groups_are_described_in_the_order_in_which_they_are_named() -> None:
    with wire_node(offsets_topic_num_partitions=7) as node:
        names = [f"g{number % 12}" for number in range(20)]
        node.ask("OffsetCommit", 8, {"groupId": "g3", "topics": []})

        found = node.ask("DescribeGroups", 6, {"groups": names})["groups"]
        transactions = node.ask("DescribeTransactions", 0, {"transactionalIds": names})["transactionStates"]

    assert [group["groupId"] for group in found] == names
    assert [one["transactionalId"] for one in transactions] == names


def test_a_classic_group_is_no_consumer_group(node: WireNode) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)

    (group,) = node.ask("ConsumerGroupDescribe", 0, {"groupIds": ["g"]})["groups"]

    assert group["errorCode"] == 69
    assert group["errorMessage"]


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_and_deleted(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)

    listed = node.ask("ListGroups", version, {})
    deleted = node.ask("DeleteGroups", 2, {"groupsNames": ["g", "none"]})

    assert [group["groupId"] for group in listed["groups"]] == ["g"]
    assert [one["errorCode"] for one in deleted["results"]] == [0, 69]


def test_single_offsets_of_a_group_are_deleted(node: WireNode) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)
    parts = [{"partitionIndex": 0}, {"partitionIndex": 7}]

    (topic,) = node.ask("OffsetDelete", 0, {"groupId": "g", "topics": [{"name": "t", "partitions": parts}]})["topics"]

    assert [part["errorCode"] for part in topic["partitions"]] == [0, 3]
    body = {"groupId": "none", "topics": [{"name": "t", "partitions": parts[:1]}]}
    assert node.ask("OffsetDelete", 0, body)["errorCode"] == 69


def test_the_type_of_a_group_is_in_small_letters(node: WireNode) -> None:
    node.log.create_topic("t")
    parts = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": None}]
    node.ask("OffsetCommit", 9, {"groupId": "g", "topics": [{"name": "t", "partitions": parts}]})

    (group,) = node.ask("ListGroups", 5, {})["groups"]

    assert group["groupType"] == "classic"


@pytest.mark.parametrize(("version", "code"), [(8, 22), (9, 69)])
def test_a_member_of_no_group_commits_nothing(node: WireNode, version: int, code: int) -> None:
    node.log.create_topic("t")
    parts = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": None}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": 3, "memberId": "m"}

    (topic,) = node.ask("OffsetCommit", version, {**body, "topics": [{"name": "t", "partitions": parts}]})["topics"]

    assert topic["partitions"][0]["errorCode"] == code


def joined(node: WireNode, **more: Any) -> dict[str, Any]:
    """A member of the consumer protocol."""
    body = {
        "groupId": "g", "memberId": str(uuid.uuid4()), "memberEpoch": 0, "rebalanceTimeoutMs": 10_000,
        "subscribedTopicNames": ["t"], "topicPartitions": [],
    }  # fmt: skip
    return node.ask("ConsumerGroupHeartbeat", 1, body | more)


@pytest.mark.parametrize(("version", "code"), [(8, 35), (9, 0)])
def test_a_member_of_the_consumer_protocol_commits_from_version_9_on(
    node: WireNode, version: int, code: int
) -> None:  # fmt: skip
    node.log.create_topic("t")
    member = joined(node)
    parts = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": None}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": member["memberEpoch"], "memberId": member["memberId"]}

    (topic,) = node.ask("OffsetCommit", version, {**body, "topics": [{"name": "t", "partitions": parts}]})["topics"]

    assert topic["partitions"][0]["errorCode"] == code


def test_a_static_member_of_either_protocol_is_removed_by_its_instance_id(node: WireNode) -> None:
    node.log.create_topic("t")
    joined(node, instanceId="me")
    leaving = [{"memberId": "another", "groupInstanceId": "me"}, {"memberId": "", "groupInstanceId": "other"}]
    refused = node.ask("LeaveGroup", 5, {"groupId": "g", "members": leaving})["members"]

    (removed,) = node.ask("LeaveGroup", 5, {"groupId": "g", "members": [{"memberId": "", "groupInstanceId": "me"}]})[
        "members"
    ]

    assert [one["errorCode"] for one in refused] == [82, 25]
    assert removed["errorCode"] == 0
    (group,) = node.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g"]})["groups"]
    assert group["groupState"] == "Empty"


@pytest.mark.parametrize("version", [2, 5])
def test_a_member_of_either_protocol_is_removed_by_its_id(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    member = {"memberId": joined(node)["memberId"]}

    left = node.ask("LeaveGroup", version, {"groupId": "g", **(member if version < 3 else {"members": [member]})})

    assert left["errorCode"] == 0 == sum(one["errorCode"] for one in left.get("members", []))
    (group,) = node.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g"]})["groups"]
    assert group["groupState"] == "Empty"


def test_a_group_without_a_name_is_none(node: WireNode) -> None:
    (group,) = node.ask("ConsumerGroupDescribe", 1, {"groupIds": [""]})["groups"]

    assert group["errorCode"] == InvalidGroupId.code


def test_a_topic_without_a_name_is_not_one_without_an_id(node: WireNode) -> None:
    asked = {"groupId": "g", "topics": [{"name": "", "partitionIndexes": [0]}]}

    (topic,) = node.ask("OffsetFetch", 7, asked)["topics"]

    assert (topic["partitions"][0]["errorCode"], commit(node, 9, 5, topic={"name": ""})) == (0, 3)


def test_offsets_of_no_group_are_not_deleted_whatever_their_partitions(node: WireNode) -> None:
    parts = [{"partitionIndex": 0}]

    answer = node.ask("OffsetDelete", 0, {"groupId": "none", "topics": [{"name": "none", "partitions": parts}]})

    assert (answer["errorCode"], answer["topics"]) == (69, [])
