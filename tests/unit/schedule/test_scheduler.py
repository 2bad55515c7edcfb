"""A schedule and its scheduler over a log: jobs come when they are due, once, whoever moves them."""

import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import pylog
from pylog.errors import Closed, InvalidConfig, ThreadsExhausted, TransactionalIdAuthorization, UnknownTopicOrPartition
from pylog.runtime.clock import SystemClock
from pylog.schedule import Schedule, Scheduler, scheduler
from pylog.schedule.cron import next_ms
from pylog.testing import StandIn
from support.patience import HANG_SECONDS
from support.threads import no_threads

HOUR_MS = 3_600_000
FROM_THE_START: Any = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}


class Watch(SystemClock):
    """A clock whose two hands are moved by themselves."""

    def __init__(self) -> None:
        self.wall_ahead_ms = 0
        self.tick_ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.wall_ahead_ms

    def tick_ms(self) -> int:
        return super().tick_ms() + self.tick_ahead_ms


LARGE = 1 << 19
"""More than a batch of the producer has: it goes out at once."""


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def log(watch: Watch) -> Iterator[pylog.Log]:
    with pylog.open(":memory:", clock=watch) as opened:
        opened.create_topic("jobs")
        yield opened


@pytest.fixture
def schedule(log: pylog.Log) -> Iterator[Schedule]:
    with Schedule(log) as made:
        yield made


def arrived(log: pylog.Log, count: int, topic: str = "jobs") -> list[Any]:
    """So many records of a topic, as soon as they are there."""
    found: list[Any] = []
    with log.consumer(topic, **FROM_THE_START) as consumer:
        while len(found) < count:
            more = consumer.poll(timeout_ms=HANG_SECONDS * 1000)
            assert more, f"{found} came, and no more"
            found += more
    return found


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


def committed(log: pylog.Log, topic: str = "jobs") -> list[bytes | None]:
    return [record.value for record in log.topic(topic)[0].records(isolation_level="read_committed")]


def test_jobs_come_in_the_order_of_their_times(log: pylog.Log, schedule: Schedule, watch: Watch) -> None:
    now = datetime.fromtimestamp(watch.wall_ms() / 1000, UTC)
    schedule.send("jobs", b"third", delay_ms=200)
    schedule.send("jobs", b"first", b"key", at=now - timedelta(hours=1), headers=[("trace", b"1")], job_id="old")
    schedule.send("jobs", None, delay_ms=100)
    schedule.send("jobs", b"far", at=now + timedelta(hours=1))
    with Scheduler(log) as at_work:
        found = arrived(log, 3)
    assert values(found) == [b"first", None, b"third"]
    due = str(int((now - timedelta(hours=1)).timestamp() * 1000)).encode()
    assert found[0].key == b"key"
    assert [(one.key, one.value) for one in found[0].headers] == [
        ("__schedule.id", b"old"), ("__schedule.due", due), ("trace", b"1"),
    ]  # fmt: skip
    assert [job.value for job in schedule.waiting()] == [b"far"]
    assert repr(at_work) == "<Scheduler of 'schedule': 3 moved>"
    assert at_work.has_ended
    at_work.run()


def test_a_job_comes_not_before_its_time(log: pylog.Log, schedule: Schedule, watch: Watch) -> None:
    schedule.send("jobs", b"at", at=watch.wall_ms() + HOUR_MS)
    schedule.send("jobs", b"delay", delay_ms=HOUR_MS)
    schedule.send("jobs", b"now")
    with Scheduler(log):
        arrived(log, 1)
        # The clock jumps: what has a time comes, and what waits for a span of time does not.
        watch.wall_ahead_ms += HOUR_MS
        assert values(arrived(log, 2)) == [b"now", b"at"]
        watch.wall_ahead_ms += HOUR_MS
        watch.tick_ahead_ms += HOUR_MS
        assert values(arrived(log, 3)) == [b"now", b"at", b"delay"]


