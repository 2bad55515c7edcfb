"""The end of a program that works until it is told to stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first SIGINT or SIGTERM call `stop`; in the main thread alone."""
    before: dict[int, Any] = {}

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, handler)

    def struck(number: int, frame: FrameType | None) -> None:
        restore()
        stop()

    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler) or handler is signal.SIG_DFL:
                    before[number] = handler
                    signal.signal(number, struck)
        yield
    finally:
        restore()
