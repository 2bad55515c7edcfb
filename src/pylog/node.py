"""What a node keeps: its log directory, its catalogue, the topics opened so far and the role it has for each partition.

A partition gets its role at first use, from the catalogue: leader where the catalogue names this node, follower (of
nobody, until it is told whom to fetch from) otherwise. A leader takes its epoch, in the metadata log, at the first
append after an open, so opening a directory to read it writes nothing.

After an unclean stop every partition is opened and recovered at once, so that what was cut is known and the next clean
stop is clean for all of them.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pylog.catalogue import Catalogue
from pylog.clock import Clock
from pylog.config import NodeConfig, TopicConfig
from pylog.directory import LogDirectory
from pylog.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    InvalidPartitions,
    InvalidTopic,
    NotLeaderOrFollower,
    PylogError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from pylog.files import Files
from pylog.message import ClusterMetadata, NewTopic, PartitionMetadata, TopicMetadata
from pylog.metadata import MetadataImage, PartitionImage, TopicImage, remove_topic, take_leadership, validate_topic_name
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.recovery import Recovered
from pylog.replica import Follower, Leader
from pylog.topic import Topic, remove_leftovers

logger = logging.getLogger("pylog")

MAX_PARTITIONS = 10_000
EPOCH_STEPS_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The role of leader of a partition. `replicas` are all nodes that keep it, this one among them."""

    topic: str
    partition: int
    leader_epoch: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """The role of follower of `leader`. It describes the topic as a whole, for a node that has never heard of it."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    partitions: int
    leader: int
    leader_epoch: int
    config: dict[str, str] = field(default_factory=dict)


class Node:
    """The state of one node over one log directory. Thread-safe; its lock is held while a partition is opened.

    `visible_when_durable`: see `replica.Leader`.
    Raises at construction: what `LogDirectory` and the metadata log raise.
    """

    def __init__(
        self, files: Files, path: str, config: NodeConfig, clock: Clock, *, node_id: int | None,
        visible_when_durable: bool,
    ) -> None:  # fmt: skip
        self.config = config
        self.recovered: list[Recovered] = []
        self._clock = clock
        self._visible_when_durable = visible_when_durable
        self._topics: dict[str, Topic] = {}
        self._roles: dict[TopicPartition, Leader | Follower] = {}
        self._broken: dict[TopicPartition, PylogError] = {}
        self._new_topics: set[uuid.UUID] = set()
        self._lock = threading.RLock()
        self._directory = LogDirectory(files, path, node_id)
        self.id = self._directory.node_id
        try:
            self._catalogue = Catalogue(self._directory, clock.wall_ms)
            remove_leftovers(self._directory)
            if not self._directory.clean:
                self._recover_all()
        except BaseException:
            self._directory.close(clean=False)
            raise

    @property
    def image(self) -> MetadataImage:
        return self._catalogue.image

    def _recover_all(self) -> None:
        for name, image in self.image.topics.items():
            for number, state in image.partitions.items():
                if self.id in state.replicas and self._topic(name).exists(number):
                    self._recover(TopicPartition(name, number))

    def _recover(self, key: TopicPartition) -> None:
        try:
            recovered = self.partition(*key).recovered
        except PylogError as error:
            # One damaged partition is no reason to refuse the others; whoever asks for it gets this error.
            logger.error("%s-%d could not be opened: %s", *key, error)
            self._broken[key] = error
            return
        if recovered is not None:
            self.recovered.append(recovered)

    # --- roles -----------------------------------------------------------------------------------------------------

    def partition(self, topic: str, number: int) -> Partition:
        """The partition as this node keeps it, whatever its role. Raises UnknownTopicOrPartition, CorruptBatch."""
        return self.role(TopicPartition(topic, number)).partition

    def role(self, key: TopicPartition) -> Leader | Follower:
        """This node's role for a partition, which is opened at its first use."""
        role = self._roles.get(key)
        if role is not None:
            return role
        with self._lock:
            if key in self._broken:
                raise self._broken[key].with_traceback(None)
            if key not in self._roles:
                self._roles[key] = self._make_role(key)
            return self._roles[key]

    def held(self, topic: str, number: int) -> Leader | Follower | None:
        """The role this node has taken up, if any: nothing is opened for the question."""
        return self._roles.get(TopicPartition(topic, number))

    def _make_role(self, key: TopicPartition) -> Leader | Follower:
        image = self.image.topics.get(key.topic)
        state = image.partitions.get(key.partition) if image is not None else None
        if state is None or self.id not in state.replicas:
            raise unknown_partition(image, key)
        partition = self._topic(key.topic).partition(key.partition, self._clock.wall_ms())
        if not self._directory.clean:
            partition.sync()
        if self.leader_of(state) != self.id:
            return Follower(partition, leader=state.leader, epoch=state.leader_epoch)
        leader = self._make_leader(partition, None, frozenset(state.replicas))
        leader.advance()
        return leader

    def leader_of(self, state: PartitionImage) -> int:
        """Who leads a partition: a single replica leads itself, also where the last word is that it has no leader (as
        Kafka's controller writes when a node stops).
        """
        return self.id if list(state.replicas) == [self.id] else state.leader

    def describe(self, names: list[str] | None) -> ClusterMetadata:
        """Answer a Metadata request: what the catalogue says, and the roles that were given since."""
        described = describe_topics(self.image, names, self.leader_of)
        for topic in described.topics:
            for state in topic.partitions:
                role = self._roles.get(TopicPartition(topic.name, state.partition))
                if role is not None and role.epoch is not None:
                    state.leader = self.id if isinstance(role, Leader) else role.leader
                    state.leader_epoch = role.epoch
        return described

    def _make_leader(self, partition: Partition, epoch: int | None, replicas: frozenset[int]) -> Leader:
        followers = replicas - {self.id}
        return Leader(partition, epoch=epoch, followers=followers, visible_when_durable=self._visible_when_durable)

    def leader(self, topic: str, partition: int) -> Leader:
        """The leader role. Raises NotLeaderOrFollower where this node follows another."""
        role = self.role(TopicPartition(topic, partition))
        if not isinstance(role, Leader):
            raise NotLeaderOrFollower(f"node {self.id} follows node {role.leader} for {topic}-{partition}")
        return role

    def writer(self, topic: str, partition: int) -> Leader:
        """The leader role with an epoch, so that it may append."""
        leader = self.leader(topic, partition)
        if leader.epoch is None:
            with self._lock:
                if leader.epoch is None:
                    leader.epoch = self._take_epoch(topic, partition)
        return leader

    def _take_epoch(self, topic: str, partition: int) -> int:
        image = self.image.topics[topic]
        known = self.partition(topic, partition).epochs.latest
        steps = known + 1 - image.partitions[partition].leader_epoch
        if image.id not in self._new_topics or steps > 0:
            # More than one where the log came from elsewhere and has seen more leaders than this catalogue.
            if steps > EPOCH_STEPS_MAX:
                raise FencedLeaderEpoch(f"{topic}-{partition}: its log is in epoch {known}, far beyond the catalogue's")
            self._catalogue.commit(take_leadership(image.id, partition, self.id) * max(steps, 1))
        return image.partitions[partition].leader_epoch

    def lead(self, effect: Lead) -> None:
        """Become the leader of a partition in a given epoch.

        Raises FencedLeaderEpoch when the log knows a newer one.
        """
        with self._lock:
            partition = self.partition(effect.topic, effect.partition)
            partition.begin_epoch(effect.leader_epoch)
            leader = self._make_leader(partition, effect.leader_epoch, frozenset(effect.replicas))
            leader.advance()
            self._roles[TopicPartition(effect.topic, effect.partition)] = leader

    def follow(self, effect: Follow) -> Follower:
        """Become a follower; a topic that this node does not know is written into its catalogue first, so that it is
        nobody's leader after the next open. Raises InvalidTopic, InconsistentTopicId (the name is another topic's).
        """
        with self._lock:
            validate_topic_name(effect.topic)
            image = self.image.topics.get(effect.topic)
            if image is None:
                records = self._catalogue.new_topic(
                    effect.topic, effect.topic_id, effect.partitions, effect.config, effect.leader
                )
                self._catalogue.commit(records)
            elif image.id != effect.topic_id:
                raise InconsistentTopicId(
                    f"topic {effect.topic!r} has id {image.id} here and {effect.topic_id} there: delete one of them"
                )
            partition = self.partition(effect.topic, effect.partition)
            follower = Follower(partition, leader=effect.leader, epoch=effect.leader_epoch)
            self._roles[TopicPartition(effect.topic, effect.partition)] = follower
            return follower

    # --- topics ----------------------------------------------------------------------------------------------------

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config on this node of a topic with these overrides."""
        return TopicConfig.loaded(overrides, defaults=self.config.topic_defaults)

    def _topic(self, name: str) -> Topic:
        if name not in self._topics:
            image = self.image.topics[name]
            numbers = [number for number, state in image.partitions.items() if self.id in state.replicas]
            config = self.topic_config(image.config)
            self._topics[name] = Topic(self._directory, name, image.id, config, numbers)
        return self._topics[name]

    def create_topic(self, new: NewTopic) -> None:
        """Raises InvalidTopic, TopicAlreadyExists, InvalidPartitions, InvalidConfig; nothing is made then."""
        with self._lock:
            validate_topic_name(new.name)
            if new.name in self.image.topics:
                raise TopicAlreadyExists(f"topic {new.name!r} exists already")
            if not 1 <= new.partitions <= MAX_PARTITIONS:
                raise InvalidPartitions(f"{new.partitions} partitions: a topic has 1 to {MAX_PARTITIONS}")
            config = TopicConfig.canonical(new.config)
            topic_id = uuid.uuid4()
            self._catalogue.commit(self._catalogue.new_topic(new.name, topic_id, new.partitions, config))
            self._new_topics.add(topic_id)

    def delete_topic(self, name: str) -> None:
        """Forget a topic and remove its folders. Raises UnknownTopicOrPartition, InvalidTopic (internal topics
        stay).
        """
        with self._lock:
            image = self.image.topics.get(name)
            if image is None:
                raise unknown_topic(name)
            if name.startswith("__"):
                raise InvalidTopic(f"{name!r} is internal and cannot be deleted")
            topic = self._topic(name)
            self._catalogue.commit(remove_topic(image.id))
            for number in image.partitions:
                self._roles.pop(TopicPartition(name, number), None)
                self._broken.pop(TopicPartition(name, number), None)
            del self._topics[name]
            topic.delete()

    # --- upkeep ----------------------------------------------------------------------------------------------------

    @property
    def opened(self) -> list[Partition]:
        """The partitions opened so far, without the metadata log."""
        with self._lock:
            return [partition for topic in self._topics.values() for partition in topic.opened]

    def checkpoint(self) -> None:
        """Persist how far each open partition is durable, so that recovery after a crash reads less."""
        with self._lock:
            self._directory.write_checkpoints(self._all_opened())

    def _all_opened(self) -> list[Partition]:
        metadata = self._catalogue.partition
        return self.opened + ([metadata] if metadata is not None else [])

    def close(self) -> None:
        """Close every partition, write the checkpoints and, where all went well, the clean-shutdown marker."""
        with self._lock:
            clean = not self._broken
            opened = self._all_opened()
            try:
                with ExitStack() as closing:
                    # In reverse, and each whatever becomes of the others; an error is raised in the end.
                    closing.callback(self._directory.write_checkpoints, opened)
                    closing.callback(self._catalogue.close)
                    for topic in self._topics.values():
                        closing.callback(topic.close)
                clean = clean and not any(partition.failed for partition in opened)
            except BaseException:
                clean = False
                raise
            finally:
                self._directory.close(clean=clean)


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
