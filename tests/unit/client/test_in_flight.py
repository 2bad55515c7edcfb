"""Which batch goes, what number it bears, what an answer means: every case, by hand."""

from typing import Any

import pytest

from pylog import errors
from pylog.client.in_flight import EPOCH_MAX, InFlight, may_pass
from pylog.client.in_flight_batch import NO_PRODUCER, BatchOutcome, InFlightBatch, ProducerEpoch
from pylog.record import TopicPartition
from pylog.runtime.future import Future

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ME = ProducerEpoch(7, 0)
GAP = errors.OutOfOrderSequence("another one comes next")
MOVED = errors.NotLeaderOrFollower("moved")
NONE_YET = errors.LeaderNotAvailable("wait")
REFUSED = errors.InvalidRecord("no")
LARGE = errors.RecordTooLarge("no")
DEADLINE = 1000


def made(**settings: Any) -> InFlight:
    in_flight = InFlight(**{"idempotent": True, "backoff_ms": 10, "backoff_max_ms": 25, **settings})
    if in_flight.idempotent:
        in_flight.identify(ME)
    return in_flight


def sent(in_flight: InFlight, *counts: int, key: TopicPartition = A) -> list[InFlightBatch]:
    """Batches of so many records, on their way."""
    batches = []
    for count in counts:
        assert in_flight.may_take(key)
        batch = InFlightBatch(key, count, count, DEADLINE)
        in_flight.take(batch)
        batches.append(batch)
    return batches


def begun(in_flight: InFlight, *counts: int, key: TopicPartition = A) -> list[InFlightBatch]:
    """The same, behind one of a single record that was delivered."""
    (first,) = sent(in_flight, 1, key=key)
    assert in_flight.answered(first, None, 0) is BatchOutcome.DELIVERED
    return sent(in_flight, *counts, key=key)


def numbers(*batches: InFlightBatch) -> list[tuple[int, int]]:
    return [(batch.producer.epoch, batch.sequence) for batch in batches]


def failed(in_flight: InFlight) -> list[tuple[InFlightBatch, type[BaseException]]]:
    return [(batch, type(batch.error)) for batch in in_flight.failed()]


# --- who numbers ------------------------------------------------------------------------------------------------------


def test_nothing_goes_before_there_is_a_producer_id() -> None:
    in_flight = InFlight(idempotent=True)
    assert in_flight.lacks_id and not in_flight.may_take(A)
    assert in_flight.ask_id(0) and not in_flight.lacks_id and not in_flight.ask_id(0)
    in_flight.identify(ME)
    assert numbers(*sent(in_flight, 3)) == [(0, 0)]


def test_a_producer_id_is_asked_for_again_after_a_while() -> None:
    in_flight = InFlight(idempotent=True, backoff_ms=10, backoff_max_ms=25)
    assert in_flight.due_ms is None
    for tick, wait in ((0, 10), (10, 20), (30, 25)):
        assert in_flight.ask_id(tick)
        assert in_flight.due_ms is None
        assert in_flight.id_refused(NONE_YET, tick)
        assert in_flight.due_ms == tick + wait and not in_flight.ask_id(tick + wait - 1) and in_flight.lacks_id
    assert in_flight.ask_id(55) and not in_flight.id_refused(errors.ClusterAuthorization("no"), 55)


def test_without_idempotence_nothing_is_numbered() -> None:
    in_flight = made(idempotent=False)
    assert not in_flight.lacks_id
    first, second = sent(in_flight, 3, 4)
    assert (first.producer, first.sequence, second.sequence) == (NO_PRODUCER, -1, -1)
    assert in_flight.answered(first, REFUSED, 0) is BatchOutcome.FAILED
    assert in_flight.answered(second, None, 0) is BatchOutcome.DELIVERED
    assert failed(in_flight) == [(first, errors.InvalidRecord)] and in_flight.may_take(A)


def test_out_of_order_is_no_passing_error_where_nothing_is_numbered() -> None:
    in_flight = made(idempotent=False)
    (only,) = sent(in_flight, 1)
    assert in_flight.answered(only, GAP, 0) is BatchOutcome.FAILED


# --- order ------------------------------------------------------------------------------------------------------------


def test_numbers_follow_one_another_and_wrap() -> None:
    in_flight = made()
    assert numbers(*begun(in_flight, 3, 4)) == [(0, 1), (0, 4)]
    in_flight._lanes[B] = lane = type(in_flight._lanes[A])(in_flight.counts[B])
    lane.begin(ME)
    lane.next = lane.acked = 2**31 - 2
    first, second = sent(in_flight, 3, 1, key=B)
    assert (first.sequence, second.sequence) == (2**31 - 2, 1)


