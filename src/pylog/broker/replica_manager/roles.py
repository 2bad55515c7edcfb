"""A node's role for each partition, over its log directories and its catalogue.

A partition gets its role at first use, from the catalogue: leader where the catalogue names this node, follower (of
nobody, until it is told whom to fetch from) otherwise. A leader has its epoch, in the metadata log, from the first
append after an open on, so opening a directory to read it writes nothing: the one it had when it closed cleanly, else a
new one.

After an unclean stop every partition is opened and recovered at once, so that what was cut is known and the next clean
stop is clean for all of them.
"""

import logging
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pylog.broker.describe import describe_topics, unknown_partition, unknown_topic
from pylog.commitlog.recovery import Quarantined, Recovered
from pylog.config import NodeConfig, TopicConfig
from pylog.errors import (
    DiskFull,
    FencedLeaderEpoch,
    InconsistentTopicId,
    NotLeaderOrFollower,
    PylogError,
    StorageError,
    UnknownTopicId,
)
from pylog.files import Files
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.log_directory import LogDirectory
from pylog.logdirs.metadata_log import Catalogue
from pylog.partition import Partition
from pylog.protocol.messages import NO_EPOCH, NO_ID, ClusterMetadata
from pylog.protocol.metadata_changes import take_leadership
from pylog.protocol.metadata_image import (
    METADATA_TOPIC_ID,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionImage,
    TopicImage,
    validate_topic_name,
)
from pylog.record import TopicPartition
from pylog.replica import Follower, Leader
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock, opened
from pylog.topic import Topic, remove_leftovers

logger = logging.getLogger("pylog")

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


