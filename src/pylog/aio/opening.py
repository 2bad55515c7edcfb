"""`open` and `connect` for asyncio: each call is awaited, or is an `async with` of its own."""

from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from pylog.aio.log import Log
from pylog.aio.threads import Threads
from pylog.handles.client_half import ClientHalf

if TYPE_CHECKING:
    import os

    from pylog.config.typed import ConnectionOptions, NodeOptions
    from pylog.handles.connected_log import ConnectedTopic
    from pylog.handles.views import TopicView
    from pylog.log import Flush, Mode
    from pylog.runtime.clock import Clock
    from pylog.transport import Transport

View = TypeVar("View")


class OpeningLog(Generic[View]):
    """A log that is about to be open: await it, or enter it."""

    def __init__(self, make: Callable[[], ClientHalf[View]]) -> None:
        self._make = make
        self._log: Log[View] | None = None

    async def _open(self) -> Log[View]:
        threads = Threads()
        try:
            found = await threads.make(self._make, ClientHalf.close)
        except BaseException:
            threads.close()
            raise
        return Log(found, threads)

    def __await__(self) -> Generator[object, None, Log[View]]:
        return self._open().__await__()

    async def __aenter__(self) -> Log[View]:
        self._log = await self._open()
        return self._log

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._log is not None, "it was entered"
        await self._log.__aexit__(kind, error, traceback)


def open(  # noqa: A001
    path: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]",
    *,
    mode: "Mode" = "auto",
    flush: "Flush | None" = None,
    config: "NodeOptions | None" = None,
    node_id: int | None = None,
    transport: "Transport | None" = None,
    clock: "Clock | None" = None,
    wait: float | None = None,
) -> "OpeningLog[TopicView]":
    """`pylog.open` for a loop: `async with pylog.aio.open("data") as log`, or `log = await pylog.aio.open("data")`.

    Raises what `pylog.open` does.

    >>> async with pylog.aio.open("data") as log, log.producer() as producer:
    ...     topic = await log.create_topic("clicks")
    ...     placed = await producer.send_and_wait("clicks", b"page 1")
    >>> placed.offset
    0
    """

    def make() -> "ClientHalf[TopicView]":
        from pylog import log as opening

        return opening.open(
            path, mode=mode, flush=flush, config=config, node_id=node_id, transport=transport, clock=clock, wait=wait
        )

    return OpeningLog(make)


def connect(
    bootstrap_servers: str | Sequence[str], *, config: Mapping[str, object] | None = None,
    **configs: Unpack["ConnectionOptions"],
) -> "OpeningLog[ConnectedTopic]":  # fmt: skip
    """`pylog.connect` for a loop: `async with pylog.aio.connect("host:9092") as log`, or await it.

    Raises what `pylog.connect` does.

    >>> server = log.serve("127.0.0.1:0")
    >>> async with pylog.aio.connect(server.bootstrap_servers) as there:
    ...     await there.topics()
    ['orders']
    """

    def make() -> "ClientHalf[ConnectedTopic]":
        from pylog.handles import connected_log

        return connected_log.connect(bootstrap_servers, config=config, **configs)

    return OpeningLog(make)
