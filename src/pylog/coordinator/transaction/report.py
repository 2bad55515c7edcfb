"""The answers to ListTransactions and DescribeTransactions (KIP-664).

A transaction is open from its first partition on until all of them have their markers. The filter by duration takes the
time since the last start where none is open, and keeps an id that never had one, as Kafka does
(TransactionStateManager.listTransactionStates).
"""

from collections.abc import Mapping

from pylog.coordinator.patterns import WORK_MAX, matcher
from pylog.coordinator.transaction.state import NO_TIME, Transaction
from pylog.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdNotFound
from pylog.protocol.messages import (
    DescribedTransaction,
    DescribedTransactions,
    DescribeTransactions,
    ListedTransaction,
    ListedTransactions,
    ListTransactions,
)


def listed(transactions: Mapping[str, Transaction], message: ListTransactions, wall_ms: int) -> ListedTransactions:
    """The transactions that fit every filter of the message."""
    try:
        matches, steps = matcher(message.transactional_id_pattern or "")
        if message.transactional_id_pattern and steps * sum(map(len, transactions)) > WORK_MAX:
            raise InvalidRegularExpression(f"{steps} steps are too many for {len(transactions)} transactional ids")
    except InvalidRegularExpression as error:
        return ListedTransactions(error=error.with_traceback(None))

    def fits(transactional_id: str, known: Transaction) -> bool:
        return (
            (not message.states or known.state.title in message.states)
            and (not message.producer_ids or known.producer_id in message.producer_ids)
            and (message.duration_ms < 0 or wall_ms - known.start_ms > message.duration_ms)
            and (not message.transactional_id_pattern or matches(transactional_id))
        )

    return ListedTransactions(
        [
            ListedTransaction(transactional_id, known.producer_id, known.state.title)
            for transactional_id, known in transactions.items()
            if fits(transactional_id, known)
        ]
    )


def described(transactions: Mapping[str, Transaction], message: DescribeTransactions) -> DescribedTransactions:
    """Each transactional id of the message, in its order."""
    return DescribedTransactions([_described(name, transactions.get(name)) for name in message.transactional_ids])


def _described(transactional_id: str, known: Transaction | None) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(transactional_id, InvalidRequest("a transactional id has at least one character"))
    if known is None:
        error = TransactionalIdNotFound(f"{transactional_id}: no such transactional id is known here")
        return DescribedTransaction(transactional_id, error)
    return DescribedTransaction(
        transactional_id,
        state=known.state.title,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        timeout_ms=known.timeout_ms,
        start_time_ms=known.start_ms if known.state.is_open else NO_TIME,
        partitions=list(known.partitions),
    )
