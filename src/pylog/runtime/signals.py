"""Ctrl-C, while something is half done, waits until it is whole.

Python raises KeyboardInterrupt, and whatever other handlers of signals raise, between any two steps of the main thread:
in the middle of an append, or of a coordinator's change of state, it would leave half of it.

    with WHOLE:          a signal waits for the end of the block; a second SIGINT or SIGTERM is handled at once
        ...
        with opened():   inside of it: foreign code, or a long wait, which a signal may end
            ...
    @whole               the same for all of a function
    with FIRM:           as WHOLE, and a second one waits as well
    with lock:           a `WholeLock`: that for as long as a lock is held

A handler may use the log, so no lock is ever held where one may run: it would wait for what its own thread has, and
what the lock guards would stay half done.

Other threads are never struck: there this costs a comparison. Handlers are replaced for as long as a block takes, and
only those that are Python's.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from threading import TIMEOUT_MAX, Condition, Event, Lock, get_ident, main_thread
from time import monotonic
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["FIRM", "WHOLE", "Lockable", "WholeLock", "opened", "pause", "wait_at", "whole"]

P = ParamSpec("P")
T = TypeVar("T")
Handler = Callable[[int, Any], Any]

try:
    # What `signal` is made of. The enums around it take ten times as long as all of this: 12 us a block.
    _functions: Any = import_module("_signal")
except ImportError:  # pragma: no cover - not CPython
    _functions = signal
_getsignal: Callable[[int], Any] = _functions.getsignal
_setsignal: Callable[[int, Any], Any] = _functions.signal

INSISTING = (int(signal.SIGINT), int(signal.SIGTERM))
"""The signals of which a second one is handled at once: its sender wants a call to end that hangs."""

SIGNALS = (
    *INSISTING, *map(int, (
        signal.SIGALRM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD,
    )),
)  # fmt: skip
"""Those that programs have handlers for."""

SLICE = 0.1

_held: dict[int, Handler] = {}
_pending: list[int] = []
_seen: list[Any] = []
"""The handlers of `SIGNALS` when a block began last."""
_callable: list[int] = []
"""The signals among them that have a handler of Python's."""


def _note(number: int, frame: Any) -> None:
    if WHOLE.depth and (WHOLE.firm or number not in _pending or number not in INSISTING):
        # One of a kind waits for many, as in the system itself.
        if number not in _pending:
            _pending.append(number)
        return
    # The second of its kind; or one in the instant in which a block begins or ends, outside of it.
    try:
        _held[number](number, frame)
    except BaseException:
        # It may come out where nothing knows of the block. All that waits is handled where one ends all the same: the
        # first of its kind too, for this one may get no further than the next `except`.
        WHOLE.depth = 0
        _restore()
        raise


def _hold() -> None:
    global _seen  # noqa: PLW0603
    now = [*map(_getsignal, SIGNALS)]
    if now != _seen:
        # Handlers seldom change between two blocks.
        found = {number: handler for number, handler in zip(SIGNALS, now, strict=True) if _is_foreign(handler)}
        _held.update(found)
        _callable[:] = found
        _seen = now
    for number in _callable:
        try:
            _setsignal(number, _note)
        except ValueError as error:
            if "main thread" not in str(error):
                raise
            # Where Python is embedded, or has several interpreters, signals may strike another thread than the one
            # that `threading` calls the main one: then none strikes here.
            WHOLE.main = None
            return


def _is_foreign(handler: Any) -> bool:
    return callable(handler) and handler is not _note


def _restore() -> None:
    try:
        for number in _callable:
            if _getsignal(number) is _note:
                _setsignal(number, _held[number])
    except BaseException:
        # One that was let in already has struck: the others must not stay out.
        _restore()
        raise


def _deliver() -> None:
    """Handle what has waited, each whatever the handler of another one raises."""
    while _pending:
        number = _pending.pop(0)
        try:
            _held[number](number, sys._getframe())
        except BaseException:
            _deliver()
            raise


def _let_go() -> None:
    _restore()
    if _pending:
        _deliver()


