"""Spark on a pylog directory: `spark.read.format("pylog")`.

`options` says what a read asks for, `ranges` turns that into offset ranges (both pure: no Spark, no disk), and
`source` is the data source that Spark loads in its Python workers. Nothing is imported here, so that the
pure parts work without PySpark; `pyspark_pylog` is the module by which Spark finds the source by itself.
"""
