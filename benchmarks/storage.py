"""What several workloads do with files: partitions filled quickly, the bare reads and copies they are held against."""

import os
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from harness import MIB, keys_and_values, stopwatch
from pylog.config import TopicConfig
from pylog.files import DiskFiles
from pylog.partition import Partition
from pylog.protocol.batch import Batch, encode

NOW_MS = 1_700_000_000_000


def partition_at(folder: Path, **config: str) -> Partition:
    """A partition that no node knows of, with these configs (`segment_bytes="1048576"`...)."""
    options = {name.replace("_", "."): value for name, value in config.items()}
    return Partition(DiskFiles(), str(folder / "bench-0"), "bench", 0, TopicConfig.loaded(options))


def created(folder: Path, **config: str) -> Partition:
    partition = partition_at(folder, **config)
    partition.create(UUID(int=1), NOW_MS)
    return partition


def encoded(records: int, *, seed: int = 1, first_key: int = 0) -> Batch:
    """A batch of distinct records of the usual size, with keys of their own."""
    rows = [
        (value, b"%08d" % (first_key + index), NOW_MS, ())
        for index, (_, value) in enumerate(keys_and_values(records, seed))
    ]
    return encode(rows, now_ms=NOW_MS)


def fill(partition: Partition, size: int, records: int) -> int:
    """Append batches of so many records until there are `size` bytes; gives the number of records.

    Sixteen batches in turn, encoded once: it is the reading of them that is measured.
    """
    batches = [encoded(records, seed=seed) for seed in range(16)]
    count = 0
    while partition.size < size:
        for batch in batches:
            partition.append(batch, epoch=0, now_ms=NOW_MS)
        count += len(batches) * records
    return count


def size_of(paths: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def read_files(paths: Sequence[Path]) -> float:
    """Seconds for reading files in pieces of a MiB."""
    taken = stopwatch()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        at = 0
        while piece := os.pread(descriptor, MIB, at):
            at += len(piece)
        os.close(descriptor)
    return taken()


def copy_files(paths: Sequence[Path], folder: Path, *, sync: bool) -> float:
    """Seconds for copying files into `folder` in pieces of a MiB, `pread` and `pwrite`; and syncing them, if asked."""
    taken = stopwatch()
    for path in paths:
        source = os.open(path, os.O_RDONLY)
        target = os.open(folder / path.name, os.O_WRONLY | os.O_CREAT)
        at = 0
        while piece := os.pread(source, MIB, at):
            os.pwrite(target, piece, at)
            at += len(piece)
        if sync:
            os.fdatasync(target)
        os.close(source)
        os.close(target)
    return taken()
