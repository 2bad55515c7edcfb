"""Share groups: members, epochs, the state of partitions, and how far a group is."""

from typing import Any
from uuid import UUID

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.effects import TopicInfo
from pylog.coordinator.group.consumer_records import GroupEpoch
from pylog.coordinator.group.share_records import EPOCH, STATE, decode_share, share_record
from pylog.coordinator.group.simple_assignor import assign_simply
from pylog.errors import (
    CoordinatorNotAvailable,
    CorruptBatch,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    GroupNotEmpty,
    InconsistentGroupProtocol,
    InvalidRequest,
    NotCoordinator,
    NotEnoughReplicas,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnsupportedFormat,
)
from pylog.protocol.messages import Session
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
)
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pylog.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)
from pylog.record import OffsetAndMetadata, TopicPartition
from support.share_group_host import SHARE_SESSION_MS, ShareClient, ShareHost

T0 = TopicPartition("t", 0)


@pytest.fixture
def host() -> ShareHost:
    return ShareHost()


def member(host: ShareHost, name: str = "a", *topics: str, **options: Any) -> ShareClient:
    return ShareClient(host, name, [*topics] or ["t"], **options)


# --- members ----------------------------------------------------------------------------------------------------------


def test_a_member_gets_partitions_when_they_have_a_state(host: ShareHost) -> None:
    """The epochs are those of a real Kafka: 2 for the first member, 3 with its partitions."""
    one = member(host)
    answer = one.beat()
    assert (answer.member_epoch, answer.heartbeat_interval_ms, one.owned) == (2, 5000, set())
    (asked,) = host.questions
    assert isinstance(asked, InitializeShareGroupStateRequest) and asked.group_id == "g"
    parts = [part for _, part in asked.keyed()]
    assert [(part.partition, part.state_epoch, part.start_offset) for part in parts] == [(n, 2, -1) for n in range(4)]
    assert one.beat().member_epoch == 3
    assert one.owned == host.slots()
    assert one.beat().assignment is None
    assert one.beat(subscribed_topic_names=["t"]).assignment is not None


def test_a_heartbeat_that_is_kept_back_is_answered_with_the_partitions(host: ShareHost) -> None:
    host.is_busy = True
    one = member(host)
    one.beat()
    one.wait()
    assert one.ticket not in host.answers
    host.is_busy = False
    host.answer_asks()
    host.advance(0)
    one.hear()
    assert one.owned == host.slots()


def test_members_share_partitions(host: ShareHost) -> None:
    every = [member(host, name) for name in "abcdef"]
    for _ in range(3):
        for one in every:
            one.beat()
    assert [len(one.owned) for one in every] == [2, 1, 1, 2, 1, 1]
    assert set().union(*(one.owned for one in every)) == host.slots()
    every[0].leave()
    for one in every[1:]:
        one.beat()
    assert set().union(*(one.owned for one in every[1:])) == host.slots()


def test_new_partitions_are_begun_with_the_next_heartbeat(host: ShareHost) -> None:
    one = member(host)
    one.beat(), one.beat()
    topic_id = host.topics.topics["t"].id
    host.topics.topics = {"t": TopicInfo(topic_id, 6)}
    one.beat()
    assert [part.partition for _, part in host.questions[-1].keyed()] == [4, 5]
    one.beat()
    assert one.owned == host.slots() and len(one.owned) == 6


def test_a_partition_that_could_not_be_begun_is_begun_again(host: ShareHost) -> None:
    good, host.share_coordinator = host.share_coordinator, lambda message: NotCoordinator("elsewhere")
    one = member(host)
    one.beat()
    assert not host.group().states.initializing
    host.share_coordinator = lambda message: message.refused(CoordinatorNotAvailable("soon"))
    one.beat()
    host.share_coordinator = good
    one.beat(), one.beat()
    assert len(host.questions) == 3 and one.owned == host.slots()


def test_a_coordinator_that_takes_over_asks_for_what_is_not_begun(host: ShareHost) -> None:
    host.is_busy = True
    one = member(host)
    one.beat()
    host.asks.clear()
    host.is_busy = False
    host.restart()
    one.beat(), one.beat()
    assert one.owned == host.slots()
    host.restart()
    assert one.beat().assignment is None and host.group().currents["a"].assigned == host.slots()


def test_a_member_that_is_not_heard_of_is_out_and_so_is_one_of_a_lost_process(host: ShareHost) -> None:
    one, two = member(host), member(host, "b", address="/other")
    for _ in range(3):
        one.beat(), two.beat()
    host.advance(SHARE_SESSION_MS - 1)
    two.beat()
    host.advance(1)
    assert [*host.group().members] == ["b"]
    assert isinstance(one.beat().error, UnknownMemberId)
    host.lose("/other")
    assert host.group().is_empty
    assert host.listed() == [("g", "share", "Empty", "share")]


