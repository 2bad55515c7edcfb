"""EndTxn, its markers, and their completion: decided once, whatever happens then."""

import pytest

from pylog.coordinator.effects import Append, WriteMarkers
from pylog.coordinator.transaction.coordinator import GIVEN_BY_HOST
from pylog.coordinator.transaction.state import EPOCH_LAST, EPOCH_MAX, NO_PRODUCER_ID, TransactionState
from pylog.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidPidMapping,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaStorage,
    NotCoordinator,
    NotLeaderOrFollower,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import Session, TxnMarkers
from support.messages import end_txn, txn_ended
from support.transaction_desk import P0, P1, T0, UNAVAILABLE, Desk, known

BOTH = {"partitions": (P0, P1)}
NOT_NOW = NotLeaderOrFollower("not now")
outcomes = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])


def complete(committed: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT


@outcomes
def test_an_end_is_decided_in_the_log_then_marked_then_complete(committed: bool) -> None:
    desk = Desk(known(TransactionState.ONGOING, **BOTH))
    append, markers = desk.machine.handle(end_txn("x", 50, 4, committed), Session(), 1, desk.now)
    assert isinstance(append, Append) and isinstance(markers, WriteMarkers)
    assert desk.carry_out([append, markers]) == {1: txn_ended(None, 50, 5)}
    assert desk.state is (TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT)
    assert (desk.x.producer_epoch, desk.x.partitions, desk.x.start_ms) == (5, (P0, P1), T0)
    assert desk.marked() == TxnMarkers(50, 5, committed, GIVEN_BY_HOST, (P0, P1), 2)
    assert (desk.state, desk.x.producer_epoch, desk.x.partitions) == (complete(committed), 5, ())


@outcomes
def test_every_request_waits_until_the_end_is_complete(committed: bool) -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.end(50, 4, committed=committed)
    for epoch in (4, 5):
        assert isinstance(desk.end(50, epoch, committed=committed).error, ConcurrentTransactions)
        assert desk.join(50, epoch, P0) is ConcurrentTransactions


@outcomes
def test_a_repeated_end_is_the_same_end(committed: bool) -> None:
    desk = Desk(known(TransactionState.ONGOING))
    first = desk.end(50, 4, committed=committed)
    desk.marked()
    assert desk.end(50, 4, committed=committed) == first == txn_ended(None, 50, 5)
    assert desk.state is complete(committed)
    assert isinstance(desk.end(50, 4, committed=not committed).error, InvalidTxnState)


@outcomes
def test_a_late_end_does_not_touch_the_next_transaction(committed: bool) -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.end(50, 4, committed=True)
    desk.marked()
    assert desk.join(50, 5, P1) is None
    assert isinstance(desk.end(50, 4, committed=committed).error, ProducerFenced)
    assert desk.state is TransactionState.ONGOING


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_an_abort_of_nothing_raises_the_epoch_in_one_batch(state: TransactionState) -> None:
    desk = Desk(known(state))
    desk.wall_ms += 3
    assert desk.end(50, 4, committed=False) == txn_ended(None, 50, 5)
    assert (desk.state, desk.x.producer_epoch, desk.x.start_ms) == (TransactionState.COMPLETE_ABORT, 5, T0 + 3)
    assert [len(append.records) for append in desk.appends] == [2]
    assert not desk.markers
    assert desk.end(50, 4, committed=False) == txn_ended(None, 50, 5)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_an_empty_transaction_cannot_be_committed(state: TransactionState) -> None:
    assert isinstance(Desk(known(state)).end(50, 4, committed=True).error, InvalidTxnState)


@outcomes
@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING])
def test_an_end_is_not_repeated_in_a_transaction_or_after_a_start(state: TransactionState, committed: bool) -> None:
    desk = Desk(known(state))
    for epoch in (3, 5):
        assert isinstance(desk.end(50, epoch, committed=committed).error, ProducerFenced)


@pytest.mark.parametrize("state", [TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT])
def test_an_end_of_long_ago_is_fenced(state: TransactionState) -> None:
    desk = Desk(known(state))
    for epoch in (2, 5):
        assert isinstance(desk.end(50, epoch, committed=True).error, ProducerFenced)


def test_an_end_of_another_producer_is_refused() -> None:
    assert isinstance(Desk().end(50, 4, committed=True).error, InvalidPidMapping)
    assert isinstance(Desk(known(TransactionState.ONGOING)).end(51, 4, committed=True).error, InvalidPidMapping)


