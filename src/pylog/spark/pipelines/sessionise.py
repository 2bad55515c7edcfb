"""Sessions: records of one key, none of which is further than a gap from the next, as one record."""

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from pylog.spark.pipelines import stream
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.pipelines.where import LogPlace
from pylog.spark.pipelines.windows import grouped


def sessionise(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, checkpoint: str,
    aggregates: Mapping[str, str] | None = None, by: Mapping[str, str] | None = None, gap: str = "30 minutes",
    late: str = "10 minutes", schema: str | None = None, partitions: int = 1, to_log: LogPlace | None = None,
    progress: bool | None = None,
) -> stream.Streamed:  # fmt: skip
    """Write the sessions of `topic` that are over to topic `to`, and end; a later run goes on.

    A session is of one `by` (None: the key), begins at its first record, and ends `gap` after its last. `aggregates`
    are of its records (None: their count). The rest is as `aggregate` says.

    Raises UnknownTopicOrPartition, ValueError (names), AnalysisException (an expression), StreamingQueryException.

    >>> from pylog.spark.pipelines.sessionise import sessionise
    >>> done = sessionise(spark, log.path, "clicks", "sessions", checkpoint=f"{jobs}/sessions", gap="15 minutes")
    >>> sorted(record.key for record in log.topic("sessions").records(isolation_level="read_committed"))
    [b'alice', b'bob']
    """
    check_apart(log, topic, to_log, [to])
    records = stream.parsed(stream.read_topic(spark, log, topic), schema)
    sessions = grouped(
        records, sql.session_window("timestamp", gap), by or {"key": "key"}, aggregates or {"count": "count(*)"}, late
    )
    return stream.run(
        sessions,
        log if to_log is None else to_log,
        {to: partitions},
        to,
        checkpoint=checkpoint,
        what=f"sessions of {topic}",
        progress=progress,
    )
