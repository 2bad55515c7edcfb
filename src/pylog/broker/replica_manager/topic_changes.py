"""The changes of a node's topics: made, deleted, and moved from one log directory to another."""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack

from pylog.broker.replica_manager.roles import EndedRoles, Roles, next_slot
from pylog.broker.replica_manager.topics import LocalTopics
from pylog.config import TopicConfig
from pylog.errors import (
    DurabilityUnknown,
    InvalidPartitions,
    InvalidTopic,
    PylogError,
    StorageError,
    TopicAlreadyExists,
)
from pylog.files import join
from pylog.logdirs.log_directories import FUTURE, copy_files, remove_folder
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Partition
from pylog.protocol.messages import (
    INTERNAL_TOPICS,
    NODE_DEFAULT,
    DeletedPart,
    DeleteRecordsPart,
    NewPartitions,
    NewTopic,
    Replacement,
)
from pylog.protocol.metadata_changes import (
    add_partitions,
    allocate_producer_ids,
    move_replica,
    remove_topic,
)
from pylog.protocol.topic_names import validate_topic_name
from pylog.record import TopicPartition
from pylog.runtime.signals import WholeLock
from pylog.storage.partition_dirs import folder_name, set_aside

MAX_PARTITIONS = 10_000
ID_SLOTS, ID_SLOT = 1000, 10**9
PRODUCER_IDS = 1000
"""The number of producer ids that a node takes at once (Kafka: ProducerIdsBlock)."""


