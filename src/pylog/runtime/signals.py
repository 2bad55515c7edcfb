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
from itertools import repeat
from threading import TIMEOUT_MAX, Condition, Event, Lock, get_ident, main_thread
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["FIRM", "WHOLE", "Lockable", "WholeLock", "opened", "pause", "wait_at", "whole"]

P = ParamSpec("P")
T = TypeVar("T")
Handler = Callable[[int, FrameType | None], object]
Installed = Handler | int | None
"""What may stand in the place of a handler: SIG_DFL and SIG_IGN are numbers, and None is a handler of C's."""

try:
    # What `signal` is made of. The enums around it take ten times as long as all of this: 12 us a block.
    _functions: Any = import_module("_signal")
except ImportError:  # pragma: no cover - not CPython
    _functions = signal
_getsignal: Callable[[int], Installed] = _functions.getsignal
_setsignal: Callable[[int, Installed], Installed] = _functions.signal

INSISTING = (int(signal.SIGINT), int(signal.SIGTERM))
"""The signals of which a second one is handled at once: its sender wants a call to end that hangs."""

SIGNALS = (
    *INSISTING, *map(int, (
        signal.SIGALRM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD,
    )),
)  # fmt: skip
"""Those that programs have handlers for."""

SLICE = 0.1

_inside: list[Installed] = [None] * len(SIGNALS)
"""The handlers of `SIGNALS` as they have to be where a block begins: notes, and those that are not Python's."""
_notes: list["_Note"] = []
"""Every number that has ever had a note is in one of them: the list only grows."""
_pending: dict[int, None] = {}


class _Note:
    """Stands in the place of one handler while a block runs.

    A handler that strikes may see it, call it later, or put it back. Each handler has a note of its own, so this leads
    to the handler that stood there, and never in a circle.
    """

    __slots__ = ("behind", "handler", "number", "take")

    def __init__(self, number: int, handler: Handler) -> None:
        self.number = number
        self.handler = handler
        self.behind: Installed = handler
        """What `signal.signal` returned as it put the note there: another one, where a handler struck just before."""
        self.take = map(_setsignal, repeat(number), repeat(self))
        """Each item is such an exchange."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        is_second = number in _pending and number in INSISTING and not WHOLE.firm
        if (WHOLE.depth and not is_second) or not callable(self.behind):
            # One of a kind waits for many, as in the system itself.
            _pending[number] = None
            return
        # The second of its kind; or one in the instant in which a block begins or ends, outside of it.
        try:
            self.behind(number, frame)
        except BaseException:
            # It may come out where nothing knows of the block. All that waits is handled where one ends all the same:
            # the first of its kind too, for this one may get no further than the next `except`.
            WHOLE.end(deliver=False)
            raise


_NOT_FOREIGN = frozenset({_Note, int, type(None), signal.Handlers})
"""The types of handlers that no note stands for: notes, SIG_IGN, SIG_DFL, and None, which is one of C's."""


def _keep(number: int, handler: Installed, placed: Installed) -> None:
    """Put back what a handler, which struck in the call of the exchange, has installed: it stays."""
    while (found := _setsignal(number, handler)) is not placed:
        handler, placed = found, handler


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


