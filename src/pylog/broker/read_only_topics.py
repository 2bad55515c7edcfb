"""The topics of log directories that another process owns, and where they lie: the image of the metadata log.

The list of topics is in the first directory. Without a metadata log, the partition folders say which topics there are.
A directory that is replaced while it is read raises DirectoryReplaced: what was read of it says nothing of the new one.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress

from pylog.commitlog.read_only_partition import ReadOnlyPartition
from pylog.config import TopicConfig
from pylog.errors import KafkaStorage, LogNotFound, OffsetOutOfRange, ReadOnly
from pylog.files import File, Files, join, replaced
from pylog.logdirs.log_directories import RESERVED_IDS, directory_ids
from pylog.logdirs.log_directory import LOCK, PUBLISHED, closed_by_kafka, kafka_uuid
from pylog.logdirs.metadata_log import replay, topics_in_folders
from pylog.logdirs.metadata_snapshots import read_image
from pylog.protocol.messages import NO_ID
from pylog.protocol.metadata_image import METADATA_TOPIC_ID, MetadataImage, PartitionImage, TopicImage
from pylog.protocol.topic_names import METADATA_TOPIC
from pylog.record import TopicPartition
from pylog.runtime.signals import WholeLock
from pylog.storage.log_file import first
from pylog.storage.partition_dirs import folder_name
from pylog.storage.published import Published, PublishedEntry

NOTHING = -1
SNAPSHOT_ATTEMPTS = 10


class ReadOnlyTopics:
    """The topics of now. Thread-safe; `lock` may be held around several calls."""

    def __init__(self, files: Files, paths: Sequence[str]) -> None:
        self._files = files
        self.paths = list(paths)
        self.lock = WholeLock(threading.RLock())
        self.image = MetadataImage()
        self._published: dict[str, Published] = {}
        # The lock files of owners tell which directories these are.
        self._locks: dict[str, File] = {}
        self._log: ReadOnlyPartition | None = None
        self.has_log = False
        """True where there is a metadata log: it may say more than `image` by now."""
        self._replayed = NOTHING

    @property
    def is_published(self) -> bool:
        """True once something was looked at that an owner has published."""
        return bool(self._published)

    def home(self, key: TopicPartition) -> str:
        """The log directory that has a partition's folder; the first one where none has."""
        holders = (path for path in self.paths if self._files.stat(join(path, folder_name(*key))) is not None)
        return next(holders, self.paths[0])

    def require_home(self, key: TopicPartition, state: PartitionImage) -> None:
        """Raise KafkaStorage where the metadata log has a partition without a folder in directories that were not
        given.
        """
        recorded = {one for one in state.directories if one.int >= RESERVED_IDS}
        if recorded and recorded.isdisjoint(directory_ids(self._files, self.paths)):
            missing = ", ".join(map(kafka_uuid, sorted(recorded)))
            raise KafkaStorage(
                f"{folder_name(*key)} is in none of {', '.join(self.paths)}, but in the log directory with id "
                f"{missing}: open the log with all of its directories"
            )

    def entry(self, home: str, key: TopicPartition, topic: TopicImage) -> PublishedEntry | None:
        """The published state of a partition in the directory `home`; None where no owner has published it."""
        if home not in self._published:
            path = join(home, PUBLISHED)
            if self._files.stat(path) is None or closed_by_kafka(self._files, home):
                return None
            first(self._published, home, Published(self._files, path, writable=False))
        return self._published[home].find(topic.id, key.partition)

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where a directory is not the one that was opened."""
        for path in self.paths:
            lock = join(path, LOCK)
            if path in self._locks:
                if not self._locks[path].is_in_place():
                    raise replaced(lock)
            elif self._files.stat(lock) is not None:
                with suppress(LogNotFound, ReadOnly):
                    first(self._locks, path, self._files.open(lock))
            if path in self._published:
                self._published[path].check_in_place()

    def refresh(self) -> None:
        """Replay what the metadata log has got since the last time; without one, take the folders for topics."""
        with self.lock:
            try:
                self._refresh()
            except ReadOnly as error:
                raise ReadOnly(
                    f"{error}. A log with users (SASL/SCRAM) keeps their keys in its list of topics, so only the user "
                    "of its owner reads the files: read as that user, or from a server"
                ) from error

    def _refresh(self) -> None:
        if self._log is None:
            key, topic = TopicPartition(METADATA_TOPIC, 0), TopicImage(METADATA_TOPIC, METADATA_TOPIC_ID)
            home = self.home(key)
            directory = join(home, folder_name(*key))
            if self._files.stat(directory) is None:
                self.image = _image_of_folders(self._files, self.paths)
                return
            self._log = ReadOnlyPartition(
                self._files, directory, *key, TopicConfig(), find_entry=lambda: self.entry(home, key, topic),
                topic_id=METADATA_TOPIC_ID,
            )  # fmt: skip
            self.has_log = True
            self.image, self._replayed = MetadataImage(), NOTHING
        self._log.refresh()
        self._follow(self._log)

    def _follow(self, log: ReadOnlyPartition) -> None:
        """Bring the image to the end of the metadata log; from the newest snapshot on where records are gone."""
        attempts = SNAPSHOT_ATTEMPTS
        while self._replayed < log.high_watermark:
            try:
                image, position = self.image.successor(), self._replayed
                if position < log.start_offset:
                    image, position = read_image(self._files, log.directory, log.start_offset)
                self._replayed = replay(log, image, position, log.high_watermark)
                self.image = image
            except (LogNotFound, OffsetOutOfRange):
                # The owner has made another snapshot meanwhile, and has removed what it needs no more.
                attempts -= 1
                if not attempts:
                    raise
                log.refresh()
                self._replayed = NOTHING

    def close(self) -> None:
        """Give the descriptors back."""
        if self._log is not None:
            self._log.close()
        for published in self._published.values():
            published.close()
        for lock in self._locks.values():
            lock.close()


def _image_of_folders(files: Files, paths: Sequence[str]) -> MetadataImage:
    """The topics of directories that have partition folders but no metadata log."""
    image = MetadataImage()
    found = [(name, *facts) for path in paths for name, facts in topics_in_folders(files, path).items()]
    for name, topic_id, numbers in found:
        topic = image.topics.setdefault(name, TopicImage(name, topic_id or NO_ID))
        for number in numbers:
            topic.partitions[number] = PartitionImage(
                leader=1, leader_epoch=0, partition_epoch=0, replicas=[1], isr=[1]
            )
    return image
