"""Workers in several processes: the jobs of one that is killed go on in the others."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pylog
from pylog.protocol.messages.share import DescribeShareGroupOffsetsRequest
from pylog.record import ShareRecord, TopicPartition
from pylog.workers import Workers
from support.other_process import OtherProcess, other_process
from support.patience import HANG_SECONDS

COUNT = 20
HOUR_MS = 3_600_000
CONFIG: Any = {"group.share.max.record.lock.duration.ms": HOUR_MS, "group.share.record.lock.duration.ms": HOUR_MS}
"""No lock ends by itself."""

HANGS = """
import queue, threading
from pylog.workers import Workers

held = queue.Queue()

def work(record):
    held.put(record.offset)
    threading.Event().wait()

workers = Workers(log, "jobs", work, group_id="g", threads=2)
workers.__enter__()
"""


def prepare(log: pylog.Log) -> None:
    log.create_topic("jobs")
    with log.producer() as producer:
        for number in range(COUNT):
            producer.send("jobs", b"%d" % number)


def held_by(process: OtherProcess) -> set[int]:
    """Two jobs that a process has begun, and does not end."""
    return set(process.does(HANGS, "[held.get() for _ in range(2)]"))


class Deliveries:
    """The offsets of jobs, and how often each was delivered; done by two threads."""

    def __init__(self, log: pylog.Log, wanted: int) -> None:
        self._lock = threading.Lock()
        self._wanted = wanted
        self.counts: dict[int, int] = {}
        self.some, self.all = threading.Event(), threading.Event()
        self.workers = Workers(log, "jobs", self.work, group_id="g", threads=2)

    def work(self, record: ShareRecord[Any, Any]) -> None:
        with self._lock:
            self.counts[record.offset] = record.delivery_count
            done = len(self.counts)
        if done == self._wanted:
            self.some.set()
        if done == COUNT:
            self.all.set()


def left(log: pylog.Log) -> int:
    asked = DescribeShareGroupOffsetsRequest.of("g")
    return asked.found(log._cluster.ask(asked))[TopicPartition("jobs", 0)].lag


def wait_until(is_so: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(HANG_SECONDS * 100):
        if is_so():
            return
        moment.wait(0.01)
    raise AssertionError("it takes too long")


def test_the_jobs_of_a_killed_process_go_on_at_once(tmp_path: Path) -> None:
    with pylog.open(tmp_path, config=CONFIG) as log, other_process(tmp_path) as killed:
        prepare(log)
        held = held_by(killed)
        done = Deliveries(log, COUNT - 2)
        with done.workers:
            assert done.some.wait(HANG_SECONDS)
            assert not held & done.counts.keys()
            killed.kill()
            assert done.all.wait(HANG_SECONDS)
        assert done.counts == {number: 1 + (number in held) for number in range(COUNT)}
        assert (done.workers.done, left(log)) == (COUNT, 0)


def test_the_jobs_of_a_killed_owner_go_on_where_another_takes_over(tmp_path: Path) -> None:
    with other_process(tmp_path, config=CONFIG) as owner, pylog.open(tmp_path, config=CONFIG) as log:
        prepare(log)
        held = held_by(owner)
        done = Deliveries(log, COUNT - 2)
        with done.workers:
            assert done.some.wait(HANG_SECONDS)
            assert not held & done.counts.keys()
            owner.kill()
            assert done.all.wait(HANG_SECONDS)
            # The owner has perhaps not had the end of a job: then it was done again.
            wait_until(lambda: left(log) == 0)
        assert log.mode == "own"
