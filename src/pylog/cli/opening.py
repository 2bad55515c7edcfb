"""How a command gets at the log: a directory (`--log`), or a server that runs (`--bootstrap`).

A command that only looks reads beside an owner. One that changes something owns the directory while it runs, or where
another process owns it, has that do it; it never takes over. No command makes a log among things of something else.
Parts of pylog are loaded as they are needed, so that a command begins at once.
"""

from collections.abc import Sequence
from typing import Any

import pylog
from pylog.cli.place import Place
from pylog.client_half import ClientHalf
from pylog.errors import DirectoryLocked
from pylog.files import DiskFiles
from pylog.logdirs.foreign import refuse_foreign
from pylog.opening import open_lazily

__all__ = ["changing", "looking", "owned"]

LIMITS = ("request.timeout.ms", "socket.connection.setup.timeout.ms")
OPENING_SECONDS = 10.0
"""How long to wait for an owner that opens a large log."""


def owned(paths: Sequence[str], **options: Any) -> pylog.Log:
    """Own the log in these directories; make it if they are empty or missing. Raises StorageError for other ones."""
    for path in paths:
        refuse_foreign(DiskFiles(read_only=True), path)
    return open_lazily(list(paths), mode="own", **options)


def looking(place: Place, *, patience_ms: int | None = None) -> ClientHalf[Any]:
    """The log, to be looked at; `patience_ms` is how long a server may take. Raises what `pylog.open` and
    `pylog.connect` raise.
    """
    return _connected(place, patience_ms) or open_lazily(place.paths, mode="read")


def changing(place: Place, **options: Any) -> ClientHalf[Any]:
    """The log, to be changed; `options` are those of `pylog.open`. Raises what that and `pylog.connect` raise."""
    return _connected(place) or _shared(place.paths, **options)


def _shared(paths: Sequence[str], **options: Any) -> pylog.Log:
    try:
        return owned(paths, **options)
    except DirectoryLocked:
        return open_lazily(list(paths), mode="attach", wait=OPENING_SECONDS, **options)


def _connected(place: Place, patience_ms: int | None = None) -> ClientHalf[Any] | None:
    servers = place.servers
    if servers is None:
        return None
    limits = dict.fromkeys(LIMITS, str(patience_ms)) if patience_ms is not None else {}
    return pylog.connect(servers, config={**place.properties(), **limits})
