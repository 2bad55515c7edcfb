"""Appending lists of 1000 records, to the page cache, against a bare write of as many bytes, lmdb and sqlite3.

The records are made beforehand, and are distinct. Nobody syncs, but for pylog's `interval` mode, which does once a
second in the background, and sqlite3 at its checkpoints. Each way writes new files in each round.
"""

import os
from pathlib import Path

import peers
import pylog
from harness import RECORD_BYTES, at_least, fresh, keys_and_values, measure, report, scaled, stopwatch
from pylog.log import Flush

BATCH = 1000
COUNT = scaled(usual=400_000, quick=10_000)
ROUNDS = scaled(usual=9, quick=2)
ROWS = keys_and_values(COUNT)
LISTS = peers.chunks([pylog.Record(value, key) for key, value in ROWS])


def append(folder: Path, flush: Flush) -> float:
    with pylog.open(folder / "log", flush=flush) as log:
        partition = log.create_topic("bench")[0]
        partition.append(LISTS[0])
        taken = stopwatch()
        for records in LISTS:
            partition.append(records)
        seconds = taken()
        assert partition.next_offset == COUNT + BATCH
    return seconds / COUNT


def raw_write(folder: Path) -> float:
    blocks = [os.urandom(BATCH * RECORD_BYTES) for _ in range(COUNT // BATCH)]
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    taken = stopwatch()
    for block in blocks:
        os.write(descriptor, block)
    seconds = taken()
    os.close(descriptor)
    return seconds / COUNT


def main() -> None:
    measured = measure(
        {
            "none": fresh(lambda folder: append(folder, "none")),
            "interval": fresh(lambda folder: append(folder, "interval")),
            "raw write": fresh(raw_write),
            "lmdb put(append=True)": fresh(lambda folder: peers.lmdb_fill(folder, ROWS)),
            "lmdb putmulti, writemap": fresh(lambda folder: peers.lmdb_fill_many(folder, ROWS)),
            "sqlite3": fresh(lambda folder: peers.sqlite_fill(folder, ROWS)),
        },
        ROUNDS,
    )
    name = 'lists of 1000, flush="none"'
    report(
        "append",
        [
            measured.speed(name, "none", "raw write", at_least(0.45)),
            measured.speed(name, "none", "lmdb put(append=True)", at_least(5)),
            measured.speed(name, "none", "lmdb putmulti, writemap"),
            measured.speed(name, "none", "sqlite3", at_least(25)),
            measured.speed('lists of 1000, flush="interval"', "interval", "raw write"),
        ],
        records=COUNT,
        batch=BATCH,
    )


if __name__ == "__main__":
    main()
