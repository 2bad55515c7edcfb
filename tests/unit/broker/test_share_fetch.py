"""ShareFetch and ShareAcknowledge on a node: sessions, waits, locks, and what is left after each end."""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.broker.share_fetch import FEW_PARTS
from pylog.broker.share_partition_host import FEW_BYTES, SharePartitionHost
from pylog.errors import (
    CorruptBatch,
    InvalidRecordState,
    InvalidRequest,
    InvalidShareSessionEpoch,
    NotLeaderOrFollower,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    UnknownServer,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages.share import RECORD_LIMIT, ShareFetchRequest
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.testing import SimClock
from support.log_copies import copy_log
from support.patience import HANG_SECONDS
from support.share_desk import ACCEPT, LOCK_MS, REJECT, RELEASE, RENEW, ShareDesk, acquired, share_desk

FINAL = -1


@pytest.fixture
def desk() -> Iterator[ShareDesk]:
    with share_desk() as made:
        made.begin()
        yield made


# --- records ----------------------------------------------------------------------------------------------------------


def test_each_record_goes_to_one_member(desk: ShareDesk) -> None:
    desk.produce(5)
    desk.produce(5)
    assert desk.fetch(0, max_records=3, share_acquire_mode=RECORD_LIMIT) == [(0, 2, 1)]
    assert desk.fetch(0, member="ben") == [(3, 9, 1)]
    assert desk.fetch(1) == []


def test_the_answer_has_the_batches_of_what_was_acquired_alone(desk: ShareDesk) -> None:
    for _ in range(5):
        desk.produce(2)
    desk.fetch(0, max_records=2)
    (topic,) = desk.fetching(0, member="ben", max_records=3).result().responses
    (part,) = topic.partitions
    assert part.records is not None
    (size,) = {desk.log.topic("t")[0].size // 5}
    assert len(part.records) == 2 * size


def test_what_is_accepted_is_over_and_what_is_released_comes_again(desk: ShareDesk) -> None:
    desk.produce(10)
    assert desk.fetch(0) == [(0, 9, 1)]
    assert desk.fetch(1, {(0, 4): ACCEPT, (5, 6): RELEASE, (7, 9): REJECT}) == [(5, 6, 2)]
    assert desk.acknowledge(2, {(5, 6): [1, 0]}) is None
    assert desk.fetch(0, member="ben") == []
    desk.produce(1)
    assert desk.fetch(1, member="ben") == [(10, 10, 1)]


def test_an_acknowledgement_is_written_down_before_it_is_answered(desk: ShareDesk) -> None:
    desk.produce(10)
    desk.fetch(0)
    assert desk.acknowledge(1, {(0, 3): ACCEPT}) is None
    assert desk.stored() == (0, 4)
    assert desk.acknowledge(2, {(4, 4): ACCEPT}) is None
    assert desk.stored() == (4, 1)


def test_records_of_another_member_and_records_that_nobody_has_are_refused(desk: ShareDesk) -> None:
    desk.produce(10)
    desk.fetch(0)
    desk.fetch(0, member="ben")
    assert isinstance(desk.acknowledge(1, {(0, 4): ACCEPT}, member="ben"), InvalidRecordState)
    assert isinstance(desk.acknowledge(1, {(5, 10): ACCEPT}), InvalidRequest)
    with pytest.raises(InvalidRecordState):
        desk.fetch(2, {(0, 1): ACCEPT}, member="ben")
    assert desk.acknowledge(2, {(0, 9): ACCEPT}) is None


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({(5, 4): ACCEPT}, InvalidRequest),
        ({(0, 4): [1, 1]}, InvalidRequest),
        ({(0, 4): []}, InvalidRequest),
        ({(0, 4): [5]}, InvalidRequest),
        ({(0, 4): [-1]}, InvalidRequest),
        ({(0, 4): RENEW}, InvalidRequest),
        ({(3, 4): ACCEPT, (0, 1): ACCEPT}, InvalidRequest),
        ({(0, 4): ACCEPT, (4, 6): ACCEPT}, InvalidRecordState),
    ],
)
def test_acknowledgements_that_cannot_be_meant_change_nothing(
    desk: ShareDesk, said: dict[tuple[int, int], list[int]], error: type[Exception]
) -> None:
    desk.produce(10)
    desk.fetch(0)
    assert isinstance(desk.acknowledge(1, said), error)
    assert desk.acknowledge(2, {(0, 9): ACCEPT}) is None


