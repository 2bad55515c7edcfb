"""The catalogue of a node: its metadata log, `__cluster_metadata-0`, and the image that replaying it gives.

Topics, ids, partitions, leaders and configs are records in Kafka's own metadata schemas; there is no other list of
topics. A change is appended, made durable and only then applied to the image, so what `image` says is on disk.

One node is a quorum of one: at the first change after an open it takes a new epoch (persisted in `quorum-state` before
it is used) and opens it with a LEADER_CHANGE control batch, as Kafka's raft does (KIP-595).

A directory that has partition folders but no metadata log is adopted: its folders become the first records.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping

from pylog import metadata
from pylog.batch import Batch, Origin, encode
from pylog.checkpoint import read_topic_id
from pylog.config import TopicConfig
from pylog.directories import Directories
from pylog.errors import CorruptBatch
from pylog.files import Files, join
from pylog.folders import folder_name, partition_folders
from pylog.kernel import Record, walk
from pylog.metadata import METADATA_TOPIC, METADATA_TOPIC_ID, MetadataImage
from pylog.partition import Partition
from pylog.readable import ReadablePartition
from pylog.schema import message
from pylog.segments import base_offsets

logger = logging.getLogger("pylog")

READ_BYTES = 1 << 20
LEADER_CHANGE = 2
CONTROL_KEY_VERSION = 0


def replay(partition: ReadablePartition, image: MetadataImage, position: int, upto: int) -> int:
    """Apply the records in [position, upto) of a metadata log to `image`; gives where it stopped.

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
            try:
                _apply(Batch.parse(found.data, span.position), image, position)
            except CorruptBatch as error:
                at = found.position + span.position
                raise _unreadable(error.reason, found.path, at, span.base_offset) from error
            position = span.last_offset + 1
    return position


def _unreadable(reason: str, path: str | None, position: int | None, offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"{reason}; the metadata log cannot be read, and no part of it is ever given up: restore it from a backup, or "
        f"move the folder {METADATA_TOPIC}-0 away, and the topics are made anew from their folders, without configs",
        path=path, position=position, offset=offset,
    )  # fmt: skip


def _apply(batch: Batch, image: MetadataImage, first_offset: int) -> None:
    if not batch.is_control:
        for record in batch.records(METADATA_TOPIC, 0, first_offset):
            if record.value is not None:
                image.apply(metadata.decode_record(record.value))


def topics_in_folders(files: Files, path: str) -> dict[str, tuple[uuid.UUID | None, list[int]]]:
    """The topics whose partitions have folders under `path`: id from `partition.metadata`, and partition numbers."""
    found: dict[str, tuple[uuid.UUID | None, list[int]]] = {}
    for topic, number in partition_folders(files, path):
        if not base_offsets(files, join(path, folder_name(topic, number))):
            # Somebody else's folder: a partition has one segment at least.
            continue
        if topic not in found:
            found[topic] = (read_topic_id(files, join(path, folder_name(topic, number))), [])
        found[topic][1].append(number)
    return found


class Catalogue:
    """The owner's side: replays the metadata log at open and appends to it.

    The node holds its lock around `commit`.
    """

    def __init__(self, directories: Directories, now_ms: Callable[[], int]) -> None:
        self.directories = directories
        self.directory = directory = directories.first
        self.image = MetadataImage()
        self.epoch = -1
        self._now_ms = now_ms
        self._path = join(directory.path, folder_name(METADATA_TOPIC, 0))
        self._partition = self._make_partition()
        if directory.files.stat(self._path) is not None and base_offsets(directory.files, self._path):
            self._open()
        if not self.image.nodes:
            # No node has ever written to the metadata log: there is none, or its first batch did not get there.
            self._adopt()

    def _make_partition(self) -> Partition:
        entry = self.directory.entry(METADATA_TOPIC_ID, 0)
        return Partition(
            self.directory.files, self._path, METADATA_TOPIC, 0, TopicConfig(), entry, topic_id=METADATA_TOPIC_ID
        )

    def _open(self) -> None:
        partition = self._partition
        checkpoint = self.directory.checkpoint(METADATA_TOPIC, 0, self.directory.entry(METADATA_TOPIC_ID, 0))
        partition.open(checkpoint, self._now_ms())
        if not self.directory.clean:
            partition.sync()
        partition.advance_high_watermark(partition.next_offset)
        replay(partition, self.image, partition.start_offset, partition.next_offset)

    def _adopt(self) -> None:
        """Make records of the folders of directories that have no metadata log."""
        found: dict[str, dict[int, uuid.UUID]] = {}
        ids: dict[str, uuid.UUID] = {}
        for (name, number), home in sorted(self.directories.partitions().items()):
            path = join(home.path, folder_name(name, number))
            # Else it is somebody else's folder: a partition has one segment at least.
            if base_offsets(home.files, path):
                found.setdefault(name, {})[number] = home.directory_id
                ids.setdefault(name, read_topic_id(home.files, path) or uuid.uuid4())
        records: list[bytes] = []
        for name, places in found.items():
            logger.info("adopting topic %s with partitions %s", name, sorted(places))
            records += self.new_topic(name, ids[name], places, {})
        if records:
            self.commit(records)

    def new_topic(
        self, name: str, topic_id: uuid.UUID, places: Mapping[int, uuid.UUID], config: Mapping[str, str],
        leader: int | None = None,
    ) -> list[bytes]:  # fmt: skip
        """The records of a topic all of whose partitions are led by this node, or kept here and led by `leader`.

        `places` gives the log directory here of each partition.
        """
        node = self.directory.node_id
        return metadata.create_topic(
            name, topic_id, self.replicas(places, leader), leader=node if leader is None else leader, config=config
        )

    def replicas(
        self, places: Mapping[int, uuid.UUID], leader: int | None = None
    ) -> dict[int, list[tuple[int, uuid.UUID]]]:
        """The replicas of partitions whose place here is given: this node alone, or a `leader` elsewhere and it."""
        other = [] if leader is None else [(leader, metadata.UNASSIGNED_DIRECTORY)]
        return {number: [*other, (self.directory.node_id, place)] for number, place in places.items()}

    def commit(self, records: list[bytes]) -> None:
        """Append `records` as one batch, make them durable, apply them.

        Raises: DiskFull (nothing changed), DurabilityUnknown.
        """
        if self.epoch < 0:
            self._take_epoch()
        node = self.directory.node_id
        directories = [directory.directory_id for directory in self.directories]
        known = self.image.nodes.get(node)
        if known is None or set(known.directories) != set(directories):
            records = metadata.register_node(node, incarnation=uuid.uuid4(), directories=directories) + records
        if not self.image.features:
            records = metadata.set_features(metadata.FEATURES) + records
        now = self._now_ms()
        batch = encode([Record(value) for value in records], now_ms=now)
        self._partition.append(batch, epoch=self.epoch, now_ms=now, origin=Origin.RAFT_LEADER)
        self._partition.sync()
        self._partition.advance_high_watermark(self._partition.next_offset)
        image = self.image.successor()
        for value in records:
            image.apply(metadata.decode_record(value))
        self.image = image

    def _take_epoch(self) -> None:
        now = self._now_ms()
        if not self._partition.is_open:
            self._partition.create(METADATA_TOPIC_ID, now)
        epoch = max(self._partition.epochs.latest, 0) + 1
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

    def close(self) -> bool:
        """Close the metadata log; whether it closed cleanly."""
        return self._partition.close() if self._partition.is_open else True
