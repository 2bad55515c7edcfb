"""The records that a share group works on, as a machine: the rules, one by one. The simulation holds all of it."""

import pytest

from pylog.coordinator.share.share_partition import Acknowledgement, SharePartition, StateWrite, Wanted
from pylog.coordinator.share.states import StoredBatch, combined
from pylog.errors import CoordinatorNotAvailable, InvalidRecordState, InvalidRequest
from simulation.share_partition_world import World
from support.share_machine import ACCEPT, GAP, LIMITS, REJECT, RELEASE, RENEW, said, taken, written


def test_a_range_begins_with_a_batch_and_has_so_many_records_at_least() -> None:
    machine = SharePartition(0, 0)
    batches = [range(3), range(3, 5), range(5, 6), range(6, 10), range(10, 11)]
    assert taken(machine, *batches, wanted=Wanted(500, 4)) == [(0, 4, 1), (5, 9, 1), (10, 10, 1)]
    assert repr(machine) == "<SharePartition [0, 11) in 1 runs>"


def test_the_rest_of_a_batch_comes_with_it_unless_the_limit_is_strict() -> None:
    machine = SharePartition(0, 0)
    assert taken(machine, range(10), wanted=Wanted(3, 500)) == [(0, 9, 1)]
    assert taken(machine, range(10, 20), wanted=Wanted(3, 500, is_strict=True)) == [(10, 12, 1)]
    assert (machine.next_fetch_offset, machine.end_offset) == (13, 20)


def test_the_rest_of_a_batch_comes_with_it_however_often_it_was_delivered() -> None:
    machine = SharePartition(0, 0, [StoredBatch(0, 0, 0, 1), StoredBatch(1, 1, 2, 1), StoredBatch(2, 3, 0, 0)])
    assert taken(machine, range(4), range(4, 6), wanted=Wanted(1, 500)) == [(0, 0, 2), (2, 3, 1)]


def test_what_is_left_of_a_batch_is_in_flight_and_nobody_has_it() -> None:
    machine = SharePartition(0, 0)
    strict = Wanted(3, 500, is_strict=True)
    assert taken(machine, range(5), range(5, 10), wanted=strict) == [(0, 2, 1)]
    with pytest.raises(InvalidRecordState, match="3 to 4 are not acquired"):
        said(machine, 0, 4, ACCEPT)
    assert taken(machine, range(5), range(5, 10), member="ben", wanted=strict) == [(3, 5, 1)]
    assert machine.end_offset == 10


def test_the_rest_of_a_batch_may_be_more_than_may_be_in_flight() -> None:
    machine, few = SharePartition(0, 0), LIMITS._replace(record_locks=4)
    assert taken(machine, range(3), range(3, 6), wanted=Wanted(500, 1, is_strict=True), limits=few) == [(0, 3, 1)]
    assert machine.can_acquire(few)
    assert taken(machine, range(3, 6), range(6, 9), limits=few) == [(4, 5, 1)]
    assert not machine.can_acquire(few)


def test_nothing_is_acquired_of_nothing() -> None:
    machine = SharePartition(5, 0)
    assert taken(machine) == taken(machine, range(5)) == taken(machine, range(5, 9), wanted=Wanted(0, 1)) == []
    assert machine.end_offset == 5


def test_records_beyond_the_limit_stay_in_the_log() -> None:
    machine = SharePartition(0, 0)
    few = LIMITS._replace(record_locks=4)
    assert taken(machine, range(4), limits=few) == [(0, 3, 1)]
    assert not machine.can_acquire(few)
    assert taken(machine, range(4, 8), limits=few) == []
    said(machine, 1, 2, RELEASE)
    written(machine)
    assert machine.can_acquire(few)
    assert taken(machine, range(8), limits=few) == [(1, 2, 2)]


