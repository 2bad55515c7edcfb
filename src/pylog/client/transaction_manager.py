"""The client half of a producer's transactions: the calls that are allowed now, and the requests to the coordinator.

    UNINITIALIZED -> READY -> IN_TRANSACTION -> COMMITTING -> READY
                                   |    \\-----> ABORTING ---> READY
                                   v              ^
                            ABORTABLE_ERROR ------/              anything -> FATAL_ERROR

A machine: calls and answers go in, `request` says what to send next. Transactions are of version 2 (KIP-890): a
partition joins by being written to, a group by its offsets being sent, and the answer to EndTxn has the producer id and
epoch of the next transaction, so that whatever is still on its way belongs to one that has ended.

- A record that could not be delivered, or offsets that were refused, leave one way: to abort.
- An end that was begun is asked for until it is answered, with the same epoch: asked twice it is done once.
- After a fatal error nothing is said any more. (Kafka: TransactionManager.)
"""

import enum
from collections.abc import Mapping
from dataclasses import replace

from pylog.errors import (
    InvalidPidMapping,
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    ProtocolError,
    PylogError,
    TransactionAbortable,
    TransactionalIdAuthorization,
    UnknownProducerId,
    UnsupportedForMessageFormat,
)
from pylog.protocol.messages.offsets import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pylog.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

FENCED = (ProducerFenced, InvalidProducerEpoch)
NOT_KNOWN = (InvalidPidMapping, UnknownProducerId)


class TransactionManagerState(enum.Enum):
    """As in Kafka's TransactionManager."""

    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