@outcomes
def test_the_last_epoch_ends_with_another_producer_id(committed: bool) -> None:
    desk = Desk(known(TransactionState.ONGOING, EPOCH_LAST))
    assert desk.end(50, EPOCH_LAST, committed=committed) == txn_ended(None, 1001, 0)
    assert (desk.x.producer_id, desk.x.producer_epoch, desk.x.next_producer_id) == (50, EPOCH_MAX, 1001)
    assert desk.marked()[:2] == (50, EPOCH_MAX)
    assert (desk.x.producer_id, desk.x.producer_epoch, desk.x.next_producer_id) == (1001, 0, NO_PRODUCER_ID)
    assert desk.end(50, EPOCH_LAST, committed=committed) == txn_ended(None, 1001, 0)
    assert isinstance(desk.end(50, EPOCH_LAST, committed=not committed).error, InvalidTxnState)
    assert desk.join(1001, 0, P0) is None
    assert isinstance(desk.end(50, EPOCH_LAST, committed=committed).error, InvalidPidMapping)


def test_without_producer_ids_the_last_epoch_cannot_end() -> None:
    desk = Desk(known(TransactionState.ONGOING, EPOCH_LAST))
    desk.no_ids = KafkaStorage("the file of producer ids")
    assert isinstance(desk.end(50, EPOCH_LAST, committed=True).error, NotCoordinator)
    assert desk.state is TransactionState.ONGOING


def test_an_end_that_could_not_be_written_did_not_happen() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.refuses = UNAVAILABLE
    assert isinstance(desk.end(50, 4, committed=True).error, CoordinatorNotAvailable)
    assert desk.state is TransactionState.ONGOING and not desk.markers
    desk.refuses = None
    assert desk.end(50, 4, committed=False) == txn_ended(None, 50, 5)


# --- markers ---------------------------------------------------------------------------------------------------------


def test_partitions_without_a_marker_are_tried_again_later_and_later() -> None:
    desk = Desk(known(TransactionState.ONGOING, **BOTH))
    desk.end(50, 4, committed=True)
    desk.marked({P1: NOT_NOW})
    waits, since = [], desk.tick_ms
    while len(waits) < 6:
        due = desk.machine.due_ms
        assert due is not None
        desk.tick(due - desk.tick_ms)
        if desk.markers:
            waits.append(desk.tick_ms - since)
            since = desk.tick_ms
            assert desk.marked({P1: NOT_NOW}).partitions == (P1,)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    assert desk.state is TransactionState.PREPARE_COMMIT
    desk.tick(1000)
    desk.marked()
    assert desk.state is TransactionState.COMPLETE_COMMIT


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    desk = Desk(known(TransactionState.ONGOING, **BOTH))
    desk.end(50, 4, committed=False)
    desk.marked({P0: UnknownTopicOrPartition("deleted")})
    assert desk.state is TransactionState.COMPLETE_ABORT


def test_a_partition_that_knows_a_later_epoch_needs_no_marker() -> None:
    # A power cut where nothing was synced left the log of the coordinator older than the partition.
    desk = Desk(known(TransactionState.PREPARE_ABORT, **BOTH))
    desk.marked({P0: InvalidProducerEpoch("epoch 4 ended when epoch 9 began")})
    assert desk.state is TransactionState.COMPLETE_ABORT


def test_a_refused_marker_is_named_to_every_client_that_has_to_wait() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT, **BOTH))
    desk.marked({P1: KafkaStorage("t-1 has failed: open the log again")})
    for answer in (desk.init(), desk.end(50, 4, committed=True)):
        assert isinstance(answer.error, ConcurrentTransactions)
        assert "t-1 has failed: open the log again" in str(answer.error)


def test_markers_that_were_reported_are_not_needed_again() -> None:
    desk = Desk(known(TransactionState.ONGOING, **BOTH))
    desk.end(50, 4, committed=True)
    report = desk.machine.markers_written
    assert report("x", 5, {P0: None, P1: NOT_NOW}, desk.now) == []
    assert report("x", 5, {P0: NOT_NOW, P1: NOT_NOW}, desk.now) == []
    desk.carry_out(report("x", 5, {P1: None}, desk.now))
    assert desk.state is TransactionState.COMPLETE_COMMIT


def test_reports_of_other_transactions_say_nothing() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    report = desk.machine.markers_written
    assert report("x", 4, {P0: None}, desk.now) == []
    desk.end(50, 4, committed=True)
    assert report("x", 4, {P0: None}, desk.now) == []
    assert report("y", 5, {P0: None}, desk.now) == []
    assert desk.state is TransactionState.PREPARE_COMMIT


def test_a_transaction_is_completed_once() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    append = desk.machine.markers_written("x", 4, {P0: None}, desk.now)
    assert desk.machine.markers_written("x", 4, {P0: None}, desk.now) == []
    desk.carry_out(append)
    assert desk.state is TransactionState.COMPLETE_COMMIT


def test_a_completion_that_could_not_be_written_is_tried_again() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.end(50, 4, committed=True)
    desk.refuses = UNAVAILABLE
    desk.marked()
    desk.tick(100)
    assert desk.state is TransactionState.PREPARE_COMMIT
    desk.refuses = None
    desk.tick(200)
    assert desk.state is TransactionState.COMPLETE_COMMIT
    assert not desk.markers
