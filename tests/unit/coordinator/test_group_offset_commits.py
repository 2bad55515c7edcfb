"""Offsets: who may commit them, what a fetch shows, what is deleted and what expires; and groups as a whole."""

from typing import Any
from uuid import UUID

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.effects import LogRecord, Stamp, TopicInfo
from pylog.coordinator.group.coordinator import TOMBSTONES_AT_ONCE, GroupCoordinator
from pylog.coordinator.group.records import (
    Committed,
    OffsetChange,
    StoredGroup,
    StoredMember,
    decode,
    group_record,
    offset_record,
)
from pylog.errors import (
    CoordinatorNotAvailable,
    CorruptBatch,
    DiskFull,
    FencedInstanceId,
    GroupIdNotFound,
    GroupNotEmpty,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidRequest,
    NotCoordinator,
    NotEnoughReplicas,
    OffsetMetadataTooLarge,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
    UnstableOffsetCommit,
    UnsupportedFormat,
)
from pylog.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupResponse,
    ListGroupsRequest,
)
from pylog.protocol.schema import message as schema
from pylog.record import TopicPartition
from support.group_host import Ended, GroupHost, Logged
from support.messages import (
    Offset,
    commit_errors,
    errors_in,
    fetched,
    group_heartbeat,
    join_group,
    leave_group,
    leaving,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)

AT = TopicPartition("t", 0)
OTHER = TopicPartition("u", 1)
STAMP = Stamp(7, 0)
DAY_MS = 86_400_000
READS_T = bytes(2) + schema("ConsumerProtocolSubscription").encode(0, {"topics": ["t"], "userData": None})


class Offsets:
    """Group "g" and its offsets, as a test asks for them."""

    def __init__(self, **config: Any) -> None:
        self.host = GroupHost(NodeConfig(**config))

    def deleted(self, *keys: TopicPartition) -> dict[TopicPartition, PylogError | None]:
        message = offset_delete("g", keys)
        return errors_in(message, self.host.ask(message))

    def commit(self, offset: int, at: TopicPartition = AT, group: str = "g", **said: Any) -> PylogError | None:
        parts = [Offset(*at, offset)]
        error: PylogError | None = commit_errors(self.host.ask(offset_commit(group, parts, **said)))[at]
        return error

    def stage(self, offset: int, at: TopicPartition = AT, **said: Any) -> PylogError | None:
        parts = [Offset(*at, offset)]
        error: PylogError | None = commit_errors(self.host.ask(txn_offset_commit("x", "g", *STAMP, parts, **said)))[at]
        return error

    def fetched(self, at: TopicPartition = AT, *, stable: bool = False) -> tuple[int, PylogError | None]:
        (part,) = fetched(self.host.ask(offset_fetch("g", [at], require_stable=stable)))
        return part.offset, part.error

    def all(self) -> dict[TopicPartition, int]:
        return {TopicPartition(p.topic, p.partition): p.offset for p in fetched(self.host.ask(offset_fetch("g")))}

    def join(self, metadata: bytes = READS_T, protocol_type: str = "consumer", **said: Any) -> JoinGroupResponse:
        message = join_group("g", protocol_type=protocol_type, protocols=[("range", metadata)], **said)
        joined: JoinGroupResponse = self.host.ask(message)
        assert joined.error is None
        return joined

    def member(self, metadata: bytes = READS_T, protocol_type: str = "consumer", **said: Any) -> JoinGroupResponse:
        """The one member of a Stable group."""
        joined = self.join(metadata, protocol_type, **said)
        instance = said.get("group_instance_id")
        assert self.host.ask(sync_group("g", joined.generation_id, joined.member_id, instance)).error is None
        return joined

    def leave(self, joined: JoinGroupResponse) -> None:
        self.host.ask(leave_group("g", [leaving(joined.member_id)]))


def said_by(joined: JoinGroupResponse) -> dict[str, Any]:
    return {"generation_id": joined.generation_id, "member_id": joined.member_id}


# --- commit ----------------------------------------------------------------------------------------------------------


def test_any_client_commits_for_a_group_without_members() -> None:
    offsets = Offsets()
    assert offsets.commit(5) is None
    assert offsets.fetched() == (5, None)
    assert offsets.host.listed() == [("g", "", "Empty", "classic")]


