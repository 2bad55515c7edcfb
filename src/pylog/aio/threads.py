"""A few threads for calls that wait in the thread that makes them, so that a loop does not.

These calls are rare, and each ends: to open and to close a log, to ask what an admin asks, to begin with a
transactional id, and to end a transaction. They are the synchronous ones: as rounds each would be a second text.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS_MAX = 4


class Threads:
    """The threads of one log. They begin with the calls that need them, and end with `close`."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS_MAX, "pylog-aio")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The outcome of a call. It goes on where the caller is cancelled: nothing is left half done."""
        begun = asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))
        return await asyncio.shield(begun)

    async def make(self, function: Callable[[], T], undo: Callable[[T], object]) -> T:
        """The outcome of a call that makes something; `undo` is called with it where the caller is cancelled."""
        made = self._pool.submit(function)
        try:
            return await asyncio.shield(asyncio.wrap_future(made))
        except asyncio.CancelledError:
            self._pool.submit(_undo_made, made.result, undo)
            self.close()
            raise

    def close(self) -> None:
        """Let the threads end when their calls have."""
        self._pool.shutdown(wait=False)


def _undo_made(result: Callable[[], T], undo: Callable[[T], object]) -> None:
    undo(result())
