"""Groups of the consumer protocol: their records, offsets, administration, and groups of the other protocol."""

from uuid import UUID

import pytest

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    PARTITION_METADATA,
    Current,
    GroupEpoch,
    MemberState,
    consumer_record,
    decode_consumer,
)
from pylog.errors import (
    CorruptBatch,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    PylogError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedFormat,
)
from pylog.protocol.messages.groups import ConsumerGroupDescribeRequest, DeleteGroupsRequest
from pylog.record import TopicPartition
from support.consumer_group_host import SESSION_MS, Client, ConsumerHost, heartbeat, member, settle, slots
from support.messages import (
    Offset,
    commit_errors,
    errors_in,
    fetched,
    join_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
)


@pytest.fixture
def host() -> ConsumerHost:
    return ConsumerHost()


# --- both protocols --------------------------------------------------------------------------------------------------


def test_an_empty_classic_group_becomes_one_of_the_consumer_protocol(host: ConsumerHost) -> None:
    commit = offset_commit("g", [Offset("t", 0, 5)])
    assert commit_errors(host.ask(commit)) == {TopicPartition("t", 0): None}
    client = member(host).beat()
    assert client.error is None
    assert host.group().state == "Stable"
    assert fetched(host.ask(offset_fetch("g", [TopicPartition("t", 0)])))[0].offset == 5
    host.restart()
    assert host.group().state == "Stable"


def test_a_classic_group_that_says_nothing_of_its_topics_stays_one(host: ConsumerHost) -> None:
    host.send(join_group("g", protocols=[("range", b"")]))
    error = member(host).beat().error
    assert isinstance(error, GroupIdNotFound) and "has members of the classic protocol" in str(error)
    assert isinstance(heartbeat(host).error, GroupIdNotFound)


def test_a_consumer_group_takes_no_member_that_says_nothing_of_its_topics(host: ConsumerHost) -> None:
    client = member(host).beat()
    answer = host.ask(join_group("g", protocols=[("range", b"")]))
    assert isinstance(answer.error, InconsistentGroupProtocol)
    client.leave()
    joined = host.ask(join_group("g", protocols=[("range", b"")]))
    assert joined.error is None
    assert host.coordinator._groups["g"].listed().group_type == "classic"
    host.restart()
    assert host.coordinator._groups["g"].listed().group_type == "classic"


def test_the_last_records_of_a_group_decide_its_protocol(host: ConsumerHost) -> None:
    """Of a group that changed its protocol a compacted log may have lost the tombstone in between."""
    host.ask(offset_commit("g", [Offset("t", 0, 5)]))
    host.append_record(consumer_record(EPOCH, "g", "", GroupEpoch(3)))
    assert host.listed() == [("g", "consumer", "Empty", "consumer")]
    assert fetched(host.ask(offset_fetch("g", [TopicPartition("t", 0)])))[0].offset == 5


def test_tombstones_of_the_other_protocol_delete_nothing(host: ConsumerHost) -> None:
    member(host).beat()
    host.append_record(LogRecord(b"\x00\x02\x00\x01g", None))
    assert host.group().state == "Stable"
    host.append_record(consumer_record(EPOCH, "h", "", None))
    assert set(host.coordinator._groups) == {"g"}


# --- offsets and administration --------------------------------------------------------------------------------------


def commit(host: ConsumerHost, epoch: int, member_id: str = "m", instance: str | None = None) -> PylogError | None:
    message = offset_commit("g", [Offset("t", 0, 5)], epoch, member_id, instance)
    (error,) = commit_errors(host.ask(message)).values()
    assert error is None or isinstance(error, PylogError)
    return error


def test_members_commit_in_their_epoch(host: ConsumerHost) -> None:
    client = member(host).beat()
    assert commit(host, client.epoch) is None
    assert isinstance(commit(host, client.epoch + 1), StaleMemberEpoch)
    assert isinstance(commit(host, client.epoch, "x"), UnknownMemberId)
    assert isinstance(commit(host, -1, ""), UnknownMemberId)
    client.leave()
    assert commit(host, -1, "") is None


def test_a_member_commits_old_partitions_in_their_earlier_epoch(host: ConsumerHost) -> None:
    client = member(host).beat()
    host.set_topics(t=9)
    client.beat()
    assert commit(host, 1) is None
    assert isinstance(commit(host, 0), StaleMemberEpoch)
    message = offset_commit("g", [Offset("t", 8, 5), Offset("x", 8, 5)], 1, "m")
    assert all(isinstance(error, StaleMemberEpoch) for error in commit_errors(host.ask(message)).values())


def test_a_member_commits_revoked_partitions_in_an_earlier_epoch(host: ConsumerHost) -> None:
    client = member(host).beat()
    host.set_topics(t=9)
    client.beat()
    member(host, "n").beat()
    client.beat()
    revoking = {number for _, number in host.group().currents["m"].revoking}
    assert host.group().currents["m"].epoch == 2 and revoking
    for number in revoking - {8}:
        message = offset_commit("g", [Offset("t", number, 5)], 1, "m")
        assert commit_errors(host.ask(message)) == {TopicPartition("t", number): None}


def test_a_transaction_of_an_anonymous_client_commits(host: ConsumerHost) -> None:
    member(host).beat()
    message = txn_offset_commit("x", "g", 7, 0, [Offset("t", 0, 5)])
    assert commit_errors(host.ask(message)) == {TopicPartition("t", 0): None}


def test_an_instance_id_is_not_looked_at_by_a_commit(host: ConsumerHost) -> None:
    settle([member(host, "a", instance_id="i"), member(host, "m", instance_id="j")])
    epoch = host.group().currents["m"].epoch
    assert [commit(host, epoch, "m", instance) for instance in ("j", "i", "x")] == [None] * 3