class TransactionManager:
    """The transactions of one producer, one after the other. Not thread-safe."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionManagerState.UNINITIALIZED
        self.error: BaseException | None = None
        """The error that led to an error state."""
        self.producer_id = self.epoch = -1
        self._timeout_ms = timeout_ms
        self._has_begun = False
        """True if the coordinator may know of something in this transaction."""
        self._is_unknown = False
        """True if the coordinator has another producer id: it has to give a new one."""

    # --- calls -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction. Raises InvalidTxnState, and the fatal error."""
        self._check(TransactionManagerState.READY, "begin a transaction")
        self.state = TransactionManagerState.IN_TRANSACTION

    def add(self) -> None:
        """Note that something is about to be sent in the transaction. Raises InvalidTxnState, TransactionAbortable."""
        self._check(TransactionManagerState.IN_TRANSACTION, "send")
        self._has_begun = True

    def commit(self) -> None:
        """End the transaction well. Raises InvalidTxnState, TransactionAbortable, and the fatal error."""
        if self.state is not TransactionManagerState.COMMITTING:
            self._check(TransactionManagerState.IN_TRANSACTION, "commit")
            self.state = TransactionManagerState.COMMITTING

    def abort(self) -> None:
        """End the transaction as if it had not been. Raises InvalidTxnState, and the fatal error."""
        if self.state not in (TransactionManagerState.ABORTING, TransactionManagerState.ABORTABLE_ERROR):
            self._check(TransactionManagerState.IN_TRANSACTION, "abort")
        self.state = TransactionManagerState.ABORTING

    def batch_failed(self, error: BaseException) -> None:
        """Note that records of the transaction could not be delivered."""
        if isinstance(error, ProducerFenced | TransactionalIdAuthorization | InvalidPidMapping):
            self.fail(error)
        elif self.state in (TransactionManagerState.IN_TRANSACTION, TransactionManagerState.COMMITTING):
            self._to_abortable(error)

    def offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TxnOffsetCommitRequest:
        """The message that sends these offsets. Raises what `add` does."""
        self.add()
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, group_id=group.group_id, producer_id=self.producer_id,
            producer_epoch=self.epoch, generation_id=group.generation_id, member_id=group.member_id,
            group_instance_id=group.group_instance_id, topics=TxnOffsetCommitRequest.offsets(offsets),
        )  # fmt: skip

    def check(self) -> None:
        """Raise the error that the transaction, or the producer, has come to."""
        if self.state is TransactionManagerState.FATAL_ERROR:
            raise self._fatal()
        if self.state is TransactionManagerState.ABORTABLE_ERROR:
            raise self._abortable()

    def fail(self, error: BaseException) -> None:
        """Enter the fatal state: nothing is possible any more."""
        if self.state is not TransactionManagerState.FATAL_ERROR:
            self.state, self.error = TransactionManagerState.FATAL_ERROR, error

    # --- the coordinator -------------------------------------------------------------------------------------------

    def request(self) -> InitProducerIdRequest | EndTxnRequest | None:
        """The message to send next; None: nothing before another call."""
        if self.state is TransactionManagerState.UNINITIALIZED or (
            self.state is TransactionManagerState.ABORTING and self._is_unknown
        ):
            return InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms,
                producer_id=self.producer_id, producer_epoch=self.epoch,
            )  # fmt: skip
        if self.state in (TransactionManagerState.COMMITTING, TransactionManagerState.ABORTING):
            if self._has_begun:
                is_commit = self.state is TransactionManagerState.COMMITTING
                return EndTxnRequest(
                    transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
                    committed=is_commit,
                )  # fmt: skip
            self._end()
        return None

    def answered(self, answer: InitProducerIdResponse | EndTxnResponse) -> bool:
        """Take the answer to `request`; gives whether to ask again after a while. Errors lead to a state."""
        error = answer.error
        if error is None:
            if answer.producer_id >= 0:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._end()
        elif may_be_asked_again(error):
            return True
        elif isinstance(error, FENCED):
            self.fail(error)
        elif isinstance(answer, EndTxnResponse) and isinstance(error, NOT_KNOWN):
            self._lose_id(error)
        elif isinstance(answer, EndTxnResponse) and isinstance(error, TransactionAbortable):
            self._to_abortable(error)
        else:
            self.fail(error)
        return False

    def offsets_answered(
        self, message: TxnOffsetCommitRequest, answer: TxnOffsetCommitResponse
    ) -> TxnOffsetCommitRequest | None:
        """Take the answer to `offsets`; gives the message to send after a while, or None. Errors lead to a state."""
        left, found = [], message.found(answer)
        for key, part in message.keyed():
            error = found[key].error
            if error is None:
                continue
            if may_be_asked_again(error):
                left.append((key, part))
            elif isinstance(error, (*FENCED, TransactionalIdAuthorization, UnsupportedForMessageFormat)):
                self.fail(error)
            elif isinstance(error, NOT_KNOWN):
                self._lose_id(error)
            else:
                self._to_abortable(error)
        if not left or self.state is not TransactionManagerState.IN_TRANSACTION:
            return None
        return replace(message, topics=message.by_topic(left))

    # --- states ----------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self.state, self.error = TransactionManagerState.READY, None
        self._has_begun = self._is_unknown = False

    def _lose_id(self, error: PylogError) -> None:
        self._is_unknown = True
        if self.state is not TransactionManagerState.ABORTING:
            self._to_abortable(error)

    def _to_abortable(self, error: BaseException) -> None:
        if self.state not in (TransactionManagerState.ABORTABLE_ERROR, TransactionManagerState.FATAL_ERROR):
            self.state, self.error = TransactionManagerState.ABORTABLE_ERROR, error

    def _check(self, state: TransactionManagerState, what: str) -> None:
        self.check()
        if self.state is state:
            return
        hint = {
            TransactionManagerState.READY: "begin() a transaction first",
            TransactionManagerState.IN_TRANSACTION: "a transaction is open: commit() or abort() it first",
            TransactionManagerState.COMMITTING: "its commit was not answered: commit() again to hear how it went",
            TransactionManagerState.ABORTING: "its abort was not answered: abort() again",
        }.get(self.state, "this producer was not initialised")
        raise InvalidTxnState(f"transactional id {self.transactional_id!r}: cannot {what} now; {hint}")

    def _abortable(self) -> PylogError:
        refusal = TransactionAbortable(
            f"transactional id {self.transactional_id!r}: the transaction cannot be committed, as something of it was "
            f"not delivered ({named(self.error)}): abort() it, and do it again"
        )
        refusal.__cause__ = self.error
        return refusal

    def _fatal(self) -> PylogError:
        refusal: PylogError
        if isinstance(self.error, FENCED):
            refusal = ProducerFenced(
                f"another producer has taken up transactional id {self.transactional_id!r}, or a transaction took "
                f"longer than transaction_timeout_ms={self._timeout_ms} ({named(self.error)}): close this producer"
            )
        else:
            refusal = unusable(self.error)
        refusal.__cause__ = self.error
        return refusal


def named(error: BaseException | None) -> str:
    """An error in a message about what came of it."""
    return f"{type(error).__name__}: {error}"


def unusable(error: BaseException | None) -> PylogError:
    """The error that every call raises after a fatal one: of the same class, if that is one of Kafka's."""
    kind = type(error) if isinstance(error, ProtocolError) else PylogError
    return kind(f"this producer can send no more ({named(error)}): close it, see to that, and make a new one")


def may_be_asked_again(error: BaseException) -> bool:
    """True if a coordinator may answer the same message well after a while."""
    return isinstance(error, ProtocolError) and error.retriable
