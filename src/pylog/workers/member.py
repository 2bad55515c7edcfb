"""A member of the group that works: a share consumer, and the thread that works for it.

    next record ──> try ──> accept
                     ├────> pause, try again           the lock is renewed meanwhile
                     ├────> dead letter, then reject   it was tried often enough, or cannot be read
                     └────> (a time limit is over)     another thread takes the consumer: dead letter, then reject

The thread uses the consumer while it has no job. While it has one, the timekeeper does: renewals have to go on under a
job that takes long. `_record` says which of the two it is, and `_lock` guards it.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.errors import Closed, CorruptBatch, PylogError, ThreadsExhausted, Wakeup
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock
from pylog.runtime.threads import started
from pylog.workers.rules import Job, JobRules, Read, place_of

logger = logging.getLogger("pylog.workers")

RETRY_MS = 1000
"""How long to wait for a thread where the system gives none."""


class _Lost(Exception):  # noqa: N818 - it is caught here
    """The consumer belongs to a later thread."""


class Crew(Protocol):
    """The members together, as one of them sees them."""

    is_stopping: bool
    work: Callable[[Job], object]

    def put_aside(self, record: Job, error: Exception) -> None:
        """Make a dead letter durable, if there is a topic for it."""

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
                self._gives_up(overdue, self._rules.overdue())
            read = self._rules.config.reader()
            while not self._crew.is_stopping:
                self._do(turn, self._next(), read)
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

    def _do(self, turn: int, record: Job, read: Read) -> None:
        with self._lock:
            self._renew_ms = self._clock.tick_ms() + self._rules.renewal_ms
            self._record, self._over_ms, self._resume = record, None, None
        self._crew.expect(self._renew_ms)
        error = self._tried(turn, record, read)
        if error is None:
            self._end_job(record, "accept", "done")
        else:
            self._gives_up(record, error)

    def _tried(self, turn: int, record: Job, read: Read) -> Exception | None:
        """Why the job is given up, or None."""
        if (spent := self._rules.why_spent(record)) is not None:
            return spent
        tries = 0
        while True:
            error = self._try(turn, record, read)
            tries += 1
            if error is None or not self._rules.may_try_again(tries, error):
                return error
            self._pause(record, tries, error)
            self._crew.count("retried")

    def _try(self, turn: int, record: Job, read: Read) -> Exception | None:
        """Work on a job once; gives its error. Raises _Lost: its time was over, and it is another thread's now."""
        timeout_ms = self._rules.config.timeout_ms
        if timeout_ms is not None:
            with self._lock:
                self._resume = None
                self._over_ms = over_ms = self._clock.tick_ms() + timeout_ms
            self._crew.expect(over_ms)
        result: Exception | None = None
        try:
            self._crew.work(read(record))
        except Exception as error:  # noqa: BLE001 - jobs may raise anything
            result = error
        with self._lock:
            if self._turn == turn:
                self._over_ms = None
                return result
        logger.warning("%s ended after its time, which does not count: %r", place_of(record), result)
        raise _Lost

    def _pause(self, record: Job, tries: int, error: Exception) -> None:
        """Wait before the next try, longer each time. Raises Wakeup: the workers stop, and another one gets the job."""
        wait_ms = self._rules.pause_ms(tries)
        logger.warning("%s is tried again in %d ms: %r", place_of(record), wait_ms, error)
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
        logger.error("%s is given up: %r", place_of(record), error, exc_info=error)
        tries = 0
        while True:
            try:
                self._crew.put_aside(record, error)
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
                self._renew_ms = now_ms + self._rules.renewal_ms
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
            logger.error("%s is over its time, and there is no thread to go on: %s", place_of(record), error)
            self._over_ms = now_ms + RETRY_MS

    def _renew(self, record: Job) -> None:
        try:
            self._consumer.acknowledge(record, "renew")
            # It takes the answers to earlier ones, and does not wait for this one's.
            self._consumer.commit_sync(0)
        except PylogError as error:
            logger.warning("the lock of %s was not renewed: %s", place_of(record), error)