def test_an_offset_is_logged_with_the_id_of_its_topic_where_there_is_one() -> None:
    offsets = Offsets()
    offsets.commit(5)
    offsets.commit(6, TopicPartition("unknown", 0))
    offsets.stage(7)
    logged = [entry.record for entry in offsets.host.log if isinstance(entry, Logged)]
    changes = [decode(record) for record in logged]
    ids = [change.committed.topic_id.int for change in changes if isinstance(change, OffsetChange) and change.committed]
    assert ids == [offsets.host.topics.topics["t"].id.int, 0, 0]
    assert isinstance(UUID(int=ids[0]), UUID)


def test_leader_epoch_and_metadata_come_back() -> None:
    host = GroupHost()
    host.ask(offset_commit("g", [Offset("t", 0, 5, 3, "where I was")]))
    (part,) = fetched(host.ask(offset_fetch("g", [AT])))
    assert (part.leader_epoch, part.metadata) == (3, "where I was")


def test_only_members_commit_in_their_generation() -> None:
    offsets = Offsets()
    joined = offsets.member(group_instance_id="i")
    me = {**said_by(joined), "group_instance_id": "i"}
    assert offsets.commit(5, **me) is None
    for change, error in (
        ({"generation_id": 9}, IllegalGeneration),
        ({"member_id": "x", "group_instance_id": None}, UnknownMemberId),
        ({"member_id": "x"}, FencedInstanceId),
        ({"generation_id": -1, "member_id": "", "group_instance_id": None}, UnknownMemberId),
        ({"generation_id": -1}, IllegalGeneration),
    ):
        assert isinstance(offsets.commit(6, **{**me, **change}), error)
    assert offsets.fetched() == (5, None)


def test_a_member_of_a_group_that_is_not_there_has_to_join() -> None:
    offsets = Offsets()
    assert isinstance(offsets.commit(5, generation_id=1, member_id="m"), GroupIdNotFound)
    assert isinstance(offsets.stage(5, generation_id=1, member_id="m"), IllegalGeneration)


def test_a_member_that_has_to_join_again_may_still_commit() -> None:
    offsets = Offsets()
    joined = offsets.member()
    offsets.host.send(join_group("g", protocols=[("range", READS_T)]))
    assert offsets.commit(5, **said_by(joined)) is None


def test_no_member_commits_between_a_join_and_its_assignment() -> None:
    offsets = Offsets()
    joined = offsets.join()
    assert isinstance(offsets.commit(5, **said_by(joined)), RebalanceInProgress)
    assert offsets.stage(5, **said_by(joined)) is None


def test_commits_keep_a_session_alive() -> None:
    offsets = Offsets()
    joined = offsets.member(session_timeout_ms=10_000)
    for offset in range(5):
        offsets.host.advance(9_999)
        assert offsets.commit(offset, **said_by(joined)) is None


def test_offsets_that_do_not_fit_are_refused_and_the_rest_committed() -> None:
    host = GroupHost(NodeConfig(offset_metadata_max_bytes=3))
    parts = [
        Offset("t", 0, 1, metadata="😀😀"),
        Offset("t", 1, 2, metadata="😀"),
        Offset("t", 2**31, 3),
        Offset("t", 3, 4, metadata="\ud800"),
    ]
    errors = commit_errors(host.ask(offset_commit("g", parts)))
    kinds = [type(errors[TopicPartition("t", n)]) for n in (0, 1, 2**31, 3)]
    assert kinds == [OffsetMetadataTooLarge, type(None), InvalidRequest, InvalidRequest]
    assert len(host.log) == 1


def test_a_commit_without_a_valid_offset_makes_no_group() -> None:
    host = GroupHost(NodeConfig(offset_metadata_max_bytes=0))
    host.ask(offset_commit("g", [Offset("t", 0, 1, metadata="x")]))
    assert host.ask(ListGroupsRequest()).groups == []


def test_a_commit_that_cannot_be_logged_fails_and_changes_nothing() -> None:
    offsets = Offsets()
    offsets.host.failures = [NotEnoughReplicas("few"), InvalidProducerEpoch("old"), DiskFull("full")]
    assert isinstance(offsets.commit(5), CoordinatorNotAvailable)
    assert isinstance(offsets.stage(5), InvalidProducerEpoch)
    assert isinstance(offsets.stage(5), NotCoordinator)
    assert offsets.host.log == []


