"""Spark's data source over a log: `spark.read.format("pylog").option("subscribe", "t").load("data")`.

    driver host   schema()      checks options, log and topics: wrong ones fail in load()
                  partitions()  resolves offsets, cuts ranges; Spark keeps the answer for that load(), or batch
    executors     read()        one task: Arrow batches decoded from the log's own files, or fetched from servers

There is no `pushFilters`: Spark 4.3 leaks pushed filters into other scans of the same DataFrame. The range options are
per `load()` and safe.
"""

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from pylog.errors import UnknownTopicOrPartition
from pylog.spark.batch_reader import PylogReader
from pylog.spark.options.read import ReadOptions, parse
from pylog.spark.options.write import parse_write
from pylog.spark.place import place_of
from pylog.spark.refused_stream import RefusedStream
from pylog.spark.schema import arrow_schema, spark_schema
from pylog.spark.sink.writers import PylogStreamWriter, PylogWriter
from pylog.spark.versions import HAS_LIMITS


class PylogDataSource(DataSource):
    """The source that `format("pylog")` names; options are those of Spark's Kafka source, see `pylog.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "pylog"

    def schema(self) -> StructType:
        """The chosen columns of Spark's Kafka source, all nullable.

        Raises ValueError for wrong options, LogNotFound for a missing directory, UnknownTopicOrPartition.
        """
        options = parse(self.options)
        missing = place_of(options).select(options.selection).missing
        if missing:
            raise UnknownTopicOrPartition(missing[0])
        return spark_schema(options.columns)

    def reader(self, schema: StructType) -> PylogReader:
        """A reader of the columns that `schema` names: the source's own, or the one the user gave.

        Raises ValueError for a column that is not there or has another type.
        """
        return PylogReader(*self._asked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """The same of a stream. Spark asks for it when a query starts; there is no earlier moment to refuse options.

        The reader raises the error, at its first call.
        """
        try:
            return _stream_reader(*self._asked(schema))
        except ValueError as error:
            return RefusedStream(error)

    def _asked(self, schema: StructType) -> tuple[ReadOptions, pa.Schema]:
        options = parse(self.options)
        return options, arrow_schema(schema, options.columns if "columns" in options.given else None)

    def writer(self, schema: StructType, overwrite: bool) -> PylogWriter:
        """A writer of one DataFrame, all or nothing; see `pylog.spark.sink`.

        Raises ValueError for wrong options or columns, LogNotFound, UnknownTopicOrPartition.
        """
        return PylogWriter(parse_write(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PylogStreamWriter:  # noqa: N802 (Spark's name)
        """A writer of the batches of a stream, each exactly once; `overwrite` is the output mode complete.

        Raises what `writer` does.
        """
        return PylogStreamWriter(parse_write(self.options), schema, complete=overwrite)


def _stream_reader(options: ReadOptions, schema: pa.Schema) -> DataSourceStreamReader:
    if HAS_LIMITS:
        from pylog.spark.stream_reader import PylogStreamReader

        return PylogStreamReader(options, schema)
    from pylog.spark.plain_stream_reader import PlainStreamReader

    return PlainStreamReader(options, schema)
