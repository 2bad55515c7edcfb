"""A producer's transactions, call by call and answer by answer."""

from collections.abc import Callable

import pytest

from pylog import errors
from pylog.client.transaction_manager import TransactionManager, TransactionManagerState, unusable
from pylog.errors import PylogError
from pylog.protocol.messages.transactions import EndTxnRequest
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from support.messages import end_txn, init_producer_id, producer_id_given, txn_ended

GROUP = ConsumerGroupMetadata("g", 3, "member", "instance")
BUSY = errors.ConcurrentTransactions("wait")


def made(state: TransactionManagerState = TransactionManagerState.READY) -> TransactionManager:
    transacting = TransactionManager("etl", 5000)
    if state is TransactionManagerState.UNINITIALIZED:
        return transacting
    assert not transacting.answered(producer_id_given(None, 7, 0))
    if state is not TransactionManagerState.READY:
        transacting.begin()
    if state in (
        TransactionManagerState.COMMITTING,
        TransactionManagerState.ABORTING,
        TransactionManagerState.ABORTABLE_ERROR,
    ):
        transacting.add()
    if state is TransactionManagerState.COMMITTING:
        transacting.commit()
    elif state is TransactionManagerState.ABORTING:
        transacting.abort()
    elif state is TransactionManagerState.ABORTABLE_ERROR:
        transacting.batch_failed(errors.RecordTooLarge("no"))
    elif state is TransactionManagerState.FATAL_ERROR:
        transacting.fail(errors.ProducerFenced("gone"))
    assert transacting.state is state
    return transacting


def test_a_transaction_manager_begins_with_a_producer_id() -> None:
    transacting = made(TransactionManagerState.UNINITIALIZED)
    assert transacting.request() == init_producer_id("etl", 5000, -1, -1)
    assert transacting.answered(producer_id_given(BUSY))
    assert transacting.request() == init_producer_id("etl", 5000, -1, -1)
    assert not transacting.answered(producer_id_given(None, 7, 3))
    assert (transacting.state, transacting.producer_id, transacting.epoch) == (TransactionManagerState.READY, 7, 3)
    assert transacting.request() is None


@pytest.mark.parametrize("committed", [True, False])
def test_every_end_gives_the_epoch_of_the_next(committed: bool) -> None:
    transacting = made(TransactionManagerState.IN_TRANSACTION)
    transacting.add()
    (transacting.commit if committed else transacting.abort)()
    for _ in range(2):
        assert transacting.request() == end_txn("etl", 7, 0, committed)
        assert transacting.answered(txn_ended(BUSY)), "asked twice it is done once"
    assert not transacting.answered(txn_ended(None, 7, 1))
    assert (transacting.state, transacting.epoch) == (TransactionManagerState.READY, 1)
    transacting.begin()
    transacting.add()
    transacting.commit()
    assert transacting.request() == end_txn("etl", 7, 1, True)


def test_a_coordinator_of_version_1_keeps_the_epoch() -> None:
    transacting = made(TransactionManagerState.COMMITTING)
    transacting.answered(txn_ended(None))
    assert (transacting.state, transacting.producer_id, transacting.epoch) == (TransactionManagerState.READY, 7, 0)


@pytest.mark.parametrize("committed", [True, False])
def test_nothing_is_said_of_a_transaction_in_which_nothing_was_sent(committed: bool) -> None:
    transacting = made(TransactionManagerState.IN_TRANSACTION)
    (transacting.commit if committed else transacting.abort)()
    assert transacting.request() is None and transacting.state is TransactionManagerState.READY


