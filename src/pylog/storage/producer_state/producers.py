"""The state of all producers of one partition: what may be appended, and what follows from it.

An append is planned, then written, then applied. Invariants:
- the state changes by `apply` and `replay` alone, after the bytes are in the log; a plan that was refused, or whose
  write failed, has changed nothing (KAFKA-6683);
- replaying the log from any snapshot gives the state that appending gave, except the width of the duplicate window and
  for producers that have expired;
- time is record time: producers of past records that are replayed have expired, as in Kafka.

(Kafka: ProducerStateManager, ProducerAppendInfo.)
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from pylog.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from pylog.kernel import CONTROL_BIT, TRANSACTIONAL_BIT, AppendState
from pylog.kernel.format import NO_EPOCH, NO_OFFSET, OFFSET_MAX
from pylog.protocol.batch import Marker, Origin
from pylog.runtime.log_fields import partition_fields
from pylog.storage.producer_state.snapshot import decode_snapshot, encode_snapshot
from pylog.storage.producer_state.state import (
    BATCHES_KEPT,
    AppendPlan,
    BatchMetadata,
    CompletedTxn,
    ProducerEntry,
    Stamped,
    add_sequence,
    find_duplicate,
    sequences,
)
from pylog.storage.producer_state.verification import Verification, Verifications
from pylog.storage.transaction_index import AbortedTxn

logger = logging.getLogger("pylog.storage")

_UNKNOWN = ProducerEntry()


class Producers:
    """The state of all producers of one partition. `name` is for messages. No locks, no clocks.

    They do not know how far they have seen the log. Those of an open log have seen all of it, up to
    `AppendState.next_offset`; while a log is replayed, `commitlog/producer_replay` knows.

    `state` hears where the first transaction begins that is not over: from `apply` and `advance`. In between, as while
    the log is replayed, it keeps the bound that readers know. Producers without a `state` stand beside a partition.
    """

    def __init__(
        self, name: str, *, expiration_ms: int = 86_400_000, verify: bool = False, state: AppendState | None = None
    ) -> None:
        self.name = name
        self._state = state
        self.expiration_ms = expiration_ms
        self.verify = verify
        """Whether a transaction's first batch has to show that its coordinator has this partition."""
        self.snapshot_offset = 0
        """Up to here no snapshot is needed: the newest one is at this offset, or the log starts there."""
        self._has_snapshot = False
        self._entries: dict[int, ProducerEntry] = {}
        self._slots = 16
        self._ongoing: OrderedDict[int, int] = OrderedDict()  # first offset, rising -> producer id
        self._unreplicated: OrderedDict[int, int] = OrderedDict()  # first offset -> offset of the marker, rising
        self._verifications = Verifications(name)
        if state is not None:
            state.producer_entries, state.open_verifications = self._entries, self._verifications.open
            state.batch_metadata = BatchMetadata
            state.ongoing, state.unreplicated = self._ongoing, self._unreplicated

    def entries(self) -> Mapping[int, ProducerEntry]:
        """The entries by producer id."""
        return self._entries

    @property
    def is_transactional(self) -> bool:
        """Whether a transaction is open, or its marker not yet below the high watermark."""
        return bool(self._ongoing or self._unreplicated)

    @property
    def is_empty(self) -> bool:
        """Whether no producer is known, and each transaction lies below the high watermark."""
        return not self._entries and not self._unreplicated

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker the high watermark has not passed."""
        if not self.is_transactional:
            return None
        # Few are ended and not yet below the high watermark.
        return min(next(iter(self._ongoing), OFFSET_MAX), min(self._unreplicated, default=OFFSET_MAX))

    # --- planning: what may be appended ----------------------------------------------------------------------------

    def plan(
        self, batches: Iterable[tuple[Stamped, Marker | None]], *, origin: Origin, transaction_version: int = -1,
        guard: Verification | None = None,
    ) -> AppendPlan:  # fmt: skip
        """Check the batches of one append, in order, each with its offsets and its marker; changes nothing.

        Batches without a producer id are passed over, and so are control batches without a marker. With REPLICATION,
        what the leader has let in is let in, except that a batch outside of its producer's open transaction is refused.
        `guard` is what `start_verification` gave; the writer of markers knows `transaction_version`.
        Raises: OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced.
        """
        plan = AppendPlan()
        for batch, marker in batches:
            if batch.producer_id < 0:
                continue
            known = self._entries.get(batch.producer_id, _UNKNOWN)
            if origin is Origin.CLIENT:
                if _is_next(known, batch) and batch.producer_id not in self._verifications:
                    _add_data(plan, known, batch)
                    continue
                plan.duplicate = find_duplicate(known, batch)
                if plan.duplicate is not None:
                    return plan
            entry = plan.entries.get(batch.producer_id, known)
            if not batch.attributes & CONTROL_BIT:
                self._check_data(known, entry, batch, origin, guard)
                _add_data(plan, entry, batch)
            elif marker is not None:
                self._check_marker(entry, batch, marker, origin, transaction_version)
                _add_marker(plan, entry, batch, marker)
        return plan

    def _check_data(
        self, known: ProducerEntry, entry: ProducerEntry, batch: Stamped, origin: Origin, guard: Verification | None
    ) -> None:
        self._check_epoch(entry, batch, origin)
        transactional = bool(batch.attributes & TRANSACTIONAL_BIT)
        if transactional and self.verify and origin in (Origin.CLIENT, Origin.COORDINATOR):
            is_open = known.current_txn_first_offset is not None and known.epoch == batch.producer_epoch
            if not is_open and not self._verifications.holds(batch.producer_id, guard):
                raise InvalidTxnState(
                    f"{self._at(batch)} belongs to a transaction that has not been verified, or has ended since: "
                    "abort it"
                )
        if origin is Origin.CLIENT:
            self._check_sequence(entry, batch)
        first = entry.current_txn_first_offset
        if first is not None and not transactional:
            raise InvalidTxnState(f"{self._at(batch)} is outside of the transaction that is open since offset {first}")

    def _check_epoch(self, entry: ProducerEntry, batch: Stamped, origin: Origin) -> None:
        if batch.producer_epoch >= entry.epoch:
            return
        what = f"{self._at(batch)} has epoch {batch.producer_epoch}, which ended when epoch {entry.epoch} began"
        if origin is not Origin.REPLICATION:
            raise InvalidProducerEpoch(what)
        logger.warning("%s", what, extra=self._fields(batch))

    def _check_sequence(self, entry: ProducerEntry, batch: Stamped) -> None:
        sequence = batch.base_sequence
        self._verifications.check_sequence(batch.producer_id, entry, sequence)
        if entry.epoch == NO_EPOCH:
            # Never seen, or forgotten: its earlier records may have been deleted.
            return
        expected = add_sequence(entry.last_sequence, 1) if entry.epoch == batch.producer_epoch else 0
        if sequence != expected:
            raise OutOfOrderSequence(
                f"{self._at(batch)}, epoch {batch.producer_epoch}, has sequence {sequence} where {expected} comes next"
            )

    def _check_marker(self, entry: ProducerEntry, batch: Stamped, marker: Marker, origin: Origin, version: int) -> None:
        self._check_epoch(entry, batch, origin)
        leads = origin is not Origin.REPLICATION
        is_open = entry.current_txn_first_offset is not None
        if leads and version >= 2 and is_open and batch.producer_epoch == entry.epoch:
            raise InvalidProducerEpoch(
                f"{self._at(batch)} is a marker with the epoch of the transaction, {entry.epoch}: "
                "one of transaction version 2 has to raise it (KIP-890)"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            what = (
                f"{self._at(batch)} is a marker of coordinator epoch {marker.coordinator_epoch}, "
                f"which ended when epoch {entry.coordinator_epoch} began"
            )
            if leads:
                raise TransactionCoordinatorFenced(what)
            logger.info("%s", what, extra=self._fields(batch))

    def _fields(self, batch: Stamped) -> dict[str, object]:
        return partition_fields(self.name, offset=batch.base_offset, producer_id=batch.producer_id)

    def _at(self, batch: Stamped) -> str:
        return f"{self.name}, offset {batch.base_offset}: the batch of producer {batch.producer_id}"

    # --- applying: what is in the log ------------------------------------------------------------------------------

    def apply(self, plan: AppendPlan) -> list[AbortedTxn]:
        """Take over a plan whose bytes are in the log now; gives what belongs into the transaction index."""
        aborted = self._apply(plan)
        if plan.started or plan.completed:
            self._note_unstable()
        return aborted

    def _note_unstable(self) -> None:
        if self._state is not None:
            unstable = self.first_unstable_offset
            self._state.first_unstable_offset = NO_OFFSET if unstable is None else unstable

    def _apply(self, plan: AppendPlan) -> list[AbortedTxn]:
        for producer_id, entry in plan.entries.items():
            self._put(producer_id, entry)
        for producer_id, marker_epoch in plan.transactional:
            self._verifications.end(producer_id, marker_epoch)
        for first, producer_id in plan.started:
            self._ongoing[first] = producer_id
        aborted = []
        for txn in plan.completed:
            if txn.is_aborted:
                stable = self._last_stable_offset(txn)
                aborted.append(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))
            self._ongoing.pop(txn.first_offset, None)
            self._unreplicated[txn.first_offset] = txn.last_offset
        return aborted

    def replay(self, batches: Iterable[tuple[Stamped, Marker | None]]) -> list[AbortedTxn]:
        """Take over batches that lie in the log, whatever they say: nothing is refused.

        A marker may be missing before them, where a part of the log is damaged. Gives what belongs into the
        transaction index. (LogSegment.updateProducerState)
        """
        aborted = []
        for batch, marker in batches:
            if batch.producer_id < 0:
                continue
            plan, entry = AppendPlan(), self._entries.get(batch.producer_id, _UNKNOWN)
            if not batch.attributes & CONTROL_BIT:
                _add_data(plan, entry, batch)
            elif marker is not None:
                _add_marker(plan, entry, batch, marker)
            aborted += self._apply(plan)
        return aborted

    def _last_stable_offset(self, txn: CompletedTxn) -> int:
        others = (first for first, producer_id in self._ongoing.items() if producer_id != txn.producer_id)
        return next(others, txn.last_offset + 1)

    def _put(self, producer_id: int, entry: ProducerEntry) -> None:
        self._entries[producer_id] = entry
        if len(self._entries) > self._slots * 3 // 4:
            self._slots *= 2

    # --- verification ----------------------------------------------------------------------------------------------

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> Verification | None:
        """Begin to verify that a transaction has this partition: gives the guard that the append has to show, or None
        when the transaction is known to be open.

        Raises InvalidProducerEpoch for an epoch that has ended. (UnifiedLog.maybeStartTransactionVerification)
        """
        known = self._entries.get(producer_id, _UNKNOWN)
        if epoch < known.epoch:
            raise InvalidProducerEpoch(
                f"{self.name}: epoch {epoch} of producer {producer_id} ended when epoch {known.epoch} began"
            )
        if known.current_txn_first_offset is not None and known.epoch == epoch:
            return None
        return self._verifications.start(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    # --- what time and watermarks take away ------------------------------------------------------------------------

    def advance(self, high_watermark: int) -> None:
        """Forget the completed transactions whose markers lie below the high watermark."""
        unreplicated = self._unreplicated
        while unreplicated and next(iter(unreplicated.values())) < high_watermark:
            unreplicated.popitem(last=False)
        self._note_unstable()

    def start_at(self, offset: int) -> None:
        """The log starts at `offset` now. (ProducerStateManager.onLogStartOffsetIncremented)"""
        self.advance(offset)
        if not self._has_snapshot:
            self.snapshot_offset = offset

    def expire(self, now_ms: int) -> list[int]:
        """Drop producers without an open transaction whose last batch is too old; gives their ids.

        Record time counts. Verifications that were given up go, too. (removeExpiredProducers)
        """
        gone = [producer_id for producer_id, entry in self._entries.items() if self._is_expired(entry, now_ms)]
        for producer_id in gone:
            del self._entries[producer_id]
        self._verifications.expire(now_ms, self.expiration_ms)
        return gone

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    def clear(self) -> None:
        """Forget everything, snapshots too: the log begins again."""
        self._entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.snapshot_offset = 0
        self._has_snapshot = False

    # --- snapshots -------------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The snapshot of this moment, byte for byte Kafka's."""
        return encode_snapshot(sorted(self._entries.items(), key=self._place))

    def _place(self, item: tuple[int, ProducerEntry]) -> int:
        """Where Java's HashMap would have the id: Kafka writes producers in that order."""
        value = item[0] & (2**64 - 1)
        spread = (value ^ value >> 32) & 0xFFFFFFFF
        return (spread ^ spread >> 16) & (self._slots - 1)

    def load(self, data: bytes, offset: int, now_ms: int) -> None:
        """Take over the snapshot at `offset` in place of what is known, except producers that have expired.

        Raises CorruptBatch, and nothing has changed.
        """
        entries = decode_snapshot(data)
        self.clear()
        self.note_snapshot(offset)
        ongoing = []
        for producer_id, entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            self._put(producer_id, entry)
            if entry.current_txn_first_offset is not None:
                ongoing.append((entry.current_txn_first_offset, producer_id))
        self._ongoing.update(sorted(ongoing))

    def note_snapshot(self, offset: int | None) -> None:
        """The newest snapshot file is the one at `offset`, or None."""
        self._has_snapshot = offset is not None
        self.snapshot_offset = offset or 0


