"""The producers of a partition: which sequence each has come to, and which transactions are open.

    %020d.snapshot      i16 version 1 | u32 crc32c of what follows | i32 count | count entries of 46 bytes
    entry               i64 producer id | i16 epoch | i32 last sequence | i64 last offset | i32 offset delta of the last
                        batch | i64 timestamp | i32 coordinator epoch | i64 first offset of the open transaction, or -1

The number in the name is the first offset that the snapshot knows nothing of. A snapshot is a shortcut: the state is
the log, replayed. Only the last batch of a producer is in it, so after a reopen the duplicate window is one batch.

Invariants: the state changes only by `apply`, after the bytes are in the log; what `plan` refuses has changed nothing.
(Kafka: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry; KIP-98, KIP-360, KIP-890.)
"""

import logging
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from crc32c import crc32c
from sortedcontainers import SortedDict

from pylog.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Marker, Origin
from pylog.errors import (
    CorruptBatch,
    DiskFull,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from pylog.files import File, Files, join
from pylog.index import AbortedTxn

logger = logging.getLogger("pylog")

NO_EPOCH = NO_SEQUENCE = -1
BATCHES_KEPT = 5
MAX_SEQUENCE = 2**31 - 1
SNAPSHOT = ".snapshot"

_VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer: by its sequences a retry is known."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry(NamedTuple):
    """What is known of one producer."""

    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTxn(NamedTuple):
    """A transaction that wrote data and has its marker, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Stamped(Protocol):
    """A batch with its offsets; `Batch` and the kernel's `BatchSpan` both are."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


class Verification:
    """Somebody asks the coordinator whether a producer's transaction has this partition (KIP-890, part 1).

    The object is the guard: the append that it was asked for shows it.
    """

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump


class Plan:
    """What an append will change, once its bytes are in the log."""

    def __init__(self) -> None:
        self.duplicate: BatchMetadata | None = None
        """The batch was written before: nothing is to be written."""
        self.entries: dict[int, ProducerEntry] = {}
        self.started: list[tuple[int, int]] = []
        self.completed: list[CompletedTxn] = []


def add_sequence(sequence: int, count: int) -> int:
    """`sequence` moved on by `count`: behind 2**31 - 1 comes 0 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & MAX_SEQUENCE


class Producers:
    """The state of all producers of one partition. `name` is for messages. No locks, no clocks."""

    def __init__(self, name: str, *, expiration_ms: int = 86_400_000, verify: bool = False) -> None:
        self.name = name
        self.expiration_ms = expiration_ms
        self.verify = verify
        """Whether a transaction's first batch has to show that its coordinator knows of this partition."""
        self.end_offset = 0
        """Everything below is accounted for."""
        self.snapshot_offset = 0
        """The newest snapshot speaks for everything below this."""
        self._entries: dict[int, ProducerEntry] = {}
        self._slots = 16
        self._ongoing: SortedDict[int, int] = SortedDict()  # first offset -> producer id
        self._unreplicated: SortedDict[int, int] = SortedDict()  # first offset -> offset of the marker
        self._verifying: dict[int, Verification] = {}

    def entries(self) -> Mapping[int, ProducerEntry]:
        """What is known, by producer id."""
        return self._entries

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker the high watermark has not passed."""
        first = [txns.peekitem(0)[0] for txns in (self._ongoing, self._unreplicated) if txns]
        return min(first, default=None)

    # --- an append -------------------------------------------------------------------------------------------------

    def plan(
        self, batches: Iterable[tuple[Stamped, Marker | None]], *, origin: Origin, transaction_version: int = -1,
        guard: Verification | None = None,
    ) -> Plan:  # fmt: skip
        """Check the batches of one append, with their offsets given, in order; changes nothing.

        Raises: OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced. What a leader
        has written (REPLICATION) is never refused.
        """
        plan = Plan()
        for batch, marker in batches:
            if batch.producer_id < 0:
                continue
            known = self._entries.get(batch.producer_id, ProducerEntry())
            if origin is Origin.CLIENT:
                plan.duplicate = _duplicate(known, batch)
                if plan.duplicate is not None:
                    return plan
            entry = plan.entries.get(batch.producer_id, known)
            self._check_epoch(entry, batch, origin)
            if self.verify and origin in (Origin.CLIENT, Origin.COORDINATOR):
                self._check_verified(known, batch, guard)
            if batch.attributes & CONTROL_BIT:
                if marker is not None:
                    entry = self._ended(plan, entry, batch, marker, origin, transaction_version)
                    plan.entries[batch.producer_id] = entry
            else:
                plan.entries[batch.producer_id] = self._continued(plan, entry, batch, origin)
        return plan

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> Verification | None:
        """Begin to verify that a transaction has this partition; None when it is known to be open already.

        Raises InvalidProducerEpoch for an epoch that is over. (UnifiedLog.maybeStartTransactionVerification)
        """
        known = self._entries.get(producer_id, ProducerEntry())
        if known.current_txn_first_offset is not None and known.epoch == epoch:
            return None
        found = self._verifying.get(producer_id)
        newest = max(known.epoch, found.epoch if found is not None and supports_epoch_bump else NO_EPOCH)
        if epoch < newest:
            raise InvalidProducerEpoch(
                f"{self.name}: producer {producer_id} with epoch {epoch} was replaced by one with epoch {newest}"
            )
        if found is None:
            found = self._verifying[producer_id] = Verification(sequence, epoch, supports_epoch_bump)
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        else:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def _check_verified(self, known: ProducerEntry, batch: Stamped, guard: Verification | None) -> None:
        """Kafka's batchMissingRequiredVerification: late records of an ended transaction would hang for ever."""
        attributes, producer_id = batch.attributes, batch.producer_id
        if not attributes & TRANSACTIONAL_BIT or attributes & CONTROL_BIT:
            return
        if known.current_txn_first_offset is not None and known.epoch == batch.producer_epoch:
            return
        if guard is None or self._verifying.get(producer_id) is not guard:
            raise InvalidTxnState(
                f"{self.name}: a batch of producer {producer_id} belongs to a transaction that is not known here"
            )

    def _check_epoch(self, entry: ProducerEntry, batch: Stamped, origin: Origin) -> None:
        if batch.producer_epoch >= entry.epoch:
            return
        what = (
            f"{self.name}, offset {batch.base_offset}: producer {batch.producer_id} with epoch {batch.producer_epoch} "
            f"was replaced by one with epoch {entry.epoch}"
        )
        if origin is not Origin.REPLICATION:
            raise InvalidProducerEpoch(what)
        logger.warning("%s", what)

    def _continued(self, plan: Plan, entry: ProducerEntry, batch: Stamped, origin: Origin) -> ProducerEntry:
        if origin is Origin.CLIENT:
            self._check_sequence(entry, batch)
        transactional = bool(batch.attributes & TRANSACTIONAL_BIT)
        first = entry.current_txn_first_offset
        if first is not None and not transactional:
            raise InvalidTxnState(
                f"{self.name}: producer {batch.producer_id} has a transaction open since offset {first}, "
                "so this batch should be part of it"
            )
        if first is None and transactional:
            first = batch.base_offset
            plan.started.append((first, batch.producer_id))
        delta = batch.last_offset - batch.base_offset
        added = BatchMetadata(
            batch.base_sequence, add_sequence(batch.base_sequence, delta) if batch.base_sequence >= 0 else NO_SEQUENCE,
            batch.base_offset, batch.last_offset, batch.max_timestamp,
        )  # fmt: skip
        batches = entry.batches if entry.epoch == batch.producer_epoch else ()
        return ProducerEntry(
            batch.producer_epoch, entry.coordinator_epoch, batch.max_timestamp, first,
            (*batches[1 - BATCHES_KEPT :], added),
        )  # fmt: skip

    def _check_sequence(self, entry: ProducerEntry, batch: Stamped) -> None:
        sequence = batch.base_sequence
        verifying = self._verifying.get(batch.producer_id)
        if verifying is not None and sequence > verifying.lowest_sequence:
            raise OutOfOrderSequence(
                f"{self.name}: producer {batch.producer_id} sent sequence {sequence}, "
                f"and {verifying.lowest_sequence} is still being verified"
            )
        if entry.epoch == NO_EPOCH and not (verifying is not None and verifying.supports_epoch_bump):
            # Never seen, or forgotten: its earlier records may have been deleted.
            return
        expected = add_sequence(entry.last_sequence, 1) if entry.epoch == batch.producer_epoch else 0
        if sequence != expected:
            raise OutOfOrderSequence(
                f"{self.name}, offset {batch.base_offset}: producer {batch.producer_id} with epoch "
                f"{batch.producer_epoch} sent sequence {sequence} where {expected} comes next"
            )

    def _ended(
        self, plan: Plan, entry: ProducerEntry, batch: Stamped, marker: Marker, origin: Origin, version: int
    ) -> ProducerEntry:
        first = entry.current_txn_first_offset
        leads = origin is not Origin.REPLICATION
        if leads and version >= 2 and first is not None and batch.producer_epoch == entry.epoch:
            raise InvalidProducerEpoch(
                f"{self.name}: a marker that ends a transaction of producer {batch.producer_id} has to raise its "
                f"epoch, which is {entry.epoch} (KIP-890)"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            what = (
                f"{self.name}, offset {batch.base_offset}: a marker for producer {batch.producer_id} is from "
                f"coordinator epoch {marker.coordinator_epoch}, and epoch {entry.coordinator_epoch} has written before"
            )
            if leads:
                raise TransactionCoordinatorFenced(what)
            logger.info("%s", what)
        if first is not None:
            plan.completed.append(CompletedTxn(batch.producer_id, first, batch.last_offset, marker.is_abort))
        batches = entry.batches if entry.epoch == batch.producer_epoch else ()
        return ProducerEntry(batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp, None, batches)

    def apply(self, plan: Plan, end_offset: int) -> list[AbortedTxn]:
        """Take over a plan whose bytes are in the log now; gives what belongs into the transaction index."""
        for producer_id, entry in plan.entries.items():
            self._put(producer_id, entry)
            if entry.current_txn_first_offset is not None or not entry.batches or plan.completed:
                # The transaction is known to be open now, or it is over.
                self._verifying.pop(producer_id, None)
        for first, producer_id in plan.started:
            self._ongoing[first] = producer_id
        aborted = []
        for txn in plan.completed:
            if txn.is_aborted:
                stable = self._last_stable_offset(txn)
                aborted.append(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))
            self._ongoing.pop(txn.first_offset, None)
            self._unreplicated[txn.first_offset] = txn.last_offset
        self.end_offset = end_offset
        return aborted

    def _put(self, producer_id: int, entry: ProducerEntry) -> None:
        self._entries[producer_id] = entry
        while len(self._entries) > self._slots * 3 // 4:
            self._slots *= 2

    def _last_stable_offset(self, txn: CompletedTxn) -> int:
        others = (first for first, producer_id in self._ongoing.items() if producer_id != txn.producer_id)
        return next(others, txn.last_offset + 1)

    def reach(self, end_offset: int) -> None:
        """Nothing between the end so far and `end_offset` speaks of a producer."""
        self.end_offset = end_offset

    def advance(self, high_watermark: int) -> None:
        """Forget the completed transactions whose markers lie below the high watermark."""
        for first in [first for first, last in self._unreplicated.items() if last < high_watermark]:
            del self._unreplicated[first]

    def start_at(self, offset: int) -> None:
        """The log starts at `offset` now."""
        self.advance(offset)
        self.end_offset = max(self.end_offset, offset)

    def expire(self, now_ms: int) -> list[int]:
        """Drop producers without an open transaction whose last record is too old; gives their ids.

        Record time counts (ProducerStateManager.removeExpiredProducers).
        """
        gone = [producer_id for producer_id, entry in self._entries.items() if self._is_expired(entry, now_ms)]
        for producer_id in gone:
            del self._entries[producer_id]
        return gone

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    def clear(self, end_offset: int) -> None:
        """Forget everything: the log begins anew at `end_offset`."""
        self._entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset
        self.snapshot_offset = 0

    # --- snapshots -------------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The snapshot of this moment."""
        body = bytearray()
        for producer_id, entry in sorted(self._entries.items(), key=self._place):
            last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, NO_SEQUENCE, -1, -1, -1)
            first = entry.current_txn_first_offset
            body += _ENTRY.pack(
                producer_id, entry.epoch, last.last_sequence, last.last_offset, last.last_offset - last.first_offset,
                entry.last_timestamp, entry.coordinator_epoch, -1 if first is None else first,
            )  # fmt: skip
        body[0:0] = len(self._entries).to_bytes(4, "big")
        return _HEAD.pack(_VERSION, crc32c(body), 0)[:6] + bytes(body)

    def _place(self, item: tuple[int, ProducerEntry]) -> int:
        """Where Java's HashMap would have the id: Kafka writes producers in that order."""
        value = item[0] & (2**64 - 1)
        spread = (value ^ value >> 32) & 0xFFFFFFFF
        return (spread ^ spread >> 16) & (self._slots - 1)

    def load(self, data: bytes, offset: int, now_ms: int) -> None:
        """Take over the snapshot at `offset`, but for producers that have expired. Raises CorruptBatch."""
        fault = _snapshot_fault(data)
        if fault is not None:
            raise CorruptBatch(f"a producer snapshot of {self.name}: {fault}", offset=offset)
        self.clear(offset)
        self.snapshot_offset = offset
        for (
            producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, first,
        ) in _ENTRY.iter_unpack(data[_HEAD.size :]):  # fmt: skip
            batches: tuple[BatchMetadata, ...] = ()
            if last_offset >= 0:
                begun = add_sequence(sequence, -delta) if sequence >= 0 else NO_SEQUENCE
                batches = (BatchMetadata(begun, sequence, last_offset - delta, last_offset, timestamp),)
            entry = ProducerEntry(epoch, coordinator_epoch, timestamp, first if first >= 0 else None, batches)
            if not self._is_expired(entry, now_ms):
                self._put(producer_id, entry)
                if first >= 0:
                    self._ongoing[first] = producer_id


