"""What a transaction coordinator does by itself: taking over, time-outs, forgetting."""

from pylog.coordinator.effects import Append, Stamp
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.coordinator.transaction.state import EPOCH_LAST, EPOCH_MAX, Transaction, TransactionState
from pylog.errors import InvalidPidMapping, InvalidTxnState, KafkaStorage, NotLeaderOrFollower, ProducerFenced
from pylog.protocol.messages import Session
from support.messages import end_txn
from support.transaction_desk import CONFIG, P0, T0, UNAVAILABLE, Desk, known

SCAN_MS = CONFIG.transaction_abort_timed_out_transaction_cleanup_interval_ms
FORGET_SCAN_MS = CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms


def some(count: int, **more: object) -> list[tuple[str, Transaction]]:
    """As many of one kind; each record has some kilobytes."""
    return [(f"{number:05}" * 400, known(TransactionState.ONGOING, **more)[1]) for number in range(count)]


# --- taking over -----------------------------------------------------------------------------------------------------


def test_a_decided_transaction_is_driven_to_its_end() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT), ("y", known(TransactionState.PREPARE_ABORT)[1]))
    first, second = desk.marked(), desk.marked()
    assert (first.committed, first.producer_epoch, second.committed) == (True, 4, False)
    assert desk.state is TransactionState.COMPLETE_COMMIT
    assert desk.machine.transactions["y"].state is TransactionState.COMPLETE_ABORT


def test_markers_have_the_version_of_their_decision() -> None:
    """A transaction of version 1 (a log that Kafka wrote for an older client) has markers of its own epoch."""
    assert Desk(known(TransactionState.PREPARE_COMMIT, client_version=0)).marked().transaction_version == 0


def test_a_decision_without_partitions_is_completed_by_the_next_tick() -> None:
    desk = Desk(known(TransactionState.PREPARE_ABORT, partitions=()))
    assert desk.machine.due_ms == 0 and not desk.markers
    desk.tick(0)
    assert desk.state is TransactionState.COMPLETE_ABORT


def test_an_open_transaction_without_partitions_ends_at_once() -> None:
    desk = Desk(known(TransactionState.ONGOING, partitions=()))
    desk.end(50, 4, committed=True)
    assert desk.state is TransactionState.COMPLETE_COMMIT and not desk.markers


def test_nothing_is_due_before_the_coordinator_takes_over() -> None:
    machine = TransactionCoordinator(0, CONFIG, new_producer_id=lambda: 1)
    assert machine.due_ms is None
    for record in Desk(known(TransactionState.ONGOING)).log:
        machine.replay(record)
    assert machine.due_ms is None
    assert machine.append_failed(Append([], context=[]), UNAVAILABLE, Desk().now) == []
    assert machine.tick(Desk().now) == []


def test_a_marker_in_the_coordinators_own_log_is_ignored() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.machine.replay_marker(Stamp(50, 4), committed=True)
    assert desk.state is TransactionState.EMPTY


def test_nothing_is_due_where_nothing_is_known() -> None:
    assert Desk().machine.due_ms is None


# --- time-outs -------------------------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    desk = Desk(known(TransactionState.ONGOING, timeout_ms=SCAN_MS))
    desk.tick(0)
    desk.tick(SCAN_MS)
    assert desk.state is TransactionState.ONGOING  # it has taken exactly as long as it may
    desk.tick(SCAN_MS - 1)
    assert desk.state is TransactionState.ONGOING  # nobody looked
    desk.tick(1)
    assert (desk.state, desk.x.producer_epoch) == (TransactionState.PREPARE_ABORT, 5)
    assert desk.join(50, 4, P0) is not None
    desk.marked()
    assert desk.join(50, 4, P0) is ProducerFenced
    error = desk.end(50, 4, committed=True).error
    assert isinstance(error, InvalidTxnState) and "longer than transaction.timeout.ms=" in str(error)
    assert desk.end(50, 4, committed=False).producer_epoch == 5


def test_the_time_out_counts_from_the_logged_start() -> None:
    desk = Desk(known(TransactionState.ONGOING, start_ms=T0 - 60_001))
    desk.tick(0)
    assert desk.state is TransactionState.PREPARE_ABORT


def test_a_step_of_the_wall_clock_counts() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.wall_ms += 60_001
    desk.tick(0)
    assert desk.state is TransactionState.PREPARE_ABORT


def test_a_wall_clock_that_was_set_back_keeps_no_transaction_open() -> None:
    """Who reads behind it would wait for as long: from the first look on the time that goes by counts, too."""
    desk = Desk(known(TransactionState.ONGOING, start_ms=T0 + 3_600_000))
    desk.tick(0)
    desk.tick(60_000)
    assert desk.state is TransactionState.ONGOING
    desk.tick(SCAN_MS)
    assert desk.state is TransactionState.PREPARE_ABORT


def test_the_time_that_goes_by_counts_for_each_transaction_anew() -> None:
    desk = Desk(known(TransactionState.ONGOING, start_ms=T0 + 3_600_000))
    desk.tick(0)
    desk.end(50, 4, committed=True)
    desk.marked()
    desk.join(50, 5, P0)
    desk.wall_ms -= 3_600_000
    desk.tick(60_000 + SCAN_MS)
    assert desk.state is TransactionState.ONGOING


