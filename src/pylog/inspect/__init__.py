"""Dump and verify: the files of a log directory read as bytes, for the `pylog` command and for tests.

    dump_segment(files, path)      the content of one file, line by line     (`pylog segment dump`)
    verify(files, *log_dirs)       the damage in a log, and its places         (`pylog verify`)

Neither opens a log: nothing is locked, recovered, created or written. So both work beside an owner, on a copy and on a
read-only disk, and both show a damaged file as it is. They read through `files`, and share only the lowest layers
(batch, kernel, checkpoint) with the code that writes, so that a mistake there shows here. Read `values` first, then
`scan`, `dump` and `records`; then `verify`, `partitions`, `segments`, `seals` and `texts`.

Invariant: whatever the bytes are, they come back as values of `pylog.inspect.values`; only the disk raises.
"""

from pylog.inspect.dump import dump_segment
from pylog.inspect.values import (
    AbortedEntry,
    BatchEntry,
    Checked,
    CheckpointEntry,
    DumpLine,
    OffsetEntry,
    Problem,
    ProducerDump,
    RecordEntry,
    SealEntry,
    TimeEntry,
    Totals,
)
from pylog.inspect.verify import log_bytes, verify

__all__ = [
    "AbortedEntry",
    "BatchEntry",
    "Checked",
    "CheckpointEntry",
    "DumpLine",
    "OffsetEntry",
    "Problem",
    "ProducerDump",
    "RecordEntry",
    "SealEntry",
    "TimeEntry",
    "Totals",
    "dump_segment",
    "log_bytes",
    "verify",
]
