"""Requests of members over a raw socket, and the errors of groups of both protocols."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from conformance.wire.conftest import Topics
from pylog.protocol.assignor import Subscription, encode_subscription
from support.clients.values import until
from support.raw_client import WireClient
from support.wire_requests import Requests, error_of

PROTOCOLS = [{"name": "range", "metadata": encode_subscription(Subscription(["t"]))}]


class Group:
    """A group that is asked by hand."""

    def __init__(self, wire: WireClient, name: str) -> None:
        self.wire, self.name = wire, name

    def join(self, member_id: str = "", *, version: int = 9, **more: Any) -> dict[str, Any]:
        body = {
            "groupId": self.name, "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "memberId": member_id,
            "protocolType": "consumer", "protocols": PROTOCOLS,
        }  # fmt: skip
        return self.wire.ask("JoinGroup", body | more, version=version)

    def sync(self, member_id: str, generation: int, **more: Any) -> dict[str, Any]:
        body = {"groupId": self.name, "generationId": generation, "memberId": member_id, "assignments": []}
        body |= {"protocolType": "consumer", "protocolName": "range"}
        return self.wire.ask("SyncGroup", body | more)

    def heartbeat(self, member_id: str, generation: int, **more: Any) -> str:
        body = {"groupId": self.name, "generationId": generation, "memberId": member_id}
        return error_of(self.wire.ask("Heartbeat", body | more))

    def leave(self, *member_ids: str) -> tuple[str, list[str]]:
        members = [{"memberId": member_id} for member_id in member_ids]
        answer = self.wire.ask("LeaveGroup", {"groupId": self.name, "members": members})
        return error_of(answer), [error_of(member) for member in answer["members"]]

    def lead(self) -> tuple[str, int]:
        """Become the only member: its id and the generation."""
        member_id = self.join()["memberId"]
        joined = self.join(member_id)
        assert (error_of(joined), joined["leader"]) == ("NONE", member_id)
        mine = [{"memberId": member_id, "assignment": b"\x00\x01mine"}]
        synced = self.sync(member_id, joined["generationId"], assignments=mine)
        assert (error_of(synced), synced["assignment"]) == ("NONE", b"\x00\x01mine")
        return member_id, joined["generationId"]

    def describe(self, version: int = 6) -> dict[str, Any]:
        (found,) = self.wire.ask("DescribeGroups", {"groups": [self.name]}, version=version)["groups"]
        return dict(found)

    def assigned_by(self, told: dict[str, Any]) -> dict[str, Any]:
        """The first answer to a member's heartbeats that has partitions: the coordinator may take its time."""
        answers = [told]

        def ask() -> dict[str, Any] | None:
            last = answers[-1]
            if assigned(last):
                return last
            answers.append(self.beat(last["memberId"], last["memberEpoch"]))
            return None

        return until(ask)

    def beat(self, member_id: str, epoch: int, **more: Any) -> dict[str, Any]:
        """A heartbeat of the consumer protocol."""
        body = {"groupId": self.name, "memberId": member_id, "memberEpoch": epoch}
        return self.wire.ask("ConsumerGroupHeartbeat", body | more)


@pytest.fixture
def group(wire: WireClient, topics: Topics) -> Group:
    return Group(wire, topics.name())


def test_new_member_is_given_an_id_before_it_joins(group: Group) -> None:
    first = group.join()

    assert error_of(first) == "MEMBER_ID_REQUIRED"
    assert first["memberId"].startswith("wire-")
    assert error_of(group.join("never-heard-of")) == "UNKNOWN_MEMBER_ID"


