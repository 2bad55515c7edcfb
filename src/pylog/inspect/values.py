"""The results of a dump and of a check: frozen values, each of which prints as one line.

The lines of a dump are those of Kafka's `kafka-dump-log.sh --print-data-log`
(`org.apache.kafka.tools.DumpLogSegments`), field for field, so that the two outputs can be compared with `diff` and
scripts made for one read the other; a key or value that is null has no `key:` or `payload:` part. One difference: a
line stays a line, so unprintable text (control characters, bytes that are not UTF-8) is escaped as in Python.

Invariants: values hold plain Python data only (ints, str, bytes, tuples, dicts), no open file; positions are byte
positions in the file of `path`; offsets are Kafka's absolute offsets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pylog.record import Header

__all__ = [
    "AbortedEntry",
    "BatchEntry",
    "Checked",
    "CheckpointEntry",
    "DumpLine",
    "OffsetEntry",
    "Problem",
    "ProducerDump",
    "RecordEntry",
    "TimeEntry",
    "Totals",
    "printable",
]

SEQUENCES = 1 << 31
"""Sequence numbers wrap here, back to 0 (kafka-format 1.5)."""


def printable(data: bytes) -> str:
    """`data` as text on one line: UTF-8 where it is that and prints, otherwise escapes (`\\n`, `\\xff`)."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _java(value: bool) -> str:
    return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One record batch of a `.log` (or of a metadata snapshot), from its header alone."""

    base_offset: int
    last_offset: int
    count: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    magic: int
    codec: str
    crc: int
    is_valid: bool

    def __str__(self) -> str:
        horizon = "OptionalLong.empty" if self.delete_horizon_ms is None else f"OptionalLong[{self.delete_horizon_ms}]"
        return (
            f"baseOffset: {self.base_offset} lastOffset: {self.last_offset} count: {self.count}"
            f" baseSequence: {self.base_sequence} lastSequence: {self.last_sequence}"
            f" producerId: {self.producer_id} producerEpoch: {self.producer_epoch}"
            f" partitionLeaderEpoch: {self.leader_epoch} isTransactional: {_java(self.is_transactional)}"
            f" isControl: {_java(self.is_control)} deleteHorizonMs: {horizon} position: {self.position}"
            f" {self.timestamp_type}: {self.max_timestamp} size: {self.size} magic: {self.magic}"
            f" compresscodec: {self.codec} crc: {self.crc} isvalid: {_java(self.is_valid)}"
        )


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One record of the batch before it.

    `control` is set for control records, `decoded` for records of the metadata log.
    """

    offset: int
    timestamp_type: str
    timestamp: int
    sequence: int
    headers: tuple[Header, ...]
    key: bytes | None
    value: bytes | None
    control: str | None = None
    decoded: Mapping[str, object] | None = None

    def __str__(self) -> str:
        line = (
            f"| offset: {self.offset} {self.timestamp_type}: {self.timestamp}"
            f" keySize: {-1 if self.key is None else len(self.key)}"
            f" valueSize: {-1 if self.value is None else len(self.value)}"
            f" sequence: {self.sequence} headerKeys: [{','.join(printable(h.key.encode()) for h in self.headers)}]"
        )
        if self.control is not None:
            return f"{line} {self.control}"
        if self.key is not None:
            line += f" key: {printable(self.key)}"
        if self.decoded is not None:
            return f"{line} payload: {json.dumps(self.decoded, separators=(',', ':'), ensure_ascii=False)}"
        if self.value is not None:
            line += f" payload: {printable(self.value)}"
        return line


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One entry of an offset index: the last offset of a batch and the byte where that batch starts."""

    offset: int
    position: int

    def __str__(self) -> str:
        return f"offset: {self.offset} position: {self.position}"


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """One entry of a time index: up to `offset` no record of the segment is newer than `timestamp` (ms)."""

    timestamp: int
    offset: int

    def __str__(self) -> str:
        return f"timestamp: {self.timestamp} offset: {self.offset}"


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """One entry of a transaction index: an aborted transaction, from its first record to its marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def __str__(self) -> str:
        return (
            f"version: {self.version} producerId: {self.producer_id} firstOffset: {self.first_offset}"
            f" lastOffset: {self.last_offset} lastStableOffset: {self.last_stable_offset}"
        )


@dataclass(frozen=True, slots=True)
class ProducerDump:
    """One entry of a producer snapshot: the state of one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    def __str__(self) -> str:
        first = self.current_txn_first_offset
        line = (
            f"producerId: {self.producer_id} producerEpoch: {self.producer_epoch}"
            f" coordinatorEpoch: {self.coordinator_epoch}"
            f" currentTxnFirstOffset: {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'}"
            f" lastTimestamp: {self.timestamp}"
        )
        if self.last_sequence < 0:
            # A producer of which only a marker is known.
            return line
        return (
            f"{line} firstSequence: {(self.last_sequence - self.offset_delta) % SEQUENCES}"
            f" lastSequence: {self.last_sequence} lastOffset: {self.last_offset}"
            f" offsetDelta: {self.offset_delta} timestamp: {self.timestamp}"
        )


@dataclass(frozen=True, slots=True)
class SealEntry:
    """The seal of a segment: the size and CRC of each file when it was sealed (size -1: no file), and its partition.

    The CRC of the log is known only where `read_ms` has the time when its bytes were read (-1: not yet).
    """

    topic_id: UUID
    partition: int
    base_offset: int
    next_offset: int
    log: tuple[int, int]
    read_ms: int
    index: tuple[int, int]
    timeindex: tuple[int, int]
    txnindex: tuple[int, int]

    def __str__(self) -> str:
        marks = (("index", self.index), ("timeindex", self.timeindex), ("txnindex", self.txnindex))
        words = "".join(f" {name}Size: {size} {name}Crc: {crc}" for name, (size, crc) in marks if size >= 0)
        log = f" logCrc: {self.log[1]} readTime: {self.read_ms}" if self.read_ms >= 0 else ""
        whose = f"topicId: {self.topic_id} partition: {self.partition} "
        offsets = f"baseOffset: {self.base_offset} nextOffset: {self.next_offset} "
        return f"{whose}{offsets}logSize: {self.log[0]}{log}{words}"


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """One line of a text file (checkpoint, `partition.metadata`, `meta.properties`) as names and values."""

    fields: Mapping[str, str | int]

    def __str__(self) -> str:
        return " ".join(f"{name}: {value}" for name, value in self.fields.items())


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong, or worth knowing, in a file.

    `position` (bytes) and `offset` are None where they mean nothing. `harmless` marks a problem that needs no action: a
    log opens with it and answers rightly. Everything else is damage, or threatens damage.
    """

    path: str
    position: int | None
    offset: int | None
    what: str
    what_to_do: str
    harmless: bool = False

    def __str__(self) -> str:
        where = self.path
        if self.position is not None:
            where += f", position {self.position}"
        if self.offset is not None:
            where += f", offset {self.offset}"
        return f"{where}: {self.what}; {self.what_to_do}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A piece of a log file that a check has been through, for showing progress: its bytes and records."""

    path: str
    size: int
    records: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a check, given last."""

    partitions: int
    segments: int
    batches: int
    records: int
    size: int
    index_entries: int
    problems: int
    notes: int


DumpLine = (
    BatchEntry | RecordEntry | OffsetEntry | TimeEntry | AbortedEntry | ProducerDump | SealEntry | CheckpointEntry
    | Problem
)  # fmt: skip
