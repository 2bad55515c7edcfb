"""Ctrl-C, while something is half done, waits until it is whole.

Python raises KeyboardInterrupt, and whatever other handlers of signals raise, between any two steps of the main thread:
in the middle of an append, or of a coordinator's change of state, it would leave half of it.

    with WHOLE:          a signal waits for the end of the block; another one of its kind strikes at once
        ...
        with opened():   inside of it: somebody else's code, or a long wait, which a signal may end
            ...

Other threads are never struck: there this costs a comparison. Handlers are replaced for as long as a block takes, and
only those that are Python's.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, get_ident, main_thread
from typing import Any

__all__ = ["WHOLE", "opened", "wait_at"]

Handler = Callable[[int, Any], Any]

# The enums around these take ten times as long as what they do.
_getsignal: Callable[[int], Any] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
_setsignal: Callable[[int, Any], Any] = getattr(signal.signal, "__wrapped__", signal.signal)

SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGALRM))
"""Those whose handlers usually raise."""

SLICE = 0.1

_held: dict[int, Handler] = {}
_pending: set[int] = set()


def _note(number: int, frame: Any) -> None:
    if number in _pending:
        # It may strike where a block begins or ends, of which nobody would know then.
        WHOLE.begin_anew()
        _held[number](number, frame)
    else:
        _pending.add(number)


def _hold() -> None:
    for number in SIGNALS:
        handler = _getsignal(number)
        if callable(handler) and handler is not _note:
            _held[number] = handler
            _setsignal(number, _note)


def _let_go() -> None:
    for number, handler in _held.items():
        if _getsignal(number) is _note:
            _setsignal(number, handler)
    while _pending:
        number = _pending.pop()
        _held[number](number, sys._getframe())


class _Whole:
    """See the module. Blocks may be nested."""

    __slots__ = ("depth", "main")

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget of all blocks that they have begun: in a forked child, and after a signal that did not wait."""
        self.depth = 0
        self.main = main_thread().ident
        _pending.clear()
        _let_go()

    def __enter__(self) -> None:
        if get_ident() == self.main:
            if not self.depth:
                _hold()
            self.depth += 1

    def __exit__(self, *raised: object) -> None:
        if get_ident() == self.main:
            # An `opened` block that was struck where it begins has left 0.
            self.depth = max(self.depth - 1, 0)
            if not self.depth:
                _let_go()


@contextmanager
def opened() -> Iterator[None]:
    """Inside of a `WHOLE` block: somebody else's code, or a long wait, which a signal may end."""
    if get_ident() != WHOLE.main or not WHOLE.depth:
        yield
        return
    depth, WHOLE.depth = WHOLE.depth, 0
    try:
        _let_go()
        yield
    finally:
        _hold()
        WHOLE.depth = depth


def wait_at(condition: Condition, seconds: float | None) -> None:
    """Wait at a condition that is locked; the main thread for a tenth of a second at most, so look again.

    In `Condition.wait` a signal could strike where the lock was let go of and not taken again; here it does after it.
    """
    if get_ident() != WHOLE.main:
        condition.wait(seconds)
        return
    with WHOLE:
        condition.wait(SLICE if seconds is None else min(seconds, SLICE))


WHOLE = _Whole()

os.register_at_fork(after_in_child=WHOLE.begin_anew)
