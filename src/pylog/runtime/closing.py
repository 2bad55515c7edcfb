"""The closing of objects that were dropped without `close`, in a thread that lives as long as that takes.

A finalizer may run at any moment, in any thread, under any lock. So it takes no lock and does no I/O: `drop` notes what
is to be closed and begins a thread. Where no thread can be had (the interpreter ends), `settle` closes it: the exit
hook calls that, and a caller that needs what the dropped one still holds.

A forked child closes nothing of what its parent has dropped.
"""

import logging
import os
import threading
import warnings
from _thread import start_new_thread
from collections import deque
from contextlib import suppress
from typing import Any, Protocol

from pylog.errors import ThreadsExhausted
from pylog.runtime.threads import started

logger = logging.getLogger("pylog.runtime")


class Closeable(Protocol):
    """An object that holds a resource until it is closed."""

    def close(self) -> None:
        """Give it back; a second time does nothing."""


class Droppable(Protocol):
    """The part that lives on behind a handle."""

    def close_dropped(self) -> None:
        """Close it after its handle is gone, and log the errors, which have no caller any more."""


class Home(Droppable, Protocol):
    """A log, which clients belong to."""

    closed: bool
    """Whether it was closed, and its clients with it."""

    def add(self, client: Any) -> None:
        """Have a client closed with it. Raises Closed: it is for its maker then."""


_turn = threading.RLock()
"""Held by the thread that closes. What it closes may call back into here."""
_waiting: deque[Droppable] = deque()
_homes: dict[Droppable, Home] = {}
"""What was dropped and is not closed yet -> the log it belongs to."""


class Lease:
    """Keeps a log open: its handle has it, and all that was made with that. The last one that goes drops the log.

    It holds the clients that have a handle. Handles and lease may go at once, as parts of a reference cycle: then the
    collector clears weak references first, and calls the finalizers in any order. The log must not be closed without
    its clients.
    """

    def __init__(self, log: Home) -> None:
        self.log = log
        self._clients: set[Droppable] = set()

    def add(self, client: Droppable) -> None:
        """Have a client closed with the log, until `discard`, which its handle calls. Raises Closed."""
        self._clients.add(client)
        try:
            self.log.add(client)
        except BaseException:
            self.discard(client)
            raise

    def discard(self, client: Droppable) -> None:
        """Let go of a client: its handle is gone, and cares for it."""
        self._clients.discard(client)

    def __del__(self) -> None:
        if not self.log.closed:
            for client in self._clients:
                drop(client, self.log)
            drop(self.log, self.log)
            warn(self.log, self)


def drop(one: Droppable, log: Home) -> None:
    """Have it closed. Each step is one that no signal and no other thread divides, and waits for nothing."""
    _homes[one] = log
    _waiting.append(one)
    with suppress(RuntimeError):
        start_new_thread(_begin_thread, ())


def warn(what: object, source: object) -> None:
    """Say it as open files do: with `python -X tracemalloc` also where `source` was made."""
    text = f"{what} was dropped without close: it is closed in the background"
    warnings.warn(text, ResourceWarning, stacklevel=3, source=source)


def has_dropped(log: Home | None = None) -> bool:
    """Whether something of `log` (None: of any) was dropped and is not closed yet."""
    logs = tuple(_homes.copy().values())
    return bool(logs) if log is None else log in logs


def settle() -> None:
    """Come back when all that was dropped is closed."""
    with _turn:
        while _waiting:
            one = _waiting.popleft()
            try:
                one.close_dropped()
            except Exception:
                logger.exception("%s was dropped without close, and could not be closed whole", one)
            finally:
                _homes.pop(one, None)


def _begin_thread() -> None:
    # `started` takes a lock, which the thread of a finalizer may hold: so it is called here.
    with suppress(ThreadsExhausted):
        started(settle, "pylog-closing")


def _forked() -> None:
    global _turn  # noqa: PLW0603
    _turn = threading.RLock()
    _waiting.clear()
    _homes.clear()


os.register_at_fork(after_in_child=_forked)
