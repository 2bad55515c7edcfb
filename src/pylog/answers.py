"""What is said of topics, by their owner and by who reads in its absence: descriptions, and what is not there."""

from collections.abc import Callable

from pylog.errors import UnknownTopicOrPartition
from pylog.message import ClusterMetadata, PartitionMetadata, TopicMetadata
from pylog.metadata import MetadataImage, PartitionImage, TopicImage
from pylog.record import TopicPartition


def describe_topics(
    image: MetadataImage, names: list[str] | None, leader_of: Callable[[PartitionImage], int]
) -> ClusterMetadata:
    """Answer a Metadata request from an image: the topics named, or all; an unknown one carries its error."""
    wanted = sorted(image.topics) if names is None else names
    return ClusterMetadata([_describe(image, name, leader_of) for name in wanted])


def _describe(image: MetadataImage, name: str, leader_of: Callable[[PartitionImage], int]) -> TopicMetadata:
    topic = image.topics.get(name)
    if topic is None:
        return TopicMetadata(name, unknown_topic(name))
    partitions = [
        PartitionMetadata(number, leader_of(state), state.leader_epoch, list(state.replicas), list(state.isr))
        for number, state in sorted(topic.partitions.items())
    ]
    return TopicMetadata(name, None, topic.id, partitions, dict(topic.config))


def unknown_topic(name: str) -> UnknownTopicOrPartition:
    """The error for a topic that is not there."""
    return UnknownTopicOrPartition(f"there is no topic {name!r}; `pylog topic list` shows what is there")


def unknown_partition(topic: TopicImage | None, key: TopicPartition) -> UnknownTopicOrPartition:
    """The error for a partition that is not there, or not on this node."""
    if topic is None:
        return unknown_topic(key.topic)
    return UnknownTopicOrPartition(
        f"there is no partition {key.partition} of topic {key.topic!r} here; it has {len(topic.partitions)}, from 0 on"
    )
