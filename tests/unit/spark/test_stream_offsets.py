"""Offsets of a stream as JSON, and how far a batch goes.

Cases of Spark's JsonUtilsSuite and KafkaMicroBatchSourceSuite.
"""

import json
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.record import TopicPartition
from pylog.spark.options.limits import TOPIC_IDS
from pylog.spark.options.read import Trigger
from pylog.spark.ranges import OffsetRange
from pylog.spark.stream_offsets import Delay, StreamOffsets, between, bounded, most_offsets

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ONE, TWO = UUID(int=1), UUID(int=2)
NAMES = st.sampled_from(["a", "b", "-", "a.b"])
OFFSETS = st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 20)), st.integers(0, 1 << 62))


def test_json_is_that_of_kafka_with_the_ids_of_the_topics() -> None:
    offsets = StreamOffsets({B0: 3, A1: 2, A0: 1}, {"a": ONE})
    assert json.dumps(offsets.to_json()) == (
        '{"a": {"0": 1, "1": 2}, "b": {"0": 3}, "#topicIds": {"a": "00000000-0000-0000-0000-000000000001"}}'
    )
    assert StreamOffsets({A0: 1}).to_json() == {"a": {"0": 1}}


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    offsets = StreamOffsets({TopicPartition("a", n): n for n in range(12)})
    assert list(offsets.to_json()["a"]) == [str(n) for n in range(12)]


@given(OFFSETS)
def test_json_round_trip(offsets: dict[TopicPartition, int]) -> None:
    wanted = StreamOffsets(offsets, {key.topic: uuid4() for key in offsets})
    assert StreamOffsets.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"a": 1},
        {"a": {"x": 1}},
        {"a": {"-1": 1}},
        {"a": {"0": -1}},
        {"a": {"0": 1.5}},
        {"a": {"0": None}},
        {"a": {"0": True}},
        {TOPIC_IDS: []},
        {TOPIC_IDS: {"a": "no id"}},
        {TOPIC_IDS: {"a": 1}},
    ],
)
def test_json_of_something_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="the checkpoint has offsets that pylog did not write"):
        StreamOffsets.from_json(value)


def test_a_topic_is_another_one_only_where_both_ids_are_known() -> None:
    offsets = StreamOffsets({A0: 1, B0: 1}, {"a": ONE})
    assert offsets.is_other_topic("a", TWO)
    assert not offsets.is_other_topic("a", ONE)
    assert not offsets.is_other_topic("a", None)
    assert not offsets.is_other_topic("b", ONE)


def test_limit_is_shared_in_proportion_and_no_partition_starves() -> None:
    start = {A0: 0, A1: 0, B0: 0}
    assert bounded(start, {A0: 101, A1: 11, B0: 1}, 10) == {A0: 8, A1: 1, B0: 1}
    assert bounded(start, {A0: 5, A1: 5, B0: 0}, 10) == {A0: 5, A1: 5, B0: 0}


def test_limit_of_the_largest_number_does_not_overflow() -> None:
    """SPARK-26718"""
    assert bounded({A0: 1 << 62}, {A0: (1 << 63) - 1}, (1 << 63) - 1) == {A0: (1 << 63) - 1}


def test_limit_follows_an_end_that_went_back() -> None:
    assert bounded({A0: 9, A1: 0}, {A0: 4, A1: 50}, 10) == {A0: 4, A1: 10}


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=9), st.integers(1, 3000))
def test_limited_batches_reach_the_end_and_stay_near_the_limit(sizes: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("a", n): first for n, (first, _) in enumerate(sizes)}
    end = {TopicPartition("a", n): first + size for n, (first, size) in enumerate(sizes)}
    for _ in range(10_000):
        following = bounded(start, end, most)
        taken = [following[key] - start[key] for key in start]
        assert sum(taken) <= most + len(sizes)
        assert all(start[key] < following[key] <= end[key] for key in start if start[key] < end[key])
        if following == start:
            break
        start = following
    assert start == end


def test_bytes_become_offsets_by_what_waits() -> None:
    trigger = Trigger(max_bytes=1000)
    assert most_offsets(trigger, {A0: 100, A1: 0}, {A0: 100.0, A1: 5.0}) == 10
    assert most_offsets(trigger, {A0: 10}, {A0: 100.0}) is None
    assert most_offsets(trigger, {A0: 10}, {A0: 9e9}) == 1
    assert most_offsets(Trigger(max_bytes=1000, max_offsets=3), {A0: 100}, {A0: 100.0}) == 3
    assert most_offsets(Trigger(), {A0: 100}, {}) is None


def test_few_offsets_wait_until_there_are_enough_or_the_time_is_over() -> None:
    delay = Delay(Trigger(min_offsets=15, max_delay_ms=5_000))
    assert not delay.waits(1, 0), "the first batch runs"
    assert delay.waits(14, 100)
    assert not delay.waits(15, 200)
    assert delay.waits(14, 5_199)
    assert not delay.waits(14, 5_200)
    assert not Delay(Trigger()).waits(0, 0)


def test_ranges_of_a_batch() -> None:
    batch = between(StreamOffsets({A0: 1, A1: 5}), StreamOffsets({A0: 4, A1: 5, B0: 2}), {B0: 0})
    assert batch.ranges == (OffsetRange(A0, 1, 4), OffsetRange(B0, 0, 2))
    assert batch.losses == ()


@pytest.mark.parametrize(
    ("start", "end", "ranges", "loss"),
    [
        (StreamOffsets({A0: 2}), StreamOffsets({A0: 1}), (), "partition a-0's offset was changed from 2 to 1"),
        (StreamOffsets({A0: 2}), StreamOffsets(), (), "partition a-0 is gone"),
        (
            StreamOffsets(),
            StreamOffsets({A0: 9}),
            (OffsetRange(A0, 3, 9),),
            "added partition a-0 starts from 3",
        ),
        (
            StreamOffsets({A0: 2}, {"a": ONE}),
            StreamOffsets({A0: 9}, {"a": TWO}),
            (OffsetRange(A0, 3, 9),),
            "topic a was deleted and made again: a-0 is read from its start",
        ),
    ],
)
def test_losses_of_a_batch(
    start: StreamOffsets, end: StreamOffsets, ranges: tuple[OffsetRange, ...], loss: str
) -> None:
    batch = between(start, end, {A0: 3})
    assert batch.ranges == ranges
    (said,) = batch.losses
    assert loss in said
