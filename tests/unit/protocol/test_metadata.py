"""Metadata: what a client asks of topics, and what it hears of them."""

import uuid

import pytest

from pylog.errors import NotLeaderOrFollower, UnsupportedFormat
from pylog.protocol.messages import NO_ID
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse, MetadataTopic
from pylog.protocol.schema import message as schema
from support.described import led, names_in

ID = uuid.UUID(int=7)


@pytest.mark.parametrize("version", range(MetadataRequest.lowest, 14))
def test_topics_are_heard_as_they_were_described(version: int) -> None:
    request, response = schema("MetadataRequest"), schema("MetadataResponse")
    asked = MetadataRequest.of(["t", "gone", "untold"], partitions_max=5)
    heard, _ = request.decode(version, request.encode(version, asked.said_in(version)), into=MetadataRequest)
    assert names_in(heard) == ["t", "gone", "untold"]
    assert (heard.allow_auto_topic_creation, heard.partitions_max) == (False, None)

    there = MetadataTopic(name="t", topic_id=ID, partitions=[led(0, 1, epoch=3), led(1, -1)])
    failed = MetadataTopic(name="gone", error=NotLeaderOrFollower("elsewhere"))
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="a", port=9)
    answer = MetadataResponse(brokers=[broker], topics=[failed, there])
    found: MetadataResponse
    found, _ = response.decode(version, response.encode(version, answer), into=MetadataResponse)

    first, gone, untold = found.named(["t", "gone", "untold"])
    assert (first.name, first.error, first.topic_id) == ("t", None, ID if version >= 10 else NO_ID)
    assert [(part.partition_index, part.leader_id) for part in first.partitions] == [(0, 1), (1, -1)]
    assert isinstance(gone.error, NotLeaderOrFollower)
    assert "without a word of topic 'untold'" in str(untold.error)
    assert [topic.name for topic in found.named(None)] == ["gone", "t"]
    assert found.nodes == {1: ("a", 9)}


def test_a_topic_is_asked_for_by_its_id_where_the_version_has_that() -> None:
    by_id = MetadataRequest.of([], [ID])
    assert by_id.is_by_id
    assert by_id.said_in(12) is by_id
    with pytest.raises(UnsupportedFormat, match="by its id"):
        by_id.said_in(11)
    assert not MetadataRequest.of(["t"]).is_by_id
    assert not MetadataRequest.of().is_by_id
