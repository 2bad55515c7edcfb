"""Columns of records to the open batches of a topic's partitions.

The kernel adds rows of keys, values and times, and makes no object of them. The row that begins a batch, and a row with
headers, are added by themselves.
"""

from collections.abc import Callable
from random import randrange
from typing import TYPE_CHECKING

import numpy as np
from pyarrow import compute

from pylog.kernel import OpenBatch, add_columns
from pylog.protocol.batch import Batch, seal
from pylog.protocol.compression import Codec
from pylog.protocol.partitioner import partition_for_key
from pylog.tables.appending.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from pylog.kernel.pure.rows import BinaryColumn, Stamps


__all__ = ["ColumnEncoder"]

BY_KEY = -1


class ColumnEncoder:
    """Encodes rows, and gives each full batch to `put`. `limit`: the most bytes of a batch before it is compressed.

    Without a partition a record goes where a Java producer sends it: by its key, and without a key to one partition
    until a batch is full.
    """

    def __init__(
        self, partitions: int, put: Callable[[int, Batch], None], *, limit: int, codec: Codec = Codec.NONE,
        level: int | None = None, transactional: bool = False,
    ) -> None:  # fmt: skip
        self._open: list[OpenBatch | None] = [None] * partitions
        self._put = put
        self._limit = limit
        self._codec = codec
        self._level = level
        self._transactional = transactional
        self._sticky = randrange(partitions)

    @property
    def held(self) -> int:
        """The bytes of the open batches."""
        return sum(batch.size for batch in self._open if batch is not None)

    def add(self, rows: RecordColumns) -> None:
        """Encode rows. Partitions are there, times are not negative, and headers have keys."""
        count = len(rows.values)
        kernel_columns = (
            _buffers(rows.values), None if rows.keys is None else _buffers(rows.keys),
            rows.stamps if isinstance(rows.stamps, int) else (rows.stamps.buffers()[1], rows.stamps.offset),
        )  # fmt: skip
        if rows.headers is None and (rows.partitions is None or isinstance(rows.partitions, int)):
            self._add_run(rows, kernel_columns, 0, count, BY_KEY if rows.partitions is None else rows.partitions)
            return
        for first, end, number, has_headers in _runs(rows):
            if has_headers:
                for row in range(first, end):
                    self._add_row(rows, row, number)
            else:
                self._add_run(rows, kernel_columns, first, end, number)

    def finish(self) -> None:
        """Give all open batches to `put`."""
        for number in range(len(self._open)):
            self._close(number)

    def shrink(self, size: int) -> None:
        """Give the fullest open batches to `put`, until the others have no more than `size` bytes."""
        held = self.held
        for batch_size, number in sorted(
            ((batch.size, number) for number, batch in enumerate(self._open) if batch is not None), reverse=True
        ):
            if held <= size:
                break
            self._close(number)
            held -= batch_size

    def _add_run(
        self,
        rows: RecordColumns,
        columns: "tuple[BinaryColumn, BinaryColumn | None, Stamps | int]",
        row: int,
        end: int,
        number: int,
    ) -> None:
        """Add rows that all go by their keys, or all to the partition `number`."""
        while row < end:
            if number == BY_KEY:
                row = add_columns(self._open, self._sticky, *columns, row, end)
            else:
                row = add_columns([self._open[number]], 0, *columns, row, end)
            if row < end:
                self._add_row(rows, row, number)
                row += 1

    def _add_row(self, rows: RecordColumns, row: int, number: int) -> None:
        value, key = rows.values[row].as_py(), None if rows.keys is None else rows.keys[row].as_py()
        stamp = rows.stamps if isinstance(rows.stamps, int) else rows.stamps[row].as_py()
        some = None if rows.headers is None else rows.headers[row].as_py()
        headers = tuple((header["key"], header["value"]) for header in some or ())
        is_sticky = number == BY_KEY and key is None
        if number == BY_KEY:
            number = self._sticky if key is None else partition_for_key(key, len(self._open))
        while (opened := self._open[number]) is None or opened.add(value, key, stamp, headers) < 0:
            self._close(number)
            if is_sticky:
                number = self._sticky
            if self._open[number] is None:
                self._open[number] = OpenBatch(self._limit)

    def _close(self, number: int) -> None:
        batch, self._open[number] = self._open[number], None
        if batch is None:
            return
        if number == self._sticky:
            self._sticky = randrange(len(self._open))
        self._put(number, seal(batch.close(), codec=self._codec, level=self._level, transactional=self._transactional))


def _buffers(array: "pa.Array") -> "BinaryColumn":
    validity, offsets, data = array.buffers()
    return validity, offsets, data, array.offset


def _runs(rows: RecordColumns) -> list[tuple[int, int, int, bool]]:
    """Neighbours with the same partition that have headers, or have none: first, end, partition, whether."""
    count = len(rows.values)
    if not count:
        return []
    numbers = np.full(count, BY_KEY, np.int64)
    if isinstance(rows.partitions, int):
        numbers[:] = rows.partitions
    elif rows.partitions is not None:
        numbers = compute.fill_null(rows.partitions, BY_KEY).to_numpy()
    have = np.zeros(count, bool)
    if rows.headers is not None:
        have = compute.fill_null(compute.list_value_length(rows.headers), 0).to_numpy() > 0
    edges = np.flatnonzero((numbers[1:] != numbers[:-1]) | (have[1:] != have[:-1])) + 1
    firsts = [0, *edges.tolist()]
    return [
        (first, end, int(numbers[first]), bool(have[first]))
        for first, end in zip(firsts, [*firsts[1:], count], strict=True)
    ]
