"""From a message to its answer, and the change of the log that has to come first.

    InitProducerId, AddPartitionsToTxn, EndTxn    `rules` decide: a change, None (it is so already), or an error
    ListTransactions, DescribeTransactions        `report` reads

Nothing here changes a state. An id is closed while a step of it is on its way, while its markers may not be durable,
and until what hangs of it after a crash is ended: then its producer asks again.
"""

from typing import NamedTuple

from pylog.config import NodeConfig
from pylog.coordinator.effects import NewProducerId, Now
from pylog.coordinator.transaction import report, rules
from pylog.coordinator.transaction.changes import Change, ended, unavailable
from pylog.coordinator.transaction.records import key_of
from pylog.coordinator.transaction.rules import TransactionUpdate
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.coordinator.transaction.states import TransactionStates
from pylog.errors import ConcurrentTransactions, InvalidRequest, PylogError
from pylog.protocol.messages import NO_EPOCH
from pylog.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    PartitionsToAdd,
)


class Outcome(NamedTuple):
    """The answer to a message."""

    answer: object
    change: Change | None = None
    """The change that it waits for; None: it is true now."""
    is_lazy: bool = False
    """True where the change need not be safe."""


class Requests:
    """The requests to one coordinator."""

    def __init__(self, states: TransactionStates, config: NodeConfig, new_producer_id: NewProducerId) -> None:
        self._states = states
        self._config = config
        self._new_producer_id = new_producer_id

    def outcome(self, message: object, now: Now, *, is_closed: bool) -> Outcome:
        """The answer to a message. Raises TypeError: not a message of a transaction coordinator."""
        match message:
            case EndTxnRequest():
                return self._end(message, now, is_closed=is_closed)
            case InitProducerIdRequest():
                return self._init(message, now, is_closed=is_closed)
            case PartitionsToAdd():
                return self._add_partitions(message, now, is_closed=is_closed)
            case ListTransactionsRequest():
                return Outcome(report.listed(dict(self._states.items()), message, now.wall))
            case DescribeTransactionsRequest():
                return Outcome(report.described(dict(self._states.items()), message))
        raise TypeError(f"a transaction coordinator does not know {type(message).__name__}")

    def _init(self, message: InitProducerIdRequest, now: Now, *, is_closed: bool) -> Outcome:
        name = message.transactional_id or ""
        try:
            result = self._initialised(name, message, now, is_closed=is_closed)
        except PylogError as error:  # there is no producer id to give
            result = unavailable(error)
        if not isinstance(result, TransactionUpdate):
            return Outcome(message.refused(self._explained(name, result)))
        last = result.states[-1]
        if last.state is TransactionState.EMPTY:
            answer = InitProducerIdResponse(producer_id=last.producer_id, producer_epoch=last.producer_epoch)
        else:
            answer = message.refused(rules.in_progress(name))  # it is aborted first: the producer asks again
        return Outcome(answer, Change.of(name, result))

    def _initialised(
        self, name: str, message: InitProducerIdRequest, now: Now, *, is_closed: bool
    ) -> TransactionUpdate | PylogError:
        wrong = rules.valid_init(message, self._config.transaction_max_timeout_ms)
        if wrong is not None or is_closed:
            return wrong or rules.in_progress(name)
        known = self._states.get(name)
        if known is not None:
            last_epoch = self._states.last_epochs.get(name, NO_EPOCH)
            return rules.init(known, message, last_epoch, self._new_producer_id, now.wall)
        try:
            key_of(name)
        except ValueError as error:
            return InvalidRequest(f"the transactional id cannot be written down: {error}")
        return TransactionUpdate(
            (Transaction.new(self._new_producer_id(), message.transaction_timeout_ms, now.wall),), NO_EPOCH
        )

    def _add_partitions(self, message: PartitionsToAdd, now: Now, *, is_closed: bool) -> Outcome:
        name = message.transactional_id
        if message.verify_only:
            return Outcome(message.results(rules.verify(self._states.get(name), message)))
        result = self.joined(message, now, is_closed=is_closed)
        if isinstance(result, TransactionUpdate):
            return Outcome(message.results({}), Change.of(name, result))
        return Outcome(message.results({}) if result is None else message.refused(result))

    def joined(self, message: PartitionsToAdd, now: Now, *, is_closed: bool) -> TransactionUpdate | PylogError | None:
        """The step by which partitions join, None: they are all in the transaction, or the error against it."""
        name = message.transactional_id
        if is_closed:
            result: TransactionUpdate | PylogError | None = rules.in_progress(name)
        else:
            result = rules.add_partitions(self._states.get(name), message, now.wall)
        return self._explained(name, result) if isinstance(result, PylogError) else result

    def _end(self, message: EndTxnRequest, now: Now, *, is_closed: bool) -> Outcome:
        name = message.transactional_id
        known = self._states.get(name)
        result: TransactionUpdate | PylogError | None
        try:
            if is_closed:
                result = rules.in_progress(name)
            else:
                result = rules.end(known, message, self._new_producer_id, now.wall)
        except PylogError as error:  # there is no producer id to go on with
            result = unavailable(error)
        if isinstance(result, TransactionUpdate):
            # What was aborted counts nowhere, whether that is known after a crash or not.
            return Outcome(ended(result.states[0]), Change.of(name, result), is_lazy=not message.committed)
        if result is None:  # it was this request that ended it
            assert known is not None
            return Outcome(ended(known))
        return Outcome(message.refused(self._explained(name, result)))

    def _explained(self, name: str, error: PylogError) -> PylogError:
        """The same, with what keeps the transaction before from coming to its end."""
        ending = self._states.endings.get(name)
        if not isinstance(error, ConcurrentTransactions) or ending is None or ending.error is None:
            return error
        return ConcurrentTransactions(f"{error} (a partition refuses what ends it: {ending.error})")
