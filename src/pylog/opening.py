"""`open` and `serve`: the ways in.

    mode="own"      this process owns the directory: it writes, and everything works; others may attach to it
    mode="attach"   another process owns it: what changes something goes to that, the files are read here
    mode="auto"     own, or attach where another process owns it, and take over when that ends
    mode="read"     no lock, nothing is written: reads what the owner, wherever it is, has published

    pylog.open(path)        -> Broker over DiskFiles, with a door  (mode own)
                            -> Attachment                          (mode attach)
                            -> ReadOnlyBroker over DiskFiles       (mode read)
    pylog.open(":memory:")  -> Broker over MemoryFiles

Producers and consumers are clients of the node over a transport: one that calls it in their thread, or the attachment.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Unpack

from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.log import Log
from pylog.nodes import MEMORY, checked_paths, in_memory, made_whole, reader
from pylog.runtime.clock import Clock, SystemClock
from pylog.transport import MemoryTransport, Transport

if TYPE_CHECKING:
    from socket import socket

    from pylog.attach.notice import Notice
    from pylog.attach.settings import Settings
    from pylog.config.typed import NodeOptions
    from pylog.server.security import SecurityOptions
    from pylog.server.server import Server

Mode = Literal["auto", "own", "attach", "read"]
MODES = "auto", "own", "attach", "read"
Flush = Literal["sync", "interval", "none"]
PARTS_OF_WORK = """
    pylog.client.admin.admin pylog.client.consumer.consumer pylog.coordinator.group pylog.coordinator.transaction
    pylog.kernel.pure cramjam difflib lz4.frame zstandard
""".split()
"""The parts that an open log may need at any moment. An import takes a descriptor, and a call in the middle of work may
find none: `open` loads them before it begins, and a command that stays once it is at work.
"""


def open(  # noqa: A001
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: Mode = "auto",
    flush: Flush | None = None,
    config: "NodeOptions | None" = None,
    node_id: int | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
    wait: float | None = None,
) -> Log:
    """Open a log directory, or `":memory:"`, and give a `Log`; use it as a context manager.

    Several directories are given as a list: partitions are spread over them, and one that fails takes only its own
    offline; the first one holds the list of topics.

    `mode`: "own" makes a missing directory and locks it. "auto" does so, too, unless another process owns it: then this
    one is attached to that, with the same API, and takes over when it ends. "attach" only attaches. "read" needs no
    owner, and writes nothing. `wait`: how many seconds to wait for what is in the way: another owner, or one that is
    not there yet; None: 30 for "auto" where an owner is about to open or to end, and 0 else.

    `flush`: when an append is durable: "sync" before it is acknowledged (the default on disk), "interval" within a
    second, "none" when the system pleases (the default in memory). `config`: Kafka's broker configs, among them
    defaults for topics (`log.segment.bytes`...). What is given here has to be what the owner goes by. `node_id` and
    `transport`: for instances that replicate to each other; a log with a transport of its own is owned.

    Raises: DirectoryLocked (names the owner's pid), NoOwner (nobody to attach to), SettingsDiffer, LogNotFound (reader,
    nothing there; or the directory named first is not the one with the list of topics: it is not mounted, say),
    UnsupportedFormat, ReadOnly, StorageError (a file where the directory should be...), InvalidConfig.
    """
    load_parts()
    return open_lazily(
        path, mode=mode, flush=flush, config=config, node_id=node_id, transport=transport, clock=clock, wait=wait
    )


def load_parts() -> None:
    """Load what an open log may need later."""
    for part in PARTS_OF_WORK:
        import_module(part)


def open_lazily(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: Mode = "auto",
    flush: Flush | None = None,
    config: "NodeOptions | None" = None,
    node_id: int | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
    wait: float | None = None,
) -> Log:
    """`open` without `load_parts`, which is half of its time in a new process: for a command, which ends soon."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}, not one of {', '.join(MODES)}")
    if flush not in (None, "sync", "interval", "none"):
        raise ValueError(f'flush is {flush!r}, not "sync", "interval" or "none"')
    paths = checked_paths(path)
    if node_id is not None and (type(node_id) is not int or not 0 <= node_id < 1 << 31):
        raise ValueError(f"node_id is {node_id!r}, not a whole number from 0 to {(1 << 31) - 1}")
    node_config, ticking = NodeConfig.from_kafka(config or {}), clock or SystemClock()
    if mode == "read":
        return _reader(paths, node_config, transport or MemoryTransport(), ticking, node_id)
    if paths == [MEMORY]:
        way = transport or MemoryTransport()
        make = partial(in_memory, node_config, way, ticking, node_id, flush)
        return made_whole(partial(_in_memory, make, way, ticking))
    from pylog.attach.settings import Settings

    settings = Settings(
        paths=tuple(map(os.path.abspath, paths)), clock=ticking, flush=flush, config=node_config, given=config or {},
        node_id=node_id,
    )  # fmt: skip
    return _shared(settings, mode if transport is None else "own", transport or MemoryTransport(), wait)


def serve(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = MEMORY,
    listen: str | Sequence[str] = "127.0.0.1:0",
    *,
    advertise: str | Sequence[str] | None = None,
    flush: Flush | None = None,
    config: "NodeOptions | None" = None,
    **security: "Unpack[SecurityOptions]",
) -> "Server":
    """Open a log directory, or `":memory:"`, and serve it to Kafka clients; closing the server closes the log.

    See `open` and `Log.serve`, and what they raise.
    """
    log = open(path, mode="own", flush=flush, config=config)
    try:
        server = log.serve(listen, advertise=advertise, **security)
    except BaseException:
        log.close()
        raise
    server.owned = log
    return server


def _reader(paths: list[str], config: NodeConfig, transport: Transport, clock: Clock, node_id: int | None) -> Log:
    node = reader(paths, config, transport, clock, node_id)
    again = partial(_reader, paths, config, MemoryTransport(), clock, node_id)
    return Log(paths[0], node, node, transport, clock, again=again)


def _in_memory(make: Callable[[], Broker], transport: Transport, clock: Clock) -> Log:
    node = make()
    return Log(MEMORY, node, node, transport, clock)


def _shared(
    settings: "Settings", mode: Literal["auto", "own", "attach"], transport: Transport, wait: float | None
) -> Log:
    """A log directory that other processes may use, too."""
    from pylog.attach.opening import owned_or_attached, when_free
    from pylog.attach.owned import Owned

    path, clock = settings.paths[0], settings.clock
    # A child that was forked is attached to its parent. It takes over as this process would.
    again = partial(_shared, settings, "auto" if mode == "auto" else "attach", MemoryTransport(), wait)

    def own() -> Log:
        held = Owned(settings, transport)
        return Log(path, held.broker, held, transport, clock, again=again)

    def attach(owner: "Notice", connection: "socket") -> Log:
        # An owner has no use for the client of a network.
        from pylog.attach.attachment import Attachment

        found = Attachment(settings, owner, connection, may_own=mode == "auto")
        return Log(path, found, found, found, clock, attachment=found, again=again)

    if mode == "own":
        return when_free(partial(made_whole, own), wait)
    found = owned_or_attached(settings, mode, wait, partial(made_whole, own), attach)
    return found or _reader(list(settings.paths), settings.config, MemoryTransport(), clock, settings.node_id)
