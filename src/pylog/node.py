"""What a node keeps: its log directories, its catalogue, the topics opened so far, and its role for each partition.

A partition gets its role at first use, from the catalogue: leader where the catalogue names this node, follower (of
nobody, until it is told whom to fetch from) otherwise. A leader takes its epoch, in the metadata log, at the first
append after an open, so opening a directory to read it writes nothing.

After an unclean stop every partition is opened and recovered at once, so that what was cut is known and the next clean
stop is clean for all of them.
"""

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pylog.answers import describe_topics, unknown_partition, unknown_topic
from pylog.catalogue import Catalogue
from pylog.clock import Clock
from pylog.config import NodeConfig, TopicConfig
from pylog.directories import FUTURE, Directories, copy_files, remove_folder
from pylog.directory import LogDirectory, folder_name, set_aside
from pylog.errors import (
    DiskFull,
    FencedLeaderEpoch,
    InconsistentTopicId,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    NotLeaderOrFollower,
    PylogError,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicId,
)
from pylog.files import Files, join
from pylog.message import (
    NO_ID,
    ClusterMetadata,
    ConfigChange,
    NewPartitions,
    NewTopic,
    Replacement,
    TopicChange,
)
from pylog.metadata import (
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionImage,
    TopicImage,
    add_partitions,
    allocate_producer_ids,
    change_config,
    move_replica,
    remove_topic,
    take_leadership,
    validate_topic_name,
)
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.recovery import Quarantined, Recovered
from pylog.replica import Follower, Leader
from pylog.topic import Topic, remove_leftovers

logger = logging.getLogger("pylog")

