"""Offset ranges of a Spark read. The split cases are those of Spark's KafkaOffsetRangeCalculatorSuite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.record import TopicPartition
from pylog.spark.options.limits import EARLIEST, LATEST, AtOffset, AtOffsets, AtTimestamp, AtTimestamps, Limit
from pylog.spark.ranges import OffsetRange, Resolved, resolve, split

T1, T2, T3 = TopicPartition("t1", 1), TopicPartition("t2", 1), TopicPartition("t3", 1)
Range = tuple[TopicPartition, int, int]

SPLIT: list[tuple[str, int | None, int | None, list[Range], list[Range]]] = [
    ("no minimum: N to N", None, None, [(T1, 1, 2)], [(T1, 1, 2)]),
    ("no minimum: empty ranges ignored", None, None, [(T1, 1, 2), (T2, 1, 1)], [(T1, 1, 2)]),
    ("N to N", 3, None, [(T1, 1, 2), (T2, 1, 2), (T3, 1, 2)], [(T1, 1, 2), (T2, 1, 2), (T3, 1, 2)]),
    ("1 to N", 4, None, [(T1, 1, 5)], [(T1, 1, 2), (T1, 2, 3), (T1, 3, 4), (T1, 4, 5)]),
    (
        "N skewed to M",
        4,
        None,
        [(T1, 1, 5), (T2, 1, 21)],
        [(T1, 1, 5), (T2, 1, 7), (T2, 7, 14), (T2, 14, 21)],
    ),
    (
        "SPARK-30656: ignore empty ranges and split the rest",
        4,
        None,
        [(T1, 1, 1), (T2, 1, 21)],
        [(T2, 1, 6), (T2, 6, 11), (T2, 11, 16), (T2, 16, 21)],
    ),
    (
        "SPARK-30656: N very skewed to M",
        4,
        None,
        [(T1, 1, 2), (T2, 1, 1001)],
        [(T1, 1, 2), (T2, 1, 334), (T2, 334, 667), (T2, 667, 1001)],
    ),
    (
        "SPARK-30656: minimum below the number of partitions",
        1,
        None,
        [(T1, 1, 5), (T2, 1, 21)],
        [(T1, 1, 5), (T2, 1, 21)],
    ),
    ("inexact multiple of the minimum", 3, None, [(T1, 1, 11)], [(T1, 1, 4), (T1, 4, 7), (T1, 7, 11)]),
    (
        "empty ranges ignored",
        4,
        None,
        [(T1, 1, 5), (T2, 1, 21), (T3, 1, 1)],
        [(T1, 1, 5), (T2, 1, 7), (T2, 7, 14), (T2, 14, 21)],
    ),
    (
        "SPARK-28489: never drop offsets",
        6,
        None,
        [(T1, 0, 10), (T2, 0, 10), (T3, 0, 1)],
        [(T1, 0, 3), (T1, 3, 6), (T1, 6, 10), (T2, 0, 3), (T2, 3, 6), (T2, 6, 10), (T3, 0, 1)],
    ),
    (
        "SPARK-36576: 0 small unsplit ranges and 3 large split ranges",
        9,
        None,
        [(T1, 0, 10000), (T2, 0, 15000), (T3, 0, 20000)],
        [
            *[(T1, 0, 5000), (T1, 5000, 10000)],
            *[(T2, 0, 5000), (T2, 5000, 10000), (T2, 10000, 15000)],
            *[(T3, 0, 5000), (T3, 5000, 10000), (T3, 10000, 15000), (T3, 15000, 20000)],
        ],
    ),
    (
        "SPARK-36576: 1 small unsplit range and 2 large split ranges",
        6,
        None,
        [(T1, 0, 500), (T2, 0, 12000), (T3, 0, 15001)],
        [(T1, 0, 500), (T2, 0, 6000), (T2, 6000, 12000), (T3, 0, 5000), (T3, 5000, 10000), (T3, 10000, 15001)],
    ),
    (
        "SPARK-36576: 2 small unsplit ranges and 1 large split range",
        6,
        None,
        [(T1, 0, 1), (T2, 0, 1), (T3, 0, 10000)],
        [(T1, 0, 1), (T2, 0, 1), (T3, 0, 2500), (T3, 2500, 5000), (T3, 5000, 7500), (T3, 7500, 10000)],
    ),
    ("SPARK-49259: as many records as the most", None, 4, [(T1, 1, 5)], [(T1, 1, 5)]),
    ("SPARK-49259: fewer records than the most", None, 4, [(T1, 1, 2)], [(T1, 1, 2)]),
    ("SPARK-49259: one record too many", None, 4, [(T1, 1, 6)], [(T1, 1, 3), (T1, 3, 6)]),
    (
        "SPARK-49259: N to M",
        None,
        20,
        [(T1, 1, 40), (T2, 1, 50), (T3, 1, 60)],
        [
            *[(T1, 1, 20), (T1, 20, 40)],
            *[(T2, 1, 17), (T2, 17, 33), (T2, 33, 50)],
            *[(T3, 1, 20), (T3, 20, 40), (T3, 40, 60)],
        ],
    ),
    ("SPARK-49259: low minimum", 1, 20, [(T1, 1, 40)], [(T1, 1, 20), (T1, 20, 40)]),
    ("SPARK-49259: high minimum", 4, 20, [(T1, 1, 40)], [(T1, 1, 10), (T1, 10, 20), (T1, 20, 30), (T1, 30, 40)]),
]


@pytest.mark.parametrize(
    ("minimum", "most", "given_ranges", "expected"), [c[1:] for c in SPLIT], ids=[c[0] for c in SPLIT]
)
def test_split(minimum: int | None, most: int | None, given_ranges: list[Range], expected: list[Range]) -> None:
    pieces = split([OffsetRange(*r) for r in given_ranges], min_partitions=minimum, max_records_per_partition=most)
    assert pieces == [OffsetRange(*r) for r in expected]


def test_split_of_nothing_is_nothing() -> None:
    assert split([], min_partitions=5, max_records_per_partition=5) == []


@given(
    st.lists(st.tuples(st.integers(0, 1 << 62), st.integers(0, 500)), max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 40),
)
def test_split_keeps_every_offset_once_and_in_order(
    spans: list[tuple[int, int]], minimum: int | None, most: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("t", i), start, start + size) for i, (start, size) in enumerate(spans)]
    pieces = split(ranges, min_partitions=minimum, max_records_per_partition=most)
    assert all(piece.size > 0 for piece in pieces)
    assert most is None or all(piece.size <= most for piece in pieces)
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].topic_partition == piece.topic_partition:
            assert joined[-1].end == piece.start
            piece = OffsetRange(piece.topic_partition, joined.pop().start, piece.end)
        joined.append(piece)
    assert joined == [r for r in ranges if r.size]


P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
HELD = {P1: (0, 30), P0: (10, 20)}
FROM_START, TO_END = AtOffset(EARLIEST), AtOffset(LATEST)


def offset_at(partition: TopicPartition, timestamp_ms: int) -> int | None:
    """Record n of each partition has timestamp 100 * n."""
    first, last = HELD[partition]
    offset = max(first, -(-timestamp_ms // 100))
    return offset if offset < last else None


def resolved(starting: Limit = FROM_START, ending: Limit = TO_END, *, latest: bool = False) -> Resolved:
    return resolve(HELD, starting, ending, no_match="latest" if latest else "error", offset_for_time=offset_at)


def ranges(starting: Limit = FROM_START, ending: Limit = TO_END, *, latest: bool = False) -> list[tuple[int, int]]:
    result = resolved(starting, ending, latest=latest)
    assert [r.topic_partition for r in result.ranges] == [P0, P1]
    assert result.losses == ()
    return [(r.start, r.end) for r in result.ranges]


def test_resolve_earliest_to_latest() -> None:
    assert ranges() == [(10, 20), (0, 30)]


def test_resolve_no_partitions() -> None:
    assert resolve({}, FROM_START, TO_END, no_match="error", offset_for_time=offset_at) == Resolved((), ())


def test_resolve_offsets_with_earliest_and_latest_among_them() -> None:
    assert ranges(AtOffsets({P0: 12, P1: EARLIEST}), AtOffsets({P0: LATEST, P1: 5})) == [(12, 20), (0, 5)]


def test_resolve_start_and_end_may_be_equal() -> None:
    assert ranges(AtOffsets({P0: 20, P1: 30})) == [(20, 20), (30, 30)]


def test_resolve_timestamps() -> None:
    assert ranges(AtTimestamp(1200), AtTimestamp(1500)) == [(12, 15), (12, 15)]
    assert ranges(AtTimestamps({P0: 0, P1: 50}), AtTimestamps({P0: 1100, P1: 2900})) == [(10, 11), (1, 29)]


def test_resolve_end_time_without_match_is_the_end() -> None:
    assert ranges(ending=AtTimestamp(2000)) == [(10, 20), (0, 20)]


def test_resolve_start_time_without_match() -> None:
    with pytest.raises(ValueError, match=r"No offset matched .* topic-partition t-0 and timestamp 2000;"):
        ranges(AtTimestamp(2000))
    with pytest.raises(ValueError, match=r"No offset matched .* topic-partition t-1 and timestamp 3000;"):
        ranges(AtTimestamps({P0: 0, P1: 3000}))
    assert ranges(AtTimestamp(2000), latest=True) == [(20, 20), (20, 30)]


@pytest.mark.parametrize(
    ("starting", "ending", "option"),
    [
        (AtOffsets({P0: 1}), TO_END, "startingOffsets"),
        (FROM_START, AtOffsets({P0: 1, P1: 1, T1: 1}), "endingOffsets"),
        (AtTimestamps({}), TO_END, "startingOffsetsByTimestamp"),
        (FROM_START, AtTimestamps({P1: 1}), "endingOffsetsByTimestamp"),
    ],
)
def test_resolve_limits_name_all_partitions(starting: Limit, ending: Limit, option: str) -> None:
    with pytest.raises(ValueError, match=rf"If {option} contains .* Assigned: \{{t-0, t-1\}}"):
        resolved(starting, ending)


def test_resolve_start_after_end() -> None:
    with pytest.raises(ValueError, match=r"start offset 13 is greater than the resolved end offset 12 .* t-0"):
        resolved(AtOffsets({P0: 13, P1: 0}), AtOffsets({P0: 12, P1: 0}))
    with pytest.raises(ValueError, match=r"start offset 31 is greater than the resolved end offset 30 .* t-1"):
        resolved(AtOffsets({P0: 13, P1: 31}))
    with pytest.raises(ValueError, match="is greater than the resolved end offset"):
        resolved(AtTimestamp(1500), AtTimestamp(1200))


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [(9, 20, (10, 20)), (10, 21, (10, 20)), (0, 5, (10, 10)), (25, 30, (20, 20)), (0, 99, (10, 20))],
)
def test_resolve_offsets_that_are_gone_are_losses(start: int, end: int, kept: tuple[int, int]) -> None:
    result = resolved(AtOffsets({P0: start, P1: EARLIEST}), AtOffsets({P0: end, P1: LATEST}))
    assert result.ranges == (OffsetRange(P0, *kept), OffsetRange(P1, 0, 30))
    [loss] = result.losses
    assert f"[{start}, {end}) of topic-partition t-0" in loss
    assert "the log holds [10, 20)" in loss
