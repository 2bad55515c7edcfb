"""What a node keeps: its log directories, its catalogue, the topics opened so far, and its role for each partition.

    roles     what is opened, at first use, and whether this node leads it or follows      topics    what changes them

and here is the upkeep: checkpoints, files that are due to go, the close.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack

from pylog.directory import LogDirectory
from pylog.errors import DiskFull, PylogError, StorageError
from pylog.node.roles import Follow, Lead
from pylog.node.topics import Topics
from pylog.partition import Partition
from pylog.record import TopicPartition

__all__ = ["Follow", "Lead", "Node"]

logger = logging.getLogger("pylog")


class Node(Topics):
    """The state of one node over its log directories. Thread-safe."""

    @property
    def opened(self) -> list[Partition]:
        """The partitions opened so far, without the metadata log."""
        with self._lock:
            return [partition for topic in self._topics.values() for partition in topic.opened]

    def checkpoint(self) -> None:
        """Persist how far each open partition is durable, so that recovery after a crash reads less.

        A directory that cannot be written to goes offline, with its partitions.
        """
        with self._lock:
            for directory in list(self.directories):
                try:
                    directory.write_checkpoints(self._opened_in(directory))
                except DiskFull:
                    # The old ones are right, if late.
                    logger.warning("%s is full: checkpoints are late", directory.path)
                except StorageError as error:
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
            except StorageError as error:
                logger.warning("%s could not be removed; the next open tries again: %s", path, error)

    @property
    def purge_due_ms(self) -> int | None:
        """When `purge` has something to do (wall clock); None when nothing waits."""
        times = [partition.purge_due_ms for partition in self.opened] + [due for due, _ in self._doomed]
        return min((due for due in times if due is not None), default=None)

    def close(self) -> None:
        """Close every partition, write the checkpoints and, where all went well, the clean-shutdown markers."""
        with self._lock:
            opened = {directory.path: self._opened_in(directory) for directory in self.directories}
            try:
                with ExitStack() as closing:
                    # In reverse, and each whatever becomes of the others; an error is raised in the end.
                    for directory in list(self.directories):
                        closing.callback(self._close_directory, directory, opened[directory.path])
                    closing.callback(self._catalogue.close)
                    for topic in self._topics.values():
                        closing.callback(topic.close)
            finally:
                self.directories.release()

    def _close_directory(self, directory: LogDirectory, opened: list[Partition]) -> None:
        broken = any(self.directories.has_folder(directory, key) for key in self._broken)
        directory.write_checkpoints(opened)
        directory.close(clean=not broken and not any(partition.failed for partition in opened))
