"""Which segments have to stay."""

import pytest

from pylog.commitlog.retention import DROPPED_AT_ONCE, Bounds, below_start, over_age, over_size, rules
from pylog.config import TopicConfig
from pylog.files import MemoryFiles
from support.partition_log import DAY, NOW, Log


def bounds(log: Log, *, start: int = 0, mark: int | None = None, now_ms: int = NOW) -> Bounds:
    end = log.partition.next_offset
    return Bounds(start, end if mark is None else mark, end, now_ms)


def config(**given: object) -> TopicConfig:
    return TopicConfig.loaded({name.replace("_", "."): str(value) for name, value in given.items()})


@pytest.fixture
def log() -> Log:
    log = Log()
    log.fill(60)
    assert len(log.partition.segments) >= 4
    return log


def test_segments_below_the_start_of_the_log_go_whatever_the_policy_says(log: Log) -> None:
    bases = [segment.base_offset for segment, _ in log.partition.segments]
    for start, count in [(0, 0), (bases[1] - 1, 0), (bases[1], 1), (bases[2] + 1, 2), (60, len(bases) - 1)]:
        assert below_start(log.partition._local.segments, bounds(log, start=start), log.config) == count
    assert rules(config(cleanup_policy="compact")) == [below_start]


def test_as_many_go_as_leave_the_bytes_that_have_to_stay(log: Log) -> None:
    segments = log.partition._local.segments
    first = segments[0].size
    for limit, count in [(segments.size() + 1, 0), (segments.size() - first + 1, 0), (segments.size() - first, 1)]:
        assert over_size(segments, bounds(log), config(retention_bytes=limit)) == count
    assert over_size(segments, bounds(log), config(retention_bytes=-1)) == 0
    assert over_size(segments, bounds(log), config(retention_bytes=0)) == len(segments)


def test_nothing_is_over_size_where_new_records_wait_instead(log: Log) -> None:
    waiting = TopicConfig.loaded({"retention.bytes": "0", "pylog.full.policy": "raise"})
    assert over_size(log.partition._local.segments, bounds(log), waiting) == 0


def test_a_segment_is_as_old_as_its_newest_record(log: Log) -> None:
    segments = log.partition._local.segments
    assert over_age(segments, bounds(log, now_ms=NOW + 1000), config(retention_ms=1000)) == 0
    assert over_age(segments, bounds(log, now_ms=NOW + 1001), config(retention_ms=1000)) == len(segments)
    assert over_age(segments, bounds(log, now_ms=NOW + DAY), config(retention_ms=-1)) == 0


def test_retention_keeps_segments_beyond_the_high_watermark(log: Log) -> None:
    segments = log.partition._local.segments
    old = config(retention_ms=1)
    late = NOW + DAY
    assert over_age(segments, bounds(log, mark=segments.bases[2], now_ms=late), old) == 2
    assert over_age(segments, bounds(log, mark=segments.bases[2] - 1, now_ms=late), old) == 1
    log.partition.roll(NOW)
    assert over_age(log.partition._local.segments, bounds(log, now_ms=late), old) == len(log.partition.segments) - 1


def test_a_log_of_nothing_but_old_records_is_emptied_into_a_new_segment() -> None:
    log = Log(retention_ms=1)
    log.fill(30)
    count = len(log.partition.segments)
    assert log.partition.apply_retention(NOW + DAY) == count
    assert (log.partition.start_offset, log.partition.next_offset, log.partition.size) == (30, 30, 0)
    assert log.partition.apply_retention(NOW + DAY) == 0
    assert log.append("on").base_offset == 30


def test_many_segments_go_some_at_a_time_and_appends_come_in_between() -> None:
    class Busy(MemoryFiles):
        """Notes in which hold of the partition's lock each segment goes."""

        def rename(self, source: str, target: str) -> None:
            if source.endswith(".log"):
                holds.append(log.partition.state.generation)
            super().rename(source, target)

    holds: list[int] = []
    log = Log(Busy(), segment_bytes=300)
    log.fill(120)
    count = len(log.partition.segments)
    assert count > 3 * DROPPED_AT_ONCE
    log.partition.delete_records(-1)
    assert log.partition.apply_retention(NOW) == len(holds) == count - 1
    assert max(holds.count(hold) for hold in holds) == DROPPED_AT_ONCE
    assert (len(log.partition.segments), log.partition.next_offset) == (1, 120)
