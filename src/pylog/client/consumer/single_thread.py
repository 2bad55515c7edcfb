"""One thread at a time in a consumer: a second one is told so, and does not break what the first one is at."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from pylog.errors import ConcurrentUse
from pylog.runtime.signals import WHOLE

P = ParamSpec("P")
T = TypeVar("T")


class SingleThread:
    """The turn of one thread, for a `with` inside of a `WHOLE` block.

    That thread may enter again, as a listener may use its consumer. Another thread that enters gets ConcurrentUse.

    The lock itself knows its thread: a note beside it would come a step later, and name the thread before in between.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.user = 0
        """The thread that is in the consumer, or was last; 0 before the first."""

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUse(
                "this consumer is in use in another thread: consumers are not thread-safe. Give each thread its own; "
                "only `wakeup` may be called from everywhere"
            )
        self.user = threading.get_ident()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()


class Guarded(Protocol):
    """An object that one thread uses at a time."""

    @property
    def _turn(self) -> SingleThread: ...


S = TypeVar("S", bound=Guarded)


def alone(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let one thread in at a time. A signal waits until the call has ended, or sleeps."""

    @wraps(method)
    def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with WHOLE, self._turn:
            return method(self, *args, **kwargs)

    return checked
