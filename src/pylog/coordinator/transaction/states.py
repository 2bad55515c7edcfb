"""The states of the transactional ids of one coordinator: those in its log, and those ahead of it.

    logged       the replay of the log
    unlogged     a transaction that has begun (Ongoing), or whose markers are all in their partitions (Complete*)
    endings      for each id whose latest record is a Prepare*: the partitions that lack a marker, or a durable one

A beginning and a completion do not have to outlive the process, so neither is written down at once. After a crash, the
open aborts what partitions have of a transaction and the log has not, and writes the markers of a logged decision
again. The next record of the id makes that of either superfluous; else it comes a little later, or with the close.

Invariants: a state is ahead of the log by Ongoing or Complete* alone; a record of the id ends that. No record follows
a Prepare* before the markers of that decision are durable: the decision would be lost with them (`unsafe`).
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pylog.coordinator.transaction.endings import Endings
from pylog.coordinator.transaction.state import Transaction


class TransactionStates:
    """The state of each transactional id. Not thread-safe."""

    def __init__(self) -> None:
        self._logged: dict[str, Transaction] = {}
        self._unlogged: dict[str, Transaction] = {}
        self.logged: Mapping[str, Transaction] = MappingProxyType(self._logged)
        """The replay of the log."""
        self.unlogged: Mapping[str, Transaction] = MappingProxyType(self._unlogged)
        """The states that are ahead of the log."""
        self.endings = Endings()
        self.last_epochs: dict[str, int] = {}
        """The epoch that a producer had before its last step, by which a repeated InitProducerId is known."""

    def get(self, name: str) -> Transaction | None:
        """The state of a transactional id now, in the log or ahead of it."""
        return self._unlogged.get(name) or self._logged.get(name)

    def items(self) -> Iterator[tuple[str, Transaction]]:
        """Each transactional id and its state now, from a copy."""
        return iter((self._logged | self._unlogged).items())

    def replay(self, name: str, transaction: Transaction | None) -> None:
        """Take over a record of the log; None forgets the id."""
        self._unlogged.pop(name, None)
        if transaction is None:
            self._logged.pop(name, None)
            self.last_epochs.pop(name, None)
        else:
            self._logged[name] = transaction
        if transaction is not None and transaction.state.is_prepared:
            self.endings.decided(name, transaction.partitions)
        else:
            self.endings.forget(name)

    def go_ahead(self, name: str, transaction: Transaction) -> None:
        """Let the state of an id be another one than that of the log."""
        self._unlogged[name] = transaction
