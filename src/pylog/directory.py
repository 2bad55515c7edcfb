"""A log directory: the root under which partition folders lie, and the files that belong to it as a whole.

    .lock                               held for life by the one process that owns the directory
    meta.properties                     node.id, cluster.id, directory.id (kafka-format: MetaProperties), and in all but
                                        the first of several directories pylog.first.directory.id
    recovery-point-offset-checkpoint    below it everything was fsynced     topic partition offset
    log-start-offset-checkpoint         only where it is above the first segment
    replication-offset-checkpoint       high watermarks
    cleaner-offset-checkpoint           up to where compacted partitions are clean
    .kafka_cleanshutdown                there only after a clean close; deleted as soon as the directory is opened
    .pylog-cleanings                    what cleaning has come to, as JSON: for `pylog topic describe` alone
    .pylog-published                    what reader processes may see (published.py)

Every checkpoint is a hint that may lag, never lead: it is written after the fsync it speaks of.
"""

import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pylog.checkpoint import read_offsets, read_properties, write_offsets, write_properties
from pylog.errors import DiskFull, LogNotFound, StorageError, UnsupportedFormat
from pylog.files import Files, join
from pylog.folders import NUMBER, folder_name, partition_folders
from pylog.metadata import METADATA_TOPIC
from pylog.partition import Partition
from pylog.published import Entry, Published
from pylog.record import TopicPartition
from pylog.recovery import Checkpoint
from pylog.seal import forget_seals

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEANINGS = ".pylog-cleanings"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PUBLISHED = ".pylog-published"
META_PROPERTIES = "meta.properties"
FIRST_DIRECTORY_ID = "pylog.first.directory.id"
"""In `meta.properties`: the id of the directory in which the log has its list of topics. Kafka passes over it."""

DEFAULT_NODE_ID = 1
NO_BROKER_EPOCH = -1

logger = logging.getLogger("pylog")

T = TypeVar("T")


def kafka_uuid(value: uuid.UUID) -> str:
    """A uuid as Kafka writes it: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> uuid.UUID:
    """The uuid of Kafka's 22 characters. Raises ValueError."""
    return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))


