"""The timetable: each job is moved once, whoever reads the schedule, moves, is fenced, dies, or compacts the topic."""

from dataclasses import replace
from random import Random

from pylog.record import DeserializedRecord, Header
from pylog.schedule.entries import (
    MOMENT_MAX,
    Cancelled,
    Ended,
    Entry,
    ScheduledJob,
    Taken,
    cancelling_key,
    decoded,
    encoded,
    waiting_key,
)
from pylog.schedule.timetable import KEPT_MS, Timetable

MOST = 3
WINDOW_MS = 40
SEEDS = 200


def job(job_id: str, at_ms: int, order: int, **more: object) -> ScheduledJob:
    values: dict[str, object] = {"topic": "jobs", "value": b"v", "sent_ms": 0, **more}
    return ScheduledJob(job_id=job_id, at_ms=at_ms, entry=waiting_key(job_id, str(order)), order=order, **values)  # type: ignore[arg-type]


def read(*entries: Entry) -> Timetable:
    table = Timetable()
    for entry in entries:
        table.read(entry)
    return table


class Topic:
    """The schedule's topic, the time, and what came to the topics of jobs."""

    def __init__(self) -> None:
        self.records: dict[int, DeserializedRecord[bytes, bytes]] = {}
        self.end = 0
        self.now_ms = 0
        self.epoch = 0
        self.moved: list[ScheduledJob] = []
        self.sent: dict[bytes, ScheduledJob] = {}
        self.cancelled: dict[str, list[int]] = {"a": [], "b": []}
        self.taken: dict[str, int] = {}

    def add(self, entry: Entry) -> int:
        key, value, headers = encoded(entry)
        told = tuple(Header(*header) for header in headers)
        self.records[self.end] = DeserializedRecord("schedule", 0, self.end, self.now_ms, 0, key, value, told, 0)
        self.end += 1
        return self.end - 1

    def compact(self, upto: int, read_by_all: int) -> None:
        """Keep the last record of each key; ends that all have read go as well."""
        last = {record.key: offset for offset, record in self.records.items() if offset < upto}
        for offset, record in list(self.records.items()):
            is_old = offset < upto and last[record.key] != offset
            if is_old or (offset < min(upto, read_by_all) and record.value is None):
                del self.records[offset]


