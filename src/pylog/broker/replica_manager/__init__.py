"""What a node keeps: its log directories, its catalogue, the topics opened so far, and its role for each partition.

    roles     what is opened, at first use, and whether this node leads it or follows      topics    what changes them

and here is the upkeep: checkpoints, files that are due to go, the close.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress

from pylog.broker.replica_manager.roles import Follow, Lead
from pylog.broker.replica_manager.topic_changes import TopicChanges
from pylog.commitlog.deleted_segments import RETRY_MS
from pylog.errors import DirectoryReplaced, DiskFull, DurabilityUnknown, LogNotFound, PylogError, StorageError
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Partition
from pylog.record import TopicPartition

__all__ = ["Follow", "Lead", "ReplicaManager"]

logger = logging.getLogger("pylog")


class ReplicaManager(TopicChanges):
    """The state of one node over its log directories. Thread-safe."""

    _is_closed = False
    _close_error: Exception | None = None

    @property
    def opened(self) -> list[Partition]:
        """The partitions opened so far, without the metadata log."""
        with self._lock:
            return [partition for topic in self._topics.values() for partition in topic.opened]

    def checkpoint(self) -> None:
        """Persist how far each open partition is durable, so that recovery after a crash reads less, and sum up the
        metadata log.

        A directory that cannot be written to goes offline, with its partitions; those of one that was replaced take no
        more appends.
        """
        with self._lock:
            self._catalogue.take_snapshot()
            for directory in list(self.directories):
                try:
                    directory.write_checkpoints(self._opened_in(directory))
                except DiskFull:
                    # The old ones are right, if late.
                    logger.warning("%s is full: checkpoints are late", directory.path)
                except StorageError as error:
                    if isinstance(error, DirectoryReplaced):
                        for partition in self._opened_in(directory):
                            partition.latch(error)
                    self.directories.fail(directory, error)

    def _opened_in(self, directory: LogDirectory) -> list[Partition]:
        metadata = self._catalogue.partition
        opened = self.opened + ([metadata] if metadata is not None else [])
        return [p for p in opened if p.directory.rpartition("/")[0] == directory.path.rstrip("/")]

    def kept(self) -> Iterator[Partition]:
        """Every partition that has a folder here, opened if need be; what cannot be, or goes meanwhile, is left out."""
        with self._lock:
            keys = [TopicPartition(name, n) for name, image in self.image.topics.items() for n in self._places(image)]
        for key in keys:
            try:
                with self._lock:
                    found = self._topic(key.topic).exists(key.partition)
                if found:
                    yield self.partition(*key)
            except PylogError as error:
                logger.debug("%s-%d is left out: %s", *key, error)
            except Exception:
                logger.exception("%s-%d could not be opened, as should never happen, and is left out", *key)

    def purge(self, now_ms: int) -> None:
        """Remove the files whose `file.delete.delay.ms` has passed: of dropped segments, and of deleted topics."""
        for partition in self.opened:
            try:
                partition.purge(now_ms)
            except StorageError as error:
                logger.warning("files of %s-%d could not be removed: %s", partition.topic, partition.number, error)
        with self._lock:
            due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
            self._doomed = [(due_ms, path) for due_ms, path in self._doomed if due_ms > now_ms]
        for path in due:
            try:
                self.directories.files.remove_dir(path)
            except LogNotFound:
                continue
            except StorageError as error:
                logger.warning("%s could not be removed, and is tried again later: %s", path, error)
                with self._lock:
                    self._doomed.append((now_ms + RETRY_MS, path))

    @property
    def purge_due_ms(self) -> int | None:
        """When `purge` has something to do (wall clock); None when nothing waits."""
        times = [partition.purge_due_ms for partition in self.opened] + [due for due, _ in self._doomed]
        return min((due for due in times if due is not None), default=None)

    def close(self) -> None:
        """Close every partition, write the checkpoints and, where all of it is durable, the clean-shutdown markers.

        Everything is given back, whatever is raised. Another close does nothing, unless this one raised: then it raises
        that again, as what was appended may not be on the disk. What interrupts a close twice may leave something to be
        given back by the next one.
        """
        with self._lock:
            if self._is_closed:
                if self._close_error is not None:
                    self._give_back()
                    raise self._close_error.with_traceback(None)
                return
            self._is_closed = True
            self._close_error = DurabilityUnknown(
                "a close was interrupted: whether everything that was appended is on the disk is not known; open the "
                "log again to read what is there"
            )
            try:
                self._close_all({directory.path: self._opened_in(directory) for directory in self.directories})
            except Exception as error:
                self._close_error = error
                raise
            finally:
                self._give_back()
            self._close_error = None

    def _give_back(self) -> None:
        """Give descriptors and locks back, and write nothing."""
        try:
            metadata = self._catalogue.partition
            for partition in self.opened + ([metadata] if metadata is not None else []):
                with suppress(PylogError):
                    partition.abandon()
        finally:
            self.directories.release()

    def _close_all(self, opened: Mapping[str, list[Partition]]) -> None:
        epochs_ended = self._end_epochs()
        with ExitStack() as closing:
            # In reverse, and each whatever becomes of the others; an error is raised in the end.
            for directory in list(self.directories):
                closing.callback(self._close_directory, directory, opened[directory.path], epochs_ended)
            closing.callback(self._catalogue.close)
            for topic in self._topics.values():
                closing.callback(topic.close)

    def _close_directory(self, directory: LogDirectory, opened: list[Partition], are_over: bool) -> None:
        broken = any(self.directories.has_folder(directory, key) for key in self._broken)
        directory.write_checkpoints(opened)
        directory.close(clean=are_over and not broken)
