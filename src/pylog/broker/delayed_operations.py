"""Answers that wait for a partition to reach an offset, or for their time to be up.

A data structure without a thread and a clock; it completes nothing. The broker asks it which items a new offset or a
new time releases, and answers them outside its lock.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")
GONE_MAX = 1000
"""How many items that have left the heaps may name, besides as many as there are."""


class DelayedOperations(Generic[T]):
    """Items waiting under keys, each for an offset of its key, all with a deadline. An item may wait under several
    keys.

    An item leaves when it is released (`reached`, `expired`, `drain`) or removed, and is given out once. Heaps that
    still name it skip its ticket later.
    """

    def __init__(self) -> None:
        self._tickets = count()
        self.items: dict[int, T] = {}
        """The waiting items, by ticket; read to see whether there are any."""
        self._waiting: dict[Hashable, list[tuple[int, int]]] = {}
        """Heaps of offset and ticket."""
        self._deadlines: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.items)

    def add(self, item: T, wants: list[tuple[Hashable, int]], deadline_ms: int) -> int:
        """Let `item` wait until one of `wants` (key, offset) is reached or the deadline has come; gives its ticket."""
        ticket = next(self._tickets)
        self.items[ticket] = item
        for key, offset in wants:
            waiting = self._waiting.setdefault(key, [])
            while waiting and waiting[0][1] not in self.items:
                heappop(waiting)
            heappush(waiting, (offset, ticket))
        heappush(self._deadlines, (deadline_ms, ticket))
        if len(self._deadlines) > 2 * len(self.items) + GONE_MAX:
            self._forget_gone()
        return ticket

    def _forget_gone(self) -> None:
        """Take out of the heaps what has left: behind an item with a far deadline it would stay as long as that."""
        self._deadlines = [entry for entry in self._deadlines if entry[1] in self.items]
        heapify(self._deadlines)
        for key, entries in list(self._waiting.items()):
            self._waiting[key] = here = [entry for entry in entries if entry[1] in self.items]
            heapify(here)
            if not here:
                del self._waiting[key]

    def has(self, key: Hashable) -> bool:
        """True where an item waits under this key."""
        return any(ticket in self.items for _, ticket in self._waiting.get(key, ()))

    def remove(self, ticket: int) -> bool:
        """Take an item out that has not been released; whether it was there."""
        return self.items.pop(ticket, None) is not None

    def reached(self, *reached: tuple[Hashable, int]) -> list[T]:
        """Release the items under these keys that wait for an offset not above theirs, lowest first."""
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
        """Release the items whose deadline has come."""
        items = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            ticket = heappop(self._deadlines)[1]
            if ticket in self.items:
                items.append(self.items.pop(ticket))
        return items

    def hasten(self, deadline_ms: int) -> None:
        """Let every item that waits now expire at `deadline_ms` at the latest."""
        for ticket in self.items:
            heappush(self._deadlines, (deadline_ms, ticket))

    def drain(self) -> list[T]:
        """Release every item: the node goes away."""
        items, self.items = list(self.items.values()), {}
        self._waiting.clear()
        self._deadlines.clear()
        return items

    @property
    def next_deadline(self) -> int | None:
        """The earliest time at which `expired` has something to give; None while nothing waits."""
        while self._deadlines and self._deadlines[0][1] not in self.items:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