class _Whole:
    """See the module. Blocks may be nested.

    Handlers strike where a block begins and ends, too: at each call, in `signal.signal` before its exchange, and
    before each line where a trace function runs. They may use the log, change handlers, or raise. Two steps have to be
    whole: an exchange, with the note of what it replaced, and a look that finds notes alone, with the begin of the
    block. Each is one line in which C calls C (`map`) and the interpreter calls nothing, so no handler strikes there.
    """

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
        self.end()

    def begin(self) -> None:
        """Begin a block that is in no other one."""
        try:
            while True:
                for note in _notes:
                    if _getsignal(note.number) is note.handler:
                        for note.behind in note.take:  # noqa: B020
                            break
                self.depth = [*map(_getsignal, SIGNALS)] == _inside
                if self.depth:
                    return
                # Other handlers than the last time; or one struck meanwhile, and has used the log or changed handlers.
                self._learn()
        except ValueError as error:
            self.end()
            if "main thread" not in str(error):
                raise
            # Where Python is embedded, or has several interpreters, signals may strike another thread than the one
            # that `threading` calls the main one: then none strikes here.
            self.main = None
        except BaseException:
            self.end()
            raise

    def _learn(self) -> None:
        for place, number in enumerate(SIGNALS):
            handler = _getsignal(number)
            if type(handler) in _NOT_FOREIGN or not callable(handler):
                _inside[place] = handler
                continue
            for at, note in enumerate(_notes):
                if note.number == number:
                    if note.handler is not handler:
                        _notes[at] = _Note(number, handler)
                    _inside[place] = _notes[at]
                    break
            else:
                made = _inside[place] = _Note(number, handler)
                _notes.append(made)

    def end(self, *, deliver: bool = True) -> None:
        """End all blocks: put back what is behind notes, and `deliver` what has waited, whatever a handler raises."""
        self.depth = 0
        try:
            for known in _notes:
                note = _getsignal(known.number)
                if type(note) is _Note:
                    found = _setsignal(known.number, note.behind)
                    if found is not note:
                        _keep(known.number, found, note.behind)
            while deliver and _pending:
                for number in [*_pending]:
                    # The handler of this moment, as in CPython: where that is none of Python's, the signal is over.
                    handler = _getsignal(number)
                    call = handler if callable(handler) else _ignore
                    frame = sys._getframe()
                    # One line: else one that strikes in between and raises would let the signal be lost.
                    if number in _pending: del _pending[number]; call(number, frame)  # noqa: E701, E702  # fmt: skip
        except BaseException:
            self.end(deliver=deliver)
            raise

    def __enter__(self) -> None:
        if get_ident() == self.main:
            if self.depth:
                self.depth += 1
            else:
                self.begin()

    def __exit__(self, *raised: object) -> None:
        if get_ident() == self.main:
            # 0 where a second signal has struck.
            if self.depth > 1:
                self.depth -= 1
            else:
                self.end()


class opened:  # noqa: N801
    """Inside of a `WHOLE` block: foreign code, or a long wait, which a signal may end."""

    # Not a generator: one that a signal keeps from being entered would close the block again when it is collected.
    __slots__ = ("depth",)

    def __enter__(self) -> None:
        self.depth = WHOLE.depth if get_ident() == WHOLE.main else 0
        if self.depth:
            try:
                WHOLE.end()
            except BaseException:
                self.__exit__()
                raise

    def __exit__(self, *raised: object) -> None:
        if self.depth:
            try:
                WHOLE.begin()
            except BaseException:
                # The block around this one goes on, to its end: it has to be whole.
                self.__exit__()
                raise
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
            if WHOLE.depth:
                WHOLE.depth += 1
            else:
                WHOLE.begin()
            WHOLE.firm += 1

    def __exit__(self, *raised: object) -> None:
        if get_ident() == WHOLE.main:
            # 0 in a child that was forked in the block.
            if WHOLE.firm:
                WHOLE.firm -= 1
            if WHOLE.depth > 1:
                WHOLE.depth -= 1
            else:
                WHOLE.end()


FIRM = _Firm()


class Lockable(Protocol):
    """A lock of the interpreter's."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


class WholeLock:
    """A lock that is held inside of a `WHOLE` block alone: the block begins before the lock is taken, and ends after.

    `lock`: another lock than a plain `Lock`. `acquire` and `release` are its own, for compiled code, where no handler
    runs. `inner` is the lock itself, for code that is in a `FIRM` block already: a block costs more than the lock.
    """

    __slots__ = ("acquire", "inner", "release")

    def __init__(self, lock: Lockable | None = None) -> None:
        lock = lock or Lock()
        self.inner = lock
        self.acquire = lock.acquire
        self.release = lock.release

    # As FIRM does, in its own words: each step of a node enters several.

    def __enter__(self) -> None:
        if get_ident() == WHOLE.main:
            if WHOLE.depth:
                WHOLE.depth += 1
            else:
                WHOLE.begin()
            # Before it is taken: what strikes as it is would leave it taken.
            WHOLE.firm += 1
        try:
            self.acquire()
        except BaseException:
            FIRM.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        self.release()
        if get_ident() == WHOLE.main:
            # 0 in a child that was forked in the block.
            if WHOLE.firm:
                WHOLE.firm -= 1
            if WHOLE.depth > 1:
                WHOLE.depth -= 1
            else:
                WHOLE.end()


os.register_at_fork(after_in_child=WHOLE.begin_anew)
