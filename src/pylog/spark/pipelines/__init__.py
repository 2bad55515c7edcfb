"""Jobs over topics that people run on Spark.

archive    records of a topic to Parquet files, a folder for each day
commits    what an archive has: a numbered JSON file for each commit
days       writes the Parquet files of a task, in a worker
restore    an archive back into a topic
topics     the topics that a job writes to
where      a log as options of `format("pylog")`
folder     a folder of a local disk, or of a URI that pyarrow knows
bar        progress, where a terminal watches
"""
