"""The thread that moves what is due from a schedule to the jobs' topics.

    read ──> something is due ──> take the turn over, if it is another's ──> one transaction: jobs, and what ends them
                                     │
                                     └─ a producer with the schedule's transactional id: fences the one before. Then
                                        read on to the high watermark: what that one has committed is known

Any number of schedulers may run, in any processes. The one that moved last is the one that moves; another waits until
something has been due for a while, and takes over. Nobody has to notice that a process died, and two that believe to
have the turn cannot both commit: the coordinator of transactions decides (Kafka: InitProducerId's fencing).
"""

import logging
import random
import threading
from contextlib import suppress
from typing import Any, Self

from pylog.client.producer import Producer
from pylog.errors import (
    Closed,
    InvalidProducerEpoch,
    ProducerFenced,
    ProtocolError,
    PylogError,
    TransactionAbortable,
    TransactionAborted,
    UnknownTopicOrPartition,
    Wakeup,
)
from pylog.handles.client_half import ClientHalf
from pylog.record import TopicPartition
from pylog.runtime.future import Future
from pylog.runtime.signals import pause
from pylog.runtime.stopping import stopped_by_signals
from pylog.runtime.threads import started
from pylog.schedule.cron import next_ms
from pylog.schedule.entries import Cancelled, ScheduledJob, Stored, decoded, encoded
from pylog.schedule.schedule import NAME, check_topic
from pylog.schedule.timetable import Moves, Timetable

logger = logging.getLogger("pylog.schedule")

FENCED = (ProducerFenced, InvalidProducerEpoch)
OF_TRANSACTIONS = (*FENCED, TransactionAbortable, TransactionAborted)
"""What follows for all records of a transaction."""
ENTRIES_MAX = 500
"""How many entries a transaction has."""
LOOK_MS = 500
"""How often the clock is looked at: it may jump."""
STEP_MS = 1000
"""By how much two clocks drift apart before one of them has jumped."""
PATIENCE_MS = 500
"""How long something is due, at least, before a scheduler takes the turn from another."""
PATIENCE_MAX_MS = 60_000
RETRY_MS = 1000
POSTPONED_MS = 60_000
"""How long a job waits for its next try that its topic refuses."""


