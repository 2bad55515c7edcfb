"""Which batch goes, what number it bears, what an answer means: every case, by hand."""

from typing import Any

import pytest

from pylog import errors
from pylog.client.in_flight import EPOCH_MAX, InFlight, may_pass
from pylog.client.in_flight_batch import NOBODY, BatchOutcome, InFlightBatch, ProducerEpoch
from pylog.record import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ME = ProducerEpoch(7, 0)
GAP = errors.OutOfOrderSequence("another one comes next")
MOVED = errors.NotLeaderOrFollower("moved")
NONE_YET = errors.LeaderNotAvailable("wait")
REFUSED = errors.InvalidRecord("no")
LARGE = errors.RecordTooLarge("no")
DEADLINE = 1000


def made(**settings: Any) -> InFlight:
    dispatch = InFlight(**{"idempotent": True, "backoff_ms": 10, "backoff_max_ms": 25, **settings})
    if dispatch.idempotent:
        dispatch.identify(ME)
    return dispatch


def sent(dispatch: InFlight, *counts: int, key: TopicPartition = A) -> list[InFlightBatch]:
    """Batches of so many records, on their way."""
    shipments = []
    for count in counts:
        assert dispatch.may_take(key)
        shipment = InFlightBatch(key, count, DEADLINE)
        dispatch.take(shipment)
        dispatch.number(shipment, lambda one: one.load)
        shipments.append(shipment)
    return shipments


def begun(dispatch: InFlight, *counts: int, key: TopicPartition = A) -> list[InFlightBatch]:
    """The same, behind one of a single record that was delivered."""
    (first,) = sent(dispatch, 1, key=key)
    assert dispatch.answered(first, None, 0) is BatchOutcome.DELIVERED
    return sent(dispatch, *counts, key=key)


def numbers(*shipments: InFlightBatch) -> list[tuple[int, int]]:
    return [(shipment.producer.epoch, shipment.sequence) for shipment in shipments]


def failed(dispatch: InFlight) -> list[tuple[InFlightBatch, type[BaseException]]]:
    return [(shipment, type(shipment.error)) for shipment in dispatch.failed()]


# --- who numbers ------------------------------------------------------------------------------------------------------


def test_nothing_goes_before_there_is_a_producer_id() -> None:
    dispatch = InFlight(idempotent=True)
    assert dispatch.lacks_id and not dispatch.may_take(A)
    assert dispatch.ask_id(0) and not dispatch.lacks_id and not dispatch.ask_id(0)
    dispatch.identify(ME)
    assert numbers(*sent(dispatch, 3)) == [(0, 0)]


def test_a_producer_id_is_asked_for_again_after_a_while() -> None:
    dispatch = InFlight(idempotent=True, backoff_ms=10, backoff_max_ms=25)
    assert dispatch.due_ms is None
    for tick, wait in ((0, 10), (10, 20), (30, 25)):
        assert dispatch.ask_id(tick)
        assert dispatch.due_ms is None
        assert dispatch.id_refused(NONE_YET, tick)
        assert dispatch.due_ms == tick + wait and not dispatch.ask_id(tick + wait - 1) and dispatch.lacks_id
    assert dispatch.ask_id(55) and not dispatch.id_refused(errors.ClusterAuthorization("no"), 55)


def test_without_idempotence_nothing_is_numbered() -> None:
    dispatch = made(idempotent=False)
    assert not dispatch.lacks_id
    first, second = sent(dispatch, 3, 4)
    assert (first.producer, first.sequence, second.sequence) == (NOBODY, -1, -1)
    assert dispatch.answered(first, REFUSED, 0) is BatchOutcome.FAILED
    assert dispatch.answered(second, None, 0) is BatchOutcome.DELIVERED
    assert failed(dispatch) == [(first, errors.InvalidRecord)] and dispatch.may_take(A)


def test_out_of_order_is_no_passing_error_where_nothing_is_numbered() -> None:
    dispatch = made(idempotent=False)
    (only,) = sent(dispatch, 1)
    assert dispatch.answered(only, GAP, 0) is BatchOutcome.FAILED


