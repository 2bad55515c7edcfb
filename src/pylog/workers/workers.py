"""The public face: threads that share the records of topics as jobs."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from pylog.client.producer import Producer
from pylog.handles.client_half import ClientHalf
from pylog.record import ShareRecord
from pylog.runtime.signals import WholeLock, pause
from pylog.runtime.stopping import stopped_by_signals
from pylog.runtime.worker import Worker
from pylog.workers.dead_letter import dead_letter_headers
from pylog.workers.member import WorkingMember
from pylog.workers.rules import USUAL, Job, JobConfig, JobRules, check_least, named

logger = logging.getLogger("pylog.workers")

K = TypeVar("K")
V = TypeVar("V")


class Workers:
    """Threads that do the records of topics as jobs, each with a consumer of one share group, so that a slow job holds
    up no other. Processes share the work by running the same program.

        def work(record): ...

        with Workers(log, "jobs", work, group_id="workers", threads=8, dead_letter="jobs.dead") as workers:
            workers.run()

    A job is done at least once: again where a process is killed in it, at once, by somebody else. Order is not kept.

    `work(record)` comes back: the record is accepted. It raises: the record is tried again by the same thread, up to
    `retries` times, after pauses that double from `backoff_ms` to `backoff_max_ms`, each shortened by up to half. Locks
    are renewed meanwhile, and under long jobs, so a pause costs no delivery; it costs the place of its thread.
    Deliveries count those who were killed, or stopped with a record that waited or had just come: one that is delivered
    for the last time (`share.delivery.count.limit`) is given up without a try.

    A record that is given up goes to the topic `dead_letter`, as it is, with headers that name the error and the place
    (`pylog.workers.dead_letter`), and is rejected once that is durable; after a kill in between it is there twice.
    So are records that a deserializer refuses, and jobs that raise `Reject`, both without another try. Without a
    `dead_letter` the log of the program is all that is left of them.

    `timeout_ms`: the time of one try. Python cannot end a thread: a job whose time is over is given up, another thread
    takes its place, and the old one goes on until its `work` comes back, which does not count.

    `group_config`: configs of the group, set before it is joined. Without it a new group begins with the oldest record,
    and gets records of transactions when they are committed. An empty mapping sets nothing.

    >>> from pylog.workers import Workers
    >>> workers = Workers(log, "orders", lambda record: workers.stop(), group_id="packing")
    >>> workers
    <Workers of group 'packing': 0 done, 0 retried, 0 dead>
    """

    def __init__(
        self, log: ClientHalf[Any], topics: str | Iterable[str], work: Callable[[ShareRecord[K, V]], object], *,
        group_id: str, threads: int = 1, retries: int = 5, backoff_ms: int = 1000, backoff_max_ms: int = 60_000,
        timeout_ms: int | None = None, dead_letter: str | None = None,
        key_deserializer: Callable[[bytes], K] | None = None, value_deserializer: Callable[[bytes], V] | None = None,
        group_config: Mapping[str, object] = USUAL,
    ) -> None:  # fmt: skip
        check_least("threads", threads, 1)
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
        self.work: Callable[[Any], object] = work
        self._log = log
        self._threads = threads
        self._clock = log._clock
        self._timekeeper = Worker("pylog-workers-time", self._clock, self._due, self._look)
        self._lock = WholeLock()
        self._members: list[WorkingMember] = []
        self._at_work = 0
        self._producer: Producer[Any, Any] | None = None
        self._all_ended = threading.Event()
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        counts = f"{self.done} done, {self.retried} retried, {self.dead} dead"
        return f"<Workers of group {self._config.group_id!r}: {counts}>"

    # --- the beginning -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Begin to work, in the background. Raises what `Log.share_consumer` does; UnknownTopicOrPartition where there
        is no topic for dead letters; ThreadsExhausted.
        """
        if self._members:
            raise RuntimeError("these workers have begun already: make others")
        rules = self._config.rules(self._log)
        try:
            if self._config.dead_letter is not None:
                self._producer = self._log.producer()
            self._timekeeper.begin()
            for number in range(self._threads):
                self._begin(rules, f"pylog-workers-{number}")
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self, rules: JobRules, name: str) -> None:
        consumer = self._config.member(self._log.share_consumer)
        member = WorkingMember(self, rules, consumer, self._clock, name)
        with self._lock:
            self._members.append(member)
            self._at_work += 1
            self._all_ended.clear()
        try:
            member.begin()
        except BaseException:
            consumer.close()
            self.ended(None)
            raise

    # --- the end -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Wait until the jobs in work have ended after SIGINT, SIGTERM or `stop`. A second signal does what it did
        before this call.

        Raises the error for which the group does not go on: of a consumer, or one that is not an `Exception` and comes
        out of a job. Signals count in the main thread.

        >>> with workers:
        ...     workers.run()
        >>> workers.done
        1
        """
        with stopped_by_signals(self.stop):
            self._wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Begin no more jobs, and try none again. Returns at once. From any thread, a job's too, and from a signal's
        handler.

        >>> workers.stop()
        >>> workers.is_stopping
        True
        """
        self.is_stopping = True
        for member in [*self._members]:
            member.stop()

    def close(self) -> None:
        """Stop, and wait until the jobs in work have ended. Not for jobs.

        >>> workers.close()
        """
        self.stop()
        self._wait()
        self._close_rest()

    def _close_rest(self) -> None:
        self._timekeeper.close()
        if self._producer is not None:
            self._producer.close()

    def _wait(self) -> None:
        if self._members:
            pause(self._all_ended, threading.TIMEOUT_MAX)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close; after an exception as KeyboardInterrupt jobs in work are not waited for: others get their records."""
        if error is None or isinstance(error, Exception):
            self.close()
        else:
            self.stop()

    # --- what the members call ---------------------------------------------------------------------------------------

    def count(self, name: str) -> None:
        """Add one to a counter."""
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)

    def expect(self, tick_ms: int) -> None:
        """Have the members looked at, at that time."""
        self._timekeeper.wake_by(tick_ms)

    def ended(self, error: BaseException | None) -> None:
        """Note that a member works no more; an error ends the others, too."""
        if error is not None:
            logger.error("the workers of group %s stop: %r", self._config.group_id, error, exc_info=error)
            self._failure = self._failure or error
            self.stop()
        with self._lock:
            self._at_work -= 1
            is_last = not self._at_work
        if is_last:
            # Where a second signal has struck nobody waits for this one.
            self._close_rest()
            self._all_ended.set()

    def put_aside(self, record: Job, error: Exception) -> None:
        """Make a dead letter durable, if there is a topic for it."""
        topic = self._config.dead_letter
        if self._producer is not None and topic is not None:
            headers = dead_letter_headers(record, self._config.group_id, error)
            self._producer.send(topic, record.value, record.key, headers=headers).result()

    def _due(self) -> int | None:
        return min((due for member in self._members if (due := member.due()) is not None), default=None)

    def _look(self) -> None:
        for member in [*self._members]:
            member.look()