CALLS: dict[str, Callable[[TransactionManager], object]] = {
    "begin": TransactionManager.begin,
    "send": TransactionManager.add,
    "commit": TransactionManager.commit,
    "abort": TransactionManager.abort,
    "offsets": lambda transacting: transacting.offsets({}, GROUP),
}
ALLOWED = {
    TransactionManagerState.UNINITIALIZED: set(),
    TransactionManagerState.READY: {"begin"},
    TransactionManagerState.IN_TRANSACTION: {"send", "commit", "abort", "offsets"},
    TransactionManagerState.COMMITTING: {"commit"},
    TransactionManagerState.ABORTING: {"abort"},
    TransactionManagerState.ABORTABLE_ERROR: {"abort"},
    TransactionManagerState.FATAL_ERROR: set(),
}
REFUSALS = {
    TransactionManagerState.UNINITIALIZED: (errors.InvalidTxnState, "was not initialised"),
    TransactionManagerState.READY: (errors.InvalidTxnState, r"begin\(\) a transaction first"),
    TransactionManagerState.IN_TRANSACTION: (errors.InvalidTxnState, r"commit\(\) or abort\(\) it first"),
    TransactionManagerState.COMMITTING: (errors.InvalidTxnState, r"commit\(\) again to hear how it went"),
    TransactionManagerState.ABORTING: (errors.InvalidTxnState, r"abort\(\) again"),
    TransactionManagerState.ABORTABLE_ERROR: (
        errors.TransactionAbortable,
        r"RecordTooLarge: no\): abort\(\) it, and do it again",
    ),
    TransactionManagerState.FATAL_ERROR: (
        errors.ProducerFenced,
        "another producer has taken up transactional id 'etl'",
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", TransactionManagerState)
def test_a_call_that_is_not_allowed_raises_with_advice(state: TransactionManagerState, call: str) -> None:
    transacting = made(state)
    if call in ALLOWED[state]:
        CALLS[call](transacting)
        return
    kind, words = REFUSALS[state]
    with pytest.raises(kind, match=words) as caught:
        CALLS[call](transacting)
    assert caught.value.__cause__ is transacting.error
    assert transacting.state is state


# --- errors of what was sent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [TransactionManagerState.IN_TRANSACTION, TransactionManagerState.COMMITTING])
def test_a_failed_batch_leaves_only_to_abort(state: TransactionManagerState) -> None:
    transacting = made(state)
    transacting.batch_failed(errors.InvalidProducerEpoch("old"))
    assert transacting.state is TransactionManagerState.ABORTABLE_ERROR and transacting.request() is None
    with pytest.raises(errors.TransactionAbortable):
        transacting.check()


def test_a_batch_that_fails_while_it_is_aborted_changes_nothing() -> None:
    transacting = made(TransactionManagerState.ABORTING)
    transacting.batch_failed(errors.RecordTooLarge("no"))
    assert transacting.state is TransactionManagerState.ABORTING
    transacting.check()


@pytest.mark.parametrize(
    "error",
    [errors.ProducerFenced("x"), errors.TransactionalIdAuthorization("x"), errors.InvalidPidMapping("x")],
)
@pytest.mark.parametrize(
    "state",
    [TransactionManagerState.IN_TRANSACTION, TransactionManagerState.ABORTING, TransactionManagerState.ABORTABLE_ERROR],
)
def test_some_errors_are_fatal_and_the_first_stays(state: TransactionManagerState, error: PylogError) -> None:
    transacting = made(state)
    transacting.batch_failed(error)
    transacting.batch_failed(errors.RecordTooLarge("no"))
    transacting.fail(errors.UnknownServer("later"))
    assert (transacting.state, transacting.error) == (TransactionManagerState.FATAL_ERROR, error)
    with pytest.raises(type(error)):
        transacting.check()


# --- errors of the coordinator ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errors.NotCoordinator(""), errors.NetworkError(""), errors.RequestTimedOut("")])
@pytest.mark.parametrize(
    "state",
    [TransactionManagerState.UNINITIALIZED, TransactionManagerState.COMMITTING, TransactionManagerState.ABORTING],
)
def test_a_retriable_error_is_asked_again(state: TransactionManagerState, error: PylogError) -> None:
    transacting = made(state)
    before = transacting.request()
    assert transacting.answered(
        producer_id_given(error) if state is TransactionManagerState.UNINITIALIZED else txn_ended(error)
    )
    assert (transacting.state, transacting.request()) == (state, before)


@pytest.mark.parametrize("error", [errors.ProducerFenced(""), errors.InvalidProducerEpoch("")])
@pytest.mark.parametrize(
    "state",
    [TransactionManagerState.UNINITIALIZED, TransactionManagerState.COMMITTING, TransactionManagerState.ABORTING],
)
def test_a_fenced_producer_is_told_so_for_good(state: TransactionManagerState, error: PylogError) -> None:
    transacting = made(state)
    assert not transacting.answered(
        producer_id_given(error) if state is TransactionManagerState.UNINITIALIZED else txn_ended(error)
    )
    for _ in range(2):
        with pytest.raises(errors.ProducerFenced, match="transaction_timeout_ms=5000"):
            transacting.check()
    assert transacting.request() is None


def test_another_error_is_fatal_and_gives_advice() -> None:
    transacting = made(TransactionManagerState.UNINITIALIZED)
    transacting.answered(producer_id_given(errors.InvalidTxnTimeout("too long")))
    with pytest.raises(errors.InvalidTxnTimeout, match=r"can send no more \(InvalidTxnTimeout: too long\): close it"):
        transacting.begin()
    assert type(unusable(ZeroDivisionError())) is PylogError


def test_a_commit_that_may_be_aborted_is() -> None:
    transacting = made(TransactionManagerState.COMMITTING)
    assert not transacting.answered(txn_ended(errors.TransactionAbortable("do")))
    transacting.abort()
    assert transacting.request() == end_txn("etl", 7, 0, False)


@pytest.mark.parametrize("error", [errors.InvalidPidMapping(""), errors.UnknownProducerId("")])
@pytest.mark.parametrize("state", [TransactionManagerState.COMMITTING, TransactionManagerState.ABORTING])
def test_a_coordinator_that_has_another_id_gives_a_new_one(state: TransactionManagerState, error: PylogError) -> None:
    transacting = made(state)
    assert not transacting.answered(txn_ended(error))
    if state is TransactionManagerState.COMMITTING:
        assert transacting.state is TransactionManagerState.ABORTABLE_ERROR and transacting.request() is None
        transacting.abort()
    assert transacting.request() == init_producer_id("etl", 5000, 7, 0)
    assert not transacting.answered(producer_id_given(None, 8, 0))
    assert (transacting.state, transacting.producer_id, transacting.error) == (TransactionManagerState.READY, 8, None)
    transacting.begin()
    transacting.commit()
    assert transacting.request() is None


# --- offsets ----------------------------------------------------------------------------------------------------------

KEYS = [TopicPartition("t", number) for number in range(3)]
PARTS = {key: OffsetAndMetadata(10 + key.partition) for key in KEYS}


def test_offsets_are_sent_until_all_are_taken() -> None:
    transacting = made(TransactionManagerState.IN_TRANSACTION)
    message = transacting.offsets(PARTS, GROUP)
    assert (message.generation_id, message.member_id, message.group_instance_id) == (3, "member", "instance")
    again = transacting.offsets_answered(message, message.results({KEYS[1]: BUSY, KEYS[2]: BUSY}))
    assert again is not None and again.partitions() == KEYS[1:]
    assert (again.generation_id, again.member_id) == (3, "member")
    assert transacting.offsets_answered(again, again.results({})) is None
    transacting.commit()
    assert isinstance(transacting.request(), EndTxnRequest), "the group may have them"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.IllegalGeneration(""), TransactionManagerState.ABORTABLE_ERROR),
        (errors.FencedInstanceId(""), TransactionManagerState.ABORTABLE_ERROR),
        (errors.OffsetMetadataTooLarge(""), TransactionManagerState.ABORTABLE_ERROR),
        (errors.InvalidPidMapping(""), TransactionManagerState.ABORTABLE_ERROR),
        (errors.ProducerFenced(""), TransactionManagerState.FATAL_ERROR),
        (errors.InvalidProducerEpoch(""), TransactionManagerState.FATAL_ERROR),
        (errors.UnsupportedForMessageFormat(""), TransactionManagerState.FATAL_ERROR),
    ],
)
def test_offsets_that_are_refused_refuse_the_transaction(error: PylogError, state: TransactionManagerState) -> None:
    transacting = made(TransactionManagerState.IN_TRANSACTION)
    message = transacting.offsets(PARTS, GROUP)
    answer = message.results({KEYS[0]: error, KEYS[1]: BUSY, KEYS[2]: errors.UnknownMemberId("")})
    assert transacting.offsets_answered(message, answer) is None
    assert transacting.state is state


def test_offsets_of_which_no_word_comes_were_not_taken() -> None:
    transacting = made(TransactionManagerState.IN_TRANSACTION)
    message = transacting.offsets(PARTS, GROUP)
    answer = message.results({})
    del answer.topics[0].partitions[1:]
    transacting.offsets_answered(message, answer)
    with pytest.raises(errors.TransactionAbortable, match="without a word of t-1"):
        transacting.check()
    transacting = made(TransactionManagerState.IN_TRANSACTION)
    message = transacting.offsets(PARTS, GROUP)
    again = transacting.offsets_answered(message, message.refused(errors.NotCoordinator("")))
    assert again == message
