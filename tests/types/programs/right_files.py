"""Configs in dicts, admin, and the files of a log."""

from datetime import UTC, datetime
from typing import Any, assert_type

import polars
import pyarrow

import pylog


def make(log: pylog.Log, retention_ms: int) -> pylog.TopicView:
    policy: pylog.TopicOptions = {"cleanup.policy": "compact,delete", "segment.bytes": str(1 << 20)}
    log.create_topic("a", config=policy)
    log.create_topic("b", config={"retention.ms": retention_ms, "preallocate": True, "compression.type": "zstd"})
    return log.alter_config("b", {"retention.ms": -1}, delete=["preallocate"])


def told(log: pylog.Log, **options: Any) -> pylog.Producer[Any, Any]:
    return log.producer(**options)


def settings(log: pylog.Log, options: pylog.ProducerOptions) -> pylog.Producer:
    return log.producer(**options)


def look(path: str) -> None:
    with pylog.open(path, mode="read") as log:
        partition: pylog.PartitionView = log.topic("a")[0]
        segments: list[pylog.SegmentInfo] = partition.segments
        print(segments[0].path, [len(record.value or b"") for record in partition.records(0, 10)])
        for batch in partition.columns(columns=["offset", "value"], isolation_level="read_committed"):
            assert_type(batch, pyarrow.RecordBatch)
            print(batch.num_rows)
        topic: pylog.TopicView = log.topic("a")
        chosen: pylog.Selection = topic.select(["offset", "key"], since=datetime(2026, 1, 1, tzinfo=UTC), until=1 << 41)
        assert_type(chosen.to_arrow(), pyarrow.Table)
        print(polars.DataFrame(topic), chosen.to_polars().height, topic[0].select(offset=1).to_parquet("a.parquet"))
        damage: pylog.Findings = log.found_damage
        print(damage, log.admin.lag("billing"), log.mode == "read")