def test_configs_of_the_group_decide(host: ShareHost) -> None:
    host.group_overrides["g"] = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    assert member(host).beat().heartbeat_interval_ms == 7000
    host.advance(SHARE_SESSION_MS)
    assert not host.group().is_empty
    host.advance(5000)
    assert host.group().is_empty


@pytest.mark.parametrize(("values", "error"), [
    ({"member_id": ""}, InvalidRequest),
    ({"group_id": ""}, InvalidRequest),
    ({"rack_id": ""}, InvalidRequest),
    ({"subscribed_topic_names": None}, InvalidRequest),
    ({"subscribed_topic_names": []}, InvalidRequest),
    ({"member_epoch": -2}, InvalidRequest),
    ({"member_epoch": 1}, GroupIdNotFound),
    ({"member_epoch": -1}, GroupIdNotFound),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(host: ShareHost, values: dict[str, Any], error: type[Exception]) -> None:
    given = {"group_id": "g", "member_id": "a", "member_epoch": 0, "subscribed_topic_names": ["t"], **values}
    assert isinstance(host.ask(ShareGroupHeartbeatRequest(**given)).error, error)
    assert not host.log


def test_a_member_is_in_its_epoch_or_in_the_one_before(host: ShareHost) -> None:
    one = member(host)
    one.beat(), one.beat()
    assert isinstance(one.beat(member_epoch=4).error, FencedMemberEpoch)
    assert isinstance(one.beat(member_epoch=1).error, FencedMemberEpoch)
    assert one.beat(member_epoch=2).error is None
    assert isinstance(member(host, "b").beat(member_epoch=2).error, UnknownMemberId)
    assert isinstance(member(host, "b").leave().error, UnknownMemberId)


def test_a_group_is_full() -> None:
    host = ShareHost(NodeConfig(group_share_max_size=1))
    one = member(host)
    assert one.beat().error is None
    assert isinstance(member(host, "b").beat().error, GroupMaxSizeReached)
    assert one.beat().error is None


def test_where_the_log_refuses_nothing_has_happened(host: ShareHost) -> None:
    one = member(host)
    host.failures.append(NotEnoughReplicas("no"))
    assert isinstance(one.beat().error, CoordinatorNotAvailable)
    assert not host.questions
    one.beat(), one.beat()
    assert one.owned == host.slots()


# --- other protocols --------------------------------------------------------------------------------------------------


def test_a_group_is_of_one_protocol(host: ShareHost) -> None:
    member(host).beat()
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=1, member_id="", protocol_type="consumer",
        protocols=[],
    )  # fmt: skip
    assert isinstance(host.ask(join).error, InconsistentGroupProtocol)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="b", member_epoch=0, rebalance_timeout_ms=1, topic_partitions=[],
        subscribed_topic_names=["t"],
    )  # fmt: skip
    assert isinstance(host.ask(beat).error, GroupIdNotFound)
    assert isinstance(host.ask(OffsetFetchRequest.of("g")).groups[0].error, GroupIdNotFound)
    assert host.ask(DescribeGroupsRequest(groups=["g"])).groups[0].group_state == "Dead"
    beat.group_id = "c"
    host.ask(beat)
    assert isinstance(member(host, group_id="c").beat().error, GroupIdNotFound)


def test_a_group_is_listed_and_described(host: ShareHost) -> None:
    one = member(host)
    one.beat(), one.beat()
    assert host.listed(types_filter=["share"]) == [("g", "share", "Stable", "share")]
    found, missing = host.ask(ShareGroupDescribeRequest(group_ids=["g", "other"])).groups
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 3, 3)
    assert found.assignor_name == "simple"
    (told,) = found.members
    assert (told.member_id, told.member_epoch, told.subscribed_topic_names) == ("a", 3, ["t"])
    assert [(one.topic_name, one.partitions) for one in told.assignment.topic_partitions] == [("t", [0, 1, 2, 3])]
    assert isinstance(missing.error, GroupIdNotFound)


def test_an_empty_group_does_not_expire(host: ShareHost) -> None:
    one = member(host)
    one.beat()
    one.leave()
    host.carry_out(host.coordinator.expire(host.now))
    assert host.listed() == [("g", "share", "Empty", "share")]


# --- how far it is ----------------------------------------------------------------------------------------------------


def begun(host: ShareHost) -> ShareClient:
    """A group that has begun, without members."""
    one = member(host)
    one.beat(), one.beat()
    one.leave()
    host.questions.clear()
    return one


