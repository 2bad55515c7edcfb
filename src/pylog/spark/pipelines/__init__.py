"""Jobs over topics that people run on Spark: functions, and `pylog pipeline run NAME`.

    table      the jobs by name, with their parameters: what the command reads
    session    the Spark of the command
    archive    records of a topic to Parquet files, a folder for each day
    commits    what an archive has: a numbered JSON file for each commit
    days       writes the Parquet files of a task, in a worker
    restore    an archive back into a topic
    stream     what the jobs on streams share: mirror, rekey, deduplicate, aggregate, sessionise, join
    windows    what aggregate and sessionise share
    compact    the last record of each key
    topics     the topics that a job writes to
    where      a log as options of `format("pylog")`
    bar        progress, where a terminal watches

Nothing is imported here, so that the table works without PySpark.
"""
