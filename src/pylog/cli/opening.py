"""How a command gets at the log: a directory (`--log`), or a server that runs (`--bootstrap`).

A command that only looks reads beside an owner. One that changes something owns the directory while it runs, or where
another process owns it, has that do it; it never takes over. No command makes a log among things of something else.
Parts of pylog are loaded as they are needed, so that a command begins at once.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import pylog
from pylog.cli.arguments import bootstrap, log_paths, properties
from pylog.client_half import ClientHalf
from pylog.errors import DirectoryLocked
from pylog.files import DiskFiles
from pylog.logdirs.foreign import refuse_foreign
from pylog.opening import open_lazily

__all__ = ["changing", "looking", "owned"]

OPENING_SECONDS = 10.0
"""How long to wait for an owner that opens a large log."""


def owned(paths: Sequence[str], **options: Any) -> pylog.Log:
    """Own the log in these directories; make it if they are empty or missing. Raises StorageError for other ones."""
    for path in paths:
        refuse_foreign(DiskFiles(read_only=True), path)
    return open_lazily(list(paths), mode="own", **options)


def looking(args: argparse.Namespace) -> ClientHalf[Any]:
    """The log, to be looked at. Raises what `pylog.open` and `pylog.connect` raise."""
    return _connected(args) or open_lazily(log_paths(args), mode="read")


def changing(args: argparse.Namespace, **options: Any) -> ClientHalf[Any]:
    """The log, to be changed; `options` are those of `pylog.open`. Raises what that and `pylog.connect` raise."""
    return _connected(args) or _shared(log_paths(args), **options)


def _shared(paths: Sequence[str], **options: Any) -> pylog.Log:
    try:
        return owned(paths, **options)
    except DirectoryLocked:
        return open_lazily(list(paths), mode="attach", wait=OPENING_SECONDS, **options)


def _connected(args: argparse.Namespace) -> ClientHalf[Any] | None:
    servers = bootstrap(args)
    return None if servers is None else pylog.connect(servers, config=properties(args))
