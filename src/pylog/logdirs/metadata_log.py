"""The metadata log of a node, `__cluster_metadata-0`, and the image that its replay gives.

Topics, ids, partitions, leaders and configs are records in Kafka's own metadata schemas; there is no other list of
topics. A change is appended, made durable and only then applied to the image, so all that `image` says is on disk.

One node is a quorum of one: at the first change after an open that was not clean it takes a new epoch (persisted in
`quorum-state` before it is used) and opens it with a LEADER_CHANGE control batch, as Kafka's raft does (KIP-595). After
a clean close by pylog it goes on in the epoch it had.

    epoch 3        [ ............ snapshot 1 ......... snapshot 2 .... ]     the image: snapshot 2, and the log after it
                   ^ gone with snapshot 3             ^ a segment begins

A close or housekeeping sums the log up in a snapshot (`metadata_snapshots`) when it has grown by enough since the last
one, so that an open costs no more with every run. Two snapshots stay, and the log from the older one on: where the
newer one is damaged, nothing is lost.

A directory that has partition folders but no metadata log is adopted: its folders become the first records.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping

from pylog.commitlog.partition_reader import ReadablePartition
from pylog.commitlog.recovery import Checkpoint
from pylog.commitlog.segments import base_offsets
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, StorageError, UnsupportedFormat
from pylog.files import Files, join
from pylog.kernel import Record, walk
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.metadata_snapshots import SnapshotId, read_image, remove_unfinished, snapshot_ids, write_snapshot
from pylog.partition import Partition
from pylog.protocol import metadata_changes, metadata_image
from pylog.protocol.batch import Batch, Origin, encode
from pylog.protocol.metadata_image import METADATA_TOPIC_ID, MetadataDelta, MetadataImage
from pylog.protocol.persistent_map import PersistentMap
from pylog.protocol.schema import message
from pylog.protocol.topic_names import METADATA_TOPIC
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_topic_id
from pylog.storage.partition_dirs import folder_name, partition_folders

logger = logging.getLogger("pylog.logdirs")

READ_BYTES = 1 << 20
LEADER_CHANGE = 2
CONTROL_KEY_VERSION = 0
METADATA_LOG = TopicPartition(METADATA_TOPIC, 0)
GROWTH_BYTES_MIN, GROWTH_BYTES_MAX = 1024, 20 << 20
GROWTH_OF_SNAPSHOT = 4
"""The part of its newest snapshot by which the log grows until the next one: a quarter."""
LOG_CONFIG = TopicConfig(retention_ms=-1, file_delete_delay_ms=0)
"""The config of the metadata log: no record goes for its age, and a dropped segment is removed at once."""


def replay(partition: ReadablePartition, image: MetadataImage, position: int, upto: int) -> int:
    """Apply the records in [position, upto) of a metadata log to `image`; return the position where it stopped.

    Raises: CorruptBatch naming file and position, UnsupportedFormat (a record newer than this version knows).
    """
    while position < upto:
        try:
            found = partition.read(position, READ_BYTES, upto=upto)
        except CorruptBatch as error:
            raise _unreadable(error.reason, error.path, error.position, position) from error
        if found is None:
            break
        spans, valid, reason = walk(found.data)
        if reason is not None or not spans:
            raise _unreadable(reason or "no whole batch", found.path, found.position + valid, position)
        for span in spans:
            at = found.position + span.position
            try:
                _apply(Batch.parse(found.data, span.position), image, position)
            except CorruptBatch as error:
                raise _unreadable(error.reason, found.path, at, span.base_offset) from error
            except UnsupportedFormat as error:
                raise UnsupportedFormat(f"{found.path}, position {at}, offset {span.base_offset}: {error}") from error
            position = span.last_offset + 1
    return position


def _unreadable(reason: str, path: str | None, position: int | None, offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"{reason}; the metadata log cannot be read, and no part of it is ever given up: restore it from a backup, or "
        f"move the folder {METADATA_TOPIC}-0 away, and the topics are made again from their folders, without configs",
        path=path, position=position, offset=offset,
    )  # fmt: skip


def _apply(batch: Batch, image: MetadataImage, first_offset: int) -> None:
    if not batch.is_control:
        for record in batch.records(METADATA_TOPIC, 0, first_offset):
            if record.value is not None:
                image.apply(metadata_image.decode_record(record.value))


def topics_in_folders(files: Files, path: str) -> dict[str, tuple[uuid.UUID | None, list[int]]]:
    """The topics whose partitions have folders under `path`: id from `partition.metadata`, and partition numbers."""
    found: dict[str, tuple[uuid.UUID | None, list[int]]] = {}
    for topic, number in partition_folders(files, path):
        if not base_offsets(files, join(path, folder_name(topic, number))):
            # A folder of another program: a partition has one segment at least.
            continue
        if topic not in found:
            found[topic] = (read_topic_id(files, join(path, folder_name(topic, number))), [])
        found[topic][1].append(number)
    return found


class MetadataLog:
    """The owner's side: it replays the metadata log at open and appends to it.

    The node holds its lock around `commit`.
    """

    def __init__(
        self, directories: Directories, now_ms: Callable[[], int], snapshot_after: int = GROWTH_BYTES_MAX
    ) -> None:
        self.directories = directories
        self.directory = directory = directories.first
        self.image = MetadataImage()
        self.epoch = -1
        self.has_adopted = False
        """Whether the open has made topics of folders."""
        self._is_private = False
        self._now_ms = now_ms
        self._snapshot_after = snapshot_after
        self._path = join(directory.path, folder_name(METADATA_TOPIC, 0))
        self._partition = self._make_partition()
        self._snapshots: list[SnapshotId] = []
        if directory.files.stat(self._path) is not None:
            self._snapshots = snapshot_ids(directory.files, self._path)
            if self._snapshots or base_offsets(directory.files, self._path):
                self._open()
            elif self._checkpoint().durable_offset > 0:
                raise _unreadable("its segments are missing", self._path, None, 0)
        if not self.image.nodes:
            # No node has ever written to the metadata log: it is missing, or its first batch did not get there.
            self._adopt()

    def _make_partition(self) -> Partition:
        entry = self.directory.entry(METADATA_TOPIC_ID, 0)
        return Partition(
            self.directory.files, self._path, METADATA_TOPIC, 0, LOG_CONFIG, entry,
            checkpoints=self.directory.checkpoints, topic_id=METADATA_TOPIC_ID,
        )  # fmt: skip

    def _checkpoint(self) -> Checkpoint:
        return self.directory.checkpoint(METADATA_TOPIC, 0, self.directory.entry(METADATA_TOPIC_ID, 0))

    def _open(self) -> None:
        partition = self._partition
        partition.open(self._checkpoint(), self._now_ms())
        self.directory.note_opened(METADATA_LOG)
        if not partition.opened_clean:
            remove_unfinished(self.directory.files, self._path)
            partition.sync()
        self.image, position = read_image(self.directory.files, self._path, partition.start_offset)
        if position > partition.next_offset:
            # Kafka leaves the log so when it has got a snapshot from another node.
            # (KafkaMetadataLog.truncateToLatestSnapshot)
            partition.truncate_fully(position, self._now_ms())
        partition.advance_high_watermark(partition.next_offset)
        replay(partition, self.image, position, partition.next_offset)
        try:
            self._protect(self.image)
        except StorageError as error:
            logger.warning("other users may read what the log keeps of its users' passwords: %s", error)

    def _protect(self, image: MetadataImage) -> None:
        """Keep other users out of the metadata log where it has keys of users (SCRAM). Raises StorageError."""
        if image.users and not self._is_private:
            self.directory.files.make_private(self._path)
            self._is_private = True

    def _adopt(self) -> None:
        """Make records of the folders of directories that have no metadata log."""
        found: dict[str, dict[int, uuid.UUID]] = {}
        ids: dict[str, uuid.UUID] = {}
        for (name, number), home in sorted(self.directories.partitions().items()):
            path = join(home.path, folder_name(name, number))
            # Otherwise it is a folder of another program: a partition has one segment at least.
            if base_offsets(home.files, path):
                found.setdefault(name, {})[number] = home.directory_id
                ids.setdefault(name, read_topic_id(home.files, path) or uuid.uuid4())
        records: list[bytes] = []
        for name, places in found.items():
            logger.info("adopting topic %s with partitions %s", name, sorted(places), extra={"topic": name})
            node = self.directory.node_id
            replicas = {number: [(node, place)] for number, place in places.items()}
            records += metadata_changes.create_topic(name, ids[name], replicas, leader=node)
        if records:
            self.has_adopted = True
            self.commit(records)

    def commit(self, records: list[bytes]) -> MetadataDelta:
        """Append `records` as one batch, make them durable, replay them. Gives what they change.

        Raises: CorruptBatch, DiskFull, ReadOnly (nothing changed), DurabilityUnknown.
        """
        if self.epoch < 0:
            self._begin_epoch()
        node = self.directory.node_id
        directories = self.directories.ids
        known = self.image.nodes.get(node)
        if known is None or set(known.directories) != set(directories):
            records = metadata_changes.register_node(node, incarnation=uuid.uuid4(), directories=directories) + records
        if not self.image.features:
            records = metadata_changes.set_features(metadata_image.FEATURES) + records
        if not self.image.is_whole:
            # Records behind a transaction without an end count for nothing. (Kafka: ActivationRecordsGenerator)
            records = metadata_changes.abort_transaction("its controller is gone") + records
        delta = MetadataDelta()
        image = self.image.successor(delta)
        for value in records:
            image.apply(metadata_image.decode_record(value))
        self._protect(image)
        now = self._now_ms()
        batch = encode([Record(value) for value in records], now_ms=now)
        self._partition.append(batch, epoch=self.epoch, now_ms=now, origin=Origin.RAFT_LEADER)
        self._partition.sync()
        self._partition.advance_high_watermark(self._partition.next_offset)
        self.image = image
        return delta

    @property
    def _latest_epoch(self) -> int:
        """The last epoch that was begun; 0 before the first."""
        known = self._partition.epochs.latest if self._partition.is_open else 0
        return max(known, *(snapshot.epoch for snapshot in self._snapshots[-1:]), 0)

    def _begin_epoch(self) -> None:
        latest = self._latest_epoch
        if self._partition.as_closed and latest > 0:
            self.epoch = latest
        else:
            self._take_epoch(latest + 1)

    def _take_epoch(self, epoch: int) -> None:
        last = metadata_changes.EPOCH_MAX
        if epoch > last:
            raise StorageError(
                f"{self._path} is in leader epoch {last}, and none comes after that: nothing can be written to the "
                "metadata log. No program counts so far: take the directory from a backup"
            )
        now = self._now_ms()
        if not self._partition.is_open:
            self._partition.create(METADATA_TOPIC_ID, now)
            self.directory.note_opened(METADATA_LOG)
        node = self.directory.node_id
        state = {
            "clusterId": "",
            "leaderId": node,
            "leaderEpoch": epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": node}],
            "data_version": 0,
        }
        self.directory.files.replace_file(
            join(self._path, "quorum-state"), json.dumps(state, separators=(",", ":")).encode()
        )
        # Version 0, as Kafka writes while kraft.version is 0: its tools read no other.
        voters = [{"voterId": node}]
        value = message("LeaderChangeMessage").encode(
            0, {"version": 0, "leaderId": node, "voters": voters, "grantingVoters": voters}
        )
        key = CONTROL_KEY_VERSION.to_bytes(2, "big") + LEADER_CHANGE.to_bytes(2, "big")
        batch = encode([Record(value, key)], now_ms=now, control=True)
        self._partition.append(batch, epoch=epoch, now_ms=now, origin=Origin.RAFT_LEADER)
        self.epoch = epoch

    @property
    def partition(self) -> Partition | None:
        """The metadata log; None as long as nothing was ever written to it."""
        return self._partition if self._partition.is_open else None

    # --- snapshots -------------------------------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """Sum the log up in a snapshot, if it has grown by enough since the last one.

        Then drop what is older than the snapshot before. A step that fails is done the next time. Raises what a roll
        raises, when it has latched the metadata log.
        """
        if not self._is_due():
            return
        now = self._now_ms()
        try:
            self._write_snapshot(now)
            self._partition.roll(now)
            self._let_go(now)
        except StorageError as error:
            if self._partition.failed:
                raise
            logger.warning("%s: the metadata log gets longer, and opening it slower: %s", self._path, error)

    def _write_snapshot(self, now_ms: int) -> None:
        partition = self._partition
        last = partition.max_timestamp(partition.next_offset)
        snapshot = SnapshotId(self._latest_epoch, partition.next_offset)
        image = self.image.successor()
        image.removed = PersistentMap(self._left_over())
        write_snapshot(
            self.directory.files, self._path, snapshot, metadata_changes.image_records(image),
            last_ms=now_ms if last is None else last.timestamp, now_ms=now_ms,
        )  # fmt: skip
        self.image = image
        self._snapshots.append(snapshot)

    def _is_due(self) -> bool:
        partition = self._partition
        if self.epoch < 0 or partition.failed or not self.image.is_whole:
            # A process that only reads changes nothing, of a log that Kafka has written, say.
            return False
        end, size = 0, 0
        if self._snapshots:
            end = self._snapshots[-1].end_offset
            stat = self.directory.files.stat(join(self._path, self._snapshots[-1].name))
            size = stat.size if stat is not None else 0
        grown = sum(segment.size for segment, until in partition.segments if until > end)
        allowed = min(self._snapshot_after, max(GROWTH_BYTES_MIN, size // GROWTH_OF_SNAPSHOT))
        return partition.next_offset > end and grown > allowed

    def _let_go(self, now_ms: int) -> None:
        """Drop what was needed only with the snapshot before the last two."""
        if len(self._snapshots) > 1:
            self._partition.advance_start(self._snapshots[-2].end_offset)
            self._partition.apply_retention(now_ms)
            self._partition.purge(now_ms)
        for snapshot in self._snapshots[:-2]:
            self.directory.files.remove(join(self._path, snapshot.name))
        del self._snapshots[:-2]

    def _left_over(self) -> Mapping[uuid.UUID, str]:
        """The topics that were removed and may have left a folder, which belongs to no topic then."""
        removed, node = self.image.removed, self.image.nodes.get(self.directory.node_id)
        here = set(self.directories.ids)
        if not removed or self.directories.failures or (node is not None and not here.issuperset(node.directories)):
            return removed
        try:
            found = {
                read_topic_id(home.files, join(home.path, folder_name(*key)))
                for home in self.directories for key in partition_folders(home.files, home.path)
            }  # fmt: skip
        except StorageError:
            # The owner of that folder cannot be read now.
            return removed
        return {topic_id: name for topic_id, name in removed.items() if topic_id in found}

    def close(self) -> None:
        """Close the metadata log."""
        if not self._partition.is_open:
            return
        try:
            self.take_snapshot()
        finally:
            self._partition.close()
        self.directory.note_closed(self._partition)