MAX_PARTITIONS = 10_000
EPOCH_STEPS_MAX = 100_000
PRODUCER_IDS = 1000
"""How many producer ids a node takes at once (Kafka: ProducerIdsBlock)."""


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
    """The state of one node over its log directories. Thread-safe; its lock is held while a partition is opened.

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
        self._lock = threading.RLock()
        self._doomed: list[tuple[int, str]] = []
        self.directories = Directories(files, paths, node_id)
        self.id = self.directories.first.node_id
        try:
            self._catalogue = Catalogue(self.directories, clock.wall_ms)
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
        # After the moves: until then it may be the second copy of what is moved.
        for directory in self.directories:
            remove_leftovers(directory.files, directory.path)
        for name, image in self.image.topics.items():
            for number in self._places(image):
                self._recover(TopicPartition(name, number))

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

    def _recover(self, key: TopicPartition) -> None:
        """Open a partition at once if its directory was not closed cleanly, so that what was cut is known."""
        try:
            topic = self._topic(key.topic)
            if topic.home(key.partition).clean or not topic.exists(key.partition):
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
        if not topic.home(key.partition).clean:
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

    def check_topic_id(self, topic: str, topic_id: uuid.UUID) -> None:
        """Raise UnknownTopicId where the topic of that name is another one than is meant. NO_ID means any."""
        if topic_id is NO_ID:
            return
        image = self.image.topics.get(topic)
        if image is not None and topic_id != image.id and topic_id != NO_ID:
            raise UnknownTopicId(f"topic {topic!r} with id {topic_id} was deleted; the one of now has id {image.id}")

    def writer(self, topic: str, partition: int) -> Leader:
        """The leader role with an epoch, so that it may append."""
        held = self._roles.get((topic, partition))
        leader = held if isinstance(held, Leader) else self.leader(topic, partition)
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
        return self.image.topics[topic].partitions[partition].leader_epoch

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

    def _new_places(self, numbers: Iterable[int]) -> dict[int, uuid.UUID]:
        """Log directories for new partitions with these numbers."""
        taken = [place for image in self.image.topics.values() for place in self._places(image).values()]
        wanted = list(numbers)
        return dict(zip(wanted, self.directories.places(len(wanted), taken), strict=True))

    def create_topic(self, new: NewTopic) -> None:
        """Raises InvalidTopic, TopicAlreadyExists, InvalidPartitions, InvalidConfig; nothing is made then."""
        with self._lock:
            validate_topic_name(new.name, self.image.topics)
            if new.name in self.image.topics:
                raise TopicAlreadyExists(f"topic {new.name!r} exists already")
            if not 1 <= new.partitions <= MAX_PARTITIONS:
                raise InvalidPartitions(f"{new.partitions} partitions: a topic has 1 to {MAX_PARTITIONS}")
            config = TopicConfig.canonical(new.config)
            topic_id = uuid.uuid4()
            places = self._new_places(range(new.partitions))
            self._catalogue.commit(self._catalogue.new_topic(new.name, topic_id, places, config))
            self._new_topics.add(topic_id)

    def create_partitions(self, new: NewPartitions) -> None:
        """Add partitions to a topic, up to a total. Raises UnknownTopicOrPartition, InvalidPartitions.

        Records with a key go to other partitions from then on.
        """
        with self._lock:
            image = self._image(new.topic)
            if not len(image.partitions) < new.total <= MAX_PARTITIONS:
                raise InvalidPartitions(
                    f"topic {new.topic!r} has {len(image.partitions)} partitions: it can get more, up to "
                    f"{MAX_PARTITIONS} in all, not {new.total}"
                )
            missing = [number for number in range(new.total) if number not in image.partitions]
            places = self._new_places(missing)
            replicas = self._catalogue.replicas(places)
            self._catalogue.commit(add_partitions(image.id, replicas, leader=self.id))
            self._topic(new.topic).places.update(places)

    def alter_config(self, change: TopicChange) -> None:
        """Change the overrides of a topic's config; open partitions go by it at once. (IncrementalAlterConfigs)

        Raises UnknownTopicOrPartition, InvalidConfig; nothing is changed then.
        """
        with self._lock:
            image = self._image(change.topic)
            wanted = TopicConfig.canonical(changed(image.config, change.changes, self.topic_config({})))
            changes: dict[str, str | None] = {name: None for name in image.config if name not in wanted}
            changes |= {name: text for name, text in wanted.items() if image.config.get(name) != text}
            if changes:
                self._catalogue.commit(change_config(change.topic, changes))
                self._topic(change.topic).reconfigure(self.topic_config(wanted))

    def allocate_producer_ids(self) -> range:
        """Producer ids that nobody ever had: written down before they are used. Raises DiskFull, DurabilityUnknown."""
        with self._lock:
            first = self.image.next_producer_id
            registered = self.image.nodes.get(self.id)
            epoch = registered.epoch if registered is not None else 0
            self._catalogue.commit(allocate_producer_ids(self.id, epoch, first + PRODUCER_IDS))
            return range(first, first + PRODUCER_IDS)

    def _image(self, name: str) -> TopicImage:
        image = self.image.topics.get(name)
        if image is None:
            raise unknown_topic(name)
        return image

    def delete_topic(self, name: str) -> None:
        """Forget a topic and put its folders out of sight; `purge` removes them. Raises UnknownTopicOrPartition,
        InvalidTopic (internal topics stay).
        """
        with self._lock:
            image = self._image(name)
            if name.startswith("__"):
                raise InvalidTopic(f"{name!r} is internal and cannot be deleted")
            topic = self._topic(name)
            self._catalogue.commit(remove_topic(image.id))
            for number in image.partitions:
                self._roles.pop(TopicPartition(name, number), None)
                self._broken.pop(TopicPartition(name, number), None)
            del self._topics[name]
            due_ms = self._clock.wall_ms() + topic.config.file_delete_delay_ms
            self._doomed += [(due_ms, path) for path in topic.delete()]

    def delete_records(self, topic: str, number: int, offset: int) -> int:
        """Let a partition start at `offset`; gives where it starts. It is persisted before the answer.

        Raises what `Partition.delete_records` raises, and NotLeaderOrFollower.
        """
        partition = self.leader(topic, number).partition
        start = partition.delete_records(offset)
        with self._lock:
            self._topic(topic).home(number).write_start_offset(partition)
        return start

    def move(self, wanted: Replacement) -> None:
        """Let a partition lie in another log directory. Most of it is copied while it is in use.

        Raises LogDirNotFound, UnknownTopicOrPartition, KafkaStorage, DiskFull (it stays where it is).
        """
        key = TopicPartition(wanted.topic, wanted.partition)
        partition, source = self.partition(*key), self.home(key)
        target, files = self.directories.with_path(wanted.path), self.directories.files
        if target is source:
            return
        future = join(target.path, set_aside(*key, uuid.uuid4(), FUTURE))
        files.make_dir(future)
        with ExitStack() as undo:
            undo.callback(files.remove_dir, future)
            copy_files(files, partition.directory, future, partition.sealed_files())
            with self._lock:
                self._roles.pop(key, None)
                self._topic(key.topic).drop(key.partition)
                names = files.list_dir(partition.directory)
                copy_files(files, partition.directory, future, names)
                for name in set(files.list_dir(future)) - set(names):
                    files.remove(join(future, name))
                files.sync_dir(future)
                files.sync_dir(target.path)
                self._decide_move(key, source, target)
                undo.pop_all()
                self._finish_move(key, source, target, future)

    def _decide_move(self, key: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
        image = self.image.topics[key.topic]
        state = image.partitions[key.partition]
        mine = zip(state.replicas, state.directories, strict=True)
        places = [target.directory_id if node == self.id else place for node, place in mine]
        target.take_over(key, source, image.id)
        self._catalogue.commit(move_replica(image.id, key.partition, places))

    def _finish_move(self, key: TopicPartition, source: LogDirectory, target: LogDirectory, future: str) -> None:
        files = self.directories.files
        try:
            away = join(source.path, remove_folder(files, source, key))
            files.rename(future, join(target.path, folder_name(*key)))
            files.sync_dir(target.path)
        except StorageError as error:
            # Whatever was appended before the next open has finished it would be lost then.
            self._broken[key] = error
            raise
        source.forget(key.topic, [key.partition])
        due_ms = self._clock.wall_ms() + self._topic(key.topic).config.file_delete_delay_ms
        self._doomed.append((due_ms, away))
        self._topic(key.topic).places[key.partition] = target.directory_id

    # --- upkeep ----------------------------------------------------------------------------------------------------

    @property
    def opened(self) -> list[Partition]:
        """The partitions opened so far, without the metadata log."""
        with self._lock:
            return [partition for topic in self._topics.values() for partition in topic.opened]

    def checkpoint(self) -> None:
        """Persist how far each open partition is durable, so that recovery after a crash reads less.

        A directory that cannot be written to goes offline, with its partitions.
        """
        with self._lock:
            for directory in list(self.directories):
                try:
                    directory.write_checkpoints(self._opened_in(directory))
                except DiskFull:
                    # The old ones are right, if late.
                    logger.warning("%s is full: checkpoints are late", directory.path)
                except StorageError as error:
                    self.directories.fail(directory, error)

    def _opened_in(self, directory: LogDirectory) -> list[Partition]:
        metadata = self._catalogue.partition
        opened = self.opened + ([metadata] if metadata is not None else [])
        return [p for p in opened if p.directory.rpartition("/")[0] == directory.path.rstrip("/")]

    def kept(self) -> Iterator[Partition]:
        """Every partition that has a folder here, opened if need be; what cannot be, or goes meanwhile, is left out."""
        with self._lock:
            keys = [TopicPartition(name, n) for name, image in self.image.topics.items() for n in self._places(image)]
        for key in keys:
            try:
                with self._lock:
                    found = self._topic(key.topic).exists(key.partition)
                if found:
                    yield self.partition(*key)
            except PylogError as error:
                logger.debug("%s-%d is left out: %s", *key, error)
            except Exception:
                logger.exception("%s-%d could not be opened, as should never happen, and is left out", *key)

    def home(self, key: TopicPartition) -> LogDirectory:
        """The log directory that a partition lies in. Raises UnknownTopicOrPartition, KafkaStorage."""
        with self._lock:
            if key.topic not in self.image.topics or key.partition not in self._topic(key.topic).places:
                raise unknown_partition(self.image.topics.get(key.topic), key)
            return self._topic(key.topic).home(key.partition)

    def purge(self, now_ms: int) -> None:
        """Remove the files whose `file.delete.delay.ms` has passed: of dropped segments, and of deleted topics."""
        for partition in self.opened:
            try:
                partition.purge(now_ms)
            except StorageError as error:
                logger.warning("files of %s-%d could not be removed: %s", partition.topic, partition.number, error)
        with self._lock:
            due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
            self._doomed = [(due_ms, path) for due_ms, path in self._doomed if due_ms > now_ms]
        for path in due:
            try:
                self.directories.files.remove_dir(path)
            except StorageError as error:
                logger.warning("%s could not be removed; the next open tries again: %s", path, error)

    @property
    def purge_due_ms(self) -> int | None:
        """When `purge` has something to do (wall clock); None when nothing waits."""
        times = [partition.purge_due_ms for partition in self.opened] + [due for due, _ in self._doomed]
        return min((due for due in times if due is not None), default=None)

    def close(self) -> None:
        """Close every partition, write the checkpoints and, where all went well, the clean-shutdown markers."""
        with self._lock:
            opened = {directory.path: self._opened_in(directory) for directory in self.directories}
            try:
                with ExitStack() as closing:
                    # In reverse, and each whatever becomes of the others; an error is raised in the end.
                    for directory in list(self.directories):
                        closing.callback(self._close_directory, directory, opened[directory.path])
                    closing.callback(self._catalogue.close)
                    for topic in self._topics.values():
                        closing.callback(topic.close)
            finally:
                self.directories.release()

    def _close_directory(self, directory: LogDirectory, opened: list[Partition]) -> None:
        broken = any(self.directories.has_folder(directory, key) for key in self._broken)
        directory.write_checkpoints(opened)
        directory.close(clean=not broken and not any(partition.failed for partition in opened))


def changed(config: Mapping[str, str], changes: Sequence[ConfigChange], defaults: TopicConfig) -> dict[str, str]:
    """The overrides `config` after some changes; lists that are not overridden grow and shrink from `defaults`.

    Raises InvalidConfig for an operation that makes no sense, and for the name of a config that there is not.
    """
    wanted = dict(config)
    for change in changes:
        if change.operation == "delete":
            if wanted.pop(change.name, None) is None:
                TopicConfig.check_name(change.name)
            continue
        if change.value is None:
            raise InvalidConfig(f"{change.name}: a value is missing")
        if change.operation == "set":
            wanted[change.name] = change.value
        elif change.operation in ("append", "subtract"):
            TopicConfig.check_name(change.name, is_list=True)
            known = wanted.get(change.name, defaults.to_kafka()[change.name])
            given = [item.strip() for item in change.value.split(",")]
            kept = [item for item in known.split(",") if item and item not in given]
            wanted[change.name] = ",".join(kept + given if change.operation == "append" else kept)
        else:
            raise InvalidConfig(f"{change.name}: {change.operation!r} is not set, delete, append or subtract")
    return wanted
