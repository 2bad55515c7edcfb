"""The replicas of a node: its topics, its role for each partition, and what changes either. Read them in this order:

    topics           the topics of the metadata log, and the log directory of each partition
    roles            the partitions opened at first use, and whether this node leads or follows each
    topic_changes    topics made and deleted, and partitions moved
    cluster_changes  configs, users, and blocks of producer ids

The controller decides each change (`pylog.controller`); the node writes it down (`ReplicaManager.commit`), and goes by
it (`apply`). This file has these two, and the upkeep: checkpoints, and the close. (Kafka: ReplicaManager, LogManager.)
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

from pylog.broker.replica_manager.cluster_changes import ClusterChanges
from pylog.broker.replica_manager.roles import EndedRoles, Roles
from pylog.broker.replica_manager.topic_changes import TopicChanges
from pylog.broker.replica_manager.topics import LocalTopics
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.errors import (
    DirectoryReplaced,
    DiskFull,
    DurabilityUnknown,
    InconsistentClusterId,
    PylogError,
    StorageError,
)
from pylog.files import Files
from pylog.logdirs.log_directory import NO_BROKER_EPOCH, LogDirectory
from pylog.partition import Partition
from pylog.protocol.metadata_image import MetadataDelta, MetadataImage
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock

__all__ = ["EndedRoles", "ReplicaManager"]

logger = logging.getLogger("pylog.broker")


class ReplicaManager:
    """The state of one node over its log directories. Thread-safe. `visible_when_durable`: see `replica.Leader`.

    Raises at construction: what `LogDirectory` and the metadata log raise.
    """

    def __init__(
        self, files: Files, paths: Sequence[str], config: NodeConfig, clock: Clock, *, node_id: int | None,
        visible_when_durable: bool,
    ) -> None:  # fmt: skip
        self._lock = WholeLock(threading.RLock())
        self.topics = LocalTopics(files, paths, config, clock, self._lock, node_id)
        self.roles = Roles(self.topics, self.commit, clock, self._lock, visible_when_durable=visible_when_durable)
        self.changes = TopicChanges(self.topics, self.roles, self.commit, self._lock)
        self.cluster_changes = ClusterChanges(self.topics.controller, self.commit, self._lock)
        self.id = self.topics.node_id
        self.directories = self.topics.directories
        self._is_closed = False
        self._close_error: Exception | None = None
        try:
            self.roles.recover()
            self.has_all_written = self._lacks_nothing()
            """Whether all is there that an owner has written since no transaction lacked records, synced or not: no
            power cut came in between, and recovery has met nothing worse than a write that a kill has ended.
            """
            if not self.has_all_written:
                for directory in self.directories:
                    directory.forget_incarnation()
        except BaseException:
            self.directories.release()
            raise

    def commit(self, records: list[bytes], ended: EndedRoles | None = None) -> None:
        """Write down what the controller has decided, in one batch, and go by it: the one door to the metadata log.

        Without records it does nothing. A change that may end roles is given `ended`. The caller holds the lock of the
        node from the decision on. Raises what `MetadataLog.commit` raises, nothing has changed then, and what `apply`
        raises.
        """
        if records:
            self.apply(self.topics.metadata_log.commit(records), ended)

    def apply(self, delta: MetadataDelta, ended: EndedRoles | None = None) -> None:
        """Go by a change that the metadata log has. (Kafka: ReplicaManager.applyDelta, BrokerMetadataPublisher)

        Roles end before files go. Raises StorageError where an epoch cannot be noted in the log of a partition.
        """
        with self._lock:
            self.roles.apply(delta, ended)
            self.topics.apply(delta)

    @property
    def configs(self) -> DynamicBrokerConfig:
        """The configs in force on the node."""
        return self.topics.configs

    @property
    def image(self) -> MetadataImage:
        """The content of the metadata log."""
        return self.topics.image

    @property
    def has_adopted(self) -> bool:
        """Whether this open has made topics of folders from elsewhere."""
        return self.topics.metadata_log.has_adopted

    @property
    def was_closed(self) -> bool:
        """Whether the last owner has closed every directory."""
        return all(directory.clean for directory in self.directories)

    def _lacks_nothing(self) -> bool:
        directories = [*self.directories]
        return (
            all(directory.clean or directory.has_all_written for directory in directories)
            and not self.directories.failures
            and not any(map(self.roles.is_broken, directories))
            and self.roles.has_all_written
        )

    def note_incarnation(self) -> None:
        """See `LogDirectory.note_incarnation`."""
        for directory in self.directories:
            directory.note_incarnation()

    def join_cluster(self, cluster_id: str) -> None:
        """See `Broker.join_cluster`."""
        with self._lock:
            own = self.directories.first.cluster_id
            if cluster_id == own:
                return
            if self.image.topics:
                raise InconsistentClusterId(
                    f"{self.directories.first.path} has topics of cluster {own}, and the leader is of cluster "
                    f"{cluster_id}: follow it with an empty directory"
                )
            for directory in self.directories:
                directory.join_cluster(cluster_id)

    def take_over_producer_ids(self, topic: str) -> None:
        """Take over the producer ids of a topic that another node leads: see `ClusterChanges`.

        Raises UnknownTopicOrPartition, DiskFull, DurabilityUnknown.
        """
        with self._lock:
            numbers = self.topics.image_of(topic).partitions
            if self.roles.follows_any(topic):
                logs = [self.roles.partition(topic, number) for number in numbers]
                seen = [producer_id for log in logs for producer_id in log.producers.entries()]
                self.cluster_changes.take_over_producer_ids(max(seen, default=0))

    def checkpoint(self) -> None:
        """Persist the durable offset of each open partition, so that recovery after a crash reads less.

        It also sums up the metadata log. A directory that cannot be written to goes offline, with its partitions; the
        partitions of a replaced directory take no more appends.
        """
        with self._lock:
            self.topics.metadata_log.take_snapshot()
            for directory in list(self.directories):
                try:
                    directory.write_checkpoints(self.topics.in_directory(directory))
                except DiskFull:
                    # The old checkpoints are right, if late.
                    logger.warning("%s is full: checkpoints are late", directory.path)
                except StorageError as error:
                    self._fail(directory, error)

    def check_in_place(self, partitions: Iterable[Partition]) -> None:
        """Latch those of `partitions` whose folder is not the one any more that was opened. A log directory that is not
        goes offline, with all of its partitions.

        Raises: DirectoryReplaced (it is the first one), StorageError (the disk does not say).
        """
        with self._lock:
            for directory in list(self.directories):
                try:
                    directory.check_in_place()
                except DirectoryReplaced as error:
                    opened = self.topics.in_directory(directory)
                    # The first one never goes offline: its loss is raised until its partitions are latched.
                    if directory is not self.directories.first or any(not one.failed for one in opened):
                        self._fail(directory, error)
        for partition in partitions:
            partition.check_in_place()

    def _fail(self, directory: LogDirectory, error: StorageError) -> None:
        if isinstance(error, DirectoryReplaced):
            for partition in self.topics.in_directory(directory):
                partition.latch(error)
        self.directories.fail(directory, error)

    def kept(self, after: TopicPartition | None = None) -> Iterator[Partition]:
        """Every partition with a folder here, opened if need be, but those that cannot be opened or go meanwhile.

        They come by topic and number; with `after`, those behind it.
        """
        with self._lock:
            keys = sorted(key for key in self.topics.present if after is None or key > after)
        for key in keys:
            try:
                with self._lock:
                    found = self.topics.topic(key.topic).exists(key.partition)
                if found:
                    yield self.roles.partition(*key)
            except PylogError as error:
                logger.debug("%s-%d is left out: %s", *key, error, extra=key._asdict())
            except Exception:
                logger.exception(
                    "%s-%d could not be opened, which should never happen, and is left out", *key, extra=key._asdict()
                )

    def close(self) -> None:
        """Close every partition, write the checkpoints and, where all of it is durable, the clean-shutdown markers.

        All descriptors and locks are given back, whatever is raised. Another close does nothing, unless this one
        raised: then it raises that again, as the appended records may not be on the disk. A second interruption of a
        close may leave something for the next close to give back.
        """
        with self._lock:
            if self._is_closed:
                if self._close_error is not None:
                    self._give_back()
                    raise self._close_error.with_traceback(None)
                return
            self._is_closed = True
            self._close_error = DurabilityUnknown(
                "a close was interrupted: it is not known whether all appended records are on the disk; open the log "
                "again to read those that are there"
            )
            try:
                self._close_all({directory.path: self.topics.in_directory(directory) for directory in self.directories})
            except Exception as error:
                self._close_error = error
                raise
            finally:
                self._give_back()
            self._close_error = None

    def _give_back(self) -> None:
        """Give descriptors and locks back, and write nothing."""
        try:
            for partition in self.topics.all_partitions:
                with suppress(PylogError):
                    partition.abandon()
        finally:
            self.directories.release()

    def _close_all(self, opened: Mapping[str, list[Partition]]) -> None:
        epochs_ended = self.roles.end_epochs()
        with ExitStack() as closing:
            # Close in reverse, each even when another one fails; an error is raised in the end.
            for directory in list(self.directories):
                closing.callback(self._close_directory, directory, opened[directory.path], epochs_ended)
            closing.callback(self.topics.metadata_log.close)
            for topic in self.topics.opened.values():
                closing.callback(topic.close)

    def _close_directory(self, directory: LogDirectory, opened: list[Partition], are_over: bool) -> None:
        directory.write_checkpoints(opened)
        node = self.image.nodes.get(self.id)
        is_clean = are_over and not self.roles.is_broken(directory)
        directory.close(clean=is_clean, broker_epoch=NO_BROKER_EPOCH if node is None else node.epoch)