def _duplicate(entry: ProducerEntry, batch: Stamped) -> BatchMetadata | None:
    """The batch that this one repeats."""
    if entry.epoch != batch.producer_epoch or batch.base_sequence < 0:
        return None
    last = add_sequence(batch.base_sequence, batch.last_offset - batch.base_offset)
    for known in entry.batches:
        if known.first_sequence == batch.base_sequence and known.last_sequence == last:
            return known
    return None


def _snapshot_fault(data: bytes) -> str | None:
    if len(data) < _HEAD.size:
        return f"{len(data)} bytes are too few"
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        return f"version {version} is not known"
    if crc32c(data[6:]) != crc:
        return "the CRC does not match: the bytes were damaged"
    if len(data) != _HEAD.size + count * _ENTRY.size:
        return f"{len(data)} bytes do not hold {count} producers"
    return None


# --- snapshot files ---------------------------------------------------------------------------------------------------


def snapshot_name(offset: int) -> str:
    """The name of the snapshot that speaks for everything below `offset`."""
    return f"{offset:020d}{SNAPSHOT}"


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """The offsets of the snapshots in a partition's directory, rising."""
    stems = (name[: -len(SNAPSHOT)] for name in files.list_dir(directory) if name.endswith(SNAPSHOT))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def take_snapshot(files: Files, directory: str, producers: Producers) -> File | None:
    """Write a snapshot of this moment, unless there is one already; gives the file, which the caller syncs.

    Raises DiskFull, with no file left behind.
    """
    if producers.end_offset <= producers.snapshot_offset:
        return None
    path = join(directory, snapshot_name(producers.end_offset))
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, producers.encode())
    except DiskFull:
        file.close()
        files.remove(path)
        raise
    producers.snapshot_offset = producers.end_offset
    return file


