"""Retention at the start of a log: a pure question for each rule, and the segments that are dropped for it.

    oldest -> [ expired ][ expired ][ kept ][ active ]

Segments go from the oldest on, up to the first that has to stay: records would be missing in the middle otherwise. None
goes that reaches beyond the high watermark, and never an empty active one. (UnifiedLog.deletableSegments)
"""

from collections.abc import Callable
from dataclasses import dataclass

from pylog.commitlog.durability import Durability
from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.roller import Roller
from pylog.commitlog.segments import Segments
from pylog.commitlog.watermarks import Watermarks
from pylog.config import TopicConfig
from pylog.errors import DiskFull, PartitionFull
from pylog.kernel import AppendState
from pylog.segment import Segment

DROPPED_AT_ONCE = 16
BOUND_PARTS = 8
"""Into how many segments a bounded queue is cut at least."""


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
    """The number of segments below the start of the log, whatever the policy says."""
    bases = segments.bases
    return _count(segments, bounds, lambda index, _: index + 1 < len(bases) and bases[index + 1] <= bounds.start_offset)


def over_size(segments: Segments, bounds: Bounds, config: TopicConfig) -> int:
    """The number of segments that can go so that at least `retention.bytes` stay; none where new records wait
    instead.
    """
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
    """The number of segments without a record younger than `retention.ms`; without timestamps, the file's age
    counts.
    """
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


class Retention:
    """Drops segments of one partition, and keeps a bounded queue within its bound. `name` is for messages."""

    def __init__(
        self, state: AppendState, local: LocalLog, durability: Durability, watermarks: Watermarks, roller: Roller,
        name: str,
    ) -> None:  # fmt: skip
        self._state = state
        self._local = local
        self._durability = durability
        self._watermarks = watermarks
        self._roller = roller
        self._name = name

    def apply(self, now_ms: int) -> int:
        """Drop the segments that need not be kept any more; gives how many. (UnifiedLog.deleteOldSegments)"""
        end, dropped = self._state.next_offset, 0
        while True:
            # Some at a time: an append does not wait for all of them.
            with self._durability.lock:
                self._durability.check_usable()
                count = self._retain(now_ms, DROPPED_AT_ONCE)
            dropped += count
            # What comes meanwhile is for the next time.
            if count == 0 or self._local.segments.start >= end:
                return dropped

    def make_room(self, size: int, now_ms: int) -> None:
        """Drop what was deleted of a bounded queue, before it takes `size` bytes; the lock is held.

        Raises PartitionFull where they would make it larger than its bound.
        """
        limit, active = self._local.config.retention_bytes, self._local.active
        if active.size + size > limit // BOUND_PARTS or self._state.start_offset >= self._state.next_offset:
            # Only whole segments give room back, so there have to be some.
            self._roller.roll(now_ms)
        segments = self._local.segments
        if segments.size() + size <= limit:
            return
        self._retain(now_ms, len(segments))
        if (used := segments.size()) + size > limit:
            raise PartitionFull(
                f"{self._name} has {used} bytes, and {size} more are over its retention.bytes={limit}: delete records "
                "that are done with (delete_records), or raise the bound"
            )

    def _retain(self, now_ms: int, count_max: int) -> int:
        state, config, dropped = self._state, self._local.config, 0
        for rule in rules(config):
            bounds = Bounds(state.start_offset, state.high_watermark, state.next_offset, now_ms, count_max)
            count = rule(self._local.segments, bounds, config)
            dropped += self._drop(count, now_ms) if count else 0
        return dropped

    def _drop(self, count: int, now_ms: int) -> int:
        if count == len(self._local.segments):
            # A log has a segment at least.
            try:
                self._roller.roll(now_ms)
            except DiskFull:
                # The others make room for it.
                count -= 1
                if count == 0:
                    raise
        self._watermarks.advance_start(self._local.segments[count].base_offset)
        with self._watermarks.changing_files():
            # Where the log starts is known before what lies below can be missed.
            self._durability.publish_durably()
            self._local.drop(count, now_ms)
        return count