def summaries(message: Any) -> Any:
    def summary(_: UUID, part: Any) -> Any:
        if isinstance(message, ReadShareGroupStateSummaryRequest):
            found = {"start_offset": 10 + part.partition, "leader_epoch": 3, "delivery_complete_count": 2}
            return message.part_result(partition=part.partition, **found)
        return message.part_result(partition=part.partition)

    return message.answered(summary)


def test_the_share_coordinator_tells_how_far_a_group_is(host: ShareHost) -> None:
    begun(host)
    host.share_coordinator = summaries
    every = DescribeShareGroupOffsetsRequest.of("g")
    found = every.found(host.ask(every))
    assert {key: one.start_offset for key, one in found.items()} == {TopicPartition("t", n): 10 + n for n in range(4)}
    some = DescribeShareGroupOffsetsRequest.of("g", [TopicPartition("t", 1), TopicPartition("no", 0)])
    found = some.found(host.ask(some))
    assert [(one.start_offset, one.leader_epoch) for one in found.values()] == [(11, 3), (-1, 0)]
    nobody = DescribeShareGroupOffsetsRequest.of("other")
    assert nobody.found(host.ask(nobody)) == {}
    host.share_coordinator = lambda message: NotCoordinator("elsewhere")
    assert isinstance(every.group_error(host.ask(every)), NotCoordinator)


def alter(**starts: int) -> AlterShareGroupOffsetsRequest:
    topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    part = topic.AlterShareGroupOffsetsRequestPartition
    return AlterShareGroupOffsetsRequest(group_id="g", topics=[
        topic(topic_name=name[0], partitions=[part(partition_index=int(name[1:]), start_offset=start)])
        for name, start in starts.items()
    ])  # fmt: skip


def test_offsets_are_altered_while_nobody_reads(host: ShareHost) -> None:
    one = begun(host)
    answer = host.ask(alter(t0=7, t9=1, x0=1))
    errors = [part.error for topic in answer.responses for part in topic.partitions]
    assert errors[0] is None and all(isinstance(error, UnknownTopicOrPartition) for error in errors[1:])
    ((_, part),) = [*host.questions[-1].keyed()]
    assert (part.partition, part.start_offset) == (0, 7)
    one.beat()
    assert isinstance(host.ask(alter(t0=7)).error, GroupNotEmpty)


def test_offsets_are_altered_in_a_group_that_is_new(host: ShareHost) -> None:
    assert host.ask(alter(t0=7)).error is None
    assert host.listed() == [("g", "share", "Empty", "share")]
    host.share_coordinator = lambda message: message.refused(CoordinatorNotAvailable("soon"))
    assert isinstance(host.ask(alter(t0=8)).responses[0].partitions[0].error, CoordinatorNotAvailable)


def test_offsets_of_topics_are_deleted(host: ShareHost) -> None:
    one = begun(host)
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    message = DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic(topic_name="t"), topic(topic_name="x")])
    done, missing = host.ask(message).responses
    assert (done.topic_name, done.error) == ("t", None) and isinstance(missing.error, UnknownTopicOrPartition)
    (asked,) = host.questions
    assert isinstance(asked, DeleteShareGroupStateRequest) and len([*asked.keyed()]) == 4
    assert not host.group().states.initialized and not host.group().states.deleting
    one.beat()
    assert isinstance(host.ask(message).error, GroupNotEmpty)
    message.group_id = "other"
    assert isinstance(host.ask(message).error, GroupIdNotFound)


def test_a_group_is_deleted_when_its_state_is(host: ShareHost) -> None:
    one = begun(host)
    host.share_coordinator = lambda message: message.refused(CoordinatorNotAvailable("soon"))
    delete = DeleteGroupsRequest(groups_names=["g", "other"])
    failed, missing = host.ask(delete).results
    assert isinstance(failed.error, CoordinatorNotAvailable) and isinstance(missing.error, GroupIdNotFound)
    assert host.group().states.deleting
    host.share_coordinator = summaries
    assert host.ask(delete).results[0].error is None
    assert host.listed() == []
    kinds = [decode_share(entry.record).kind for entry in host.log[-2:]]  # type: ignore[union-attr]
    assert kinds == [STATE, EPOCH]
    one.beat()
    assert isinstance(host.ask(delete).results[0].error, GroupNotEmpty)


def test_a_topic_that_is_gone_is_forgotten(host: ShareHost) -> None:
    one = member(host)
    one.beat(), one.beat()
    topic_id = host.topics.topics.pop("t").id
    host.topics.topics = {}
    host.carry_out(host.coordinator.topic_deleted("t", topic_id, host.now))
    assert not host.group().states.initialized
    one.beat()
    assert one.owned == set()


