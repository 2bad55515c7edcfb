"""Compacts a topic into another one: the last record of each key."""

from dataclasses import dataclass

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sql

from pylog.spark.pipelines.topics import check_apart, make_topics
from pylog.spark.pipelines.where import LogPlace, options_of, where_of
from pylog.spark.sink.reach import opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of one run of `compact`."""

    records: int


def compact(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, partitions: int = 1, to_log: LogPlace | None = None
) -> Compacted:
    """Let topic `to` have the last record of each key of `topic`, and nothing else.

    The new records come in one transaction. Then the earlier ones are deleted: until that, readers see both. If the
    driver is killed in between, run the job again.

    The last record of a key is that with the highest offset, and where a key is in several partitions (another
    partitioner, or partitions were added), with the latest timestamp. A key whose last record has no value was deleted,
    and is not written. Records without a key are left out. Values, headers and timestamps stay as they are. `to` is
    made with `partitions` where it is missing; its `cleanup.policy` must have `delete`.

    Raises UnknownTopicOrPartition, PolicyViolation, and errors of Spark's.

    >>> from pylog.spark.pipelines.compact import compact
    >>> compact(spark, log.path, "clicks", "last-clicks")
    Compacted(records=2)
    """
    check_apart(log, topic, to_log, [to])
    target = log if to_log is None else to_log
    with opened(where_of(target), writes=True) as there:
        make_topics(there, {to: partitions})
    options = {"subscribe": topic, "includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    records = spark.read.format("pylog").options(**{**options_of(log), **options}).load()
    record = sql.struct("value", "headers", "timestamp")
    last = (
        records.where("key IS NOT NULL")
        .groupBy("key", "partition")
        .agg(sql.max_by(record, "offset").alias("last"))
        .groupBy("key")
        .agg(sql.max_by("last", sql.struct("last.timestamp", "partition")).alias("last"))
        .where("last.value IS NOT NULL")
        .select("key", "last.*")
    )
    counted = Observation("compact")
    written = last.observe(counted, sql.count("*").alias("records"))
    written.write.format("pylog").mode("overwrite").options(**{**options_of(target), "topic": to}).save()
    return Compacted(records=counted.get["records"])
