"""The deadlines of groups: one a key, and the action at each.

Sessions are put off with every heartbeat and nearly never end, so putting off is cheap: it changes the deadline and
leaves the heap alone. An entry of the heap that comes up too early goes back with the real time; one whose deadline was
cancelled, or set again for an earlier time, is dropped. So the heap has one entry a deadline, and a few stale ones.
"""

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from pylog.coordinator.group.effects_builder import EffectsBuilder

Action = Callable[[EffectsBuilder], None]


@dataclass(slots=True)
class _Deadline:
    due: int
    queued: int  # where the heap has it: never later than `due`
    order: int
    action: Action


class GroupTimers:
    """Deadlines in ms of the tick clock."""

    def __init__(self) -> None:
        self._set: dict[Hashable, _Deadline] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = 0

    def set(self, key: Hashable, due: int, action: Action) -> None:
        """Do `action` at `due`, instead of the action of this key before."""
        found = self._set.get(key)
        if found is not None and found.queued <= due:
            found.due, found.action = due, action
            return
        self._order += 1
        self._set[key] = _Deadline(due, due, self._order, action)
        heapq.heappush(self._heap, (due, self._order, key))

    def __contains__(self, key: Hashable) -> bool:
        """True if there is a deadline for this key."""
        return key in self._set

    def cancel(self, key: Hashable) -> None:
        """Do nothing for this key."""
        self._set.pop(key, None)

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline, or None."""
        while self._heap:
            due, order, key = self._heap[0]
            found = self._set.get(key)
            if found is None or found.order != order:
                heapq.heappop(self._heap)
            elif found.due > due:
                found.queued = found.due
                heapq.heapreplace(self._heap, (found.due, order, key))
            else:
                return due
        return None

    def pop(self, tick_ms: int) -> Action | None:
        """The action that is due, the earliest first; None when nothing is due."""
        due = self.next_ms
        if due is None or due > tick_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._set.pop(key).action
