"""The access of a command to the log: a directory (`--log`), or a server that runs (`--bootstrap`).

A command that only looks reads beside an owner. One that changes something opens the log as a program does: it owns the
directory, or where another process owns it, has that do it, and takes over where that ends first. So commands that run
at once on a log without an owner do not fail each other. No command makes a log among things of something else.
Parts of pylog are loaded as they are needed, so that a command begins at once.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import pylog
from pylog.cli.place import LogPlace
from pylog.config.options import Config
from pylog.errors import NoOwner
from pylog.files import DiskFiles
from pylog.handles.any_log import AnyLog
from pylog.log import open_lazily
from pylog.logdirs.foreign import refuse_foreign

__all__ = ["changing", "looking", "owned", "working"]

LIMITS = ("request.timeout.ms", "socket.connection.setup.timeout.ms")


def owned(paths: Sequence[str], **options: object) -> pylog.Log:
    """Own the log in these directories; make it if they are empty or missing. Raises StorageError for other ones, and
    DirectoryLocked.
    """
    return _opened(paths, mode="own", **options)


def _opened(paths: Sequence[str], **options: Any) -> pylog.Log:
    for path in paths:
        refuse_foreign(DiskFiles(read_only=True), path)
    return open_lazily(list(paths), **options)


def looking(
    place: LogPlace, *, patience_ms: int | None = None, client: type[Config] | None = None
) -> AnyLog:  # fmt: skip
    """The log, to be looked at; `patience_ms` is how long a server may take, and `client` has the configs of -X that
    are none of the connection. Raises what `pylog.open` and `pylog.connect` raise.
    """
    return _connected(place, patience_ms, client) or open_lazily(place.paths, mode="read")


def working(place: LogPlace, log: AnyLog) -> AbstractContextManager[AnyLog]:
    """The log by way of its owner, which alone knows what goes on in it. Where nobody owns it, `log`, as it was opened
    to be looked at.
    """
    if place.servers is None:
        with suppress(NoOwner):
            return _opened(place.paths, mode="attach")
    return nullcontext(log)


def changing(place: LogPlace, *, client: type[Config] | None = None, **options: object) -> AnyLog:
    """The log, to be changed; `options` are those of `pylog.open`. Raises what that and `pylog.connect` raise."""
    return _connected(place, None, client) or _opened(place.paths, mode="auto", **options)


def _connected(place: LogPlace, patience_ms: int | None, client: type[Config] | None) -> AnyLog | None:
    servers, configs = place.servers, place.connection_configs(client)
    if servers is None:
        return None
    limits = dict.fromkeys(LIMITS, str(patience_ms)) if patience_ms is not None else {}
    return pylog.connect(servers, config={**configs, **limits})
