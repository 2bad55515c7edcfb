"""A call that is made again after an error that may pass."""

from collections.abc import Callable
from threading import Event
from typing import TypeVar

from pylog.errors import PylogError
from pylog.runtime.signals import pause

T = TypeVar("T")


def retried(call: Callable[[], T], *, most: int, interval_ms: int) -> T:
    """The result of `call`; made again up to `most` times after a retriable error, each time so many milliseconds
    later.

    Raises what the last call has raised.
    """
    for _ in range(most):
        try:
            return call()
        except PylogError as error:
            if not getattr(error, "retriable", False):
                raise
        pause(Event(), interval_ms / 1000)
    return call()
