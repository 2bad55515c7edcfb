"""Nothing that is done often costs more with 10,000 segments than with 10.

A clean open, an append, a fetch at a random offset and a time look-up in a partition of many small segments, each
against the same in a partition of few; ratios are the many over the few.
"""

import random
from pathlib import Path
from uuid import UUID

from harness import Way, measure, quick, report, scratch, stopwatch
from pylog.batch import encode_rows
from pylog.config import TopicConfig
from pylog.files import DiskFiles
from pylog.partition import Checkpoint, Partition

FEW, MANY = 10, 300 if quick() else 10_000
LOOKUPS = 200
ROUNDS = 2 if quick() else 5
NOW_MS = 1_700_000_000_000
CONFIG = TopicConfig.loaded({"segment.bytes": "1000000", "index.interval.bytes": "4096"})
ROW = [(b"x" * 100, b"key", NOW_MS, ())]


def partition_at(folder: Path) -> Partition:
    return Partition(DiskFiles(), str(folder / "bench-0"), "bench", 0, CONFIG)


def make(folder: Path, segments: int) -> None:
    partition = partition_at(folder)
    partition.create(UUID(int=1), NOW_MS)
    for number in range(segments):
        rows = [(b"x" * 100, b"key", NOW_MS + 100 * number + i, ()) for i in range(10)]
        partition.append(encode_rows(rows, now_ms=NOW_MS), epoch=0, now_ms=NOW_MS)
        if number < segments - 1:
            partition.roll(NOW_MS)
    partition.close()


class Opened:
    """A partition that is open, and random places in it."""

    def __init__(self, folder: Path, segments: int) -> None:
        self.partition = partition_at(folder)
        self.end = segments * 10
        self.partition.open(Checkpoint(high_watermark=self.end), NOW_MS)
        self.draw = random.Random(1)

    def append(self) -> float:
        taken = stopwatch()
        for _ in range(LOOKUPS):
            self.partition.append(encode_rows(ROW, now_ms=NOW_MS), epoch=0, now_ms=NOW_MS)
        return taken()

    def fetch(self) -> float:
        """In ten segments far from each other, which are open after the first round."""
        offsets = [self.draw.randrange(10) * (self.end // 10) + self.draw.randrange(10) for _ in range(LOOKUPS)]
        taken = stopwatch()
        for offset in offsets:
            assert self.partition.read(offset, 4096, upto=self.end) is not None
        return taken()

    def time_lookup(self) -> float:
        """The same; the first one asks each segment for its largest timestamp, once."""
        offsets = [self.draw.randrange(10) * (self.end // 10) + self.draw.randrange(10) for _ in range(LOOKUPS)]
        taken = stopwatch()
        for offset in offsets:
            found = self.partition.offset_for_time(NOW_MS + 100 * (offset // 10) + offset % 10, upto=self.end)
            assert found is not None and found.offset == offset
        return taken()


def opening(folder: Path, segments: int) -> float:
    partition = partition_at(folder)
    taken = stopwatch()
    partition.open(Checkpoint(high_watermark=segments * 10), NOW_MS)
    seconds = taken()
    partition.close()
    return seconds


def compare(name: str, few: Way, many: Way, count: int) -> None:
    report(
        f"segments_{name}",
        measure({"few": few, "many": many}, ROUNDS),
        records=count,
        ratios={"time, many / few": ("few", "many")},
        notes={"few": FEW, "many": MANY},
    )


if __name__ == "__main__":
    with scratch() as few, scratch() as many:
        make(few, FEW)
        make(many, MANY)
        compare("open", lambda: opening(few, FEW), lambda: opening(many, MANY), 1)
        one, other = Opened(few, FEW), Opened(many, MANY)
        compare("append", one.append, other.append, LOOKUPS)
        compare("fetch", one.fetch, other.fetch, LOOKUPS)
        compare("time", one.time_lookup, other.time_lookup, LOOKUPS)
