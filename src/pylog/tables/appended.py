"""The arguments and the result of `append_table`."""

import os
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from pylog.kernel import MAX_TIMESTAMP
from pylog.kernel.values import ArrowColumn

if TYPE_CHECKING:
    pass

__all__ = [
    "AppendedBatches",
    "AppendedTable",
    "ArrowArray",
    "ArrowStream",
    "ColumnSerde",
    "CompressionType",
    "RecordSource",
    "TableInput",
    "TopicRules",
]

CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class ArrowStream(Protocol):
    """A table by Arrow's PyCapsule interface: of pyarrow, pandas, Polars, DuckDB..., or a topic of pylog."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class ArrowArray(Protocol):
    """A record batch by Arrow's PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object: ...


TableInput = ArrowStream | ArrowArray | str | os.PathLike[str]
"""A table, or the path of a Parquet or CSV file."""


class ColumnSerde(Protocol):
    """The half of a `Serde` that writes."""

    @property
    def serialize(self) -> Callable[[Any], bytes]:
        """The bytes of an object."""

    @property
    def from_plain(self) -> Callable[[Any], object] | None:
        """The object of a cell, where that is a dict or a list and the serde takes others; None: the cell itself."""

    @property
    def serialize_column(self) -> Callable[[ArrowColumn], ArrowColumn] | None:
        """The same of a whole column, without an object a cell; None: each cell by `serialize`."""


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The columns of a table that records are made of: see `TopicView.append_table`."""

    key: str | tuple[str, ColumnSerde] | None = None
    value: str | ColumnSerde | tuple[str, ColumnSerde] = "value"
    fields: Sequence[str] | None = None
    timestamp: str | None = None
    headers: str | None = None
    partition: str | int | None = None


class TopicLimits(Protocol):
    """The configs of a topic that bound its records."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def segment_bytes(self) -> int: ...
    @property
    def cleanup_policy(self) -> Container[str]: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The bounds of a topic for its records."""

    partitions: int
    max_message_bytes: int
    segment_bytes: int
    needs_key: bool
    """Whether the topic is compacted."""
    earliest_ms: int = 0
    latest_ms: int = MAX_TIMESTAMP
    """The times that it takes, by message.timestamp.before.max.ms and message.timestamp.after.max.ms."""
    limit_name: str = "the topic's max.message.bytes"
    """The name of the config that gives `max_message_bytes`, for errors."""

    @classmethod
    def of(cls, partitions: int, config: TopicLimits, now_ms: int) -> "TopicRules":
        """The bounds of a topic with this config."""
        has_own_times = config.message_timestamp_type == "CreateTime"
        return cls(
            partitions,
            config.max_message_bytes,
            config.segment_bytes,
            "compact" in config.cleanup_policy,
            max(0, now_ms - config.message_timestamp_before_max_ms) if has_own_times else 0,
            min(MAX_TIMESTAMP, now_ms + config.message_timestamp_after_max_ms) if has_own_times else MAX_TIMESTAMP,
        )


class AppendedTable(NamedTuple):
    """The rows that a topic has now."""

    records: int
    offsets: dict[int, range]
    """By partition, from the first record's offset to behind the last one's. Records of others may lie between."""

    def __str__(self) -> str:
        places = ", ".join(
            f"partition {number} from offset {span.start} to {span.stop - 1}" for number, span in self.offsets.items()
        )
        rows = "1 row is" if self.records == 1 else f"{self.records:,} rows are"
        return f"{rows} appended: {places}" if self.records else "no row is appended"


@dataclass(slots=True)
class AppendedBatches:
    """The batches that a topic has taken so far."""

    records: int = 0
    offsets: dict[int, range] = field(default_factory=dict)

    def note(self, partition: int, first: int, count: int) -> None:
        """A batch of so many records has this first offset."""
        start = self.offsets[partition].start if partition in self.offsets else first
        self.offsets[partition] = range(start, first + count)
        self.records += count

    @property
    def table(self) -> AppendedTable:
        """The same, in the order of the partitions."""
        return AppendedTable(self.records, dict(sorted(self.offsets.items())))
