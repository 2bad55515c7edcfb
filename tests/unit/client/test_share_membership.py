"""A member of a share group, a share session, and acknowledgements, as machines."""

import uuid
from typing import Any

import pytest

from pylog.client.share_consumer.acknowledgements import Acknowledgements, batches
from pylog.client.share_consumer.membership import INTERVAL_MS, ShareMembership
from pylog.client.share_consumer.session import LeaderSession
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    NetworkError,
    NotCoordinator,
    PylogError,
    ShareSessionNotFound,
)
from pylog.protocol.messages.share import ACCEPT, GAP, REJECT, RENEW, SharedPartition, ShareGroupHeartbeatResponse
from pylog.record import TopicPartition

T = uuid.UUID(int=7)
T0, T1 = SharedPartition.of(T, 0), SharedPartition.of(T, 1)
RETRY_MS = 100


def machine() -> ShareMembership:
    made = ShareMembership("g", "", RETRY_MS, 0)
    made.subscribe(frozenset({"t"}))
    return made


def answer(epoch: int, *partitions: int, **values: Any) -> ShareGroupHeartbeatResponse:
    told = ShareGroupHeartbeatResponse.Assignment
    topics = [told.TopicPartitions(topic_id=T, partitions=[*partitions])] if partitions else []
    assignment = None if not partitions and epoch > 2 else told(topic_partitions=topics)
    return ShareGroupHeartbeatResponse(
        member_epoch=epoch, heartbeat_interval_ms=1000, assignment=assignment, **values
    )  # fmt: skip


def joined(now_ms: int = 0) -> ShareMembership:
    made = machine()
    first = made.message(now_ms, polls=True)
    made.answered(first, answer(2), now_ms)
    second = made.message(now_ms, polls=True)
    made.answered(second, answer(3, 0, 1), now_ms)
    return made


def test_a_poll_joins_and_heartbeats_follow() -> None:
    made = machine()
    assert made.message(0, polls=False) is None and made.due_ms is None
    first = made.message(0, polls=True)
    assert first is not None
    assert (first.member_epoch, first.subscribed_topic_names, first.max_wait_ms) == (0, ["t"], INTERVAL_MS)
    assert made.message(1, polls=True) is None
    made.answered(first, answer(2), 10)
    # The answer was news: the next one waits at the coordinator.
    second = made.message(10, polls=False)
    assert second is not None and (second.member_epoch, second.subscribed_topic_names) == (2, None)
    made.answered(second, answer(3, 0, 1), 20)
    assert (made.assigned, made.due_ms) == ({T: [0, 1]}, 20)


def test_a_coordinator_that_keeps_nothing_back_is_not_pressed() -> None:
    made = joined(100)
    made.answered(made.message(100, polls=False), answer(3), 110)
    assert made.message(1099, polls=True) is None and made.due_ms == 1100
    assert made.message(1100, polls=False) is not None


def test_a_member_without_partitions_asks_again_soon_and_ever_less_often() -> None:
    made = machine()
    made.answered(made.message(0, polls=True), answer(3), 0)
    beats, now_ms = [], 0
    while now_ms < 4000:
        message = made.message(now_ms, polls=False)
        if message is not None:
            beats.append(now_ms)
            made.answered(message, answer(3), now_ms)
        now_ms += 100
    assert beats == [0, 100, 300, 700, 1500, 2500, 3500]
    made.answered(made.message(4500, polls=False), answer(4, 0), 4500)
    made.answered(made.message(4500, polls=False), answer(4), 4500)
    assert made.due_ms == 5500


def test_other_topics_overtake_a_heartbeat_that_waits() -> None:
    made = joined()
    plain = made.message(0, polls=False)
    made.subscribe(frozenset({"u"}))
    full = made.message(1, polls=True)
    assert full is not None and full.subscribed_topic_names == ["u"]
    made.answered(plain, answer(4, 7), 2)
    assert made.assigned == {T: [0, 1]}
    made.answered(full, answer(4, 5), 3)
    assert made.assigned == {T: [5]}
    made.say_again()
    assert made.message(3, polls=True) is not None