def test_a_time_out_at_the_last_epoch_takes_another_producer_id() -> None:
    desk = Desk(known(TransactionState.ONGOING, EPOCH_LAST, timeout_ms=1))
    desk.no_ids = KafkaStorage("no ids")
    desk.tick(2)
    assert desk.state is TransactionState.ONGOING
    desk.no_ids = None
    desk.tick(SCAN_MS)
    assert desk.marked().producer_epoch == EPOCH_MAX
    assert (desk.x.producer_id, desk.x.producer_epoch) == (1001, 0)


def test_a_transaction_with_the_highest_epoch_can_be_aborted() -> None:
    """Nobody is given that epoch, but another's log may have it."""
    desk = Desk(known(TransactionState.ONGOING, EPOCH_MAX, timeout_ms=1))
    desk.tick(2)
    assert (desk.x.producer_epoch, desk.x.next_producer_id) == (EPOCH_MAX, 1001)


def test_a_transaction_that_ends_just_now_does_not_time_out() -> None:
    desk = Desk(known(TransactionState.ONGOING, timeout_ms=1))
    desk.wall_ms += 2
    ended = desk.machine.handle(end_txn("x", 50, 4, True), Session(), 1, desk.now)
    assert desk.machine.tick(desk.now) == []
    desk.carry_out(ended)
    assert desk.state is TransactionState.PREPARE_COMMIT


def test_an_abort_that_could_not_be_written_is_tried_by_the_next_scan() -> None:
    desk = Desk(known(TransactionState.ONGOING, timeout_ms=1))
    desk.refuses = UNAVAILABLE
    desk.tick(2)
    assert desk.state is TransactionState.ONGOING
    desk.refuses = None
    desk.tick(SCAN_MS)
    assert desk.state is TransactionState.PREPARE_ABORT


def test_many_time_outs_are_one_append_and_a_tick_takes_so_many() -> None:
    desk = Desk(*some(300, timeout_ms=1))
    desk.tick(2)
    assert len(desk.appends) == 1 and 100 < len(desk.appends[0].records) < 200
    assert len(desk.markers) == len(desk.appends[0].records)
    assert desk.machine.due_ms is not None and desk.machine.due_ms <= desk.tick_ms
    while any(known.state is TransactionState.ONGOING for known in desk.machine.transactions.values()):
        desk.tick(0)
    assert len(desk.appends) == 3


def test_the_rest_of_many_time_outs_waits_a_little_after_a_failure() -> None:
    desk = Desk(*some(300, timeout_ms=1))
    desk.refuses = UNAVAILABLE
    desk.tick(2)
    assert desk.machine.due_ms == desk.tick_ms + 100


def test_markers_that_are_tried_again_do_not_wait_for_the_log() -> None:
    desk = Desk(known(TransactionState.PREPARE_ABORT), ("y", known(TransactionState.ONGOING, timeout_ms=1)[1]))
    desk.marked({P0: NotLeaderOrFollower("not now")})
    desk.refuses = UNAVAILABLE
    desk.tick(100)
    assert [effect.transactional_id for effect in desk.markers] == ["x"]


# --- forgetting ------------------------------------------------------------------------------------------------------


def test_an_unused_transactional_id_is_forgotten() -> None:
    expires_ms = CONFIG.transactional_id_expiration_ms
    states = [state for state in TransactionState if state <= TransactionState.COMPLETE_ABORT]
    desk = Desk(*((state.name, known(state, timeout_ms=900_000, last_update_ms=T0)[1]) for state in states))
    desk.markers.clear()
    desk.tick_ms = FORGET_SCAN_MS - 1
    desk.wall_ms = T0 + expires_ms - 1
    desk.tick(0)
    assert len(desk.machine.transactions) == 6
    desk.tick(1)
    assert set(desk.machine.transactions) == {"ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT"}
    assert sum(record.value is None for append in desk.appends for record in append.records) == 3


def test_a_producer_of_a_forgotten_id_is_new() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.tick(FORGET_SCAN_MS)
    assert desk.join(50, 4, P0) is InvalidPidMapping
    assert desk.init(50, 4).producer_id == 1001


def test_an_id_that_could_not_be_forgotten_is_still_known() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.refuses = UNAVAILABLE
    desk.tick(FORGET_SCAN_MS)
    assert desk.state is TransactionState.EMPTY
    desk.refuses = None
    desk.tick(FORGET_SCAN_MS)
    assert not desk.machine.transactions


def test_a_completion_that_a_tick_passes_over_is_written_down_by_a_later_one() -> None:
    """Its markers are shown between the sync for what is due and the tick: they are not durable then."""
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    markers = desk.markers.pop(0).markers
    desk.carry_out(desk.machine.markers_written("x", markers.producer_epoch, {P0: None}, desk.now, {P0: 7}))
    desk.tick(1000)
    assert desk.state is TransactionState.PREPARE_COMMIT
    desk.machine.note_durable({P0: 7})
    assert desk.machine.due_ms is not None and desk.machine.due_ms <= desk.tick_ms + 1000
    desk.tick(1000)
    assert desk.state is TransactionState.COMPLETE_COMMIT


def test_the_outcome_of_markers_that_comes_twice_changes_nothing() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    epoch = desk.markers.pop(0).markers.producer_epoch
    for _ in range(2):
        assert desk.machine.markers_written("x", epoch, {P0: None}, desk.now, {}) == []
    desk.tick(1000)
    assert desk.state is TransactionState.COMPLETE_COMMIT and len(desk.appends) == 1