class Mover:
    """A scheduler, as `Scheduler` does it: fences, reads to the end, commits, reads what it has committed."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.table = Timetable()
        self.position = 0
        self.epoch = -1

    def read(self, upto: int) -> None:
        for offset in range(self.position, min(upto, self.topic.end)):
            record = self.topic.records.get(offset)
            if record is not None:
                self.table.read(decoded(record))
        self.position = max(self.position, min(upto, self.topic.end))

    def take_over(self) -> None:
        self.topic.epoch += 1
        self.epoch = self.topic.epoch
        self.read(self.topic.end)

    def check(self, moved: ScheduledJob) -> None:
        """Nothing is moved too early, or twice, or against what its mover has read."""
        topic = self.topic
        known = range(moved.order + 1, self.position)
        assert moved == topic.sent[moved.entry]
        assert moved not in topic.moved
        assert moved.at_ms <= topic.now_ms
        assert moved.sent_ms >= topic.taken.get(moved.job_id, 0)
        assert not any(offset in known for offset in topic.cancelled[moved.job_id])
        assert not any(one.job_id == moved.job_id and one.order in known for one in topic.sent.values())
        topic.moved.append(moved)
        if moved.unique_for_ms is not None:
            topic.taken[moved.job_id] = topic.now_ms + moved.unique_for_ms

    def move(self, then_told: bool) -> None:
        """One transaction; nothing of it stays where another one has fenced this."""
        if self.epoch < 0:
            self.take_over()
        if self.epoch != self.topic.epoch:
            self.epoch = -1
            return
        due = self.table.due(self.topic.now_ms, MOST)
        assert len(due.jobs) <= MOST
        for moved in due.jobs:
            self.check(moved)
        for entry in due.entries:
            self.topic.add(entry)
        if then_told:
            for entry in due.entries:
                self.table.read(entry)
        else:
            # It never heard that it was committed.
            self.epoch = -1


def step(topic: Topic, movers: list[Mover], chance: Random) -> None:
    which = chance.randrange(2)
    mover, job_id = movers[which], chance.choice("ab")
    match chance.choices(STEPS, WEIGHTS)[0]:
        case "send":
            unique_ms = chance.choice([None, WINDOW_MS])
            made = job(job_id, topic.now_ms + chance.randrange(30), -1, unique_for_ms=unique_ms, sent_ms=topic.now_ms)
            made = replace(made, entry=waiting_key(job_id, str(topic.end)))
            topic.sent[made.entry] = replace(made, order=topic.add(made))
        case "cancel":
            topic.cancelled[job_id].append(topic.add(Cancelled(job_id, cancelling_key(job_id, str(topic.end)), -1)))
        case "time":
            topic.now_ms += chance.randrange(20)
        case "read":
            mover.read(mover.position + chance.randrange(6))
        case "move":
            mover.move(then_told=chance.random() < 0.8)
        case "die":
            movers[which] = Mover(topic)
        case "compact":
            topic.compact(chance.randrange(topic.end + 1), min(mover.position for mover in movers))


STEPS = ("send", "cancel", "time", "read", "move", "die", "compact")
WEIGHTS = (5, 1, 4, 4, 5, 0.3, 1)


def test_each_job_is_moved_once_or_has_a_reason() -> None:
    for seed in range(SEEDS):
        try:
            check_seed(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def check_seed(seed: int) -> None:
    chance = Random(seed)
    topic = Topic()
    movers = [Mover(topic), Mover(topic)]
    for _ in range(100):
        step(topic, movers, chance)
    all_is_moved(topic, movers[0])
    for one in topic.sent.values():
        rivals = [other for other in topic.sent.values() if other.job_id == one.job_id and other != one]
        assert (
            one in topic.moved
            or any(one.order < offset for offset in topic.cancelled[one.job_id])
            or any(one.order < other.order for other in rivals)
            or any(other.unique_for_ms is not None and other in topic.moved for other in rivals)
        )
    # All that was begun is ended: a new reader finds nothing, and the topic compacts to nothing.
    other = Mover(topic)
    other.read(topic.end)
    assert other.table.due_ms() is None
    topic.compact(topic.end, topic.end)
    assert topic.records == {}


def all_is_moved(topic: Topic, mover: Mover) -> None:
    mover.epoch = -1
    for _ in range(100):
        mover.move(then_told=True)
        topic.now_ms += KEPT_MS
        if mover.table.due_ms() is None:
            return
    raise AssertionError("it does not come to an end")


def test_the_earliest_job_comes_first() -> None:
    table = read(job("a", 30, 0), job("b", 10, 1), job("c", 20, 2))
    assert table.due_ms() == 10
    assert [one.job_id for one in table.jobs()] == ["b", "c", "a"]
    assert [one.job_id for one in table.due(25, 10).jobs] == ["b", "c"]
    assert [one.job_id for one in table.due(25, 1).jobs] == ["b"]
    assert table.due(9, 10).entries == []


def test_a_later_job_takes_the_place_of_an_earlier_one_with_its_id() -> None:
    first, second = job("a", 10, 0), job("a", 50, 1)
    table = read(first, second)
    assert table.jobs() == [second]
    assert table.due(20, 10).entries == [Ended(first.entry)]
    assert read(second, first).jobs() == [second]


def test_a_cancellation_ends_what_was_sent_before_it() -> None:
    first, second = job("a", 10, 0), job("a", 10, 2)
    cancelled = Cancelled("a", cancelling_key("a", "1"), 1)
    assert read(first, cancelled).due(20, 10).entries == [Ended(first.entry), Ended(cancelled.entry)]
    assert read(first, cancelled, second).jobs() == [second]
    # What the scheduler wrote before it had read the cancellation is ended, too.
    assert read(cancelled, first).jobs() == []
    assert read(second, Cancelled("a", cancelling_key("a", "3"), 1)).jobs() == [second]
    earlier = Cancelled("a", cancelling_key("a", "9"), 0)
    assert read(cancelled, earlier, first).jobs() == []


def test_an_id_is_taken_for_a_while_after_its_job_was_moved() -> None:
    first = job("a", 10, 0, unique_for_ms=100)
    table = read(first)
    due = table.due(20, 10)
    assert due.entries == [Ended(first.entry), Taken("a", 120)]
    for entry in due.entries:
        table.read(entry)
    dropped, later = job("a", 30, 3, sent_ms=119), job("a", 130, 4, sent_ms=120)
    table.read(dropped)
    table.read(later)
    assert table.jobs() == [later]
    assert table.due(125, 10).entries == [Ended(dropped.entry)]
    assert Ended(b"taken/a") in table.due(120 + KEPT_MS, 10).entries


def test_an_id_is_taken_for_no_longer_than_a_record_can_tell() -> None:
    table = read(job("a", 10, 0, unique_for_ms=MOMENT_MAX))
    (_, taken) = table.due(20, 10).entries
    assert taken == Taken("a", MOMENT_MAX)


def test_a_repeated_job_waits_for_its_next_time_and_sleeps_through_several_once() -> None:
    hourly = job("a", 3_600_000, 0, cron="0 * * * *")
    table = read(hourly)
    due = table.due(5 * 3_600_000 + 1, 10)
    assert due.jobs == [hourly]
    assert due.entries == [replace(hourly, at_ms=6 * 3_600_000)]
    table.read(due.entries[0])
    # The topic tells of it once more, and of an earlier time, which is over.
    table.read(due.entries[0])
    table.read(hourly)
    assert table.due_ms() == 6 * 3_600_000


def test_a_repetition_that_is_said_again_misses_no_time() -> None:
    missed, again = job("a", 1000, 0, cron="0 * * * *"), job("a", 9000, 1, cron="0 * * * *")
    other = job("a", 9000, 1, cron="30 * * * *")
    assert read(missed, again).due_ms() == 0
    assert [one.at_ms for one in read(missed, again).jobs()] == [1000]
    assert [one.at_ms for one in read(missed, other).jobs()] == [9000]


def test_delays_do_not_go_by_steps_of_the_clock() -> None:
    table = read(job("a", 1000, 0, is_delay=True), job("b", 2000, 1))
    table.clock_stepped(5000)
    assert [(one.job_id, one.at_ms) for one in table.jobs()] == [("b", 2000), ("a", 6000)]
    table.clock_stepped(-9000)
    assert [(one.job_id, one.at_ms) for one in table.jobs()] == [("a", 0), ("b", 2000)]
    assert table.due_ms() == 0


def test_a_postponed_job_holds_up_no_other() -> None:
    first, second = job("a", 10, 0), job("b", 20, 1)
    table = read(first, second)
    table.postpone(first, 500)
    assert table.due(30, 10).jobs == [second]
    assert table.due(500, 10).jobs == [second, first]
    table.postpone(job("a", 10, 7), 900)
    assert table.due_ms() == 20
