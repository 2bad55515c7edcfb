"""The log directories of a node (Kafka: log.dirs), each whole in itself: lock, identity, checkpoints, marker.

    data-a/   the first: the metadata log lies here     __cluster_metadata-0/  clicks-0/  clicks-2/
    data-b/   partitions                                                       clicks-1/  orders-0/

A partition lies where its folder is. A new one goes to the directory with the fewest. While a partition moves, its copy
lies under `<topic>-<partition>.<uuid>-future` in its new directory (`partition_dirs.set_aside`):

    copy          the folder as -future, complete and synced       a crash: the next open throws it away
    decide        a record in the metadata log: it lies there now     a crash: the next open finishes the renames
    rename        old folder -> ...-delete; -future -> folder

A directory that fails takes its own partitions offline and no others; without the first one there is no node. Each of
the others knows the id of the first. Where the first is not mounted, or not named first, nothing is opened: the topics
would be taken for new ones, without their configs. (Kafka: LogManager, LogDirFailureChannel, AlterReplicaLogDirs.)
"""

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress

from pylog.errors import (
    DirectoryLocked,
    DiskFull,
    KafkaStorage,
    LogDirNotFound,
    LogNotFound,
    StorageError,
    UnsupportedFormat,
)
from pylog.files import Files, join
from pylog.logdirs.log_directory import (
    FIRST_DIRECTORY_ID,
    META_PROPERTIES,
    LogDirectory,
    kafka_uuid,
    parse_uuid,
    read_identity,
)
from pylog.protocol.topic_names import METADATA_TOPIC
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_topic_id
from pylog.storage.partition_dirs import folder_name, is_set_aside, partition_folders, set_aside
from pylog.storage.pending_syncs import sync_new
from pylog.storage.segment_files import LOG

logger = logging.getLogger("pylog.logdirs")

COPY_BYTES = 1 << 20
FUTURE = "-future"
DELETE = "-delete"
STRAY = "-stray"
RESERVED_IDS = 100
"""Directory ids below this one are no directories: unassigned, lost, migrating (Kafka: DirectoryId)."""


