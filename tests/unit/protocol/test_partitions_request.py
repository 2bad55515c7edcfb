"""Requests about partitions, and structs that are: their topics, and the parts of the answers to them."""

from typing import Any

import pytest

from pylog.errors import NotLeaderOrFollower, UnsupportedFormat
from pylog.protocol.messages import EARLIEST, MAX_TIMESTAMP
from pylog.protocol.messages.api import PartitionsRequest
from pylog.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetsToFetch,
    TxnOffsetCommitRequest,
)
from pylog.protocol.messages.records import (
    DeleteRecordsRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderPartition,
)
from pylog.protocol.messages.requests import REQUESTS
from pylog.protocol.messages.share import AlterShareGroupOffsetsRequest, ShareGroupToDescribe
from pylog.protocol.messages.transactions import PartitionsToAdd, WriteTxnMarkersRequest
from pylog.record import TopicPartition

KEYS = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
MOVED = NotLeaderOrFollower("elsewhere")
AlterPartition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic.AlterShareGroupOffsetsRequestPartition
DeletePartition = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition
DeletedPartition = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition
GIVEN = {
    "group_id": "g", "replica_id": -1, "transactional_id": "tx", "producer_id": 9, "producer_epoch": 0,
    "transaction_result": True, "coordinator_epoch": 0,
}  # fmt: skip
"""Fields without a default, where a request has them."""
PARTS: dict[str, Any] = {
    "AddPartitionsToTxnTransaction": lambda number: number,
    "AlterShareGroupOffsets": lambda number: AlterPartition(partition_index=number, start_offset=7),
    "DeleteRecords": lambda number: DeletePartition(partition_index=number, offset=7),
    "DescribeProducers": lambda number: number,
    "ListOffsets": lambda number: ListOffsetsPartition(partition_index=number, timestamp=5),
    "OffsetCommit": lambda number: OffsetCommitRequest.part(partition_index=number, committed_offset=7),
    "OffsetDelete": lambda number: DeletedPartition(partition_index=number),
    "OffsetForLeaderEpoch": lambda number: OffsetForLeaderPartition(partition=number, leader_epoch=3),
    "OffsetFetchRequestGroup": lambda number: number,
    "DescribeShareGroupOffsetsRequestGroup": lambda number: number,
    "TxnOffsetCommit": lambda number: TxnOffsetCommitRequest.part(partition_index=number, committed_offset=7),
    "WritableTxnMarker": lambda number: number,
}
"""The part of a request for a partition, by key; or of a struct, by its name."""
KINDS: dict[str, Any] = {name: kind for name, kind in REQUESTS.items() if issubclass(kind, PartitionsRequest)}
STRUCTS = (OffsetsToFetch, PartitionsToAdd, ShareGroupToDescribe, WriteTxnMarkersRequest.WritableTxnMarker)
KINDS |= {kind.__name__: kind for kind in STRUCTS}


@pytest.fixture(params=KINDS)
def request_(request: pytest.FixtureRequest) -> Any:
    kind = KINDS[request.param]
    topics = kind.by_topic((key, PARTS[request.param](key.partition)) for key in KEYS)
    return kind(topics=topics, **{name: value for name, value in GIVEN.items() if name in kind.__dataclass_fields__})


def test_parts_are_by_topic_in_the_order_of_their_first(request_: Any) -> None:
    name, parts, number, *_ = request_.fields
    topics = [(getattr(topic, name), getattr(topic, parts)) for topic in request_.topics]
    assert [(topic, [getattr(one, number, one) for one in parts]) for topic, parts in topics] == [
        ("b", [1, 0]),
        ("a", [0]),
    ]
    assert [key for key, _ in request_.keyed()] == [KEYS[0], KEYS[2], KEYS[1]]


def test_an_answer_has_a_part_for_each_and_an_error_is_that_of_its_partition(request_: Any) -> None:
    def part(key: TopicPartition, asked: Any) -> Any:
        assert asked in [one for _, one in request_.keyed()]
        if key == KEYS[0]:
            raise MOVED
        return request_.told(key)

    answer = request_.answered(part)
    assert type(answer) is request_.response
    assert {key: one.error for key, one in request_.found(answer).items()} == {
        KEYS[0]: MOVED, KEYS[1]: None, KEYS[2]: None
    }  # fmt: skip
    assert request_.first_error(answer) is MOVED
    assert request_.first_error(request_.answered(lambda key, _: request_.told(key))) is None
    refused = request_.refused(MOVED)
    errors = {one.error for one in request_.found(refused).values()}
    assert getattr(refused, "error", None) is MOVED or errors == {MOVED}


def test_a_part_that_a_response_lacks_is_an_error_of_its_partition(request_: Any) -> None:
    answer = request_.answered(lambda key, _: request_.told(key))
    del getattr(answer, request_.fields.answers)[1:]
    errors = {key: one.error for key, one in request_.found(answer).items()}
    assert (errors[KEYS[0]], errors[KEYS[2]]) == (None, None)
    assert "without a word of a-0" in str(errors[KEYS[1]])


def test_errors_are_those_of_their_partitions(request_: Any) -> None:
    answer = request_.results({KEYS[0]: MOVED, KEYS[1]: None})
    assert [part.error for part in request_.found(answer).values()] == [MOVED, None, None]
    for name in ("transactional_id", "producer_id"):
        assert getattr(answer, name, None) == (getattr(request_, name) if hasattr(answer, name) else None)


def test_the_rest_of_a_request_is_asked_and_answered_beside_known_errors(request_: Any) -> None:
    if not isinstance(request_, PartitionsRequest):
        return
    rest = request_.without({KEYS[2]: MOVED})
    assert [key for key, _ in rest.keyed()] == [KEYS[0], KEYS[1]]
    answer = request_.with_errors({KEYS[2]: MOVED}, rest.answered(lambda key, _: rest.told(key)))
    assert {key: one.error for key, one in request_.found(answer).items()} == {
        KEYS[0]: None, KEYS[1]: None, KEYS[2]: MOVED
    }  # fmt: skip
    assert request_.without({}) is request_
    assert request_.with_errors({}, answer) is answer
    failed = request_.response(error=MOVED) if "error" in request_.response.__dataclass_fields__ else None
    assert failed is None or request_.with_errors({KEYS[2]: MOVED}, failed) is failed


def test_records_of_a_partition_are_deleted_once_as_it_was_named_last() -> None:
    parts = [(key, DeletePartition(partition_index=0, offset=at)) for at, key in enumerate([KEYS[1], KEYS[2], KEYS[1]])]
    message = DeleteRecordsRequest(topics=DeleteRecordsRequest.by_topic(parts))
    assert [(key, one.offset) for key, one in message.keyed()] == [(KEYS[1], 2), (KEYS[2], 1)]
    (first, second) = message.refused(MOVED).topics
    assert [one.low_watermark for one in first.partitions + second.partitions] == [-1, -1]


def test_the_newest_record_is_asked_for_in_a_version_that_can_say_it() -> None:
    for time, lowest in ((MAX_TIMESTAMP, 7), (EARLIEST, 1)):
        message = ListOffsetsRequest.of({KEYS[0]: time})
        assert message.said_in(lowest) is message
        for version in range(1, lowest):
            with pytest.raises(UnsupportedFormat, match="newest record"):
                message.said_in(version)
