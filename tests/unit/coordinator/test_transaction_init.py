"""InitProducerId: who starts fences its elders, and who asks again is known by what it has."""

import pytest

from pylog.coordinator.transaction.state import EPOCH_LAST, EPOCH_MAX, TransactionState
from pylog.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTxnTimeout,
    KafkaStorage,
    NotCoordinator,
    ProducerFenced,
)
from pylog.protocol.messages import Session
from support.messages import init_producer_id, producer_id_given
from support.transaction_desk import P0, T0, UNAVAILABLE, Desk, known


def test_a_new_transactional_id_gets_a_producer_id_and_epoch_0() -> None:
    desk = Desk()
    assert desk.init() == producer_id_given(None, 1001, 0)
    assert (desk.state, desk.x.timeout_ms, desk.x.start_ms, desk.x.last_update_ms) == (
        TransactionState.EMPTY,
        60_000,
        -1,
        T0,
    )
    assert desk.x.previous_producer_id == 1001


def test_a_new_transactional_id_takes_no_part_in_what_a_producer_expects() -> None:
    """Its id was forgotten: what it has is worth nothing, and it is fenced by nobody."""
    assert Desk().init(77, 3) == producer_id_given(None, 1001, 0)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_the_next_producer_gets_the_next_epoch_and_its_own_timeout(state: TransactionState) -> None:
    desk = Desk(known(state))
    assert desk.init(timeout_ms=5) == producer_id_given(None, 50, 5)
    assert (desk.state, desk.x.timeout_ms, desk.x.start_ms, desk.x.client_version) == (TransactionState.EMPTY, 5, -1, 2)


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_decided_transaction_is_completed_first(state: TransactionState) -> None:
    desk = Desk(known(state))
    assert isinstance(desk.init().error, ConcurrentTransactions)
    desk.marked()
    assert desk.init() == producer_id_given(None, 50, 5)


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    assert isinstance(desk.init().error, ConcurrentTransactions)
    assert (desk.state, desk.x.producer_epoch) == (TransactionState.PREPARE_ABORT, 5)
    assert isinstance(desk.init().error, ConcurrentTransactions)
    assert not desk.marked().committed
    assert desk.init() == producer_id_given(None, 50, 6)
    assert isinstance(desk.end(50, 4, committed=True).error, ProducerFenced)


@pytest.mark.parametrize("epoch", [3, 5])
def test_an_older_producer_that_names_its_epoch_aborts_nothing(epoch: int) -> None:
    desk = Desk(known(TransactionState.ONGOING))
    assert isinstance(desk.init(50, epoch).error, ProducerFenced)
    assert desk.state is TransactionState.ONGOING


def test_a_producer_with_the_current_epoch_aborts_its_own_transaction() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    assert isinstance(desk.init(50, 4).error, ConcurrentTransactions)
    desk.marked()
    assert desk.init(50, 4) == producer_id_given(None, 50, 5)


def test_a_repetition_that_comes_late_does_not_abort_what_was_begun_since() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.init(50, 4)
    desk.join(50, 5, P0)
    assert isinstance(desk.init(50, 4).error, ProducerFenced)
    assert desk.state is TransactionState.ONGOING


def test_a_producer_with_a_new_id_waits_until_that_is_logged() -> None:
    desk = Desk(known(TransactionState.ONGOING, EPOCH_LAST))
    ended = desk.end(50, EPOCH_LAST, committed=True)
    assert isinstance(desk.init(ended.producer_id, ended.producer_epoch).error, ConcurrentTransactions)
    desk.marked()
    assert desk.init(ended.producer_id, ended.producer_epoch) == producer_id_given(None, 1001, 1)


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.COMPLETE_ABORT])
def test_used_up_epochs_give_another_producer_id(state: TransactionState) -> None:
    desk = Desk(known(state, EPOCH_LAST))
    assert desk.init() == producer_id_given(None, 1001, 0)
    assert desk.x.previous_producer_id == 50


def test_an_open_transaction_at_the_last_epoch_goes_on_with_another_producer_id() -> None:
    desk = Desk(known(TransactionState.ONGOING, EPOCH_LAST))
    assert isinstance(desk.init().error, ConcurrentTransactions)
    assert (desk.x.producer_epoch, desk.x.next_producer_id) == (EPOCH_MAX, 1001)
    assert desk.marked().producer_epoch == EPOCH_MAX
    assert (desk.x.producer_id, desk.x.producer_epoch) == (1001, 0)
    assert desk.init() == producer_id_given(None, 1001, 1)


