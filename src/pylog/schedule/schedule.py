"""The public face: what is sent now, and is to come later."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

from pylog.client.producer import Producer
from pylog.errors import InvalidConfig
from pylog.handles.client_half import ClientHalf
from pylog.schedule.cron import next_ms
from pylog.schedule.entries import MOMENT_MAX, ScheduledJob, cancelling_key, decoded, encoded, waiting_key
from pylog.schedule.timetable import Timetable

POLICY = "cleanup.policy"
NAME = "schedule"
"""The topic, unless another one is named."""
ID_CHARS_MAX = 1000
SEGMENT_BYTES = 16 << 20
"""Less than usual, as only whole segments are compacted, and a scheduler reads all of them when it begins."""


class Schedule:
    """Jobs that are to come later: delayed, at a time, again and again. They wait in a topic, which is made, with one
    partition and compacted, where it is not there; a `Scheduler` moves each to its own topic when it is due, once.

        schedule = Schedule(log)
        schedule.send("jobs", b"remind", delay_ms=60_000)
        schedule.send("jobs", b"greet", at=datetime(2027, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), job_id="new year")
        schedule.repeat("jobs", b"report", cron=NIGHTLY, timezone="Europe/Berlin", job_id="nightly")
        schedule.cancel("new year")

    An **id** names a job that waits: a later one with the same id takes its place. Without one a job gets one of its
    own. All calls come back when what they say is durable as `flush` of the log has it; with a `producer` they only
    send by it, so that in its transaction a job waits if, and only if, the transaction is committed. Thread-safe.
    Use it as a context manager, or `close` it: it has a producer.

    >>> from pylog.schedule import Schedule
    >>> schedule = Schedule(log)
    >>> schedule.send("orders", b"lamp", delay_ms=3_600_000, job_id="order 4")
    'order 4'
    >>> [job.job_id for job in schedule.waiting()]
    ['order 4']
    """

    def __init__(self, log: ClientHalf[Any], topic: str = NAME) -> None:
        """Raises what `Log.create_topic` does; InvalidConfig: there is such a topic, and it is not compacted alone."""
        check_topic(log, topic)
        self._log = log
        self._topic = topic
        self._clock = log._clock
        self._producer = log.producer()

    def __repr__(self) -> str:
        return f"<Schedule {self._topic!r} of {self._log!r}>"

    def send(
        self, topic: str, value: bytes | None, key: bytes | None = None, *, delay_ms: int | None = None,
        at: datetime | int | None = None, job_id: str | None = None, unique_for_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        producer: Producer[Any, Any] | None = None,
    ) -> str:  # fmt: skip
        """Have a job come to `topic` after `delay_ms`, or `at` a time: a datetime with a timezone, or milliseconds
        since 1970 UTC. Without both, and where the time is past: at once. Gives its id.

        `unique_for_ms`: once the job was moved its id is taken for so long, and what is sent with it is dropped.
        Its record in `topic` has the headers `__schedule.id` and `__schedule.due` besides its own.

        Raises: ValueError, TypeError; UnknownTopicOrPartition: there is no such `topic`; and what `Producer.send` does.

        >>> schedule.send("orders", b"pen", at=32_472_144_000_000, job_id="order 5")
        'order 5'
        """
        self._check_target(topic, producer)
        job = ScheduledJob(
            job_id=uuid4().hex if job_id is None else _checked_id(job_id), topic=topic, value=value, key=key,
            at_ms=self._moment(delay_ms, at), headers=tuple(headers),
            unique_for_ms=None if unique_for_ms is None else _checked_ms("unique_for_ms", unique_for_ms),
            is_delay=delay_ms is not None,
        )  # fmt: skip
        self._add(job, producer)
        return job.job_id

    def repeat(
        self, topic: str, value: bytes | None, key: bytes | None = None, *, cron: str, job_id: str,
        timezone: str = "UTC", headers: Iterable[tuple[str, bytes | None]] = (),
        producer: Producer[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        """Have a job come to `topic` again and again, at the times of a cron line: minute, hour, day of the month,
        month, day of the week; or six fields with seconds first. Needs cronsim (`pip install pylog-commitlog[cron]`).

        To say it again at each start of a program changes nothing. Times that passed while no scheduler ran are made
        up for by one job, whose header `__schedule.due` has the first of them.

        Raises: ValueError; ImportError; UnknownTopicOrPartition: there is no such `topic`; what `Producer.send` does.

        >>> schedule.repeat("orders", b"count", cron="0 3 * * *", job_id="nightly")
        """
        self._check_target(topic, producer)
        at_ms = next_ms(cron, timezone, self._clock.wall_ms())
        job = ScheduledJob(
            job_id=_checked_id(job_id), topic=topic, at_ms=at_ms, value=value, key=key,
            headers=tuple(headers), cron=cron, timezone=timezone,
        )  # fmt: skip
        self._add(job, producer)

    def cancel(self, job_id: str, *, producer: Producer[Any, Any] | None = None) -> None:
        """Let the job that waits with this id not come, and end its repetitions; nothing where none waits.

        It may come too late for a job that is due within the next second.

        >>> schedule.cancel("nightly")
        """
        self._write(cancelling_key(_checked_id(job_id), uuid4().hex), b"", (), producer)

    def waiting(self) -> list[ScheduledJob]:
        """The jobs that wait, in the order of their times. It reads the whole topic.

        >>> [(job.job_id, job.topic) for job in schedule.waiting()]
        [('order 4', 'orders')]
        """
        return jobs_waiting(self._log, self._topic)

    def close(self) -> None:
        """Give back the producer. The log's close does so, too.

        >>> schedule.close()
        """
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, job: ScheduledJob, producer: Producer[Any, Any] | None) -> None:
        _, value, headers = encoded(job)
        self._write(waiting_key(job.job_id, uuid4().hex), value, headers, producer)

    def _write(self, key: bytes, value: bytes | None, headers: Any, producer: Producer[Any, Any] | None) -> None:
        sent = (producer or self._producer).send(self._topic, value, key, partition=0, headers=headers)
        if producer is None:
            sent.result()

    def _check_target(self, topic: str, producer: Producer[Any, Any] | None) -> None:
        (producer or self._producer).partitions_for(topic)

    def _moment(self, delay_ms: int | None, at: datetime | int | None) -> int:
        if delay_ms is not None and at is not None:
            raise ValueError("a job has delay_ms, or at, not both")
        if at is None:
            moment = self._clock.wall_ms() + _checked_ms("delay_ms", delay_ms or 0)
            if moment > MOMENT_MAX:
                raise ValueError(f"delay_ms is {delay_ms}: that is beyond the latest time, 2**53")
            return moment
        if not isinstance(at, datetime):
            return _checked_ms("at", at)
        if at.tzinfo is None:
            raise ValueError(f"{at!r} has no timezone: make it with tzinfo=..., or by .astimezone()")
        return _checked_ms("at", round(at.timestamp() * 1000))


def jobs_waiting(log: ClientHalf[Any], name: str) -> list[ScheduledJob]:
    """The jobs that wait in a topic, in the order of their times. Records of another kind are left out.

    Raises UnknownTopicOrPartition.
    """
    table = Timetable()
    for record in log.topic(name)[0].records(isolation_level="read_committed"):
        with suppress(ValueError):
            table.read(decoded(record))
    return table.jobs()


def check_topic(log: ClientHalf[Any], name: str) -> None:
    """Make the topic of a schedule where it is not there. Raises what `Schedule` does."""
    log.create_topic(name, config={"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES}, exist_ok=True)
    policy = log.admin.describe_topic_config(name)[POLICY].value
    if policy != "compact":
        raise InvalidConfig(f"the topic {name} has {POLICY}={policy}: a schedule needs compact, or it loses jobs")


def _checked_id(job_id: str) -> str:
    if not isinstance(job_id, str):
        raise TypeError(f"an id is str, not {type(job_id).__name__}")
    if not 0 < len(job_id) <= ID_CHARS_MAX:
        raise ValueError(f"an id has 1 to {ID_CHARS_MAX} characters, not {len(job_id)}")
    return job_id


def _checked_ms(name: str, ms: int) -> int:
    if type(ms) is not int:
        raise TypeError(f"{name} is a number of milliseconds, not {type(ms).__name__}")
    if not 0 <= ms <= MOMENT_MAX:
        raise ValueError(f"{name} is {ms}: it is 0 to 2**53")
    return ms
