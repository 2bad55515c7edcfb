"""The answers of the requests about share groups, as a client looks into them."""

import uuid

from pylog.errors import CoordinatorNotAvailable, GroupIdNotFound, UnknownServer
from pylog.protocol.messages.share import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from pylog.protocol.messages.share_state import DeleteShareGroupStateRequest
from pylog.record import TopicPartition

SOON = CoordinatorNotAvailable("soon")


def test_the_error_of_a_group_comes_before_those_of_its_partitions() -> None:
    asked = DescribeShareGroupOffsetsRequest.of("g", [TopicPartition("t", 0)])
    assert asked.first_error(asked.refused(SOON)) is SOON
    assert isinstance(asked.group_error(DescribeShareGroupOffsetsResponse()), UnknownServer)


def test_the_first_error_of_a_deletion_is_found() -> None:
    topic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic
    asked = DeleteShareGroupOffsetsRequest(group_id="g")
    assert asked.first_error(DeleteShareGroupOffsetsResponse(responses=[topic(topic_name="t")])) is None
    gone = GroupIdNotFound("none")
    assert asked.first_error(DeleteShareGroupOffsetsResponse(responses=[topic(topic_name="t", error=gone)])) is gone


def test_an_error_that_is_raised_for_a_partition_is_its_answer() -> None:
    topic = DeleteShareGroupStateRequest.DeleteStateData
    parts = [topic.PartitionData(partition=0)]
    asked = DeleteShareGroupStateRequest(group_id="g", topics=[topic(topic_id=uuid.UUID(int=1), partitions=parts)])

    def fail(*_: object) -> object:
        raise SOON

    assert asked.first_error(asked.answered(fail)) is SOON
    assert asked.first_error(asked.refused(SOON)) is SOON
