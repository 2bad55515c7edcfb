from uuid import UUID

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
from pylog.protocol.messages import FetchPart
from pylog.protocol.wire.mapping import by_topic


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


@pytest.mark.parametrize("by_id", [False, True])
def test_parts_are_gathered_by_topic_in_the_order_of_their_first(by_id: bool) -> None:
    ids = {"a": UUID(int=1), "b": UUID(int=2)}
    parts = [FetchPart(topic, number, 0, topic_id=ids[topic]) for topic, number in (("b", 1), ("a", 0), ("b", 0))]

    bodies = by_topic(parts, lambda part: part.partition, by_id=by_id)

    named = {"topicId": ids["b"]}, {"topicId": ids["a"]}
    of_b, of_a = named if by_id else ({"topic": "b"}, {"topic": "a"})
    assert bodies == [{**of_b, "partitions": [1, 0]}, {**of_a, "partitions": [0]}]
