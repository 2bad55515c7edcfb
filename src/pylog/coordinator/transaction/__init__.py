"""The transaction coordinator: the producer that may write under a transactional id, and the ends of its transactions.

One machine for each partition of `__transaction_state` (KIP-98, KIP-890). See `coordinator`.
"""

from pylog.coordinator.transaction.coordinator import TransactionCoordinator
from pylog.coordinator.transaction.settlement import Sighting

__all__ = ["Sighting", "TransactionCoordinator"]
