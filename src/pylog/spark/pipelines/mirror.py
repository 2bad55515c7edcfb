"""Mirrors topics into another log: the same partitions, keys, values, headers and timestamps, each record once."""

from pyspark.sql import SparkSession

from pylog.spark.pipelines import stream
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.pipelines.where import LogPlace, where_of
from pylog.spark.sink.reach import opened


def mirror(
    spark: SparkSession, log: LogPlace, topic: str, to_log: LogPlace, *, checkpoint: str, progress: bool | None = None
) -> stream.Streamed:
    """Copy what `topic` (several with commas) has now into topics of the same names in `to_log`, and end.

    A later run with the same checkpoint copies what has come since. Topics that are missing are made, with as many
    partitions. The records of a partition keep their order, and get new offsets.

    Raises UnknownTopicOrPartition, ValueError (a topic has too few partitions there), StreamingQueryException.

    >>> from pylog.spark.pipelines.mirror import mirror
    >>> mirror(spark, log.path, "clicks", Path("copy").absolute(), checkpoint=f"{jobs}/mirror")
    Streamed(records=3, batches=1, late=0)
    """
    names = [name.strip() for name in topic.split(",") if name.strip()]
    check_apart(log, topic, to_log, names)
    with opened(where_of(log), writes=False) as there:
        counts = {name: len(there.admin.topic(name).partitions) for name in names}
    records = stream.read_topic(spark, log, topic).drop("offset", "timestampType")
    return stream.run(
        records, to_log, counts, None, checkpoint=checkpoint, what=f"mirroring {topic}", progress=progress
    )