def test_old_version_joins_without_an_id(group: Group) -> None:
    joined = group.join(version=3)
    assert (error_of(joined), joined["generationId"], joined["leader"]) == ("NONE", 1, joined["memberId"])


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"groupId": ""}, "INVALID_GROUP_ID"),
        ({"sessionTimeoutMs": 1}, "INVALID_SESSION_TIMEOUT"),
        ({"sessionTimeoutMs": 10**8}, "INVALID_SESSION_TIMEOUT"),
        ({"protocols": []}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocolType": ""}, "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_member_does_not_join_with(group: Group, more: dict[str, Any], error: str) -> None:
    assert error_of(group.join(version=3, **more)) == error


def test_member_with_other_protocols_does_not_join(group: Group) -> None:
    group.lead()

    assert error_of(group.join(version=3, protocolType="connect")) == "INCONSISTENT_GROUP_PROTOCOL"
    other = [{"name": "unheard", "metadata": b""}]
    assert error_of(group.join(version=3, protocols=other)) == "INCONSISTENT_GROUP_PROTOCOL"


def test_member_is_known_by_id_and_generation(group: Group) -> None:
    member_id, generation = group.lead()

    assert group.heartbeat(member_id, generation) == "NONE"
    assert group.heartbeat(member_id, generation + 1) == "ILLEGAL_GENERATION"
    assert group.heartbeat("other", generation) == "UNKNOWN_MEMBER_ID"
    assert error_of(group.sync(member_id, generation + 1)) == "ILLEGAL_GENERATION"
    assert error_of(group.sync("other", generation)) == "UNKNOWN_MEMBER_ID"
    assert error_of(group.sync(member_id, generation, protocolName="else")) == "INCONSISTENT_GROUP_PROTOCOL"


def test_commit_needs_the_generation_of_the_member(group: Group, topics: Topics) -> None:
    topic, requests = topics.create(), Requests(group.wire)
    member_id, generation = group.lead()

    def commit(generation: int, member_id: str) -> str:
        return requests.commit_offset(group.name, topic, 1, generation=generation, member_id=member_id)

    assert commit(generation, member_id) == "NONE"
    assert commit(generation + 1, member_id) == "ILLEGAL_GENERATION"
    assert commit(generation, "other") == "UNKNOWN_MEMBER_ID"
    assert commit(-1, "") == "UNKNOWN_MEMBER_ID"


def test_member_that_leaves_is_gone(group: Group) -> None:
    member_id, generation = group.lead()

    assert group.leave("other", member_id) == ("NONE", ["UNKNOWN_MEMBER_ID", "NONE"])

    assert group.heartbeat(member_id, generation) == "UNKNOWN_MEMBER_ID"
    assert group.describe()["groupState"] == "Empty"


def test_group_is_described_with_what_its_members_said(group: Group) -> None:
    member_id, _ = group.lead()

    found = group.describe()

    assert (found["groupState"], found["protocolType"], found["protocolData"]) == ("Stable", "consumer", "range")
    (member,) = found["members"]
    assert (member["memberId"], member["clientId"]) == (member_id, "wire")
    assert member["memberMetadata"] == PROTOCOLS[0]["metadata"]
    assert member["memberAssignment"] == b"\x00\x01mine"


def test_unknown_group_is_dead_for_old_versions_and_not_found_for_new_ones(group: Group) -> None:
    assert (error_of(group.describe(5)), group.describe(5)["groupState"]) == ("NONE", "Dead")
    assert (error_of(group.describe(6)), group.describe(6)["groupState"]) == ("GROUP_ID_NOT_FOUND", "Dead")


def test_second_member_of_an_instance_id_fences_the_first(group: Group) -> None:
    first = group.join(groupInstanceId="i")
    assert error_of(first) == "NONE"
    group.sync(first["memberId"], first["generationId"], groupInstanceId="i")

    second = group.join(groupInstanceId="i")

    assert second["memberId"] != first["memberId"]
    beat = group.heartbeat(first["memberId"], second["generationId"], groupInstanceId="i")
    assert beat == "FENCED_INSTANCE_ID"
    stale = group.sync(first["memberId"], second["generationId"], groupInstanceId="i")
    assert error_of(stale) == "FENCED_INSTANCE_ID"


def test_group_is_listed_by_state_and_type(group: Group) -> None:
    group.lead()

    def listed(**filters: list[str]) -> bool:
        answer = group.wire.ask("ListGroups", filters)
        return group.name in [found["groupId"] for found in answer["groups"]]

    assert listed()
    assert listed(statesFilter=["Stable"]) and not listed(statesFilter=["Empty"])
    assert listed(typesFilter=["classic"]) and not listed(typesFilter=["consumer"])


NEW = {"rebalanceTimeoutMs": 10_000, "topicPartitions": []}


def test_consumer_protocol_assigns_by_heartbeats(group: Group, topics: Topics) -> None:
    topic = topics.create(3)
    topic_id = Requests(group.wire).topic_id(topic)

    joined = group.beat(str(uuid4()), 0, subscribedTopicNames=[topic], **NEW)

    assert error_of(joined) == "NONE"
    assert joined["heartbeatIntervalMs"] == 500
    joined = group.assigned_by(joined)
    assert assigned(joined) == {(topic_id, number) for number in range(3)}
    left = group.beat(joined["memberId"], -1)
    assert (error_of(left), left["memberEpoch"]) == ("NONE", -1)


def assigned(answer: dict[str, Any]) -> set[tuple[UUID, int]]:
    parts = (answer["assignment"] or {"topicPartitions": []})["topicPartitions"]
    return {(part["topicId"], number) for part in parts for number in part["partitions"]}


def test_second_member_gets_what_the_first_gives_back(group: Group, topics: Topics) -> None:
    topic = topics.create(4)
    topic_id = Requests(group.wire).topic_id(topic)
    first = group.assigned_by(group.beat(str(uuid4()), 0, subscribedTopicNames=[topic], **NEW))
    second = group.beat(str(uuid4()), 0, subscribedTopicNames=[topic], **NEW)
    assert assigned(second) == set(), "the first has all of them still"

    told = until(lambda: (told := group.beat(first["memberId"], first["memberEpoch"]))["assignment"] and told)
    kept = assigned(told)
    assert len(kept) == 2
    owned = [{"topicId": topic_id, "partitions": sorted(number for _, number in kept)}]
    group.beat(first["memberId"], first["memberEpoch"], topicPartitions=owned)

    given = until(lambda: assigned(group.beat(second["memberId"], second["memberEpoch"])))
    assert given == {(topic_id, number) for number in range(4)} - kept


def test_pattern_of_a_subscription_is_matched_by_the_coordinator(group: Group, topics: Topics) -> None:
    topic = topics.create(2)
    prefix = topic.rsplit("-", 1)[0]

    joined = group.beat(str(uuid4()), 0, subscribedTopicNames=[], subscribedTopicRegex=f"{prefix}.*", **NEW)

    assert error_of(joined) == "NONE"
    found = assigned(group.assigned_by(joined))
    assert {topic_id for topic_id, _ in found} == {Requests(group.wire).topic_id(topic)}


def test_pattern_that_is_none_is_refused(group: Group) -> None:
    joined = group.beat(str(uuid4()), 0, subscribedTopicNames=[], subscribedTopicRegex="(", **NEW)
    assert error_of(joined) == "INVALID_REGULAR_EXPRESSION"


def test_member_may_join_before_it_has_topics(group: Group, topics: Topics) -> None:
    """So does the Java consumer, whose pattern matches nothing that it has heard of yet."""
    topic, member_id = topics.create(), str(uuid4())
    joined = group.beat(member_id, 0, subscribedTopicNames=[], **NEW)
    assert (error_of(joined), joined["assignment"]) == ("NONE", {"topicPartitions": []})

    told = group.beat(member_id, joined["memberEpoch"], subscribedTopicNames=[topic])

    assert [part["partitions"] for part in told["assignment"]["topicPartitions"]] == [[0]]


def test_heartbeat_of_the_consumer_protocol_is_checked(group: Group, topics: Topics) -> None:
    topic, member_id = topics.create(), str(uuid4())
    names = {"subscribedTopicNames": [topic]}
    assert error_of(group.beat(member_id, 0, rebalanceTimeoutMs=10_000, **names)) == "INVALID_REQUEST"
    assert error_of(group.beat(member_id, 0, topicPartitions=[], **names)) == "INVALID_REQUEST"
    assert error_of(group.beat(member_id, 0, **NEW)) == "INVALID_REQUEST"
    joined = group.beat(member_id, 0, **names, **NEW)

    assert error_of(group.beat("other", 1)) == "UNKNOWN_MEMBER_ID"
    assert error_of(group.beat(member_id, joined["memberEpoch"] + 1)) == "FENCED_MEMBER_EPOCH"
    unknown = group.beat(str(uuid4()), 0, serverAssignor="unheard", **names, **NEW)
    assert error_of(unknown) == "UNSUPPORTED_ASSIGNOR"


def test_group_of_the_consumer_protocol_is_described(group: Group, topics: Topics) -> None:
    topic = topics.create(2)
    joined = group.beat(str(uuid4()), 0, subscribedTopicNames=[topic], serverAssignor="range", **NEW)
    joined = group.assigned_by(joined)

    (found,) = group.wire.ask("ConsumerGroupDescribe", {"groupIds": [group.name]})["groups"]

    assert (found["groupState"], found["assignorName"]) == ("Stable", "range")
    assert found["groupEpoch"] == found["assignmentEpoch"] == joined["memberEpoch"]
    (member,) = found["members"]
    assert (member["memberId"], member["subscribedTopicNames"]) == (joined["memberId"], [topic])
    parts = member["assignment"]["topicPartitions"]
    assert [(part["topicName"], part["partitions"]) for part in parts] == [(topic, [0, 1])]


def test_commit_needs_the_epoch_of_a_member_of_the_consumer_protocol(group: Group, topics: Topics) -> None:
    topic, requests = topics.create(2), Requests(group.wire)
    joined = group.assigned_by(group.beat(str(uuid4()), 0, subscribedTopicNames=[topic], **NEW))
    member_id, epoch = joined["memberId"], joined["memberEpoch"]

    def commit(epoch: int, member_id: str, version: int = 9) -> str:
        return requests.commit_offset(group.name, topic, 5, generation=epoch, member_id=member_id, version=version)

    assert commit(epoch, member_id) == "NONE"
    assert commit(epoch, member_id, 10) == "NONE"
    assert commit(epoch + 1, member_id) == "STALE_MEMBER_EPOCH"
    assert commit(epoch, "other") == "UNKNOWN_MEMBER_ID"
    assert commit(epoch, member_id, 8) == "UNSUPPORTED_VERSION"
    assert requests.fetch_offset(group.name, topic)["committedOffset"] == 5
