"""Opening a log that was opened, written to and closed many times, against one that has seen two such runs.

A run opens the log, appends one record, takes a block of producer ids, and closes. What opening costs afterwards is
measured for the owner and for a reader; the records themselves are never read. Each way opens several times a round.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pylog
from harness import at_most, figure, measure, report, scaled, scratch, stopwatch
from pylog.log import Mode

RUNS = scaled(usual=1_000, quick=20, full=10_000)
OPENS = scaled(usual=20, quick=2)
ROUNDS = scaled(usual=15, quick=2)


def run(folder: Path) -> None:
    with pylog.open(folder / "log", flush="none") as log:
        log.topic("bench")[0].append([pylog.Record(b"x" * 100)])
        log.broker.node.cluster_changes.allocate_producer_ids()


@contextmanager
def after(runs: int) -> Iterator[Path]:
    with scratch() as folder:
        with pylog.open(folder / "log", flush="none") as log:
            log.create_topic("bench")
        for _ in range(runs):
            run(folder)
        yield folder


def opening(folder: Path, mode: Mode, end: int) -> float:
    seconds = 0.0
    for _ in range(OPENS):
        taken = stopwatch()
        log = pylog.open(folder / "log", mode=mode, flush=None if mode == "read" else "none")
        found = log.topic("bench")[0].next_offset
        seconds += taken()
        log.close()
        assert found == end
    return seconds / OPENS


def main() -> None:
    with after(2) as few, after(RUNS) as many:
        measured = measure(
            {
                "owner": lambda: opening(many, "own", RUNS),
                "owner, after 2 runs": lambda: opening(few, "own", 2),
                "reader": lambda: opening(many, "read", RUNS),
                "reader, after 2 runs": lambda: opening(few, "read", 2),
            },
            ROUNDS,
            "open",
        )
        size = sum(path.stat().st_size for path in (many / "log" / "__cluster_metadata-0").iterdir())
    report(
        "runs",
        [
            measured.time("clean open", "owner", "owner, after 2 runs", at_most(1.2)),
            measured.time("open beside it, to read", "reader", "reader, after 2 runs", at_most(1.2)),
            figure("all of the metadata log", size / 1024, "KiB"),
        ],
        runs=RUNS,
    )


if __name__ == "__main__":
    main()