# --- order ------------------------------------------------------------------------------------------------------------


def test_numbers_follow_one_another_and_wrap() -> None:
    dispatch = made()
    assert numbers(*begun(dispatch, 3, 4)) == [(0, 1), (0, 4)]
    dispatch._lanes[B] = lane = type(dispatch._lanes[A])()
    lane.begin(ME)
    lane.next = lane.acked = 2**31 - 2
    first, second = sent(dispatch, 3, 1, key=B)
    assert (first.sequence, second.sequence) == (2**31 - 2, 1)


def test_the_first_of_a_lane_goes_alone_and_then_so_many_as_may() -> None:
    dispatch = made(in_flight_max=2)
    (first,) = sent(dispatch, 1)
    assert not dispatch.may_take(A) and dispatch.may_take(B)
    dispatch.answered(first, None, 0)
    second, third = sent(dispatch, 1, 1)
    assert not dispatch.may_take(A)
    dispatch.answered(third, None, 0)
    assert dispatch.may_take(A)
    dispatch.answered(second, None, 0)
    assert dispatch.may_take(A) and dispatch.due(0) == []


def test_a_batch_sent_again_keeps_its_place_in_order() -> None:
    dispatch = made()
    first, second, third = begun(dispatch, 2, 3, 4)
    assert dispatch.answered(second, MOVED, 0) is BatchOutcome.AGAIN
    assert not dispatch.may_take(A), "it would overtake"
    assert dispatch.next_again(A, 10**6) is None, "there are others in flight"
    dispatch.answered(first, None, 0)
    assert dispatch.answered(third, GAP, 0) is BatchOutcome.AGAIN
    assert dispatch.next_again(A, 9) is None and dispatch.due(9) == [] and dispatch.due_ms == 10
    assert dispatch.due(10) == [A]
    assert dispatch.next_again(A, 10) is second and dispatch.next_again(A, 10) is None
    dispatch.answered(second, None, 10)
    assert dispatch.next_again(A, 10) is third
    dispatch.answered(third, None, 10)
    assert dispatch.may_take(A) and numbers(second, third) == [(0, 3), (0, 6)]


def test_a_late_batch_is_numbered_with_those_before_it() -> None:
    dispatch = made()
    begun(dispatch)
    closed: list[int] = []
    late = [InFlightBatch(A, count, DEADLINE) for count in (2, 3, 4)]
    for shipment in late:
        dispatch.take(shipment)

    def close(shipment: InFlightBatch) -> int:
        closed.append(shipment.load)
        return int(shipment.load)

    dispatch.number(late[1], close)
    dispatch.number(late[1], close)
    assert closed == [2, 3] and [one.sequence for one in late] == [1, 3, -1]


def test_a_batch_that_has_failed_is_not_numbered_any_more() -> None:
    dispatch = made()
    late = InFlightBatch(A, 1, DEADLINE)
    dispatch.take(late)
    dispatch.expire(DEADLINE)
    assert failed(dispatch) == [(late, errors.RequestTimedOut)]
    with pytest.raises(errors.RequestTimedOut, match="whether the node has it is not known"):
        dispatch.number(late, lambda _: 1)
    assert not dispatch.may_take(A), "it is still in flight"
    assert dispatch.answered(late, errors.RequestTimedOut(""), DEADLINE) is BatchOutcome.LATE
    assert dispatch.may_take(A) and dispatch.producer == ME, "no number was lost"


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (MOVED, True), (errors.NetworkError(""), True), (REFUSED, False), (errors.PartitionFull(""), False),
        (errors.DiskFull(""), False), (ZeroDivisionError(), False),
    ],
)  # fmt: skip
def test_a_retriable_error_sends_a_batch_again_and_another_fails_it(error: BaseException, passes: bool) -> None:
    assert may_pass(error) is passes
    dispatch = made()
    (only,) = sent(dispatch, 1)
    assert dispatch.answered(only, error, 0) is (BatchOutcome.AGAIN if passes else BatchOutcome.FAILED)


