"""Jobs over topics that people run on Spark: functions, and `pylog pipeline run NAME`.

    table      the jobs by name, with their parameters: what the command reads
    session    the Spark of the command
    archive    records of a topic to Parquet files, a folder for each day
    planned    what archive and cdc share: what there is to read behind the last commit
    commits    what an archive or a table has: a numbered JSON file for each commit
    days       writes the Parquet files of an archive's task, in a worker
    restore    an archive back into a topic
    stream     what the jobs on streams share: mirror, rekey, deduplicate, aggregate, sessionise, join
    windows    what aggregate and sessionise share
    compact    the last record of each key
    cdc        changes of rows to a table of Parquet files
    changes    the rows that records change, and the last change of each key
    parts      writes the Parquet files of a table, in a worker
    topics     the topics that a job writes to
    where      a log as options of `format("pylog")`
    bar        progress, where a terminal watches

Nothing is imported here, so that the table works without PySpark.
"""