# --- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("committed", "offset"), [(True, 9), (False, 5)])
def test_an_offset_in_a_transaction_counts_from_the_marker_on(committed: bool, offset: int) -> None:
    offsets = Offsets()
    offsets.commit(5)
    assert offsets.stage(9) is None
    assert offsets.fetched() == (5, None)
    unstable = offsets.fetched(stable=True)[1]
    assert isinstance(unstable, UnstableOffsetCommit)
    assert offsets.fetched(OTHER, stable=True) == (-1, None)
    offsets.host.end(STAMP, committed=committed)
    assert offsets.fetched(stable=True) == (offset, None)


def test_staged_and_plain_offsets_resolve_alike_live_and_replayed() -> None:
    offsets = Offsets()
    offsets.stage(9)
    offsets.commit(5)
    offsets.host.restart()
    offsets.host.end(STAMP, committed=True)
    assert offsets.fetched() == (5, None)
    offsets.host.restart()
    assert offsets.fetched() == (5, None)
    assert isinstance(offsets.host.log[-1], Ended)


def test_a_producer_that_is_no_member_commits_in_a_transaction() -> None:
    offsets = Offsets()
    joined = offsets.member()
    assert offsets.stage(1) is None
    assert isinstance(offsets.stage(1, generation_id=4, member_id=joined.member_id), IllegalGeneration)
    assert isinstance(offsets.stage(1, generation_id=1, member_id="x"), UnknownMemberId)


# --- fetch -----------------------------------------------------------------------------------------------------------


def test_a_fetch_shows_only_committed_offsets() -> None:
    offsets = Offsets()
    assert offsets.all() == {}
    assert offsets.fetched() == (-1, None)
    offsets.commit(1)
    offsets.commit(2, OTHER)
    assert offsets.all() == {AT: 1, OTHER: 2}
    assert offsets.fetched(TopicPartition("t", 1)) == (-1, None)


def test_a_fetch_tells_what_is_safe_and_waits_for_nothing() -> None:
    offsets = Offsets()
    offsets.commit(3)
    offsets.host.sync_always = False
    committed = offsets.host.send(offset_commit("g", [Offset(*AT, 5)]))
    deleted = offsets.host.send(offset_delete("g", [AT]))
    assert (offsets.all(), offsets.fetched()) == ({AT: 3}, (3, None))
    assert not {committed, deleted} & offsets.host.answers.keys()
    offsets.host.sync()
    assert (offsets.all(), offsets.fetched()) == ({}, (-1, None))


# --- delete ----------------------------------------------------------------------------------------------------------


def test_offsets_are_deleted_where_no_member_reads_the_topic() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.commit(2, OTHER)
    offsets.member()
    errors = offsets.deleted(AT, OTHER, TopicPartition("u", 7))
    assert isinstance(errors[AT], GroupSubscribedToTopic)
    assert (errors[OTHER], errors[TopicPartition("u", 7)]) == (None, None)
    assert offsets.all() == {AT: 1}
    assert offsets.deleted(OTHER) == {OTHER: None}


def test_pending_offsets_are_deleted_too() -> None:
    offsets = Offsets()
    offsets.stage(1)
    assert offsets.deleted(AT) == {AT: None}
    offsets.host.end(STAMP, committed=True)
    assert offsets.all() == {}


def test_a_deletion_that_cannot_be_logged_or_makes_no_sense_is_refused() -> None:
    offsets = Offsets()
    assert isinstance(offsets.host.ask(offset_delete("g", [AT])).error, GroupIdNotFound)
    assert isinstance(offsets.host.ask(offset_delete("", [AT])).error, InvalidGroupId)
    nameless = commit_errors(offsets.host.ask(txn_offset_commit("x", "", *STAMP, [Offset(*AT, 1)])))
    assert isinstance(nameless[AT], InvalidGroupId)
    offsets.commit(1)
    offsets.host.failures = [DiskFull("full")]
    assert isinstance(offsets.deleted(AT)[AT], NotCoordinator)
    offsets.member(b"", "connect")
    assert isinstance(offsets.host.ask(offset_delete("g", [AT])).error, GroupNotEmpty)


def test_consumers_whose_subscription_cannot_be_read_are_taken_to_read_all() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.member(b"\xff")
    assert isinstance(offsets.deleted(AT)[AT], GroupSubscribedToTopic)


# --- expiry ----------------------------------------------------------------------------------------------------------


def expired(offsets: Offsets, days: float) -> bool:
    """Whether the offset is gone when so many days have gone by without a word."""
    offsets.host.advance(int(days * DAY_MS))
    return AT not in offsets.all()


