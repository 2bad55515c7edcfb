"""A member of the group that works: a share consumer, and the thread that works for it.

    next record ──> try ──> accept
                     ├────> pause, try again           the lock is renewed meanwhile
                     ├────> dead letter, then reject   it was tried often enough, or cannot be read
                     └────> (a time limit is over)     another thread takes the consumer: dead letter, then reject

The thread uses the consumer while it has no job. While it has one, the timekeeper does: renewals have to go on under a
job that takes long. `_record` says which of the two it is, and `_lock` guards it.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pylog.client.consumer.fetcher import deserializing
from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import Closed, CorruptBatch, DeserializationError, PylogError, ThreadsExhausted, Wakeup
from pylog.record import ShareRecord
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock
from pylog.runtime.threads import started

logger = logging.getLogger("pylog.workers")

Job = ShareRecord[Any, Any]
Deserialize = Callable[[Any], Any]
RETRY_MS = 1000
"""How long to wait for a thread where the system gives none."""


class Reject(Exception):  # noqa: N818 - the word of share groups
    """Raise it where a job is not to be tried again: it goes to the dead-letter topic at once."""


class _Lost(Exception):  # noqa: N818 - it is caught here
    """The consumer belongs to a later thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """The rules that all members of one `Workers` go by."""

    work: Callable[[Job], object]
    readable: ShareConsumerConfig
    """With the deserializers. The consumer has none: what is given up goes on as bytes."""
    retries: int
    backoff_ms: int
    backoff_max_ms: int
    timeout_ms: int | None
    lock_ms: int
    deliveries_max: int
    put_aside: Callable[[Job, Exception], object] | None
    """Makes a dead letter durable; None: jobs that are given up are logged, and gone."""


class Crew(Protocol):
    """The members together, as one of them sees them."""

    is_stopping: bool

    def count(self, name: str) -> None:
        """Add one to a counter."""

    def expect(self, tick_ms: int) -> None:
        """Have `look` called at that time."""

    def ended(self, error: BaseException | None) -> None:
        """Note that a member works no more; an error ends the others, too."""


