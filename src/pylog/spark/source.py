"""Spark's data source over a log directory: `spark.read.format("pylog").option("subscribe", "t").load("data")`.

    driver host   schema()      checks options, directory and topics: wrong ones fail in load()
                  partitions()  opens the log, resolves offsets, cuts ranges; Spark keeps the answer for that load()
    executors     read()        one range: Arrow batches decoded from the log's own files, no lock, no server

There is no `pushFilters`: Spark 4.3 leaks pushed filters into other scans of the same DataFrame. The range options are
per `load()` and safe.
"""

import logging
from typing import Final, NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from pylog.opening import open as open_log
from pylog.spark.batch_reader import PylogReader
from pylog.spark.directory import selected
from pylog.spark.options.read import parse
from pylog.spark.options.write import parse_write
from pylog.spark.schema import SPARK_TYPES, arrow_schema
from pylog.spark.sink.writers import PylogStreamWriter, PylogWriter

_log: Final = logging.getLogger(__name__)


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
        if options.ignored:
            _log.warning("options without effect in a batch read of a pylog directory: %s", ", ".join(options.ignored))
        with open_log(options.path, mode="read") as log:
            selected(log, options)
        return StructType([StructField(column, SPARK_TYPES[column]) for column in options.columns])

    def reader(self, schema: StructType) -> PylogReader:
        """A reader of the columns that `schema` names: the source's own, or the one the user gave.

        Raises ValueError for a column that is not there or has another type.
        """
        options = parse(self.options)
        chosen = self.options.get("columns") is not None
        return PylogReader(options, arrow_schema(schema, options.columns if chosen else None))

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802 (Spark's name)
        """Raises NotImplementedError: Spark asks for it when a query starts, there is no earlier moment to say so."""
        raise NotImplementedError('format("pylog") is not read as a stream yet: spark.read reads it as it is now')

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
