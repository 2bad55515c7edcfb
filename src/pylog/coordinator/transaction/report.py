"""The answers to ListTransactions and DescribeTransactions (KIP-664).

A transaction is open from its first partition on until all of them have their markers. The filter by duration takes the
time since the last start where none is open, and keeps an id that never had one, as Kafka does
(TransactionStateManager.listTransactionStates).
"""

from collections.abc import Mapping

from pylog.coordinator.patterns import WORK_MAX, matcher
from pylog.coordinator.transaction.state import NO_TIME, Transaction
from pylog.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdNotFound
from pylog.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from pylog.record import by_topic

Listed = ListTransactionsResponse.TransactionState
Described = DescribeTransactionsResponse.TransactionState


def listed(
    transactions: Mapping[str, Transaction], request: ListTransactionsRequest, wall_ms: int
) -> ListTransactionsResponse:  # fmt: skip
    """The transactions that fit every filter of the request."""
    pattern = request.transactional_id_pattern
    try:
        matches, steps = matcher(pattern or "")
        if pattern and steps * sum(map(len, transactions)) > WORK_MAX:
            raise InvalidRegularExpression(f"{steps} steps are too many for {len(transactions)} transactional ids")
    except InvalidRegularExpression as error:
        return ListTransactionsResponse(error=error.with_traceback(None))

    def fits(transactional_id: str, known: Transaction) -> bool:
        return (
            (not request.state_filters or known.state.title in request.state_filters)
            and (not request.producer_id_filters or known.producer_id in request.producer_id_filters)
            and (request.duration_filter < 0 or wall_ms - known.start_ms > request.duration_filter)
            and (not pattern or matches(transactional_id))
        )

    return ListTransactionsResponse(
        transaction_states=[
            Listed(
                transactional_id=transactional_id, producer_id=known.producer_id, transaction_state=known.state.title
            )
            for transactional_id, known in transactions.items()
            if fits(transactional_id, known)
        ]
    )


def described(
    transactions: Mapping[str, Transaction], request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:  # fmt: skip
    """Each transactional id of the request, in its order."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(name, transactions.get(name)) for name in request.transactional_ids]
    )


def _described(transactional_id: str, known: Transaction | None) -> Described:
    if not transactional_id:
        error = InvalidRequest("a transactional id has at least one character")
        return Described(transactional_id=transactional_id, error=error)
    if known is None:
        absent = TransactionalIdNotFound(f"{transactional_id}: no such transactional id is known here")
        return Described(transactional_id=transactional_id, error=absent)
    return Described(
        transactional_id=transactional_id,
        transaction_state=known.state.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms if known.state.is_open else NO_TIME,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            Described.TopicData(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(known.partitions).items()
        ],
    )