class LogDirectory:
    """The owner's hold on one log directory: the lock, the identity, the checkpoints.

    `first` is the first of several directories, unless this is it: a new one gets an identity that belongs to it.

    Raises: DirectoryLocked (another process owns it; names its pid), UnsupportedFormat (written by a newer version),
    StorageError (a file in its place, not writable, an unreadable checkpoint).
    """

    def __init__(self, files: Files, path: str, node_id: int | None, *, first: "LogDirectory | None" = None) -> None:
        self.files = files
        self.path = path
        self._first = first
        self._new_cluster_id = kafka_uuid(uuid.uuid4()) if first is None else first.cluster_id
        files.make_dir(path)
        self._lock = files.lock(join(path, ".lock"), "pylog")
        try:
            self._load(node_id)
        except BaseException:
            self._lock.close()
            raise

    def _load(self, node_id: int | None) -> None:
        self.node_id, self.directory_id, self.cluster_id = self._identity(node_id)
        self.clean = self.files.stat(join(self.path, CLEAN_SHUTDOWN)) is not None or not self._has_segments()
        self._recovery_points = self._offsets(RECOVERY_POINTS)
        self._start_offsets = self._offsets(START_OFFSETS)
        self._high_watermarks = self._offsets(HIGH_WATERMARKS)
        self._cleaner_offsets = self._offsets(CLEANER_OFFSETS)
        self._late: set[str] = set()
        published = join(self.path, PUBLISHED)
        if closed_by_kafka(self.files, self.path):
            self._forget_own(published)
        self._published = Published(self.files, published, writable=True)
        if self.files.stat(join(self.path, CLEAN_SHUTDOWN)) is not None:
            # Before anything is opened: a crash while opening must not look like a clean stop (KAFKA-10471).
            self.files.remove(join(self.path, CLEAN_SHUTDOWN))
            self.files.sync_dir(self.path)

    def _forget_own(self, published: str) -> None:
        """Take away what pylog has put down of a log that Kafka has changed since."""
        metadata = TopicPartition(METADATA_TOPIC, 0)
        for key in [*partition_folders(self.files, self.path), metadata]:
            folder = join(self.path, folder_name(*key))
            if key != metadata or self.files.stat(folder) is not None:
                forget_seals(self.files, folder)
        if self.files.stat(published) is not None:
            self.files.remove(published)

    def _has_segments(self) -> bool:
        return any(NUMBER.fullmatch(name.rpartition("-")[2]) for name in self.files.list_dir(self.path))

    @staticmethod
    def _parsed(path: str, key: str, text: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise StorageError(f"{path}: {key}={text!r} cannot be read ({error}); restore the file") from error

    def _identity(self, node_id: int | None) -> tuple[int, uuid.UUID, str]:
        path = join(self.path, META_PROPERTIES)
        if self.files.stat(path) is None:
            stored = {
                "version": "1",
                "node.id": str(DEFAULT_NODE_ID if node_id is None else node_id),
                "cluster.id": self._new_cluster_id,
                "directory.id": kafka_uuid(uuid.uuid4()),
            }
            if self._first is not None:
                stored[FIRST_DIRECTORY_ID] = kafka_uuid(self._first.directory_id)
            write_properties(self.files, path, stored)
        stored = read_identity(self.files, path)
        text = stored.get("node.id", stored.get("broker.id", str(DEFAULT_NODE_ID)))
        stored_id = self._parsed(path, "node.id", text, int)
        if node_id is not None and node_id != stored_id:
            raise StorageError(f"{path}: the directory belongs to node {stored_id}, not to node {node_id}")
        text = stored.get("directory.id", kafka_uuid(uuid.UUID(int=0)))
        directory_id = self._parsed(path, "directory.id", text, parse_uuid)
        return stored_id, directory_id, stored.get("cluster.id", self._new_cluster_id)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        """What a checkpoint says: nothing, where it is damaged. The next one written takes its place.

        What has damaged it may have damaged more, so the ends of the logs are read then, as after a crash.
        (LogManager.loadLogs)
        """
        path = join(self.path, name)
        try:
            return read_offsets(self.files, path)
        except LogNotFound:
            return {}
        except UnsupportedFormat:
            raise
        except StorageError as error:
            logger.warning("a checkpoint is of no use, and is written anew: %s", error)
        self.clean = False
        return {}

    def entry(self, topic_id: uuid.UUID, partition: int) -> Entry:
        """The place where a partition's offsets are published."""
        return self._published.entry(topic_id, partition)

    def checkpoint(self, topic: str, partition: int, entry: Entry) -> Checkpoint:
        """What is remembered of a partition from the last time the directory was open."""
        key = TopicPartition(topic, partition)
        start, high = self._start_offsets.get(key, 0), self._high_watermarks.get(key, 0)
        recovery_point, clean = self._recovery_points.get(key, 0), self.clean
        published = entry.read()
        if published is None:
            return Checkpoint(start, recovery_point, recovery_point, high, clean=clean)
        durable = published.durable_offset
        if clean and durable != recovery_point:
            # A close has written both. One of them is damaged, or an older copy, so the log itself is asked.
            clean, recovery_point = False, min(durable, recovery_point)
            start, high = max(start, published.start_offset), max(high, published.high_watermark)
        else:
            # It is at least as new as the checkpoints, and lower where the log was truncated since; it has a checksum.
            recovery_point, start, high = durable, published.start_offset, published.high_watermark
        return Checkpoint(start, recovery_point, durable, high, clean=clean, published=True)

    def write_start_offset(self, partition: Partition) -> None:
        """Persist where a partition starts now: what was deleted may not come back after a crash.

        A full disk leaves that to what is published, which takes no more room than it has.
        """
        self._start_offsets[TopicPartition(partition.topic, partition.number)] = partition.start_offset
        try:
            write_offsets(self.files, join(self.path, START_OFFSETS), self._start_offsets)
        except DiskFull:
            logger.warning("%s is full: its checkpoint of where logs start is late", self.path)
            self._published.sync()

    def cleaner_offset(self, key: TopicPartition) -> int | None:
        """Up to where a partition was cleaned; None when it never was."""
        return self._cleaner_offsets.get(key)

    def write_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """Persist up to where a partition is clean."""
        self._cleaner_offsets[key] = offset
        write_offsets(self.files, join(self.path, CLEANER_OFFSETS), self._cleaner_offsets)

    def write_cleanings(self, states: Mapping[TopicPartition, dict[str, Any]]) -> None:
        """Let other processes see what cleaning these partitions has come to."""
        new = {folder_name(*key): state for key, state in states.items()}
        self._replace_cleanings(read_cleanings(self.files, self.path) | new)

    def _replace_cleanings(self, states: dict[str, dict[str, Any]]) -> None:
        self.files.replace_file(join(self.path, CLEANINGS), json.dumps(states, separators=(",", ":")).encode())

    def write_checkpoints(self, partitions: Iterable[Partition]) -> None:
        """Persist the durable offsets, start offsets and high watermarks of the open partitions;
        keep those of the others.
        """
        partitions = list(partitions)
        for partition in partitions:
            partition.publish()
        self._published.sync()
        cleaned = dict(self._cleaner_offsets)
        for partition in partitions:
            key = TopicPartition(partition.topic, partition.number)
            self._recovery_points[key] = partition.durable_offset
            self._high_watermarks[key] = partition.high_watermark
            self._start_offsets.pop(key, None)
            if partition.start_offset > partition.first_base_offset:
                self._start_offsets[key] = partition.start_offset
            if self._cleaner_offsets.get(key, 0) > partition.next_offset:
                # Truncated since it was cleaned.
                self._cleaner_offsets[key] = partition.next_offset
        if self._cleaner_offsets != cleaned:
            self._late.add(CLEANER_OFFSETS)
        self._late |= {RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS}
        self.write_late()

    def write_late(self) -> None:
        """Write the checkpoints that are behind what is remembered.

        Raises DiskFull, StorageError; they are late then, and tried again.
        """
        for name in sorted(self._late):
            write_offsets(self.files, join(self.path, name), self._remembered(name))
            self._late.discard(name)

    def take_over(self, key: TopicPartition, source: "LogDirectory", topic_id: uuid.UUID) -> None:
        """Remember of a partition what `source` remembers: it moves here, closed and complete."""
        before = source.entry(topic_id, key.partition).read()
        if before is not None:
            entry = self.entry(topic_id, key.partition)
            entry.publish(before)
            entry.sync()
        for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
            ours, theirs = self._remembered(name), source._remembered(name)
            if name == RECOVERY_POINTS and before is not None:
                # It was closed for the move.
                theirs = {key: before.durable_offset}
            if key in theirs:
                ours[key] = theirs[key]
                write_offsets(self.files, join(self.path, name), ours)

    def _remembered(self, name: str) -> dict[TopicPartition, int]:
        return {
            RECOVERY_POINTS: self._recovery_points,
            START_OFFSETS: self._start_offsets,
            HIGH_WATERMARKS: self._high_watermarks,
            CLEANER_OFFSETS: self._cleaner_offsets,
        }[name]

    def remembered(self) -> set[TopicPartition]:
        """The partitions that the checkpoints speak of."""
        return {
            *self._recovery_points, *self._start_offsets, *self._high_watermarks, *self._cleaner_offsets
        }  # fmt: skip

    def forget(self, topic: str, partitions: Iterable[int]) -> None:
        """Drop deleted partitions from the checkpoints, which may not speak of a new topic of that name.

        On disk too, but nothing is refused for that: what a full disk does not take is late, and `write_late` comes
        before such a topic gets its folders.
        """
        keys = [TopicPartition(topic, partition) for partition in partitions]
        for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
            offsets = self._remembered(name)
            if [key for key in keys if offsets.pop(key, None) is not None]:
                self._late.add(name)
        try:
            self.write_late()
        except StorageError as error:
            logger.warning(
                "checkpoints in %s still speak of %s, which was deleted or moved: %s", self.path, topic, error
            )
        states = read_cleanings(self.files, self.path)
        if [key for key in keys if states.pop(folder_name(*key), None) is not None]:
            # It is for people only: no reason to fail.
            with suppress(StorageError):
                self._replace_cleanings(states)

    def close(self, *, clean: bool) -> None:
        """Release the directory; `clean` leaves the marker by which the next open skips recovery."""
        try:
            if clean:
                body = json.dumps({"version": 0, "brokerEpoch": NO_BROKER_EPOCH}, separators=(",", ":"))
                self.files.replace_file(join(self.path, CLEAN_SHUTDOWN), body.encode())
        finally:
            self._published.close()
            self._lock.close()


def closed_by_pylog(files: Files, path: str) -> bool:
    """Whether pylog was the last to close a log directory, cleanly, and nobody has opened it since."""
    return files.stat(join(path, CLEAN_SHUTDOWN)) is not None and not closed_by_kafka(files, path)


def closed_by_kafka(files: Files, path: str) -> bool:
    """Whether a real broker was the last to close a log directory, cleanly: what pylog published there is out of date.

    It leaves its broker epoch in the marker, which pylog has not.
    """
    marker = join(path, CLEAN_SHUTDOWN)
    if files.stat(marker) is None:
        return False
    try:
        body = json.loads(files.read_file(marker))
    except ValueError:
        return True
    return not isinstance(body, dict) or body.get("brokerEpoch") != NO_BROKER_EPOCH


def read_cleanings(files: Files, path: str) -> dict[str, dict[str, Any]]:
    """What cleaning has come to, by partition folder; empty where nothing can be read: it is for people only."""
    if files.stat(join(path, CLEANINGS)) is None:
        return {}
    try:
        found = json.loads(files.read_file(join(path, CLEANINGS)))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_identity(files: Files, path: str) -> dict[str, str]:
    """The `meta.properties` at `path`. Raises UnsupportedFormat where a newer version has written it."""
    stored = read_properties(files, path)
    if stored.get("version") not in ("0", "1"):
        raise UnsupportedFormat(
            f"{path}: version {stored.get('version')} is not one that this pylog knows (0 and 1): "
            "open the directory with the version that wrote it"
        )
    return stored


def require_directory(files: Files, path: str) -> None:
    """Raise LogNotFound unless `path` is a directory."""
    stat = files.stat(path)
    if stat is None:
        raise LogNotFound(f"{path}: there is no log directory; open it for writing first, or mend the path")
    if not stat.is_dir:
        raise LogNotFound(f"{path}: this is a file, not a log directory")


def require_log(files: Files, path: str) -> None:
    """Raise LogNotFound unless `path` is a log directory: a reader never makes one."""
    require_directory(files, path)
    if files.stat(join(path, META_PROPERTIES)) is None and not partition_folders(files, path):
        raise LogNotFound(f"{path}: neither meta.properties nor partition folders are here, so it is no log directory")
