"""What Kafka's SharePartitionTest says of a share partition, by the names of its tests: see docs/share_suites.md."""

import pytest

from pylog.coordinator.share.share_partition import SharePartition, StateWrite, Wanted
from pylog.coordinator.share.states import StoredBatch
from pylog.errors import CoordinatorNotAvailable, InvalidRecordState, InvalidRequest
from support.share_machine import ACCEPT, GAP, LIMITS, REJECT, RELEASE, RENEW, said, taken, written

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
CoordinatorGone = CoordinatorNotAvailable("soon")


def strict(records: int) -> Wanted:
    return Wanted(records, 500, is_strict=True)


def told(machine: SharePartition, first: int, last: int, *types: int, member: str = "ann") -> None:
    """Say something of records, and have it written down."""
    said(machine, first, last, *types, member=member)
    written(machine)


def refused(machine: SharePartition) -> None:
    """Have the next write refused."""
    assert machine.take_write() is not None
    machine.written(CoordinatorGone)
    machine.check()


# --- acquiring --------------------------------------------------------------------------------------------------------


def test_acquire_with_multiple_batches_and_max_fetch_records() -> None:
    machine = SharePartition(0, 0)
    batches = range(5), range(5, 20), range(20, 35), range(35, 40)
    assert taken(machine, *batches, wanted=Wanted(20, 500)) == [(0, 19, 1)]
    assert taken(machine, *batches[2:], wanted=Wanted(1, 500)) == [(20, 34, 1)]
    assert machine.next_fetch_offset == 35


def test_acquire_with_batch_size_and_max_fetch_records() -> None:
    machine = SharePartition(0, 0)
    batches = range(2), range(2, 7), range(7, 12), range(12, 14), range(14, 19)
    assert taken(machine, *batches, wanted=Wanted(12, 5)) == [(0, 6, 1), (7, 11, 1)]
    assert taken(machine, *batches[3:], wanted=Wanted(100, 5)) == [(12, 18, 1)]


def test_acquire_multiple_records_with_overlap_and_new_batch() -> None:
    machine = SharePartition(0, 0)
    assert taken(machine, range(5)) == [(0, 4, 1)]
    assert machine.acquire("ben", 0, [range(10)], Wanted(500, 500), LIMITS, 0) == [(5, 9, 1)]
    assert machine.next_fetch_offset == 10


def test_acquire_same_batch_again() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(10, 15))
    assert machine.acquire("ann", 10, [range(10, 15)], Wanted(500, 500), LIMITS, 0) == []


def test_acquire_batch_prior_to_start_offset() -> None:
    machine = SharePartition(10, 0)
    assert taken(machine, range(5)) == []
    assert taken(machine, range(5, 15)) == [(10, 14, 1)]


def test_acquire_with_max_in_flight_records_release_batch_and_acquire_subset_records() -> None:
    machine, few = SharePartition(0, 0), LIMITS._replace(record_locks=20)
    assert taken(machine, range(10), range(10, 20), range(20, 30), limits=few) == [(0, 19, 1)]
    told(machine, 12, 14, RELEASE)
    assert machine.next_fetch_offset == 12
    assert taken(machine, range(10, 20), range(20, 30), wanted=strict(2), limits=few) == [(12, 13, 2)]
    assert taken(machine, range(10, 20), range(20, 30), limits=few) == [(14, 14, 2)]
    assert not machine.can_acquire(few)


def test_can_acquire_records_change_response_post_acknowledgement() -> None:
    machine, few = SharePartition(0, 0), LIMITS._replace(record_locks=10)
    taken(machine, range(10), limits=few)
    assert not machine.can_acquire(few)
    said(machine, 0, 4, ACCEPT)
    assert not machine.can_acquire(few), "it is not written"
    written(machine)
    assert machine.can_acquire(few)


def test_next_fetch_offset_with_multiple_consumers() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(3))
    taken(machine, range(3, 5), member="ben")
    told(machine, 0, 2, RELEASE)
    assert machine.next_fetch_offset == 0
    told(machine, 3, 4, RELEASE, member="ben")
    assert taken(machine, range(3), range(3, 5), member="ben") == [(0, 4, 2)]
    assert machine.next_fetch_offset == 5


