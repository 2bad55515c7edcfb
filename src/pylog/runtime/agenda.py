"""The work of a loop besides its sockets: the calls that other threads post, and those of a time.

A post costs a list's append, and a byte to a socket pair where the loop may be asleep. What is cancelled is given up at
once, and leaves the heap when it is most of it: connections that come and go do not pile up.
"""

import heapq
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from itertools import count

from pylog.runtime.clock import Clock, MovableClock

Call = Callable[[], object]

WAKES_MAX = 4096
CANCELLED_MAX = 100
"""So many cancelled appointments are no burden."""


class Appointment:
    """A call of a time; None when it was made or cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call


class Agenda:
    """The calls of one loop. `post` is for any thread; all else for the loop's, or for one that keeps the loop from its
    work meanwhile.
    """

    def __init__(self, clock: Clock, selector: selectors.BaseSelector) -> None:
        self._clock = clock
        self.posts: deque[Call] = deque()
        """The posted calls that were not made."""
        self._deadlines: list[tuple[int, int, Appointment]] = []
        self._cancelled = 0
        self._numbers = count()
        self._is_woken = False
        self._ident: int | None = None
        self._waking, self._wake = socket.socketpair()
        for one in (self._waking, self._wake):
            one.setblocking(False)
        selector.register(self._waking, selectors.EVENT_READ, self._drain)
        if isinstance(clock, MovableClock):
            clock.on_move(self._look_again)

    def belongs_here(self) -> None:
        """Note that the loop runs in this thread: what it posts itself wakes nobody."""
        self._ident = threading.get_ident()

    @property
    def is_here(self) -> bool:
        """Whether the caller is the loop's thread. For any thread."""
        return threading.get_ident() == self._ident

    def post(self, call: Call) -> None:
        """Have `call` called in the loop's thread."""
        self.posts.append(call)
        self._wake_up()

    def _wake_up(self) -> None:
        if not self._is_woken and not self.is_here:
            self._is_woken = True
            try:
                self._wake.send(b"\0")
            except OSError:
                # Full, so the loop wakes anyway; or closed, so it has ended.
                return

    def later(self, ms: int, call: Call) -> None:
        """Have `call` called after that time."""
        self.at(self._clock.tick_ms() + ms, call)

    def at(self, tick_ms: int, call: Call) -> Appointment:
        """Have `call` called at that time."""
        appointment = Appointment(call)
        heapq.heappush(self._deadlines, (tick_ms, next(self._numbers), appointment))
        if self._deadlines[0][2] is appointment:
            self._wake_up()
        return appointment

    def cancel(self, appointment: Appointment) -> None:
        """Give up a call whose time has not come."""
        if appointment.call is None:
            return
        appointment.call = None
        self._cancelled += 1
        if self._cancelled > max(CANCELLED_MAX, len(self._deadlines) // 2):
            self._deadlines = [one for one in self._deadlines if one[2].call is not None]
            heapq.heapify(self._deadlines)
            self._cancelled = 0

    @property
    def timeout(self) -> float | None:
        """The seconds that the loop may wait for its sockets; None: as long as it likes."""
        if self.posts:
            return 0.0
        return max(self._deadlines[0][0] - self._clock.tick_ms(), 0) / 1000 if self._deadlines else None

    def call_due(self, now_ms: int) -> None:
        """Make the calls that were posted before this one, and those whose time has come by `now_ms`."""
        self.call_posted()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            self._call_first()

    def call_posted(self) -> None:
        """Make the calls that were posted before this one. For any thread, once the loop has ended."""
        for _ in range(len(self.posts)):
            try:
                call = self.posts.popleft()
            except IndexError:
                # Another thread makes them, too: each is made once.
                return
            call()

    def call_all(self) -> None:
        """Make every call that is left, whatever its time: the loop ends."""
        self.call_posted()
        while self._deadlines:
            self._call_first()

    def call_early(self) -> None:
        """Make the calls of all times now, but not those that come by them."""
        for _, _, appointment in sorted(self._deadlines):
            call = appointment.call
            self.cancel(appointment)
            if call is not None:
                call()

    def _call_first(self) -> None:
        appointment = heapq.heappop(self._deadlines)[2]
        call, appointment.call = appointment.call, None
        if call is None:
            self._cancelled -= 1
        else:
            call()

    def abandon(self) -> None:
        """Close the socket pair in a forked child, and forget the calls: they are its parent's."""
        self.posts.clear()
        self._deadlines.clear()
        self.close()

    def close(self) -> None:
        """Close the socket pair."""
        self._waking.close()
        self._wake.close()

    def _look_again(self) -> None:
        self.post(lambda: None)

    def _drain(self, events: int) -> None:
        self._waking.recv(WAKES_MAX)
        # In this order: a post that comes in between sends no byte, and is taken in this turn.
        self._is_woken = False
