"""The answer to Metadata, from an image."""

from uuid import UUID

import pytest

from pylog.broker.describe import describe_topics
from pylog.errors import LeaderNotAvailable, UnknownTopicId, UnknownTopicOrPartition
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.metadata_image import MetadataImage
from support.controlled_cluster import TOPIC_ID, Cluster


@pytest.fixture
def image() -> MetadataImage:
    cluster = Cluster(2)
    cluster.create("t", 2)
    cluster.create("__consumer_offsets", topic_id=UUID(int=8))
    return cluster.image


def test_topics_are_described_in_the_order_of_the_request(image: MetadataImage) -> None:
    asked = MetadataRequest.of(["absent", "t"], [TOPIC_ID, UUID(int=9)])

    absent, named, by_id, unknown = describe_topics(image, asked, lambda state: state.leader).topics

    assert isinstance(absent.error, UnknownTopicOrPartition)
    assert named == by_id
    assert (named.name, named.topic_id, named.is_internal, len(named.partitions)) == ("t", TOPIC_ID, False, 2)
    assert (unknown.name, unknown.topic_id, type(unknown.error)) == (None, UUID(int=9), UnknownTopicId)
    every = describe_topics(image, MetadataRequest.of(), lambda state: state.leader).topics
    assert [(topic.name, topic.is_internal) for topic in every] == [("__consumer_offsets", True), ("t", False)]


@pytest.mark.parametrize("leader", [2, -1])
def test_a_partition_without_a_leader_says_so(image: MetadataImage, leader: int) -> None:
    (topic,) = describe_topics(image, MetadataRequest.of(["t"]), lambda _: leader).topics

    assert [part.leader_id for part in topic.partitions] == [leader] * 2
    assert [isinstance(part.error, LeaderNotAvailable) for part in topic.partitions] == [leader < 0] * 2


def test_partitions_beyond_the_limit_are_left_out(image: MetadataImage) -> None:
    found = describe_topics(image, MetadataRequest.of(["t"], partitions_max=1), lambda _: 2)
    assert (found.lacks_partitions, [len(topic.partitions) for topic in found.topics]) == (True, [0])
    assert describe_topics(image, MetadataRequest.of(partitions_max=1), lambda _: 2).topics == []