def test_next_fetch_offset_when_offsets_have_ongoing_transition() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(5))
    said(machine, 2, 3, RELEASE)
    assert machine.next_fetch_offset == 5
    assert taken(machine, range(5)) == []
    written(machine)
    assert machine.next_fetch_offset == 2


# --- what was read of the state ---------------------------------------------------------------------------------------

GAPS = [StoredBatch(15, 20, ACKNOWLEDGED, 2), StoredBatch(26, 30, ARCHIVED, 3)]


def test_maybe_initialize_state_batches_with_multiple_gaps() -> None:
    machine = SharePartition(10, 0, GAPS)
    assert (machine.start_offset, machine.end_offset, machine.next_fetch_offset) == (10, 31, 10)
    assert machine.delivery_complete_count == 11


def test_acquire_gap_at_beginning_and_records_fetched_from_gap() -> None:
    machine = SharePartition(10, 0, GAPS)
    assert taken(machine, range(10, 15)) == [(10, 14, 1)]
    assert machine.next_fetch_offset == 21
    assert taken(machine, range(21, 40)) == [(21, 25, 1), (31, 39, 1)]


def test_acquire_when_records_fetched_from_gap_and_max_fetch_records_is_exceeded() -> None:
    machine = SharePartition(10, 0, GAPS)
    assert taken(machine, range(10, 40), wanted=strict(8)) == [(10, 14, 1), (21, 23, 1)]
    assert machine.next_fetch_offset == 24


def test_acquire_cached_state_gap_in_between_overlaps_with_actual_partition_gap() -> None:
    machine = SharePartition(10, 0, GAPS)
    assert taken(machine, range(10, 12)) == [(10, 11, 1)]
    assert machine.next_fetch_offset == 12
    assert taken(machine, range(23, 36)) == [(23, 25, 1), (31, 35, 1)]
    assert machine.delivery_complete_count == 11 + 3 + 2, "what the log has not is done with"


def test_maybe_initialize_and_acquire_with_fetch_batch_prior_start_offset() -> None:
    machine = SharePartition(10, 0, [StoredBatch(15, 18, AVAILABLE, 2), StoredBatch(19, 20, ACKNOWLEDGED, 1)])
    assert taken(machine, range(5, 22), wanted=strict(5)) == [(10, 14, 1)]
    assert taken(machine, range(5, 22)) == [(15, 18, 3), (21, 21, 1)]


def test_maybe_initialize_when_read_state_rpc_returns_zero_available_records() -> None:
    machine = SharePartition(0, 0, [StoredBatch(0, 249, ACKNOWLEDGED, 1)])
    assert (machine.start_offset, machine.end_offset, machine.delivery_complete_count) == (250, 250, 0)


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_acknowledge_multiple_record_batch_with_gap_offsets() -> None:
    machine = SharePartition(5, 0)
    taken(machine, range(5, 7), range(10, 19))
    told(machine, 5, 18, *[ACCEPT] * 2, *[GAP] * 3, *[ACCEPT] * 3, *[GAP] * 2, *[ACCEPT] * 4)
    assert (machine.start_offset, machine.end_offset) == (19, 19)


def test_acknowledge_out_of_range_cached_data() -> None:
    machine = SharePartition(5, 0)
    with pytest.raises(InvalidRecordState):
        said(machine, 5, 20, RELEASE)
    taken(machine, range(5, 10))
    for first, last in ((5, 20), (0, 20), (15, 20)):
        with pytest.raises(InvalidRequest):
            said(machine, first, last, REJECT)


def test_acknowledge_rollback_with_full_batch_error() -> None:
    """Of several ranges in one request all are taken, or none."""
    machine = SharePartition(5, 0)
    taken(machine, range(5, 15))
    told(machine, 12, 14, REJECT)
    with pytest.raises(InvalidRecordState):
        said(machine, 5, 14, ACCEPT)
    assert (machine.take_write(), machine.start_offset, machine.delivery_complete_count) == (None, 5, 3)


def test_acknowledge_with_another_member_rollback_subset_error() -> None:
    machine = SharePartition(5, 0)
    taken(machine, range(5, 8))
    taken(machine, range(8, 10), member="ben")
    with pytest.raises(InvalidRecordState, match="by another member"):
        said(machine, 5, 9, ACCEPT)
    assert machine.take_write() is None
    told(machine, 5, 7, ACCEPT)
    assert machine.start_offset == 8