def test_retries_come_to_an_end() -> None:
    dispatch = made(retries=2)
    (only,) = sent(dispatch, 1)
    for tick in (0, 100):
        assert dispatch.answered(only, MOVED, tick) is BatchOutcome.AGAIN
        assert dispatch.next_again(A, tick + 50) is only
    assert dispatch.answered(only, MOVED, 200) is BatchOutcome.FAILED
    assert failed(dispatch) == [(only, errors.NotLeaderOrFollower)]


def test_waits_grow_up_to_a_bound() -> None:
    dispatch = made()
    assert [dispatch.backoff_ms(attempts) for attempts in (1, 2, 3, 10_000)] == [10, 20, 25, 25]


def test_a_batch_is_sent_again_only_in_time_and_where_it_helps() -> None:
    dispatch = made()
    (only,) = sent(dispatch, 1)
    dispatch.hurry()
    assert dispatch.answered(only, MOVED, 0) is BatchOutcome.FAILED
    dispatch = made()
    (only,) = sent(dispatch, 1)
    assert dispatch.answered(only, MOVED, DEADLINE) is BatchOutcome.FAILED
    dispatch = made()
    (only,) = sent(dispatch, 1)
    assert dispatch.answered(only, errors.UnknownTopicOrPartition(""), 0, final=True) is BatchOutcome.FAILED


def test_a_number_seen_before_is_delivered() -> None:
    dispatch = made()
    (only,) = sent(dispatch, 1)
    assert dispatch.answered(only, errors.DuplicateSequence(""), 0) is BatchOutcome.DELIVERED


# --- gaps -------------------------------------------------------------------------------------------------------------


def test_after_a_failure_the_lane_begins_anew_when_nothing_is_in_flight() -> None:
    dispatch = made()
    first, second = begun(dispatch, 2, 3)
    assert dispatch.answered(first, REFUSED, 0) is BatchOutcome.FAILED
    assert not dispatch.may_take(A) and dispatch.producer == ME
    assert dispatch.answered(second, GAP, 0) is BatchOutcome.AGAIN
    assert dispatch.producer == ProducerEpoch(7, 1) and numbers(second) == [(1, 0)]
    assert dispatch.next_again(A, 10) is second
    dispatch.answered(second, None, 10)
    assert numbers(*sent(dispatch, 1)) == [(1, 3)]


def test_partitions_keep_their_epoch_while_a_batch_is_unanswered() -> None:
    """KAFKA-12152."""
    dispatch = made()
    (idle, other) = begun(dispatch, 1, key=B) + sent(dispatch, 1, key=B)
    (first,) = begun(dispatch, 2)
    dispatch.answered(first, REFUSED, 0)
    assert dispatch.producer == ProducerEpoch(7, 1)
    assert not dispatch.may_take(B)
    dispatch.answered(idle, MOVED, 0)
    dispatch.answered(other, GAP, 0)
    assert dispatch.next_again(B, 10) is idle and numbers(idle, other) == [(0, 1), (0, 2)]
    dispatch.answered(idle, None, 10)
    assert dispatch.next_again(B, 10) is other
    dispatch.answered(other, None, 10)
    assert numbers(*sent(dispatch, 5, key=B)) == [(1, 0)]


def test_two_lanes_with_gaps_raise_the_epoch_once_each_and_no_further() -> None:
    dispatch = made()
    (first,), (second,) = begun(dispatch, 1), begun(dispatch, 1, key=B)
    dispatch.answered(first, REFUSED, 0)
    dispatch.answered(second, REFUSED, 0)
    assert dispatch.producer == ProducerEpoch(7, 1)
    assert numbers(*sent(dispatch, 1), *sent(dispatch, 1, key=B)) == [(1, 0), (1, 0)]


