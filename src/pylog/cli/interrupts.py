"""Ctrl-C where it does no harm: not in the middle of an import."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupted_later"]


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait for the end of the block, which raises KeyboardInterrupt then. Only where they would
    raise it at once: one that is ignored stays so.

    An interrupt in an import may strike where a class is made from text, as dataclasses are. CPython takes that one for
    unhandled, although it is handled later, and ends the process by the signal and not with its exit code. One in the
    lock of an import is lost.
    """
    struck: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if in_main and signal.getsignal(number) is signal.default_int_handler
    ]
    for number in numbers:
        signal.signal(number, lambda number, frame: struck.append(number))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
    if struck:
        raise KeyboardInterrupt
