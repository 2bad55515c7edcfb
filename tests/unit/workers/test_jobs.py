"""Functions as jobs: workers make the calls that were sent, now, later, or again and again."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog.schedule import Scheduler
from pylog.workers import Jobs
from support.patience import HANG_SECONDS


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        yield opened


@pytest.fixture
def jobs(log: pylog.Log) -> Iterator[Jobs]:
    with Jobs(log) as made:
        yield made


class Calls:
    """The calls that were made, and a wait for so many."""

    def __init__(self) -> None:
        self.made: list[object] = []
        self._changed = threading.Condition()

    def note(self, call: object) -> None:
        with self._changed:
            self.made.append(call)
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.made) >= count, HANG_SECONDS), self.made


def test_a_worker_makes_the_call(jobs: Jobs) -> None:
    calls = Calls()

    @jobs.job
    def resize(path: str, width: int = 100) -> str:
        """Make it small."""
        calls.note((path, width))
        return path

    assert resize("here") == "here"
    assert (resize.__name__, resize.__doc__) == ("resize", "Make it small.")
    assert repr(jobs) == "<Jobs 'jobs': resize>"
    with jobs.workers(threads=2):
        resize.send("a", width=200).result()
        resize.send("b")
        calls.wait(3)
    assert calls.made[0] == ("here", 100)
    assert sorted(map(str, calls.made[1:])) == ["('a', 200)", "('b', 100)"]


def test_a_call_that_comes_later(log: pylog.Log, jobs: Jobs) -> None:
    calls = Calls()
    note = jobs.job(calls.note)
    with jobs.workers(), Scheduler(log):
        assert note.later(delay_ms=50, job_id="x").send("later") == "x"
        note.later(job_id="once", unique_for_ms=60_000).send("first")
        calls.wait(2)
        note.later(job_id="once", unique_for_ms=60_000).send("second")
        note.later(at=0).send("third")
        calls.wait(3)
    assert sorted(map(str, calls.made)) == ["first", "later", "third"]


def test_a_call_that_is_repeated(log: pylog.Log, jobs: Jobs) -> None:
    calls = Calls()

    @jobs.job
    def tick() -> None:
        calls.note("tick")

    tick.repeat("* * * * * *")
    with jobs.workers(), Scheduler(log):
        calls.wait(1)


def test_a_record_that_is_not_a_call_is_a_dead_letter(log: pylog.Log, jobs: Jobs) -> None:
    calls = Calls()
    right = jobs.job(calls.note)
    calls_of_others = b'{"job": "other", "args": [], "kwargs": {}}', b'{"job": "note", "args": 1, "kwargs": {}}'
    wrong = (b"{", b"[]", b"{}", None, *calls_of_others)
    with log.producer() as producer:
        for value in wrong:
            producer.send("jobs", value)
    with jobs.workers(backoff_ms=0) as workers:
        right.send("right")
        calls.wait(1)
        while workers.dead < len(wrong):
            workers._all_ended.wait(0.01)
    assert calls.made == ["right"]
    letters = list(log.topic("jobs.dead").records())
    assert sorted(str(letter.value) for letter in letters) == sorted(map(str, wrong))
    for letter in letters:
        (message,) = [one.value for one in letter.headers if one.key == "__dlq.errors.message"]
        assert message is not None and message.startswith(b"the record is not a call of one of ['note']: ")


def test_the_rules_of_functions(log: pylog.Log, jobs: Jobs) -> None:
    note = jobs.job(Calls().note)
    with pytest.raises(ValueError, match="there is a job note already"):
        jobs.job(Calls().note)
    with pytest.raises(TypeError, match="not JSON serializable"):
        note.send(object())
    with pytest.raises(ValueError, match="not JSON compliant"):
        note.send(float("nan"))
    with Jobs(log, "others") as others:
        assert repr(others) == "<Jobs 'others': no functions>"


def test_groups_and_topics_have_names_of_their_own(log: pylog.Log) -> None:
    options: dict[str, Any] = {"group_id": "mine", "dead_letter": None}
    with Jobs(log, "mail") as jobs, jobs.workers(**options) as workers:
        assert repr(workers) == "<Workers of group 'mine': 0 done, 0 retried, 0 dead>"
    assert log.topics() == ["mail", "mail.dead", "schedule"]
