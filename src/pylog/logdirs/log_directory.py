"""A log directory: the root under which partition folders lie, and the files that belong to it as a whole.

.lock                       held for life by the one process that owns the directory
meta.properties             node.id, cluster.id, directory.id (kafka-format: MetaProperties), and in all but the
                            first of several directories pylog.first.directory.id
*-offset-checkpoint         offsets of the partitions (checkpoints.py)
.kafka_cleanshutdown        there only after a clean close; deleted as soon as the directory is opened
.pylog-cleanings            the results of cleaning, as JSON: for people alone, nothing is decided by them
.pylog-housekeeping         when periodic work was done last; never synced (`broker.sweeps`)
.pylog-incarnation          of the file system, when no transaction lacked records; never synced (`files.incarnation`)
.pylog-published            the offsets that reader processes may see (published.py)
.pylog-staged               a folder of batches that tasks of Spark have staged, which no reader sees (spark/sink)
"""

import base64
import json
import logging
import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypedDict, TypeVar

from pylog.commitlog.recovery import Checkpoint
from pylog.errors import DurabilityUnknown, StorageError, UnsupportedFormat
from pylog.files import Files, join, replaced
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.storage.checkpoint import FEW_BYTES_MAX, read_properties, write_properties
from pylog.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    NAMES,
    RECOVERY_POINTS,
    START_OFFSETS,
    Checkpoints,
)
from pylog.storage.partition_dirs import folder_name, partition_folders, partition_of
from pylog.storage.published import Published, PublishedEntry
from pylog.storage.segment_checksum import forget_seals

LOCK = ".lock"
SOCKET = ".socket"
"""The socket of the owner: the one thing in a log directory that is neither a file nor a directory."""
CLEANINGS = ".pylog-cleanings"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLOSED_BY_PYLOG = "pylog"
"""The field of this marker by which pylog knows its own."""
INCARNATION = ".pylog-incarnation"
PUBLISHED = ".pylog-published"
META_PROPERTIES = "meta.properties"
STAGED = ".pylog-staged"
"""The folder of the batches that tasks of Spark have staged. It belongs to the sink: a node passes over it."""
FIRST_DIRECTORY_ID = "pylog.first.directory.id"
"""The id, in `meta.properties`, of the directory in which the log has its list of topics. Kafka passes over it."""

DEFAULT_NODE_ID = 1
NO_BROKER_EPOCH = -1

logger = logging.getLogger("pylog.logdirs")

T = TypeVar("T")