class Directories:
    """The directories that this node owns. The first one gives the node its id.

    Raises what `LogDirectory` raises for the first one; DirectoryLocked and UnsupportedFormat for any; LogNotFound
    where the list of topics is not in the first one (`require_first`).
    """

    def __init__(self, files: Files, paths: Sequence[str], node_id: int | None) -> None:
        self.files = files
        require_first(files, paths)
        self.first = LogDirectory(files, paths[0], node_id)
        self.failures: dict[str, StorageError] = {}
        self._opened = [self.first]
        try:
            for path in paths[1:]:
                self._open(path)
        except BaseException:
            self.release()
            raise

    def _open(self, path: str) -> None:
        try:
            self._opened.append(LogDirectory(self.files, path, self.first.node_id, first=self.first))
        except (DirectoryLocked, UnsupportedFormat):
            raise
        except StorageError as error:
            self._note_failure(path, error)

    def _note_failure(self, path: str, error: StorageError) -> None:
        logger.error("the log directory %s is offline, and its partitions are: %s", path, error, extra={"path": path})
        self.failures[path] = error

    def __iter__(self) -> Iterator[LogDirectory]:
        return (directory for directory in self._opened if directory.path not in self.failures)

    def fail(self, directory: LogDirectory, error: StorageError) -> None:
        """Take a directory offline. Raises the error when it is the first, without which there is no node."""
        if directory is self.first:
            raise error
        self._note_failure(directory.path, error)

    def check(self, directory: LogDirectory) -> None:
        """Raise KafkaStorage when the directory is offline."""
        error = self.failures.get(directory.path)
        if error is not None:
            raise KafkaStorage(
                f"the log directory {directory.path} is offline ({error}); repair it and open the log again"
            )

    def with_path(self, path: str) -> LogDirectory:
        """The directory at `path`. Raises LogDirNotFound."""
        for directory in self:
            if directory.path == path:
                return directory
        raise LogDirNotFound(f"{path} is not a directory of this log: {', '.join(d.path for d in self)}")

    def with_id(self, directory_id: uuid.UUID) -> LogDirectory | None:
        """The directory with this id, offline ones too."""
        return next((directory for directory in self._opened if directory.directory_id == directory_id), None)

    def holders(self, key: TopicPartition) -> list[LogDirectory]:
        """The directories in which a partition has a folder: one, or none yet; two where it was copied by hand."""
        return [directory for directory in self if self.has_folder(directory, key)]

    def home(self, key: TopicPartition, recorded: uuid.UUID) -> LogDirectory:
        """The directory of a partition, present or future: the one with its folder, else the one that the metadata log
        names.

        Raises KafkaStorage when that directory is offline, or is not among these; StorageError for two folders.
        """
        holders = self.holders(key)
        if len(holders) > 1:
            raise StorageError(
                f"{folder_name(*key)} lies in {' and in '.join(d.path for d in holders)}: find out which folder is the "
                "right one, move the other away, and open the log again"
            )
        if holders:
            return holders[0]
        known = self.with_id(recorded)
        if known is not None:
            self.check(known)
            return known
        if recorded.int < RESERVED_IDS:
            return self.first
        missing = [f"{path}: {error}" for path, error in self.failures.items()]
        raise KafkaStorage(
            f"{folder_name(*key)} is not in a log directory that is online, but in the one with id "
            f"{kafka_uuid(recorded)}; {'; '.join(missing) or 'open the log with all of its directories'}"
        )

    def has_folder(self, directory: LogDirectory, key: TopicPartition) -> bool:
        """Whether a partition has a folder in a directory."""
        return self.files.stat(join(directory.path, folder_name(*key))) is not None

    @property
    def ids(self) -> list[uuid.UUID]:
        """The ids of the directories that are online."""
        return [directory.directory_id for directory in self]

    def partitions(self) -> dict[TopicPartition, LogDirectory]:
        """The partitions that have folders, and their directories; the metadata log is not among them."""
        found: dict[TopicPartition, LogDirectory] = {}
        for directory in self:
            for key in partition_folders(self.files, directory.path):
                found.setdefault(key, directory)
        return found

    def complete_moves(self, recorded: dict[TopicPartition, tuple[uuid.UUID, uuid.UUID]]) -> None:
        """Finish the moves that a crash has interrupted after they were decided, undo the others.

        `recorded` has the facts of the metadata log about each partition: the id of its topic, and its directory.
        """
        for directory in self:
            for name in self.files.list_dir(directory.path):
                if is_set_aside(name, FUTURE):
                    self._complete_move(directory, name, recorded)
        homes = {directory.directory_id for directory in self}
        for directory in self:
            for key in directory.checkpoints.keys:
                place = recorded[key][1] if key in recorded else directory.directory_id
                if place != directory.directory_id and place in homes and not self.has_folder(directory, key):
                    directory.forget(key.topic, [key.partition])

    def _complete_move(
        self, directory: LogDirectory, name: str, recorded: dict[TopicPartition, tuple[uuid.UUID, uuid.UUID]]
    ) -> None:
        future = join(directory.path, name)
        known = [key for key in recorded if is_set_aside(name, FUTURE, key)]
        if len(known) > 1:
            # Topics with the same long beginning.
            topic_id = self._topic_id(future)
            known = [key for key in known if recorded[key][0] == topic_id]
        if not known:
            # It may be all that is left of a partition: a folder that the metadata log has never heard of is not
            # removed.
            logger.warning(
                "%s was being moved here and is in no list of topics: look at its content, then remove it",
                future,
                extra={"path": future},
            )
            return
        (key,) = known
        if recorded[key][1] != directory.directory_id or self.has_folder(directory, key):
            self.files.remove_dir(future)
            return
        for other in self.holders(key):
            remove_folder(self.files, other, key)
        self.files.rename(future, join(directory.path, folder_name(*key)))
        self.files.sync_dir(directory.path)

    def _topic_id(self, future: str) -> uuid.UUID | None:
        try:
            return read_topic_id(self.files, future)
        except StorageError:
            # The copy had only begun.
            return None

    def release(self) -> None:
        """Give all locks back, and write nothing."""
        with ExitStack() as closing:
            for directory in self._opened:
                closing.callback(directory.close, clean=False)


