"""The content of one file of a log directory, line by line, as Kafka's DumpLogSegments shows it.

The file's name tells its kind (kafka-format section 2):

    00000000000000001042.log         record batches           00000000000000001042.index       8-byte entries
    00000000000000001042.snapshot    producer states          00000000000000001042.timeindex   12-byte entries
    *.checkpoint                     record batches (KRaft)   00000000000000001042.txnindex    34-byte entries
    00000000000000001042.pylog-seal  checksums of the others   *-checkpoint, partition.metadata, meta.properties,
    pylog-listing                    the segments there were   quorum-state, pylog-damages: text

also with `.deleted`, `.swap` or `.cleaned` behind it. Nothing is repaired, locked or opened as a log: bytes in, lines
out. So it works on any copy, and on a directory that another process owns.

Invariants: damage is a line of its own (`Problem`) at its place among the others; no content of a file raises anything.
Raises only: LogNotFound, StorageError (the disk), UnsupportedFormat (a name that tells no kind).
"""

import struct
from collections.abc import Iterator

from pylog.errors import CorruptBatch, PylogError, StorageError, UnsupportedFormat
from pylog.files import Files
from pylog.inspect.records import record_entry
from pylog.inspect.scan import Damage, batches, words
from pylog.inspect.texts import text_lines
from pylog.inspect.values import (
    SEQUENCES,
    AbortedEntry,
    BatchEntry,
    CheckpointEntry,
    DumpLine,
    OffsetEntry,
    Problem,
    ProducerDump,
    SealEntry,
    TimeEntry,
)
from pylog.kernel import MAGIC, crc32c
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.storage.checkpoint import DAMAGES
from pylog.storage.segment_checksum import INDEX_BYTES_MAX, read_seal
from pylog.storage.segment_list import LISTING, parse_listing

__all__ = ["base_offset_of", "batch_entry", "dump_segment", "kind_of", "partition_of"]

TEXTS = ("partition.metadata", "meta.properties", "quorum-state", DAMAGES)
SUFFIXES_LEFT_BEHIND = (".deleted", ".swap", ".cleaned", ".tmp", ".part")

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_PRODUCER_ENTRY = struct.Struct(">qhiqiqiq")


def kind_of(path: str) -> str:
    """The kind of a file, by its name.

    "log", "index", "timeindex", "txnindex", "snapshot", "pylog-seal", "pylog-listing" or "text"; "" for other names.
    """
    name = path.rpartition("/")[2]
    for suffix in SUFFIXES_LEFT_BEHIND:
        name = name.removesuffix(suffix)
    if name.endswith("-checkpoint") or name in TEXTS:
        return "text"
    if name == LISTING:
        return LISTING
    suffix = name.rpartition(".")[2]
    if suffix == "checkpoint":
        return "log"
    return suffix if suffix in ("log", "index", "timeindex", "txnindex", "snapshot", "pylog-seal") else ""


def base_offset_of(path: str) -> int | None:
    """The base offset in a segment file's name; None for other names."""
    digits = path.rpartition("/")[2].partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def partition_of(path: str) -> str:
    """The directory of a file: `topic-partition`."""
    return path.rpartition("/")[0].rpartition("/")[2]


def dump_segment(files: Files, path: str, *, records: bool = False) -> Iterator[DumpLine]:
    """Everything in the file at `path`, in file order; with `records` the records of each batch behind it.

    Works on any file of a log directory (see above). An empty file gives nothing. Zeros behind the entries of an index
    (space that Kafka reserves in the segment being written) are not shown. Values: see `pylog.inspect.values`. Source:
    DumpLogSegments. Raises: LogNotFound, UnsupportedFormat (the name tells no kind), StorageError (the disk).
    """
    kind = kind_of(path)
    if not kind:
        raise UnsupportedFormat(
            f"{path}: the name does not tell its kind; give a .log, .index, .timeindex, .txnindex, .snapshot or "
            "checkpoint file of a log directory"
        )
    if kind == "log":
        return _log_lines(files, path, records)
    if kind == "text":
        return text_lines(files, path)
    if kind == "pylog-seal":
        return _seal_lines(files, path)
    if kind == LISTING:
        return _listing_lines(files, path)
    lines = {"index": _index_lines, "timeindex": _time_lines, "txnindex": _aborted_lines, "snapshot": _producer_lines}
    return lines[kind](path, files.read_file(path, INDEX_BYTES_MAX))


# --- batches --------------------------------------------------------------------------------------------------------


