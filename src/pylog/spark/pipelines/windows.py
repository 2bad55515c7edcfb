"""The common part of aggregates and sessions: groups in windows of event time, each written once, when it is over."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pylog.spark.pipelines import stream


def grouped(
    records: DataFrame, window: Column, by: Mapping[str, str], aggregates: Mapping[str, str], late: str
) -> DataFrame:
    """Records for the sink, one for each group and window.

    The value is JSON with `start`, `end`, what `by` has and the aggregates. The key is what `by` has: alone as text,
    several as JSON. The timestamp is the end of the window.

    Raises ValueError for a name that is taken twice, or no aggregate.
    """
    # Spark takes names that differ in case alone for one.
    taken = [name.lower() for name in ("start", "end", "window", *by, *aggregates)]
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        raise ValueError(
            f"the name '{twice}' is taken twice: start, end and window are the window's, others have to differ"
        )
    if not aggregates:
        raise ValueError('give at least one aggregate, {"count": "count(*)"} say')
    groups = records.withWatermark("timestamp", late).groupBy(window.alias("window"), *stream.named(by))
    found = groups.agg(*stream.named(aggregates))
    start, end = sql.col("window.start").alias("start"), sql.col("window.end").alias("end")
    return found.select(
        _key(list(by)).alias("key"),
        sql.to_json(sql.struct(start, end, *by, *aggregates), stream.WITH_NULLS).alias("value"),
        end.alias("timestamp"),
    )


def _key(by: list[str]) -> Column:
    if not by:
        return sql.lit(None).cast("string")
    return sql.col(by[0]).cast("string") if len(by) == 1 else sql.to_json(sql.struct(*by), stream.WITH_NULLS)