def test_a_producer_with_the_current_epoch_gets_a_higher_one() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    assert desk.init(50, 4) == producer_id_given(None, 50, 5)
    assert desk.init(50, 4) == producer_id_given(None, 50, 5)
    assert isinstance(desk.init(50, 3).error, ProducerFenced)
    assert isinstance(desk.init(50, 6).error, ProducerFenced)


def test_a_repeated_init_after_another_producer_started_is_fenced() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.init(50, 4)
    desk.init()
    assert isinstance(desk.init(50, 4).error, ProducerFenced)


def test_a_timed_out_producer_goes_on_with_the_epoch_of_the_abort() -> None:
    desk = Desk(known(TransactionState.ONGOING, timeout_ms=1))
    desk.tick(10_000)
    desk.marked()
    assert desk.init(50, 4) == producer_id_given(None, 50, 5)


def test_a_new_coordinator_does_not_know_the_last_request() -> None:
    """That is not in the log. Kafka fences such a producer, too."""
    desk = Desk(known(TransactionState.EMPTY))
    desk.init(50, 4)
    assert isinstance(Desk(("x", desk.x)).init(50, 4).error, ProducerFenced)


def test_another_producer_id_is_fenced() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    assert isinstance(desk.init(49, 4).error, ProducerFenced)


def test_a_producer_that_used_the_last_epoch_may_ask_again() -> None:
    desk = Desk(known(TransactionState.EMPTY, EPOCH_LAST))
    assert desk.init(50, EPOCH_LAST) == producer_id_given(None, 1001, 0)
    assert desk.init(50, EPOCH_LAST) == producer_id_given(None, 1001, 0)
    assert isinstance(desk.init(50, EPOCH_LAST - 1).error, ProducerFenced)


def test_at_the_last_epoch_only_its_producer_gets_another_id() -> None:
    desk = Desk(known(TransactionState.EMPTY, EPOCH_LAST))
    assert isinstance(desk.init(50, EPOCH_LAST - 1).error, ProducerFenced)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_the_timeout_has_bounds(timeout_ms: int) -> None:
    assert isinstance(Desk().init(timeout_ms=timeout_ms).error, InvalidTxnTimeout)


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_the_bounds_of_the_timeout_are_allowed(timeout_ms: int) -> None:
    assert Desk().init(timeout_ms=timeout_ms).error is None


@pytest.mark.parametrize("name", [None, "", "x" * 40_000, "\ud800"])
def test_an_invalid_transactional_id_is_refused(name: str | None) -> None:
    assert isinstance(Desk().ask(init_producer_id(name)).error, InvalidRequest)


@pytest.mark.parametrize("expected", [(50, -1), (-1, 4)])
def test_a_producer_id_without_an_epoch_is_refused(expected: tuple[int, int]) -> None:
    assert isinstance(Desk().init(*expected).error, InvalidRequest)


def test_an_init_without_producer_ids_is_refused() -> None:
    desk = Desk()
    desk.no_ids = KafkaStorage("the file of producer ids")
    assert isinstance(desk.init().error, NotCoordinator)
    assert "x" not in desk.machine.transactions


def test_a_request_waits_while_a_step_is_being_logged() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    message = init_producer_id("x")
    (append,) = desk.machine.handle(message, Session(), 1, desk.now)
    assert isinstance(desk.init().error, ConcurrentTransactions)
    assert desk.join(50, 4, P0) is ConcurrentTransactions
    assert isinstance(desk.end(50, 4, committed=False).error, ConcurrentTransactions)
    assert desk.carry_out([append]) == {1: producer_id_given(None, 50, 5)}


def test_an_init_that_could_not_be_written_did_not_happen() -> None:
    desk = Desk(known(TransactionState.EMPTY))
    desk.refuses = UNAVAILABLE
    assert isinstance(desk.init().error, CoordinatorNotAvailable)
    assert desk.x.producer_epoch == 4
    desk.refuses = None
    assert desk.init() == producer_id_given(None, 50, 5)