def test_the_first_of_a_lane_goes_alone_and_then_so_many_as_may() -> None:
    in_flight = made(in_flight_max=2)
    (first,) = sent(in_flight, 1)
    assert not in_flight.may_take(A) and in_flight.may_take(B)
    in_flight.answered(first, None, 0)
    second, third = sent(in_flight, 1, 1)
    assert not in_flight.may_take(A)
    in_flight.answered(third, None, 0)
    assert in_flight.may_take(A)
    in_flight.answered(second, None, 0)
    assert in_flight.may_take(A) and in_flight.due(0) == []


def test_what_is_sent_again_holds_up_what_is_behind_and_waits_for_what_is_before() -> None:
    in_flight = made()
    first, second, third = begun(in_flight, 2, 3, 4)
    assert in_flight.answered(second, MOVED, 0) is BatchOutcome.AGAIN
    assert not in_flight.may_take(A), "it would overtake"
    assert in_flight.next_again(A, 10**6) is None, "there are others in flight"
    in_flight.answered(first, None, 0)
    assert in_flight.answered(third, GAP, 0) is BatchOutcome.AGAIN
    assert in_flight.next_again(A, 9) is None and in_flight.due(9) == [] and in_flight.due_ms == 10
    assert in_flight.due(10) == [A]
    assert in_flight.next_again(A, 10) is second and in_flight.next_again(A, 10) is None
    in_flight.answered(second, None, 10)
    assert in_flight.next_again(A, 10) is third
    in_flight.answered(third, None, 10)
    assert in_flight.may_take(A) and numbers(second, third) == [(0, 3), (0, 6)]


def test_batches_are_numbered_in_the_order_in_which_they_are_taken() -> None:
    in_flight = made()
    begun(in_flight)
    taken = [InFlightBatch(A, count, count, DEADLINE) for count in (2, 3, 4)]
    for batch in taken:
        in_flight.take(batch)
    assert [one.sequence for one in taken] == [1, 3, 6]


def test_a_lane_is_busy_until_its_batches_are_answered() -> None:
    in_flight = made()
    assert A not in in_flight.busy and in_flight.oldest_answer(A) is None
    (only,) = sent(in_flight, 1)
    only.answer = Future()
    assert A in in_flight.busy and in_flight.oldest_answer(A) is only.answer
    in_flight.answered(only, MOVED, 0)
    assert A in in_flight.busy, "it waits to be sent again"
    assert in_flight.next_again(A, 10) is only
    in_flight.answered(only, None, 10)
    assert A not in in_flight.busy


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
    in_flight = made()
    (only,) = sent(in_flight, 1)
    assert in_flight.answered(only, error, 0) is (BatchOutcome.AGAIN if passes else BatchOutcome.FAILED)


def test_retries_come_to_an_end() -> None:
    in_flight = made(retries=2)
    (only,) = sent(in_flight, 1)
    for tick in (0, 100):
        assert in_flight.answered(only, MOVED, tick) is BatchOutcome.AGAIN
        assert in_flight.next_again(A, tick + 50) is only
    assert in_flight.answered(only, MOVED, 200) is BatchOutcome.FAILED
    assert failed(in_flight) == [(only, errors.NotLeaderOrFollower)]


def test_waits_grow_up_to_a_bound() -> None:
    in_flight = made()
    assert [in_flight.backoff_ms(attempts) for attempts in (1, 2, 3, 10_000)] == [10, 20, 25, 25]


def test_nothing_is_sent_again_in_a_hurry_or_after_its_time_or_where_it_would_not_help() -> None:
    in_flight = made()
    (only,) = sent(in_flight, 1)
    in_flight.hurry()
    assert in_flight.answered(only, MOVED, 0) is BatchOutcome.FAILED
    in_flight = made()
    (only,) = sent(in_flight, 1)
    assert in_flight.answered(only, MOVED, DEADLINE) is BatchOutcome.FAILED
    in_flight = made()
    (only,) = sent(in_flight, 1)
    assert in_flight.answered(only, errors.UnknownTopicOrPartition(""), 0, final=True) is BatchOutcome.FAILED


def test_a_number_seen_before_is_delivered() -> None:
    in_flight = made()
    (only,) = sent(in_flight, 1)
    assert in_flight.answered(only, errors.DuplicateSequence(""), 0) is BatchOutcome.DELIVERED


