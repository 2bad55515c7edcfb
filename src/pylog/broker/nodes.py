"""The nodes that `open` makes: one that owns directories, one that reads them, and one in memory."""

import gc
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.errors import DirectoryLocked
from pylog.files import DiskFiles, MemoryFiles, refuse_network
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Closeable, has_dropped, settle
from pylog.runtime.signals import WholeLock
from pylog.transport import Transport

if TYPE_CHECKING:
    from pylog.broker.read_only_broker import ReadOnlyBroker

__all__ = ["MEMORY", "checked_paths", "in_memory", "made_whole", "once_free", "owner", "reader"]

MEMORY = ":memory:"

T = TypeVar("T")
Made = TypeVar("Made", bound=Closeable)


def checked_paths(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The log directories that a caller names, or `":memory:"`. Raises ValueError."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    paths = [os.fspath(one) for one in given]
    if not paths or not all(paths):
        raise ValueError('path is empty: give a directory ("." for this one) or ":memory:"')
    if len(paths) > 1 and MEMORY in paths:
        raise ValueError('":memory:" cannot be one of several log directories')
    if len({os.path.abspath(one) for one in paths}) < len(paths):
        raise ValueError(f"a log directory is named twice: {paths}")
    return paths


def reader(
    paths: list[str], config: NodeConfig, transport: Transport, clock: Clock, node_id: int | None
) -> "ReadOnlyBroker":
    """A node that reads these directories. Raises what `pylog.open` raises, and ValueError."""
    from pylog.broker.read_only_broker import ReadOnlyBroker

    if paths == [MEMORY]:
        raise ValueError('":memory:" belongs to the process that opens it: there is nothing to read for another')
    files = DiskFiles(config.max_open_files, read_only=True)
    where = [os.path.abspath(one) for one in paths]
    node = ReadOnlyBroker(files, where, config=config, clock=clock, node_id=node_id or 1)
    # A reader is one node alone: its transport goes with it.
    transport.attach(node.node_id, node.handle)
    return node


def owner(
    paths: Sequence[str], config: NodeConfig, transport: Transport, clock: Clock, node_id: int | None, flush: str
) -> Broker:
    """A node that owns these directories, absolute paths. Raises what `pylog.open` raises."""
    if not config.allow_network_file_systems:
        for one in paths:
            refuse_network(one)
    files = DiskFiles(config.max_open_files)
    return Broker(files, paths, config=config, clock=clock, transport=transport, node_id=node_id, flush=flush)


def in_memory(config: NodeConfig, transport: Transport, clock: Clock, node_id: int | None, flush: str | None) -> Broker:
    """A node in memory."""
    return Broker(
        MemoryFiles(), ["log"], config=config, clock=clock, transport=transport, node_id=node_id, flush=flush or "none"
    )


def made_whole(make: Callable[[], Made]) -> Made:
    """The result of `make`: a signal that comes while it is made waits, and then the result is closed."""
    made = None
    try:
        # Under a lock not even a second signal strikes: half of a node could not be closed.
        with WholeLock():
            made = make()
    except BaseException:
        if made is not None:
            # The caller does not get it, so close it, or the directory stays locked.
            made.close()
        raise
    return made


def once_free(make: Callable[[], T]) -> T:
    """The result of `make`, after this process has closed the logs that it dropped open. Raises DirectoryLocked:
    another has it.
    """
    # The directory may be that of a log which this process has dropped open, and closes now.
    is_closing = has_dropped()
    try:
        return make()
    except DirectoryLocked:
        # Or which is held by nothing but an error that was caught once: its frames and it refer to each other.
        gc.collect()
        if not (is_closing or has_dropped()):
            raise
        settle()
        return make()
