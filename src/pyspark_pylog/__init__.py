"""The name by which Spark finds pylog: it imports top-level modules `pyspark_*` and registers their `DefaultSource`.

So `spark.read.format("pylog")` works without `spark.dataSource.register(...)` wherever this package is
importable by Spark's Python workers.
"""

from pylog.spark.source import PylogDataSource as DefaultSource

__all__ = ["DefaultSource"]