# --- gaps -------------------------------------------------------------------------------------------------------------


def test_after_a_failure_the_lane_begins_anew_when_nothing_is_in_flight() -> None:
    in_flight = made()
    first, second = begun(in_flight, 2, 3)
    assert in_flight.answered(first, REFUSED, 0) is BatchOutcome.FAILED
    assert not in_flight.may_take(A) and in_flight.producer == ME
    assert in_flight.answered(second, GAP, 0) is BatchOutcome.AGAIN
    assert in_flight.producer == ProducerEpoch(7, 1) and numbers(second) == [(1, 0)]
    assert in_flight.next_again(A, 10) is second
    in_flight.answered(second, None, 10)
    assert numbers(*sent(in_flight, 1)) == [(1, 3)]


def test_partitions_keep_their_epoch_while_a_batch_is_unanswered() -> None:
    """KAFKA-12152."""
    in_flight = made()
    (idle, other) = begun(in_flight, 1, key=B) + sent(in_flight, 1, key=B)
    (first,) = begun(in_flight, 2)
    in_flight.answered(first, REFUSED, 0)
    assert in_flight.producer == ProducerEpoch(7, 1)
    assert not in_flight.may_take(B)
    in_flight.answered(idle, MOVED, 0)
    in_flight.answered(other, GAP, 0)
    assert in_flight.next_again(B, 10) is idle and numbers(idle, other) == [(0, 1), (0, 2)]
    in_flight.answered(idle, None, 10)
    assert in_flight.next_again(B, 10) is other
    in_flight.answered(other, None, 10)
    assert numbers(*sent(in_flight, 5, key=B)) == [(1, 0)]


def test_two_lanes_with_gaps_raise_the_epoch_once_each_and_no_further() -> None:
    in_flight = made()
    (first,), (second,) = begun(in_flight, 1), begun(in_flight, 1, key=B)
    in_flight.answered(first, REFUSED, 0)
    in_flight.answered(second, REFUSED, 0)
    assert in_flight.producer == ProducerEpoch(7, 1)
    assert numbers(*sent(in_flight, 1), *sent(in_flight, 1, key=B)) == [(1, 0), (1, 0)]


def test_a_gap_is_none_if_a_batch_behind_it_was_taken() -> None:
    in_flight = made()
    first, second = begun(in_flight, 2, 3)
    in_flight.expire(DEADLINE, "node 1")
    assert failed(in_flight) == [(first, errors.RequestTimedOut), (second, errors.RequestTimedOut)]
    assert in_flight.answered(second, None, DEADLINE) is BatchOutcome.LATE
    assert in_flight.answered(first, MOVED, DEADLINE) is BatchOutcome.LATE
    assert in_flight.producer == ME and in_flight.may_take(A)


def test_a_batch_that_the_node_has_forgotten_is_delivered_if_one_behind_it_was_taken() -> None:
    """A node that has been killed knows the last batch of a producer alone, as Kafka's snapshots have no more."""
    in_flight = made()
    first, second = begun(in_flight, 2, 3)
    assert in_flight.answered(first, errors.RequestTimedOut("no replica has it"), 0) is BatchOutcome.AGAIN
    assert in_flight.answered(second, None, 0) is BatchOutcome.DELIVERED
    assert in_flight.next_again(A, 100) is first
    assert in_flight.answered(first, GAP, 100) is BatchOutcome.DELIVERED
    assert in_flight.producer == ME and numbers(*sent(in_flight, 1)) == [(0, second.position + 3)]


def test_a_batch_that_the_node_may_have_is_tried_before_the_lane_begins_anew() -> None:
    in_flight = made()
    first, second = begun(in_flight, 2, 3)
    assert in_flight.answered(second, MOVED, 0) is BatchOutcome.AGAIN
    in_flight.answered(first, errors.UnknownServer(""), 0)
    assert in_flight.producer == ME
    assert in_flight.next_again(A, 10) is second and numbers(second) == [(0, 3)]
    in_flight.answered(second, None, 10)
    assert in_flight.producer == ME and in_flight.may_take(A)


