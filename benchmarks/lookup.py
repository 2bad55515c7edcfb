"""Nothing that is done often costs more with 10,000 segments than with 10.

A fetch at a random offset, a look-up by time, an append and a clean open, in a partition of many small segments and in
one of few. The segments that are looked at are open in both; "on a miss" asks for segments whose descriptors have been
given back, as there are more of them than the budget has room for. Opening goes by the listing that a clean close has
left, as a node's does (`listed`). And a look-up by time in a single segment of 60 MiB.
"""

import random
from collections.abc import Callable
from pathlib import Path

import storage
from harness import Measured, Way, at_most, figure, measure, report, scaled, scratch, stopwatch
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode
from storage import NOW_MS

FEW, MANY = 10, scaled(usual=10_000, quick=300)
LOOKUPS = scaled(usual=2_000, quick=300)
MISSES = scaled(usual=2_000, quick=290)
"""More than max.open.files, which is 256: going round through them, each has been given back when its turn comes."""
ROUNDS = scaled(usual=7, quick=2)
EACH = 10
LARGE = scaled(usual=50_000, quick=300)
ROW = [(b"x" * 100, b"key", NOW_MS, ())]
SMALL = {"segment_bytes": "1000000", "index_interval_bytes": "4096"}


def make(folder: Path, segments: int) -> None:
    partition = storage.created(folder, **SMALL)
    for number in range(segments):
        rows = [(b"x" * 100, b"key", NOW_MS + 100 * number + index, ()) for index in range(EACH)]
        partition.append(encode(rows, now_ms=NOW_MS), epoch=0, now_ms=NOW_MS)
        if number < segments - 1:
            partition.roll(NOW_MS)
    partition.close()


class Opened:
    """A partition that is open, and random places in it."""

    def __init__(self, folder: Path, segments: int) -> None:
        self.partition: Partition = storage.partition_at(folder, **SMALL)
        self.segments = segments
        self.end = segments * EACH
        self.partition.open(Checkpoint(high_watermark=self.end), NOW_MS)
        self.draw = random.Random(1)

    def append(self) -> float:
        batches = [encode(ROW, now_ms=NOW_MS) for _ in range(LOOKUPS)]
        taken = stopwatch()
        for batch in batches:
            self.partition.append(batch, epoch=0, now_ms=NOW_MS)
        return taken() / LOOKUPS

    def places(self) -> list[int]:
        """Offsets in ten segments far from each other, which are open after the first round."""
        draw = self.draw.randrange
        return [draw(10) * (self.end // 10) + draw(EACH) for _ in range(LOOKUPS)]

    def fetch(self) -> float:
        offsets = self.places()
        taken = stopwatch()
        for offset in offsets:
            assert self.partition.read(offset, 4096, upto=self.end) is not None
        return taken() / LOOKUPS

    def time_lookup(self) -> float:
        times = [(offset, NOW_MS + 100 * (offset // EACH) + offset % EACH) for offset in self.places()]
        taken = stopwatch()
        for offset, moment in times:
            found = self.partition.offset_for_time(moment, upto=self.end)
            assert found is not None and found.offset == offset
        return taken() / LOOKUPS

    def missing(self) -> list[int]:
        """The same segments each time, in the same order: the least recently used is always the next."""
        return [number * self.segments // MISSES * EACH for number in range(MISSES)]

    def fetch_miss(self) -> float:
        offsets = self.missing()
        taken = stopwatch()
        for offset in offsets:
            assert self.partition.read(offset, 4096, upto=self.end) is not None
        return taken() / MISSES

    def time_miss(self) -> float:
        moments = [NOW_MS + 100 * (offset // EACH) for offset in self.missing()]
        taken = stopwatch()
        for moment in moments:
            assert self.partition.offset_for_time(moment, upto=self.end) is not None
        return taken() / MISSES


def opening(folder: Path, segments: int) -> float:
    partition = storage.partition_at(folder, **SMALL)
    taken = stopwatch()
    partition.open(Checkpoint(high_watermark=segments * EACH, durable_offset=segments * EACH, published=True), NOW_MS)
    seconds = taken()
    partition.close()
    return seconds


def in_a_large_segment(folder: Path) -> Way:
    """Looks for random times in one segment of many batches, after it has made them."""
    partition = storage.created(folder)
    for number in range(LARGE):
        rows = [(b"x" * 100, b"key", NOW_MS + EACH * number + index, ()) for index in range(EACH)]
        partition.append(encode(rows, now_ms=NOW_MS), epoch=0, now_ms=NOW_MS)
    end, draw = EACH * LARGE, random.Random(1)

    def run() -> float:
        offsets = [draw.randrange(end) for _ in range(LOOKUPS)]
        taken = stopwatch()
        for offset in offsets:
            found = partition.offset_for_time(NOW_MS + offset, upto=end)
            assert found is not None and found.offset == offset
        return taken() / LOOKUPS

    return run


def many_and_few(work: Callable[[Opened], float], one: Opened, other: Opened) -> Measured:
    return measure({"10,000 segments": lambda: work(other), "10 segments": lambda: work(one)}, ROUNDS, "call")


def main() -> None:
    with scratch() as few, scratch() as many, scratch() as large:
        make(few, FEW)
        make(many, MANY)
        opened = measure(
            {"10,000 segments": lambda: opening(many, MANY), "10 segments": lambda: opening(few, FEW)}, ROUNDS, "open"
        )
        one, other = Opened(few, FEW), Opened(many, MANY)
        fetches = many_and_few(Opened.fetch, one, other)
        times = many_and_few(Opened.time_lookup, one, other)
        appends = many_and_few(Opened.append, one, other)
        misses = measure({"fetch": other.fetch_miss, "time": other.time_miss}, ROUNDS, "call")
        single = measure({"time": in_a_large_segment(large)}, ROUNDS, "call")
    ways = ("10,000 segments", "10 segments")
    report(
        "lookup",
        [
            fetches.time("fetch at an offset", *ways, at_most(1.2)),
            times.time("look-up by time", *ways, at_most(1.2)),
            figure("fetch, on a descriptor miss", misses.median("fetch") * 1e6, "us", at_most(20)),
            figure("look-up by time, on a descriptor miss", misses.median("time") * 1e6, "us", at_most(20)),
            figure("look-up by time, in a segment of 60 MiB", single.median("time") * 1e6, "us"),
            appends.time("append", *ways),
            opened.time("clean open of the partition", *ways, at_most(2)),
        ],
        segments=[FEW, MANY],
    )


if __name__ == "__main__":
    main()
