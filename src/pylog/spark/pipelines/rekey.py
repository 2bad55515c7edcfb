"""Writes a topic again with another key, or to another number of partitions: records go to where their new key says."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from pylog.spark.pipelines import stream
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.pipelines.where import LogPlace


def rekey(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, checkpoint: str, key: str | None = None,
    schema: str | None = None, partitions: int = 1, to_log: LogPlace | None = None, progress: bool | None = None,
) -> stream.Streamed:  # fmt: skip
    """Write what `topic` has now to topic `to`, under new keys, and end; a later run goes on there.

    `key`: an expression of SQL (None: the keys as they are). It sees `key` and `value` as text, or `value` as a struct
    with the JSON fields of `schema` ("user STRING, amount DOUBLE"), so that "value.user" is a key. `to` is made with
    `partitions` where it is missing. Values, headers and timestamps stay as they are. The records of one partition that
    get the same key keep their order.

    Raises UnknownTopicOrPartition, AnalysisException (the expression), StreamingQueryException.

    >>> from pylog.spark.pipelines.rekey import rekey
    >>> done = rekey(
    ...     spark, log.path, "clicks", "by-page", checkpoint=f"{jobs}/by-page", key="value.page",
    ...     schema="page STRING, ms INT",
    ... )
    >>> [record.key for record in log.topic("by-page").records(isolation_level="read_committed")]
    [b'home', b'home', b'cart']
    """
    check_apart(log, topic, to_log, [to])
    records = stream.parsed(stream.read_topic(spark, log, topic), schema)
    new_key = sql.col("raw.key") if key is None else sql.expr(key).cast("string")
    return stream.run(
        records.select(new_key.alias("key"), "raw.value", "raw.headers", "raw.timestamp"),
        log if to_log is None else to_log,
        {to: partitions},
        to,
        checkpoint=checkpoint,
        what=f"writing {topic} to {to}",
        progress=progress,
    )