class TopicChanges:
    """Changes of the metadata log, and what they change in the log directories."""

    def __init__(self, topics: LocalTopics, roles: Roles, lock: WholeLock) -> None:
        self._topics = topics
        self._roles = roles
        self._lock = lock
        self.producer_ids_from = 0
        """Ids below are not given any more, although they were taken for that."""

    def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> None:
        """Make a topic.

        Raises InvalidTopic, TopicAlreadyExists, InvalidConfig, InvalidPartitions; nothing is made then.
        """
        with self._lock:
            validate_topic_name(new.name, self._topics.image.namesakes(new.name))
            if new.name in self._topics.image.topics:
                raise TopicAlreadyExists(f"topic {new.name!r} exists already")
            config = TopicConfig.canonical(new.config)
            count = self._topics.config.num_partitions if new.partitions == NODE_DEFAULT else new.partitions
            if not 1 <= count <= MAX_PARTITIONS:
                raise InvalidPartitions(
                    f"{count} partitions: a topic has 1 to {MAX_PARTITIONS}, or -1 for num.partitions of the node"
                )
            if validate_only:
                return
            topic_id = uuid.uuid4()
            places = self._topics.new_places(range(count))
            followers, isr = self._followers_of_new(new.name)
            records = self._topics.metadata_log.new_topic(
                new.name, topic_id, places, config, followers=followers, isr=isr
            )
            self._topics.metadata_log.commit(records)
            self._topics.made.add(topic_id)

    def _followers_of_new(self, name: str) -> tuple[list[int], list[int] | None]:
        """The followers of a topic that is made, and the replicas that are in sync with it.

        A topic that is made again has those that it had. One of coordinators has the followers of all topics, and they
        count once they have caught up: those that have never come do not stop groups and transactions.
        """
        own = self._topics.node_id
        if name in INTERNAL_TOPICS:
            return sorted(self._roles.counted()), [own]
        _, before = self._topics.image.replicated_before.get(name, (None, None))
        if before is None or before.leader != own:
            return [], None
        return [node for node in before.replicas if node != own], None

    def create_partitions(self, new: NewPartitions, *, validate_only: bool = False) -> None:
        """Add partitions to a topic, up to a total. Records with a key go to other partitions from then on.

        Raises UnknownTopicOrPartition, InvalidPartitions, InvalidTopic (an internal one).
        """
        with self._lock:
            image = self._topics.image_of(new.topic)
            _check_not_internal(new.topic, "get more partitions: groups and transactions are found in them by a hash")
            if not len(image.partitions) < new.total <= MAX_PARTITIONS:
                raise InvalidPartitions(
                    f"topic {new.topic!r} has {len(image.partitions)} partitions: it can get more, up to "
                    f"{MAX_PARTITIONS} in all, not {new.total}"
                )
            if validate_only:
                return
            missing = [number for number in range(new.total) if number not in image.partitions]
            places = self._topics.new_places(missing)
            own = self._topics.node_id
            known = {node for state in image.partitions.values() if state.leader == own for node in state.replicas}
            replicas = self._topics.metadata_log.replicas(places, followers=sorted(known - {own}))
            # Another node may have led the topic, and made partitions that are not here: an epoch of this node's alone
            # tells them apart.
            epoch = max((state.leader_epoch for state in image.partitions.values() if state.leader == own), default=0)
            self._topics.metadata_log.commit(add_partitions(image.id, replicas, leader=own, epoch=epoch))
            self._topics.topic(new.topic).places.update(places)

    def allocate_producer_ids(self) -> range:
        """Producer ids that were never given before: they are written down before they are used.

        Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            first = self._topics.image.next_producer_id
            self._topics.metadata_log.commit(self._producer_ids(first + PRODUCER_IDS))
            return range(first, first + PRODUCER_IDS)

    def reserve_producer_ids(self, upto: int) -> None:
        """Never give a producer id below `upto`: some of them are in use. Raises DiskFull, DurabilityUnknown."""
        with self._lock:
            if self._topics.image.next_producer_id < upto:
                self._topics.metadata_log.commit(self._producer_ids(upto))

    def take_over_producer_ids(self, seen: int) -> None:
        """Give producer ids that no other node gives, from now on: another one has led, and has given ids that are in
        use, up to `seen` in the logs. They come in rounds and slots, as leader epochs do (`Roles.unused_epoch`).

        Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            latest = max(self._topics.image.next_producer_id, seen)
            self.producer_ids_from = next_slot(latest, self._topics.node_id, ID_SLOTS, ID_SLOT)
            self._topics.metadata_log.commit(self._producer_ids(self.producer_ids_from))

    def _producer_ids(self, next_id: int) -> list[bytes]:
        registered = self._topics.image.nodes.get(self._topics.node_id)
        return allocate_producer_ids(self._topics.node_id, registered.epoch if registered is not None else 0, next_id)

    def delete_topic(self, name: str, ended: EndedRoles) -> None:
        """Forget a topic and put its folders out of sight; `purge` removes them.

        Raises UnknownTopicOrPartition, InvalidTopic (internal topics stay).
        """
        with self._lock:
            image = self._topics.image_of(name)
            _check_not_internal(name, "be deleted")
            topic = self._topics.topic(name)
            self._topics.metadata_log.commit(remove_topic(image.id))
            for number in image.partitions:
                self._roles.forget(TopicPartition(name, number), ended)
            del self._topics.opened[name]
            self._topics.doom(topic.delete(), topic.config)

    def delete_records(self, asked: Sequence[DeleteRecordsPart]) -> list[DeletedPart]:
        """Drop the records of partitions below offsets; return where each starts, durably, or its error.

        The error is one that `Partition.delete_records` raises, NotLeaderOrFollower, InvalidTopic (internal topics
        stay), or DurabilityUnknown.
        """
        parts = [DeletedPart(one.topic, one.partition) for one in asked]
        begun: dict[LogDirectory, list[tuple[DeletedPart, Partition]]] = {}
        for part, one in zip(parts, asked, strict=True):
            try:
                _check_not_internal(one.topic, "lose records: coordinators need them")
                partition = self._roles.leader(one.topic, one.partition).partition
                part.low_watermark = partition.delete_records(one.offset)
                home = self._topics.home(TopicPartition(one.topic, one.partition))
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
        image = self._topics.image.topics[key.topic]
        state = image.partitions[key.partition]
        mine = zip(state.replicas, state.directories, strict=True)
        places = [target.directory_id if node == self._topics.node_id else place for node, place in mine]
        target.take_over(key, source, image.id)
        self._topics.metadata_log.commit(move_replica(image.id, key.partition, places))

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


def _check_not_internal(topic: str, what: str) -> None:
    """Raise InvalidTopic for a topic of coordinators, which cannot `what`."""
    if topic in INTERNAL_TOPICS:
        raise InvalidTopic(f"{topic!r} is internal and cannot {what}")
