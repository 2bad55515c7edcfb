"""AddPartitionsToTxn: partitions join, and verification says which did."""

import pytest

from pylog.coordinator.transaction.state import TransactionState
from pylog.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidPidMapping,
    NotCoordinator,
    NotLeaderOrFollower,
    ProducerFenced,
    PylogError,
    RecordTooLarge,
    TransactionAbortable,
    UnknownServer,
)
from support.transaction_desk import P0, P1, T0, UNAVAILABLE, Desk, known

IDLE = [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]


@pytest.mark.parametrize("state", IDLE)
def test_the_first_partition_begins_a_transaction(state: TransactionState) -> None:
    desk = Desk(known(state, client_version=0))
    desk.wall_ms += 5
    assert desk.join(50, 4, P0) is None
    assert (desk.state, desk.x.partitions, desk.x.start_ms, desk.x.client_version) == (
        TransactionState.ONGOING,
        (P0,),
        T0 + 5,
        2,
    )


def test_more_partitions_join_and_the_transaction_keeps_its_start() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.wall_ms += 5
    assert desk.join(50, 4, P1, P0) is None
    assert (desk.x.partitions, desk.x.start_ms, desk.x.last_update_ms) == ((P0, P1), T0, T0 + 5)


def test_a_partition_that_has_joined_needs_no_record() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    assert desk.join(50, 4, P0) is None
    assert not desk.appends


def test_no_partitions_begin_nothing() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    assert desk.join(50, 4) is None
    assert desk.state is TransactionState.EMPTY


@pytest.mark.parametrize("verify_only", [False, True])
def test_partitions_of_another_producer_are_refused(verify_only: bool) -> None:
    desk = Desk(known(TransactionState.ONGOING))
    assert Desk().join(50, 4, P0, verify_only=verify_only) is InvalidPidMapping
    assert desk.join(51, 4, P0, verify_only=verify_only) is InvalidPidMapping
    assert desk.join(50, 3, P0, verify_only=verify_only) is ProducerFenced
    assert desk.join(50, 5, P0, verify_only=verify_only) is ProducerFenced


@pytest.mark.parametrize("verify_only", [False, True])
@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_no_partition_joins_a_decided_transaction(state: TransactionState, verify_only: bool) -> None:
    assert Desk(known(state)).join(50, 4, P0, verify_only=verify_only) is ConcurrentTransactions


def test_verification_says_of_each_partition_whether_it_joined() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    assert desk.join(50, 4, P0, P1, verify_only=True) == {P0: None, P1: TransactionAbortable}
    assert not desk.appends


@pytest.mark.parametrize("state", IDLE)
def test_without_a_transaction_no_partition_has_joined(state: TransactionState) -> None:
    assert Desk(known(state)).join(50, 4, P0, verify_only=True) is TransactionAbortable


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UNAVAILABLE, CoordinatorNotAvailable),
        (NotLeaderOrFollower("moved"), NotCoordinator),
        (RecordTooLarge("so many partitions"), UnknownServer),
    ],
)
def test_a_partition_that_could_not_be_written_did_not_join(error: PylogError, told: type) -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.refuses = error
    assert desk.join(50, 4, P0, P1) is told
    desk.refuses = None
    assert desk.join(50, 4, P0, verify_only=True) is TransactionAbortable
    assert desk.join(50, 4, P0) is None
