"""The open transactions that take too long."""

from collections.abc import Iterable

from pylog.coordinator.effects import Now
from pylog.coordinator.transaction.state import Transaction, TransactionState


class Timeouts:
    """The open transactions of one coordinator, and since when it has looked at each. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int, int], int] = {}
        """The tick of the first look, by name, epoch and start."""

    def late(self, transactions: Iterable[tuple[str, Transaction]], now: Now) -> list[str]:
        """The open transactions that take too long: by the wall clock, as it stands in the log, or, where that was set
        back, by the time that went by since the first look. (Kafka would wait as long.)
        """
        before, self._seen = self._seen, {}
        late = []
        for name, known in transactions:
            if known.state is not TransactionState.ONGOING:
                continue
            key = (name, known.producer_epoch, known.start_ms)
            since = self._seen[key] = before.get(key, now.tick)
            if known.timeout_ms < max(now.wall - known.start_ms, now.tick - since):
                late.append(name)
        return late