def test_a_gap_is_none_if_a_batch_behind_it_was_taken() -> None:
    dispatch = made()
    first, second = begun(dispatch, 2, 3)
    dispatch.expire(DEADLINE)
    assert failed(dispatch) == [(first, errors.RequestTimedOut), (second, errors.RequestTimedOut)]
    assert dispatch.answered(second, None, DEADLINE) is BatchOutcome.LATE
    assert dispatch.answered(first, MOVED, DEADLINE) is BatchOutcome.LATE
    assert dispatch.producer == ME and dispatch.may_take(A)


def test_a_batch_that_the_node_may_have_is_tried_before_the_lane_begins_anew() -> None:
    dispatch = made()
    first, second = begun(dispatch, 2, 3)
    assert dispatch.answered(second, MOVED, 0) is BatchOutcome.AGAIN
    dispatch.answered(first, errors.UnknownServer(""), 0)
    assert dispatch.producer == ME
    assert dispatch.next_again(A, 10) is second and numbers(second) == [(0, 3)]
    dispatch.answered(second, None, 10)
    assert dispatch.producer == ME and dispatch.may_take(A)


def test_a_batch_that_the_node_may_have_is_never_numbered_again() -> None:
    dispatch = made()
    first, second, third = begun(dispatch, 2, 3, 4)
    dispatch.answered(second, MOVED, 0)
    dispatch.answered(third, GAP, 0)
    dispatch.answered(first, REFUSED, 0)
    assert dispatch.next_again(A, 10) is second
    assert dispatch.answered(second, GAP, 10) is BatchOutcome.AGAIN
    assert failed(dispatch) == [(first, errors.InvalidRecord), (second, errors.OutOfOrderSequence)]
    assert numbers(third) == [(1, 0)] and dispatch.next_again(A, 100) is third


def test_an_unsealed_batch_is_numbered_when_it_is_sealed() -> None:
    dispatch = made()
    (first,) = begun(dispatch, 2)
    late = InFlightBatch(A, 3, DEADLINE)
    dispatch.take(late)
    dispatch.answered(late, NONE_YET, 0)
    dispatch.answered(first, REFUSED, 0)
    assert dispatch.next_again(A, 10) is late and late.sequence == -1
    dispatch.number(late, lambda one: one.load)
    assert numbers(late) == [(1, 0)]


@pytest.mark.parametrize("error", [GAP, errors.UnknownProducerId("")])
def test_a_node_that_has_forgotten_the_producer_gets_it_anew(error: BaseException) -> None:
    dispatch = made()
    (only,) = begun(dispatch, 2)
    assert dispatch.answered(only, error, 0) is BatchOutcome.AGAIN
    assert numbers(only) == [(1, 0)]


def test_epochs_run_out_and_another_producer_goes_on() -> None:
    dispatch = made()
    dispatch.identify(ProducerEpoch(7, EPOCH_MAX))
    first, second = begun(dispatch, 2, 3)
    dispatch.answered(first, REFUSED, 0)
    dispatch.answered(second, GAP, 0)
    assert dispatch.producer is None and dispatch.lacks_id and dispatch.next_again(A, 100) is None
    assert dispatch.due_ms == DEADLINE
    assert dispatch.ask_id(0)
    dispatch.identify(ProducerEpoch(8, 0))
    assert (second.producer, second.sequence) == (ProducerEpoch(8, 0), 0)
    assert dispatch.next_again(A, 100) is second


# --- transactions -----------------------------------------------------------------------------------------------------


def test_a_coordinator_gives_the_id_and_the_epochs() -> None:
    dispatch = InFlight(idempotent=True, transactional=True)
    assert not dispatch.lacks_id and not dispatch.may_take(A)
    dispatch.identify(ME)
    first, second = begun(dispatch, 2, 3)
    assert dispatch.answered(second, GAP, 0) is BatchOutcome.AGAIN, "it may be the first that was late"
    assert dispatch.answered(first, GAP, 0) is BatchOutcome.FAILED
    assert dispatch.producer == ME and not dispatch.may_take(A)
    dispatch.give_up(errors.TransactionAborted(""), in_flight=False)
    assert failed(dispatch) == [(first, errors.OutOfOrderSequence), (second, errors.TransactionAborted)]
    assert not dispatch.may_take(A)
    dispatch.identify(ProducerEpoch(7, 1))
    assert numbers(*sent(dispatch, 1)) == [(1, 0)]


