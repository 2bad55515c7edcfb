"""Snapshots of the metadata log: its content up to an offset, in a file beside it, so that the log below may go.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint         whole: it was synced before it got that name
    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint.part    being written, or left by a crash

    first batch   control     SnapshotHeaderRecord: the time of the last record of the log that is in it
    batches       metadata records, at offsets of their own
    last batch    control     SnapshotFooterRecord

A snapshot has everything in the log below `end offset`, whose last record was written in `epoch`. (Kafka: Snapshots,
RecordsSnapshotWriter, KIP-630.)

Invariants: a file with a snapshot's name never changes. A file without a header, without a footer, or with a wrong CRC
is no snapshot, and no record of it is believed.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from pylog.errors import CorruptBatch, LogNotFound, UnsupportedFormat
from pylog.files import File, Files, join
from pylog.kernel import Record, walk
from pylog.protocol.batch import Batch, encode
from pylog.protocol.metadata_image import MetadataImage, decode_record
from pylog.protocol.schema import message
from pylog.protocol.topic_names import METADATA_TOPIC

logger = logging.getLogger("pylog.logdirs")

SUFFIX = ".checkpoint"
UNFINISHED = (SUFFIX + ".part", SUFFIX + ".deleted")
READ_BYTES = 1 << 20
BATCH_BYTES = 1 << 19
"""The size that a batch of a snapshot gets, roughly."""
BATCH_BYTES_MAX = 8 << 20
"""The size of the largest batch that any writer makes (Kafka: KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""
HEADER, FOOTER = 3, 4

_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint(?:.*)\Z", re.ASCII)


class SnapshotId(NamedTuple):
    """The id of a snapshot. Ids are ordered by time."""

    epoch: int
    end_offset: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


def snapshot_ids(files: Files, directory: str) -> list[SnapshotId]:
    """The snapshots of a metadata log, oldest first."""
    found = [_NAME.match(name) for name in files.list_dir(directory) if name.endswith(SUFFIX)]
    return sorted(SnapshotId(int(match[2]), int(match[1])) for match in found if match is not None)


def remove_unfinished(files: Files, directory: str) -> None:
    """Remove the remains of a snapshot that a crash has interrupted while it was written or removed."""
    for name in files.list_dir(directory):
        if name.endswith(UNFINISHED) and _NAME.match(name):
            files.remove(join(directory, name))


# --- writing ----------------------------------------------------------------------------------------------------------


def write_snapshot(
    files: Files, directory: str, snapshot: SnapshotId, records: Iterable[bytes], *, last_ms: int, now_ms: int
) -> None:
    """Write a snapshot of these records, durable when it returns. `last_ms`: the time of the last one in the log.

    Raises DiskFull, StorageError: its remains are removed then, or at the next open.
    """
    path = join(directory, snapshot.name)
    part = path + ".part"
    file = files.open(part, create=True)
    try:
        file.truncate(0)
        position = 0
        for batch in _batches(snapshot.epoch, records, last_ms, now_ms):
            file.write(position, batch.data)
            position += batch.size
        file.sync()
    except BaseException:
        file.close()
        with suppress(LogNotFound):
            files.remove(part)
        raise
    file.close()
    files.rename(part, path)
    files.sync_dir(directory)


def _batches(epoch: int, records: Iterable[bytes], last_ms: int, now_ms: int) -> Iterator[Batch]:
    header = message("SnapshotHeaderRecord").encode(0, {"version": 0, "lastContainedLogTimestamp": last_ms})
    footer = message("SnapshotFooterRecord").encode(0, {"version": 0})
    offset = 0
    for kind, values in ((HEADER, [header]), *((None, part) for part in _parts(records)), (FOOTER, [footer])):
        key = None if kind is None else bytes(2) + kind.to_bytes(2, "big")
        rows = [Record(value, key) for value in values]
        yield encode(rows, now_ms=now_ms, control=kind is not None, base_offset=offset, leader_epoch=epoch)
        offset += len(rows)


def _parts(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for record in records:
        if part and size + len(record) > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record)
    if part:
        yield part


# --- reading ----------------------------------------------------------------------------------------------------------


def read_image(files: Files, directory: str, start_offset: int) -> tuple[MetadataImage, int]:
    """The content of the newest good snapshot, and the offset where the log goes on. Without one: nothing, and 0.

    A damaged snapshot is passed over where the log, which begins at `start_offset`, has what followed the one before
    it. Raises: CorruptBatch (no snapshot is good that the log follows), UnsupportedFormat, LogNotFound (it was removed
    meanwhile).
    """
    damage: CorruptBatch | None = None
    for snapshot in reversed(snapshot_ids(files, directory)):
        if snapshot.end_offset < start_offset:
            break
        try:
            return read_snapshot(files, directory, snapshot), snapshot.end_offset
        except CorruptBatch as error:
            logger.error("a snapshot of the metadata log is damaged, and an older one, or the log, is used: %s", error)
            damage = damage or error
    if start_offset == 0:
        return MetadataImage(), 0
    raise CorruptBatch(
        f"{'no snapshot is there' if damage is None else damage.reason}; the metadata log begins at offset "
        f"{start_offset}, and no whole snapshot has earlier records: restore {METADATA_TOPIC}-0 from a backup, or "
        "move that folder away, and the topics are made again from their folders, without configs",
        path=directory if damage is None else damage.path, position=None if damage is None else damage.position,
        offset=start_offset,
    )  # fmt: skip


def read_snapshot(files: Files, directory: str, snapshot: SnapshotId) -> MetadataImage:
    """The content of a snapshot. Raises: LogNotFound, CorruptBatch naming file and position, UnsupportedFormat."""
    path, position, following = join(directory, snapshot.name), 0, 0
    image, kinds = MetadataImage(), list[int | None]()
    file = files.open(path)
    try:
        for position, batch in _read(file):  # noqa: B007 (it is looked at when that raises)
            if FOOTER in kinds:
                raise CorruptBatch("something follows the end of the snapshot")
            if batch.base_offset != following:
                raise CorruptBatch(f"a batch begins at {batch.base_offset}, where {following} follows")
            following = batch.next_offset
            batch.check()
            kinds.append(_take(batch, image))
            if kinds[0] != HEADER:
                raise CorruptBatch("a snapshot begins with its header, and this does not")
        if kinds[-1:] != [FOOTER]:
            raise CorruptBatch("the end of the snapshot is missing")
    except CorruptBatch as error:
        at = position if error.position is None else error.position
        raise CorruptBatch(error.reason, path=path, position=at, offset=snapshot.end_offset) from error
    except UnsupportedFormat as error:
        raise UnsupportedFormat(f"{path}, position {position}, offset {snapshot.end_offset}: {error}") from error
    finally:
        file.close()
    return image


def _take(batch: Batch, image: MetadataImage) -> int | None:
    """Apply the records of a batch; return the type of its (last) control record, None for metadata records."""
    kind: int | None = None
    for record in batch.records(METADATA_TOPIC, 0):
        if batch.is_control:
            # Other types are about voters: they mean nothing to a quorum of one.
            found = int.from_bytes((record.key or b"")[2:4], "big")
            kind = found if kind is None or found == FOOTER else kind
        else:
            image.apply(decode_record(record.value or b""))
    return kind


def _read(file: File) -> Iterator[tuple[int, Batch]]:
    """The batches of a file, each with its position. Memory holds no more of it than the largest batch may have."""
    position, size = 0, file.size()
    while position < size:
        data = file.read(position, READ_BYTES)
        spans, valid, reason = walk(data)
        if reason is None and not spans:
            data = file.read(position, BATCH_BYTES_MAX)
            spans, valid, reason = walk(data)
        if not spans:
            raise CorruptBatch(reason or "the last batch is not whole", position=position + valid)
        for span in spans:
            yield position + span.position, Batch.parse(data, span.position)
        position += spans[-1].position + spans[-1].size