def require_first(files: Files, paths: Sequence[str]) -> None:
    """Raise LogNotFound unless the first of these directories is the one with their log's list of topics.

    Nothing is written. (KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.verify)
    """
    first = paths[0]
    known = _identity(files, first)
    if FIRST_DIRECTORY_ID in known:
        raise _not_first(
            first,
            f"its log has the list of topics in the directory with id {known[FIRST_DIRECTORY_ID]}, not in this one",
        )
    for path in paths[1:]:
        try:
            stored = _identity(files, path)
            has_topics = files.stat(join(path, folder_name(METADATA_TOPIC, 0))) is not None
        except UnsupportedFormat:
            raise
        except StorageError:
            # It will be offline.
            continue
        if has_topics:
            raise LogNotFound(
                f"{path} has a list of topics of its own ({METADATA_TOPIC}-0): name it first, before {first}, or, if "
                "it is not needed any more, move that folder away"
            )
        if stored and not known:
            raise _not_first(path, f"{first} has no {META_PROPERTIES}: it is new, or its file system is not mounted")
        for name, ours in (("cluster.id", known.get("cluster.id")), (FIRST_DIRECTORY_ID, known.get("directory.id"))):
            if ours is not None and stored.get(name, ours) != ours:
                raise _not_first(path, f"its {name} is {stored[name]}, and that of {first} is {ours}")


def require_first_among(files: Files, paths: Sequence[str]) -> None:
    """Raise LogNotFound unless the directory with the list of topics is among these, in any order: a reader's rule."""
    there = {kafka_uuid(one) for one in directory_ids(files, paths)}
    for path in paths:
        first = _identity(files, path).get(FIRST_DIRECTORY_ID)
        if first is not None and first not in there:
            raise _not_first(path, f"its log has the list of topics in the directory with id {first}")


def without_folder(files: Files, paths: Sequence[str], keys: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions of these that have no folder in these directories: they have no records yet, or lie in another
    directory of the log.
    """
    return [key for key in keys if all(files.stat(join(path, folder_name(*key))) is None for path in paths)]


def directory_ids(files: Files, paths: Iterable[str]) -> set[uuid.UUID]:
    """The ids of these directories, as far as they have any that can be read."""
    found = set()
    for path in paths:
        with suppress(ValueError):
            found.add(parse_uuid(_identity(files, path).get("directory.id", "")))
    return found


def _identity(files: Files, path: str) -> dict[str, str]:
    properties = join(path, META_PROPERTIES)
    return read_identity(files, properties) if files.stat(properties) is not None else {}


def _not_first(path: str, why: str) -> LogNotFound:
    return LogNotFound(
        f"{path} belongs to a log whose first directory is missing: {why}. Open it with that directory named first. If "
        f"that one is lost for good, remove {join(path, META_PROPERTIES)}: the topics are then made again from the "
        "rest of their folders, without configs"
    )


def copy_files(files: Files, source: str, target: str, names: Iterable[str]) -> None:
    """Copy files between folders, synced and with their times; a copy with the same size and time stays."""
    for name in names:
        origin, copy = join(source, name), join(target, name)
        stat, there = files.stat(origin), files.stat(copy)
        if stat is None or (there is not None and (there.size, there.mtime_ns) == (stat.size, stat.mtime_ns)):
            continue
        with closing(files.open(origin)) as reading, closing(files.open(copy, create=True)) as writing:
            writing.truncate(0)
            for position in range(0, stat.size, COPY_BYTES):
                writing.write(position, reading.read(position, min(COPY_BYTES, stat.size - position)))
            sync_new([writing])
        files.set_modified(copy, stat.mtime_ns)


def remove_folder(files: Files, directory: LogDirectory, key: TopicPartition) -> list[str]:
    """Put a partition's folder out of sight; return its new path, to be removed later, if it is there still.

    Where a full disk has no room for the new name its records go first: they make room, and after a crash in between no
    other topic of that name takes them for its own.
    """
    folder, away = (join(directory.path, name) for name in (folder_name(*key), set_aside(*key, uuid.uuid4(), DELETE)))
    try:
        files.rename(folder, away)
    except DiskFull:
        for name in files.list_dir(folder):
            if name.endswith(LOG):
                files.remove(join(folder, name))
        files.sync_dir(folder)
        try:
            files.rename(folder, away)
        except DiskFull:
            files.remove_dir(folder)
    files.sync_dir(directory.path)
    return [away] if files.stat(away) is not None else []