def test_a_cancelled_job_does_not_come(log: pylog.Log, schedule: Schedule) -> None:
    schedule.send("jobs", b"no", delay_ms=1, job_id="a")
    schedule.cancel("a")
    schedule.cancel("never heard of")
    schedule.send("jobs", b"yes", delay_ms=2)
    assert [job.value for job in schedule.waiting()] == [b"yes"]
    with Scheduler(log):
        assert values(arrived(log, 1)) == [b"yes"]
        schedule.send("jobs", b"last")
        assert values(arrived(log, 2)) == [b"yes", b"last"]


def test_an_id_is_taken_once_its_job_was_moved(log: pylog.Log, schedule: Schedule) -> None:
    with Scheduler(log):
        schedule.send("jobs", b"one", job_id="a", unique_for_ms=HOUR_MS)
        arrived(log, 1)
        schedule.send("jobs", b"two", job_id="a", unique_for_ms=HOUR_MS)
        schedule.send("jobs", b"three", job_id="b")
        assert values(arrived(log, 2)) == [b"one", b"three"]


def test_a_repeated_job_comes_again(log: pylog.Log, schedule: Schedule, watch: Watch) -> None:
    schedule.repeat("jobs", b"tick", cron="0 * * * *", job_id="hourly")
    (first,) = schedule.waiting()
    assert (first.cron, first.timezone, first.at_ms % HOUR_MS) == ("0 * * * *", "UTC", 0)
    with Scheduler(log):
        watch.wall_ahead_ms += HOUR_MS
        arrived(log, 1)
        watch.wall_ahead_ms += 5 * HOUR_MS
        assert values(arrived(log, 2)) == [b"tick", b"tick"]
    (later,) = schedule.waiting()
    assert later.at_ms == first.at_ms + 6 * HOUR_MS
    schedule.cancel("hourly")
    assert schedule.waiting() == []