def test_of_several_that_the_node_may_have_each_is_tried_before_the_lane_begins_anew() -> None:
    """A node that was opened again knows the last batch of a producer alone: those before it are out of order there."""
    in_flight = made()
    first, second, third = begun(in_flight, 2, 3, 4)
    for batch in (first, second, third):
        assert in_flight.answered(batch, errors.RequestTimedOut("the owner has ended"), 0) is BatchOutcome.AGAIN
    assert in_flight.next_again(A, 10) is first
    assert in_flight.answered(first, GAP, 10) is BatchOutcome.AGAIN
    assert in_flight.due_ms == second.not_before_ms and in_flight.next_again(A, 10) is second
    assert in_flight.answered(second, errors.DuplicateSequence("seen"), 10) is BatchOutcome.DELIVERED
    assert in_flight.next_again(A, 100) is first
    assert in_flight.answered(first, GAP, 100) is BatchOutcome.DELIVERED
    assert in_flight.next_again(A, 100) is third
    assert in_flight.answered(third, None, 100) is BatchOutcome.DELIVERED
    assert in_flight.producer == ME and not failed(in_flight)


def test_a_duplicate_says_that_the_node_has_all_before_it() -> None:
    in_flight = made()
    first, second = begun(in_flight, 2, 3)
    for batch in (first, second):
        in_flight.answered(batch, errors.RequestTimedOut("the owner has ended"), 0)
    in_flight.next_again(A, 10)
    in_flight.answered(first, GAP, 10)
    in_flight.next_again(A, 10)
    assert in_flight.answered(second, errors.DuplicateSequence("seen"), 10) is BatchOutcome.DELIVERED
    assert in_flight.next_again(A, 100) is first
    assert in_flight.answered(first, GAP, 100) is BatchOutcome.DELIVERED
    assert in_flight.producer == ME and not failed(in_flight)


def test_where_the_node_has_none_of_those_it_may_have_all_are_in_doubt() -> None:
    in_flight = made()
    batches = begun(in_flight, 2, 3)
    for batch in batches:
        in_flight.answered(batch, errors.RequestTimedOut("the owner has ended"), 0)
    for batch in batches:
        assert in_flight.next_again(A, 10) is batch
        assert in_flight.answered(batch, GAP, 10) is BatchOutcome.AGAIN
    assert failed(in_flight) == [(batch, errors.OutOfOrderSequence) for batch in batches]


def test_a_batch_that_the_node_may_have_is_never_numbered_again() -> None:
    in_flight = made()
    first, second, third = begun(in_flight, 2, 3, 4)
    in_flight.answered(second, MOVED, 0)
    in_flight.answered(third, GAP, 0)
    in_flight.answered(first, REFUSED, 0)
    assert in_flight.next_again(A, 10) is second
    assert in_flight.answered(second, GAP, 10) is BatchOutcome.AGAIN
    assert failed(in_flight) == [(first, errors.InvalidRecord), (second, errors.OutOfOrderSequence)]
    assert numbers(third) == [(1, 0)] and in_flight.next_again(A, 100) is third


@pytest.mark.parametrize("error", [GAP, errors.UnknownProducerId("")])
def test_a_node_that_has_forgotten_the_producer_gets_it_anew(error: BaseException) -> None:
    in_flight = made()
    (only,) = begun(in_flight, 2)
    assert in_flight.answered(only, error, 0) is BatchOutcome.AGAIN
    assert numbers(only) == [(1, 0)]


def test_epochs_run_out_and_another_producer_goes_on() -> None:
    in_flight = made()
    in_flight.identify(ProducerEpoch(7, EPOCH_MAX))
    first, second = begun(in_flight, 2, 3)
    in_flight.answered(first, REFUSED, 0)
    in_flight.answered(second, GAP, 0)
    assert in_flight.producer is None and in_flight.lacks_id and in_flight.next_again(A, 100) is None
    assert in_flight.due_ms == DEADLINE
    assert in_flight.ask_id(0)
    in_flight.identify(ProducerEpoch(8, 0))
    assert (second.producer, second.sequence) == (ProducerEpoch(8, 0), 0)
    assert in_flight.next_again(A, 100) is second


# --- transactions -----------------------------------------------------------------------------------------------------


def test_a_coordinator_gives_the_id_and_the_epochs() -> None:
    in_flight = InFlight(idempotent=True, transactional=True)
    assert not in_flight.lacks_id and not in_flight.may_take(A)
    in_flight.identify(ME)
    first, second = begun(in_flight, 2, 3)
    assert in_flight.answered(second, GAP, 0) is BatchOutcome.AGAIN, "it may be the first that was late"
    assert in_flight.answered(first, GAP, 0) is BatchOutcome.FAILED
    assert in_flight.producer == ME and not in_flight.may_take(A)
    in_flight.give_up(errors.TransactionAborted(""), in_flight=False)
    assert failed(in_flight) == [(first, errors.OutOfOrderSequence), (second, errors.TransactionAborted)]
    assert not in_flight.may_take(A)
    in_flight.identify(ProducerEpoch(7, 1))
    assert numbers(*sent(in_flight, 1)) == [(1, 0)]