def restore(files: Files, directory: str, producers: Producers, start: int, end: int, now_ms: int) -> None:
    """Bring `producers` to an offset at or below `end` from which the log can be replayed: where they are, or at the
    newest good snapshot. Snapshots outside (start, end] go, and so do bad ones. (truncateAndReload)
    """
    offsets = []
    for offset in snapshot_offsets(files, directory):
        if start < offset <= end:
            offsets.append(offset)
        else:
            files.remove(join(directory, snapshot_name(offset)))
    if producers.end_offset == end:
        producers.start_at(start)
        producers.snapshot_offset = max([start, *offsets])
        return
    for offset in reversed(offsets):
        path = join(directory, snapshot_name(offset))
        try:
            producers.load(files.read_file(path), offset, now_ms)
            return
        except CorruptBatch as error:
            logger.warning("%s is of no use and is removed (%s)", path, error)
            files.remove(path)
    producers.clear(start)
    producers.snapshot_offset = start


def drop_strays(files: Files, directory: str, bases: list[int]) -> None:
    """Remove the snapshots that match no segment, but for the newest if it lies above the last one: that is the one
    of a clean stop. (removeStraySnapshots)
    """
    offsets = snapshot_offsets(files, directory)
    known = set(bases)
    strays = [offset for offset in offsets if offset not in known]
    if strays and bases and strays[-1] > bases[-1]:
        strays.pop()
    for offset in strays:
        files.remove(join(directory, snapshot_name(offset)))
