"""The indexes of a segment: `sparse` finds an offset or a time in it, `transactions` the aborted transactions.

    .index       8 bytes an entry    sparse.OffsetIndex               offset -> position of its batch
    .timeindex  12 bytes an entry    sparse.TimeIndex                 timestamp -> offset
    .txnindex   34 bytes an entry    transactions.TransactionIndex    aborted transactions, by their markers

None is ever the truth: each can be made anew from the log.
"""

from pylog.index.sparse import OffsetIndex, TimeIndex, Vouch
from pylog.index.transactions import AbortedTxn, TransactionIndex

__all__ = ["AbortedTxn", "OffsetIndex", "TimeIndex", "TransactionIndex", "Vouch"]
