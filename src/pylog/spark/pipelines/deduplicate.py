"""Writes a topic again without repeats: the first record of each key, or of another expression, within a time."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from pylog.spark.pipelines import stream
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.pipelines.where import LogPlace


def deduplicate(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, checkpoint: str, by: str = "key",
    within: str = "1 hour", schema: str | None = None, partitions: int = 1, to_log: LogPlace | None = None,
    progress: bool | None = None,
) -> stream.Streamed:  # fmt: skip
    """Write the first record of each `by` that `topic` has within `within` to topic `to`, and end.

    `by`: an expression of SQL, as the key of `rekey`; where it is null, the record is not a duplicate. `within`: how
    long a `by` is remembered ("10 minutes"), by the timestamps of the records. A record that is older than the newest
    one of the batches before by more than that is left out. `late` counts these.
    `to` is made with `partitions` where it is missing. The order between keys may change.

    Raises UnknownTopicOrPartition, AnalysisException (an expression), StreamingQueryException.

    >>> from pylog.spark.pipelines.deduplicate import deduplicate
    >>> deduplicate(spark, log.path, "clicks", "visitors", checkpoint=f"{jobs}/visitors", within="1 day")
    Streamed(records=3, batches=1, late=0)
    """
    check_apart(log, topic, to_log, [to])
    records = stream.parsed(stream.read_topic(spark, log, topic), schema)
    unique = sql.concat_ws("-", "topic", "partition", "offset")
    by_or_unique = sql.struct(sql.expr(by).cast("string"), sql.when(sql.expr(by).isNull(), unique))
    kept = records.withColumn("by", by_or_unique).withWatermark("timestamp", within)
    return stream.run(
        kept.dropDuplicatesWithinWatermark(["by"]).select("raw.key", "raw.value", "raw.headers", "raw.timestamp"),
        log if to_log is None else to_log,
        {to: partitions},
        to,
        checkpoint=checkpoint,
        what=f"deduplicating {topic}",
        progress=progress,
    )
