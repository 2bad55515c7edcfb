"""What one run does: eight threads make all kinds of public calls of one log, and readers look on.

    a            4 partitions, kept whole      views append, a shared producer sends
    r            retention by size             the same
    c            compacted                     a producer, with 5 keys
    x            transactions                  committed and aborted
    tmp-N        come and go

A value says who has written it, and which of its writes it is, and nothing but that decides its bytes: `value_of`. What
was acknowledged is written down; `judge` holds it against what lies there.
"""

import random
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pylog
from pylog import TopicPartition
from pylog.errors import CorruptBatch, PylogError
from pylog.files import DiskFiles
from pylog.inspect import Problem, verify

from .limits import Limits, usual_stacks

PARTITIONS, KEYS, IN_TRANSACTION = 4, 5, 3
KEPT, SHORT, COMPACTED, TRANSACTIONS = "a", "r", "c", "x"
PATIENCE_SECONDS = 60
WRONG_MOST = 5
LARGEST = 900

Numbers = tuple[int, int]
"""Who has written a record, and which of its writes it is."""


def value_of(who: int, number: int, word: str = "") -> bytes:
    """The one value of these numbers."""
    return b"%d:%d:%s:" % (who, number, word.encode()) + b"v" * ((who * 31 + number * 7919) % LARGEST)


def numbers_of(value: bytes | None) -> tuple[int, int, str]:
    """What a value was made of. Raises AssertionError: nobody has written it."""
    who, number, word, _ = (value or b"").split(b":", 3) if (value or b"").count(b":") == 3 else (b"", b"", b"", b"")
    assert who.isdigit() and value == value_of(int(who), int(number), word.decode()), f"nobody has written {value!r}"
    return int(who), int(number), word.decode()