# --- splitting --------------------------------------------------------------------------------------------------------


def test_a_batch_too_large_is_sent_in_parts_with_the_same_numbers() -> None:
    in_flight = made()
    large, behind = begun(in_flight, 5, 1)
    assert in_flight.answered(behind, GAP, 0) is BatchOutcome.AGAIN
    assert in_flight.answered(large, LARGE, 0) is BatchOutcome.SPLIT
    assert in_flight.next_again(A, 100) is None, "it is being split"
    in_flight.split(large, 2, ("front", "back"))
    front = in_flight.next_again(A, 100)
    assert front is not None and (front.load, front.count, front.sequence) == ("front", 2, 1)
    in_flight.answered(front, None, 100)
    back = in_flight.next_again(A, 100)
    assert back is not None and (back.load, back.count, back.sequence) == ("back", 3, 3)
    in_flight.answered(back, None, 100)
    assert in_flight.next_again(A, 100) is behind and numbers(behind) == [(0, 6)]
    assert in_flight.failed() == []


def test_what_has_failed_meanwhile_is_not_split() -> None:
    in_flight = made(idempotent=False)
    (large,) = sent(in_flight, 5)
    assert in_flight.answered(large, LARGE, 0) is BatchOutcome.SPLIT
    in_flight.expire(DEADLINE, "node 1")
    in_flight.split(large, 2, ("front", "back"))
    assert failed(in_flight) == [(large, errors.RequestTimedOut)] and in_flight.may_take(A)


def test_parts_are_numbered_only_where_batches_are_and_one_record_is_not_split() -> None:
    in_flight = made(idempotent=False)
    (large,) = sent(in_flight, 2)
    in_flight.answered(large, LARGE, 0)
    in_flight.split(large, 1, ("front", "back"))
    front = in_flight.next_again(A, 0)
    assert front is not None and front.sequence == -1
    assert in_flight.answered(front, LARGE, 0) is BatchOutcome.FAILED


# --- time, and the end ------------------------------------------------------------------------------------------------


def test_what_has_waited_too_long_fails_also_in_flight() -> None:
    in_flight = made()
    first, second = begun(in_flight, 1, 1)
    assert in_flight.due_ms == DEADLINE
    in_flight.expire(DEADLINE - 1, "node 1")
    assert in_flight.failed() == []
    in_flight.answered(first, NONE_YET, 0)
    in_flight.expire(DEADLINE, "node 1")
    assert [str(one.error).split("; ")[1].split(".")[0] for one in in_flight.failed()] == [
        "it waited to be sent to node 1", "whether node 1 has it is not known"
    ]  # fmt: skip
    assert in_flight.due_ms is None and not in_flight.may_take(A)
    in_flight.answered(second, GAP, DEADLINE)
    assert in_flight.producer == ProducerEpoch(7, 1) and in_flight.may_take(A)


def test_what_was_refused_to_the_end_says_why() -> None:
    in_flight = made()
    (batch,) = sent(in_flight, 1)
    assert in_flight.refusals() == {}
    in_flight.answered(batch, MOVED, 0)
    assert in_flight.refusals() == {A: MOVED}
    in_flight.expire(DEADLINE, "node 1")
    (error,) = [one.error for one in in_flight.failed()]
    assert str(error).endswith("It was refused last with NotLeaderOrFollower: moved") and error.__cause__ is MOVED


def test_the_earliest_deadline_is_waited_for() -> None:
    in_flight = made()
    for deadline, key in ((500, A), (300, B), (400, TopicPartition("t", 2))):
        in_flight.take(InFlightBatch(key, None, 1, deadline))
    assert in_flight.due_ms == 300
    in_flight.expire(300, "node 1")
    assert [one.key for one in in_flight.failed()] == [B] and in_flight.due_ms == 400


def test_all_is_given_up_at_the_end() -> None:
    in_flight = made()
    (first,), (second,) = sent(in_flight, 1), sent(in_flight, 1, key=B)
    in_flight.answered(first, MOVED, 0)
    in_flight.give_up(errors.Closed("the end"), in_flight=True)
    assert failed(in_flight) == [(first, errors.Closed), (second, errors.Closed)]
    assert in_flight.answered(second, None, 0) is BatchOutcome.LATE