def test_acknowledge_offset_with_write_share_group_state_failure() -> None:
    machine = SharePartition(5, 0)
    taken(machine, range(5, 11))
    said(machine, 8, 10, REJECT)
    assert machine.delivery_complete_count == 3
    refused(machine)
    assert (machine.delivery_complete_count, machine.next_fetch_offset) == (0, 11)
    told(machine, 5, 10, ACCEPT)
    assert machine.start_offset == 11


def test_reacquire_subset_with_another_member() -> None:
    machine = SharePartition(5, 0)
    taken(machine, range(5, 7), range(10, 12))
    told(machine, 5, 11, *[RELEASE] * 2, *[GAP] * 3, *[ACCEPT] * 2)
    assert taken(machine, range(5, 7), member="ben") == [(5, 6, 2)]
    with pytest.raises(InvalidRecordState):
        said(machine, 5, 6, ACCEPT)


def test_number_of_write_calls_on_updates() -> None:
    machine = SharePartition(2, 0)
    taken(machine, range(2, 7))
    said(machine, 2, 6, ACCEPT)
    assert written(machine) == StateWrite(2, 5, [StoredBatch(2, 6, ACKNOWLEDGED, 1)])
    assert machine.release("ann", LIMITS) is None
    assert machine.take_write() is None


def test_maybe_update_cached_state_when_acknowledgements_in_between() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(10))
    told(machine, 3, 5, ACCEPT)
    assert (machine.start_offset, machine.delivery_complete_count) == (0, 3)
    told(machine, 0, 2, REJECT)
    assert (machine.start_offset, machine.delivery_complete_count) == (6, 0)


# --- locks and limits -------------------------------------------------------------------------------------------------


def test_acquisition_lock_timeout_cause_max_delivery_count_exceed() -> None:
    machine, few = SharePartition(0, 0), LIMITS._replace(delivery_count=2)
    for count, now_ms in ((1, 0), (2, 200)):
        assert taken(machine, range(10), limits=few, now_ms=now_ms) == [(0, 9, count)]
        assert machine.expire(few, now_ms + 100) is not None
        written(machine)
    assert (machine.start_offset, machine.next_fetch_offset, machine.end_offset) == (10, 10, 10)


def test_acknowledge_after_acquisition_lock_timeout() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(5))
    machine.expire(LIMITS, 100)
    for kind in (ACCEPT, RELEASE, REJECT, GAP, RENEW):
        with pytest.raises(InvalidRecordState):
            said(machine, 0, 4, kind)


def test_acquisition_lock_timeout_with_write_state_rpc_failure() -> None:
    """What a lock held is free where that cannot be written, too."""
    machine = SharePartition(0, 0)
    taken(machine, range(5))
    machine.expire(LIMITS, 100)
    refused(machine)
    assert taken(machine, range(5), member="ben") == [(0, 4, 2)]


def test_release_acquired_records_after_different_acknowledges() -> None:
    machine = SharePartition(5, 0)
    taken(machine, range(5, 10))
    told(machine, 5, 8, ACCEPT, REJECT, RELEASE, ACCEPT)
    machine.release("ann", LIMITS)
    assert written(machine) == StateWrite(7, 1, [StoredBatch(9, 9, AVAILABLE, 1)])
    assert taken(machine, range(5, 10)) == [(7, 7, 2), (9, 9, 2)]


def test_release_acquired_records_do_not_decrease_delivery_count() -> None:
    machine = SharePartition(0, 0)
    for count in (1, 2):
        assert taken(machine, range(2)) == [(0, 1, count)]
        machine.release("ann", LIMITS)
        written(machine)


def test_max_delivery_count_limit_exceeded_for_records_subset() -> None:
    machine, few = SharePartition(0, 0), LIMITS._replace(delivery_count=2)
    taken(machine, range(10), limits=few)
    told(machine, 2, 5, RELEASE)
    assert taken(machine, range(10), limits=few) == [(2, 5, 2)]
    machine.release("ann", few)
    assert written(machine) == StateWrite(0, 4, [
        StoredBatch(0, 1, AVAILABLE, 1), StoredBatch(2, 5, ARCHIVED, 2), StoredBatch(6, 9, AVAILABLE, 1),
    ])  # fmt: skip
    assert taken(machine, range(10), limits=few) == [(0, 1, 2), (6, 9, 2)]


