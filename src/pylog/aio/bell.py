"""Where the calls of one consumer wait in a loop, all at once.

It knows the requests of the consumer, and not its handle: that may be dropped while the requests live on.

Where many consumers are woken at once, as by a record that all have waited for, or by the times of waits that began
together, the loop wakes a few in each of its rounds (`Turns`): what else is due need not wait for all of them.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import TypeVar
from weakref import WeakKeyDictionary

from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.single_thread import SingleThread
from pylog.runtime.rounds import Pause, Rounds
from pylog.runtime.signals import WHOLE

T = TypeVar("T")

TURNS_MAX = 4
"""So many consumers are woken in one round of a loop. A round of a consumer in which it asks again takes 0.3 ms."""


class Turns:
    """The bells of one loop that are to be heard, in order. For the loop's thread."""

    # It does not know its loop: a loop that is gone shall take it along.

    def __init__(self) -> None:
        self._bells: deque[Bell] = deque()

    def add(self, bell: "Bell") -> None:
        """Have a bell heard when its turn comes."""
        self._bells.append(bell)
        if len(self._bells) == 1:
            asyncio.get_running_loop().call_soon(self._go)

    def _go(self) -> None:
        for _ in range(min(len(self._bells), TURNS_MAX)):
            self._bells.popleft().hear()
        if self._bells:
            asyncio.get_running_loop().call_soon(self._go)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


class Bell:
    """Wakes the calls that wait when an answer has come. For one loop, except the ring itself."""

    def __init__(self, requests: PendingRequests) -> None:
        self._requests = requests
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns: Turns | None = None
        """Of the loop."""
        self._is_heard = True
        """False while it waits for its turn."""
        self._waiters: set[asyncio.Future[None]] = set()
        requests.listener = self._rung

    async def carry_on(self, rounds: Rounds[T], turn: SingleThread) -> T:
        """The answer of a call. Raises in its rounds what ends a wait."""
        error: BaseException | None = None
        while True:
            try:
                with WHOLE, turn:
                    pause = next(rounds) if error is None else rounds.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            error = None
            try:
                await self._pause(pause)
            except GeneratorExit:
                # The loop is gone.
                rounds.close()
                raise
            except BaseException as raised:  # noqa: BLE001 - the call sees it
                error = raised

    async def _pause(self, pause: Pause) -> None:
        """Wait for what a round has asked for. Raises Closed where the consumer was closed meanwhile."""
        if not isinstance(pause, int | float):
            await pause
            return
        requests = self._requests
        if requests.take_rings():
            return
        requests.hurry()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._turns, self._is_heard = _turns.setdefault(loop, Turns()), True
            self._loop = loop
        waiter = loop.create_future()
        self._waiters.add(waiter)
        timer = loop.call_later(pause / 1000, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)
        requests.take_rings()

    def note_change(self) -> None:
        """Let the calls that wait look again: what they wait for may be another thing now."""
        if self._waiters:
            self._requests.ring()

    def _rung(self) -> None:
        loop = self._loop
        if loop is not None:
            # Nothing waits in a loop that was closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._is_heard and self._turns is not None:
            self._is_heard = False
            self._turns.add(self)

    def hear(self) -> None:
        """Wake the calls that wait: its turn has come."""
        self._is_heard = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
