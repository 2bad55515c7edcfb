"""The topics of a node: their entries in the metadata log, and the log directories of their partitions.

Before anything is opened, the moves that were decided before a crash are finished, and its other remains are removed.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence

from pylog.broker.describe import unknown_partition
from pylog.broker.describe_configs import looked_up
from pylog.commitlog.deleted_segments import RETRY_MS
from pylog.config import NodeConfig, TopicConfig
from pylog.controller.controller import Controller
from pylog.errors import LogNotFound, StorageError
from pylog.files import Files
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.log_directory import LogDirectory
from pylog.logdirs.metadata_log import MetadataLog
from pylog.metrics.histogram import Histogram, Times, histogram_of
from pylog.partition import Partition
from pylog.protocol.messages import ResourceType
from pylog.protocol.metadata_image import METADATA_TOPIC_ID, MetadataDelta, MetadataImage, TopicImage
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock
from pylog.storage.partition_dirs import folder_name
from pylog.topic import Topic, remove_leftovers

logger = logging.getLogger("pylog.broker")


class LocalTopics:
    """The metadata log, the log directories, and the topics opened so far. `lock` is held around every change.

    Raises at construction: what `LogDirectory` and the metadata log raise.
    """

    def __init__(
        self, files: Files, paths: Sequence[str], config: NodeConfig, clock: Clock, lock: WholeLock, node_id: int | None
    ) -> None:
        self.made: set[uuid.UUID] = set()
        """The topics that were made since the node was opened, with this node as their first leader."""
        self.opened: dict[str, Topic] = {}
        self._clock = clock
        self._lock = lock
        self._flushes_of_closed = Times().histogram
        self._doomed: list[tuple[int, str]] = []
        self.directories = Directories(files, paths, node_id)
        self.node_id = self.directories.first.node_id
        self.configs = looked_up(lambda: self.image, config, str(self.node_id))
        self.controller = Controller(self.node_id, self.configs, lambda: self.metadata_log.image)
        try:
            self.metadata_log = MetadataLog(
                self.directories, clock.wall_ms, config.metadata_log_max_record_bytes_between_snapshots
            )
            self._complete_interrupted()
        except BaseException:
            self.directories.release()
            raise

    def _complete_interrupted(self) -> None:
        """Finish what a crash has interrupted."""
        self.directories.complete_moves(
            {
                TopicPartition(name, number): (image.id, place)
                for name, image in self.image.topics.items()
                for number, place in self.places(image).items()
            }
        )
        there = {METADATA_TOPIC_ID, *(image.id for image in self.image.topics.values())}
        # This comes after the moves: until then the folder may be the second copy of a partition that moves.
        for directory in self.directories:
            directory.free_entries(there)
            remove_leftovers(directory.files, directory.path)

    @property
    def config(self) -> NodeConfig:
        """The config by which the node goes now."""
        return self.configs.current

    # --- in the metadata log ------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta) -> None:
        """Put the folders of removed topics away, and have the opened ones go by their new configs and partitions."""
        # First: the others are looked up in the image.
        for removed in delta.topics_removed.values():
            self._remove(removed)
        is_all = any(resource.type is ResourceType.BROKER for resource in delta.configs)
        names = {resource.name for resource in delta.configs if resource.type is ResourceType.TOPIC}
        for name in self.opened if is_all else names & self.opened.keys():
            self.opened[name].reconfigure(self.config_of(self.image_of(name).config))
        for topic_id in {topic_id for (topic_id, _), before in delta.partitions.items() if before is None}:
            image = self.image.with_id(topic_id)
            if image is not None and image.name in self.opened:
                topic = self.opened[image.name]
                topic.places.update({n: at for n, at in self.places(image).items() if n not in topic.places})
        for topic_id in delta.topics_made:
            image = self.image.with_id(topic_id)
            if image is not None and all(state.leader == self.node_id for state in image.partitions.values()):
                self.made.add(topic_id)

    def _remove(self, image: TopicImage) -> None:
        opened = self.opened.get(image.name)
        if opened is not None and opened.id == image.id:
            del self.opened[image.name]
        elif image.name in self.image.topics:
            # Another topic has the name by now: its first use puts the folders away.
            return
        else:
            opened = self._make(image)
        self.doom(opened.delete(), opened.config)

    @property
    def image(self) -> MetadataImage:
        return self.metadata_log.image

    def image_of(self, name: str) -> TopicImage:
        """One topic. Raises UnknownTopicOrPartition."""
        return self.image.topic(name)

    def config_of(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config on this node of a topic with these overrides."""
        return TopicConfig.loaded(overrides, defaults=self.config.topic_defaults)

    def places(self, image: TopicImage) -> dict[int, uuid.UUID]:
        """The partitions of a topic that this node keeps, and the log directories where the metadata log has them."""
        node = self.node_id
        return {n: state.directory_of(node) for n, state in image.partitions.items() if node in state.replicas}

    @property
    def kept(self) -> list[TopicPartition]:
        """The partitions that this node keeps."""
        return [TopicPartition(name, n) for name, image in self.image.topics.items() for n in self.places(image)]

    @property
    def present(self) -> list[TopicPartition]:
        """Those of them that have a folder now; all, where a directory cannot tell. One without has no records yet."""
        if self.directories.failures:
            return self.kept
        try:
            there = {name for home in self.directories for name in home.files.list_dir(home.path)}
        except StorageError:
            return self.kept
        return [key for key in self.kept if folder_name(*key) in there]

    # --- opened -------------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """A topic, opened at its first use. Raises UnknownTopicOrPartition."""
        if name not in self.opened:
            self.opened[name] = self._make(self.image_of(name))
        return self.opened[name]

    def _make(self, image: TopicImage) -> Topic:
        return Topic(
            self.directories, image.name, image.id, self.config_of(image.config), self.places(image),
            self.image.removed, self.configs, self._note_closed,
        )  # fmt: skip

    def home(self, key: TopicPartition) -> LogDirectory:
        """The log directory that a partition lies in. Raises UnknownTopicOrPartition, KafkaStorage."""
        with self._lock:
            if key.topic not in self.image.topics or key.partition not in self.topic(key.topic).places:
                raise unknown_partition(self.image.topics.get(key.topic), key)
            return self.topic(key.topic).home(key.partition)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions opened so far, without the metadata log."""
        with self._lock:
            return [partition for topic in self.opened.values() for partition in topic.opened]

    @property
    def all_partitions(self) -> list[Partition]:
        """The partitions opened so far, and the metadata log."""
        metadata = self.metadata_log.partition
        return self.partitions + ([metadata] if metadata is not None else [])

    def in_directory(self, directory: LogDirectory) -> list[Partition]:
        """Those of `all_partitions` that lie in `directory`."""
        path = directory.path.rstrip("/")
        return [partition for partition in self.all_partitions if partition.directory.rpartition("/")[0] == path]

    @property
    def flushes(self) -> Histogram:
        """The syncs of the partitions opened so far, and of those that were closed since."""
        with self._lock:
            states, closed = [partition.state for partition in self.partitions], self._flushes_of_closed
        return sum((histogram_of(state.sync_counts, state.sync_ns) for state in states), closed)

    def _note_closed(self, partition: Partition) -> None:
        state = partition.state
        self._flushes_of_closed += histogram_of(state.sync_counts, state.sync_ns)

    # --- removed ------------------------------------------------------------------------------------------------------

    def doom(self, paths: Iterable[str], config: TopicConfig) -> None:
        """Have folders removed when the topic's `file.delete.delay.ms` has passed."""
        due_ms = self._clock.wall_ms() + config.file_delete_delay_ms
        self._doomed += [(due_ms, path) for path in paths]

    def purge(self, now_ms: int) -> None:
        """Remove the files whose `file.delete.delay.ms` has passed: of dropped segments, and of deleted topics."""
        for partition in self.partitions:
            try:
                partition.purge(now_ms)
            except StorageError as error:
                key = TopicPartition(partition.topic, partition.number)
                logger.warning("files of %s-%d could not be removed: %s", *key, error, extra=key._asdict())
        with self._lock:
            due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
            self._doomed = [(due_ms, path) for due_ms, path in self._doomed if due_ms > now_ms]
        for path in due:
            try:
                self.directories.files.remove_dir(path)
            except LogNotFound:
                continue
            except StorageError as error:
                logger.warning(
                    "%s could not be removed, and is tried again later: %s", path, error, extra={"path": path}
                )
                with self._lock:
                    self._doomed.append((now_ms + RETRY_MS, path))

    @property
    def purge_due_ms(self) -> int | None:
        """The time (wall clock) when `purge` has something to do; None when nothing waits."""
        times = [partition.purge_due_ms for partition in self.partitions] + [due for due, _ in self._doomed]
        return min((due for due in times if due is not None), default=None)
