"""The differences between the versions of PySpark: what is asked for here, and nowhere else.

4.0    a stream's writer gets Arrow batches where it is an Arrow writer of batches, too
4.1    DataSourceStreamArrowWriter
4.2    streams with limits, which are told where a batch begins
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

HAS_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
else:

    class StreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """Writes the batches of a stream, from Arrow batches."""


__all__ = ["HAS_LIMITS", "StreamArrowWriter"]