def test_members_commit_in_transactions(host: ConsumerHost) -> None:
    client = member(host).beat()
    parts = [Offset("t", 0, 5)]
    message = txn_offset_commit("x", "g", 1, 0, parts, client.epoch, "m")
    assert commit_errors(host.ask(message)) == {TopicPartition("t", 0): None}


def test_members_fetch_in_their_epoch(host: ConsumerHost) -> None:
    client = member(host).beat()
    assert host.ask(offset_fetch("g")).groups[0].error is None
    assert host.ask(offset_fetch("g", None, "m", client.epoch)).groups[0].error is None
    assert isinstance(host.ask(offset_fetch("g", None, "m", 7)).groups[0].error, StaleMemberEpoch)
    assert isinstance(host.ask(offset_fetch("g", None, "x", 1)).groups[0].error, UnknownMemberId)


def test_offsets_of_topics_that_are_read_are_kept(host: ConsumerHost) -> None:
    client = member(host).beat()
    commit(host, client.epoch)
    message = offset_delete("g", [TopicPartition("t", 0)])
    assert errors_in(message, host.ask(message))[TopicPartition("t", 0)] is not None
    client.topics, client.has_new_topics = ["u"], True
    client.beat()
    assert errors_in(message, host.ask(message)) == {TopicPartition("t", 0): None}


def test_an_empty_group_expires_with_its_offsets(host: ConsumerHost) -> None:
    client = Client(host, "m", [], regex="t").beat()
    commit(host, client.epoch)
    client.leave()
    host.restart()
    host.advance(8 * 24 * 60 * 60 * 1000)
    assert host.coordinator._groups == {}
    host.restart()
    assert host.coordinator._groups == {}


def test_a_group_is_listed_described_and_deleted(host: ConsumerHost) -> None:
    clients = [member(host, "a", "t", "u"), Client(host, "b", ["t"], regex="u", instance_id="i")]
    settle(clients)
    assert host.listed(types_filter=["consumer"]) == [("g", "consumer", "Stable", "consumer")]
    (group,) = host.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    assert (group.group_state, group.assignor_name) == ("Stable", "uniform")
    assert group.group_epoch == group.assignment_epoch == 2
    second = group.members[1]
    assert (second.member_id, second.instance_id, second.client_host, second.member_epoch) == ("b", "i", "/h", 2)
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["t"], "u")
    assert second.assignment == second.target_assignment
    assert slots([(one.topic_id, one.partitions) for one in second.assignment.topic_partitions]) == clients[1].owned
    assert host.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error is not None
    for client in clients:
        client.leave()
    assert host.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0].group_state == "Empty"
    host.append_record(consumer_record(PARTITION_METADATA, "g", "", None)._replace(value=b"\x00\x00\x01\x00"))
    assert host.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error is None
    assert host.coordinator._groups == {}


def test_a_deadline_of_a_group_that_is_gone_does_nothing(host: ConsumerHost) -> None:
    client = member(host).beat()
    client.leave()
    assert host.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error is None
    host.advance(SESSION_MS)
    assert host.log[-1].record == consumer_record(EPOCH, "g", "", None)  # type: ignore[union-attr]


def test_a_member_of_which_the_log_has_only_the_subscription_has_nothing(host: ConsumerHost) -> None:
    """A log may have lost the rest: the member is fenced like any other, or joins anew."""
    client = member(host).beat()
    host.append_record(consumer_record(CURRENT, "g", "m", None))
    assert host.group().described({}).members[0].assignment.topic_partitions == []
    assert Current() == host.group().current("m", None)
    assert client.error is None


# --- records ---------------------------------------------------------------------------------------------------------


def test_a_damaged_record_is_refused(host: ConsumerHost) -> None:
    record = consumer_record(CURRENT, "g", "m", Current(1, 0, MemberState.STABLE, {(UUID(int=1), 0): 1}))
    assert record.value is not None
    with pytest.raises(CorruptBatch, match="its version takes two"):
        host.coordinator.replay(record._replace(value=b"\0"))
    with pytest.raises(CorruptBatch, match="this is no ConsumerGroupCurrentMemberAssignmentValue"):
        host.coordinator.replay(record._replace(value=record.value[:-3]))
    with pytest.raises(UnsupportedFormat, match="has version 1"):
        host.coordinator.replay(record._replace(value=b"\0\1" + record.value[2:]))
    epochs, more = b"\0\5\2\0\0\0\1", b"\0\x09\3" + bytes(8)
    with pytest.raises(CorruptBatch, match=r"1 partitions of topic .* have 2 epochs"):
        host.coordinator.replay(record._replace(value=record.value.replace(epochs, more)))
    with pytest.raises(CorruptBatch, match="this is no ConsumerGroupCurrentMemberAssignmentKey"):
        host.coordinator.replay(record._replace(key=record.key[:-1]))
    assert host.coordinator._groups == {}


def test_a_state_that_is_not_known_is_read_as_that() -> None:
    record = consumer_record(CURRENT, "g", "m", Current(1, 0, MemberState.UNRELEASED))
    assert record.value is not None
    value = decode_consumer(record._replace(value=record.value[:10] + b"\x09" + record.value[11:])).value
    assert value == Current(1, 0, MemberState.UNKNOWN)


def test_of_two_owners_in_a_log_the_later_one_counts() -> None:
    host, slot = ConsumerHost(), (UUID(int=1), 0)
    for name, held in (("m", {slot: 1}), ("n", {slot: 1}), ("m", {})):
        host.coordinator.replay(consumer_record(CURRENT, "g", name, Current(1, 0, MemberState.STABLE, held)))
    assert host.group().owners == {slot: "n"}
