"""A log that another process owns, or none: read without a lock, answered like a node (`mode="read"`).

The log may lie in several directories. The list of topics is in the first one; a partition is where its folder is, and
is looked for again when that is gone: its owner may have moved it.

What may be seen of a partition, and how it is read while its owner goes on, is said in `shared`. Logs and indexes are
read with `pread`, never mapped: a map of a file that the owner cuts would kill this process.

The owner knows nothing of its readers: who waits for more sleeps until the kernel says that something in the directory
was written, what is published among it, and looks; where the kernel says nothing, it looks every few milliseconds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from select import POLLIN, poll
from typing import Any

from pylog.broker.describe import describe_log_dirs, describe_topics, unknown_partition
from pylog.broker.fetch import is_enough, read_parts
from pylog.broker.read_only_coordinators import ReadOnlyCoordinators
from pylog.commitlog.partition_reader import PartitionReader, ReadablePartition
from pylog.commitlog.read_only_partition import ReadOnlyPartition
from pylog.config import NodeConfig, TopicConfig
from pylog.errors import (
    Closed,
    InconsistentTopicId,
    LogNotFound,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PylogError,
    ReadOnly,
)
from pylog.files import File, Files, Watch, join, replaced
from pylog.logdirs.foreign import require_log
from pylog.logdirs.log_directory import (
    LOCK,
    META_PROPERTIES,
    PUBLISHED,
    closed_by_kafka,
    read_cleanings,
    read_identity,
)
from pylog.logdirs.metadata_log import replay, topics_in_folders
from pylog.logdirs.metadata_snapshots import read_image
from pylog.protocol.messages import (
    NO_ID,
    ClusterMetadata,
    DescribeLogDirs,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListedOffsets,
    ListOffsets,
    Message,
    Metadata,
    Session,
)
from pylog.protocol.metadata_image import METADATA_TOPIC, METADATA_TOPIC_ID, MetadataImage, PartitionImage, TopicImage
from pylog.record import TopicPartition
from pylog.replica import list_part, read_part
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import WholeLock, opened, whole
from pylog.storage.checkpoint import read_offsets, read_topic_id
from pylog.storage.checkpoints import START_OFFSETS
from pylog.storage.partition_dirs import folder_name
from pylog.storage.published import Published, PublishedEntry

POLL_MS_MIN = 1
POLL_MS_MAX = 20
NOTHING = -1
SNAPSHOT_ATTEMPTS = 10


class ReadOnlyBroker:
    """Answers messages about log directories without owning them. It waits in its caller's thread.

    Raises: LogNotFound (no such directory), UnsupportedFormat (a newer version has written it). A directory that is
    replaced while it is read is DirectoryReplaced at the next wait, and at whatever asks for partitions.
    """

    def __init__(
        self, files: Files, paths: Sequence[str], *, config: NodeConfig, clock: Clock, node_id: int
    ) -> None:  # fmt: skip
        for path in paths:
            require_log(files, path)
            properties = join(path, META_PROPERTIES)
            if files.stat(properties) is not None:
                read_identity(files, properties)
        self.config = config
        self.node_id = node_id
        self._files = files
        self._paths = list(paths)
        self._clock = clock
        self._closed = False
        self._lock = WholeLock(threading.RLock())
        self._partitions: dict[tuple[str, int], ReadOnlyPartition] = {}
        self._former: list[ReadOnlyPartition] = []  # of topics that were made anew
        self._published: dict[str, Published] = {}
        self._locks: dict[str, File] = {}  # of owners: which directories these are
        self._watches: list[Watch] = []  # nobody waits at these; to close one takes the kernel milliseconds
        self.image = MetadataImage()
        self._log: ReadOnlyPartition | None = None
        self._replayed = NOTHING
        self._routes: dict[type, Callable[[Any], Any]] = {
            Fetch: self._fetch,
            ListOffsets: self._list_offsets,
            Metadata: self._metadata,
        }
        self._routes[DescribeLogDirs] = lambda _: describe_log_dirs(files, self._paths, {})
        observing = ReadOnlyCoordinators(self._find, lambda: self.image, config, clock)
        self._routes |= {kind: partial(self._observe, answer) for kind, answer in observing.routes.items()}
        self._refresh_image()
        self._check_in_place()

    @whole
    def handle(self, message: Message, session: Session) -> Future[Any]:
        """Answer a message. Raises Closed; ReadOnly for what would change the log."""
        if self._closed:
            raise Closed("this log is closed")
        if type(message) not in self._routes:
            raise ReadOnly(
                f'{self._paths[0]} was opened with mode="read", where nothing is changed, and where its owner\'s '
                'secrets (producers, configs) are not known: open it with mode="own"'
            )
        return completed(self._routes[type(message)](message))

    def _observe(self, answer: Callable[[Message], Any], message: Message) -> Any:
        with self._lock:
            # A topic of the coordinators' may be new.
            self._refresh_image()
            return answer(message)

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides."""
        return TopicConfig.loaded(overrides, defaults=self.config.topic_defaults)

    # --- what is there ---------------------------------------------------------------------------------------------

    def _home(self, key: TopicPartition) -> str:
        """The log directory that has a partition's folder; the first one where none has."""
        holders = (path for path in self._paths if self._files.stat(join(path, folder_name(*key))) is not None)
        return next(holders, self._paths[0])

    def _entry(self, home: str, key: TopicPartition, topic: TopicImage) -> PublishedEntry | None:
        if home not in self._published:
            path = join(home, PUBLISHED)
            if self._files.stat(path) is None or closed_by_kafka(self._files, home):
                return None
            self._published[home] = Published(self._files, path, writable=False)
        return self._published[home].find(topic.id, key.partition)

    def _check_in_place(self) -> None:
        """Raise DirectoryReplaced where a directory is not the one any more that was opened: what was read of it says
        nothing of what is there now.
        """
        for path in self._paths:
            lock = join(path, LOCK)
            if path in self._locks:
                if not self._locks[path].is_in_place():
                    raise replaced(lock)
            elif self._files.stat(lock) is not None:
                with suppress(LogNotFound, ReadOnly):
                    self._locks[path] = self._files.open(lock)
            if path in self._published:
                self._published[path].check_in_place()

    def _refresh_image(self) -> None:
        """Replay what the metadata log has got since the last time; without one, take the folders for topics."""
        with self._lock:
            if self._log is None:
                key, topic = TopicPartition(METADATA_TOPIC, 0), TopicImage(METADATA_TOPIC, METADATA_TOPIC_ID)
                home = self._home(key)
                directory = join(home, folder_name(*key))
                if self._files.stat(directory) is None:
                    self.image = image_of_folders(self._files, self._paths)
                    return
                self._log = ReadOnlyPartition(
                    self._files, directory, *key, TopicConfig(), find_entry=lambda: self._entry(home, key, topic),
                    topic_id=METADATA_TOPIC_ID,
                )  # fmt: skip
                self.image, self._replayed = MetadataImage(), NOTHING
            self._log.refresh()
            self._follow(self._log)

    def _follow(self, log: ReadOnlyPartition) -> None:
        """Bring the image to the end of the metadata log, from the newest snapshot on where what came next is gone."""
        attempts = SNAPSHOT_ATTEMPTS
        while self._replayed < log.high_watermark:
            try:
                image, position = self.image.successor(), self._replayed
                if position < log.start_offset:
                    image, position = read_image(self._files, log.directory, log.start_offset)
                self._replayed = replay(log, image, position, log.high_watermark)
                self.image = image
            except (LogNotFound, OffsetOutOfRange):
                # The owner has made another snapshot meanwhile, and let go what it needs no more.
                attempts -= 1
                if not attempts:
                    raise
                log.refresh()
                self._replayed = NOTHING

    def cleaning(self, topic: str, number: int) -> dict[str, Any] | None:
        """What cleaning a partition has come to, as its owner has shown it; None where nothing was."""
        home = self._home(TopicPartition(topic, number))
        return read_cleanings(self._files, home).get(folder_name(topic, number))

    def partition(self, topic: str, number: int) -> ReadablePartition:
        """The partition as it is published now. Raises UnknownTopicOrPartition, NotLeaderOrFollower (it is on its way
        to another directory), Closed.
        """
        if self._closed:
            raise Closed("this log is closed")
        self._check_in_place()
        return self._find(topic, number)

    def _find(self, topic: str, number: int) -> ReadablePartition:
        key = TopicPartition(topic, number)
        with self._lock:
            if self._log is not None or topic not in self.image.topics:
                # The topic may have been deleted meanwhile, and made anew.
                self._refresh_image()
            image = self.image.topics.get(topic)
            if image is None or number not in image.partitions:
                raise unknown_partition(image, key)
            known = self._partitions.get(key)
            # A topic that was deleted and made again has other files under the same names.
            if known is None or known.topic_id != image.id or self._has_moved(known):
                return self._open(key, image)
            known.refresh()
            return known

    def _has_moved(self, known: ReadOnlyPartition) -> bool:
        return len(self._paths) > 1 and self._files.stat(known.directory) is None

    def _open(self, key: TopicPartition, image: TopicImage) -> ReadablePartition:
        home = self._home(key)
        directory = join(home, folder_name(*key))
        if self._files.stat(directory) is None:
            self._check_unwritten(key, image)
            # Created, but never written to or read by its owner: there is nothing yet, and nothing to remember.
            return PartitionReader(directory, *key)
        if not self._is_its_own(directory, image):
            return PartitionReader(directory, *key)
        made = ReadOnlyPartition(
            self._files, directory, *key, self.topic_config(image.config),
            find_entry=lambda: self._entry(home, key, image), find_start=lambda: self._start_offset(home, key),
            topic_id=image.id, is_sealed=not closed_by_kafka(self._files, home),
        )  # fmt: skip
        before = self._partitions.get(key)
        if before is not None and before.topic_id == image.id:
            before.close()
        elif before is not None:
            # Somebody may be in the middle of it.
            self._former.append(before)
        self._partitions[key] = made
        return made

    def _check_unwritten(self, key: TopicPartition, image: TopicImage) -> None:
        """Whether a partition without a folder has never had records. Raises NotLeaderOrFollower where it has had some,
        LogNotFound in a log of one directory.

        While it moves to another directory there is a moment in which neither has its folder.
        """
        for path in self._paths:
            entry = self._entry(path, key, image)
            state = entry.read() if entry is not None else None
            if state is not None and state.next_offset > 0:
                if len(self._paths) == 1:
                    raise LogNotFound(
                        f"{path} says that {folder_name(*key)} has had records, and it has no such folder: put it "
                        "back, or open the log with mode='own', which says in `quarantined` what was lost"
                    )
                raise NotLeaderOrFollower(
                    f"{folder_name(*key)} has had records, as {path} says, and is in none of {', '.join(self._paths)}: "
                    "it is being moved, or its owner has died at that; ask again, or open the log with mode='own'"
                )

    def _is_its_own(self, directory: str, image: TopicImage) -> bool:
        """Whether a partition's folder is that of its topic, and not of an earlier one, or a later one, of that name.

        Raises InconsistentTopicId for the folder of a topic that nobody has deleted. See `Topic.partition`.
        """
        found = read_topic_id(self._files, directory)
        if found in (None, image.id):
            return True
        if found not in self.image.removed:
            self._refresh_image()
        now = self.image.topics.get(image.name)
        if found not in self.image.removed and now is not None and now.id == image.id:
            raise InconsistentTopicId(
                f"{directory} says in partition.metadata that it belongs to topic id {found}, and topic {image.name!r} "
                f"has id {image.id}: put it back where it belongs"
            )
        return False

    def _start_offset(self, home: str, key: TopicPartition) -> int:
        """Where the log starts for an owner that published nothing."""
        path = join(home, START_OFFSETS)
        return read_offsets(self._files, path).get(key, 0) if self._files.stat(path) is not None else 0

    # --- answers ---------------------------------------------------------------------------------------------------

    def _fetch(self, message: Fetch) -> Fetched:
        fetched = self._read(message)
        if message.max_wait_ms <= 0 or is_enough(message, fetched):
            return fetched
        self._check_in_place()
        deadline = self._clock.tick_ms() + message.max_wait_ms
        watch = self._watch()
        try:
            return self._await(message, deadline, watch)
        finally:
            if watch is not None:
                self._watches.append(watch)

    def _watch(self) -> Watch | None:
        """A watch that no other call has: whoever takes its word takes it from all. None for several directories."""
        if not self._published or len(self._paths) > 1:
            return None
        with suppress(IndexError):
            return self._watches.pop()
        return self._files.watch(self._paths[0])

    def _await(self, message: Fetch, deadline: int, watch: Watch | None) -> Fetched:
        """Look again whenever the owner has published something, or now and then where nobody says so."""
        told = poll()
        if watch is not None:
            told.register(watch, POLLIN)
            watch.take()
        pause_ms = POLL_MS_MIN
        while True:
            fetched = self._followed(message) or self._read(message)
            left_ms = deadline - self._clock.tick_ms()
            if left_ms <= 0 or is_enough(message, fetched):
                return fetched
            if watch is None:
                with opened():
                    time.sleep(min(pause_ms, left_ms) / 1000)
                pause_ms = min(pause_ms * 2, POLL_MS_MAX)
                continue
            with opened():
                is_told = told.poll(left_ms)
            if is_told:
                watch.take()

    def _followed(self, message: Fetch) -> Fetched | None:
        """The answer where it is records that came to the end of a partition since the last look. None for all else: it
        takes a look at what may have become of the topic.
        """
        if len(message.parts) != 1 or len(self._paths) > 1:
            return None
        (asked,) = message.parts
        known = self._partitions.get((asked.topic, asked.partition))
        if known is None or not known.follow():
            return None
        try:
            part = read_part(known, asked, isolation=message.isolation, max_bytes=message.max_bytes)
        except PylogError:
            return None
        fetched = Fetched([part])
        return fetched if is_enough(message, fetched) else None

    def _read(self, message: Fetch) -> Fetched:
        def read(asked: FetchPart, max_bytes: int) -> FetchedPart:
            partition = self._find(asked.topic, asked.partition)
            return read_part(partition, asked, isolation=message.isolation, max_bytes=max_bytes)

        return read_parts(message, read)

    def _list_offsets(self, message: ListOffsets) -> ListedOffsets:
        self._check_in_place()
        return ListedOffsets([list_part(self._find, part, message.isolation) for part in message.parts])

    def _metadata(self, message: Metadata) -> ClusterMetadata:
        self._check_in_place()
        self._refresh_image()
        return describe_topics(self.image, message, lambda _: self.node_id)

    def close(self) -> None:
        """Give the descriptors back."""
        self._closed = True
        for partition in [*self._partitions.values(), *self._former, *([self._log] if self._log is not None else [])]:
            partition.close()
        for published in self._published.values():
            published.close()
        for lock in self._locks.values():
            lock.close()
        for watch in self._watches:
            watch.close()


def image_of_folders(files: Files, paths: Sequence[str]) -> MetadataImage:
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