def test_what_compaction_took_is_passed_over() -> None:
    machine = SharePartition(0, 0)
    assert taken(machine, range(3, 5)) == [(3, 4, 1)]
    assert machine.start_offset == 3
    said(machine, 3, 4, RELEASE)
    written(machine)
    assert taken(machine, range(7, 8)) == [(7, 7, 1)]
    assert machine.start_offset == 7
    # Offsets without a record are acknowledged with their neighbours.
    machine = SharePartition(0, 0)
    taken(machine, range(2))
    taken(machine, range(5, 6))
    said(machine, 0, 5, ACCEPT)
    assert written(machine) == StateWrite(0, 6, [StoredBatch(0, 1, 2, 1), StoredBatch(5, 5, 2, 1)])


def test_aborted_records_are_for_nobody() -> None:
    machine = SharePartition(0, 0)
    batches = range(2), range(2, 4), range(4, 6)
    assert taken(machine, *batches, aborted=(batches[1],)) == [(0, 1, 1), (4, 5, 1)]
    machine = SharePartition(0, 0)
    assert taken(machine, *batches, wanted=Wanted(1, 1), aborted=(batches[0], batches[2])) == [(2, 3, 1)]
    assert (machine.start_offset, machine.end_offset) == (2, 6)


def test_records_that_were_delivered_often_come_with_ever_fewer_neighbours() -> None:
    machine = SharePartition(0, 0, [StoredBatch(0, 7, 0, 2), StoredBatch(8, 15, 0, 3)])
    batch = range(16)
    assert taken(machine, batch) == [(0, 7, 3)]
    assert taken(machine, batch) == [(8, 11, 4)]
    said(machine, 8, 11, RELEASE)
    written(machine)
    assert taken(machine, batch) == [(8, 8, 5)]
    said(machine, 8, 8, RELEASE)
    assert written(machine) == StateWrite(0, 1, [StoredBatch(8, 8, 4, 5)])
    # With two deliveries the second one is the last for all of them.
    machine = SharePartition(0, 0, [StoredBatch(0, 3, 0, 1)])
    assert taken(machine, range(4), limits=LIMITS._replace(delivery_count=2)) == [(0, 3, 2)]


def test_a_change_counts_when_it_is_written() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(4))
    said(machine, 0, 3, ACCEPT, RELEASE, REJECT, GAP)
    assert (machine.start_offset, machine.next_fetch_offset, machine.delivery_complete_count) == (0, 4, 3)
    with pytest.raises(InvalidRecordState):
        said(machine, 1, 1, ACCEPT)
    assert machine.take_write() == StateWrite(0, 3, [
        StoredBatch(0, 0, 2, 1), StoredBatch(1, 1, 0, 1), StoredBatch(2, 3, 4, 1),
    ])  # fmt: skip
    assert machine.take_write() is None
    machine.written()
    assert (machine.start_offset, machine.next_fetch_offset, machine.delivery_complete_count) == (1, 1, 2)


def test_a_refused_change_is_none() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(4))
    said(machine, 0, 3, ACCEPT)
    machine.take_write()
    machine.written(CoordinatorNotAvailable("soon"))
    assert (machine.start_offset, machine.delivery_complete_count, machine.is_idle) == (0, 0, False)
    said(machine, 0, 3, ACCEPT)
    machine.take_write()
    machine.written()
    assert machine.is_idle


def test_who_is_gone_leaves_its_records() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(2))
    taken(machine, range(2, 4), member="ben")
    assert machine.release("ben", LIMITS) is not None
    assert machine.release("cem", LIMITS) is None
    written(machine)
    assert machine.next_fetch_offset == 2


def test_a_lock_ends_at_its_time_and_not_before() -> None:
    machine = SharePartition(0, 0)
    assert machine.due_ms is None
    taken(machine, range(2))
    taken(machine, range(2, 4), now_ms=50)
    said(machine, 0, 0, RENEW, now_ms=60)
    assert machine.expire(LIMITS, 99) is None
    assert machine.expire(LIMITS, 100) is not None
    assert written(machine) == StateWrite(0, 0, [StoredBatch(1, 1, 0, 1)])
    assert machine.due_ms == 150
    assert machine.expire(LIMITS, 160) is not None
    assert machine.next_fetch_offset == 0


