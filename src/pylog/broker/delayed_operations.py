"""Answers that wait: for a partition to reach an offset, or for their time to be up.

A data structure and no more: it has no thread and no clock, and completes nothing. The broker asks what a new offset or
a new time releases and answers outside its lock.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class DelayedOperations(Generic[T]):
    """Items waiting under keys, each for an offset of its key, all with a deadline. An item may wait under several
    keys.

    An item leaves when it is released: by `reached`, `expired` or `drain`; it is never given out twice. What else it
    waited under forgets it when it comes upon it.
    """

    def __init__(self) -> None:
        self._tickets = count()
        self.items: dict[int, T] = {}
        """What waits, by ticket; read by who asks whether anything does."""
        self._waiting: dict[Hashable, list[tuple[int, int]]] = {}
        """Heaps of offset and ticket."""
        self._deadlines: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.items)

    def add(self, item: T, wants: list[tuple[Hashable, int]], deadline_ms: int) -> None:
        """Let `item` wait until one of `wants` (key, offset) is reached or the deadline has come."""
        ticket = next(self._tickets)
        self.items[ticket] = item
        for key, offset in wants:
            waiting = self._waiting.setdefault(key, [])
            while waiting and waiting[0][1] not in self.items:
                heappop(waiting)
            heappush(waiting, (offset, ticket))
        heappush(self._deadlines, (deadline_ms, ticket))

    def reached(self, *reached: tuple[Hashable, int]) -> list[T]:
        """Release what waits under these keys for an offset not above theirs, lowest first."""
        released = []
        for key, offset in reached:
            waiting = self._waiting.get(key)
            if waiting is None:
                continue
            while waiting and waiting[0][0] <= offset:
                ticket = heappop(waiting)[1]
                if ticket in self.items:
                    released.append(self.items.pop(ticket))
            if not waiting:
                del self._waiting[key]
        return released

    def expired(self, now_ms: int) -> list[T]:
        """Release what has waited long enough."""
        items = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            ticket = heappop(self._deadlines)[1]
            if ticket in self.items:
                items.append(self.items.pop(ticket))
        return items

    def hasten(self, deadline_ms: int) -> None:
        """Let everything that waits now expire at `deadline_ms` at the latest."""
        for ticket in self.items:
            heappush(self._deadlines, (deadline_ms, ticket))

    def drain(self) -> list[T]:
        """Release everything: the node goes away."""
        items, self.items = list(self.items.values()), {}
        self._waiting.clear()
        return items

    @property
    def next_deadline(self) -> int | None:
        """When `expired` has something to give, at the earliest."""
        while self._deadlines and self._deadlines[0][1] not in self.items:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
