"""The changes of a node's topics: made, deleted, and moved from one log directory to another.

The controller decides; this file has what happens to roles and files.
"""

import uuid
from collections.abc import Mapping
from contextlib import ExitStack

from pylog.broker.replica_manager.roles import CommitRecords, EndedRoles, Roles
from pylog.broker.replica_manager.topics import LocalTopics
from pylog.controller.topics import check_not_internal
from pylog.errors import DurabilityUnknown, PylogError, StorageError
from pylog.files import join
from pylog.logdirs.log_directories import FUTURE, copy_files, remove_folder
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Partition
from pylog.protocol.messages import (
    NewPartitions,
    NewTopic,
    Replacement,
)
from pylog.protocol.messages.records import DeletedRecords
from pylog.record import TopicPartition
from pylog.runtime.signals import WholeLock
from pylog.storage.partition_dirs import folder_name, set_aside


class TopicChanges:
    """Changes of the metadata log, and what they change in the log directories."""

    def __init__(self, topics: LocalTopics, roles: Roles, commit: CommitRecords, lock: WholeLock) -> None:
        self._topics = topics
        self._roles = roles
        self._commit = commit
        self._controller = topics.controller
        self._lock = lock

    def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> None:
        """Make a topic.

        Raises InvalidTopic, TopicAlreadyExists, InvalidConfig, InvalidPartitions; nothing is made then.
        """
        with self._lock:
            records = self._controller.topics.create(new, uuid.uuid4(), self._topics.directories.ids)
            if not validate_only:
                self._commit(records)

    def create_partitions(self, new: NewPartitions, *, validate_only: bool = False) -> None:
        """Add partitions to a topic, up to a total. Records with a key go to other partitions from then on.

        Raises UnknownTopicOrPartition, InvalidPartitions, InvalidTopic (an internal one).
        """
        with self._lock:
            records = self._controller.topics.grow(new, self._topics.directories.ids)
            if not validate_only:
                self._commit(records)

    def delete_topic(self, name: str, ended: EndedRoles) -> None:
        """Forget a topic and put its folders out of sight; `purge` removes them.

        Raises UnknownTopicOrPartition, InvalidTopic (internal topics stay).
        """
        with self._lock:
            self._commit(self._controller.topics.delete(name), ended)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, DeletedRecords]:
        """Drop the records of partitions below offsets; return where each starts, durably, or its error.

        The error is one that `Partition.delete_records` raises, NotLeaderOrFollower, InvalidTopic (internal topics
        stay), or DurabilityUnknown.
        """
        return self._delete_records(offsets, is_coordinator=False)

    def drop_before(self, key: TopicPartition, offset: int) -> PylogError | None:
        """Drop the records of a coordinator's log below an offset; gives the error against it."""
        return self._delete_records({key: offset}, is_coordinator=True)[key].error

    def _delete_records(
        self, offsets: Mapping[TopicPartition, int], *, is_coordinator: bool
    ) -> dict[TopicPartition, DeletedRecords]:
        parts = {key: DeletedRecords(partition_index=key.partition, low_watermark=-1) for key in offsets}
        begun: dict[LogDirectory, list[tuple[DeletedRecords, Partition]]] = {}
        for key, part in parts.items():
            try:
                if not is_coordinator:
                    check_not_internal(key.topic, "lose records: coordinators need them")
                partition = self._roles.leader(*key).partition
                part.low_watermark = partition.delete_records(offsets[key])
                home = self._topics.home(key)
            except PylogError as error:
                part.error = error.with_traceback(None)
            else:
                begun.setdefault(home, []).append((part, partition))
        for home, pairs in begun.items():
            try:
                home.keep_starts([partition for _, partition in pairs])
            except DurabilityUnknown as error:
                for part, _ in pairs:
                    part.error, part.low_watermark = error.with_traceback(None), -1
        return parts

    def move(self, wanted: Replacement, ended: EndedRoles) -> None:
        """Move a partition to another log directory. Most of it is copied while it is in use.

        Raises LogDirNotFound, UnknownTopicOrPartition, KafkaStorage, DiskFull (it stays where it is).
        """
        key = TopicPartition(wanted.topic, wanted.partition)
        partition, source = self._roles.partition(*key), self._topics.home(key)
        target, files = self._topics.directories.with_path(wanted.path), self._topics.directories.files
        if target is source:
            return
        future = join(target.path, set_aside(*key, uuid.uuid4(), FUTURE))
        files.make_dir(future)
        with ExitStack() as undo:
            undo.callback(files.remove_dir, future)
            copy_files(files, partition.directory, future, partition.sealed.file_names())
            with self._lock:
                self._roles.note_moved(key, ended)
                self._topics.topic(key.topic).drop(key.partition)
                names = files.list_dir(partition.directory)
                copy_files(files, partition.directory, future, names)
                for name in set(files.list_dir(future)) - set(names):
                    files.remove(join(future, name))
                files.sync_dir(future)
                files.sync_dir(target.path)
                self._decide_move(key, source, target)
                undo.pop_all()
                self._finish_move(key, source, target, future)

    def _decide_move(self, key: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
        records = self._controller.topics.move(key, target.directory_id)
        target.take_over(key, source, self._topics.image_of(key.topic).id)
        self._commit(records)

    def _finish_move(self, key: TopicPartition, source: LogDirectory, target: LogDirectory, future: str) -> None:
        files = self._topics.directories.files
        try:
            away = remove_folder(files, source, key)
            files.rename(future, join(target.path, folder_name(*key)))
            files.sync_dir(target.path)
        except BaseException as error:
            # Appends before the next open has finished the move would be lost then. The move was decided, so DiskFull
            # alone would say too little.
            unfinished = StorageError(
                f"{key.topic}-{key.partition} lies in {future} now, which could not be given its name; the next open "
                f"does that: close the log and open it again ({error!r})"
            )
            self._roles.refuse(key, unfinished)
            if not isinstance(error, Exception):
                raise
            raise unfinished from error
        source.forget(key.topic, [key.partition])
        self._topics.doom(away, self._topics.topic(key.topic).config)
        self._topics.topic(key.topic).places[key.partition] = target.directory_id
