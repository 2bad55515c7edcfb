"""`producer.send` from 4 threads with one producer, against the same number of records from 1 thread.

Each thread sends its share into one partition. Afterwards the log is read: every thread's records have to lie in the
order in which it sent them. How much waits is sampled while they send: the bytes of records that were sent and not
answered yet, those of the open batch too, as batches of the default size.
"""

import threading
from pathlib import Path

import peers
import pylog
from harness import (
    at_least,
    at_most,
    enough,
    figure,
    fresh,
    keys_and_values,
    measure,
    report,
    scaled,
    stopwatch,
)

LEAST, MOST = scaled(usual=(200_000, 1_000_000), quick=(8_000, 8_000))
ROUNDS = scaled(usual=7, quick=2)
THREADS = 4
SAMPLE = 100
BATCH_BYTES = 262_144
WAITING_MAX = 8
"""Three batches that wait, one that each thread has filled and one that is open (performance.md, 4.3)."""
waited: list[float] = []


def send(folder: Path, rows: peers.Rows, threads: int) -> float:
    size = -(-len(rows) // threads)
    # Neighbours in memory, as for the one thread: every fourth row would cost that one a fifth more, too.
    shares = [rows[start : start + size] for start in range(0, len(rows), size)]
    waiting: list[int] = []
    with pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
        with log.producer() as producer:
            producer.send("bench", b"first").result()
            workers = [threading.Thread(target=send_share, args=(producer, share, waiting)) for share in shares]
            taken = stopwatch()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            producer.flush()
            seconds = taken()
        check_order(log, size)
    if threads > 1:
        waited.append(max(waiting) / BATCH_BYTES)
    return seconds / len(rows)


def send_share(producer: pylog.Producer, share: peers.Rows, waiting: list[int]) -> None:
    """Send records; note now and then how many bytes wait, of all threads."""
    accumulator, most = producer._client.batches, 0
    for index, (key, value) in enumerate(share):
        producer.send("bench", value, key)
        if index % SAMPLE == 0:
            most = max(most, accumulator.bytes_waiting)
    waiting.append(most)


def check_order(log: pylog.Log, size: int) -> None:
    """The rows have rising keys, so those of each thread's share, of `size` rows, have to rise."""
    latest: dict[int, int] = {}
    for record in log.topic("bench")[0].records(1):
        assert record.key is not None
        number = int(record.key)
        before = latest.get(number // size, -1)
        assert number > before, f"record {number} lies behind {before}"
        latest[number // size] = number


def main() -> None:
    rows = keys_and_values(MOST)
    count = enough(lambda some: fresh(lambda folder: send(folder, rows[:some], 1))(), LEAST, MOST)
    rows = rows[:count]
    measured = measure(
        {
            "4 threads": fresh(lambda folder: send(folder, rows, THREADS)),
            "1 thread": fresh(lambda folder: send(folder, rows, 1)),
        },
        ROUNDS,
    )
    report(
        "threads",
        [
            measured.speed("4 threads, in total", "4 threads", "1 thread", at_least(0.8)),
            figure("most that waited", max(waited), "batches", at_most(WAITING_MAX), "order was checked"),
        ],
        records=count,
    )


if __name__ == "__main__":
    main()