def test_two_schedulers_move_each_job_once(log: pylog.Log, schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE_MS", 1)
    with log.producer() as producer, Scheduler(log) as one, Scheduler(log) as other:
        for number in range(2000):
            schedule.send("jobs", b"%d" % number, delay_ms=number // 4, producer=producer)
        found = arrived(log, 2000)
    assert sorted(values(found)) == sorted(b"%d" % number for number in range(2000))
    # One that was fenced after its commit does not count it.
    assert one.moved + other.moved <= 2000
    assert committed(log) == values(found)


def test_a_scheduler_takes_over_from_one_that_is_gone(log: pylog.Log, schedule: Schedule, watch: Watch) -> None:
    with Scheduler(log) as other:
        schedule.send("jobs", b"a")
        arrived(log, 1)
        with Scheduler(log) as first:
            schedule.send("jobs", b"b")
            arrived(log, 2)
        schedule.send("jobs", b"c")
        watch.tick_ahead_ms += HOUR_MS
        watch.wall_ahead_ms += HOUR_MS
        assert values(arrived(log, 3)) == [b"a", b"b", b"c"]
    assert first.moved + other.moved == 3


def test_a_scheduler_that_was_fenced_takes_over_again(
    log: pylog.Log, schedule: Schedule, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE_MS", 1)
    with caplog.at_level(logging.WARNING), Scheduler(log) as at_work:
        schedule.send("jobs", b"a")
        arrived(log, 1)
        log.producer(transactional_id="pylog.schedule.schedule").close()
        schedule.send("jobs", b"b")
        assert values(arrived(log, 2)) == [b"a", b"b"]
    assert (at_work.moved, caplog.text) == (2, "")


def test_jobs_of_a_transaction_come_when_it_is_committed(log: pylog.Log, schedule: Schedule) -> None:
    with Scheduler(log), log.producer(transactional_id="shop") as producer:
        producer.begin()
        schedule.send("jobs", b"aborted", producer=producer)
        producer.abort()
        producer.begin()
        schedule.send("jobs", b"committed", producer=producer)
        schedule.cancel("nothing", producer=producer)
        schedule.repeat("jobs", b"never", cron="0 0 1 1 *", job_id="yearly", producer=producer)
        producer.commit()
        assert values(arrived(log, 1)) == [b"committed"]


def test_a_topic_that_is_gone_holds_up_no_other(
    log: pylog.Log, schedule: Schedule, caplog: pytest.LogCaptureFixture
) -> None:
    log.create_topic("gone")
    for number in range(3):
        schedule.send("gone", b"lost", delay_ms=0, job_id=f"lost {number}")
        schedule.send("jobs", b"%d" % number)
    log.delete_topic("gone")
    with caplog.at_level(logging.ERROR), Scheduler(log):
        assert values(arrived(log, 3)) == [b"0", b"1", b"2"]
    assert [job.job_id for job in schedule.waiting()] == ["lost 0", "lost 1", "lost 2"]
    assert "job lost 0 is refused by the topic gone, and waits: UnknownTopicOrPartition" in caplog.text


@pytest.mark.parametrize("size", [1000, LARGE])
def test_a_job_that_its_topic_refuses_holds_up_no_other(
    size: int, log: pylog.Log, schedule: Schedule, caplog: pytest.LogCaptureFixture
) -> None:
    log.create_topic("small", config={"max.message.bytes": 200})
    schedule.send("jobs", b"before", job_id="before")
    schedule.send("small", bytes(size), job_id="large")
    schedule.send("jobs", b"behind", job_id="behind")
    with caplog.at_level(logging.ERROR), Scheduler(log):
        assert values(arrived(log, 2)) == [b"before", b"behind"]
    assert [job.job_id for job in schedule.waiting()] == ["large"]
    assert caplog.text.count("is refused by the topic") == 1
    assert "job large is refused by the topic small, and waits: RecordTooLarge" in caplog.text


def test_a_record_that_is_no_entry_is_left_out(
    log: pylog.Log, schedule: Schedule, caplog: pytest.LogCaptureFixture
) -> None:
    to_jobs, due = ("__schedule.topic", b"jobs"), ("__schedule.due", b"1")
    foreign: list[tuple[bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"wait/a/1", []),
        (b"wait/a", [to_jobs, due]),
        (b"what/a/1", [to_jobs, due]),
        (b"\xff/a/1", [to_jobs, due]),
        (b"wait/a/1", [to_jobs, ("__schedule.due", b"9" * 17)]),
        (b"wait/a/1", [to_jobs, ("__schedule.due", b"-1")]),
        (b"wait/a/1", [to_jobs, due, ("__schedule.cron", b"61 * * * *")]),
        (b"wait/a/1", [to_jobs, due, ("__schedule.cron", b"* * * * *"), ("__schedule.timezone", b"../x")]),
    ]  # fmt: skip
    with log.producer() as producer:
        for key, headers in foreign:
            producer.send("schedule", b"x", key, headers=headers)
    schedule.send("jobs", b"good")
    with caplog.at_level(logging.ERROR), Scheduler(log):
        assert values(arrived(log, 1)) == [b"good"]
    assert caplog.text.count("a record of the schedule is left out") == len(foreign)
    assert "schedule-0, offset 1 is not an entry of a schedule" in caplog.text


def test_the_rules_of_a_job(log: pylog.Log, schedule: Schedule) -> None:
    send: Any = schedule.send
    for error, says, config in (
        (ValueError, "delay_ms, or at, not both", {"delay_ms": 1, "at": 1}),
        (ValueError, "has no timezone", {"at": datetime(2027, 1, 1)}),  # noqa: DTZ001
        (ValueError, "delay_ms is -1", {"delay_ms": -1}),
        (ValueError, "delay_ms is 9007199254740991: that is beyond", {"delay_ms": 2**53 - 1}),
        (ValueError, "at is", {"at": datetime(1969, 1, 1, tzinfo=UTC)}),
        (TypeError, "delay_ms is a number of milliseconds, not float", {"delay_ms": 1.5}),
        (TypeError, "unique_for_ms is a number", {"unique_for_ms": "1"}),
        (TypeError, "an id is str", {"job_id": 7}),
        (ValueError, "1 to 1000 characters, not 0", {"job_id": ""}),
    ):
        with pytest.raises(error, match=says):
            send("jobs", b"x", **config)
    with pytest.raises(UnknownTopicOrPartition):
        send("nowhere", b"x")
    with pytest.raises(UnknownTopicOrPartition):
        schedule.repeat("nowhere", b"x", cron="* * * * *", job_id="a")
    with pytest.raises(ValueError, match="no cron line"):
        schedule.repeat("jobs", b"x", cron="* * *", job_id="a")
    assert schedule.waiting() == []
    assert repr(schedule) == f"<Schedule 'schedule' of {log!r}>"
    assert schedule.send("jobs", b"x", job_id="a/b/ü") == "a/b/ü"
    assert [job.job_id for job in schedule.waiting()] == ["a/b/ü"]


def test_a_scheduler_goes_on_after_an_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(scheduler, "RETRY_MS", 1)
    with StandIn() as broker, pylog.connect(broker.bootstrap_servers) as log, Schedule(log) as schedule:
        log.create_topic("jobs")
        schedule.send("jobs", b"x")
        broker.fail("InitProducerId", TransactionalIdAuthorization, times=2)
        with caplog.at_level(logging.WARNING), Scheduler(log), log.consumer("jobs", **FROM_THE_START) as consumer:
            assert next(iter(consumer)).value == b"x"
    assert caplog.text.count("jobs of schedule are moved in 1 ms") == 2


def test_a_topic_that_is_not_compacted_is_refused(log: pylog.Log) -> None:
    log.create_topic("plain")
    for kind in (Schedule, Scheduler):
        with pytest.raises(InvalidConfig, match=r"cleanup\.policy=delete: a schedule needs compact"):
            kind(log, "plain")


def test_a_scheduler_of_a_closed_log_says_so(log: pylog.Log) -> None:
    at_work = Scheduler(log)
    with at_work:
        log.close()
        with pytest.raises(Closed):
            at_work.run()


def test_a_scheduler_that_gets_no_thread(log: pylog.Log) -> None:
    at_work = Scheduler(log)
    with no_threads(), pytest.raises(ThreadsExhausted), at_work:
        pass
    assert at_work.has_ended


def test_a_scheduler_that_has_not_begun(log: pylog.Log) -> None:
    at_work = Scheduler(log)
    with pytest.raises(RuntimeError, match="has not begun"):
        at_work.run()
    at_work.close()
    at_work.close()
    with pytest.raises(RuntimeError, match="begun, or closed, already"), at_work:
        pass


def test_a_cron_line_in_the_night_without_an_hour() -> None:
    berlin = "Europe/Berlin"
    spring = int(datetime(2027, 3, 28, 0, 0, tzinfo=UTC).timestamp() * 1000)
    assert datetime.fromtimestamp(next_ms("30 2 * * *", berlin, spring) / 1000, UTC).hour == 1
    assert next_ms("30 2 * * *", "UTC", spring) == spring + 2 * HOUR_MS + HOUR_MS // 2
    with pytest.raises(ValueError, match="is no timezone"):
        next_ms("* * * * *", "Mars/Olympus", 0)
    with pytest.raises(ValueError, match="no time in the next 50 years"):
        next_ms("0 0 * * *", "UTC", int(datetime(9999, 12, 31, 23, tzinfo=UTC).timestamp() * 1000))


def test_cron_lines_need_cronsim(log: pylog.Log, schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ImportError, match="pip install cronsim"):
        schedule.repeat("jobs", b"x", cron="* * * * *", job_id="a")
