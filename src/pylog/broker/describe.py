"""The description of topics and log directories: by their owner, and by a reader in its absence."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from pylog.errors import (
    InvalidTopic,
    LeaderNotAvailable,
    LogNotFound,
    PylogError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.files import Files, join
from pylog.logdirs.metadata_log import MetadataLog
from pylog.protocol.messages import INTERNAL_TOPICS, DescribedQuorum
from pylog.protocol.messages.topics import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from pylog.protocol.metadata_image import MetadataImage, PartitionImage, TopicImage
from pylog.protocol.topic_names import METADATA_TOPIC, unknown_topic, validate_topic_name
from pylog.record import TopicPartition
from pylog.storage.partition_dirs import folder_name, partition_folders

LogDir = DescribeLogDirsResponse.DescribeLogDirsResult


def describe_topics(
    image: MetadataImage, asked: MetadataRequest, leader_of: Callable[[PartitionImage], int]
) -> MetadataResponse:
    """Answer a Metadata request from an image: the topics named, or all; an unknown one carries its error."""
    if asked.topics is None and asked.partitions_max and len(image.topics) > asked.partitions_max:
        return MetadataResponse(lacks_partitions=True)
    if asked.topics is None:
        told = [_described(image.topics[name]) for name in sorted(image.topics)]
    else:
        told = [_found(image, one) for one in asked.topics]
    there = [(one, image.topics[one.name]) for one in told if one.error is None and one.name is not None]
    lacks = asked.partitions_max is not None and sum(len(one.partitions) for _, one in there) > asked.partitions_max
    if not lacks:
        for one, topic in there:
            one.partitions = _described_partitions(topic, leader_of)
    return MetadataResponse(topics=told, lacks_partitions=lacks)


def _found(image: MetadataImage, asked: MetadataRequest.MetadataRequestTopic) -> MetadataTopic:
    if asked.name is not None:
        topic = image.topics.get(asked.name)
        return MetadataTopic(name=asked.name, error=absent_topic(asked.name)) if topic is None else _described(topic)
    topic, topic_id = image.with_id(asked.topic_id), asked.topic_id
    if topic is not None:
        return _described(topic)
    return MetadataTopic(name=None, topic_id=topic_id, error=UnknownTopicId(f"there is no topic with id {topic_id}"))


def _described(topic: TopicImage) -> MetadataTopic:
    return MetadataTopic(name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS)


def _described_partitions(topic: TopicImage, leader_of: Callable[[PartitionImage], int]) -> list[MetadataPartition]:
    parts = [
        MetadataPartition(
            partition_index=number, leader_id=leader_of(state), leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas), isr_nodes=list(state.isr),
        )
        for number, state in sorted(topic.partitions.items())
    ]  # fmt: skip
    for part in parts:
        if part.leader_id < 0:
            part.error = LeaderNotAvailable("the partition has no leader for the moment")
    return parts


def describe_log_dirs(
    files: Files, paths: Iterable[str], failures: Mapping[str, PylogError], asked: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:  # fmt: skip
    """Answer a DescribeLogDirs request: the content of each directory, and why one is offline. Opens nothing."""
    wanted = (
        None if asked.topics is None else {(one.topic, number) for one in asked.topics for number in one.partitions}
    )
    return DescribeLogDirsResponse(
        results=[
            LogDir(log_dir=path, error=failures[path])
            if path in failures
            else LogDir(log_dir=path, topics=_content(files, path, wanted))
            for path in paths
        ]
    )


def _content(
    files: Files, path: str, wanted: set[tuple[str, int]] | None
) -> list[LogDir.DescribeLogDirsTopic]:  # fmt: skip
    """The partitions in a directory by topic, of those that are wanted; None: all of them."""
    topics: dict[str, LogDir.DescribeLogDirsTopic] = {}
    for topic, number in partition_folders(files, path):
        if wanted is None or (topic, number) in wanted:
            size = _size(files, join(path, folder_name(topic, number)))
            if size is not None:
                found = topics.setdefault(topic, LogDir.DescribeLogDirsTopic(name=topic))
                found.partitions.append(found.DescribeLogDirsPartition(partition_index=number, partition_size=size))
    return list(topics.values())


def describe_quorum(log: MetadataLog) -> DescribedQuorum:
    """Answer a DescribeQuorum request. A log that was never written to has epoch -1 and offset 0."""
    partition, directory_id = log.partition, log.directory.directory_id
    if partition is None:
        return DescribedQuorum(log.epoch, 0, 0, directory_id)
    return DescribedQuorum(partition.epochs.latest, partition.high_watermark, partition.next_offset, directory_id)


def _size(files: Files, folder: str) -> int | None:
    with suppress(LogNotFound):  # deleted meanwhile, or moved
        stats = [files.stat(join(folder, name)) for name in files.list_dir(folder) if name.endswith(".log")]
        return sum(stat.size for stat in stats if stat is not None)
    return None


def absent_topic(name: str) -> InvalidTopic | UnknownTopicOrPartition:
    """The error for a topic that is not there, or cannot be (Kafka: KafkaApis.getTopicMetadata)."""
    if name != METADATA_TOPIC and isinstance(name, str):
        try:
            validate_topic_name(name)
        except InvalidTopic as error:
            return error
    return unknown_topic(name)


def unknown_partition(topic: TopicImage | None, key: TopicPartition) -> UnknownTopicOrPartition:
    """The error for a partition that is not there, or not on this node."""
    if topic is None:
        return unknown_topic(key.topic)
    return UnknownTopicOrPartition(
        f"there is no partition {key.partition} of topic {key.topic!r} here; it has {len(topic.partitions)}, from 0 on"
    )