def test_partitions_take_turns() -> None:
    with share_desk(partitions=2) as desk:
        desk.begin(partitions=(0, 1))
        for partition in (0, 1):
            desk.produce(4, partition)
        first = desk.fetching(0, partitions=(0, 1), max_records=2, share_acquire_mode=RECORD_LIMIT).result()
        second = desk.fetching(1, partitions=(), max_records=2, share_acquire_mode=RECORD_LIMIT).result()
        assert (acquired(first, 0), acquired(first, 1)) == ([(0, 1, 1)], [])
        assert (acquired(second, 0), acquired(second, 1)) == ([], [(0, 1, 1)])
        forgotten = [ShareFetchRequest.ForgottenTopic(topic_id=desk.topic_id, partitions=[1])]
        third = desk.fetching(2, partitions=(), forgotten_topics_data=forgotten).result()
        assert (acquired(third, 0), acquired(third, 1)) == ([(2, 3, 1)], [])


def test_a_batch_that_is_too_large_comes_first_or_later() -> None:
    with share_desk(partitions=2) as desk:
        desk.begin(partitions=(0, 1))
        for partition in (0, 1):
            desk.produce(4, partition)
        first = desk.fetching(0, partitions=(0, 1), max_bytes=1).result()
        assert (acquired(first, 0), acquired(first, 1)) == ([(0, 3, 1)], [])
        second = desk.fetching(1, partitions=(), max_bytes=1).result()
        assert (acquired(second, 0), acquired(second, 1)) == ([], [(0, 3, 1)])


def test_a_batch_that_does_not_fit_beside_others_waits() -> None:
    with share_desk(partitions=2) as desk:
        desk.begin(partitions=(0, 1))
        desk.produce(1)
        desk.produce(40, 1)
        size = desk.log.topic("t")[0].size
        first = desk.fetching(0, partitions=(0, 1), max_bytes=2 * size).result()
        assert (acquired(first, 0), acquired(first, 1)) == ([(0, 0, 1)], [])
        assert acquired(desk.fetching(1, partitions=(), max_bytes=2 * size).result(), 1) == [(0, 39, 1)]


def test_no_more_records_are_in_flight_than_may_be() -> None:
    with share_desk(group_share_partition_max_record_locks=100) as desk:
        desk.begin()
        for _ in range(12):
            desk.produce(10)
        assert desk.fetch(0) == [(0, 99, 1)]
        waiting = desk.fetching(1, max_wait_ms=500)
        assert not waiting.done()
        assert desk.fetch(0, member="ben") == []
        assert desk.acknowledge(2, {(50, 59): RELEASE}) is None
        assert acquired(waiting.result()) == [(50, 59, 2)]
        assert desk.acknowledge(3, {(0, 9): ACCEPT}) is None
        assert desk.fetch(1, member="ben") == [(100, 109, 1)]


# --- where a group begins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("latest", 6), ("by_duration:PT1M", 3), ("by_duration:PT0.001S", 6)]
)
def test_a_group_begins_where_its_config_says(reset: str, first: int) -> None:
    with share_desk() as desk:
        desk.log.admin.alter_group_config("g", {"share.auto.offset.reset": reset})
        desk.produce(3)
        desk.clock.advance(100_000)
        desk.produce(3)
        desk.clock.advance(10_000)
        desk.begin(start=-1)
        desk.fetch(0)
        desk.produce(1)
        assert desk.fetch(1) == ([(6, 6, 1)] if first == 0 or first == 3 else [(first, 6, 1)])
        assert desk.fetch(FINAL) == []
        assert desk.fetch(0)[0][0] == first


def test_a_group_of_which_nothing_is_written_down_reads_nothing() -> None:
    with share_desk() as desk:
        with pytest.raises(UnknownServer, match="uninitialized"):
            desk.fetch(0)
        desk.begin()
        desk.produce(1)
        assert desk.fetch(1) == [(0, 0, 1)]


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_a_record(desk: ShareDesk) -> None:
    waiting = desk.fetching(0, max_wait_ms=500)
    assert not waiting.done()
    desk.produce(1)
    assert acquired(waiting.result()) == [(0, 0, 1)]


def test_a_fetch_waits_no_longer_than_it_says(desk: ShareDesk) -> None:
    waiting = desk.fetching(0, max_wait_ms=500)
    desk.pass_time(499)
    assert not waiting.done()
    desk.pass_time(1)
    assert acquired(waiting.result()) == []


def test_a_fetch_waits_for_bytes_enough(desk: ShareDesk) -> None:
    waiting = desk.fetching(0, max_wait_ms=500, min_bytes=150)
    desk.produce(1)
    assert not waiting.done()
    desk.produce(1)
    desk.produce(1)
    assert acquired(waiting.result()) == [(0, 2, 1)]


