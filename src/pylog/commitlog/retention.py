"""Which segments of a partition nobody has to keep any more: a pure question, asked before each clean-up.

    oldest -> [ expired ][ expired ][ kept ][ active ]

Segments go from the oldest on, up to the first that has to stay: records would be missing in the middle otherwise. None
goes that reaches beyond the high watermark, and never an empty active one. (UnifiedLog.deletableSegments)
"""

from collections.abc import Callable
from dataclasses import dataclass

from pylog.commitlog.segments import Segments
from pylog.config import TopicConfig
from pylog.segment import Segment


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets and the time that retention goes by."""

    start_offset: int
    high_watermark: int
    next_offset: int
    now_ms: int
    count_max: int = 2**31
    """How many segments are asked for at most."""


def below_start(segments: Segments, bounds: Bounds, config: TopicConfig) -> int:
    """How many segments lie below the start of the log, whatever the policy says."""
    bases = segments.bases
    return _count(segments, bounds, lambda index, _: index + 1 < len(bases) and bases[index + 1] <= bounds.start_offset)


def over_size(segments: Segments, bounds: Bounds, config: TopicConfig) -> int:
    """How many segments can go so that at least `retention.bytes` stay; none where new records wait instead."""
    if config.pylog_full_policy != "drop-oldest":
        return 0
    surplus = segments.size() - config.retention_bytes
    if config.retention_bytes < 0 or surplus < 0:
        return 0
    left = [surplus]

    def fits(index: int, segment: Segment) -> bool:
        left[0] -= segment.size
        return left[0] >= 0

    return _count(segments, bounds, fits)


def over_age(segments: Segments, bounds: Bounds, config: TopicConfig) -> int:
    """How many segments have no record younger than `retention.ms`; without timestamps, the file's age counts."""
    if config.retention_ms < 0:
        return 0
    return _count(segments, bounds, lambda _, segment: bounds.now_ms - segment.age_timestamp() > config.retention_ms)


def rules(config: TopicConfig) -> list[Callable[[Segments, Bounds, TopicConfig], int]]:
    """The rules of a topic's policy, in Kafka's order."""
    return [below_start, over_size, over_age] if "delete" in config.cleanup_policy else [below_start]


def _count(segments: Segments, bounds: Bounds, goes: Callable[[int, Segment], bool]) -> int:
    count = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end = segments.end_of(index, bounds.next_offset)
        if (
            count == bounds.count_max
            or bounds.high_watermark < end
            or (is_last and segment.size == 0)
            or not goes(index, segment)
        ):
            break
        count += 1
    return count
