"""The common part of the jobs on streams: a topic as a stream, its values parsed, and a run that ends with what is
there.

A job is a stream with `Trigger.AvailableNow`: it reads what its topics have now, in batches, and ends. Its checkpoint
has how far it is and what windows and joins are waiting for, so a later run, or one after a kill, goes on there, and
the sink writes each batch once.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from pylog.spark.pipelines.bar import Bar
from pylog.spark.pipelines.topics import make_topics
from pylog.spark.pipelines.where import LogPlace, options_of, where_of
from pylog.spark.sink.reach import opened
from pylog.spark.stream_offsets import StreamOffsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


OFFSETS_PER_BATCH: Final = 1_000_000
"""A batch is what is done again after a kill, and what is staged before it is committed."""
WITH_NULLS: Final = {"ignoreNullFields": "false"}
"""For `to_json`: a field without a value is there, as null."""
_LOOK_SECONDS: Final = 1
_RAW: Final = ("key", "value", "topic", "partition", "headers", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The result of one run of a job."""

    records: int
    """Read."""
    batches: int
    late: int
    """Rows that came behind the watermark, and were left out."""


def read_topic(spark: SparkSession, log: LogPlace, topic: str) -> DataFrame:
    """The committed records of a topic (several with commas), as a stream from their start."""
    options = {
        "subscribe": topic, "includeHeaders": "true", "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH),
    }  # fmt: skip
    return spark.readStream.format("pylog").options(**{**options_of(log), **options}).load()


def parsed(frame: DataFrame, schema: str | None) -> DataFrame:
    """Records for expressions: `key` as text, `value` as text, or as a struct of the JSON fields that `schema` has.

    The other columns are as in the log, and `raw` has the record as it is.
    """
    text = sql.col("value").cast("string")
    return frame.select(
        sql.struct(*_RAW).alias("raw"),
        sql.col("key").cast("string").alias("key"),
        (text if schema is None else sql.from_json(text, schema)).alias("value"),
        "topic", "partition", "offset", "timestamp", "headers",
    )  # fmt: skip


def named(expressions: Mapping[str, str]) -> list[Column]:
    """Expressions of SQL under their names."""
    return [sql.expr(expression).alias(name) for name, expression in expressions.items()]


def run(
    frame: DataFrame, log: LogPlace, topics: Mapping[str, int], to: str | None, *, checkpoint: str, what: str,
    progress: bool | None,
) -> Streamed:  # fmt: skip
    """Write what the stream has now, to topic `to` or to that of each row. `topics` are made where they are missing.

    Raises StreamingQueryException, ValueError, and what opening the log raises.
    """
    options = {**options_of(log), **({} if to is None else {"topic": to})}
    with opened(where_of(log), writes=True) as there:
        make_topics(there, topics)
    writer = frame.writeStream.format("pylog").outputMode("append").option("checkpointLocation", checkpoint)
    query = writer.options(**options).trigger(availableNow=True).start()
    seen: dict[int, StreamingQueryProgress] = {}
    with Bar(what, progress) as bar:
        try:
            while not query.awaitTermination(_LOOK_SECONDS):
                _look(query, seen, bar)
        finally:
            query.stop()
        _look(query, seen, bar)
    operators = [operator for batch in seen.values() for operator in batch.stateOperators]
    return Streamed(
        records=sum(batch.numInputRows for batch in seen.values()),
        batches=sum(1 for batch in seen.values() if batch.numInputRows),
        late=sum(operator.numRowsDroppedByWatermark for operator in operators),
    )


def _look(query: StreamingQuery, seen: "dict[int, StreamingQueryProgress]", bar: Bar) -> None:
    """Take note of the batches that are done, and show how far they are."""
    seen.update((batch.batchId, batch) for batch in query.recentProgress)
    if seen:
        first, last = seen[min(seen)], seen[max(seen)]
        begun = _total(source.startOffset for source in first.sources)
        bar.show(
            _total(source.endOffset for source in last.sources) - begun,
            _total(source.latestOffset for source in last.sources) - begun,
        )


def _total(offsets: Iterable[str | None]) -> int:
    """The sum of all offsets. Before the first batch of a query Spark has none, and says null."""
    found = [json.loads(text) for text in offsets if text is not None]
    return sum(sum(StreamOffsets.from_json(one).offsets.values()) for one in found if one is not None)
