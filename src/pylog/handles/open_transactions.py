"""Transactions that are open, for people who end them: with the command, or on a page."""

from pylog.client.admin.transactions import DescribedTransaction, HangingTransaction
from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition

__all__ = ["ONGOING", "abort", "hanging_at"]

ONGOING = "Ongoing"
"""The state of a transaction that is open."""


def abort(log: AnyLog, found: DescribedTransaction) -> None:
    """End an open transaction that was described. Its producer is fenced, as a new one of the same id begins."""
    log.producer(transactional_id=found.transactional_id, transaction_timeout_ms=found.timeout_ms).close()


def hanging_at(log: AnyLog, key: TopicPartition, start_offset: int) -> HangingTransaction | None:
    """The transaction that hangs in a partition since an offset, or None. Raises
    UnknownTopicOrPartition.
    """
    found = log.admin.find_hanging_transactions([key])
    return next((one for one in found if one.start_offset == start_offset), None)
