"""The indexes of a segment: `offsets` finds an offset in it, `times` a time, `transactions` the aborted transactions.

    .index       8 bytes an entry    offsets.OffsetIndex              offset -> position of its batch
    .timeindex  12 bytes an entry    times.TimeIndex                  timestamp -> offset
    .txnindex   34 bytes an entry    transactions.TransactionIndex    aborted transactions, by their markers

None is ever the truth: each can be made anew from the log.
"""

from pylog.index.offsets import OffsetIndex
from pylog.index.sparse import Vouch
from pylog.index.times import TimeIndex
from pylog.index.transactions import AbortedTxn, TransactionIndex

__all__ = ["AbortedTxn", "OffsetIndex", "TimeIndex", "TransactionIndex", "Vouch"]