def test_dynamic_delivery_count_decrease_causes_archival() -> None:
    machine = SharePartition(0, 0, [StoredBatch(0, 4, AVAILABLE, 1)])
    assert taken(machine, range(5)) == [(0, 4, 2)]
    machine.release("ann", LIMITS._replace(delivery_count=2))
    written(machine)
    assert machine.start_offset == 5


def test_dynamic_delivery_count_increase_allows_more_deliveries() -> None:
    machine = SharePartition(0, 0, [StoredBatch(0, 0, AVAILABLE, 1)])
    assert taken(machine, range(1), limits=LIMITS._replace(delivery_count=2)) == [(0, 0, 2)]
    machine.release("ann", LIMITS)
    written(machine)
    assert taken(machine, range(1)) == [(0, 0, 3)]


def test_dynamic_partition_max_record_locks_decrease() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(50))
    assert machine.can_acquire(LIMITS)
    assert not machine.can_acquire(LIMITS._replace(record_locks=20))
    assert taken(machine, range(50, 60), limits=LIMITS._replace(record_locks=20)) == []
    told(machine, 0, 39, ACCEPT)
    assert taken(machine, range(50, 60), limits=LIMITS._replace(record_locks=20)) == [(50, 59, 1)]


def test_renew_acknowledge_with_per_offset_and_batch_mix() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(4))
    said(machine, 0, 3, RENEW, ACCEPT, RELEASE, RENEW, now_ms=60)
    written(machine)
    assert machine.expire(LIMITS, 150) is None
    assert machine.expire(LIMITS, 160) is not None
    assert written(machine) == StateWrite(0, 1, [StoredBatch(0, 0, AVAILABLE, 1), StoredBatch(3, 3, AVAILABLE, 1)])


# --- the log begins later ---------------------------------------------------------------------------------------------


def test_lso_movement_for_archiving_all_available_batches() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(40))
    told(machine, 10, 29, RELEASE)
    machine.move_start(35)
    machine.check()
    assert (machine.start_offset, machine.end_offset, machine.next_fetch_offset) == (35, 40, 40)


def test_lso_movement_ahead_of_end_offset_post_acknowledgement() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(20))
    told(machine, 2, 14, ACCEPT)
    machine.move_start(25)
    machine.check()
    assert (machine.start_offset, machine.end_offset, machine.next_fetch_offset) == (25, 25, 25)
    assert machine.delivery_complete_count == 0


def test_acknowledge_batch_and_offset_post_lso_movement() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(2, 12))
    machine.move_start(12 - 2)
    said(machine, 2, 9, ACCEPT)
    assert machine.take_write() is None, "it is about nothing that is there"
    told(machine, 8, 10, ACCEPT)
    assert machine.start_offset == 11


def test_lso_movement_then_acquisition_lock_timeout_then_acknowledge() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(10))
    machine.move_start(5)
    machine.expire(LIMITS, 100)
    assert written(machine) == StateWrite(5, 0, [StoredBatch(5, 9, AVAILABLE, 1)])
    said(machine, 0, 4, ACCEPT)
    with pytest.raises(InvalidRecordState):
        said(machine, 4, 6, ACCEPT)
    assert taken(machine, range(10)) == [(5, 9, 2)]


def test_lso_movement_with_pending_acknowledgements() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(10))
    said(machine, 3, 7, ACCEPT)
    assert machine.take_write() == StateWrite(0, 5, [StoredBatch(3, 7, ACKNOWLEDGED, 1)])
    machine.move_start(5)
    machine.check()
    assert machine.delivery_complete_count == 3
    machine.written()
    machine.check()
    assert (machine.start_offset, machine.delivery_complete_count) == (8, 0)


def test_lso_movement_with_write_state_rpc_failures_in_acknowledgement() -> None:
    machine = SharePartition(0, 0)
    taken(machine, range(10))
    said(machine, 3, 7, ACCEPT)
    machine.take_write()
    machine.move_start(5)
    machine.written(CoordinatorGone)
    machine.check()
    assert (machine.start_offset, machine.delivery_complete_count) == (5, 0)
    told(machine, 5, 9, ACCEPT)
    assert machine.start_offset == 10