def test_a_lock_does_not_end_under_a_write() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(2))
    said(machine, 0, 1, ACCEPT)
    assert machine.expire(LIMITS, 500) is None
    written(machine)
    assert machine.start_offset == 2


def test_locks_are_renewed_where_that_is_allowed() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(2))
    renewal = [Acknowledgement(0, 1, [RENEW])]
    with pytest.raises(InvalidRecordState):
        machine.acknowledge("ann", renewal, LIMITS._replace(may_renew=False), 0)
    assert machine.acknowledge("ann", renewal, LIMITS, 0) is None


def test_acknowledgements_of_what_is_not_there() -> None:
    machine = SharePartition(0, 0)
    with pytest.raises(InvalidRecordState):
        said(machine, 0, 0, ACCEPT)
    taken(machine, range(2, 6))
    said(machine, 0, 1, ACCEPT)
    with pytest.raises(InvalidRequest):
        said(machine, 4, 6, ACCEPT)
    machine.move_start(4)
    said(machine, 2, 5, ACCEPT)
    assert written(machine) == StateWrite(4, 2, [StoredBatch(4, 5, 2, 1)])
    machine.move_start(9)
    assert (machine.start_offset, machine.end_offset) == (9, 9)


def test_what_is_said_twice_in_one_request() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(6))
    twice = [Acknowledgement(4, 4, [ACCEPT]), Acknowledgement(4, 4, [ACCEPT])]
    with pytest.raises(InvalidRecordState, match="offset 4 is acknowledged twice"):
        machine.acknowledge("ann", twice, LIMITS, 0)
    assert machine.take_write() is None
    machine.move_start(5)
    assert machine.acknowledge("ann", twice, LIMITS, 0) is None


def test_what_was_written_is_taken_up() -> None:
    stored = [StoredBatch(0, 1, 2, 1), StoredBatch(3, 3, 0, 2), StoredBatch(4, 4, 1, 3), StoredBatch(5, 5, 4, 1)]
    machine = SharePartition(1, 7, stored)
    assert (machine.start_offset, machine.end_offset, machine.state_epoch) == (2, 6, 7)
    assert taken(machine, range(8)) == [(2, 2, 1), (3, 3, 3)]
    assert taken(machine, range(8)) == [(4, 4, 4)]


def test_batches_are_combined() -> None:
    known = [StoredBatch(0, 9, 0, 1), StoredBatch(20, 29, 2, 1)]
    assert combined(known, [StoredBatch(5, 24, 2, 1)], 0) == [StoredBatch(0, 4, 0, 1), StoredBatch(5, 29, 2, 1)]
    assert combined(known, [StoredBatch(3, 4, 0, 2)], 2) == [
        StoredBatch(2, 2, 0, 1), StoredBatch(3, 4, 0, 2), StoredBatch(5, 9, 0, 1), known[1],
    ]  # fmt: skip
    assert combined(known, [StoredBatch(0, 9, 0, 0)], 0) == known
    assert combined([], [StoredBatch(0, 4, 0, 1), StoredBatch(2, 6, 2, 1)], -1) == [
        StoredBatch(0, 1, 0, 1), StoredBatch(2, 6, 2, 1),
    ]  # fmt: skip
    assert combined([StoredBatch(3, 4, 2, 2)], [StoredBatch(0, 6, 0, 1)], -1) == [
        StoredBatch(0, 2, 0, 1), StoredBatch(3, 4, 2, 2), StoredBatch(5, 6, 0, 1),
    ]  # fmt: skip


def test_some_seeds_of_the_simulation() -> None:
    for seed in range(1000, 1010):
        World(seed).run(100)
