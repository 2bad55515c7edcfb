import pytest

from pylog.errors import (
    BatchRefused,
    BufferExhausted,
    Closed,
    CorruptBatch,
    DirectoryReplaced,
    DiskFull,
    DurabilityUnknown,
    InvalidRecord,
    KafkaStorage,
    LogNotFound,
    PartitionFailed,
    PartitionFull,
    PylogError,
    ReadOnly,
    UnknownTopicOrPartition,
    UnsupportedFormat,
)
from pylog.protocol.error_codes import error_code, error_message, of_code
from pylog.protocol.wire.mapping import by_topic, named_again, named_code
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


@pytest.mark.parametrize(
    "error",
    [DiskFull("a: b"), DurabilityUnknown("x"), PartitionFailed("x"), DirectoryReplaced("x"), ReadOnly(""),
     PartitionFull("x"), LogNotFound("x"), InvalidRecord("x"), UnknownTopicOrPartition("x")],
)  # fmt: skip
def test_an_error_is_the_same_on_both_sides_of_a_socket(error: PylogError) -> None:
    told = of_code(error_code(error), error_message(error))
    assert told is not None and (type(told), told.retriable) == (type(error), error.retriable)
    assert str(told) == str(error) or not str(error)


@pytest.mark.parametrize(
    ("code", "text"), [(56, "DiskIsFull: x"), (3, "DiskFull: x"), (56, None), (56, "Exception: x"), (56, "")]
)
def test_no_text_makes_an_error_of_another_code(code: int, text: str | None) -> None:
    assert type(of_code(code, text)) in (KafkaStorage, UnknownTopicOrPartition)


def test_an_error_of_a_topic_without_a_name_is_an_unknown_id() -> None:
    assert named_code("", UnknownTopicOrPartition("x"), by_id=True) == 100
    assert named_code("", UnknownTopicOrPartition("x"), by_id=False) == 3
    assert named_code("t", UnknownTopicOrPartition("x"), by_id=True) == 3
    assert named_code("t", None, by_id=True) == 0


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