def batch_entry(batch: Batch, position: int, *, is_valid: bool = True) -> BatchEntry:
    """The line of one batch that lies at `position` of its file."""
    last_sequence = batch.base_sequence
    if batch.base_sequence >= 0:
        last_sequence = (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
    return BatchEntry(
        base_offset=batch.base_offset, last_offset=batch.last_offset, count=batch.count,
        base_sequence=batch.base_sequence, last_sequence=last_sequence,
        producer_id=batch.producer_id, producer_epoch=batch.producer_epoch, leader_epoch=batch.leader_epoch,
        is_transactional=batch.is_transactional, is_control=batch.is_control,
        delete_horizon_ms=batch.base_timestamp if batch.has_delete_horizon else None,
        position=position, timestamp_type=_type_name(batch), max_timestamp=batch.max_timestamp,
        size=batch.size, magic=MAGIC, codec=_codec_name(batch.attributes),
        crc=batch.crc, is_valid=is_valid,
    )  # fmt: skip


def _type_name(batch: Batch) -> str:
    return "LogAppendTime" if batch.attributes & 8 else "CreateTime"


def _codec_name(attributes: int) -> str:
    try:
        return Codec(attributes & 7).name.lower()
    except ValueError:
        return f"unknown({attributes & 7})"


def _log_lines(files: Files, path: str, records: bool) -> Iterator[DumpLine]:
    is_metadata = partition_of(path).startswith("__cluster_metadata-") or path.endswith(".checkpoint")
    file = files.open(path)
    try:
        for found in batches(file):
            if found.batch is not None:
                yield batch_entry(found.batch, found.position, is_valid=not isinstance(found, Damage))
            if isinstance(found, Damage):
                yield Problem(path, found.position, found.offset, found.what, "pylog verify tells what is lost")
            elif records:
                yield from _record_lines(path, found.batch, found.position, is_metadata)
    finally:
        file.close()


def _record_lines(path: str, batch: Batch, position: int, is_metadata: bool) -> Iterator[DumpLine]:
    type_name = _type_name(batch)
    try:
        for record in (record for group, _ in batch.groups("", -1) for record in group):
            sequence = batch.base_sequence
            if sequence >= 0:
                sequence = (sequence + record.offset - batch.base_offset) % SEQUENCES
            yield record_entry(record, type_name, sequence, is_control=batch.is_control, is_metadata=is_metadata)
    except (StorageError, CorruptBatch) as error:
        advice = "the CRC is right, so it was written like this: look at the program that wrote it"
        yield Problem(path, position, batch.base_offset, f"its records cannot be decoded: {words(error)}", advice)


# --- indexes and snapshots ------------------------------------------------------------------------------------------


def _whole(path: str, data: bytes, entry_size: int, start: int = 0) -> Iterator[Problem]:
    extra = (len(data) - start) % entry_size
    if extra:
        what = f"{extra} bytes at the end are too few for an entry of {entry_size}"
        yield Problem(path, len(data) - extra, None, what, "they are ignored")


def _base(path: str) -> int:
    return base_offset_of(path) or 0


def _index_lines(path: str, data: bytes) -> Iterator[DumpLine]:
    base = _base(path)
    for relative, position in offset_entries(data):
        yield OffsetEntry(base + relative, position)
    yield from _whole(path, data, _OFFSET_ENTRY.size)


def _time_lines(path: str, data: bytes) -> Iterator[DumpLine]:
    base = _base(path)
    for timestamp, relative in time_entries(data):
        yield TimeEntry(timestamp, base + relative)
    yield from _whole(path, data, _TIME_ENTRY.size)


def _aborted_lines(path: str, data: bytes) -> Iterator[DumpLine]:
    yield from aborted_entries(data)
    yield from _whole(path, data, _ABORTED_ENTRY.size)


def _producer_lines(path: str, data: bytes) -> Iterator[DumpLine]:
    try:
        entries = producer_entries(data)
    except PylogError as error:
        yield Problem(
            path, 0, None, str(error), "delete it: an older one is read in its place, and the log replayed from there"
        )
        return
    yield from entries


def _seal_lines(files: Files, path: str) -> Iterator[DumpLine]:
    seal = read_seal(files, path)
    if seal is None:
        yield Problem(path, 0, None, "it is no seal, or it is damaged", "it is ignored, and no record is lost")
        return
    topic_id, partition = seal.identity
    yield SealEntry(
        topic_id, partition, seal.base_offset, seal.next_offset, seal.log, seal.read_ms, seal.index, seal.timeindex,
        seal.txnindex,
    )  # fmt: skip


def _listing_lines(files: Files, path: str) -> Iterator[DumpLine]:
    found = parse_listing(files.read_file(path))
    if found is None:
        yield Problem(path, 0, None, "it is no listing, or it is damaged", "it is ignored, and no record is lost")
        return
    for kind, offsets in (
        ("log", found[1].logs),
        ("txnindex", found[1].transactional),
        ("snapshot", found[1].snapshots),
    ):
        yield from (CheckpointEntry({kind: offset}) for offset in offsets)


def offset_entries(data: bytes) -> list[tuple[int, int]]:
    """The entries (relative offset, position) of an offset index, without the zeros of reserved space at the end."""
    return [*_OFFSET_ENTRY.iter_unpack(_used(data, _OFFSET_ENTRY.size))]


def time_entries(data: bytes) -> list[tuple[int, int]]:
    """The entries (timestamp, relative offset) of a time index, without the zeros of reserved space at the end."""
    return [*_TIME_ENTRY.iter_unpack(_used(data, _TIME_ENTRY.size))]


def _used(data: bytes, entry_size: int) -> bytes:
    used = len(data.rstrip(b"\0"))
    return data[: min(-(-used // entry_size), len(data) // entry_size) * entry_size]


def aborted_entries(data: bytes) -> list[AbortedEntry]:
    """The whole entries of a transaction index."""
    whole = data[: len(data) // _ABORTED_ENTRY.size * _ABORTED_ENTRY.size]
    return [AbortedEntry(*fields) for fields in _ABORTED_ENTRY.iter_unpack(whole)]


def producer_entries(data: bytes) -> list[ProducerDump]:
    """The entries of a producer snapshot.

    Raises: CorruptBatch (too short, CRC, count), UnsupportedFormat (version).
    """
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptBatch(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != 1:
        raise UnsupportedFormat(f"producer snapshot of version {version}, and only 1 is known")
    if crc32c(data[6:]) != crc:
        raise CorruptBatch("the CRC of the producer snapshot is wrong")
    body = data[_SNAPSHOT_HEAD.size :]
    if len(body) != count * _PRODUCER_ENTRY.size:
        raise CorruptBatch(f"a producer snapshot of {count} entries has {len(body)} bytes of them")
    return [ProducerDump(*fields) for fields in _PRODUCER_ENTRY.iter_unpack(body)]
