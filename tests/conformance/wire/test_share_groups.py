"""Share groups through the clients that have them: what becomes of records, who gets them, and how far a group is."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from conformance.wire.conftest import Opened, Topics, open_client
from conformance.wire.servers import Server
from support.clients.shares import MEMBERS, Shared, ShareMember, join
from support.clients.values import Client, Sent, until
from support.raw_client import WireClient
from support.wire_requests import error_of

GROUP_CONFIG = 32
COUNT = 6


@pytest.fixture(params=list(MEMBERS))
def client(
    request: pytest.FixtureRequest, server: Server, connected: dict[str, Client]
) -> Iterator[Opened]:  # fmt: skip
    """Each client library in turn that has share consumers."""
    with ExitStack() as closing:
        yield open_client(request.param, server, connected, closing)


class Group:
    """A topic with some records, and a share group that reads it from the first one on."""

    def __init__(self, server: Server, client: Opened, wire: WireClient, topics: Topics, closing: ExitStack) -> None:
        self.name, self.topic = topics.name(), topics.create()
        self._server, self._client, self._wire, self._closing = server, client, wire, closing
        self.configure(**{"share.auto.offset.reset": "earliest"})
        self.fill()

    def configure(self, **configs: str) -> None:
        changes = [{"name": name, "configOperation": 0, "value": value} for name, value in configs.items()]
        resource = {"resourceType": GROUP_CONFIG, "resourceName": self.name, "configs": changes}
        (answer,) = self._wire.ask("IncrementalAlterConfigs", {"resources": [resource]})["responses"]
        assert error_of(answer) == "NONE"

    def fill(self, count: int = COUNT) -> None:
        self._client.producer().send(self.topic, [Sent(b"%d" % number) for number in range(count)])

    def member(self) -> ShareMember:
        made = join(self._client.client, self._server.bootstrap_servers, self.name, self.topic)
        self._closing.callback(_close, made)
        return made

    def lag(self) -> tuple[int, int]:
        """Where the group begins in the partition, and how much it has to do."""
        asked = {"groups": [{"groupId": self.name, "topics": None}]}
        (group,) = self._wire.ask("DescribeShareGroupOffsets", asked)["groups"]
        (part,) = group["topics"][0]["partitions"]
        return part["startOffset"], part["lag"]

    def ask(self, name: str, **body: Any) -> dict[str, Any]:
        return self._wire.ask(name, {"groupId": self.name, **body})


def _close(member: ShareMember) -> None:
    try:
        member.close()
    except Exception as error:  # noqa: BLE001 - the test has closed it
        print("closing:", error)


@pytest.fixture
def group(server: Server, client: Opened, wire: WireClient, topics: Topics) -> Iterator[Group]:
    with ExitStack() as closing:
        yield Group(server, client, wire, topics, closing)


def counts(records: list[Shared]) -> list[tuple[int, int]]:
    return [(record.offset, record.count) for record in records]


def taken(member: ShareMember, count: int) -> list[Shared]:
    """So many records, which may come in several polls; each is accepted."""
    found: list[Shared] = []

    def is_enough() -> bool:
        records = member.poll()
        for record in records:
            member.acknowledge(record.offset, "accept")
        found.extend(records)
        return len(found) >= count

    until(is_enough)
    return found


def test_records_are_accepted_released_and_rejected(group: Group) -> None:
    member = group.member()
    records = until(member.poll)
    assert [(one.offset, one.value, one.count) for one in records] == [(n, b"%d" % n, 1) for n in range(COUNT)]
    for record, word in zip(records, ["accept", "release", "reject", "accept", "release", "accept"], strict=True):
        member.acknowledge(record.offset, word)
    assert member.commit() == []
    again = until(member.poll)
    assert counts(again) == [(1, 2), (4, 2)]
    member.acknowledge(1, "reject")
    member.acknowledge(4, "accept")
    assert member.commit() == []
    assert group.lag()[1] == 0
    assert member.poll() == []


def test_a_lock_that_ends_lets_the_record_come_again(group: Group) -> None:
    group.configure(**{"share.record.lock.duration.ms": "1000"})
    slow, other = group.member(), group.member()
    records = until(slow.poll)
    group.configure(**{"share.record.lock.duration.ms": "30000"})
    assert counts(until(other.poll)) == [(n, 2) for n in range(COUNT)]
    for record in records:
        slow.acknowledge(record.offset, "accept")
    assert len(slow.commit()) == 1
    for record in records:
        other.acknowledge(record.offset, "accept")
    assert other.commit() == [] and group.lag()[1] == 0


def test_two_members_share_one_partition(group: Group) -> None:
    members = [group.member(), group.member()]
    found: list[Shared] = []

    def have_all() -> bool:
        for member in members:
            records = member.poll()
            for record in records:
                member.acknowledge(record.offset, "accept")
            found.extend(records)
            assert member.commit() == []
        return len(found) >= 5 * COUNT

    for _ in range(4):
        group.fill()
    until(have_all)
    assert sorted(counts(found)) == [(n, 1) for n in range(5 * COUNT)]
    assert group.lag()[1] == 0


def test_what_a_member_holds_is_free_when_it_closes(group: Group) -> None:
    first = group.member()
    records = until(first.poll)
    first.acknowledge(0, "accept")
    first.acknowledge(1, "release")
    first.close()
    assert counts(taken(group.member(), COUNT - 1)) == [(n, 2) for n in range(1, COUNT)]
    assert len(records) == COUNT


def test_a_record_that_nobody_takes_is_given_up(group: Group) -> None:
    group.configure(**{"share.delivery.count.limit": "2"})
    member = group.member()
    for count in (1, 2):
        records = until(member.poll)
        assert counts(records) == [(n, count) for n in range(COUNT)]
        for record in records:
            member.acknowledge(record.offset, "release")
        assert member.commit() == []
    assert member.poll() == [] and group.lag()[1] == 0


def test_a_group_begins_at_the_end_unless_it_is_told_otherwise(group: Group) -> None:
    group.configure(**{"share.auto.offset.reset": "latest"})
    member = group.member()

    def came() -> list[Shared]:
        group.fill(1)
        return member.poll()

    assert min(record.offset for record in until(came)) >= COUNT


def test_a_group_begins_again_where_it_is_told(group: Group) -> None:
    member = group.member()
    taken(member, COUNT)
    assert member.commit() == []
    member.close()
    part = {"partitionIndex": 0, "startOffset": 4}
    topics = [{"topicName": group.topic, "partitions": [part]}]
    altered = until(lambda: _if_empty(lambda: group.ask("AlterShareGroupOffsets", topics=topics)))
    assert [error_of(one) for topic in altered["responses"] for one in topic["partitions"]] == ["NONE"]
    assert group.lag() == (4, 2)
    assert counts(taken(group.member(), 2)) == [(4, 1), (5, 1)]


def _if_empty(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """The answer, or None as long as the group has members."""
    answer = ask()
    return None if error_of(answer) == "NON_EMPTY_GROUP" else answer


def test_a_group_is_listed_described_and_deleted(group: Group, wire: WireClient) -> None:
    member = group.member()
    taken(member, COUNT)
    assert member.commit() == []

    def listed() -> list[tuple[str, str, str]]:
        every = wire.ask("ListGroups", {"statesFilter": [], "typesFilter": ["share"]})["groups"]
        return [
            (one["protocolType"], one["groupState"], one["groupType"]) for one in every if one["groupId"] == group.name
        ]

    assert listed() == [("share", "Stable", "share")]
    (told,) = wire.ask("ShareGroupDescribe", {"groupIds": [group.name]})["groups"]
    assert (told["groupState"], told["assignorName"]) == ("Stable", "simple")
    (described,) = told["members"]
    (assigned,) = described["assignment"]["topicPartitions"]
    assert (assigned["topicName"], assigned["partitions"]) == (group.topic, [0])
    (refused,) = wire.ask("DeleteGroups", {"groupsNames": [group.name]})["results"]
    assert error_of(refused) == "NON_EMPTY_GROUP"
    member.close()
    until(lambda: error_of(wire.ask("DeleteGroups", {"groupsNames": [group.name]})["results"][0]) == "NONE")
    assert listed() == []


# --- errors, by a raw connection --------------------------------------------------------------------------------------


def test_heartbeats_that_make_no_sense_are_refused(wire: WireClient, topics: Topics) -> None:
    name, topic, me = topics.name(), topics.create(), str(uuid.uuid4())

    def beat(**values: Any) -> str:
        body = {"groupId": name, "memberId": me, "memberEpoch": 0, "subscribedTopicNames": [topic], **values}
        return error_of(wire.ask("ShareGroupHeartbeat", body))

    assert [
        beat(memberEpoch=1), beat(memberEpoch=-1), beat(memberEpoch=-2), beat(memberId=""), beat(groupId=""),
        beat(rackId=""), beat(subscribedTopicNames=[]), beat(subscribedTopicNames=None),
    ] == [
        "GROUP_ID_NOT_FOUND", "GROUP_ID_NOT_FOUND", "INVALID_REQUEST", "INVALID_REQUEST", "INVALID_REQUEST",
        "INVALID_REQUEST", "INVALID_REQUEST", "INVALID_REQUEST",
    ]  # fmt: skip
    assert beat() == "NONE"
    assert [beat(memberEpoch=9), beat(memberEpoch=1), beat(memberId="other", memberEpoch=2)] == [
        "FENCED_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID",
    ]  # fmt: skip
    assert [beat(memberEpoch=-1), beat(memberEpoch=-1)] == ["NONE", "UNKNOWN_MEMBER_ID"]


def test_a_group_has_one_protocol(wire: WireClient, topics: Topics) -> None:
    name, topic = topics.name(), topics.create()
    mine = {"groupId": name, "memberId": str(uuid.uuid4()), "memberEpoch": 0, "subscribedTopicNames": [topic]}
    assert error_of(wire.ask("ShareGroupHeartbeat", mine)) == "NONE"
    consumer = {**mine, "rebalanceTimeoutMs": 10_000, "topicPartitions": []}
    assert error_of(wire.ask("ConsumerGroupHeartbeat", consumer)) == "GROUP_ID_NOT_FOUND"
    classic = {
        "groupId": name, "sessionTimeoutMs": 6000, "rebalanceTimeoutMs": 6000, "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    assert error_of(wire.ask("JoinGroup", classic)) == "INCONSISTENT_GROUP_PROTOCOL"
    commit = {"groupId": name, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]}
    (told,) = wire.ask("OffsetCommit", commit, version=9)["topics"][0]["partitions"]
    assert error_of(told) == "GROUP_ID_NOT_FOUND"
    delete = {"groupId": name, "topics": [{"topicName": topic}]}
    assert error_of(wire.ask("DeleteShareGroupOffsets", delete)) == "NON_EMPTY_GROUP"
    assert error_of(wire.ask("DeleteShareGroupOffsets", {**delete, "groupId": "none"})) == "GROUP_ID_NOT_FOUND"
