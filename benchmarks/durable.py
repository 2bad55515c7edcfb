"""Durable appends: one caller, many threads, many futures, against a bare append and `fdatasync` by one caller.

Every way promises the same: when an append is answered, a power cut cannot take it. Ratios compare appends per second,
of all callers together. Latencies are those of single appends, from the call to the answer. "Bare threads" share syncs
as well, with as little Python as that takes, and append bytes that are there already.
"""

import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pylog
import storage
from harness import Way, at_least, at_most, enough, figure, fresh, keys_and_values, measure, report, scaled, stopwatch

COUNT = scaled(usual=1_000, quick=40)
MOST = scaled(usual=32_000, quick=128)
OUTSTANDING = 64
ROUNDS = scaled(usual=7, quick=2)
ROWS = keys_and_values(MOST)

tails: dict[int, list[float]] = {}


def raw(folder: Path) -> float:
    data = [bytes(storage.encoded(1, seed=seed).data) for seed in range(100)]
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    taken = stopwatch()
    for index in range(COUNT):
        os.write(descriptor, data[index % 100])
        os.fdatasync(descriptor)
    seconds = taken()
    os.close(descriptor)
    return seconds / COUNT


def one_caller(folder: Path, config: dict[str, Any]) -> float:
    records = [[pylog.Record(value, key)] for key, value in ROWS[:COUNT]]
    with pylog.open(folder / "log", flush="sync") as log:
        partition = log.create_topic("bench", config=config)[0]
        partition.append(records[0])
        taken = stopwatch()
        for some in records:
            partition.append(some)
        seconds = taken()
        assert partition.durable_offset == COUNT + 1
    return seconds / COUNT


def together(append: Callable[[Any], object], work: list[list[Any]]) -> tuple[float, list[float]]:
    """Threads that append a piece of their own work at a time; gives the seconds of all and the latency of each."""
    latencies: list[float] = []
    barrier = threading.Barrier(len(work) + 1)

    def run(own: list[Any]) -> None:
        barrier.wait()
        for one in own:
            start = time.perf_counter()
            append(one)
            latencies.append(time.perf_counter() - start)

    workers = [threading.Thread(target=run, args=(own,)) for own in work]
    for worker in workers:
        worker.start()
    barrier.wait()
    taken = stopwatch()
    for worker in workers:
        worker.join()
    return taken(), latencies


def callers(folder: Path, threads: int, count: int) -> float:
    """Threads that append a record at a time; gives seconds per append of all together."""
    each = count // threads
    work = [
        [[pylog.Record(value, key)] for key, value in ROWS[number * each : (number + 1) * each]]
        for number in range(threads)
    ]
    with pylog.open(folder / "log", flush="sync") as log:
        partition = log.create_topic("bench")[0]
        partition.append([pylog.Record(b"first")])
        seconds, latencies = together(partition.append, work)
        assert partition.durable_offset == threads * each + 1
    tails.setdefault(threads, []).append(sorted(latencies)[len(latencies) * 99 // 100])
    return seconds / (threads * each)


class BareCommit:
    """Group commit: a lock for each append, and whoever finds nobody at it writes and syncs for all who wait."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._joining = threading.Lock()
        self._joined: list[tuple[threading.Lock, bytes]] = []
        self._has_leader = False
        self._next: threading.Lock | None = None

    def append(self, data: bytes) -> None:
        mine = threading.Lock()
        mine.acquire()
        with self._joining:
            self._joined.append((mine, data))
            leads, self._has_leader = not self._has_leader, True
        if not leads:
            mine.acquire()
            if self._next is not mine:
                return
        with self._joining:
            group, self._joined = self._joined, []
        os.write(self._descriptor, b"".join([some for _, some in group]))
        os.fdatasync(self._descriptor)
        for asleep, _ in group:
            if asleep is not mine:
                asleep.release()
        with self._joining:
            self._has_leader = bool(self._joined)
            if self._joined:
                self._next = self._joined[0][0]
                self._next.release()

    def close(self) -> None:
        os.close(self._descriptor)


def bare_callers(folder: Path, threads: int, count: int) -> float:
    each = count // threads
    data = [bytes(storage.encoded(1, seed=seed).data) for seed in range(100)]
    work = [[data[index % 100] for index in range(each)] for _ in range(threads)]
    commit = BareCommit(folder / "bare")
    seconds, _ = together(commit.append, work)
    commit.close()
    return seconds / (threads * each)


def futures(folder: Path, count: int) -> float:
    """One thread that keeps so many futures outstanding, and waits for the oldest where it would have more."""
    outstanding: deque[Any] = deque()
    with pylog.open(folder / "log", flush="sync") as log:
        log.create_topic("bench")
        with log.producer(linger_ms=0) as producer:
            producer.send("bench", b"first").result()
            taken = stopwatch()
            for key, value in ROWS[:count]:
                if len(outstanding) == OUTSTANDING:
                    outstanding.popleft().result()
                outstanding.append(producer.send("bench", value, key))
            for future in outstanding:
                future.result()
            return taken() / count


def grouped(work: Callable[[Path, int], float]) -> Way:
    """A way that does so many appends that it lasts long enough, however well they share syncs."""
    count = enough(lambda some: fresh(lambda folder: work(folder, some))(), scaled(usual=640, quick=64), MOST)
    return fresh(lambda folder: work(folder, count))


def main() -> None:
    preallocated = {"preallocate": True, "segment.bytes": 8 << 20}
    ways = {
        "8 threads": grouped(lambda folder, count: callers(folder, 8, count)),
        "64 threads": grouped(lambda folder, count: callers(folder, 64, count)),
        "64 futures": grouped(futures),
        "8 bare threads": grouped(lambda folder, count: bare_callers(folder, 8, count)),
        "64 bare threads": grouped(lambda folder, count: bare_callers(folder, 64, count)),
    }
    tails.clear()
    measured = measure(
        {
            "raw": fresh(raw),
            "1 caller": fresh(lambda folder: one_caller(folder, {})),
            "1 caller, preallocated": fresh(lambda folder: one_caller(folder, preallocated)),
            **ways,
        },
        ROUNDS,
        "append",
    )

    def tail(threads: int) -> float:
        """How many times a bare sync the 99th hundredth of the latencies is; the first run does not count."""
        return statistics.median(b / a for a, b in zip(measured.seconds["raw"], tails[threads][1:], strict=True))

    report(
        "durable",
        [
            measured.speed("1 caller", "1 caller", "raw", at_least(0.85)),
            measured.speed("1 caller, preallocated", "1 caller, preallocated", "raw", at_least(1.1)),
            measured.speed("8 threads", "8 threads", "raw", at_least(3.2)),
            measured.speed("64 threads", "64 threads", "raw", at_least(9)),
            figure("8 threads, p99", tail(8), "x a bare sync", at_most(25)),
            figure("64 threads, p99", tail(64), "x a bare sync", at_most(25)),
            measured.speed("64 futures of one thread", "64 futures", "raw", at_least(30)),
            measured.speed("8 bare threads", "8 bare threads", "raw"),
            measured.speed("64 bare threads", "64 bare threads", "raw"),
        ],
        appends=COUNT,
    )


if __name__ == "__main__":
    main()
