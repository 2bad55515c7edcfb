"""A member of the group that works in a loop: a share consumer, and the task that works for it.

    next record ──> try ──> accept
                     ├────> pause, try again           the lock is renewed meanwhile
                     └────> dead letter, then reject   it was tried often enough, was too slow, or cannot be read

A record that is in work when the task is cancelled is not acknowledged: it is free when the consumer is closed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pylog.aio.share_consumer import ShareConsumer
from pylog.errors import Closed, CorruptBatch, PylogError, Wakeup
from pylog.workers.rules import Job, JobRules, place_of

logger = logging.getLogger("pylog.aio")

FOREVER_MS = 1 << 40


class Crew(Protocol):
    """The members together, as one of them sees them."""

    is_stopping: bool
    work: Callable[[Any], Awaitable[object]]

    async def put_aside(self, record: Job, error: BaseException) -> None:
        """Make a dead letter durable, if there is a topic for it."""

    async def stops_within(self, wait_ms: float) -> bool:
        """Wait; gives whether `stop` has ended that."""

    def count(self, name: str) -> None:
        """Add one to a counter."""

    def ended(self, error: BaseException | None) -> None:
        """Note that a member works no more; an error ends the others, too."""


class WorkingTask:
    """One consumer with its task."""

    def __init__(self, crew: Crew, rules: JobRules, consumer: ShareConsumer[Any, Any], name: str) -> None:
        self._crew = crew
        self._rules = rules
        self._consumer = consumer
        self._read = rules.config.reader()
        self._renewals: set[asyncio.Task[None]] = set()
        """Those under way: a loop knows its tasks by weak references."""
        self.task = asyncio.create_task(self._run(), name=name)

    def stop(self) -> None:
        """Let it end after its job."""
        self._consumer.wakeup()

    async def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._crew.is_stopping:
                await self._do(await self._next())
        except Wakeup:
            pass
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - `Workers.run` raises it
            failure = error
        finally:
            try:
                await self._consumer.close()
            finally:
                self._crew.ended(failure)

    async def _next(self) -> Job:
        while True:
            try:
                return (await self._consumer.poll(FOREVER_MS))[0]
            except CorruptBatch:
                logger.exception("damaged records were rejected")

    async def _do(self, record: Job) -> None:
        with self._renewed(record):
            error = await self._tried(record)
            if error is not None:
                await self._give_up(record, error)
        self._consumer.acknowledge(record, "accept" if error is None else "reject")
        self._crew.count("done" if error is None else "dead")

    async def _tried(self, record: Job) -> BaseException | None:
        """Why the job is given up, or None."""
        if (spent := self._rules.why_spent(record)) is not None:
            return spent
        tries = 0
        timeout_ms = self._rules.config.timeout_ms
        while True:
            limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
            error = await self._try(record, limit)
            tries += 1
            if limit.expired():
                # Also where the job goes its own way when it is cancelled: what it gives then does not count.
                return self._rules.overdue()
            if error is None or not self._rules.may_try_again(tries, error):
                return error
            await self._pause(record, tries, error)
            self._crew.count("retried")

    async def _try(self, record: Job, limit: asyncio.Timeout) -> BaseException | None:
        """Work on a job once; gives its error."""
        try:
            async with limit:
                await self._crew.work(self._read(record))
        except Exception as error:  # noqa: BLE001 - jobs may raise anything
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Something that it waited for was cancelled.
            return error
        return None

    async def _pause(self, record: Job, tries: int, error: BaseException) -> None:
        """Wait before the next try. Raises Wakeup: the workers stop, and another one gets the job."""
        wait_ms = self._rules.pause_ms(tries)
        logger.warning("%s is tried again in %d ms: %r", place_of(record), wait_ms, error)
        if await self._crew.stops_within(wait_ms):
            raise Wakeup("the workers stop")

    async def _give_up(self, record: Job, error: BaseException) -> None:
        """Put a job aside, to be rejected once that is durable."""
        logger.error("%s is given up: %r", place_of(record), error, exc_info=error)
        tries = 0
        while True:
            try:
                await self._crew.put_aside(record, error)
            except Closed:
                raise
            except PylogError as failure:
                tries += 1
                await self._pause(record, tries, failure)
            else:
                return

    # --- its lock ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _renewed(self, record: Job) -> Iterator[None]:
        """Renew the lock of a record whenever half of its time is over."""
        loop, seconds = asyncio.get_running_loop(), self._rules.renewal_ms / 1000
        timer: asyncio.TimerHandle

        def renew() -> None:
            nonlocal timer
            timer = loop.call_later(seconds, renew)
            renewal = loop.create_task(self._renew(record))
            self._renewals.add(renewal)
            renewal.add_done_callback(self._renewals.discard)

        timer = loop.call_later(seconds, renew)
        try:
            yield
        finally:
            timer.cancel()

    async def _renew(self, record: Job) -> None:
        try:
            self._consumer.acknowledge(record, "renew")
            # It takes the answers to earlier ones, and does not wait for this one's.
            await self._consumer.commit_sync(0)
        except PylogError as error:
            logger.warning("the lock of %s was not renewed: %s", place_of(record), error)