class Scheduler:
    """Moves the jobs of a schedule to their topics when they are due, in the background. Each comes once, also where a
    scheduler is killed: a move is a transaction. So read the jobs with `isolation_level="read_committed"`, in share
    groups `share.isolation.level`, as `pylog.workers` do: other readers also get jobs of aborted moves.

    Run one, or several: in each process of the workers, say. Where the one that moves is killed, another takes over
    within a second or two.

    A job may come late, by as long as nobody runs; it never comes early by the clock of the one that moves it. Where
    that clock jumps, a job with `at` goes by it, and one with `delay_ms` waits as long as it would have.

    >>> from pylog.schedule import Scheduler
    >>> with Scheduler(log) as scheduler:
    ...     scheduler
    <Scheduler of 'schedule': 0 moved>
    """

    def __init__(self, log: ClientHalf[Any], topic: str = NAME) -> None:
        """Raises what `Schedule` does."""
        check_topic(log, topic)
        self.moved = 0
        """The number of jobs that it has moved."""
        self._log = log
        self._partition = TopicPartition(topic, 0)
        self._clock = log._clock
        self._consumer = log.consumer(isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.assign([self._partition])
        self._table = Timetable()
        self._ahead_ms = self._clock.wall_ms() - self._clock.tick_ms()
        self._producer: Producer[Any, Any] | None = None
        self._is_mine = True
        """Whether it need not wait for another one: none has fenced it yet."""
        self._begins_ms: int | None = None
        """The tick of its next turn, while something is due."""
        self._patience_ms = PATIENCE_MS
        self._most = ENTRIES_MAX
        """How many entries its next transaction has at most."""
        self._has_begun = False
        self._is_stopping = False
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Scheduler of {self._partition.topic!r}: {self.moved} moved>"

    def __enter__(self) -> Self:
        """Begin, in the background. Raises ThreadsExhausted."""
        if self._has_begun or self._ended.is_set():
            raise RuntimeError("this scheduler was begun, or closed, already: make another one")
        try:
            started(self._run, "pylog-scheduler")
        except BaseException:
            self.close()
            raise
        self._has_begun = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Wait until SIGINT, SIGTERM or `stop`. Raises the error for which it does not go on.

        >>> scheduler.run()
        """
        if not self._has_begun:
            raise RuntimeError("this scheduler has not begun: `with` it")
        with stopped_by_signals(self.stop):
            pause(self._ended, threading.TIMEOUT_MAX)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Let it end. Returns at once; from any thread, and from a signal's handler.

        >>> scheduler.stop()
        """
        self._is_stopping = True
        self._consumer.wakeup()

    @property
    def has_ended(self) -> bool:
        """True once it moves nothing any more: it was stopped, or `run` raises the error.

        >>> scheduler.has_ended
        True
        """
        return self._ended.is_set()

    def close(self) -> None:
        """Stop, and wait until it has ended.

        >>> scheduler.close()
        """
        if self._has_begun:
            self.stop()
            pause(self._ended, threading.TIMEOUT_MAX)
        elif not self._ended.is_set():
            self._consumer.close()
            self._ended.set()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._step()
        except Wakeup:
            pass
        except BaseException as error:
            logger.error("the scheduler of %s stops: %r", self._partition.topic, error, exc_info=error)
            self._failure = error
        finally:
            with suppress(PylogError):
                self._consumer.close()
            self._give_back()
            self._ended.set()

    def _step(self) -> None:
        self._read(self._rest_ms())
        ahead_ms = self._clock.wall_ms() - self._clock.tick_ms()
        if abs(ahead_ms - self._ahead_ms) > STEP_MS:
            self._table.clock_stepped(ahead_ms - self._ahead_ms)
            self._ahead_ms = ahead_ms
        due_ms = self._table.due_ms()
        if due_ms is None or due_ms > self._clock.wall_ms():
            self._begins_ms = None
            return
        tick_ms = self._clock.tick_ms()
        if self._begins_ms is None:
            self._begins_ms = tick_ms if self._is_mine else tick_ms + self._patience()
        if self._begins_ms <= tick_ms:
            self._begins_ms = None
            self._move()

    def _rest_ms(self) -> int:
        due_ms = self._table.due_ms()
        if due_ms is None:
            return LOOK_MS
        rest_ms = due_ms - self._clock.wall_ms()
        if self._begins_ms is not None:
            rest_ms = self._begins_ms - self._clock.tick_ms()
        return min(max(rest_ms, 0), LOOK_MS)

    def _patience(self) -> int:
        return self._patience_ms + random.randrange(self._patience_ms)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, timeout_ms: int) -> None:
        for record in self._consumer.poll(timeout_ms):
            self._take_in(record)

    def _take_in(self, record: Stored) -> None:
        try:
            entry = decoded(record)
            if isinstance(entry, ScheduledJob) and entry.cron is not None:
                next_ms(entry.cron, entry.timezone, 0)
        except (ValueError, ImportError) as error:
            logger.error("a record of the schedule is left out: %s", error)
            return
        self._table.read(entry)
        is_sent = isinstance(entry, Cancelled) or (isinstance(entry, ScheduledJob) and entry.order == record.offset)
        if not is_sent and not self._is_mine:
            # Another one is at work.
            self._begins_ms = None

    # --- moving ------------------------------------------------------------------------------------------------------

    def _move(self) -> None:
        try:
            producer = self._producer or self._taken_over()
            moves = self._table.due(self._clock.wall_ms(), self._most)
            if not moves.entries or self._commit(producer, moves):
                self._most = min(2 * self._most, ENTRIES_MAX)
                self._patience_ms = PATIENCE_MS
        except (Closed, Wakeup):
            raise
        except PylogError as error:
            if self._is_fenced(error):
                self._is_mine = False
                self._patience_ms = min(2 * self._patience_ms, PATIENCE_MAX_MS)
            else:
                logger.warning("jobs of %s are moved in %d ms: %s", self._partition.topic, RETRY_MS, error)
                self._begins_ms = self._clock.tick_ms() + RETRY_MS
            self._give_back()

    def _is_fenced(self, error: PylogError) -> bool:
        """Whether another scheduler has taken over. A record that is refused for its epoch fails the transaction alone:
        the abort tells.
        """
        if self._producer is not None and not isinstance(error, FENCED):
            try:
                self._producer.abort()
            except PylogError as told:
                return isinstance(told, FENCED)
        return isinstance(error, FENCED)

    def _taken_over(self) -> Producer[Any, Any]:
        """The producer that moves; all that earlier ones have committed is read."""
        topic = self._partition.topic
        self._producer = producer = self._log.producer(transactional_id=f"pylog.schedule.{topic}")
        self._is_mine = True
        end = self._log.topic(topic)[0].high_watermark
        while self._consumer.position(self._partition) < end:
            self._read(LOOK_MS)
        return producer

    def _commit(self, producer: Producer[Any, Any], moves: Moves) -> bool:
        """Make the moves; False where a job was refused, and so all of them. Raises other errors."""
        sent: list[Future[Any]] = []
        try:
            producer.begin()
            for job in moves.jobs:
                key, value, headers = job.due_record()
                sent.append(producer.send(job.topic, value, key, headers=headers))
            for entry in moves.entries:
                key, value, headers = encoded(entry)
                producer.send(self._partition.topic, value, key, partition=0, headers=headers)
            producer.commit()
        except PylogError as error:
            errors = [error, *(future.exception() for future in sent if future.done())]
            refusal = next((one for one in errors if _is_refusal(one)), None)
            if refusal is None:
                raise
            producer.abort()
            self._single_out(moves.jobs, refusal)
            return False
        for entry in moves.entries:
            self._table.read(entry)
        self.moved += len(moves.jobs)
        return True

    def _single_out(self, jobs: list[ScheduledJob], refusal: BaseException) -> None:
        """Let the next transaction be half as large, so that the others are moved; leave the job of one that had no
        other. All records of a transaction have the error of one, so the error does not tell which.
        """
        self._most = max(1, len(jobs) // 2)
        if len(jobs) == 1:
            (job,) = jobs
            logger.error("job %s is refused by the topic %s, and waits: %r", job.job_id, job.topic, refusal)
            self._table.postpone(job, self._clock.wall_ms() + POSTPONED_MS)

    def _give_back(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(PylogError):
                producer.close()


def _is_refusal(error: BaseException | None) -> bool:
    """Whether it is the job that is at fault, or its topic."""
    if isinstance(error, UnknownTopicOrPartition):
        return True
    return isinstance(error, ProtocolError) and not error.retriable and not isinstance(error, OF_TRANSACTIONS)
