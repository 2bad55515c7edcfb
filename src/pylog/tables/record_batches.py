"""Batches of the log as Arrow record batches, without an object a record."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pylog.kernel import ColumnSource
from pylog.protocol.batch import Batch, columns, sources
from pylog.tables.schema import checked_columns, no_rows

GROUP_BYTES = 64 << 20
"""How many bytes of records, decompressed, are decoded at once, about: a batch of the log is decoded whole."""

if TYPE_CHECKING:
    import pyarrow


def record_batches(
    chunks: Iterable[tuple[int, int, list[Batch]]],
    topic: str,
    partition: int,
    names: Sequence[str] | None,
    max_rows: int,
    group_bytes: int = GROUP_BYTES,
) -> "Iterator[pyarrow.RecordBatch]":
    """The records of `chunks`, pieces of one partition with the range of offsets that is wanted of each.

    `names`: which columns, in that order; None: all. No batch has more than `max_rows` rows. Where there are no records
    it is one batch without rows. No more than `group_bytes` of records are decompressed at a time, beyond one batch of
    the log. Raises ValueError for an unknown column, for a `max_rows` below 1, and for a batch of the log with 2 GiB of
    records or more; CorruptBatch, ImportError.
    """
    if max_rows < 1:
        raise ValueError(f"max_rows is {max_rows}, a record batch holds at least 1")
    wanted = checked_columns(names)
    is_empty = True
    for first, last, batches in chunks:
        for group in _groups(batches, max_rows, group_bytes):
            decoded = _record_batch(group, first, last, topic, partition, wanted)
            # A batch of the log is decoded whole, however many records it has; a slice copies nothing.
            for row in range(0, decoded.num_rows, max_rows):
                is_empty = False
                yield decoded.slice(row, max_rows)
    if is_empty:
        yield no_rows(wanted)


def _record_batch(
    batches: list[ColumnSource], first: int, last: int, topic: str, partition: int, names: tuple[str, ...]
) -> "pyarrow.RecordBatch":
    # First, as it says what to install where pyarrow is not there.
    decoded = columns(batches, first, last, frozenset(names) - {"topic", "partition"} | {"offset"})
    import pyarrow

    rows = len(decoded["offset"])
    if "topic" in names:
        decoded["topic"] = pyarrow.repeat(topic, rows)
    if "partition" in names:
        decoded["partition"] = pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), rows)
    if "timestamp" in decoded:
        decoded["timestamp"] = decoded["timestamp"].view(pyarrow.timestamp("ms", tz="UTC"))
    return pyarrow.RecordBatch.from_arrays([decoded[name] for name in names], names=list(names))


def _groups(batches: Iterable[Batch], max_rows: int, group_bytes: int) -> Iterator[list[ColumnSource]]:
    """Batches together while they hold at most so many records and bytes; a larger one is alone."""
    group: list[ColumnSource] = []
    rows = size = 0
    for source in sources(batches):
        stream, count = source[:2]
        if group and (rows + count > max_rows or size + len(stream) > group_bytes):
            yield group
            group, rows, size = [], 0, 0
        group.append(source)
        rows += count
        size += len(stream)
    if group:
        yield group