@pytest.mark.parametrize(("error", "joins", "fails"), [
    (FencedMemberEpoch("no"), True, False),
    (NotCoordinator("elsewhere"), False, False),
    (GroupMaxSizeReached("full"), False, True),
])  # fmt: skip
def test_errors_of_heartbeats(error: PylogError, joins: bool, fails: bool) -> None:
    made = joined()
    made.answered(made.message(0, polls=False), error, 50)
    assert (made.epoch == 0, made.failure is error) == (joins, fails)
    assert made.message(149, polls=True) is None
    again = made.message(150, polls=True)
    assert again is not None and again.subscribed_topic_names == ["t"]


def test_an_answer_that_never_comes_is_given_up() -> None:
    made = joined()
    made.message(0, polls=False)
    due = made.due_ms
    assert due is not None and made.message(due - 1, polls=False) is None
    again = made.message(due, polls=False)
    assert again is not None and again.subscribed_topic_names == ["t"]


def test_a_member_leaves_once() -> None:
    made = joined()
    gone = made.leave()
    assert gone is not None and gone.member_epoch == -1
    assert made.leave() is None and made.message(9, polls=True) is None and made.assigned == {}


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_says_what_has_changed() -> None:
    session = LeaderSession(ShareConsumerConfig(group_id="g"), "m")
    first = session.fetch({T0, T1}, {}, 5)
    assert first.share_session_epoch == 0 and len(first.topics[0].partitions) == 2
    session.answered(None)
    again = session.fetch({T0, T1}, {}, 5)
    assert (again.share_session_epoch, again.topics, again.forgotten_topics_data) == (1, [], [])
    session.answered(InvalidRequest("no"))
    less = session.fetch({T1}, {T1: {4: ACCEPT}}, 5)
    assert less.share_session_epoch == 2 and less.forgotten_topics_data[0].partitions == [0]
    (part,) = less.topics[0].partitions
    assert (part.partition_index, part.acknowledgement_batches) == (1, batches({4: ACCEPT}))


@pytest.mark.parametrize("error", [ShareSessionNotFound("gone"), NetworkError("cut"), CoordinatorNotAvailable("soon")])
def test_a_session_begins_again_after_its_end(error: PylogError) -> None:
    session = LeaderSession(ShareConsumerConfig(group_id="g"), "m")
    session.fetch({T0}, {}, 5)
    session.answered(None)
    session.acknowledge({T0: {1: ACCEPT}})
    session.answered(error)
    assert session.is_new is not isinstance(error, CoordinatorNotAvailable)


def test_a_session_ends() -> None:
    session = LeaderSession(ShareConsumerConfig(group_id="g"), "m")
    session.fetch({T0}, {}, 5)
    session.answered(None)
    assert session.acknowledge({}, is_final=True).share_session_epoch == -1
    session.answered(None)
    assert session.is_new and not session.partitions


# --- acknowledgements -------------------------------------------------------------------------------------------------


def test_runs_of_offsets_of_one_type_are_one_batch() -> None:
    found = batches({5: ACCEPT, 3: ACCEPT, 4: ACCEPT, 6: REJECT, 9: REJECT, 10: GAP})
    assert [(one.first_offset, one.last_offset, one.acknowledge_types) for one in found] == [
        (3, 5, [ACCEPT]), (6, 6, [REJECT]), (9, 9, [REJECT]), (10, 10, [GAP]),
    ]  # fmt: skip


def test_a_decision_takes_the_place_of_a_renewal() -> None:
    kept = Acknowledgements(is_implicit=True)
    for offset in (0, 1):
        kept.give(("t", 0), 1, T0, [offset])
        kept.acknowledge(("t", 0, offset), "renew")
    kept.acknowledge(("t", 0, 0), "reject")
    kept.add(1, T0, {0: REJECT})
    assert kept.take(1, renews=True) == {T0: {1: RENEW}}
    kept.settle()
    assert kept.take(1) == {T0: {0: REJECT, 1: ACCEPT}}
    kept.answered({T0: {0: REJECT, 1: ACCEPT}}, {T0: None})
    assert kept.take_results() == {TopicPartition("t", 0): ({0, 1}, None)} and kept.take_results() == {}
