"""The partitions of log directories that another process owns, each opened at its first use.

A partition lies where its folder is. Where that is gone it is looked for again: its owner may have moved it to another
directory. A topic that was deleted and made again has other files under the same names.
"""

from collections.abc import Mapping
from typing import Any

from pylog.broker.describe import unknown_partition
from pylog.broker.read_only_topics import ReadOnlyTopics
from pylog.commitlog.read_only_partition import ReadOnlyPartition, without_files
from pylog.config import DynamicBrokerConfig, TopicConfig
from pylog.errors import InconsistentTopicId, LogNotFound, NotLeaderOrFollower
from pylog.files import Files, join
from pylog.logdirs.log_directory import closed_by_kafka, read_cleanings
from pylog.protocol.metadata_image import TopicImage
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_offsets, read_topic_id
from pylog.storage.checkpoints import START_OFFSETS
from pylog.storage.partition_dirs import folder_name


class ReadOnlyPartitions:
    """The partitions, as they are published now. Thread-safe."""

    def __init__(self, files: Files, topics: ReadOnlyTopics, configs: DynamicBrokerConfig) -> None:
        self._files = files
        self._topics = topics
        self._configs = configs
        self._made: dict[tuple[str, int], ReadOnlyPartition] = {}
        self._former: list[ReadOnlyPartition] = []
        """Of topics that were made again: a reader may be in the middle of one."""

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides."""
        return TopicConfig.loaded(overrides, defaults=self._configs.current.topic_defaults)

    def cleaning(self, topic: str, number: int) -> dict[str, Any] | None:
        """The state of cleaning a partition, as its owner has published it; None where it was not cleaned."""
        home = self._topics.home(TopicPartition(topic, number))
        return read_cleanings(self._files, home).get(folder_name(topic, number))

    def followed(self, topic: str, number: int) -> ReadOnlyPartition | None:
        """A partition that has got records at its end since the last look, and nothing else; None in any other case."""
        known = self._made.get((topic, number))
        return known if known is not None and known.follow() else None

    def find(self, topic: str, number: int) -> ReadOnlyPartition:
        """The partition as it is published now. Raises UnknownTopicOrPartition, NotLeaderOrFollower (it is on its way
        to another directory).
        """
        key = TopicPartition(topic, number)
        topics = self._topics
        with topics.lock:
            if topics.has_log or topic not in topics.image.topics:
                # The topic may have been deleted meanwhile, and made again.
                topics.refresh()
            image = topics.image.topics.get(topic)
            if image is None or number not in image.partitions:
                raise unknown_partition(image, key)
            known = self._made.get(key)
            if known is None or known.topic_id != image.id or self._has_moved(known):
                return self._open(key, image)
            known.refresh()
            return known

    def _has_moved(self, known: ReadOnlyPartition) -> bool:
        return len(self._topics.paths) > 1 and self._files.stat(known.directory) is None

    def _open(self, key: TopicPartition, image: TopicImage) -> ReadOnlyPartition:
        home = self._topics.home(key)
        directory, config = join(home, folder_name(*key)), self.topic_config(image.config)
        if self._files.stat(directory) is None:
            self._topics.require_home(key, image.partitions[key.partition])
        if self._files.stat(directory) is None and self._is_unwritten(key, image, directory):
            # Its owner has created it, and never written to it or read it: there is nothing to remember.
            return without_files(directory, *key, config)
        if not self._belongs(directory, image):
            return without_files(directory, *key, config)
        made = ReadOnlyPartition(
            self._files, directory, *key, config,
            find_entry=lambda: self._topics.entry(home, key, image), find_start=lambda: self._start_offset(home, key),
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
        paths = self._topics.paths
        for path in paths:
            entry = self._topics.entry(path, key, image)
            state = entry.read() if entry is not None else None
            if state is not None and state.next_offset > 0:
                if self._files.stat(directory) is not None:
                    return False
                if len(paths) == 1:
                    raise LogNotFound(
                        f"{path} says that {folder_name(*key)} has had records, and it has no such folder: put it "
                        "back, or open the log with mode='own', which says in `quarantined` what was lost"
                    )
                raise NotLeaderOrFollower(
                    f"{folder_name(*key)} has had records, as {path} says, and is in none of {', '.join(paths)}: "
                    "it is being moved, or its owner has died at that; ask again, or open the log with mode='own'"
                )
        return True

    def _belongs(self, directory: str, image: TopicImage) -> bool:
        """Whether a partition's folder is that of its topic, and not of an earlier one, or a later one, of that name.

        Raises InconsistentTopicId for the folder of a topic that was not deleted. See `Topic.partition`.
        """
        found = read_topic_id(self._files, directory)
        if found in (None, image.id):
            return True
        topics = self._topics
        if found not in topics.image.removed:
            topics.refresh()
        now = topics.image.topics.get(image.name)
        if found not in topics.image.removed and now is not None and now.id == image.id:
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
        for partition in [*self._made.values(), *self._former]:
            partition.close()