def test_a_fetch_that_was_abandoned_takes_nothing(desk: ShareDesk) -> None:
    waiting = desk.fetching(0, max_wait_ms=500)
    waiting.abandon()
    desk.produce(1)
    assert not waiting.done()
    assert desk.fetch(1) == [(0, 0, 1)]


def test_who_waits_gets_what_another_member_releases(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.fetch(0)
    waiting = desk.fetching(0, member="ben", max_wait_ms=500)
    desk.acknowledge(1, {(0, 1): ACCEPT, (2, 2): RELEASE})
    assert acquired(waiting.result()) == [(2, 2, 2)]


def test_a_record_that_comes_just_before_the_wait_is_not_missed(
    desk: ShareDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory = desk.broker._purgatory
    park, late = purgatory.park, [1]

    def parked(*waiting: Any) -> bool:
        if late:
            desk.produce(late.pop())
        return park(*waiting)

    monkeypatch.setattr(purgatory, "park", parked)
    assert acquired(desk.fetching(0, max_wait_ms=500).result()) == [(0, 0, 1)]


def test_a_client_that_leaves_just_before_the_wait_takes_nothing(
    desk: ShareDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory = desk.broker._purgatory
    park = purgatory.park

    def parked(waiting: Any, *more: Any) -> bool:
        waiting.abandon()
        return park(waiting, *more)

    monkeypatch.setattr(purgatory, "park", parked)
    waiting = desk.fetching(0, max_wait_ms=500)
    desk.produce(1)
    assert not waiting.done()


def test_a_fetch_whose_session_ends_is_answered_and_takes_nothing(desk: ShareDesk) -> None:
    desk.fetch(0, member="ben")
    waiting = desk.fetching(0, max_wait_ms=500)
    desk.fetch(FINAL)
    assert acquired(waiting.result(0)) == []
    desk.produce(1)
    assert desk.fetch(1, member="ben") == [(0, 0, 1)]


def test_a_fetch_whose_session_ends_while_it_takes_records_holds_nothing(
    desk: ShareDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.fetch(0, member="ben")
    waiting = desk.fetching(0, max_wait_ms=500)
    acquire, endings = SharePartitionHost.acquire, [FINAL]

    def acquired_late(*asked: Any, **how: Any) -> Any:
        portion = acquire(*asked, **how)
        while endings:
            desk.fetch(endings.pop())
        return portion

    monkeypatch.setattr(SharePartitionHost, "acquire", acquired_late)
    desk.produce(1)
    assert waiting.done()
    assert desk.fetch(1, member="ben") == [(0, 0, 2)]


def test_a_fetch_whose_session_ends_just_before_the_wait_is_answered(
    desk: ShareDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory, endings = desk.broker._purgatory, [FINAL]
    park = purgatory.park

    def parked(*waiting: Any) -> bool:
        is_parked = park(*waiting)
        while endings:
            desk.broker._share_fetches.sessions.end(desk.broker._share_fetches.sessions.of_group("g")[0])
            endings.pop()
        return is_parked

    monkeypatch.setattr(purgatory, "park", parked)
    assert acquired(desk.fetching(0, max_wait_ms=500).result(0)) == []


def test_groups_and_partitions_do_not_touch_each_other() -> None:
    with share_desk(partitions=2) as desk:
        desk.begin(partitions=(0, 1))
        desk.begin(group="h")
        desk.produce(2)
        desk.produce(2, 1)
        desk.fetch(0, partitions=(0, 1))
        assert desk.fetch(0, group="h", member="ben") == [(0, 1, 1)]
        desk.broker.apply(
            pylog.Follow(topic="t", topic_id=desk.topic_id, partition=1, partitions=2, leader=9, leader_epoch=7)
        )
        assert desk.acknowledge(1, {(0, 1): ACCEPT}) is None
        assert desk.fetch(FINAL, partitions=()) == []
        assert desk.fetch(0) == []
        assert desk.fetch(1, group="h", member="ben") == []


def test_a_fetch_that_waits_is_answered_when_the_log_is_closed() -> None:
    with share_desk() as desk:
        desk.begin()
        waiting = desk.fetching(0, max_wait_ms=500)
    assert acquired(waiting.result()) == []


# --- locks ------------------------------------------------------------------------------------------------------------


def test_what_a_member_holds_too_long_goes_to_another_one(desk: ShareDesk) -> None:
    desk.produce(2)
    answer = desk.fetching(0).result()
    assert answer.acquisition_lock_timeout_ms == LOCK_MS
    waiting = desk.fetching(0, member="ben", max_wait_ms=LOCK_MS + 1)
    desk.pass_time(LOCK_MS - 1)
    assert not waiting.done()
    desk.pass_time(1)
    assert acquired(waiting.result()) == [(0, 1, 2)]
    assert isinstance(desk.acknowledge(1, {(0, 1): ACCEPT}), InvalidRecordState)
    assert desk.acknowledge(1, {(0, 1): ACCEPT}, member="ben") is None


def test_a_lock_that_is_renewed_begins_again(desk: ShareDesk) -> None:
    desk.produce(2)
    desk.fetch(0)
    desk.pass_time(LOCK_MS - 1)
    assert desk.acknowledge(1, {(0, 0): RENEW}, is_renew=True) is None
    desk.pass_time(LOCK_MS - 1)
    assert desk.fetch(0, member="ben") == [(1, 1, 2)]
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
    assert desk.fetch(2, {(0, 0): RENEW}, is_renew_ack=True, **nothing) == []
    desk.pass_time(LOCK_MS - 1)
    assert desk.acknowledge(3, {(0, 0): ACCEPT}) is None


def test_locks_are_not_renewed_where_the_group_does_not_allow_it(desk: ShareDesk) -> None:
    desk.log.admin.alter_group_config("g", {"share.renew.acknowledge.enable": "false"})
    desk.produce(1)
    desk.fetch(0)
    assert isinstance(desk.acknowledge(1, {(0, 0): RENEW}, is_renew=True), InvalidRecordState)
    with pytest.raises(InvalidRequest):
        desk.fetch(2, {(0, 0): RENEW}, is_renew_ack=True)


def test_a_record_is_given_up_after_so_many_deliveries(desk: ShareDesk) -> None:
    desk.log.admin.alter_group_config(
        "g", {"share.delivery.count.limit": "2", "share.record.lock.duration.ms": "15000"}
    )
    desk.produce(1)
    assert desk.fetch(0) == [(0, 0, 1)]
    desk.pass_time(15_000)
    assert desk.fetch(1) == [(0, 0, 2)]
    desk.produce(1)
    assert desk.fetch(2, {(0, 0): RELEASE}) == [(1, 1, 1)]
    assert desk.stored()[1] == 1


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_requests_of_a_session_follow_each_other(desk: ShareDesk) -> None:
    with pytest.raises(ShareSessionNotFound):
        desk.fetch(1)
    desk.fetch(0)
    with pytest.raises(InvalidShareSessionEpoch):
        desk.fetch(2)
    assert isinstance(desk.acknowledge(0, {(0, 0): ACCEPT}), InvalidShareSessionEpoch)
    assert isinstance(desk.acknowledge(5, {(0, 0): ACCEPT}), InvalidShareSessionEpoch)
    with pytest.raises(InvalidRequest, match="first request"):
        desk.fetch(0, {(0, 0): ACCEPT})
    desk.fetch(0)
    desk.fetch(1)
    desk.fetch(FINAL)
    with pytest.raises(ShareSessionNotFound):
        desk.fetch(FINAL)
    assert isinstance(desk.acknowledge(FINAL, {(0, 0): ACCEPT}), ShareSessionNotFound)


@pytest.mark.parametrize("who", [{"group": None}, {"member": ""}, {"member": None}, {"member": "x" * 37}])
def test_a_request_of_nobody_is_refused(desk: ShareDesk, who: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        desk.fetch(0, **who)


def test_there_are_no_more_sessions_than_there_may_be() -> None:
    with share_desk(group_share_max_size=1, group_share_max_share_sessions=1) as desk:
        desk.begin()
        desk.fetch(0)
        waiting = desk.fetching(0, member="ben", max_wait_ms=300)
        assert not waiting.done()
        desk.pass_time(300)
        assert isinstance(waiting.result().error, ShareSessionLimitReached)
        desk.fetch(FINAL)
        assert desk.fetch(0, member="ben") == []


def test_sessions_have_no_more_partitions_than_they_may(desk: ShareDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.broker.share_sessions.PARTS_MAX", 2)
    desk.fetch(0)
    waiting = desk.fetching(0, member="ben", partitions=(0, 1), max_wait_ms=100)
    desk.pass_time(100)
    assert isinstance(waiting.result().error, ShareSessionLimitReached)
    assert desk.fetch(1) == []


def test_the_end_of_a_session_frees_what_is_not_acknowledged(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.fetch(0)
    waiting = desk.fetching(0, member="ben", max_wait_ms=500)
    assert desk.fetch(FINAL, {(0, 1): ACCEPT}) == []
    assert acquired(waiting.result()) == [(2, 3, 2)]


@pytest.mark.parametrize("is_first_to_begin", [True, False])
def test_a_session_that_begins_as_the_last_one_ends_keeps_what_it_gets(
    desk: ShareDesk, monkeypatch: pytest.MonkeyPatch, is_first_to_begin: bool
) -> None:
    desk.produce(3)
    assert desk.fetch(0) == [(0, 2, 1)]
    release = SharePartitionHost.release

    def release_as_another_begins(host: SharePartitionHost, member: str) -> None:
        monkeypatch.undo()
        if is_first_to_begin:
            assert desk.fetch(0, member="bob") == []
        release(host, member)
        assert desk.fetch(int(is_first_to_begin), member="bob") == [(0, 2, 2)]

    monkeypatch.setattr(SharePartitionHost, "release", release_as_another_begins)
    desk.fetch(FINAL)
    bobs = 1 + is_first_to_begin
    assert desk.acknowledge(bobs, {(0, 2): ACCEPT}, member="bob") is None
    assert desk.fetch(bobs + 1, member="bob") == []
    assert desk.stored() == (0, 3)


def test_an_acknowledgement_may_end_the_session(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.fetch(0)
    assert desk.acknowledge(FINAL, {(0, 1): ACCEPT}) is None
    assert desk.fetch(0, member="ben") == [(2, 3, 2)]


def test_what_a_client_holds_that_is_gone_is_free(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.fetch(0, connection=7)
    waiting = desk.fetching(0, member="ben", max_wait_ms=500, connection=8)
    desk.lose(9)
    assert not waiting.done()
    desk.lose(7)
    assert acquired(waiting.result()) == [(0, 3, 2)]
    with pytest.raises(ShareSessionNotFound):
        desk.fetch(1)


def test_a_request_that_comes_behind_the_end_of_its_connection_holds_nothing(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.lose(7)
    with pytest.raises(ShareSessionNotFound):
        desk.fetch(0, connection=7, max_wait_ms=500)
    assert desk.fetch(0, member="ben") == [(0, 3, 1)]


def test_few_connections_that_have_ended_are_remembered(desk: ShareDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.broker.share_fetch.LOST_MAX", 2)
    for connection in range(3):
        desk.lose(connection + 1)
    assert desk.fetch(0, connection=1) == []
    with pytest.raises(ShareSessionNotFound):
        desk.fetch(0, member="ben", connection=2)


# --- the log under it -------------------------------------------------------------------------------------------------


def test_records_that_the_log_has_lost_are_passed_over(desk: ShareDesk) -> None:
    for _ in range(3):
        desk.produce(2)
    desk.fetch(0)
    assert desk.acknowledge(1, {(0, 5): RELEASE}) is None
    desk.log.admin.delete_records({TopicPartition("t", 0): 4})
    assert desk.fetch(2) == [(4, 5, 2)]
    assert desk.acknowledge(3, {(0, 5): ACCEPT}) is None


def test_batches_that_compaction_has_removed_are_passed_over(desk: ShareDesk) -> None:
    log = desk.log
    log.admin.alter_config("t", {"cleanup.policy": "compact"})
    for keys in (b"ab", b"a", b"b", b"cd", b"a", b"c"):
        log.topic("t")[0].append([pylog.Record(b"x", bytes([key])) for key in keys])
    log.clean("t")
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        kept = [record.offset for record in consumer.poll(1000)]
    assert kept == [3, 5, 6, 7]
    assert desk.fetch(0) == [(3, 7, 1)]
    assert desk.acknowledge(1, {(3, 7): [1, 0, 1, 1, 2]}) is None
    assert desk.fetch(2) == [(7, 7, 2)]
    assert desk.acknowledge(3, {(7, 7): ACCEPT}) is None
    log.topic("t")[0].append([pylog.Record(b"x", b"e")])
    assert desk.fetch(4) == [(8, 8, 1)]


def test_aborted_records_are_for_nobody_where_the_group_reads_committed_ones() -> None:
    with share_desk() as desk:
        desk.log.admin.alter_group_config("g", {"share.isolation.level": "read_committed"})
        desk.begin()
        waiting = desk.fetching(0, max_wait_ms=500)
        with desk.log.producer(transactional_id="x") as producer:
            with suppress(KeyError), producer.transaction():
                producer.send("t", b"no")
                producer.flush()
                assert not waiting.done()
                raise KeyError
            with producer.transaction():
                producer.send("t", b"yes")
        ranges = acquired(waiting.result()) if waiting.done() else []
        epoch = 1
        while not any(first <= 2 <= last for first, last, _ in ranges):
            ranges += desk.fetch(epoch)
            epoch += 1
            assert epoch < 5, f"{ranges} have not the record that was committed"
        assert not any(first <= 0 <= last for first, last, _ in ranges)


def test_alter_isolation_level() -> None:
    """A group goes by the level that its config has now, also with what it released."""
    with share_desk() as desk, desk.log.producer(transactional_id="x") as producer:
        desk.begin()

        def abort() -> None:
            with suppress(KeyError), producer.transaction():
                producer.send("t", b"no")
                producer.flush()
                raise KeyError

        abort()
        assert desk.fetch(0) == [(0, 1, 1)]
        desk.log.admin.alter_group_config("g", {"share.isolation.level": "read_committed"})
        abort()
        assert desk.fetch(1) == [(3, 3, 1)]
        assert desk.acknowledge(2, {(0, 1): RELEASE}) is None
        assert desk.fetch(3) == [(1, 1, 2)]
        desk.log.admin.alter_group_config("g", {"share.isolation.level": "read_uncommitted"})
        abort()
        assert desk.fetch(4) == [(4, 5, 1)]


def test_who_waits_for_uncommitted_records_does_not_wait_for_the_commit(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="sync") as log, log.producer(transactional_id="x") as producer:
        log.create_topic("t")
        desk = ShareDesk(log, SimClock())
        desk.begin()
        with producer.transaction():
            producer.send("t", b"x")
            producer.flush()
            waiting = desk.fetching(0, max_wait_ms=HANG_SECONDS * 1000)
            assert acquired(waiting.result(HANG_SECONDS)) == [(0, 0, 1)]


def test_what_members_get_is_counted(desk: ShareDesk) -> None:
    desk.produce(3)
    desk.fetch(0)
    assert desk.broker._reads.counts["t"].bytes_out == desk.log.topic("t")[0].size


def test_aborted_records_among_committed_ones(desk: ShareDesk) -> None:
    desk.log.admin.alter_group_config("g", {"share.isolation.level": "read_committed"})
    with desk.log.producer(transactional_id="x") as producer:
        with suppress(KeyError), producer.transaction():
            producer.send("t", b"no")
            producer.flush()
            raise KeyError
        with producer.transaction():
            producer.send("t", b"yes")
    assert desk.fetch(0) == [(1, 3, 1)]
    assert desk.stored()[0] == 0


def test_a_group_that_begins_behind_the_end_of_the_log_waits(desk: ShareDesk) -> None:
    desk.produce(2)
    desk.begin(start=7, state_epoch=2)
    waiting = desk.fetching(0, max_wait_ms=500, min_bytes=2)
    assert not waiting.done()
    desk.produce(8)
    assert acquired(waiting.result()) == [(7, 9, 1)]


def test_a_topic_that_is_deleted_ends_what_waits_for_it(desk: ShareDesk) -> None:
    desk.produce(1)
    desk.fetch(0)
    waiting = desk.fetching(0, member="ben", max_wait_ms=500)
    desk.log.delete_topic("t")
    with pytest.raises(NotLeaderOrFollower):
        acquired(waiting.result())
    with pytest.raises(UnknownTopicId):
        desk.fetch(1)
    assert isinstance(desk.acknowledge(2, {(0, 0): ACCEPT}), UnknownTopicId)


def test_a_lead_that_is_lost_ends_what_waits_and_the_next_leader_goes_on(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.fetch(0)
    assert desk.acknowledge(1, {(0, 1): ACCEPT}) is None
    waiting = desk.fetching(0, member="ben", max_wait_ms=500)
    desk.broker.apply(
        pylog.Follow(topic="t", topic_id=desk.topic_id, partition=0, partitions=1, leader=9, leader_epoch=7)
    )
    (part,) = waiting.result().responses[0].partitions
    assert isinstance(part.error, NotLeaderOrFollower)
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (9, 7)
    (said,) = desk.acknowledging(2, {(2, 3): ACCEPT}).result().responses[0].partitions
    assert isinstance(said.error, NotLeaderOrFollower)
    assert said.current_leader.leader_id == 9
    with pytest.raises(NotLeaderOrFollower):
        desk.fetch(3)
    desk.log.lead("t")
    assert desk.fetch(4) == [(2, 3, 1)]


def test_an_acknowledgement_of_what_no_session_reads(desk: ShareDesk) -> None:
    desk.produce(1)
    desk.fetch(0, topics=[])
    assert isinstance(desk.acknowledge(1, {(0, 0): ACCEPT}), UnknownTopicOrPartition)


def test_a_fetch_of_nothing_gets_nothing(desk: ShareDesk) -> None:
    desk.produce(1)
    assert desk.fetch(0, max_records=0, max_wait_ms=500) == []
    assert desk.fetch(1, max_bytes=0, max_wait_ms=500) == []


def test_records_that_cannot_be_read_are_an_error_of_their_partition(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        desk = ShareDesk(log, SimClock())
        desk.begin()
        desk.produce(3)
        (view,) = log.topic("t")
        path = next(Path(view.path).glob("*.log"))
        with path.open("r+b") as file:
            file.seek(16)
            file.write(b"\7")
        with pytest.raises(CorruptBatch):
            desk.fetch(0, max_wait_ms=500, min_bytes=10)


def test_what_was_read_is_for_nobody_time_and_again(desk: ShareDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads on at once for a while; then the member asks again."""
    monkeypatch.setattr("pylog.broker.share_partition_host.TRIES_MAX", 2)
    desk.log.admin.alter_group_config("g", {"share.isolation.level": "read_committed"})
    with desk.log.producer(transactional_id="x") as producer:
        for _ in range(12):
            with suppress(KeyError), producer.transaction():
                producer.send("t", b"x" * (1 << 19))
                producer.flush()
                raise KeyError
        with producer.transaction():
            producer.send("t", b"yes")
    found, epoch = desk.fetch(0), 1
    while not any(first <= 24 <= last for first, last, _ in found):
        found, epoch = desk.fetch(epoch), epoch + 1
        assert epoch < 40
    (states,) = desk.log.topic("__share_group_state")
    assert states.next_offset < 10, "what is for nobody is not written down"


def test_topics_and_partitions_that_are_not_there(desk: ShareDesk) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        acquired(desk.fetching(0, partitions=(5,)).result(), 5)
    topic = ShareFetchRequest.FetchTopic
    other = topic(topic_id=uuid.UUID(int=9), partitions=[topic.FetchPartition(partition_index=0)])
    with pytest.raises(UnknownTopicId):
        desk.fetch(0, topics=[other])


# --- what is written down ---------------------------------------------------------------------------------------------


def test_a_group_that_begins_again_goes_on_from_there(desk: ShareDesk) -> None:
    desk.produce(6)
    assert desk.fetch(0) == [(0, 5, 1)]
    desk.begin(start=4, state_epoch=2)
    assert isinstance(desk.acknowledge(1, {(0, 5): ACCEPT}), NotLeaderOrFollower)
    assert desk.fetch(2) == [(4, 5, 1)]


def test_a_group_whose_state_is_changed_while_nobody_reads_goes_on_from_there(desk: ShareDesk) -> None:
    desk.produce(6)
    desk.fetch(0)
    desk.fetch(FINAL)
    desk.begin(start=5, state_epoch=2)
    assert desk.fetch(0) == [(5, 5, 1)]


def test_a_group_that_is_deleted_ends(desk: ShareDesk) -> None:
    desk.produce(2)
    desk.fetch(0)
    desk.delete()
    assert isinstance(desk.acknowledge(1, {(0, 0): ACCEPT}), UnknownServer)
    with pytest.raises(UnknownServer):
        desk.fetch(2)


def test_records_of_the_states_are_dropped_that_later_ones_replace(desk: ShareDesk) -> None:
    (states,) = desk.log.topic("__share_group_state")
    for epoch in range(5):
        desk.produce(1)
        desk.fetch(epoch, {(epoch - 1, epoch - 1): ACCEPT} if epoch else {})
    for _ in range(2):
        desk.pass_time(300_000)
    assert states.start_offset > 1
    assert desk.fetch(FINAL) == []
    assert desk.stored()[0] == 4


def test_what_was_accepted_is_over_after_a_power_cut(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log", flush="sync") as log:
        log.create_topic("t")
        desk = ShareDesk(log, SimClock())
        desk.begin()
        desk.produce(6)
        desk.fetch(0)
        assert desk.acknowledge(1, {(0, 1): ACCEPT, (3, 3): ACCEPT, (5, 5): RELEASE}) is None
        copy = copy_log(tmp_path / "log", tmp_path / "copy")
    with pylog.open(copy) as log:
        desk = ShareDesk(log, SimClock())
        assert desk.fetch(0) == [(2, 2, 1), (4, 4, 1), (5, 5, 2)]
        assert desk.stored()[0] in (0, 2)


# --- threads that may not wait for the disk ---------------------------------------------------------------------------


def quick(desk: ShareDesk, epoch: int, said: dict[tuple[int, int], list[int]] | None = None) -> Any:
    """The answer to a ShareFetch in a thread that may not wait for the disk."""
    return desk.fetching(epoch, said, max_records=1, share_acquire_mode=RECORD_LIMIT, may_block=False).result()


def test_a_share_partition_is_loaded_by_a_thread_that_may_wait(desk: ShareDesk) -> None:
    desk.produce(3)
    assert quick(desk, 0) is None
    assert desk.fetch(0, max_records=1, share_acquire_mode=RECORD_LIMIT) == [(0, 0, 1)]
    assert acquired(quick(desk, 1, {(0, 0): ACCEPT})) == [(1, 1, 1)]
    assert desk.stored() == (0, 1)


def test_much_is_read_by_a_thread_that_may_wait(desk: ShareDesk) -> None:
    desk.produce(3)
    desk.fetch(0, max_records=1, share_acquire_mode=RECORD_LIMIT)
    assert desk.fetching(1, max_records=10_000, may_block=False).result() is None
    assert acquired(desk.fetching(1, max_records=100, may_block=False).result()) == [(1, 2, 1)]


def test_a_session_of_many_partitions_is_for_a_thread_that_may_wait() -> None:
    with share_desk(partitions=FEW_PARTS + 1) as desk:
        parts = range(FEW_PARTS + 1)
        desk.begin(partitions=parts)
        desk.fetch(0, partitions=parts)
        assert quick(desk, 1) is None


def test_a_session_is_ended_by_a_thread_that_may_wait(desk: ShareDesk) -> None:
    desk.produce(3)
    desk.fetch(0, max_records=1, share_acquire_mode=RECORD_LIMIT)
    assert quick(desk, FINAL, {(0, 0): ACCEPT}) is None
    assert acquired(quick(desk, 1, {(0, 0): ACCEPT})) == [(1, 1, 1)]


def test_what_is_synced_is_written_by_a_thread_that_may_wait() -> None:
    with share_desk(flush="sync") as desk:
        desk.begin()
        desk.produce(3)
        desk.fetch(0, max_records=1, share_acquire_mode=RECORD_LIMIT)
        assert acquired(quick(desk, 1)) == [(1, 1, 1)]
        assert quick(desk, 2, {(0, 1): ACCEPT}) is None
        assert desk.stored() == (0, 0)
        assert desk.fetch(2, {(0, 1): ACCEPT}) == [(2, 2, 1)]
        assert desk.acknowledging(3, {(2, 2): ACCEPT}, may_block=False).result() is None
        assert desk.acknowledge(3, {(2, 2): ACCEPT}) is None


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_batch_that_is_acquired_little_by_little_is_read_once(
    desk: ShareDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = counted_reads(monkeypatch)
    desk.produce(20)
    for epoch in range(10):
        said = {(epoch - 1, epoch - 1): ACCEPT} if epoch else {}
        assert desk.fetch(epoch, said, max_records=1, share_acquire_mode=RECORD_LIMIT) == [(epoch, epoch, 1)]
    assert desk.fetch(10, {(9, 9): RELEASE}, max_records=1, share_acquire_mode=RECORD_LIMIT) == [(9, 9, 2)]
    assert len(reads) == 1


def test_what_was_read_before_is_not_given_once_it_is_deleted(desk: ShareDesk) -> None:
    desk.produce(20)
    assert desk.fetch(0, max_records=1, share_acquire_mode=RECORD_LIMIT) == [(0, 0, 1)]
    desk.log.admin.delete_records({TopicPartition("t", 0): 5})
    assert desk.fetch(1, max_records=1, share_acquire_mode=RECORD_LIMIT) == [(5, 5, 1)]


def test_few_bytes_are_read_for_few_records(desk: ShareDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = counted_reads(monkeypatch)
    for _ in range(1000):
        desk.produce(1)
    assert desk.fetch(0, max_records=1, share_acquire_mode=RECORD_LIMIT) == [(0, 0, 1)]
    assert desk.fetch(1) == [(1, 500, 1)]
    assert [size for size in reads if size < 1 << 20] == [FEW_BYTES, 500 * 2 * (size_of_one(desk) + 1)]


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a share partition asks for."""
    reads: list[int] = []
    fetch = Leader.fetch

    def counted(leader: Leader, asked: Any, **how: Any) -> Any:
        reads.append(asked.max_bytes)
        return fetch(leader, asked, **how)

    monkeypatch.setattr(Leader, "fetch", counted)
    return reads


def size_of_one(desk: ShareDesk) -> int:
    """The bytes of a batch of one record."""
    return desk.log.topic("t")[0].size // 1000