class Roles:
    """What a node has opened, and as what. Thread-safe; its lock is held while a partition is opened.

    `visible_when_durable`: see `replica.Leader`.
    Raises at construction: what `LogDirectory` and the metadata log raise.
    """

    def __init__(
        self, files: Files, paths: Sequence[str], config: NodeConfig, clock: Clock, *, node_id: int | None,
        visible_when_durable: bool,
    ) -> None:  # fmt: skip
        self.config = config
        self.recovered: list[Recovered] = []
        self.quarantined: list[Quarantined] = []
        self._clock = clock
        self._visible_when_durable = visible_when_durable
        self._topics: dict[str, Topic] = {}
        self._roles: dict[tuple[str, int], Leader | Follower] = {}
        self._broken: dict[TopicPartition, PylogError | None] = {}  # None: its next use tries again
        self._new_topics: set[uuid.UUID] = set()
        self._moved: set[tuple[str, int]] = set()  # since the node was opened
        self._lock = WholeLock(threading.RLock())
        self._doomed: list[tuple[int, str]] = []
        self.directories = Directories(files, paths, node_id)
        self.id = self.directories.first.node_id
        try:
            self._catalogue = Catalogue(
                self.directories, clock.wall_ms, config.metadata_log_max_record_bytes_between_snapshots
            )
            self._settle()
        except BaseException:
            self.directories.release()
            raise

    def _settle(self) -> None:
        """Finish what a crash has interrupted, and recover the partitions of directories that were not closed."""
        self.directories.settle_moves(
            {
                TopicPartition(name, number): (image.id, place)
                for name, image in self.image.topics.items()
                for number, place in self._places(image).items()
            }
        )
        there = {METADATA_TOPIC_ID, *(image.id for image in self.image.topics.values())}
        # After the moves: until then it may be the second copy of what is moved.
        for directory in self.directories:
            directory.free_entries(there)
            remove_leftovers(directory.files, directory.path)
        for name, image in self.image.topics.items():
            for number in self._places(image):
                self._recover(TopicPartition(name, number))
                with opened():
                    # There may be much to recover: Ctrl-C ends it between two partitions.
                    pass

    def _places(self, image: TopicImage) -> dict[int, uuid.UUID]:
        """The partitions of a topic that this node keeps, and the log directories where the catalogue has them."""
        places = {}
        for number, state in image.partitions.items():
            if self.id in state.replicas:
                index = list(state.replicas).index(self.id)
                known = index < len(state.directories)
                places[number] = state.directories[index] if known else UNASSIGNED_DIRECTORY
        return places

    @property
    def image(self) -> MetadataImage:
        return self._catalogue.image

    @property
    def has_adopted(self) -> bool:
        """Whether this open has made topics of folders from elsewhere."""
        return self._catalogue.has_adopted

    @property
    def was_closed(self) -> bool:
        """Whether the last owner has closed every directory."""
        return all(directory.clean for directory in self.directories)

    def _recover(self, key: TopicPartition) -> None:
        """Open a partition at once if its directory was not closed cleanly, so that what was cut is known."""
        try:
            topic = self._topic(key.topic)
            if topic.home(key.partition).is_clean(key) or not topic.exists(key.partition):
                return
            self.partition(*key)
        except PylogError as error:
            # One damaged partition is no reason to refuse the others; whoever asks for it gets this error.
            logger.error("%s-%d could not be opened: %s", *key, error)
            self._broken[key] = None if isinstance(error, DiskFull) else error

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
            broken = self._broken.get(key)
            if broken is not None:
                raise broken.with_traceback(None)
            if key not in self._roles:
                self._roles[key] = self._make_role(key)
                self._broken.pop(key, None)
            return self._roles[key]

    def held(self, topic: str, number: int) -> Leader | Follower | None:
        """The role this node has taken up, if any: nothing is opened for the question."""
        return self._roles.get((topic, number))

    def _make_role(self, key: TopicPartition) -> Leader | Follower:
        image = self.image.topics.get(key.topic)
        state = image.partitions.get(key.partition) if image is not None else None
        if state is None or self.id not in state.replicas:
            raise unknown_partition(image, key)
        topic = self._topic(key.topic)
        partition = topic.partition(key.partition, self._clock.wall_ms())
        self.recovered += [partition.recovered] if partition.recovered is not None else []
        self.quarantined += partition.quarantined
        if not partition.opened_clean:
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
        role = self._roles.get((topic, partition)) or self.role(TopicPartition(topic, partition))
        if not isinstance(role, Leader):
            raise NotLeaderOrFollower(f"node {self.id} follows node {role.leader} for {topic}-{partition}")
        return role

    def check_topic_id(self, topic: str, topic_id: uuid.UUID) -> None:
        """Raise UnknownTopicId where the topic of that name is another one than is meant. NO_ID means any."""
        if topic_id is NO_ID:
            return
        image = self._catalogue.image.topics.get(topic)
        if image is not None and topic_id not in (image.id, NO_ID):
            raise UnknownTopicId(f"topic {topic!r} with id {topic_id} was deleted; the one of now has id {image.id}")

    def writer(self, topic: str, partition: int, *, epoch: int = NO_EPOCH) -> Leader:
        """The leader role with an epoch, so that it may append: with `epoch`, or a later one."""
        leader = self.leader(topic, partition)
        if leader.epoch is None or leader.epoch < epoch:
            with self._lock:
                if leader.epoch is None or leader.epoch < epoch:
                    leader.epoch = self._take_epoch(topic, partition, epoch)
        return leader

    def _take_epoch(self, topic: str, partition: int, epoch: int) -> int:
        """A leader epoch, `epoch` or a later one, in which no other node has written, nor this one what is not here any
        more.

        The last one goes on after a clean close: what was written in it is all here, so its next record gets an offset
        that it has not given yet. Never after anything else, nor where another one has led since.
        """
        image = self.image.topics[topic]
        state, log = image.partitions[partition], self.partition(topic, partition)
        latest = log.epochs.latest
        is_last = state.leader == self.id and epoch <= latest == state.leader_epoch
        if is_last and not self._is_spent((topic, partition), log):
            return latest
        known = max(latest, epoch - 1)
        steps = known + 1 - state.leader_epoch
        if image.id not in self._new_topics or steps > 0:
            # More than one where the log came from elsewhere and has seen more leaders than this catalogue.
            if steps > EPOCH_STEPS_MAX:
                raise FencedLeaderEpoch(f"{topic}-{partition}: its log is in epoch {known}, far beyond the catalogue's")
            self._catalogue.commit(take_leadership(image.id, partition, self.id) * max(steps, 1))
        return self.image.topics[topic].partitions[partition].leader_epoch

    def _is_spent(self, key: tuple[str, int], log: Partition) -> bool:
        """Whether the last epoch of a partition must not go on: what was written in it may be missing."""
        return not log.as_closed or log.is_cut or key in self._moved

    def _end_epochs(self) -> bool:
        """Let no epoch that is spent look at the next open as if it could go on: the catalogue gets another one, where
        the partition has none yet. Gives whether that is durable.
        """
        records: list[bytes] = []
        for key in {*self._roles, *self._moved}:
            role, image = self._roles.get(key), self.image.topics.get(key[0])
            state = image.partitions.get(key[1]) if image is not None else None
            if image is None or state is None or state.leader != self.id:
                continue
            is_spent = role is None or (
                role.partition.epochs.latest == state.leader_epoch
                and (role.partition.is_cut or role.epoch is None or isinstance(role, Follower))
                and self._is_spent(key, role.partition)
            )
            records += take_leadership(image.id, key[1], self.id) if is_spent else []
        try:
            if records:
                self._catalogue.commit(records)
        except StorageError as error:
            logger.error("the log is not closed cleanly, for no new leader epochs could be written: %s", error)
            return False
        return True

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
                places = self._new_places(range(effect.partitions))
                records = self._catalogue.new_topic(effect.topic, effect.topic_id, places, effect.config, effect.leader)
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
            image = self._image(name)
            config = self.topic_config(image.config)
            self._topics[name] = Topic(
                self.directories, name, image.id, config, self._places(image), self.image.removed, self.config
            )
        return self._topics[name]

    def _image(self, name: str) -> TopicImage:
        image = self.image.topics.get(name)
        if image is None:
            raise unknown_topic(name)
        return image

    def home(self, key: TopicPartition) -> LogDirectory:
        """The log directory that a partition lies in. Raises UnknownTopicOrPartition, KafkaStorage."""
        with self._lock:
            if key.topic not in self.image.topics or key.partition not in self._topic(key.topic).places:
                raise unknown_partition(self.image.topics.get(key.topic), key)
            return self._topic(key.topic).home(key.partition)

    def _new_places(self, numbers: Iterable[int]) -> dict[int, uuid.UUID]:
        """Log directories for new partitions with these numbers."""
        taken = [place for image in self.image.topics.values() for place in self._places(image).values()]
        wanted = list(numbers)
        return dict(zip(wanted, self.directories.places(len(wanted), taken), strict=True))
