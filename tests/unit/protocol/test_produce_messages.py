"""Produce as its two sides have it, in every version that a client may take."""

import uuid

import pytest

from pylog.errors import InvalidRecord, NotLeaderOrFollower, RecordError, UnsupportedFormat
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProducedPart, ProduceRequest, ProduceResponse
from pylog.protocol.messages.records import ProducedTopic
from pylog.protocol.schema import message
from pylog.record import Record
from support.produce import produced, together

ID, OTHER_ID = uuid.UUID(int=7), uuid.UUID(int=8)
ONE = encode([Record(b"x"), Record(b"y")], now_ms=1)
VERSIONS = range(3, 14)
REQUEST, RESPONSE = message("ProduceRequest"), message("ProduceResponse")


def asked(**more: int) -> ProduceRequest:
    """A request about t-0 and u-1."""
    return together(*(
        ProduceRequest.of(topic, number, ONE, topic_id=topic_id, **more)
        for topic, number, topic_id in (("t", 0, ID), ("u", 1, OTHER_ID))
    ))  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_heard_as_it_was_said(version: int) -> None:
    data = REQUEST.encode(version, asked(acks=1, timeout_ms=77).said_in(version))

    heard: ProduceRequest = REQUEST.decode(version, data, into=ProduceRequest)[0]

    assert (heard.acks, heard.timeout_ms, heard.transactional_id) == (1, 77, None)
    assert [(part.index, bytes(part.records or b"")) for _, part in heard.pairs] == [(0, ONE.data), (1, ONE.data)]
    names = [(topic.name, topic.topic_id.int) for topic in heard.topic_data]
    assert names == ([("", 7), ("", 8)] if version >= 13 else [("t", 0), ("u", 0)])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_heard_by_the_names_of_its_request(version: int) -> None:
    refused = InvalidRecord("bad", [RecordError(1, "no key")])
    good, bad = produced(0, 10), produced(1, error=refused)
    good.log_start_offset = 3
    bad.record_errors = [ProducedPart.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
    data = RESPONSE.encode(version, asked().with_parts([good, bad]))

    answer = asked().heard_in(version, RESPONSE.decode(version, data, into=ProduceResponse)[0])

    assert [topic.name for topic in answer.responses] == ["t", "u"]
    first, second = asked().parts_of(answer)
    assert (first.error, first.base_offset, first.log_start_offset) == (None, 10, 3 if version >= 5 else -1)
    assert isinstance(second.error, InvalidRecord)
    assert second.error.record_errors == (refused.record_errors if version >= 8 else ())


def test_an_error_of_a_record_without_a_text_has_that_of_its_batch() -> None:
    told = produced(0, error=InvalidRecord("bad"))
    told.record_errors = [ProducedPart.BatchIndexAndErrorMessage(batch_index=4)]
    request = ProduceRequest.of("t", 0, ONE)

    (part,) = request.heard_in(9, request.with_parts([told])).parts

    assert isinstance(part.error, InvalidRecord) and part.error.record_errors == (RecordError(4, "bad"),)


def test_a_version_that_cannot_say_a_request_refuses_it() -> None:
    begun = ProduceRequest.of("t", 0, ONE, topic_id=ID, transactional_id="tx")
    with pytest.raises(UnsupportedFormat, match="in version 11 partitions do not join a transaction"):
        begun.said_in(11)
    assert begun.said_in(12).said_in(13) is begun
    with pytest.raises(UnsupportedFormat, match="version 13 names topics by their ids"):
        ProduceRequest.of("t", 0, ONE).said_in(13)


def test_a_part_that_is_missing_is_an_error_of_that_part() -> None:
    strange = ProducedTopic(topic_id=uuid.UUID(int=99), partition_responses=[produced(0)])
    answer = asked().heard_in(13, ProduceResponse(responses=[strange]))
    assert [str(part.error).rpartition(" ")[2] for part in asked().parts_of(answer)] == ["t-0", "u-1"]


def test_an_error_of_all_is_that_of_each_part() -> None:
    request, error = asked(), NotLeaderOrFollower("moved")
    answer = request.refused(error)
    assert [(part.index, part.error, part.base_offset) for part in answer.parts] == [(0, error, -1), (1, error, -1)]
    assert request.first_error(answer) is error and request.first_error(ProduceResponse()) is None