# --- splitting --------------------------------------------------------------------------------------------------------


def test_a_batch_too_large_is_sent_in_parts_with_the_same_numbers() -> None:
    dispatch = made()
    large, behind = begun(dispatch, 5, 1)
    assert dispatch.answered(behind, GAP, 0) is BatchOutcome.AGAIN
    assert dispatch.answered(large, LARGE, 0) is BatchOutcome.SPLIT
    assert dispatch.next_again(A, 100) is None, "it is being split"
    dispatch.split(large, 2, ("front", "back"))
    front = dispatch.next_again(A, 100)
    assert front is not None and (front.load, front.count, front.sequence) == ("front", 2, 1)
    dispatch.answered(front, None, 100)
    back = dispatch.next_again(A, 100)
    assert back is not None and (back.load, back.count, back.sequence) == ("back", 3, 3)
    dispatch.answered(back, None, 100)
    assert dispatch.next_again(A, 100) is behind and numbers(behind) == [(0, 6)]
    assert dispatch.failed() == []


def test_a_batch_that_failed_meanwhile_is_not_split() -> None:
    dispatch = made(idempotent=False)
    (large,) = sent(dispatch, 5)
    assert dispatch.answered(large, LARGE, 0) is BatchOutcome.SPLIT
    dispatch.expire(DEADLINE)
    dispatch.split(large, 2, ("front", "back"))
    assert failed(dispatch) == [(large, errors.RequestTimedOut)] and dispatch.may_take(A)


def test_parts_are_numbered_only_where_batches_are_and_one_record_is_not_split() -> None:
    dispatch = made(idempotent=False)
    (large,) = sent(dispatch, 2)
    dispatch.answered(large, LARGE, 0)
    dispatch.split(large, 1, ("front", "back"))
    front = dispatch.next_again(A, 0)
    assert front is not None and front.sequence == -1
    assert dispatch.answered(front, LARGE, 0) is BatchOutcome.FAILED


# --- time, and the end ------------------------------------------------------------------------------------------------


def test_a_batch_that_waited_too_long_fails_also_in_flight() -> None:
    dispatch = made()
    first, second = begun(dispatch, 1, 1)
    assert dispatch.due_ms == DEADLINE
    dispatch.expire(DEADLINE - 1)
    assert dispatch.failed() == []
    dispatch.answered(first, NONE_YET, 0)
    dispatch.expire(DEADLINE)
    assert [str(one.error).split("; ")[1].split(".")[0] for one in dispatch.failed()] == [
        "it waited to be sent", "whether the node has it is not known"
    ]  # fmt: skip
    assert dispatch.due_ms is None and not dispatch.may_take(A)
    dispatch.answered(second, GAP, DEADLINE)
    assert dispatch.producer == ProducerEpoch(7, 1) and dispatch.may_take(A)


def test_the_earliest_deadline_is_waited_for() -> None:
    dispatch = made()
    for deadline, key in ((500, A), (300, B), (400, TopicPartition("t", 2))):
        dispatch.take(InFlightBatch(key, None, deadline))
    assert dispatch.due_ms == 300
    dispatch.expire(300)
    assert [one.key for one in dispatch.failed()] == [B] and dispatch.due_ms == 400


def test_all_is_given_up_at_the_end() -> None:
    dispatch = made()
    (first,), (second,) = sent(dispatch, 1), sent(dispatch, 1, key=B)
    dispatch.answered(first, MOVED, 0)
    dispatch.give_up(errors.Closed("the end"), in_flight=True)
    assert failed(dispatch) == [(first, errors.Closed), (second, errors.Closed)]
    assert dispatch.answered(second, None, 0) is BatchOutcome.LATE
