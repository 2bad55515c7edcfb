"""Spark on a log: `spark.read`, `readStream`, `df.write` and `writeStream` with `.format("pylog")`.

    options/        what a read asks for          columns    the names of the columns      (pure: no Spark, no disk)
    ranges          offset ranges of a read, and how they are cut                          (pure)
    stream_offsets  offsets of a stream, and how far a batch goes                          (pure)
    tasks           ranges put together into tasks
    schema          the columns' types, and the log's batches as Spark's
    place           where the records come from: a directory, or servers
    range_reader    reads the ranges of a task, on executors
    batch_reader    plans a batch
    stream_plan     where a stream begins and ends, and its tasks
    stream_reader   plans a stream; `plain_stream_reader` with PySpark 4.0 and 4.1, `refused_stream` says what is wrong
    folder          a folder of a local disk, or of a URI that pyarrow knows
    first_offsets   the first offsets of a stream, kept in a folder
    sink/           writes a batch, or the batches of a stream
    pipelines/      jobs over topics: archive, restore, mirror, aggregate...
    versions        how the versions of PySpark differ
    source          the data source that Spark loads in its Python workers

Nothing is imported here, so that the pure parts work without PySpark; `pyspark_pylog` is the module by which Spark
finds the source by itself.
"""
