"""Syncs that nothing waits for: what was appended in transactions, and their markers."""

from collections.abc import Callable, Iterator

from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WHOLE


class LazySyncs:
    """When each partition is due for a sync. `wake` is told of a time at which there is something to do."""

    def __init__(self, clock: Clock, wake: Callable[[int], object]) -> None:
        self._clock = clock
        self._wake = wake
        self._due: dict[Leader, int] = {}
        self._taken: set[Leader] = set()

    def __contains__(self, leader: Leader) -> bool:
        """True where a sync of this partition is due later, or under way."""
        return leader in self._due or leader in self._taken

    def note(self, leader: Leader, delay_ms: int) -> None:
        """Let a partition be synced within so many ms; an earlier time stays."""
        known = self._due.get(leader)
        if known is not None and (delay_ms or known <= self._clock.tick_ms()):
            return
        with WHOLE:
            due = self._clock.tick_ms() + delay_ms
            self._due[leader] = due
            self._wake(due)

    @property
    def due_ms(self) -> int | None:
        """The earliest time that was noted."""
        return min(self._due.copy().values(), default=None)

    def due(self, now_ms: int) -> Iterator[Leader]:
        """Take those that are due, one by one, to be synced: an append from now on is noted again."""
        for leader in [leader for leader, due in self._due.copy().items() if due <= now_ms]:
            self._taken.add(leader)
            self._due.pop(leader, None)
            try:
                yield leader
            finally:
                self._taken.discard(leader)