class Play:
    """One run in the folder `path`."""

    def __init__(self, limits: Limits, path: Path, seconds: float) -> None:
        self.limits, self.path = limits, str(path)
        self.deadline = time.monotonic() + seconds
        self.acked: dict[tuple[str, int], dict[int, Numbers]] = defaultdict(dict)
        self.committed: list[Numbers] = []
        self.position = 0
        self.wrong: list[str] = []
        self.calls: dict[str, int] = defaultdict(int)
        self.refused: dict[str, int] = defaultdict(int)
        self._mutex = threading.Lock()

    # --- one run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Open the log, use it in many threads, and close it."""
        log = self.attempt("open", lambda: pylog.open(self.path, flush=self.limits.flush, config=self.limits.node))
        if log is None:
            return
        try:
            config = self.limits.topic
            for name, partitions, more in (
                (KEPT, PARTITIONS, {"retention.bytes": -1}), (SHORT, 2, {"retention.bytes": 50_000}),
                (COMPACTED, 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "retention.bytes": -1}),
                (TRANSACTIONS, 1, {"retention.bytes": -1}),
            ):  # fmt: skip
                made = lambda name=name, count=partitions, more=more: log.create_topic(name, count, config | more)
                self.attempt("create", made)
            self._use(log)
        finally:
            self.attempt("close", log.close)

    def _use(self, log: pylog.Log) -> None:
        jobs = (
            self.append, self.append, self.append, self.send, self.send, self.transact, self.administer, self.maintain,
            self.read, self.look_on, self.join_group,
        )  # fmt: skip
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        threads = [
            threading.Thread(target=self._work, args=(job, log, who), name=f"{job.__name__} {who}")
            for who, job in enumerate(jobs)
        ]
        try:
            with usual_stacks():
                for thread in threads:
                    thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)

    def _work(self, job: Callable[[pylog.Log, int, random.Random], None], log: pylog.Log, who: int) -> None:
        chance = random.Random(f"{self.limits.seed} {who}")
        while time.monotonic() < self.deadline and len(self.wrong) < WRONG_MOST:
            try:
                job(log, who, chance)
            except AssertionError as error:
                self.say(f"{job.__name__}: {error}")
            except BaseException as error:  # noqa: BLE001 - whatever it is, `refuse` judges it
                self.refuse(job.__name__, error)
                time.sleep(0.01)

    def attempt(self, name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except BaseException as error:  # noqa: BLE001
            self.refuse(name, error)
            return None

    def refuse(self, name: str, error: BaseException) -> None:
        """Note a call that failed, and say so where it must not have."""
        # The end of a transaction is in doubt where `TimeoutError` says so.
        # No limit damages a batch.
        typed = isinstance(error, PylogError | CancelledError | TimeoutError) and not isinstance(error, CorruptBatch)
        if self.limits.may_refuse and typed:
            with self._mutex:
                self.refused[type(error).__name__] += 1
            return
        place = "".join(traceback.format_tb(error.__traceback__)[-1:])
        self.say(f"{name} raised {type(error).__name__}: {str(error)[-400:]}\n{place}")

    def say(self, what: str) -> None:
        with self._mutex:
            self.wrong.append(what)

    def ack(self, topic: str, partition: int, offset: int, numbers: Numbers) -> None:
        with self._mutex:
            self.calls[topic] += 1
            other = self.acked[topic, partition].setdefault(offset, numbers)
        assert other == numbers, f"{topic}-{partition}: offset {offset} was given to {other} and to {numbers}"

    def number(self, who: int) -> int:
        with self._mutex:
            self.calls[f"number {who}"] += 1
            return self.calls[f"number {who}"]

    # --- what the threads do ------------------------------------------------------------------------------------------

    def append(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        topic = chance.choice([KEPT, KEPT, SHORT])
        partition = chance.randrange(PARTITIONS if topic == KEPT else 2)
        numbers = [self.number(who) for _ in range(chance.choice([1, 1, 3]))]
        done = log.topic(topic)[partition].append([pylog.Record(value_of(who, number)) for number in numbers])
        for index, number in enumerate(numbers):
            self.ack(topic, partition, done.base_offset + index, (who, number))

    def send(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        """A producer's life: a burst into one topic, and one record for each key of the compacted one."""
        with log.producer(**self.limits.producer) as producer:
            for _ in range(chance.randrange(1, 20)):
                sent = []
                for _ in range(chance.randrange(1, 5)):
                    number, topic = self.number(who), chance.choice([KEPT, SHORT, COMPACTED])
                    key = b"k%d" % (number % KEYS) if topic == COMPACTED else None
                    partition = None if topic == COMPACTED else chance.randrange(2)
                    sent.append((topic, number, producer.send(topic, value_of(who, number), key, partition=partition)))
                for topic, number, future in sent:
                    done = future.result(PATIENCE_SECONDS)
                    self.ack(topic, done.partition, done.offset, (who, number))
                if time.monotonic() > self.deadline:
                    return

    def transact(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        with log.producer(transactional_id=f"t{who}", **self.limits.producer) as producer:
            for _ in range(chance.randrange(1, 8)):
                commits, number = chance.random() < 0.7, self.number(who)
                producer.begin()
                for part in range(IN_TRANSACTION):
                    word = f"{part}{'commit' if commits else 'abort'}"
                    producer.send(TRANSACTIONS, value_of(who, number, word))
                if commits:
                    producer.commit()
                    with self._mutex:
                        self.calls["commits"] += 1
                        self.committed.append((who, number))
                else:
                    producer.abort()
                if time.monotonic() > self.deadline:
                    return

    def administer(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        name = f"tmp-{self.number(who)}"
        topic = log.create_topic(name, chance.randrange(1, 4), self.limits.topic)
        topic[0].append([pylog.Record(b"for a moment")])
        log.alter_config(name, {"retention.ms": 10**9})
        log.create_partitions(name, len(topic) + 1)
        log.topics()
        log.admin.describe_log_dirs()
        log.admin.list_groups()
        log.admin.list_offsets({TopicPartition(KEPT, 0): "latest"})
        log.delete_topic(name)

    def maintain(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        partition = chance.randrange(2)
        view = log.topic(SHORT)[partition]
        if chance.random() < 0.3:
            # Retention may have gone further meanwhile: then it moves nothing.
            log.delete_records({TopicPartition(SHORT, partition): min(view.start_offset + 5, view.high_watermark)})
        chance.choice(
            [log.flush, log.apply_retention, log.clean, log.topic(KEPT)[chance.randrange(PARTITIONS)].check]
        )()
        assert (damage := self.attempt("find damage", log.find_damage)) is None or not damage, f"damage: {damage}"

    def read(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        """All that was acknowledged in a piece of a partition is there."""
        partition = chance.randrange(PARTITIONS)
        with self._mutex:
            known = dict(self.acked[KEPT, partition])
        view = log.topic(KEPT)[partition]
        start = chance.randrange(view.high_watermark + 1)
        seen = {
            record.offset: numbers_of(record.value)[:2]
            for record in view.records(start, min(start + 200, view.high_watermark))
        }
        for offset, numbers in seen.items():
            assert known.get(offset, numbers) == numbers, (
                f"{KEPT}-{partition} at {offset}: {numbers}, not {known[offset]}"
            )
        view.offset_for_time(0)
        _ = view.size, view.segments, view.last_stable_offset, view.durable_offset
        view.read(start, 100)

    def look_on(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        """A reader without a lock, as another process is one: by a consumer, and by views."""
        with pylog.open(self.path, mode="read") as reader:
            with reader.consumer(auto_offset_reset="earliest", **self.limits.consumer) as consumer:
                consumer.assign([TopicPartition(KEPT, number) for number in range(PARTITIONS)])
                last: dict[int, int] = {}
                for _ in range(30):
                    for record in consumer.poll(20):
                        assert record.offset == last.get(record.partition, -1) + 1, f"{record.offset} after {last}"
                        last[record.partition] = record.offset
                        numbers_of(record.value)
            for record in reader.topic(TRANSACTIONS)[0].records(isolation_level="read_committed"):
                assert "commit" in numbers_of(record.value)[2], f"{record.value!r} was to be aborted, and is read"

    def join_group(self, log: pylog.Log, who: int, chance: random.Random) -> None:
        with log.consumer(
            KEPT, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, **self.limits.consumer
        ) as member:
            for _ in range(chance.randrange(2, 20)):
                records = [record for record in member.poll(50) if record.partition == 0]
                if not records:
                    continue
                member.commit()
                position = records[-1].offset + 1
                assert position > self.position, f"{position} was read again, after {self.position} was committed"
                self.position = position
                with self._mutex:
                    self.calls["positions"] += 1

    # --- the judgement ------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Open the log without limits and hold it against what was acknowledged."""
        with pylog.open(self.path) as log:
            assert not log.quarantined, f"quarantined: {log.quarantined}"
            assert not (found := log.find_damage()), f"damage: {found}"
            there = set(log.topics())
            for topic, partitions in ((KEPT, PARTITIONS), (SHORT, 2), (COMPACTED, 1)):
                for partition in range(partitions if topic in there else 0):
                    view = log.topic(topic)[partition]
                    view.check()
                    rows = [(record.offset, *numbers_of(record.value)[:2]) for record in view.records()]
                    self._check_rows(topic, partition, rows, view.start_offset)
            if TRANSACTIONS in there:
                records = log.topic(TRANSACTIONS)[0].records(isolation_level="read_committed")
                self._check_transactions([numbers_of(record.value) for record in records])
            found_at = log.admin.committed("g").get(TopicPartition(KEPT, 0)) if self.position else None
            assert not self.position or (found_at is not None and found_at.offset >= self.position), (
                f"the group is at {found_at}, and {self.position} was committed"
            )
        events = verify(DiskFiles(read_only=True), self.path)
        problems = [event for event in events if isinstance(event, Problem) and not event.harmless]
        assert not problems, f"verify: {problems[:2]}"

    def _check_rows(self, topic: str, partition: int, rows: list[tuple[int, int, int]], start: int) -> None:
        where = f"{topic}-{partition}"
        found = {offset: numbers for offset, *numbers in rows}
        last: dict[int, int] = {}
        for offset, who, number in rows:
            assert number > last.get(who, 0), f"{where} at {offset}: {number} of {who} comes after {last.get(who)}"
            last[who] = number
        if topic == COMPACTED:
            newest = {number % KEYS: offset for offset, _, number in rows}
            for offset, (who, number) in self.acked[topic, partition].items():
                is_there = list(found.get(offset, ())) == [who, number]
                assert is_there or newest.get(number % KEYS, -1) > offset, (
                    f"{where}: {(who, number)} at {offset} is gone"
                )
            return
        assert [offset for offset, *_ in rows] == list(range(start, start + len(rows))), f"{where} has holes"
        for offset, numbers in self.acked[topic, partition].items():
            assert offset < start or tuple(found.get(offset, ())) == numbers, (
                f"{where} at {offset}: {numbers} was acknowledged, {found.get(offset)} is there"
            )

    def _check_transactions(self, seen: list[tuple[int, int, str]]) -> None:
        parts: dict[Numbers, list[str]] = defaultdict(list)
        for who, number, word in seen:
            parts[who, number].append(word)
        whole = [f"{part}commit" for part in range(IN_TRANSACTION)]
        for numbers, words in parts.items():
            assert words == whole, f"{TRANSACTIONS}: of {numbers} there is {words}"
        missing = [numbers for numbers in self.committed if numbers not in parts]
        assert not missing, f"{TRANSACTIONS}: {missing[:3]} were committed, and are gone"

    def told(self) -> str:
        """How much was done, in words."""
        done = [f"{self.calls[name]} {name}" for name in (KEPT, SHORT, COMPACTED, "commits", "positions")]
        refused = ", ".join(f"{count} {name}" for name, count in sorted(self.refused.items()))
        return ", ".join(done) + (f"; refused {refused}" if refused else "")
