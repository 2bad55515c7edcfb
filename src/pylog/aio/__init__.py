"""pylog for asyncio: `async with pylog.aio.open("data") as log`. The names are aiokafka's where it has them.

    opening     `open` and `connect`: the ways in
    log         `Log`: topics, producers, consumers, the admin
    producer    `Producer`: `send` waits for room in the buffer, and gives a future
    consumer    `Consumer`: `getone`, `getmany`, a loop
    share_consumer  `ShareConsumer`: a member of a share group
    workers     `Workers`: tasks that do the records of topics as jobs, each in a `working_task`
    bell        carries the rounds of a consumer's calls on in the loop: where these wait
    threads     the few threads for calls that wait in a thread: an open, a close, an admin's, the end of a transaction

Nothing here blocks the loop, and no consumer has a thread. Cancelling a call loses no record: a record that a consumer
has not given is read again, and one that a producer has taken is sent.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pylog.aio.consumer import Consumer
from pylog.aio.log import Admin, Log
from pylog.aio.opening import connect, open  # noqa: A004
from pylog.aio.producer import Producer
from pylog.aio.share_consumer import ShareConsumer

if TYPE_CHECKING:
    from pylog.aio.workers import Workers

__all__ = ["Admin", "Consumer", "Log", "Producer", "ShareConsumer", "Workers", "connect", "open"]

if not TYPE_CHECKING:  # mypy would take any name for one of this module

    def __getattr__(name: str) -> Any:
        # It loads the rules of workers, and the schedule of jobs.
        if name != "Workers":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = import_module("pylog.aio.workers").Workers
        return found
