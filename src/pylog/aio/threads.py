"""A few threads for calls that wait in the thread that makes them, so that a loop does not.

These calls are rare, and each ends: to open and to close a log, to ask what an admin asks, to begin with a
transactional id, and to end a transaction. They are the synchronous ones: as rounds each would be a second text.

The interpreter ends when the calls have that were begun.
"""

import asyncio
import atexit
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from pylog.runtime.pool import Pool

P = ParamSpec("P")
T = TypeVar("T")

THREADS_MAX = 4

_open: WeakSet["Threads"] = WeakSet()


class Threads:
    """The threads of one log. They begin with the calls that need them, and end with `close`.

    The first call raises ThreadsExhausted where no thread can be had: it is not made. Later ones wait for the threads
    that there are.
    """

    def __init__(self) -> None:
        self._pool = Pool("pylog-aio", THREADS_MAX)
        self._is_closed = False
        _open.add(self)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The outcome of a call. It goes on where the caller is cancelled: nothing is left half done."""
        return await asyncio.shield(asyncio.wrap_future(self._submit(partial(function, *args, **kwargs))))

    async def make(self, function: Callable[[], T], undo: Callable[[T], object]) -> T:
        """The outcome of a call that makes something; `undo` is called with it where the caller is cancelled."""
        made = self._submit(function)
        try:
            return await asyncio.shield(asyncio.wrap_future(made))
        except asyncio.CancelledError:
            self._pool.submit(lambda: undo(made.result()))
            self.close()
            raise

    def _submit(self, function: Callable[[], T]) -> Future[T]:
        call: Future[T] = Future()
        self._pool.submit(partial(_make, call, function))
        if self._is_closed:
            # A call of a closed log, which raises that it is: its thread is not to stay.
            self._pool.close()
        return call

    def close(self) -> None:
        """Let the threads end when their calls have, and those of later calls, too."""
        self._is_closed = True
        self._pool.close()

    def finish(self) -> None:
        """Wait until their calls have ended."""
        for thread in self._pool.close():
            thread.join()

    def __del__(self) -> None:
        self.close()


def _make(call: Future[T], function: Callable[[], T]) -> None:
    if call.set_running_or_notify_cancel():
        try:
            call.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is for the caller
            call.set_exception(error)


@atexit.register
def _finish_all() -> None:
    for threads in list(_open):
        threads.finish()
