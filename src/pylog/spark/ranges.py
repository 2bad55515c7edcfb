"""The offsets that a Spark read covers, and their cut into tasks: pure functions over numbers.

    selection, limits  --resolve-->  one half-open range [start, end) per partition  --split-->  one range per task

Invariants: `split` never drops or doubles an offset, keeps the order of its input and returns no empty range; every
range that `resolve` returns lies inside what the log holds. Offsets that were asked for and are not there are *losses*,
returned as sentences: the caller fails or warns, as failOnDataLoss says.

Source: Spark's KafkaOffsetRangeCalculator (split) and KafkaOffsetReaderAdmin (resolve). One difference: offsets are
resolved when the read is planned, not in the tasks, because Spark plans a Python source once per `load()`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from pylog.record import TopicPartition
from pylog.spark.options.limits import EARLIEST, LATEST, AtOffset, AtOffsets, AtTimestamp, AtTimestamps, Limit


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets, an estimate of the records: compaction and transactions leave gaps."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Resolved:
    """The range of each partition, sorted, empty ones included; and what was asked for but is not there."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[str, ...]


def resolve(
    available: Mapping[TopicPartition, tuple[int, int]],
    starting: Limit,
    ending: Limit,
    *,
    no_match: Literal["error", "latest"],
    offset_for_time: Callable[[TopicPartition, int], int | None],
) -> Resolved:
    """The ranges between two limits in partitions that hold the offsets [start, end) that `available` says.

    `offset_for_time` gives the first offset whose timestamp (ms) is at or after a time, or None. A start time that
    matches nothing is an error or, with no_match="latest", the end of the partition; an end time that matches nothing
    is the end.

    Raises ValueError when a limit does not name exactly the partitions that are read, when a start lies after its end,
    and when no offset matches a start time.
    """
    _check_named(available, starting, "starting")
    _check_named(available, ending, "ending")
    ranges, losses = [], []
    for partition, (first, last) in sorted(available.items()):
        start = _resolve_one(starting, partition, first, last, offset_for_time)
        if start is None:
            if no_match == "error":
                raise ValueError(_unmatched(starting, partition))
            start = last
        end = _resolve_one(ending, partition, first, last, offset_for_time)
        end = last if end is None else end
        if start > end:
            raise ValueError(
                f"the resolved start offset {start} is greater than the resolved end offset {end} "
                f"for topic-partition {partition.topic}-{partition.partition}"
            )
        if start < first or end > last:
            losses.append(_loss(partition, start, end, first, last))
        start = min(max(start, first), last)
        ranges.append(OffsetRange(partition, start, max(start, min(end, last))))
    return Resolved(tuple(ranges), tuple(losses))


def split(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """Cuts ranges into about `min_partitions` pieces of at most `max_records_per_partition` offsets; drops empty ones.

    With neither, one piece per range. `min_partitions` is a hint: big ranges are cut in proportion to their size and
    small ones stay whole, so rounding may give a few pieces more or less; the last piece takes the remainder.
    Source: KafkaOffsetRangeCalculator.getRanges (SPARK-30656, SPARK-36576, SPARK-49259).
    """
    pieces = [piece for piece in ranges if piece.size > 0]
    if max_records_per_partition is not None:
        limit = max_records_per_partition
        pieces = [cut for piece in pieces for cut in _cut(piece, -(-piece.size // limit))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    counts = _part_counts([piece.size for piece in pieces], min_partitions)
    return [cut for piece, count in zip(pieces, counts, strict=True) for cut in _cut(piece, count)]


def _part_counts(sizes: Sequence[int], wanted: int) -> list[int]:
    """The number of parts of each range; ranges too small to cut stay out of the others' proportion (SPARK-36576)."""
    total = sum(sizes)
    whole = [_share(size, total, wanted) == 1 for size in sizes]
    rest = total - sum(size for size, kept in zip(sizes, whole, strict=True) if kept)
    parts = max(wanted - sum(whole), 1)
    return [1 if kept else _share(size, rest, parts) for size, kept in zip(sizes, whole, strict=True)]


def _share(size: int, total: int, parts: int) -> int:
    # Rounds half up, as Java's Math.round does and Python's round does not.
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    cuts, start = [], piece.start
    for part in range(parts):
        end = start + (piece.end - start) // (parts - part)
        if end > start:
            cuts.append(OffsetRange(piece.topic_partition, start, end))
        start = end
    return cuts


def _check_named(available: Mapping[TopicPartition, tuple[int, int]], limit: Limit, side: str) -> None:
    if isinstance(limit, AtOffsets):
        named, option, hint = limit.offsets.keys(), f"{side}Offsets", " Use -1 for latest, -2 for earliest."
    elif isinstance(limit, AtTimestamps):
        named, option, hint = limit.timestamps_ms.keys(), f"{side}OffsetsByTimestamp", ""
    else:
        return
    if named != available.keys():
        raise ValueError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions.{hint} "
            f"Specified: {_names(named)} Assigned: {_names(available)}"
        )


def check_topic_ids(topic_ids: Mapping[str, UUID], *limits: Limit) -> None:
    """Raise ValueError where offsets belong to another topic than the one of that name now."""
    for limit in limits:
        for topic, known in (limit.topic_ids if isinstance(limit, AtOffsets) else {}).items():
            if topic_ids.get(topic, known) != known:
                raise ValueError(
                    f"the offsets that were given for topic {topic} are of one that was deleted, and made again since: "
                    "start at earliest"
                )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return "{" + ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) + "}"


def _resolve_one(
    limit: Limit,
    partition: TopicPartition,
    first: int,
    last: int,
    offset_for_time: Callable[[TopicPartition, int], int | None],
) -> int | None:
    if isinstance(limit, AtTimestamp):
        return offset_for_time(partition, limit.timestamp_ms)
    if isinstance(limit, AtTimestamps):
        return offset_for_time(partition, limit.timestamps_ms[partition])
    offset = limit.offset if isinstance(limit, AtOffset) else limit.offsets[partition]
    return {EARLIEST: first, LATEST: last}.get(offset, offset)


def _unmatched(limit: Limit, partition: TopicPartition) -> str:
    timestamp = limit.timestamps_ms[partition] if isinstance(limit, AtTimestamps) else None
    timestamp = limit.timestamp_ms if isinstance(limit, AtTimestamp) else timestamp
    return (
        f"No offset matched from request of topic-partition {partition.topic}-{partition.partition} "
        f"and timestamp {timestamp}; to start at the end there, set startingOffsetsByTimestampStrategy to 'latest'"
    )


def _loss(partition: TopicPartition, start: int, end: int, first: int, last: int) -> str:
    return (
        f"offsets [{start}, {end}) of topic-partition {partition.topic}-{partition.partition} were asked for, "
        f"the log holds [{first}, {last})"
    )
