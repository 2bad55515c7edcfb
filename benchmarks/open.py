"""Opening after a clean stop: 1,000 partitions of 10 segments against 1,000 partitions of 1 segment.

Partitions are opened when they are first asked for, so what counts is opening the log and asking each partition where
it ends. The least there is: listing every folder, and asking for the size of its last file.
"""

import os
from pathlib import Path

import pylog
from harness import at_most, figure, measure, report, scaled, scratch, stopwatch

PARTITIONS = scaled(usual=1_000, quick=20)
SEGMENTS = 10
ROUNDS = scaled(usual=5, quick=2)


def make(folder: Path, segments: int) -> None:
    with pylog.open(folder / "log", flush="none") as log:
        for view in log.create_topic("bench", partitions=PARTITIONS):
            for number in range(segments):
                view.append([pylog.Record(b"x" * 100, b"%08d" % number, 1_700_000_000_000 + number)])
                if number < segments - 1:
                    log.broker.partition("bench", view.partition).roll(1_700_000_000_000 + number)


def opening(folder: Path, segments: int) -> float:
    taken = stopwatch()
    log = pylog.open(folder / "log", flush="none")
    ends = [view.next_offset for view in log.topic("bench")]
    seconds = taken()
    log.close()
    assert ends == [segments] * PARTITIONS
    return seconds / PARTITIONS


def listing(folder: Path) -> float:
    taken = stopwatch()
    for name in os.listdir(folder / "log"):
        path = folder / "log" / name
        if name.startswith("bench-"):
            names = sorted(one for one in os.listdir(path) if one.endswith(".log"))
            (path / names[-1]).stat()
    return taken() / PARTITIONS


def main() -> None:
    with scratch() as few, scratch() as many:
        make(few, 1)
        make(many, SEGMENTS)
        measured = measure(
            {
                "10 segments": lambda: opening(many, SEGMENTS),
                "1 segment": lambda: opening(few, 1),
                "bare listing, 10 segments": lambda: listing(many),
            },
            ROUNDS,
            "partition",
        )
    report(
        "open",
        [
            measured.time("10 segments each", "10 segments", "1 segment", at_most(2)),
            figure("10 segments each", measured.median("10 segments") * 1e3, "ms/partition", at_most(0.3)),
            measured.time("10 segments each", "10 segments", "bare listing, 10 segments"),
        ],
        partitions=PARTITIONS,
    )


if __name__ == "__main__":
    main()