class WorkingMember:
    """One consumer with its thread."""

    def __init__(self, crew: Crew, rules: JobRules, consumer: ShareConsumer, clock: Clock, name: str) -> None:
        self._crew = crew
        self._rules = rules
        self._consumer = consumer
        self._clock = clock
        self._name = name
        self._lock = WholeLock()
        self._turn = 0
        """The number of the thread that has the consumer. One whose job took too long has lost it to the next."""
        self._record: Job | None = None
        """The job that the thread is at."""
        self._renew_ms = 0
        self._over_ms: int | None = None
        """The end of the pause, or of the time of this try."""
        self._resume: threading.Event | None = None
        """The end of a pause, for the thread that waits in it."""

    def begin(self) -> None:
        """Have a thread at work. Raises ThreadsExhausted."""
        with self._lock:
            self._start(None)

    def _start(self, overdue: Job | None) -> None:
        """Have a thread at work, which gives up the overdue job first."""
        started(partial(self._run, self._turn + 1, overdue), self._name)
        self._turn += 1

    def stop(self) -> None:
        """Let it end after its job. From any thread, and from a signal's handler."""
        if (resume := self._resume) is not None:
            resume.set()
        self._consumer.wakeup()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self, turn: int, overdue: Job | None) -> None:
        failure: BaseException | None = None
        try:
            if overdue is not None:
                self._gives_up(overdue, TimeoutError(f"it took more than {self._rules.timeout_ms} ms"))
            deserialize = deserializing(self._rules.readable)
            while not self._crew.is_stopping:
                self._do(turn, self._next(), deserialize)
        except (Wakeup, _Lost):
            pass
        except BaseException as error:  # noqa: BLE001 - `Workers.run` raises it
            failure = error
        with self._lock:
            if self._turn != turn:
                return
            self._record = None
        try:
            self._consumer.close()
        finally:
            self._crew.ended(failure)

    def _next(self) -> Job:
        while True:
            try:
                return next(self._consumer)
            except CorruptBatch:
                logger.exception("damaged records were rejected")

    def _do(self, turn: int, record: Job, deserialize: Deserialize | None) -> None:
        with self._lock:
            self._renew_ms = self._clock.tick_ms() + self._rules.lock_ms // 2
            self._record, self._over_ms, self._resume = record, None, None
        self._crew.expect(self._renew_ms)
        error = self._tried(turn, record, deserialize)
        if error is None:
            self._end_job(record, "accept", "done")
        else:
            self._gives_up(record, error)

    def _tried(self, turn: int, record: Job, deserialize: Deserialize | None) -> Exception | None:
        """Why the job is given up, or None."""
        if record.delivery_count >= self._rules.deliveries_max:
            return Reject(f"it was delivered {record.delivery_count} times, and nobody came to its end")
        tries = 0
        while True:
            error = self._try(turn, record, deserialize)
            tries += 1
            if error is None or tries > self._rules.retries or _is_final(error):
                return error
            self._pause(record, tries, error)
            self._crew.count("retried")

    def _try(self, turn: int, record: Job, deserialize: Deserialize | None) -> Exception | None:
        """Work on a job once; gives its error. Raises _Lost: its time was over, and it is another thread's now."""
        if self._rules.timeout_ms is not None:
            with self._lock:
                self._resume = None
                self._over_ms = over_ms = self._clock.tick_ms() + self._rules.timeout_ms
            self._crew.expect(over_ms)
        result: Exception | None = None
        try:
            self._rules.work(record if deserialize is None else _readable(record, deserialize))
        except Exception as error:  # noqa: BLE001 - jobs may raise anything
            result = error
        with self._lock:
            if self._turn == turn:
                self._over_ms = None
                return result
        logger.warning("%s ended after its time, which does not count: %r", _place_of(record), result)
        raise _Lost

    def _pause(self, record: Job, tries: int, error: Exception) -> None:
        """Wait before the next try, longer each time. Raises Wakeup: the workers stop, and another one gets the job."""
        longest = min(self._rules.backoff_ms << min(tries - 1, 30), self._rules.backoff_max_ms)
        wait_ms = round(longest * random.uniform(0.5, 1))
        logger.warning("%s is tried again in %d ms: %r", _place_of(record), wait_ms, error)
        resume = threading.Event()
        with self._lock:
            self._resume = resume
            self._over_ms = over_ms = self._clock.tick_ms() + wait_ms
        self._crew.expect(over_ms)
        if not self._crew.is_stopping:
            resume.wait()
        if self._crew.is_stopping:
            raise Wakeup("the workers stop")

    def _gives_up(self, record: Job, error: Exception) -> None:
        """Put a job aside, and reject it once that is durable."""
        logger.error("%s is given up: %r", _place_of(record), error, exc_info=error)
        tries = 0
        while self._rules.put_aside is not None:
            try:
                self._rules.put_aside(record, error)
                break
            except Closed:
                raise
            except PylogError as failure:
                tries += 1
                self._pause(record, tries, failure)
        self._end_job(record, "reject", "dead")

    def _end_job(self, record: Job, word: str, counter: str) -> None:
        with self._lock:
            self._record = None
            self._consumer.acknowledge(record, word)
        self._crew.count(counter)

    # --- the timekeeper ----------------------------------------------------------------------------------------------

    def due(self) -> int | None:
        """The tick at which `look` has something to do."""
        if self._record is None:
            return None
        return self._renew_ms if self._over_ms is None else min(self._renew_ms, self._over_ms)

    def look(self) -> None:
        """Renew the lock that is half over; end a pause; take the consumer from a job whose time is over."""
        with self._lock:
            now_ms = self._clock.tick_ms()
            if self._record is None:
                return
            if self._renew_ms <= now_ms:
                self._renew_ms = now_ms + self._rules.lock_ms // 2
                self._renew(self._record)
            if self._over_ms is not None and self._over_ms <= now_ms:
                self._over_ms = None
                if self._resume is None:
                    self._replace(self._record, now_ms)
                else:
                    self._resume.set()

    def _replace(self, record: Job, now_ms: int) -> None:
        try:
            self._start(record)
        except ThreadsExhausted as error:
            logger.error("%s is over its time, and there is no thread to go on: %s", _place_of(record), error)
            self._over_ms = now_ms + RETRY_MS

    def _renew(self, record: Job) -> None:
        try:
            self._consumer.acknowledge(record, "renew")
            # It takes the answers to earlier ones, and does not wait for this one's.
            self._consumer.commit_sync(0)
        except PylogError as error:
            logger.warning("the lock of %s was not renewed: %s", _place_of(record), error)


def _is_final(error: Exception) -> bool:
    """Whether another try cannot help."""
    return isinstance(error, Reject) or (isinstance(error, DeserializationError) and not error.may_pass)


def _readable(record: Job, deserialize: Deserialize) -> Job:
    made = deserialize(record)
    return record._replace(key=made.key, value=made.value)


def _place_of(record: Job) -> str:
    return f"{record.topic}-{record.partition}, offset {record.offset}"
