"""Spark on a pylog directory: `spark.read.format("pylog")`, `df.write.format("pylog")`.

    options/        what a read asks for          columns    the names of the columns      (pure: no Spark, no disk)
    ranges          offset ranges of a read, and how they are cut into tasks               (pure)
    schema          the columns' types, and the log's batches as Spark's
    directory       a log directory, as the source reads it
    batch_reader    plans and reads a batch
    sink/           writes a batch, or the batches of a stream
    source          the data source that Spark loads in its Python workers

Nothing is imported here, so that the pure parts work without PySpark; `pyspark_pylog` is the module by which Spark
finds the source by itself.
"""