# --- the assignor -----------------------------------------------------------------------------------------------------


def test_members_that_read_different_topics_share_each_topic() -> None:
    t, u = ([(UUID(int=number), part) for part in range(2)] for number in (1, 2))
    found = assign_simply({"a": t, "b": t + u, "c": u}, {})
    assert found == {"a": frozenset(t[:1]), "b": frozenset((t[1], u[0])), "c": frozenset(u[1:])}
    again = assign_simply({"a": t, "b": t + u}, found)
    assert again["a"] == found["a"] and again["b"] == {t[1], *u}
    assert assign_simply({}, found) == {} and assign_simply({"a": []}, found) == {"a": frozenset()}


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_what_is_asked_of_offsets_of_consumers_is_refused(host: ShareHost) -> None:
    member(host).beat()
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    part = topic.OffsetDeleteRequestPartition(partition_index=0)
    delete = OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=[part])])
    assert isinstance(host.ask(delete).error, GroupIdNotFound)
    assert host.group().is_subscribed("t") and not host.group().is_subscribed("u")
    commit = OffsetCommitRequest(group_id="g", topics=OffsetCommitRequest.offsets({T0: OffsetAndMetadata(3)}))
    assert isinstance(commit.found(host.ask(commit))[T0].error, GroupIdNotFound)
    with pytest.raises(TypeError, match="no answer to object"):
        host.coordinator.handle(object(), Session(), 1, host.now)


def test_records_of_other_versions_are_not_read() -> None:
    record = share_record(EPOCH, "g", "", GroupEpoch(2))
    with pytest.raises(UnsupportedFormat, match="version 9"):
        decode_share(record._replace(value=b"\0\x09"))
    with pytest.raises(CorruptBatch, match="has 1 bytes"):
        decode_share(record._replace(value=b"\0"))


def test_a_tombstone_of_a_group_that_is_gone_changes_nothing(host: ShareHost) -> None:
    host.coordinator.replay(share_record(EPOCH, "none", "", None))
    assert host.listed() == []


def test_a_member_that_cannot_be_removed_is_removed_later(host: ShareHost) -> None:
    member(host).beat()
    host.failures.append(NotEnoughReplicas("no"))
    host.advance(SHARE_SESSION_MS)
    assert not host.group().is_empty
    host.advance(SHARE_SESSION_MS)
    assert host.group().is_empty


def test_a_change_of_offsets_that_cannot_be_logged_is_refused(host: ShareHost) -> None:
    one = begun(host)
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    delete = DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic(topic_name="t")])
    for message in (alter(t0=7), delete):
        host.failures.append(NotEnoughReplicas("no"))
        assert isinstance(host.ask(message).error, CoordinatorNotAvailable)
    host.failures.append(NotEnoughReplicas("no"))
    (refused,) = host.ask(DeleteGroupsRequest(groups_names=["g"])).results
    assert isinstance(refused.error, CoordinatorNotAvailable)
    one.beat()
    assert isinstance(host.ask(alter(t0=7)).error, GroupNotEmpty)


def test_a_deletion_that_was_interrupted_goes_on(host: ShareHost) -> None:
    begun(host)
    good, host.share_coordinator = host.share_coordinator, lambda message: NotCoordinator("elsewhere")
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    delete = DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic(topic_name="t")])
    (failed,) = host.ask(delete).responses
    assert isinstance(failed.error, NotCoordinator) and host.group().states.deleting
    host.share_coordinator = good
    assert host.ask(delete).responses[0].error is None and not host.group().states.deleting
    (none,) = host.ask(delete).responses
    assert isinstance(none.error, UnknownTopicOrPartition)


def test_a_partition_whose_state_cannot_be_read_has_no_start(host: ShareHost) -> None:
    begun(host)
    host.share_coordinator = lambda message: message.refused(CoordinatorNotAvailable("soon"))
    message = DescribeShareGroupOffsetsRequest.of("g", [T0])
    answer = host.ask(message)
    assert (message.found(answer)[T0].start_offset, message.first_error(answer)) == (-1, None)
    assert host.ask(alter(x0=1)).responses[0].partitions[0].error is not None


def test_members_stay_when_another_process_has_ended_and_a_group_does_not_expire(host: ShareHost) -> None:
    one = member(host)
    one.beat(), one.beat()
    assert host.coordinator.host_lost("/elsewhere", host.now) == []
    assert host.coordinator.expire(host.now) == []
    assert list(host.group().members) == ["a"]
