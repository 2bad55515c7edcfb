"""A topic on this node: its name, id and config, and its partitions that lie here, each opened at first use.

<log dir>/<topic>-<partition>/                 a live partition
<log dir>/<topic>-<partition>.<uuid>-delete/   renamed first, removed later: a crash in between leaves no half topic
"""

import logging
import uuid
from collections.abc import Callable, Container
from contextlib import ExitStack

from pylog.commitlog.segments import base_offsets
from pylog.config import DynamicBrokerConfig, TopicConfig
from pylog.errors import DurabilityUnknown, InconsistentTopicId, StorageError, UnknownTopicOrPartition
from pylog.files import Files, join
from pylog.logdirs.log_directories import DELETE, STRAY, Directories, remove_folder
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_topic_id, write_topic_id
from pylog.storage.partition_dirs import folder_name, is_set_aside, set_aside
from pylog.storage.segment_checksum import forget_seals

logger = logging.getLogger("pylog.topic")


class Topic:
    """The partitions of one topic that this node keeps.

    `places` maps their numbers (of all that the topic has) to the ids of the log directories in which the metadata log
    has them. `on_closed` is told of each partition that was closed. Not thread-safe for opening: the node holds its
    lock around `partition`.
    """

    def __init__(
        self, directories: Directories, name: str, topic_id: uuid.UUID, config: TopicConfig,
        places: dict[int, uuid.UUID], removed: Container[uuid.UUID], configs: DynamicBrokerConfig,
        on_closed: Callable[[Partition], None],
    ) -> None:  # fmt: skip
        self.directories = directories
        self.name = name
        self.id = topic_id
        self.config = config
        self.places = places
        self._removed = removed
        self._configs = configs
        self._on_closed = on_closed
        self._open: dict[int, Partition] = {}
        self._homes: dict[int, LogDirectory] = {}
        self._counted: dict[int, tuple[int, int, int]] = {}
        """What was appended to partitions before they were closed here, to be opened elsewhere."""

    def home(self, number: int) -> LogDirectory:
        """The log directory of a partition. Raises KafkaStorage when it is offline, StorageError when it has two."""
        home = self._homes.get(number)
        if home is None:
            key = TopicPartition(self.name, number)
            holders = self.directories.holders(key)
            if len(holders) > 1:
                for holder in holders:
                    # A topic of this name was deleted while that directory was offline.
                    self._move_leftover(holder, join(holder.path, folder_name(*key)), number)
            home = self._homes[number] = self.directories.home(key, self.places[number])
        self.directories.check(home)
        return home

    def partition(self, number: int, now_ms: int) -> Partition:
        """The partition, opened (and recovered if need be) or created at its first use.

        Raises: UnknownTopicOrPartition; KafkaStorage (its log directory is offline); StorageError.
        """
        opened = self._open.get(number)
        if opened is not None:
            return opened
        if number not in self.places:
            raise UnknownTopicOrPartition(f"topic {self.name!r} has no partition {number} on this node")
        home = self.home(number)
        files, path = home.files, join(home.path, folder_name(self.name, number))
        entry, node = home.entry(self.id, number), self._configs.current
        partition = Partition(
            files, path, self.name, number, self.config, entry, checkpoints=home.checkpoints, topic_id=self.id,
            producer_id_expiration_ms=node.producer_id_expiration_ms,
            verify_transactions=node.transaction_partition_verification_enable,
        )  # fmt: skip
        is_there = self._move_leftover(home, path, number)
        try:
            checkpoint = home.checkpoint(self.name, number, entry)
            is_new = checkpoint.durable_offset == 0
            if not is_there and not is_new:
                # The folder is lost. Its records are missed, as they are where only its files are gone.
                partition.make_directory(self.id)
            if is_new and not (is_there and base_offsets(files, path)):
                home.checkpoints.write_late()
                partition.create(self.id, now_ms, start_offset=checkpoint.start_offset)
            else:
                partition.open(checkpoint, now_ms)
        except BaseException:
            partition.abandon()
            raise
        state = partition.state
        state.appends, state.records_appended, state.bytes_appended = self._counted.get(number, (0, 0, 0))
        home.note_opened(TopicPartition(self.name, number))
        self._open[number] = partition
        return partition

    def reconfigure(self, config: TopicConfig) -> None:
        """Apply `config`, and what the node goes by, from now on, to the open partitions, too."""
        self.config, node = config, self._configs.current
        for partition in self.opened:
            partition.reconfigure(config)
            partition.producers.expiration_ms = node.producer_id_expiration_ms
            partition.producers.verify = node.transaction_partition_verification_enable

    def _move_leftover(self, home: LogDirectory, path: str, number: int) -> bool:
        """Move the folder of an earlier topic of this name out of the way, which a crash during its deletion has left.

        Returns whether the partition has a folder of its own. It moves the folder only where the metadata log has
        that earlier topic: an unreadable file must not hide records.
        """
        files = home.files
        found = read_topic_id(files, path)
        if found == self.id:
            return True
        if found is None and files.stat(path) is not None:
            # Its owner is not known any more: it is this topic's now, whatever its seals say.
            forget_seals(files, path)
            write_topic_id(files, path, self.id)
            return True
        if found is not None:
            if found not in self._removed:
                raise InconsistentTopicId(
                    f"{path} says in partition.metadata that it belongs to topic id {found}, and topic {self.name!r} "
                    f"has id {self.id}. If its records are this topic's, remove partition.metadata and open the log "
                    "again; else move the folder away"
                )
            away = join(home.path, set_aside(self.name, number, found, STRAY))
            logger.warning(
                "%s belongs to a topic that was deleted: it is now %s and can be removed",
                path,
                away,
                extra={"path": away},
            )
            files.rename(path, away)
            files.sync_dir(home.path)
        home.forget(self.name, [number])
        return False

    def exists(self, number: int) -> bool:
        """Whether the partition has a folder already. Raises KafkaStorage when its directory is offline."""
        return self.directories.has_folder(self.home(number), TopicPartition(self.name, number))

    @property
    def opened(self) -> list[Partition]:
        return list(self._open.values())

    def close(self) -> None:
        """Close the open partitions: each of them, even when another one fails. The error is raised at the end."""
        with ExitStack() as closing:
            for number, partition in self._open.items():
                closing.callback(self._close, number, partition)

    def _close(self, number: int, partition: Partition) -> None:
        partition.close()
        self._homes[number].note_closed(partition)
        self._on_closed(partition)

    def drop(self, number: int) -> None:
        """Close one partition, so that the next use opens it again, wherever it lies then.

        A partition whose close fails is recovered where it is. Raises DurabilityUnknown then.
        """
        opened = self._open.pop(number, None)
        if opened is not None:
            self._close(number, opened)
            state = opened.state
            self._counted[number] = state.appends, state.records_appended, state.bytes_appended
            if not opened.closed_whole:
                raise DurabilityUnknown(f"{self.name}-{number} failed, and stays in {opened.directory}: try again")
        self._homes.pop(number, None)

    def delete(self) -> list[str]:
        """Put every folder of the topic out of sight by a rename; return the paths to remove later.

        The topic is deleted by then, so nothing is raised: a folder that cannot be renamed stays, and disturbs nothing.
        """
        try:
            self.close()
        except StorageError as error:
            logger.warning(
                "topic %s was deleted although it could not be closed: %s", self.name, error, extra={"topic": self.name}
            )
        self._open.clear()
        doomed = []
        for home in self.directories:
            for number in self.places:
                key = TopicPartition(self.name, number)
                try:
                    if self.directories.has_folder(home, key):
                        doomed += remove_folder(home.files, home, key)
                except StorageError as error:
                    logger.warning(
                        "%s-%d was deleted, and its folder stays; remove it: %s", *key, error, extra=key._asdict()
                    )
            home.forget(self.name, self.places)
        return doomed


def remove_leftovers(files: Files, path: str) -> None:
    """Remove the folders of deleted topics that a crash, or a close, has left."""
    for name in files.list_dir(path):
        if is_set_aside(name, DELETE):
            files.remove_dir(join(path, name))
