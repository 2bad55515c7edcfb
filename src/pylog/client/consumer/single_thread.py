"""One thread at a time: whoever comes second is told, instead of breaking what the first is at."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from pylog.errors import Closed, ConcurrentUse
from pylog.runtime.signals import whole

P = ParamSpec("P")
T = TypeVar("T")


class SingleThread:
    """What only one thread may be in, until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._user = 0
        """The thread that is in it, or was last; 0: none was."""
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this consumer is closed")


S = TypeVar("S", bound=SingleThread)


def one_at_a_time(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let one thread in at a time; that one again and again, as a listener may use its consumer."""

    @wraps(method)
    def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        me = threading.get_ident()
        if not self._lock.acquire(blocking=False):
            if self._user != me:
                raise ConcurrentUse(
                    "this consumer is in use in another thread: consumers are not thread-safe. Give each thread its "
                    "own; only `wakeup` may be called from everywhere"
                )
            return method(self, *args, **kwargs)
        self._user = me
        try:
            return method(self, *args, **kwargs)
        finally:
            self._lock.release()

    return checked


def alone(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """The same, and a signal waits until the call has come to an end, or waits itself."""
    return whole(one_at_a_time(method))
