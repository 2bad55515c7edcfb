"""Functions as jobs: a call is a record, and a worker makes it.

{"job": "resize", "args": ["a.png"], "kwargs": {"width": 200}}       the value, JSON
"""

import json
from collections.abc import Callable
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Self, TypeVar

from pylog.client.producer import Producer
from pylog.handles.client_half import ClientHalf
from pylog.record import RecordMetadata, ShareRecord
from pylog.runtime.future import Future
from pylog.schedule import Schedule
from pylog.workers.rules import Reject
from pylog.workers.workers import Workers

P = ParamSpec("P")
T = TypeVar("T")


class Jobs:
    """Functions that workers call, by the records of a topic; its dead letters go to `<topic>.dead`. Both topics are
    made where they are not there.

        jobs = Jobs(log)

        @jobs.job
        def resize(path: str, width: int = 100) -> None: ...

        resize.send("a.png", width=200)                          # a worker calls it
        resize.later(delay_ms=60_000).send("a.png")              # in a minute: see `pylog.schedule`
        resize("a.png")                                          # called here

        with Scheduler(log), jobs.workers(threads=4) as workers:
            workers.run()

    Arguments are what JSON has: str, int, float, bool, None, lists and dicts. What a function gives back is dropped.
    Thread-safe. Use it as a context manager, or `close` it: it has producers.

    >>> from pylog.workers import Jobs
    >>> jobs = Jobs(log, "calls")
    >>> greet = jobs.job(print)
    >>> greet.send("hello").result().offset
    0
    """

    def __init__(self, log: ClientHalf[Any], topic: str = "jobs", *, schedule: str = "schedule") -> None:
        """`schedule`: the topic of the `pylog.schedule.Schedule`. Raises what that does."""
        self._log = log
        self._topic = topic
        self._functions: dict[str, Callable[..., object]] = {}
        for name in (topic, self._dead_letter):
            log.create_topic(name, exist_ok=True)
        self._schedule = Schedule(log, schedule)
        self._producer: Producer[Any, Any] = log.producer()

    def __repr__(self) -> str:
        return f"<Jobs {self._topic!r}: {', '.join(self._functions) or 'no functions'}>"

    def job(self, function: Callable[P, T]) -> "JobFunction[P, T]":
        """Decorate a function. Raises ValueError: there is another one with its name.

        >>> @jobs.job
        ... def double(number):
        ...     return 2 * number
        >>> double(4)
        8
        """
        name = function.__name__
        if name in self._functions:
            raise ValueError(f"there is a job {name} already: records name a function by its __name__")
        self._functions[name] = function
        return JobFunction(function, name, self._topic, self._producer, self._schedule)

    def workers(self, **options: Any) -> Workers:
        """Workers for these functions; `options` are those of `Workers`. Their group has the name of the topic.

        >>> jobs.workers(threads=2)
        <Workers of group 'calls': 0 done, 0 retried, 0 dead>
        """
        return Workers(
            self._log, self._topic, self.work, **{"group_id": self._topic, "dead_letter": self._dead_letter, **options}
        )

    def work(self, record: "ShareRecord[Any, Any]") -> object:
        """Make the call of a record. Raises Reject for other records, and what the function raises.

        >>> [jobs.work(record) for record in log.topic("calls").records()]
        hello
        [None]
        """
        try:
            call = json.loads(record.value or b"")
            function, args, kwargs = self._functions[call["job"]], list(call["args"]), dict(call["kwargs"])
        except (ValueError, KeyError, TypeError) as error:
            raise Reject(f"the record is not a call of one of {sorted(self._functions)}: {error!r}") from error
        return function(*args, **kwargs)

    def close(self) -> None:
        """Give back the producers, when all calls are sent.

        >>> jobs.close()
        """
        self._schedule.close()
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _dead_letter(self) -> str:
        return f"{self._topic}.dead"


class JobFunction(Generic[P, T]):
    """A function that can be called here, or by a worker.

    >>> from pylog.workers import Jobs
    >>> jobs = Jobs(log, "calls")
    >>> double = jobs.job(lambda number: 2 * number)
    >>> double(4)
    8
    """

    def __init__(
        self, function: Callable[P, T], name: str, topic: str, producer: Producer[Any, Any], schedule: Schedule
    ) -> None:
        self._function = function
        self._name = name
        self._topic = topic
        self._producer = producer
        self._schedule = schedule
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function here."""
        return self._function(*args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Future[RecordMetadata]:
        """Have a worker call it: the future is done when the record is durable. Raises TypeError: an argument is not
        JSON; and what `Producer.send` does.

        >>> double.send(4).result().offset
        0
        """
        return self._producer.send(self._topic, self._call(args, kwargs))

    def later(
        self, *, delay_ms: int | None = None, at: datetime | int | None = None, job_id: str | None = None,
        unique_for_ms: int | None = None,
    ) -> "LaterCall[P]":  # fmt: skip
        """Have a worker call it later: `later(...).send(...)` gives the id. Options: see `Schedule.send`.

        >>> double.later(delay_ms=60_000, job_id="four").send(4)
        'four'
        """

        def send(args: tuple[object, ...], kwargs: dict[str, object]) -> str:
            return self._schedule.send(
                self._topic, self._call(args, kwargs), delay_ms=delay_ms, at=at, job_id=job_id,
                unique_for_ms=unique_for_ms,
            )  # fmt: skip

        return LaterCall(send)

    def repeat(self, cron: str, *, timezone: str = "UTC", job_id: str | None = None) -> None:
        """Have workers call it, without arguments, at the times of a cron line: see `Schedule.repeat`.

        >>> jobs.job(print).repeat("0 7 * * *", timezone="Europe/Berlin")
        """
        self._schedule.repeat(
            self._topic, self._call((), {}), cron=cron, timezone=timezone, job_id=job_id or self._name
        )  # fmt: skip

    def _call(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
        return json.dumps({"job": self._name, "args": args, "kwargs": kwargs}, allow_nan=False).encode()


class LaterCall(Generic[P]):
    """A call that is yet to be given its arguments.

    >>> from pylog.workers import Jobs
    >>> jobs = Jobs(log, "calls")
    >>> later = jobs.job(print).later(delay_ms=60_000, job_id="soon")
    """

    def __init__(self, send: Callable[[tuple[object, ...], dict[str, object]], str]) -> None:
        self._send = send

    def send(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Send it; gives its id. Raises what `Schedule.send` does, and TypeError: an argument is not JSON.

        >>> later.send("hello")
        'soon'
        """
        return self._send(args, kwargs)
