"""The topics and partitions of log directories that another process owns, or none.

The list of topics is the image of the metadata log, which lies in the first directory. Without a metadata log, the
partition folders say which topics there are. A partition is opened at its first use. It lies where its folder is; where
that is gone it is looked for again, as its owner may have moved it to another directory. A topic that was deleted and
made again has other files under the same names.

A directory that is replaced while it is read raises DirectoryReplaced: what was read of it says nothing of the new one.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from pylog.broker.describe import unknown_partition
from pylog.broker.describe_configs import looked_up
from pylog.commitlog.read_only_partition import ReadOnlyPartition, without_files
from pylog.config import NodeConfig, TopicConfig
from pylog.errors import InconsistentTopicId, KafkaStorage, LogNotFound, NotLeaderOrFollower, OffsetOutOfRange, ReadOnly
from pylog.files import File, Files, Watch, join, replaced
from pylog.logdirs.foreign import require_log
from pylog.logdirs.log_directories import RESERVED_IDS, directory_ids, require_first_among
from pylog.logdirs.log_directory import (
    LOCK,
    META_PROPERTIES,
    PUBLISHED,
    CleaningFacts,
    closed_by_kafka,
    kafka_uuid,
    read_cleanings,
    read_identity,
)
from pylog.logdirs.metadata_log import replay, topics_in_folders
from pylog.logdirs.metadata_snapshots import read_image
from pylog.protocol.messages import NO_ID
from pylog.protocol.metadata_image import METADATA_TOPIC_ID, MetadataImage, PartitionImage, TopicImage
from pylog.protocol.topic_names import METADATA_TOPIC
from pylog.record import TopicPartition
from pylog.runtime.signals import WholeLock
from pylog.storage.checkpoint import read_offsets, read_topic_id
from pylog.storage.checkpoints import START_OFFSETS
from pylog.storage.log_file import first
from pylog.storage.partition_dirs import folder_name
from pylog.storage.published import Published, PublishedEntry

NOTHING = -1
SNAPSHOT_ATTEMPTS = 10


class ReadOnlyCatalogue:
    """The topics of now, and their partitions as they are published now. Thread-safe; `lock` may be held around several
    calls.

    Raises: LogNotFound (no such directory, or that with the list of topics is not among them), UnsupportedFormat (a
    newer version has written it), DirectoryReplaced.
    """

    def __init__(self, files: Files, paths: Sequence[str], config: NodeConfig, node_id: int) -> None:
        stored_id = str(node_id)
        for path in paths:
            require_log(files, path)
            properties = join(path, META_PROPERTIES)
            if files.stat(properties) is not None:
                stored_id = read_identity(files, properties).get("node.id", stored_id)
        require_first_among(files, paths)
        self._files = files
        self._paths = list(paths)
        self.lock = WholeLock(threading.RLock())
        self.image = MetadataImage()
        """The topics as they were last looked at."""
        self.configs = looked_up(lambda: self.image, config, stored_id)
        self._published: dict[str, Published] = {}
        # The lock files of owners tell which directories these are.
        self._locks: dict[str, File] = {}
        self._log: ReadOnlyPartition | None = None
        """The metadata log, where there is one: it may say more than `image` by now."""
        self._replayed = NOTHING
        self._ids = set[UUID]()
        """Of the directories, as far as they were asked for."""
        self._made: dict[tuple[str, int], ReadOnlyPartition] = {}
        self._former: list[ReadOnlyPartition] = []
        """Of topics that were made again: a reader may be in the middle of one."""
        self.refresh()
        self.check_in_place()

    # --- topics ------------------------------------------------------------------------------------------------------

    def now(self) -> MetadataImage:
        """The topics as they are now."""
        self.check_in_place()
        self.refresh()
        return self.image

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where a directory is not the one that was opened."""
        for path in self._paths:
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
                log = self._log or self._open_log()
                if log is None:
                    self.image = _image_of_folders(self._files, self._paths)
                    return
                log.refresh()
                if self._replayed < log.high_watermark:
                    self._follow(log)
            except ReadOnly as error:
                raise ReadOnly(
                    f"{error}. A log with users (SASL/SCRAM) keeps their keys in its list of topics, so only the user "
                    "of its owner reads the files: read as that user, or from a server"
                ) from error

    def _open_log(self) -> ReadOnlyPartition | None:
        """The metadata log, where there is one by now."""
        key, topic = TopicPartition(METADATA_TOPIC, 0), TopicImage(METADATA_TOPIC, METADATA_TOPIC_ID)
        home = self._home(key)
        directory = join(home, folder_name(*key))
        if self._files.stat(directory) is None:
            return None
        self._log = ReadOnlyPartition(
            self._files, directory, *key, TopicConfig(), find_entry=lambda: self._entry(home, key, topic),
            topic_id=METADATA_TOPIC_ID,
        )  # fmt: skip
        self.image = MetadataImage()
        return self._log

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

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides."""
        return TopicConfig.loaded(overrides, defaults=self.configs.current.topic_defaults)

    # --- where they lie ----------------------------------------------------------------------------------------------

    def watch(self) -> Watch | None:
        """A watch of the log; None where it lies in several directories, or nothing is published yet."""
        if not self._published or len(self._paths) > 1:
            return None
        return self._files.watch(self._paths[0])

    def cleaning(self, topic: str, number: int) -> CleaningFacts | None:
        """The state of cleaning a partition, as its owner has published it; None where it was not cleaned."""
        home = self._home(TopicPartition(topic, number))
        return read_cleanings(self._files, home).get(folder_name(topic, number))

    def _home(self, key: TopicPartition) -> str:
        """The log directory that has a partition's folder; the first one where none has."""
        holders = (path for path in self._paths if self._files.stat(join(path, folder_name(*key))) is not None)
        return next(holders, self._paths[0])

    def _require_home(self, key: TopicPartition, state: PartitionImage) -> None:
        """Raise KafkaStorage where the metadata log has a partition without a folder in directories that were not
        given.
        """
        recorded = {one for one in state.directories if one.int >= RESERVED_IDS}
        if recorded and recorded.isdisjoint(self._ids):
            # Read once: a directory that is replaced is another log (`check_in_place`).
            self._ids = directory_ids(self._files, self._paths)
        if recorded and recorded.isdisjoint(self._ids):
            missing = ", ".join(map(kafka_uuid, sorted(recorded)))
            raise KafkaStorage(
                f"{folder_name(*key)} is in none of {', '.join(self._paths)}, but in the log directory with id "
                f"{missing}: open the log with all of its directories"
            )

    def _entry(self, home: str, key: TopicPartition, topic: TopicImage) -> PublishedEntry | None:
        """The published state of a partition in the directory `home`; None where no owner has published it."""
        if home not in self._published:
            path = join(home, PUBLISHED)
            if self._files.stat(path) is None or closed_by_kafka(self._files, home):
                return None
            first(self._published, home, Published(self._files, path, writable=False))
        return self._published[home].find(topic.id, key.partition)

    # --- partitions --------------------------------------------------------------------------------------------------

    def grown(self, topic: str, number: int) -> ReadOnlyPartition | None:
        """A partition that has got records at its end since the last look, and nothing else; None in any other case,
        which takes a look at what may have become of the topic.
        """
        known = self._made.get((topic, number))
        return known if len(self._paths) == 1 and known is not None and known.follow() else None

    def find(self, topic: str, number: int) -> ReadOnlyPartition:
        """The partition as it is published now. Raises UnknownTopicOrPartition, NotLeaderOrFollower (it is on its way
        to another directory).
        """
        key = TopicPartition(topic, number)
        with self.lock:
            if self._log is not None or topic not in self.image.topics:
                # The topic may have been deleted meanwhile, and made again.
                self.refresh()
            image = self.image.topics.get(topic)
            if image is None or number not in image.partitions:
                raise unknown_partition(image, key)
            known = self._made.get(key)
            if known is None or known.topic_id != image.id or self._has_moved(known):
                return self._open(key, image)
            known.refresh()
            return known

    def _has_moved(self, known: ReadOnlyPartition) -> bool:
        return len(self._paths) > 1 and self._files.stat(known.directory) is None

    def _open(self, key: TopicPartition, image: TopicImage) -> ReadOnlyPartition:
        home = self._home(key)
        directory, config = join(home, folder_name(*key)), self.topic_config(image.config)
        if self._files.stat(directory) is None:
            self._require_home(key, image.partitions[key.partition])
            if self._is_unwritten(key, image, directory):
                # Its owner has created it, and never written to it or read it: there is nothing to remember.
                return without_files(directory, *key, config)
        if not self._belongs(directory, image):
            return without_files(directory, *key, config)
        made = ReadOnlyPartition(
            self._files, directory, *key, config,
            find_entry=lambda: self._entry(home, key, image), find_start=lambda: self._start_offset(home, key),
            topic_id=image.id, is_sealed=not closed_by_kafka(self._files, home),
        )  # fmt: skip
        before = self._made.get(key)
        if before is not None and before.topic_id == image.id:
            before.close()
        elif before is not None:
            self._former.append(before)
        self._made[key] = made
        return made

    def _is_unwritten(self, key: TopicPartition, image: TopicImage, directory: str) -> bool:
        """True if a partition without a folder never had records. False if its owner has made the folder meanwhile.

        Raises LogNotFound where it has had some; NotLeaderOrFollower in a log of several directories, where a partition
        that moves has no folder for a moment.
        """
        for path in self._paths:
            entry = self._entry(path, key, image)
            state = entry.read() if entry is not None else None
            if state is not None and state.next_offset > 0:
                if self._files.stat(directory) is not None:
                    return False
                if len(self._paths) == 1:
                    raise LogNotFound(
                        f"{path} says that {folder_name(*key)} has had records, and it has no such folder: put it "
                        "back, or open the log with mode='own', which says in `quarantined` what was lost"
                    )
                raise NotLeaderOrFollower(
                    f"{folder_name(*key)} has had records, as {path} says, and is in none of {', '.join(self._paths)}: "
                    "it is being moved, or its owner has died at that; ask again, or open the log with mode='own'"
                )
        return True

    def _belongs(self, directory: str, image: TopicImage) -> bool:
        """True where a partition's folder has the id of its topic, or no id; False for another topic of that name.

        Raises InconsistentTopicId for the folder of a topic that was not deleted. See `Topic.partition`.
        """
        found = read_topic_id(self._files, directory)
        if found in (None, image.id):
            return True
        if found not in self.image.removed:
            self.refresh()
        now = self.image.topics.get(image.name)
        if found not in self.image.removed and now is not None and now.id == image.id:
            raise InconsistentTopicId(
                f"{directory} says in partition.metadata that it belongs to topic id {found}, and topic {image.name!r} "
                f"has id {image.id}: put it back where it belongs"
            )
        return False

    def _start_offset(self, home: str, key: TopicPartition) -> int:
        """The start of the log where its owner has published nothing."""
        path = join(home, START_OFFSETS)
        return read_offsets(self._files, path).get(key, 0) if self._files.stat(path) is not None else 0

    def close(self) -> None:
        """Give the descriptors back."""
        if self._log is not None:
            self._log.close()
        for partition in [*self._made.values(), *self._former]:
            partition.close()
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
