"""What would be cleaned, when, and which segments go together."""

import pytest

from pylog.commitlog.compaction.plan import SegmentFacts, cleanable, groups, overdue_ms

NOW = 1_700_000_000_000
MAX = 2**31 - 1


def segments(*bases, size=100, **kwargs):
    return [SegmentFacts(base_offset=base, size=size, **kwargs) for base in bases]


def plan(facts, checkpoint=None, *, start=0, end=1000, stable=1000, min_lag_ms=0):
    found = cleanable(
        facts, checkpoint=checkpoint, start_offset=start, next_offset=end, last_stable_offset=stable,
        min_lag_ms=min_lag_ms, now_ms=NOW,
    )  # fmt: skip
    return found.first_dirty, found.first_uncleanable, found.end_offset


def test_the_active_segment_is_not_touched():
    assert plan(segments(0)) == (0, 0, 0)
    assert plan(segments(0, 100, 200)) == (0, 200, 200)


def test_nothing_from_the_last_stable_offset_on_is_touched():
    """An open transaction, or the high watermark, in a segment that is not active (KAFKA-13194)."""
    assert plan(segments(0, 100, 200, 300), stable=150) == (0, 150, 100)
    assert plan(segments(0, 100, 200, 300), stable=200) == (0, 200, 200)
    assert plan(segments(0, 100, 200, 300), stable=0) == (0, 0, 0)
    assert plan(segments(0, 100, 200, 300), 100, stable=50) == (100, 100, 100)


def test_young_segments_wait():
    facts = [
        SegmentFacts(base_offset=base, size=100, largest_timestamp=NOW - age)
        for base, age in [(0, 50), (100, 6000), (200, 4999), (300, 6000), (400, 0)]
    ]
    assert plan(facts, 100, min_lag_ms=5000) == (100, 200, 200)
    assert plan(facts, 0, min_lag_ms=5000) == (0, 0, 0)
    assert plan(facts, 300, min_lag_ms=5000) == (300, 400, 400)
    assert plan(facts, 450, min_lag_ms=5000) == (450, 450, 400)
    assert plan(facts[1:2], 100, min_lag_ms=5000, start=100) == (100, 100, 100)


@pytest.mark.parametrize(("checkpoint", "resets"), [(None, False), (49, True), (50, False), (400, False), (401, True)])
def test_a_checkpoint_outside_the_log_is_reset(checkpoint, resets):
    found = cleanable(
        segments(0, 100, 200), checkpoint=checkpoint, start_offset=50, next_offset=400, last_stable_offset=400,
        min_lag_ms=0, now_ms=NOW,
    )  # fmt: skip
    assert found.first_dirty == (50 if resets or checkpoint is None else checkpoint)


def ratio(sizes, checkpoint):
    facts = [SegmentFacts(base_offset=100 * i, size=size) for i, size in enumerate(sizes)]
    return cleanable(
        facts, checkpoint=checkpoint, start_offset=0, next_offset=1000, last_stable_offset=1000, min_lag_ms=0,
        now_ms=NOW,
    )  # fmt: skip


def test_the_dirty_ratio_leaves_out_the_active_segment():
    found = ratio([300, 100, 100, 999], 100)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (300, 200, 0.4)
    assert found.is_due(min_dirty_ratio=0.39) and not found.is_due(min_dirty_ratio=0.4)
    assert found.is_due(min_dirty_ratio=0.4, overdue_ms=1)


def test_large_sizes_do_not_overflow_the_dirty_ratio():
    """KAFKA-6030."""
    assert ratio([MAX, MAX, MAX, MAX, 5], 100).dirty_ratio == 0.75


def test_nothing_to_clean_is_never_due():
    for found in (ratio([0, 0, 7], 0), ratio([100, 7], 100), ratio([7], None)):
        assert found.dirty_ratio == 0 and not found.is_due(min_dirty_ratio=0, overdue_ms=10**9)


def test_a_log_that_has_waited_too_long_is_overdue():
    facts = [
        SegmentFacts(base_offset=base, size=100, first_timestamp=timestamp)
        for base, timestamp in [(0, NOW - 10**9), (100, NOW - 5000), (200, -1), (300, NOW - 7000), (400, NOW - 9000)]
    ]
    assert overdue_ms(facts, first_dirty=100, max_lag_ms=3000, now_ms=NOW) == 4000
    assert overdue_ms(facts, first_dirty=199, max_lag_ms=7000, now_ms=NOW) == 0
    assert overdue_ms(facts, first_dirty=100, max_lag_ms=2**63 - 1, now_ms=NOW) == 0
    assert overdue_ms(facts, first_dirty=400, max_lag_ms=1, now_ms=NOW) == 0
    assert overdue_ms(facts[2:3], first_dirty=200, max_lag_ms=1, now_ms=NOW) == 0


def grouped(facts, end=10 * MAX, uncleanable=10**6, *, segment_bytes=1000, segment_index_bytes=100):
    found = groups(
        facts, end_offset=end, first_uncleanable=uncleanable, segment_bytes=segment_bytes,
        segment_index_bytes=segment_index_bytes,
    )  # fmt: skip
    return [[member.base_offset for member in group] for group in found]


def test_groups_stay_within_the_size_of_a_segment():
    assert grouped(segments(0, 1, 2, 3, 4, size=400)) == [[0, 1], [2, 3], [4]]
    assert grouped(segments(0, 1, 2, size=500)) == [[0, 1], [2]]
    assert grouped(segments(0, 1, 2, size=1001)) == [[0], [1], [2]]
    assert grouped(segments(0, 1, 2, size=0)) == [[0, 1, 2]]
    assert grouped([]) == []


def test_groups_stay_within_the_size_of_an_index():
    assert grouped(segments(0, 1, 2, 3, size=1, index_bytes=50)) == [[0, 1], [2, 3]]
    assert grouped(segments(0, 1, 2, 3, size=1, time_index_bytes=60)) == [[0], [1], [2], [3]]


def test_only_segments_below_the_end_are_grouped():
    assert grouped(segments(0, 100, 200, 300), 200) == [[0, 100]]
    assert grouped(segments(0, 100, 200, 300), 201) == [[0, 100, 200]]


def test_groups_span_no_more_offsets_than_an_index_can_name():
    assert grouped(segments(0, 10, MAX, MAX + 10), uncleanable=MAX + 20) == [[0, 10], [MAX, MAX + 10]]
    assert grouped(segments(0, 10, MAX + 1), uncleanable=MAX + 2) == [[0, 10], [MAX + 1]]
    assert grouped(segments(0, 10), uncleanable=MAX + 1) == [[0, 10]]
    assert grouped(segments(0, 10), uncleanable=MAX + 2) == [[0], [10]]


def test_empty_segments_join_whatever_they_span():
    """Else a log cleaned for long is left with an empty segment for every 2**31 offsets."""
    facts = [*segments(0), *segments(5 * MAX, 9 * MAX, size=0)]
    assert grouped(facts, uncleanable=10 * MAX) == [[0, 5 * MAX, 9 * MAX]]