def test_release_acquired_records_post_start_offset_movement_to_middle_of_batch() -> None:
    machine = SharePartition(5, 0)
    taken(machine, range(5, 10), range(10, 15))
    machine.move_start(12)
    machine.release("ann", LIMITS)
    assert written(machine) == StateWrite(12, 0, [StoredBatch(12, 14, AVAILABLE, 1)])


def test_acquire_when_batches_removed_for_fetch_offset_within_batch() -> None:
    """Compaction has taken what was free again."""
    machine = SharePartition(5, 0)
    taken(machine, range(5, 15), range(15, 20))
    told(machine, 5, 19, RELEASE)
    assert taken(machine, range(15, 20)) == [(15, 19, 2)]
    assert machine.start_offset == 15


# --- the limit that holds, and records that fail ----------------------------------------------------------------------


def test_acquire_multiple_batches_in_record_limit_mode() -> None:
    machine = SharePartition(0, 0)
    batches = range(15), range(15, 20), range(20, 35)
    assert taken(machine, *batches, wanted=strict(25)) == [(0, 24, 1)]
    assert (machine.next_fetch_offset, machine.end_offset) == (25, 35)
    assert taken(machine, *batches, wanted=strict(5)) == [(25, 29, 1)]


def test_acquire_batch_in_record_limit_mode_with_moved_start_offset() -> None:
    machine = SharePartition(5, 0, [StoredBatch(5, 99, AVAILABLE, 1)])
    assert taken(machine, range(100), wanted=strict(10)) == [(5, 14, 2)]
    told(machine, 5, 14, ACCEPT)
    assert (machine.start_offset, machine.next_fetch_offset) == (15, 15)


def test_multiple_member_acquire_in_different_acquire_modes() -> None:
    machine = SharePartition(10, 0)
    batches = range(10, 15), range(15, 30), range(30, 45)
    assert taken(machine, *batches, wanted=Wanted(10, 500)) == [(10, 29, 1)]
    told(machine, 10, 14, RELEASE)
    told(machine, 15, 20, ACCEPT)
    told(machine, 21, 22, RELEASE)
    told(machine, 23, 28, ACCEPT)
    assert taken(machine, *batches, wanted=strict(2), member="ben") == [(10, 11, 2)]
    assert taken(machine, *batches, wanted=Wanted(10, 500), member="cem") == [(12, 14, 2), (21, 22, 2), (30, 44, 1)]
    assert machine.next_fetch_offset == 45


def test_throttle_records_when_pending_deliveries_exist() -> None:
    stored = [StoredBatch(15, 19, AVAILABLE, 2), StoredBatch(20, 22, ARCHIVED, 3), StoredBatch(26, 30, AVAILABLE, 3)]
    machine, batches = SharePartition(5, 0, stored), (range(7, 20), range(20, 28))
    assert taken(machine, *batches) == [(7, 14, 1), (15, 19, 3), (23, 25, 1)]
    assert machine.next_fetch_offset == 26
    assert taken(machine, range(26, 31)) == [(26, 27, 4)]


def test_acquire_records_halves_batch_size_on_each_failure_until_single_record() -> None:
    machine = SharePartition(15, 0, [StoredBatch(15, 34, AVAILABLE, 4)])
    limits, now_ms = LIMITS._replace(delivery_count=7), 0
    for last, count in ((24, 5), (19, 6), (15, 7)):
        assert taken(machine, range(15, 35), limits=limits, now_ms=now_ms) == [(15, last, count)]
        now_ms += 100
        machine.expire(limits, now_ms)
        written(machine)
    assert machine.start_offset == 16


def test_last_attempt_record_isolation_with_mixed_delivery_count() -> None:
    machine = SharePartition(15, 0, [StoredBatch(15, 16, AVAILABLE, 2), StoredBatch(17, 17, AVAILABLE, 4)])
    assert taken(machine, range(15, 18)) == [(15, 16, 3)]
    assert taken(machine, range(15, 18)) == [(17, 17, 5)]


def test_acquisition_not_throttled_if_high_delivery_count_record_not_acquired() -> None:
    machine = SharePartition(15, 0, [StoredBatch(15, 15, AVAILABLE, 3), StoredBatch(16, 19, AVAILABLE, 1)])
    assert taken(machine, range(15, 20)) == [(15, 15, 4)]
    assert taken(machine, range(15, 20)) == [(16, 19, 2)]