def kafka_uuid(value: uuid.UUID) -> str:
    """A uuid as Kafka writes it: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _node_id(text: str) -> int:
    number = int(text)
    if not 0 <= number < 1 << 31:
        raise ValueError("a node has an id from 0 to 2147483647")
    return number


class CleaningFacts(TypedDict):
    """The state of cleaning a partition, as other processes and people are shown it."""

    progress: dict[str, int] | None
    """How far the one that runs has come; None when none does."""
    last: dict[str, Any] | None
    """The numbers of the last one; None where none is known."""
    finished_ms: int | None
    error: str | None
    """Why the partition is not cleaned any more."""
    idle_reason: str | None
    """Why the last call that was to clean had nothing to do."""


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
        self._lock = files.lock(join(path, LOCK), "pylog")
        try:
            self._load(node_id)
        except BaseException:
            self._lock.close()
            raise

    def _load(self, node_id: int | None) -> None:
        self.node_id, self.directory_id, self.cluster_id = self._identity(node_id)
        self.clean = self.files.stat(join(self.path, CLEAN_SHUTDOWN)) is not None or not self._has_segments()
        self._incarnation = self.files.incarnation(join(self.path, META_PROPERTIES))
        self.has_all_written = self._incarnation is not None and self._incarnation == self.read_note(INCARNATION)
        """Whether all that its owners have written is there, synced or not: no power cut came in between."""
        self._whole: dict[TopicPartition, bool] = {}
        self.checkpoints = Checkpoints(self.files, self.path)
        # Damage to one may mean damage to more, so the ends of the logs are read then, as after a crash.
        # (LogManager.loadLogs)
        self.clean = self.clean and not self.checkpoints.damaged
        published = join(self.path, PUBLISHED)
        if closed_by_kafka(self.files, self.path):
            self._forget_own(published)
        self._published = Published(self.files, published, writable=True)
        try:
            self._forget_clean_shutdown()
        except BaseException:
            self._published.close()
            raise

    def _forget_clean_shutdown(self) -> None:
        if self.files.stat(join(self.path, CLEAN_SHUTDOWN)) is not None:
            # This comes before anything is opened: a crash while opening must not look like a clean stop (KAFKA-10471).
            self.files.remove(join(self.path, CLEAN_SHUTDOWN))
            self.files.sync_dir(self.path)

    def read_note(self, name: str) -> str | None:
        """The text of a small file, as `write_note` has written it; None where it cannot be read."""
        try:
            return self.files.read_file(join(self.path, name), FEW_BYTES_MAX).decode(errors="replace")
        except StorageError:
            return None

    def write_note(self, name: str, text: str) -> None:
        """Replace a small file without a sync: a power cut may leave anything. A full disk leaves what was there.

        Raises StorageError.
        """
        data = text.encode()
        file = self.files.open(join(self.path, name), create=True)
        try:
            file.write(0, data)
            file.truncate(len(data))
        finally:
            file.close()

    def note_incarnation(self) -> None:
        """Note that no transaction lacks records now. None does at the next open, unless a power cut comes before."""
        if self._incarnation is None or self.has_all_written:
            return
        path = join(self.path, INCARNATION)
        try:
            self.write_note(INCARNATION, self._incarnation)
        except StorageError as error:
            logger.warning("%s: after a kill, open transactions will be aborted: %s", path, error, extra={"path": path})

    def forget_incarnation(self) -> None:
        """Forget it, until transactions lack no record again. Raises StorageError."""
        self.has_all_written = False
        if self.read_note(INCARNATION) is not None:
            self.files.remove(join(self.path, INCARNATION))

    def _forget_own(self, published: str) -> None:
        """Remove what pylog has written about a log that Kafka has changed since."""
        for key in partition_folders(self.files, self.path, internal=True):
            forget_seals(self.files, join(self.path, folder_name(*key)))
        if self.files.stat(published) is not None:
            self.files.remove(published)

    def _has_segments(self) -> bool:
        return any(partition_of(name) is not None for name in self.files.list_dir(self.path))

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
        stored_id = self._parsed(path, "node.id", text, _node_id)
        if node_id is not None and node_id != stored_id:
            raise StorageError(f"{path}: the directory belongs to node {stored_id}, not to node {node_id}")
        text = stored.get("directory.id", kafka_uuid(uuid.UUID(int=0)))
        directory_id = self._parsed(path, "directory.id", text, parse_uuid)
        return stored_id, directory_id, stored.get("cluster.id", self._new_cluster_id)

    def join_cluster(self, cluster_id: str) -> None:
        """Let the directory be of another cluster from now on. It must have no topics of the cluster that it was of."""
        path = join(self.path, META_PROPERTIES)
        write_properties(self.files, path, {**read_identity(self.files, path), "cluster.id": cluster_id})
        self.cluster_id = cluster_id

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where another directory is in the place of the opened one, perhaps with another
        owner.
        """
        if not self._lock.is_in_place():
            raise replaced(join(self.path, LOCK))
        self._published.check_in_place()

    def announce(self, text: str) -> None:
        """Let other processes read a text of the owner, in the lock file. Raises StorageError."""
        self._lock.write(text)

    def entry(self, topic_id: uuid.UUID, partition: int) -> PublishedEntry:
        """The slot in which a partition's offsets are published. Raises DirectoryReplaced."""
        self.check_in_place()
        return self._published.entry(topic_id, partition)

    def free_entries(self, topic_ids: Container[uuid.UUID]) -> None:
        """Free the slots of all topics but these for new partitions."""
        self._published.free(topic_ids)

    def is_clean(self, key: TopicPartition) -> bool:
        """Whether a partition is as its last close has left it, with all of it durable.

        Where this process has opened the partition, only that close counts.
        """
        return self._whole.get(key, self.clean)

    def note_opened(self, key: TopicPartition) -> None:
        """Record that a partition is open, and may change: it is clean again when its close has returned whole."""
        self._whole[key] = False

    def note_closed(self, partition: Partition) -> None:
        """Record that the close of a partition has returned."""
        if partition.closed_whole:
            key = TopicPartition(partition.topic, partition.number)
            self._whole[key] = True
            self.checkpoints.note(RECOVERY_POINTS, key, partition.durable_offset)

    @property
    def is_whole(self) -> bool:
        """Whether every partition that this process has opened here was closed whole."""
        return all(self._whole.values())

    def checkpoint(self, topic: str, partition: int, entry: PublishedEntry) -> Checkpoint:
        """The checkpointed state of a partition from the last time it was open.

        After a close it is as it was published, with a checksum. After a kill a start is never below the largest that
        is known: it is durable in two places before it is answered, and both are lowered before a log is cut below it.
        All else is as it was published: that is newer than the checkpoints, and lower where the log was cut since.
        """
        key = TopicPartition(topic, partition)
        start, high = self._remembered(START_OFFSETS, key), self._remembered(HIGH_WATERMARKS, key)
        recovery_point, clean = self._remembered(RECOVERY_POINTS, key), self.is_clean(key)
        published = entry.read()
        if published is None:
            return Checkpoint(start, recovery_point, recovery_point, high, clean=clean)
        durable = published.durable_offset
        if clean and durable != recovery_point:
            # A close has written both. One of them is damaged, or an older copy, so recovery reads the log itself.
            clean, recovery_point, high = False, min(durable, recovery_point), max(high, published.high_watermark)
        else:
            recovery_point, high = durable, published.high_watermark
        if start > published.start_offset:
            start = self._doubted_start(key, start, published.start_offset, clean=clean)
        else:
            start = published.start_offset
        failed = published.failed and not clean
        if not clean and start >= durable:
            # All that was promised was deleted: a crash while the log begins again may have left any part of it.
            durable = 0
        return Checkpoint(start, recovery_point, durable, high, clean=clean, failed=failed, published=True)

    def _doubted_start(self, key: TopicPartition, start: int, published: int, *, clean: bool) -> int:
        """The start of a partition whose checkpoint, which has no checksum, is beyond what was published with one."""
        taken, why = published, "as a close writes both alike"
        if not clean:
            taken, why = start, "as Kafka may have deleted records here; where it has not, this file is damaged"
        logger.warning(
            "%s: %s-%d starts at offset %d by this file, which has no checksum, and at %d by %s, which has one: %d is "
            "taken, %s", join(self.path, START_OFFSETS), *key, start, published, PUBLISHED, taken, why,
            extra={"path": self.path, "topic": key.topic, "partition": key.partition},
        )  # fmt: skip
        return taken

    def _remembered(self, name: str, key: TopicPartition) -> int:
        return self.checkpoints.get(name, key) or 0

    def cleaner_offset(self, key: TopicPartition) -> int | None:
        """The offset up to which a partition was cleaned; None when it never was."""
        return self.checkpoints.get(CLEANER_OFFSETS, key)

    def write_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """Persist the offset up to which a partition is clean. A full disk makes that late."""
        self.checkpoints.note(CLEANER_OFFSETS, key, offset)
        self.checkpoints.write_late()

    def cleanings(self) -> dict[str, CleaningFacts]:
        """The results of cleaning that were shown last, by partition folder."""
        return read_cleanings(self.files, self.path)

    def write_cleanings(self, states: Mapping[TopicPartition, CleaningFacts]) -> None:
        """Show other processes the results of cleaning these partitions."""
        new = {folder_name(*key): state for key, state in states.items()}
        self._replace_cleanings(self.cleanings() | new)

    def _replace_cleanings(self, states: dict[str, CleaningFacts]) -> None:
        self.files.replace_file(join(self.path, CLEANINGS), json.dumps(states, separators=(",", ":")).encode())

    def write_checkpoints(self, partitions: Iterable[Partition]) -> None:
        """Persist the durable offsets, start offsets and high watermarks of the open partitions.

        Those of the others are kept.
        """
        self.check_in_place()
        for partition in partitions:
            partition.checkpoint()
        # Every offset of a checkpoint was published before, durably.
        self._published.sync()
        self.checkpoints.write_late()

    def keep_starts(self, partitions: Sequence[Partition]) -> None:
        """Make durable where these partitions start, in two places, by one sync and one checkpoint for all of them.

        What fails or is interrupted latches them all. Raises DurabilityUnknown.
        """
        try:
            self._published.sync()
            for partition in partitions:
                partition.note_start()
            self.checkpoints.write_starts()
        except BaseException as error:
            for partition in partitions:
                partition.latch(error)
            if not isinstance(error, Exception):
                raise
            raise DurabilityUnknown(
                f"{self.path}: {error!r}. Whether the records are deleted is unknown; close the log and open it again"
            ) from error

    def take_over(self, key: TopicPartition, source: "LogDirectory", topic_id: uuid.UUID) -> None:
        """Take over what `source` remembers of a partition, and nothing else: it moves here, closed and complete."""
        before = source.entry(topic_id, key.partition).read()
        if before is not None:
            entry = self.entry(topic_id, key.partition)
            # Both slots: the other one may be from the last time that the partition was here.
            entry.publish(before)
            entry.publish(before)
            entry.sync()
        for name in NAMES:
            self.checkpoints.note(name, key, source.checkpoints.get(name, key))
        if before is not None:
            # It was closed for the move.
            self.checkpoints.note(RECOVERY_POINTS, key, before.durable_offset)
        self.checkpoints.write_late()

    def forget(self, topic: str, partitions: Iterable[int]) -> None:
        """Drop deleted partitions from the checkpoints, which must not speak of a new topic of that name.

        The files change, too, but a full disk refuses nothing here: its part is late, and `write_late` comes before
        such a topic gets its folders.
        """
        keys = [TopicPartition(topic, partition) for partition in partitions]
        for key in keys:
            # Nothing is left of them here that could be clean or not.
            self._whole.pop(key, None)
        self.checkpoints.forget(keys)
        try:
            self.checkpoints.write_late()
        except StorageError as error:
            logger.warning(
                "checkpoints in %s still speak of %s, which was deleted or moved: %s",
                self.path,
                topic,
                error,
                extra={"topic": topic, "path": self.path},
            )
        states = read_cleanings(self.files, self.path)
        if [key for key in keys if states.pop(folder_name(*key), None) is not None]:
            # The file is for people only: no reason to fail.
            with suppress(StorageError):
                self._replace_cleanings(states)

    def close(self, *, clean: bool, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Release the directory.

        `clean` leaves the marker by which the next open skips recovery, where every partition that was opened here was
        closed whole. It has the epoch in which the node was registered: a Kafka that takes the directory over shows it
        to its controller, as the proof of a clean stop (KIP-966).
        """
        with ExitStack() as closing:
            closing.callback(self._lock.close)
            closing.callback(self._published.close)
            if clean and self.is_whole:
                self.check_in_place()
                body = {"version": 0, "brokerEpoch": broker_epoch, CLOSED_BY_PYLOG: True}
                text = json.dumps(body, separators=(",", ":"))
                self.files.replace_file(join(self.path, CLEAN_SHUTDOWN), text.encode())


def closed_by_pylog(files: Files, path: str) -> bool:
    """Whether pylog was the last to close a log directory, cleanly, and it was not opened since."""
    return files.stat(join(path, CLEAN_SHUTDOWN)) is not None and not closed_by_kafka(files, path)


def closed_by_kafka(files: Files, path: str) -> bool:
    """Whether a real broker was the last to close a log directory, cleanly: pylog's published offsets are out of date.

    pylog says in the marker that it has written it; a broker passes over that, and writes a marker of its own.
    """
    marker = join(path, CLEAN_SHUTDOWN)
    if files.stat(marker) is None:
        return False
    try:
        body = json.loads(files.read_file(marker, FEW_BYTES_MAX))
    except (ValueError, RecursionError):
        return True
    return not isinstance(body, dict) or body.get(CLOSED_BY_PYLOG) is not True


def read_cleanings(files: Files, path: str) -> dict[str, CleaningFacts]:
    """The results of cleaning, by partition folder; empty where the file cannot be read: it is for people only."""
    if files.stat(join(path, CLEANINGS)) is None:
        return {}
    try:
        found = json.loads(files.read_file(join(path, CLEANINGS)))
    except (ValueError, RecursionError):
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
