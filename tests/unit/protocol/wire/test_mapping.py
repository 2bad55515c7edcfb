import pytest

from pylog.errors import (
    BatchRefused,
    BufferExhausted,
    Closed,
    CorruptBatch,
    DiskFull,
    DurabilityUnknown,
    InvalidRecord,
    PartitionFull,
    PylogError,
    ReadOnly,
    UnknownTopicOrPartition,
    UnsupportedFormat,
)
from pylog.protocol.wire.mapping import by_topic, error_code, named_again, named_code, topic_partitions
from pylog.protocol.wire.table import MAPPINGS
from pylog.record import TopicPartition


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (UnknownTopicOrPartition("x"), 3),
        (BufferExhausted("x"), 7),
        (InvalidRecord("x"), 87),
        (BatchRefused("x"), 2),
        (PartitionFull("x"), 44),
        (CorruptBatch("x"), 2),
        (DurabilityUnknown("x"), 56),
        (DiskFull("x"), 56),
        (ReadOnly("x"), 44),
        (UnsupportedFormat("x"), 43),
        (Closed("x"), -1),
    ],
)
def test_an_error_has_kafkas_code(error: PylogError | None, code: int) -> None:
    assert error_code(error) == code


def test_an_error_of_a_topic_without_a_name_is_an_unknown_id() -> None:
    assert named_code("", UnknownTopicOrPartition("x")) == 100
    assert named_code("t", UnknownTopicOrPartition("x")) == 3
    assert named_code("t", None) == 0


def test_parts_are_gathered_by_topic_in_the_order_of_their_first() -> None:
    keys = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]

    bodies = by_topic(keys, lambda key: {"partitionIndex": key.partition})

    assert bodies == [
        {"name": "b", "partitions": [{"partitionIndex": 1}, {"partitionIndex": 0}]},
        {"name": "a", "partitions": [{"partitionIndex": 0}]},
    ]


def test_a_topic_is_named_in_the_response_as_in_the_request() -> None:
    assert named_again({"name": "t"}, []) == {"name": "t", "partitions": []}
    assert named_again({"name": "t", "topicId": 5}, []) == {"topicId": 5, "partitions": []}


def test_partitions_of_a_body_lie_flat() -> None:
    topics = [{"name": "a", "partitions": [1, 0]}, {"name": "b", "partitions": []}]

    assert topic_partitions(topics) == [TopicPartition("a", 1), TopicPartition("a", 0)]


def test_each_mapping_is_found_by_its_name() -> None:
    assert all(mapping.name == name for name, mapping in MAPPINGS.items())
