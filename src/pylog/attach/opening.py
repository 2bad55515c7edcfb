"""The way of `open` to a log directory that processes share: owning it, or being attached to its owner.

    mode        it has no owner       another process owns it    its owner ends later
    "own"       this one does         DirectoryLocked            -
    "auto"      this one does         attached                   this one takes over, if it is the first
    "attach"    NoOwner               attached                   attached to the next one

`wait` is how long to wait for what is in the way. A read-only mount is attached to as well, and otherwise read.
"""

import logging
import os
from collections.abc import Callable
from functools import partial
from socket import socket
from threading import Event
from time import monotonic
from typing import Literal, TypeVar

from pylog.attach.notice import Notice
from pylog.attach.places import find_owner
from pylog.attach.settings import Settings
from pylog.broker.nodes import made_whole, once_free
from pylog.errors import DirectoryLocked, NoOwner, ReadOnly
from pylog.files import DiskFiles
from pylog.files.outside import is_read_only
from pylog.files.protocol import typed_error
from pylog.runtime.closing import Closeable
from pylog.runtime.signals import pause

__all__ = ["owned_or_attached", "when_free"]

logger = logging.getLogger("pylog.attach")

OPENING_SECONDS = 30.0
"""How long "auto" waits for an owner that opens, or ends, unless told otherwise."""
PAUSE_SECONDS = 0.005

T = TypeVar("T")
Found = TypeVar("Found", bound=Closeable)


def when_free(own: Callable[[], T], wait: float | None) -> T:
    """The result of `own`, as soon as no other process owns the directory. Raises DirectoryLocked after `wait`
    seconds.
    """
    deadline = monotonic() + (wait or 0.0)
    told = False
    while True:
        try:
            return once_free(own)
        except DirectoryLocked as error:
            if monotonic() >= deadline:
                raise
            told = told or _tell(error)
        pause(Event(), PAUSE_SECONDS)


def owned_or_attached(
    settings: Settings, mode: Literal["auto", "attach"], wait: float | None, own: Callable[[], Found],
    attach: Callable[[Notice, socket], Found],
) -> Found | None:  # fmt: skip
    """The result of `own`, or of `attach` with an owner and a connection to it; None: the mount is read-only, and no
    owner can be reached.

    Raises NoOwner, SettingsDiffer, UnsupportedFormat, and what `own` raises.
    """
    patience = wait if wait is not None else OPENING_SECONDS if mode == "auto" else 0.0
    deadline = monotonic() + patience
    path = settings.paths[0]
    told = False
    while True:
        locked: DirectoryLocked | None = None
        if mode == "auto":
            try:
                return _owned(own)
            except DirectoryLocked as error:
                locked = error
            except ReadOnly:
                if not is_read_only(path):
                    raise
        try:
            attached = _attached(settings, attach)
        except ReadOnly:
            # Another user's log, on a read-only mount: it is read.
            if mode != "auto":
                raise
            return None
        if attached is not None or (mode == "auto" and locked is None):
            return attached
        if monotonic() >= deadline:
            raise _unreachable(path, locked)
        told = told or (locked is not None and _tell(locked))
        pause(Event(), PAUSE_SECONDS)


def _tell(locked: DirectoryLocked) -> bool:
    """Log which child holds the lock of an owner that has ended; gives whether one does."""
    if locked.is_left:
        logger.warning("%s", locked)
    return locked.is_left


def _owned(own: Callable[[], T]) -> T:
    try:
        return own()
    except DirectoryLocked as error:
        if error.pid != os.getpid():
            raise
    # It is a log of this process: one that was dropped open is closed first.
    return once_free(own)


def _attached(settings: Settings, attach: Callable[[Notice, socket], Found]) -> Found | None:
    path = settings.paths[0]
    try:
        found = find_owner(DiskFiles(read_only=True), path)
        return None if found is None else _attached_by(*found, settings, attach)
    except OSError as error:
        raise typed_error(error, "attach to the owner of", path) from error


def _attached_by(
    notice: Notice, connection: socket, settings: Settings, attach: Callable[[Notice, socket], Found]
) -> Found:  # fmt: skip
    try:
        settings.check(notice)
        return made_whole(partial(attach, notice, connection))
    except BaseException:
        connection.close()
        raise


def _unreachable(path: str, locked: DirectoryLocked | None) -> Exception:
    if locked is None:
        return NoOwner(f"no process owns {path}: open it there, or with mode='auto', which owns it then")
    if locked.is_left:
        return locked
    return DirectoryLocked(
        f"{locked}. It has let no other process in so far: it may be opening a large log, which wait= waits for",
        locked.pid,
    )
