"""Recovery after `kill -9`, against reading the same files, which are in the page cache: everything is checked again.

A process writes a log with flush="none" and kills itself, so nothing is known to be durable, and opening reads it all:
CRCs, offsets, index entries, producers. Batches of 1,000 records, and of 1. Each round recovers a copy of its own,
which is on the disk before the time begins: opening syncs what it gives, and writing what a dead process has left in
the page cache is the disk's time, which a read does not take.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pylog
import storage
from harness import MIB, Way, at_least, fresh, measure, mode, report, scaled, scratch, stopwatch

SIZES = {
    1000: scaled(usual=512 * MIB, quick=2 * MIB, full=1024 * MIB),
    1: scaled(usual=256 * MIB, quick=MIB // 4, full=1024 * MIB),
}
ROUNDS = scaled(usual=7, quick=2)


def write_and_die(folder: Path, records: int) -> None:
    log = pylog.open(folder / "log", flush="none")
    view = log.create_topic("bench")[0]
    view.append([pylog.Record(b"first")])
    storage.fill(log.broker.partition("bench", 0), SIZES[records], records)
    os.kill(os.getpid(), signal.SIGKILL)


def left_behind(folder: Path, records: int) -> None:
    """What a process that was killed has left."""
    words = [sys.executable, __file__, *mode(), "child", str(folder), str(records)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL


def recovering(source: Path, records: int) -> Way:
    def run(folder: Path) -> float:
        shutil.copytree(source / "log", folder / "log")
        os.sync()
        taken = stopwatch()
        log = pylog.open(folder / "log", flush="none")
        end = log.topic("bench")[0].next_offset
        seconds = taken()
        size = log.topic("bench")[0].size
        log.close()
        assert size >= SIZES[records] and end > 1 and not log.recovered and not log.quarantined
        return seconds / (size / MIB)

    return fresh(run)


def reading(source: Path) -> Way:
    paths = sorted((source / "log" / "bench-0").glob("*.log"))
    return lambda: storage.read_files(paths) / (storage.size_of(paths) / MIB)


def main() -> None:
    with scratch() as thousands, scratch() as ones:
        left_behind(thousands, 1000)
        left_behind(ones, 1)
        measured = measure(
            {
                "batches of 1,000": recovering(thousands, 1000),
                "warm read of batches of 1,000": reading(thousands),
                "batches of 1": recovering(ones, 1),
                "warm read of batches of 1": reading(ones),
            },
            ROUNDS,
            "MiB",
        )
    report(
        "recovery",
        [
            measured.speed(
                "batches of 1,000 records", "batches of 1,000", "warm read of batches of 1,000", at_least(0.45)
            ),
            measured.speed("batches of 1 record", "batches of 1", "warm read of batches of 1", at_least(0.45)),
        ],
        bytes=list(SIZES.values()),
    )


if __name__ == "__main__":
    if "child" in sys.argv:
        at = sys.argv.index("child")
        write_and_die(Path(sys.argv[at + 1]), int(sys.argv[at + 2]))
    else:
        main()
