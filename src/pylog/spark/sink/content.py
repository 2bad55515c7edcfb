"""A checksum of rows: the same for the same rows, in whatever order, and in whatever tasks and batches they come.

Spark plans a batch that is run again, so its rows come in other pieces then. The checksum is a sum of hashes, one
for each row. It covers the columns that a record is made of, as the DataFrame has them: what the sink chooses itself (a
partition, the time of writing) is another one each time.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pandas import DataFrame
from pandas.util import hash_pandas_object

MODULUS: Final = 1 << 64
_NO_NUMBER: Final = -(1 << 63)


class Checksum:
    """The checksum of the rows that went by. That of several tasks is their sum, modulo `MODULUS`."""

    def __init__(self, columns: Sequence[int]) -> None:
        """`columns`: the numbers of those that are covered."""
        self.value = 0
        self._columns = list(columns)

    def over(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; each is covered when it is asked for."""
        for batch in rows:
            self.value = (self.value + _checksum(batch.select(self._columns))) % MODULUS
            yield batch


def _checksum(rows: pa.RecordBatch) -> int:
    frame = DataFrame({number: _hashable(column) for number, column in enumerate(rows.columns)})
    return sum(hash_pandas_object(frame, index=False, categorize=False).tolist())


def _hashable(column: pa.Array) -> object:
    """A column as pandas hashes it: of one type, whether there are nulls in a batch or not."""
    if pa.types.is_nested(column.type):
        return np.array([repr(cell) for cell in column.to_pylist()], object)
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).fill_null(_NO_NUMBER).to_numpy(zero_copy_only=False)
    return column.to_numpy(zero_copy_only=False)