def test_a_group_that_never_had_members_expires_after_its_commits() -> None:
    offsets = Offsets()
    offsets.commit(1)
    assert not expired(offsets, 6.9)
    assert expired(offsets, 0.2)
    assert offsets.host.ask(ListGroupsRequest()).groups == []


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty() -> None:
    offsets = Offsets()
    joined = offsets.member()
    offsets.commit(1, **said_by(joined))
    for _ in range(20):
        offsets.host.advance(DAY_MS // 2)
        joined = offsets.member() if offsets.host.ask(group_heartbeat("g", 1, joined.member_id)).error else joined
    offsets.leave(joined)
    assert not expired(offsets, 6.9)
    offsets.host.restart()
    assert expired(offsets, 0.2)


def test_an_empty_group_of_unknown_age_expires_after_its_commits() -> None:
    offsets = Offsets()
    offsets.leave(offsets.member())
    offsets.commit(1)
    group: Any = offsets.host.coordinator._groups["g"]
    group.state_ms = None
    assert expired(offsets, 7.1)


def busy(offsets: Offsets, joined: JoinGroupResponse, days: int) -> None:
    """A member beats on while days go by."""
    for _ in range(days * 24 * 3):
        offsets.host.advance(DAY_MS // 72)
        assert offsets.host.ask(group_heartbeat("g", joined.generation_id, joined.member_id)).error is None


@pytest.mark.parametrize(
    ("metadata", "protocol_type", "left"),
    [(READS_T, "consumer", [AT]), (b"\xff", "consumer", [AT, OTHER]), (b"", "connect", [AT, OTHER])],
)
def test_an_active_group_keeps_offsets_of_its_topics(
    metadata: bytes, protocol_type: str, left: list[TopicPartition]
) -> None:
    offsets = Offsets(offsets_retention_check_interval_ms=DAY_MS)
    offsets.commit(1)
    offsets.commit(2, OTHER)
    joined = offsets.member(metadata, protocol_type, session_timeout_ms=1_800_000)
    busy(offsets, joined, 9)
    assert list(offsets.all()) == left


def test_nothing_expires_while_a_group_rebalances() -> None:
    offsets = Offsets(offsets_retention_check_interval_ms=1000, offsets_retention_minutes=1)
    offsets.commit(1, OTHER)
    joined = offsets.member(rebalance_timeout_ms=10**9, session_timeout_ms=1_800_000)
    ticket = offsets.host.send(join_group("g", protocols=[("range", READS_T)], rebalance_timeout_ms=10**9))
    offsets.host.advance(200_000)
    assert offsets.all() == {OTHER: 1}
    assert ticket not in offsets.host.answers
    assert isinstance(offsets.host.ask(group_heartbeat("g", 1, joined.member_id)).error, RebalanceInProgress)


def test_an_offset_of_an_open_transaction_does_not_expire() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.stage(2)
    offsets.commit(3, OTHER)
    assert not expired(offsets, 8)
    assert OTHER not in offsets.all()
    offsets.host.end(STAMP, committed=False)
    assert expired(offsets, 1)


def test_a_group_with_nothing_but_a_pending_offset_is_kept() -> None:
    offsets = Offsets()
    offsets.stage(2)
    offsets.host.advance(8 * DAY_MS)
    offsets.host.end(STAMP, committed=True)
    assert offsets.all() == {AT: 2}


def test_a_time_of_expiry_that_a_client_gave_is_kept_to() -> None:
    offsets = Offsets()
    soon = offsets.host.now.wall + 3_600_000
    record = offset_record("g", AT, Committed(1, -1, "", offsets.host.now.wall, expire_ms=soon))
    offsets.host.log.append(Logged(record, None))
    offsets.host.restart()
    assert not expired(offsets, 0.02)
    assert expired(offsets, 0.04)


@pytest.mark.parametrize("is_given", [False, True])
def test_an_offset_expires_when_its_time_is_over_and_not_before(is_given: bool) -> None:
    offsets = Offsets(offsets_retention_check_interval_ms=1, offsets_retention_minutes=1)
    now = offsets.host.now.wall
    committed = Committed(1, -1, "", now, expire_ms=now + 60_000) if is_given else Committed(1, -1, "", now)
    offsets.host.log.append(Logged(offset_record("g", AT, committed), None))
    offsets.host.restart()
    offsets.host.pass_time(59_999)
    offsets.host.tick()
    assert AT in offsets.all()
    offsets.host.pass_time(1)
    offsets.host.tick()
    assert AT not in offsets.all()


def test_many_offsets_expire_in_batches_that_let_others_get_a_turn() -> None:
    offsets = Offsets()
    groups = TOMBSTONES_AT_ONCE // 10 + 1
    for number in range(groups):
        parts = [Offset("t", partition, 1) for partition in range(20)]
        offsets.host.ask(offset_commit(f"g{number}", parts))
    offsets.host.coordinator.take_over(offsets.host.now)
    before = len(offsets.host.log)
    offsets.host.pass_time(8 * DAY_MS)
    offsets.host.tick()
    assert TOMBSTONES_AT_ONCE <= len(offsets.host.log) - before < TOMBSTONES_AT_ONCE + 30
    assert offsets.host.coordinator.due_ms == offsets.host.now.tick
    offsets.host.ask(DeleteGroupsRequest(groups_names=[f"g{number}" for number in range(groups)]))
    offsets.host.tick()
    offsets.host.tick()
    assert offsets.host.ask(ListGroupsRequest()).groups == []


# --- deleted topics --------------------------------------------------------------------------------------------------


def deleted(offsets: Offsets, name: str) -> TopicInfo:
    """There is no such topic any more, and the coordinator has not heard of it."""
    topics = dict(offsets.host.topics.topics)
    info = topics.pop(name)
    offsets.host.topics.topics = topics
    return info


def heard(offsets: Offsets, name: str, info: TopicInfo) -> None:
    """The coordinator hears of it."""
    host = offsets.host
    host.carry_out(host.coordinator.topic_deleted(name, info.id, host.now))
    host.check()


def made_anew(offsets: Offsets, name: str) -> None:
    """There is another one of its name."""
    offsets.host.topics.topics = {**offsets.host.topics.topics, name: TopicInfo(UUID(int=99), 8)}


def test_offsets_of_a_deleted_topic_are_deleted_committed_or_pending() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.commit(2, OTHER)
    offsets.stage(3, TopicPartition("t", 1))
    info = deleted(offsets, "t")
    assert offsets.all() == {OTHER: 2}, "it is not shown, whatever is heard"
    heard(offsets, "t", info)
    made_anew(offsets, "t")
    offsets.host.end(STAMP, committed=True)
    assert offsets.all() == {OTHER: 2}
    offsets.host.restart()
    assert offsets.all() == {OTHER: 2}


def test_an_old_offset_does_not_count_for_a_topic_made_anew() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.commit(2, OTHER)
    deleted(offsets, "t")
    made_anew(offsets, "t")
    assert offsets.all() == {OTHER: 2}
    assert offsets.fetched() == (-1, None)


def test_offsets_of_a_topic_made_anew_are_kept() -> None:
    offsets = Offsets()
    offsets.stage(1, TopicPartition("t", 1))
    offsets.commit(1, TopicPartition("t", 2))
    info = deleted(offsets, "t")
    heard(offsets, "t", info)
    made_anew(offsets, "t")
    offsets.stage(2)
    offsets.host.end(STAMP, committed=True)
    assert offsets.all() == {AT: 2}


def test_offsets_of_a_deleted_topic_are_deleted_when_that_can_be_logged() -> None:
    offsets = Offsets()
    offsets.commit(1)
    topics = offsets.host.topics.topics
    info = deleted(offsets, "t")
    offsets.host.failures = [DiskFull("full")]
    heard(offsets, "t", info)
    offsets.host.topics.topics = topics
    assert offsets.all() == {AT: 1}
    offsets.host.advance(1000)
    assert offsets.all() == {}


def test_a_deleted_topic_takes_no_offsets_of_another_one() -> None:
    offsets = Offsets()
    offsets.commit(1)
    heard(offsets, "u", deleted(offsets, "u"))
    assert offsets.all() == {AT: 1}
    assert offsets.host.coordinator.due_ms is None or offsets.host.coordinator.due_ms > offsets.host.now.tick


# --- groups as a whole -----------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type_whatever_the_letters() -> None:
    offsets = Offsets()
    offsets.commit(1, group="empty")
    offsets.member()
    every = [("empty", "", "Empty", "classic"), ("g", "consumer", "Stable", "classic")]
    assert sorted(offsets.host.listed()) == every
    assert offsets.host.listed(states_filter=["STABLE"]) == every[1:]
    assert sorted(offsets.host.listed(types_filter=["Classic"])) == every
    assert offsets.host.listed(types_filter=["consumer"]) == []


def test_a_stable_group_is_described_with_its_members_metadata() -> None:
    offsets = Offsets()
    joined = offsets.join()
    (before,) = offsets.host.ask(DescribeGroupsRequest(groups=["g"])).groups
    assert (before.group_state, before.protocol_data, before.members[0].member_metadata) == (
        "CompletingRebalance",
        "",
        b"",
    )
    offsets.host.ask(sync_group("g", 1, joined.member_id, assignments=[(joined.member_id, b"a")]))
    stable, dead = offsets.host.ask(DescribeGroupsRequest(groups=["g", "x"])).groups
    assert (stable.group_state, stable.protocol_data, stable.generation) == ("Stable", "range", 1)
    (member,) = stable.members
    assert (member.client_id, member.client_host) == ("c", "/h")
    assert (member.member_metadata, member.member_assignment) == (READS_T, b"a")
    assert (dead.group_state, type(dead.error)) == ("Dead", GroupIdNotFound)


def test_empty_groups_are_deleted_with_their_offsets() -> None:
    offsets = Offsets()
    offsets.member()
    offsets.commit(1, group="a")
    results = offsets.host.ask(DeleteGroupsRequest(groups_names=["a", "g", "x", "a"])).results
    assert [type(one.error) for one in results] == [type(None), GroupNotEmpty, GroupIdNotFound, type(None)]
    assert [group.group_id for group in offsets.host.ask(ListGroupsRequest()).groups] == ["g"]
    assert [type(one.error) for one in offsets.host.ask(DeleteGroupsRequest(groups_names=["a"])).results] == [
        GroupIdNotFound
    ]


def test_a_group_that_is_deleted_with_a_transaction_open_stays_deleted() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.stage(2, OTHER)
    assert offsets.host.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error is None
    offsets.host.end(STAMP, committed=True)
    assert offsets.all() == {}


def test_groups_that_cannot_be_deleted_are_still_there() -> None:
    offsets = Offsets()
    offsets.commit(1)
    offsets.host.failures = [DiskFull("full")]
    results = offsets.host.ask(DeleteGroupsRequest(groups_names=["g", "x"])).results
    assert [type(one.error) for one in results] == [NotCoordinator, GroupIdNotFound]
    assert offsets.fetched() == (1, None)


def test_an_id_that_was_given_in_a_deleted_group_is_unknown() -> None:
    offsets = Offsets()
    given = offsets.host.ask(join_group("g", protocols=[("range", b"")], requires_known_member_id=True))
    offsets.host.ask(DeleteGroupsRequest(groups_names=["g"]))
    offsets.host.advance(100_000)
    answer = offsets.host.ask(join_group("g", given.member_id, protocols=[("range", b"")]))
    assert isinstance(answer.error, UnknownMemberId)


# --- the machine -----------------------------------------------------------------------------------------------------


def test_records_that_are_not_known_are_named() -> None:
    offsets = Offsets()
    coordinator = offsets.host.coordinator
    with pytest.raises(UnsupportedFormat, match="type 77"):
        coordinator.replay(LogRecord(b"\0\115", None))
    with pytest.raises(CorruptBatch):
        coordinator.replay(LogRecord(b"", None))
    coordinator.replay(LogRecord(b"\0\2\0\1x", None))
    assert offsets.host.ask(ListGroupsRequest()).groups == []


@pytest.mark.parametrize("change", [{"member_id": "a"}, {"group_instance_id": "i"}])
def test_a_group_that_has_a_member_twice_is_refused(change: dict[str, str]) -> None:
    first = StoredMember("a", "i", "c", "h", 1, 1, b"", b"")
    second = first._replace(**{"member_id": "b", "group_instance_id": "j", **change})  # type: ignore[arg-type]
    host = GroupHost()
    with pytest.raises(CorruptBatch, match="twice"):
        host.coordinator.replay(group_record("g", StoredGroup("p", 1, "q", "a", 0, (first, second))))
    assert host.ask(ListGroupsRequest()).groups == []


def test_a_message_for_another_coordinator_is_refused() -> None:
    host = GroupHost()
    with pytest.raises(TypeError, match="str"):
        host.send("hello")


def test_a_member_id_is_the_client_id_and_a_unique_part() -> None:
    host = GroupHost()
    host.fresh = lambda: GroupCoordinator(0, host.configs, host.topics, is_lost=lambda name: False)  # type: ignore[method-assign]
    host.restart()
    ids = {host.ask(join_group(f"g{n}", protocols=[("range", b"")]), client_id="me").member_id for n in range(9)}
    assert len(ids) == 9
    assert all(name.startswith("me-") and len(name) == 39 for name in ids)
