"""Cleaning a compacted partition against copying its bytes: half of the records have a newer one of the same key.

Both passes count: noting the keys of the whole log, and writing it anew, with its indexes, synced and swapped in. The
raw copy reads and writes the same files in pieces of a MiB and syncs them. Each round begins with the same log, copied
outside the clock. `memory_mib` is what a cleaning adds to the process at most, its key map included.
"""

import os
import random
import resource
import shutil
from pathlib import Path
from uuid import UUID

from harness import VALUE_BYTES, measure, quick, report, scratch, stopwatch
from pylog.batch import encode_rows
from pylog.cleaner import clean
from pylog.config import TopicConfig
from pylog.files import DiskFiles
from pylog.partition import Checkpoint, Partition

BATCH = 1000
COUNT = 50_000 if quick() else 1_000_000
ROUNDS = 2 if quick() else 5
BUFFER_BYTES = 128 << 20
PIECE = 1 << 20
NOW_MS = 1_700_000_000_000
CONFIG = TopicConfig.loaded({"cleanup.policy": "compact", "segment.bytes": str(16 << 20)})


def partition_at(folder: Path) -> Partition:
    return Partition(DiskFiles(), str(folder / "bench-0"), "bench", 0, CONFIG)


def make(folder: Path) -> None:
    draw = random.Random(1)
    text = draw.randbytes(COUNT + VALUE_BYTES)
    partition = partition_at(folder)
    partition.create(UUID(int=1), NOW_MS)
    for start in range(0, COUNT, BATCH):
        rows = [
            (text[index : index + VALUE_BYTES], b"%08d" % draw.randrange(COUNT // 2), NOW_MS, ())
            for index in range(start, start + BATCH)
        ]
        partition.append(encode_rows(rows, now_ms=NOW_MS), epoch=0, now_ms=NOW_MS)
    partition.roll(NOW_MS)
    partition.close()


def cleaning(source: Path) -> float:
    with scratch() as folder:
        shutil.copytree(source / "bench-0", folder / "bench-0")
        partition = partition_at(folder)
        partition.open(Checkpoint(high_watermark=COUNT), NOW_MS)
        taken = stopwatch()
        cleaned = clean(partition, checkpoint=None, now_ms=NOW_MS, buffer_bytes=BUFFER_BYTES)
        seconds = taken()
        assert cleaned is not None and cleaned.records_read == COUNT and cleaned.records_kept == cleaned.keys
        partition.close()
    return seconds


def raw_copy(source: Path) -> float:
    with scratch() as folder:
        taken = stopwatch()
        for path in sorted((source / "bench-0").glob("*.log")):
            read = os.open(path, os.O_RDONLY)
            write = os.open(folder / path.name, os.O_WRONLY | os.O_CREAT)
            at = 0
            while piece := os.pread(read, PIECE, at):
                os.pwrite(write, piece, at)
                at += len(piece)
            os.fdatasync(write)
            os.close(read)
            os.close(write)
        return taken()


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    with scratch() as source:
        make(source)
        size = sum(path.stat().st_size for path in (source / "bench-0").glob("*.log"))
        before = peak_mib()
        cleaning(source)
        memory = peak_mib() - before
        ways = {"clean": lambda: cleaning(source), "raw copy": lambda: raw_copy(source)}
        report(
            "compaction",
            measure(ways, ROUNDS),
            records=COUNT,
            ratios={"clean / raw copy": ("clean", "raw copy")},
            notes={
                "bytes": size,
                "keys": COUNT // 2,
                "batch": BATCH,
                "value_bytes": VALUE_BYTES,
                "buffer_mib": BUFFER_BYTES >> 20,
                "memory_mib": round(memory, 1),
            },
        )
