"""Joins two topics: each pair of records with the same key, or other expression, whose times are close."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pylog.spark.pipelines import stream
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.pipelines.where import LogPlace


def join(
    spark: SparkSession, log: LogPlace, left: str, right: str, to: str, *, checkpoint: str, on: str = "key",
    right_on: str | None = None, within: str = "1 hour", late: str = "10 minutes", schema: str | None = None,
    right_schema: str | None = None, partitions: int = 1, to_log: LogPlace | None = None, progress: bool | None = None,
) -> stream.Streamed:  # fmt: skip
    """Write the pairs of records of `left` and `right` to topic `to`, and end; a later run goes on there.

    Two records are a pair where `on` of one is `right_on` of the other (None: `on`, too), and their timestamps are no
    more than `within` apart. The expressions see what `rekey` says, each by the schema of its side. The value that is
    written is JSON, {"left": ..., "right": ...}, the key what they have in common, the timestamp the later one. `late`:
    how much older than the newest record of its side one may be before it is left out.

    Raises UnknownTopicOrPartition, AnalysisException (an expression), StreamingQueryException.

    >>> from pylog.spark.pipelines.join import join
    >>> done = join(spark, log.path, "clicks", "orders", "bought", checkpoint=f"{jobs}/bought", within="10 minutes")
    >>> [record.key for record in log.topic("bought").records(isolation_level="read_committed")]
    [b'alice']
    """
    check_apart(log, f"{left},{right}", to_log, [to])
    one = _side(stream.parsed(stream.read_topic(spark, log, left), schema), "left", on, late)
    other_schema = schema if right_schema is None else right_schema
    other = _side(stream.parsed(stream.read_topic(spark, log, right), other_schema), "right", right_on or on, late)
    distance = sql.expr(f"INTERVAL {within}")
    times = sql.col("right_time").between(sql.col("left_time") - distance, sql.col("left_time") + distance)
    pairs = one.join(other, (sql.col("left_on") == sql.col("right_on")) & times)
    return stream.run(
        pairs.select(
            sql.col("left_on").alias("key"),
            sql.to_json(sql.struct("left", "right"), stream.WITH_NULLS).alias("value"),
            sql.greatest("left_time", "right_time").alias("timestamp"),
        ),
        log if to_log is None else to_log,
        {to: partitions},
        to,
        checkpoint=checkpoint,
        what=f"joining {left} and {right}",
        progress=progress,
    )


def _side(records: DataFrame, name: str, on: str, late: str) -> DataFrame:
    return records.select(
        sql.expr(on).cast("string").alias(f"{name}_on"),
        sql.col("value").alias(name),
        sql.col("timestamp").alias(f"{name}_time"),
    ).withWatermark(f"{name}_time", late)
