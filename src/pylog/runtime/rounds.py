"""A call that waits, cut where it waits: a generator, which a thread or an event loop carries on.

    value = yield from other(...)    a call within the call
    yield ms                         wait for the next event, but no longer than so many milliseconds
    yield awaitable                  foreign code that may be a coroutine, as a listener's: only a loop can wait for it

So one text of a call serves both faces of a client: the face that drives it waits in its own way, and raises what ends
the wait at the `yield`. Between two waits a round runs through, in one thread.
"""

from collections.abc import Awaitable, Generator
from typing import TypeVar

T = TypeVar("T")

Pause = float | Awaitable[object]
Rounds = Generator[Pause, None, T]


def finished(rounds: Rounds[T]) -> T:
    """The answer of a call that is known to wait in its own thread, if at all."""
    try:
        next(rounds)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("the call has left it to others to wait")
