"""The least that a Python sink of Spark's can do: its tasks count the rows of their Arrow batches, and throw them away.

What it takes is what Spark, its Python workers and Arrow take. The bound that pylog's sink is held against.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage


@dataclass
class Counted(WriterCommitMessage):
    """How many rows a task was given."""

    rows: int


class BareSink(DataSource):
    """`format("bare_sink")`."""

    @classmethod
    def name(cls) -> str:
        return "bare_sink"

    def writer(self, schema: object, overwrite: bool) -> DataSourceArrowWriter:
        return BareWriter()


class BareWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        return Counted(sum(batch.num_rows for batch in iterator))
