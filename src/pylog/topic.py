"""A topic on this node: its name, id and config, and those of its partitions that lie here, each opened at first use.

<log dir>/<topic>-<partition>/            a live partition
<log dir>/<topic>-<partition>.<uuid>-delete/   renamed first, removed then: a crash in between leaves no half topic
"""

import logging
import uuid
from collections.abc import Iterator
from contextlib import ExitStack

from pylog.checkpoint import read_topic_id
from pylog.config import TopicConfig
from pylog.directory import LogDirectory, folder_name
from pylog.errors import StorageError, UnknownTopicOrPartition
from pylog.files import join
from pylog.partition import Partition
from pylog.segments import base_offsets

logger = logging.getLogger("pylog")


class Topic:
    """The partitions of one topic that this node keeps. `numbers` are those it keeps, of all the topic has.

    Not thread-safe for opening: the node holds its lock around `partition`.
    """

    def __init__(
        self, directory: LogDirectory, name: str, topic_id: uuid.UUID, config: TopicConfig, numbers: list[int]
    ) -> None:
        self.directory = directory
        self.name = name
        self.id = topic_id
        self.config = config
        self.numbers = numbers
        self._open: dict[int, Partition] = {}

    def partition(self, number: int, now_ms: int) -> Partition:
        """The partition, opened (and recovered if need be) or created at its first use.

        Raises: UnknownTopicOrPartition; CorruptBatch where recovery met damage below the durable offset.
        """
        opened = self._open.get(number)
        if opened is not None:
            return opened
        if number not in self.numbers:
            raise UnknownTopicOrPartition(f"topic {self.name!r} has no partition {number} on this node")
        files = self.directory.files
        path = join(self.directory.path, folder_name(self.name, number))
        entry = self.directory.entry(self.id, number)
        partition = Partition(files, path, self.name, number, self.config, entry)
        self._move_stray(path, number)
        try:
            checkpoint = self.directory.checkpoint(self.name, number, entry)
            if files.stat(path) is None or not (base_offsets(files, path) or checkpoint.durable_offset):
                partition.create(self.id, now_ms)
            else:
                partition.open(checkpoint, now_ms)
        except BaseException:
            partition.abandon()
            raise
        self._open[number] = partition
        return partition

    def _move_stray(self, path: str, number: int) -> None:
        """Put the folder of an earlier topic of this name out of the way: a crash while it was deleted left it."""
        files = self.directory.files
        if files.stat(path) is None:
            self.directory.forget(self.name, [number])
            return
        found = read_topic_id(files, path)
        if found is not None and found != self.id:
            away = f"{path[: len(self.directory.path) + 200]}.{found.hex}-stray"
            logger.warning("%s belongs to a topic that was deleted: it is now %s and can be removed", path, away)
            files.rename(path, away)
            files.sync_dir(self.directory.path)
            self.directory.forget(self.name, [number])

    def exists(self, number: int) -> bool:
        """Whether the partition has a folder already."""
        return self.directory.files.stat(join(self.directory.path, folder_name(self.name, number))) is not None

    @property
    def opened(self) -> list[Partition]:
        return list(self._open.values())

    def close(self) -> bool:
        """Close what is open; whether every partition closed cleanly."""
        with ExitStack() as closing:
            clean = True
            for partition in self.opened:
                # One that fails does not keep the others from being closed; its error is raised then.
                closing.callback(partition.close)
                clean = clean and not partition.failed
        return clean

    def delete(self) -> None:
        """Remove every folder of the topic: out of sight by a rename first, then for good."""
        files, root = self.directory.files, self.directory.path
        try:
            self.close()
        except StorageError as error:
            logger.warning("topic %s was deleted although it could not be closed: %s", self.name, error)
        self._open.clear()
        self.directory.forget(self.name, self.numbers)
        for number in self.numbers:
            name = folder_name(self.name, number)
            if files.stat(join(root, name)) is not None:
                away = f"{name[:200]}.{uuid.uuid4().hex}-delete"
                files.rename(join(root, name), join(root, away))
        files.sync_dir(root)
        remove_leftovers(self.directory)


def remove_leftovers(directory: LogDirectory) -> None:
    """Remove the folders of deleted topics, also those that a crash left behind."""
    for name in list(leftovers(directory)):
        directory.files.remove_dir(join(directory.path, name))


def leftovers(directory: LogDirectory) -> Iterator[str]:
    """The names of folders that wait for removal."""
    return (name for name in directory.files.list_dir(directory.path) if name.endswith("-delete"))
