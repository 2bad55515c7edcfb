"""Where the calls of one consumer wait in a loop, all at once.

It knows the requests of the consumer, and not its handle: that may be dropped while the requests live on.
"""

import asyncio
from contextlib import suppress

from pylog.client.consumer.pending_requests import PendingRequests
from pylog.runtime.rounds import Pause


class Bell:
    """Wakes the calls that wait when an answer has come. For one loop, but for the ring itself."""

    def __init__(self, requests: PendingRequests) -> None:
        self._requests = requests
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        requests.listener = self._rung

    async def pause(self, pause: Pause) -> None:
        """Wait for what a round has asked for. Raises Closed where the consumer was closed meanwhile."""
        if not isinstance(pause, int | float):
            await pause
            return
        requests = self._requests
        if requests.take_rings():
            return
        requests.hurry()
        loop = self._loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.add(waiter)
        timer = loop.call_later(pause / 1000, _end, waiter)
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
        for waiter in self._waiters:
            _end(waiter)


def _end(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
