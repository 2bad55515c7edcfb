"""`Workers` for asyncio: tasks that share the records of topics as jobs, by the rules of `pylog.workers`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from pylog.aio.log import Log
from pylog.aio.producer import Producer
from pylog.aio.working_task import WorkingTask
from pylog.record import ShareRecord
from pylog.runtime.stopping import stopped_by_signals
from pylog.workers.dead_letter import dead_letter_headers
from pylog.workers.rules import USUAL, Job, JobConfig, check_least, named

logger = logging.getLogger("pylog.aio")

K = TypeVar("K")
V = TypeVar("V")


class Workers:
    """Tasks of a loop that do the records of topics as jobs, each with a consumer of one share group: see
    `pylog.workers.Workers` for what becomes of a job. Threads and processes share the work where they name that group.

        async def work(record): ...

        async with Workers(log, "jobs", work, group_id="workers", tasks=100, dead_letter="jobs.dead") as workers:
            await workers.run()

    A job that waits lets the others go on; one that computes holds up the loop. `timeout_ms`: a job whose time is over
    is cancelled, and given up. A job in which something else is cancelled that it waits for has failed, and is tried
    again. For one loop, as all of `pylog.aio`.

    >>> log = await pylog.aio.open(":memory:")
    >>> topic = await log.create_topic("orders")
    >>> appended = topic[0].append([pylog.Record(b"book"), pylog.Record(b"pen")])
    >>> async def work(record):
    ...     workers.stop()
    >>> workers = pylog.aio.Workers(log, "orders", work, group_id="packing")
    >>> workers
    <Workers of group 'packing': 0 done, 0 retried, 0 dead>
    """

    def __init__(
        self, log: Log[Any], topics: str | Iterable[str], work: Callable[[ShareRecord[K, V]], Awaitable[object]], *,
        group_id: str, tasks: int = 1, retries: int = 5, backoff_ms: int = 1000, backoff_max_ms: int = 60_000,
        timeout_ms: int | None = None, dead_letter: str | None = None,
        key_deserializer: Callable[[bytes], K] | None = None, value_deserializer: Callable[[bytes], V] | None = None,
        group_config: Mapping[str, object] = USUAL,
    ) -> None:  # fmt: skip
        check_least("tasks", tasks, 1)
        self._config = JobConfig(
            topics=named(topics), group_id=group_id, retries=retries, backoff_ms=backoff_ms,
            backoff_max_ms=backoff_max_ms, timeout_ms=timeout_ms, dead_letter=dead_letter,
            group_config=dict(group_config), key_deserializer=key_deserializer, value_deserializer=value_deserializer,
        )  # fmt: skip
        self.done = 0
        """The number of jobs that were accepted."""
        self.retried = 0
        """The number of tries after the first ones."""
        self.dead = 0
        """The number of jobs that were given up."""
        self.is_stopping = False
        """True from the call of `stop` on."""
        self.work: Callable[[Any], Awaitable[object]] = work
        self._log = log
        self._tasks = tasks
        self._members: list[WorkingTask] = []
        self._at_work = 0
        self._producer: Producer[Any, Any] | None = None
        self._stopping, self._all_ended = asyncio.Event(), asyncio.Event()
        self._all_ended.set()
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        counts = f"{self.done} done, {self.retried} retried, {self.dead} dead"
        return f"<Workers of group {self._config.group_id!r}: {counts}>"

    # --- the beginning -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin to work, in the background. Raises what `Log.share_consumer` does; UnknownTopicOrPartition where there
        is no topic for dead letters.
        """
        if self._members:
            raise RuntimeError("these workers have begun already: make others")
        rules = await self._log._threads.call(self._config.rules, self._log.sync)
        consumers = [self._config.member(self._log.share_consumer) for _ in range(self._tasks)]
        if self._config.dead_letter is not None:
            self._producer = self._log.producer()
        self._at_work = self._tasks
        self._all_ended.clear()
        for number, consumer in enumerate(consumers):
            self._members.append(WorkingTask(self, rules, consumer, f"pylog-workers-{number}"))
        return self

    # --- the end -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wait until the jobs in work have ended after SIGINT, SIGTERM or `stop`. A second signal does what it did
        before this call.

        Raises the error for which the group does not go on: of a consumer, or one that is not an `Exception` and comes
        out of a job. Signals count in the main thread.

        >>> async with workers:
        ...     await workers.run()
        >>> workers.done
        1
        """
        loop = asyncio.get_running_loop()

        def stop() -> None:
            # It wakes the loop, which a handler of a signal does not.
            loop.call_soon_threadsafe(self.stop)

        with stopped_by_signals(stop):
            await self._all_ended.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Begin no more jobs, and try none again. Returns at once. Jobs may call it, too.

        >>> workers.stop()
        >>> workers.is_stopping
        True
        """
        self.is_stopping = True
        self._stopping.set()
        for member in self._members:
            member.stop()

    async def close(self) -> None:
        """Stop, and wait until the jobs in work have ended. Not for jobs.

        >>> await workers.close()
        """
        self.stop()
        await self._all_ended.wait()
        await self._close_rest()

    async def _close_rest(self) -> None:
        if self._producer is not None:
            await self._producer.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; where this task is cancelled jobs in work are cancelled, too: others get their records."""
        if error is None or isinstance(error, Exception):
            await self.close()
            return
        self.stop()
        for member in self._members:
            member.task.cancel()
        await self._all_ended.wait()
        await self._close_rest()

    # --- what the members call ---------------------------------------------------------------------------------------

    def count(self, name: str) -> None:
        """Add one to a counter."""
        setattr(self, name, getattr(self, name) + 1)

    async def stops_within(self, wait_ms: float) -> bool:
        """Wait; gives whether `stop` has ended that."""
        try:
            async with asyncio.timeout(wait_ms / 1000):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    def ended(self, error: BaseException | None) -> None:
        """Note that a member works no more; an error ends the others, too."""
        if error is not None:
            logger.error("the workers of group %s stop: %r", self._config.group_id, error, exc_info=error)
            self._failure = self._failure or error
            self.stop()
        self._at_work -= 1
        if not self._at_work:
            self._all_ended.set()

    async def put_aside(self, record: Job, error: BaseException) -> None:
        """Make a dead letter durable, if there is a topic for it."""
        topic = self._config.dead_letter
        if self._producer is not None and topic is not None:
            headers = dead_letter_headers(record, self._config.group_id, error)
            await self._producer.send_and_wait(topic, record.value, record.key, headers=headers)
