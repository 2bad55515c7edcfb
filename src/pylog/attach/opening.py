"""The way of `open` to a log directory that processes share: owning it, or being attached to its owner.

    mode        nobody owns it        another process does       its owner ends later
    "own"       this one does         DirectoryLocked            -
    "auto"      this one does         attached                   this one takes over, if it is the first
    "attach"    NoOwner               attached                   attached to the next one

`wait` is how long to wait for what is in the way. A read-only mount is attached to as well, and otherwise read.
"""

import os
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeVar

from pylog.attach.notice import read_notice
from pylog.attach.places import reach, socket_path
from pylog.attach.settings import Settings
from pylog.errors import DirectoryLocked, NoOwner, ReadOnly
from pylog.files import DiskFiles
from pylog.files.outside import is_read_only
from pylog.nodes import once_free
from pylog.runtime.signals import pause

if TYPE_CHECKING:
    from pylog.attach.attachment import Attachment

__all__ = ["owned_or_attached", "when_free"]

OPENING_SECONDS = 30.0
"""How long "auto" waits for an owner that opens, or ends, unless told otherwise."""
PAUSE_SECONDS = 0.005

T = TypeVar("T")


def when_free(own: Callable[[], T], wait: float | None) -> T:
    """What `own` gives, as soon as no other process owns the directory. Raises DirectoryLocked after `wait` seconds."""
    deadline = monotonic() + (wait or 0.0)
    while True:
        try:
            return once_free(own)
        except DirectoryLocked:
            if monotonic() >= deadline:
                raise
        pause(Event(), PAUSE_SECONDS)


def owned_or_attached(
    settings: Settings, mode: Literal["auto", "attach"], wait: float | None, own: Callable[[], T]
) -> "T | Attachment | None":
    """What `own` gives, or an attachment; None: the mount is read-only, and no owner can be reached.

    Raises NoOwner, SettingsDiffer, UnsupportedFormat, and what `own` raises.
    """
    patience = wait if wait is not None else OPENING_SECONDS if mode == "auto" else 0.0
    deadline = monotonic() + patience
    path = settings.paths[0]
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
        attachment = _attached(settings, may_own=mode == "auto")
        if attachment is not None or (mode == "auto" and locked is None):
            return attachment
        if monotonic() >= deadline:
            raise _unreachable(path, locked)
        pause(Event(), PAUSE_SECONDS)


def _owned(own: Callable[[], T]) -> T:
    try:
        return own()
    except DirectoryLocked as error:
        if error.pid != os.getpid():
            raise
    # It is a log of this process: one that was dropped open is closed first.
    return once_free(own)


def _attached(settings: Settings, *, may_own: bool) -> "Attachment | None":
    notice = read_notice(DiskFiles(read_only=True), settings.paths[0])
    if notice is None:
        return None
    if not notice.socket:
        raise NoOwner(f"{notice.who} lets no other process in: {notice.obstacle}")
    connection = reach(socket_path(settings.paths[0], notice.socket))
    if connection is None:
        return None
    try:
        settings.check(notice)
        # An owner has no use for the client of a network.
        from pylog.attach.attachment import Attachment

        return Attachment(settings, notice, connection, may_own=may_own)
    except BaseException:
        connection.close()
        raise


def _unreachable(path: str, locked: DirectoryLocked | None) -> Exception:
    if locked is None:
        return NoOwner(f"no process owns {path}: open it there, or with mode='auto', which owns it then")
    return DirectoryLocked(
        f"{locked}. It has let no other process in so far: it may be opening a large log, which wait= waits for",
        locked.pid,
    )
