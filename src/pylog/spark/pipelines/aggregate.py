"""Aggregates the records of a topic in windows of event time, and writes each window when it is over."""

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from pylog.spark.pipelines import stream
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.pipelines.where import LogPlace
from pylog.spark.pipelines.windows import grouped


def aggregate(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, checkpoint: str, aggregates: Mapping[str, str],
    by: Mapping[str, str] | None = None, window: str = "1 hour", late: str = "10 minutes", schema: str | None = None,
    partitions: int = 1, to_log: LogPlace | None = None, progress: bool | None = None,
) -> stream.Streamed:  # fmt: skip
    """Write the aggregates of the windows of `topic` that are over to topic `to`, and end; a later run goes on.

    `aggregates` and `by`: expressions of SQL under names, {"total": "sum(value.amount)"} and {"user": "value.user"};
    they see what `rekey` says. `window`: how long a window is. A record belongs to that of its timestamp. A window is
    written when a record has come that is newer than its end by `late`. Records that come after that are left out;
    `late` of the result counts them. The newest windows wait in the checkpoint. See `windows.grouped` for the records
    that are written.

    Raises UnknownTopicOrPartition, ValueError (names), AnalysisException (an expression), StreamingQueryException.

    >>> from pylog.spark.pipelines.aggregate import aggregate
    >>> done = aggregate(
    ...     spark, log.path, "clicks", "hourly", checkpoint=f"{jobs}/hourly", schema="page STRING, ms INT",
    ...     by={"page": "value.page"}, aggregates={"views": "count(*)"},
    ... )
    >>> [record.value for record in log.topic("hourly").records(isolation_level="read_committed")]
    [b'{"start":"2024-05-01T00:00:00.000Z","end":"2024-05-01T01:00:00.000Z","page":"home","views":2}']
    """
    check_apart(log, topic, to_log, [to])
    records = stream.parsed(stream.read_topic(spark, log, topic), schema)
    return stream.run(
        grouped(records, sql.window("timestamp", window), by or {}, aggregates, late),
        log if to_log is None else to_log,
        {to: partitions},
        to,
        checkpoint=checkpoint,
        what=f"aggregating {topic}",
        progress=progress,
    )
