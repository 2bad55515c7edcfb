"""The tasks of a Spark read: ranges of offsets, and how ranges are put together into tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pyspark.sql.datasource import InputPartition

from pylog.spark.options.read import ReadOptions
from pylog.spark.ranges import OffsetRange, split

BATCH_ROWS: Final = 10_000
"""Rows of one Arrow batch: the cost of a batch is lost among them, and a worker holds few megabytes."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets [start, end) of a partition; the id tells the topic that was planned from one made later by that name."""

    topic: str
    topic_id: UUID | None
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class Task(InputPartition):
    """The ranges that one task reads, one after the other."""

    ranges: tuple[LogRange, ...]


def tasks(ranges: Iterable[OffsetRange], topic_ids: Mapping[str, UUID], options: ReadOptions) -> list[Task]:
    """The tasks that read these ranges: few and large ones, as a task of Python costs tens of milliseconds.

    Ranges are cut as `minPartitions` and `maxRecordsPerPartition` say. Without the first, neighbours that have no more
    offsets together than one Arrow batch share a task.
    """
    pieces = split(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    most = 0 if options.min_partitions is not None else min(BATCH_ROWS, options.max_records_per_partition or BATCH_ROWS)
    groups: list[list[LogRange]] = []
    filled = 0
    for piece in pieces:
        topic, partition = piece.topic_partition
        if not groups or filled + piece.size > most:
            groups.append([])
            filled = 0
        groups[-1].append(LogRange(topic, topic_ids.get(topic), partition, piece.start, piece.end))
        filled += piece.size
    return [Task(tuple(group)) for group in groups]
