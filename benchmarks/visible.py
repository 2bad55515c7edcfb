"""One small append that a reader can see, without a sync, against one bare `os.pwrite` of the same bytes.

Each append is timed alone, less what timing nothing takes; a way gives the median of them. Three doors, the outermost
first:

    send                  `producer.send(...).result()` with linger_ms=0: accumulator, future and all
    client                `log.topic(t)[0].append([record])`: a Produce through the node, answered
    partition.append      the leader of the partition: encode, append, advance the high watermark
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pylog
import storage
from harness import at_most, figure, fresh, keys_and_values, measure, report, scaled, scratch
from pylog.protocol.batch import encode
from pylog.replica import Leader

COUNT = scaled(usual=20_000, quick=500)
ROUNDS = scaled(usual=9, quick=2)
ROWS = keys_and_values(COUNT)
RECORDS = [[pylog.Record(value, key)] for key, value in ROWS]

tails: dict[str, list[float]] = {}


def timed(name: str, work: Callable[[Any], object], given: Iterable[Any]) -> float:
    """The median of the seconds that `work` takes for each of `given`; the 99th hundredth is kept beside it."""
    clock = time.perf_counter_ns
    nothing = statistics.median(-(clock() - clock()) for _ in range(1000))
    taken = []
    for one in given:
        start = clock()
        work(one)
        taken.append(clock() - start - nothing)
    taken.sort()
    tails.setdefault(name, []).append(taken[len(taken) * 99 // 100] / 1e9)
    return statistics.median(taken) / 1e9


def raw(folder: Path) -> float:
    data = [bytes(storage.encoded(1, seed=seed).data) for seed in range(100)]
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    size = len(data[0])

    def write(index: int) -> None:
        os.pwrite(descriptor, data[index % 100], index * size)

    seconds = timed("raw", write, range(COUNT))
    os.close(descriptor)
    return seconds


def client(log: pylog.Log) -> float:
    return timed("client", log.topic("bench")[0].append, RECORDS)


def leader(folder: Path) -> float:
    partition = storage.created(folder)
    role = Leader(partition, epoch=0, followers=frozenset(), visible_when_durable=False, now_ms=0)

    def append(records: list[pylog.Record]) -> None:
        now_ms = time.time_ns() // 1_000_000
        role.append(encode(records, now_ms=now_ms), now_ms)
        role.advance()

    seconds = timed("partition.append", append, RECORDS)
    partition.close()
    return seconds


def send(log: pylog.Log) -> float:
    with log.producer(linger_ms=0) as producer:

        def one(row: tuple[bytes, bytes]) -> None:
            producer.send("bench", row[1], row[0]).result()

        return timed("send", one, ROWS[: COUNT // 4])


def main() -> None:
    with scratch() as folder, pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
        measured = measure(
            {
                "client": lambda: client(log),
                "partition.append": fresh(leader),
                "send": lambda: send(log),
                "raw": fresh(raw),
            },
            ROUNDS,
            "append",
        )

    def tail(name: str) -> float:
        """How many times the median of a bare write the 99th hundredth takes; the first run does not count."""
        return statistics.median(b / a for a, b in zip(measured.seconds["raw"], tails[name][1:], strict=True))

    report(
        "visible",
        [
            measured.time("client, median", "client", "raw", at_most(4.5)),
            figure("client, p99", tail("client"), "x the median pwrite", at_most(12)),
            measured.time("partition.append, median", "partition.append", "raw", at_most(3.2)),
            figure("partition.append, p99", tail("partition.append"), "x the median pwrite", at_most(12)),
            measured.time("send and result, median", "send", "raw"),
            figure("bare pwrite, p99", tail("raw"), "x the median pwrite"),
        ],
        appends=COUNT,
    )


if __name__ == "__main__":
    main()