class _Whole:
    """See the module. Blocks may be nested."""

    __slots__ = ("depth", "firm", "main")

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget of all blocks that they have begun, and of what waits: in a forked child."""
        self.depth = 0
        self.firm = 0
        """In how many `FIRM` blocks the main thread is, and how many locks it holds or waits for."""
        self.main: int | None = main_thread().ident
        _pending.clear()
        _restore()

    def __enter__(self) -> None:
        if get_ident() == self.main:
            try:
                if not self.depth:
                    _hold()
                self.depth += 1
            except BaseException:
                # Before all were held.
                _let_go()
                raise

    def __exit__(self, *raised: object) -> None:
        if get_ident() == self.main:
            # An `opened` block that was struck where it begins has left 0.
            self.depth = max(self.depth - 1, 0)
            if not self.depth:
                _let_go()


class opened:  # noqa: N801
    """Inside of a `WHOLE` block: foreign code, or a long wait, which a signal may end."""

    # Not a generator: one that a signal keeps from being entered would close the block again when it is collected.
    __slots__ = ("depth",)

    def __enter__(self) -> None:
        self.depth = WHOLE.depth if get_ident() == WHOLE.main else 0
        if self.depth:
            WHOLE.depth = 0
            _let_go()

    def __exit__(self, *raised: object) -> None:
        if self.depth:
            _hold()
            WHOLE.depth = self.depth


def wait_at(condition: Condition, seconds: float | None) -> None:
    """Wait at a condition that is locked; the main thread for a tenth of a second at most, so look again.

    In `Condition.wait` a signal could strike where the lock was let go of and not taken again; here it does after it,
    inside of a `WHOLE` block too, and finds the lock free.
    """
    if get_ident() != WHOLE.main:
        condition.wait(None if seconds is None else min(seconds, TIMEOUT_MAX))
        return
    with WHOLE:
        condition.wait(SLICE if seconds is None else min(seconds, SLICE))
        condition.release()
        try:
            with opened():
                pass
        finally:
            condition.acquire()


def pause(stopped: Event, seconds: float) -> bool:
    """Wait until `stopped` is set, so many seconds at most; gives whether it is. In the main thread it is looked at
    inside of a block: a signal's handler may set it, and an event has a lock. Signals strike between two looks.
    """
    if get_ident() != WHOLE.main:
        return stopped.wait(seconds)
    deadline = monotonic() + seconds
    while True:
        with opened():
            pass
        left = deadline - monotonic()
        with WHOLE:
            if stopped.wait(min(max(left, 0), SLICE)):
                return True
        if left <= SLICE:
            return False


def whole(call: Callable[P, T]) -> Callable[P, T]:
    """A function all of which is a `WHOLE` block."""

    @wraps(call)
    def shielded(*args: P.args, **kwargs: P.kwargs) -> T:
        with WHOLE:
            return call(*args, **kwargs)

    return shielded


WHOLE = _Whole()


class _Firm:
    """A block for what nothing could go on with if it were left in the middle; it waits only where it is `opened`."""

    __slots__ = ()

    # As WHOLE does, in its own words: each send enters one.

    def __enter__(self) -> None:
        if get_ident() == WHOLE.main:
            if not WHOLE.depth:
                WHOLE.__enter__()
            else:
                WHOLE.depth += 1
            WHOLE.firm += 1

    def __exit__(self, *raised: object) -> None:
        if get_ident() == WHOLE.main:
            WHOLE.firm -= 1
            if WHOLE.depth > 1:
                WHOLE.depth -= 1
            else:
                WHOLE.__exit__()


FIRM = _Firm()


class Lockable(Protocol):
    """A lock of the interpreter's."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class WholeLock:
    """A lock that is held inside of a `WHOLE` block alone: the block begins before the lock is taken, and ends after.

    `lock`: another lock than a plain `Lock`. `acquire` and `release` are its own, for compiled code, where no handler
    runs. `inner` is the lock itself, for code that is in a `FIRM` block already: a block costs more than the lock.
    """

    __slots__ = ("acquire", "inner", "release")

    def __init__(self, lock: Lockable | None = None) -> None:
        lock = lock or Lock()
        self.inner: Any = lock
        self.acquire = lock.acquire
        self.release = lock.release

    # As FIRM does, in its own words: each step of a node enters several.

    def __enter__(self) -> None:
        if get_ident() == WHOLE.main:
            if not WHOLE.depth:
                WHOLE.__enter__()
            else:
                WHOLE.depth += 1
            # Before it is taken: what strikes as it is would leave it taken.
            WHOLE.firm += 1
        self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()
        if get_ident() == WHOLE.main:
            WHOLE.firm -= 1
            if WHOLE.depth > 1:
                WHOLE.depth -= 1
            else:
                WHOLE.__exit__()


os.register_at_fork(after_in_child=WHOLE.begin_anew)
