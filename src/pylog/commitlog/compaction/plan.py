"""The plan of a pass: questions about numbers only.

    segments   0        100      200      300      400 (active)
               |--------|--------|--------|--------|----
                     ^ first dirty         ^ first uncleanable = least of: last stable offset, base of the active
                       (the checkpoint)      segment, base of the first segment that is too young

The first uncleanable offset counts only down to the base of the segment it lies in. Groups of neighbouring segments
are written into one as long as their sums stay within the limits of a segment. (Kafka: LogCleanerManager,
LogToClean, Cleaner.groupSegmentsBySize; KIP-58, KIP-354.)
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from pylog.kernel.format import MAX_RELATIVE_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """The facts about a segment that planning needs."""

    base_offset: int
    size: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    largest_timestamp: int = -1
    """Of its records; where none has one, the time the file was last written to."""
    first_timestamp: int = -1
    """The max timestamp of its first batch; -1 without one."""


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The range that a pass would clean."""

    first_dirty: int
    first_uncleanable: int
    """Not below `first_dirty`; may lie inside a segment."""
    end_offset: int
    """The base of that segment: where a pass ends."""
    clean_bytes: int
    cleanable_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of the bytes that were or would be cleaned; 0 for nothing."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, *, min_dirty_ratio: float, overdue_ms: int = 0) -> bool:
        """Whether cleaning is worth it, or cannot wait any longer (`overdue_ms`, for which see the function)."""
        return self.cleanable_bytes > 0 and (overdue_ms > 0 or self.dirty_ratio > min_dirty_ratio)


def cleanable(
    segments: Sequence[SegmentFacts],
    *,
    checkpoint: int | None,
    start_offset: int,
    next_offset: int,
    last_stable_offset: int,
    min_lag_ms: int,
    now_ms: int,
) -> Cleanable:
    """The range that can be cleaned. `segments` are all of the log's; the last one is active and never touched.

    `checkpoint` is where the last pass ended. Where that is outside the log (data was lost, or deleted from the start)
    everything is dirty again.
    """
    first_dirty = start_offset if checkpoint is None else checkpoint
    if not start_offset <= first_dirty <= next_offset:
        first_dirty = start_offset
    active = segments[-1].base_offset
    limit = min(last_stable_offset, active)
    sealed = segments[:-1]
    if min_lag_ms > 0:
        dirty = sealed[_floor(sealed, first_dirty) :]
        young = [facts.base_offset for facts in dirty if facts.largest_timestamp > now_ms - min_lag_ms]
        limit = min([limit, *young])
    first_uncleanable = max(first_dirty, limit)
    end_offset = segments[_floor(segments, first_uncleanable)].base_offset
    dirty = segments[_floor(segments, first_dirty) :] if first_dirty < end_offset else []
    return Cleanable(
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        end_offset=end_offset,
        clean_bytes=sum(facts.size for facts in segments if facts.base_offset < first_dirty),
        cleanable_bytes=sum(facts.size for facts in dirty if facts.base_offset < end_offset),
    )


def overdue_ms(segments: Sequence[SegmentFacts], *, first_dirty: int, max_lag_ms: int, now_ms: int) -> int:
    """For how long the oldest dirty record has waited beyond max.compaction.lag.ms; 0 when none has.

    The age of a segment is that of its first batch (KIP-354): cheap to know, and old enough.
    """
    sealed = segments[:-1]
    times = [facts.first_timestamp for facts in sealed[_floor(sealed, first_dirty) :] if facts.first_timestamp > 0]
    if first_dirty >= segments[-1].base_offset or not times:
        return 0
    return max(0, now_ms - max_lag_ms - min(times))


def groups(
    segments: Sequence[SegmentFacts],
    *,
    end_offset: int,
    first_uncleanable: int,
    segment_bytes: int,
    segment_index_bytes: int,
) -> list[list[SegmentFacts]]:
    """The segments below `end_offset`, in order, each group small enough to become one segment.

    Indexes are offsets relative to the base of the group's first member, which bounds its span. The last offset of
    a segment is taken to be the one before the next, and that of the last to be the last cleanable one.
    """
    waiting = [facts for facts in segments if facts.base_offset < end_offset]
    bounds = [facts.base_offset for facts in waiting] + [first_uncleanable]
    found: list[list[SegmentFacts]] = []
    size = index_bytes = time_index_bytes = 0
    for facts, bound in zip(waiting, bounds[1:], strict=True):
        size += facts.size
        index_bytes += facts.index_bytes
        time_index_bytes += facts.time_index_bytes
        fits = (
            found
            and size <= segment_bytes
            and max(index_bytes, time_index_bytes) <= segment_index_bytes
            and (facts.size == 0 or bound - 1 - found[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if fits:
            found[-1].append(facts)
        else:
            found.append([facts])
            size, index_bytes, time_index_bytes = facts.size, facts.index_bytes, facts.time_index_bytes
    return found


def _floor(segments: Sequence[SegmentFacts], offset: int) -> int:
    """The index of the segment that holds `offset`; 0 for one below all of them."""
    return max(bisect_right(segments, offset, key=lambda facts: facts.base_offset) - 1, 0)