def _is_next(known: ProducerEntry, batch: Stamped) -> bool:
    """Whether a batch is what nearly all are, the next one of a producer without a transaction: all checks are passed
    then. Behind a batch without sequences, a coordinator's, any other one may be repeated.
    """
    return (
        known.last_sequence >= 0
        and known.epoch == batch.producer_epoch
        and known.current_txn_first_offset is None
        and not batch.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
        and batch.base_sequence == add_sequence(known.last_sequence, 1)
    )


def _add_data(plan: AppendPlan, entry: ProducerEntry, batch: Stamped) -> None:
    """Add the changes of a producer's batch of records to the plan. A batch of another epoch begins a new window of
    batches.
    """
    first = entry.current_txn_first_offset
    if batch.attributes & TRANSACTIONAL_BIT:
        plan.transactional.append((batch.producer_id, NO_EPOCH))
        if first is None:
            first = batch.base_offset
            plan.started.append((first, batch.producer_id))
    added = BatchMetadata(*sequences(batch), batch.base_offset, batch.last_offset, batch.max_timestamp)
    batches = (*entry.batches[1 - BATCHES_KEPT :], added) if entry.epoch == batch.producer_epoch else (added,)
    plan.entries[batch.producer_id] = ProducerEntry(
        batch.producer_epoch, entry.coordinator_epoch, batch.max_timestamp, first, batches
    )


def _add_marker(plan: AppendPlan, entry: ProducerEntry, batch: Stamped, marker: Marker) -> None:
    """Add the changes of a transaction marker to the plan. One that ends no data only brings the producer's entry up to
    date.
    """
    first = entry.current_txn_first_offset
    if first is not None:
        plan.completed.append(CompletedTxn(batch.producer_id, first, batch.last_offset, marker.is_abort))
    plan.transactional.append((batch.producer_id, batch.producer_epoch))
    plan.entries[batch.producer_id] = ProducerEntry(
        batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp, None,
        entry.batches if entry.epoch == batch.producer_epoch else (),
    )  # fmt: skip
