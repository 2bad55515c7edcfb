"""One partition of `__transaction_state` as a machine: requests, written markers and the time in, effects out.

    a Produce of a new partition
      -> join: ahead of the log             Ongoing, without a record
    InitProducerId, AddPartitionsToTxn, EndTxn
      -> requests, rules: a step            the transactional id is busy: ConcurrentTransactions to everybody else
      -> Append [state]                     replayed: that is the state now, and the id is free again
           answers                          when it is safe
      -> WriteMarkers                       behind a Prepare*, which is the commit point: nothing changes the outcome
           markers_written                  partitions that are done leave, the others are tried again
      -> ahead of the log                   Complete*, when none is left

The states are in `states`: those of the log, and the beginnings and completions that are ahead of it. A tick writes
these down (`LAZY_MS`), and so does the close. `endings` has what is decided and not complete, `settlement` what an
unclean stop has left.

Invariants: the logged states are the replay of the log, and change by nothing else. Of a transactional id one step is
on its way at a time, and none but Complete* from Prepare*. A list of effects has one Append at most, and markers behind
it are those of what it decides. Before an Append, the host makes durable what `unsafe` names. Two facts are neither in
the log nor made again, and only speed things up: the epoch that a producer had before its last step (a repeated
InitProducerId is fenced instead, as with Kafka), and the markers that are written already (they are written again).

An answer that appends nothing tells of what was replayed of its id: the host holds it back until that is safe.

Sources: Kafka's TransactionCoordinator, TransactionStateManager, TransactionMarkerChannelManager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from pylog.config import NodeConfig
from pylog.coordinator.effects import (
    Answer,
    Append,
    Effect,
    LogRecord,
    MarkerErrors,
    NewProducerId,
    Now,
    Stamp,
    WriteMarkers,
)
from pylog.coordinator.transaction import rules
from pylog.coordinator.transaction.changes import Change, refusal, unavailable
from pylog.coordinator.transaction.endings import RETRY_MS
from pylog.coordinator.transaction.records import read, record_of
from pylog.coordinator.transaction.requests import Requests
from pylog.coordinator.transaction.rules import TransactionUpdate
from pylog.coordinator.transaction.settlement import Settlement, Sighting
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.coordinator.transaction.states import TransactionStates
from pylog.coordinator.transaction.timeouts import Timeouts
from pylog.errors import PylogError
from pylog.protocol.messages import Session, TxnMarkers
from pylog.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, PartitionsToAdd
from pylog.record import TopicPartition

GIVEN_BY_HOST = -1
"""The coordinator epoch of the markers: the epoch of the partition's leader when they are written."""
LAZY_MS = 1000
"""How long a state may be ahead of the log."""
APPEND_BYTES = 256 << 10
"""How many bytes of records a tick makes one Append of; what is left is due at once."""


class TransactionCoordinator:
    """An `effects.Coordinator` for one partition.

    The host has checked that partitions which join exist, gives each Append back by `appended` or `append_failed`, and
    each WriteMarkers by `markers_written`.
    """

    def __init__(self, partition: int, config: NodeConfig, *, new_producer_id: NewProducerId) -> None:
        self.partition = partition
        self._config = config
        self._new_producer_id = new_producer_id
        self._states = TransactionStates()
        self._endings = self._states.endings
        self._requests = Requests(self._states, config, new_producer_id)
        self._settlement = Settlement(self._states)
        self._timeouts = Timeouts()
        self._changes: dict[str, Change] = {}
        self.safe_end = 0
        self._ends: dict[str, int] = {}
        """Where the last record of an id ends, of those that this machine has appended."""
        self._timeouts_tick: int | None = None
        self._expiry_tick: int | None = None
        self._settle_tick: int | None = None
        self._write_down_tick: int | None = None

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """The state of each transactional id in the log."""
        return self._states.logged

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: LogRecord, stamp: Stamp | None = None) -> None:
        """Take over a record of the log. Raises: UnsupportedFormat, CorruptBatch."""
        self._take(*read(record))

    def appended(self, append: Append, end: int) -> None:
        """Take over an Append of its own, as `replay` would with each of its records."""
        for change in append.context:
            name = change.transactional_id
            self._take(name, change.after)
            if change.after is None:
                self._ends.pop(name, None)
            else:
                self._ends[name] = end
            del self._changes[name]
            if change.last_epoch is not None:
                self._states.last_epochs[name] = change.last_epoch
            if change.settles:
                self._settlement.settled(name)

    def _take(self, name: str, transaction: Transaction | None) -> None:
        self._states.replay(name, transaction)
        if name in self._settlement:
            self._settle_tick = 0

    def replay_marker(self, stamp: Stamp, *, committed: bool) -> None:
        """Do nothing: this log has no transactions of its own."""

    def take_over(self, now: Now) -> list[Effect]:
        """Begin to answer. Decided transactions are driven to their end; timeouts go on from the logged start."""
        # Not at once, as in Kafka: a process that only looks at a log is gone by then.
        self._timeouts_tick = now.tick + self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._expiry_tick = now.tick + self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        return [self._markers(name, self._states.logged[name]) for name in self._endings.take_over(now.tick)]

    def append_failed(self, append: Append, error: PylogError, now: Now) -> list[Effect]:
        """Undo an Append that was refused: its messages are answered with an error, and its endings are tried again."""
        for change in append.context:
            del self._changes[change.transactional_id]
            if self._is_ending(change.transactional_id):
                self._endings.retry(change.transactional_id, now.tick)
        if self._timeouts_tick is not None and self._expiry_tick is not None:
            self._timeouts_tick = max(self._timeouts_tick, now.tick + RETRY_MS)
            self._expiry_tick = max(self._expiry_tick, now.tick + RETRY_MS)
        if self._settlement:
            self._settle_tick = now.tick + RETRY_MS
        if self._states.unlogged:
            self._write_down_tick = now.tick + LAZY_MS
        refused = unavailable(error)
        return [Answer(answer.ticket, refusal(answer.message, refused)) for answer in append.answers]

    def settle(
        self, sightings: Mapping[int, Sighting], may_lack: Callable[[TopicPartition], bool], now: Now, *,
        has_all_written: bool, may_have_begun: bool,
    ) -> list[Effect]:  # fmt: skip
        """After an unclean stop: settle what partitions have of a producer of this log and it has not (by producer id).

        Where all that was written is there, a transaction goes on in its partitions. Else it is aborted, as is every
        one that may lack records, also one of which nothing is left. One that is decided comes to its end first.
        """
        self._settlement.begin(sightings, may_lack, has_all_written=has_all_written, may_have_begun=may_have_begun)
        self._settle_tick = now.tick
        return self.tick(now)

    @property
    def is_settled(self) -> bool:
        """True if no transaction waits for what `settle` does with it."""
        return not self._settlement

    def producer_ids(self) -> set[int]:
        """The producer ids in this log."""
        return {one for _, known in self._states.items() for one in (known.producer_id, known.next_producer_id)}

    def claims(self) -> set[tuple[int, TopicPartition]]:
        """(producer id, partition) of the open transactions that will be ended, after `settle`."""
        return self._settlement.claims()

    # --- requests ----------------------------------------------------------------------------------------------------

    def handle(self, message: object, session: Session, ticket: int, now: Now) -> list[Effect]:
        """Answer a message, at once or behind an Append. Raises TypeError: not a message of this coordinator."""
        asked = message if isinstance(message, EndTxnRequest | InitProducerIdRequest | PartitionsToAdd) else None
        is_closed = asked is not None and self._is_closed(asked.transactional_id or "")
        answer, change, is_lazy = self._requests.outcome(message, now, is_closed=is_closed)
        if change is None:
            # It tells of what is known of its id, and a crash must not make that untrue.
            tells = self._ends.get(asked.transactional_id or "", 0) if asked is not None else 0
            return [Append([], [Answer(ticket, answer)], tells=tells, context=[])]
        return self._carry_out([change], [Answer(ticket, answer)], is_lazy=is_lazy)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _carry_out(
        self, changes: list[Change], answers: list[Answer] | None = None, *, is_lazy: bool = False
    ) -> list[Effect]:
        """One Append of them all, and behind it the markers of those that decide a transaction."""
        if not changes:
            return []
        records: list[LogRecord] = []
        effects: list[Effect] = [Append(records, answers or [], is_lazy=is_lazy, context=changes)]
        for change in changes:
            self._changes[change.transactional_id] = change
            records += change.records
            decided = change.decided
            if decided is not None:
                effects.append(self._markers(change.transactional_id, decided))
        return effects

    def _markers(self, name: str, decided: Transaction, left: Iterable[TopicPartition] | None = None) -> WriteMarkers:
        markers = TxnMarkers(
            decided.producer_id,
            decided.producer_epoch,
            decided.state is TransactionState.PREPARE_COMMIT,
            GIVEN_BY_HOST,
            decided.partitions if left is None else tuple(sorted(left)),
            decided.client_version,
        )
        return WriteMarkers(name, markers)

    def markers_written(
        self, transactional_id: str, producer_epoch: int, errors: MarkerErrors, now: Now,
        unsafe: Mapping[TopicPartition, int] | None = None,
    ) -> list[Effect]:  # fmt: skip
        """Take over the outcome of a WriteMarkers, for each of its partitions.

        `unsafe` says where markers end that are to be seen and may not be durable: the completion is written down
        later. None: the markers are as safe as they get.
        """
        ending = self._endings.get(transactional_id)
        known = self._states.logged.get(transactional_id)
        is_late = known is None or known.producer_epoch != producer_epoch or not self._is_ending(transactional_id)
        if ending is None or known is None or is_late:
            return []
        ending.note(errors, unsafe or {})
        if ending.left:
            self._endings.retry_if_new(transactional_id, now.tick)
        elif unsafe is not None or ending.unsafe:
            self._endings.cancel_retry(transactional_id)
            self._go_ahead(transactional_id, known.completed(now.wall), now)
        elif transactional_id not in self._changes:
            return self._carry_out([self._completion(transactional_id, now)])
        return []

    def _is_ending(self, name: str) -> bool:
        """True if a transaction is decided, and not known to be complete."""
        return name in self._endings and name not in self._states.unlogged

    def _completion(self, name: str, now: Now) -> Change:
        self._endings.cancel_retry(name)
        return Change.of(name, TransactionUpdate((self._states.logged[name].completed(now.wall),)))

    # --- ahead of the log --------------------------------------------------------------------------------------------

    def join(self, message: PartitionsToAdd, now: Now) -> PylogError | None:
        """Let partitions join ahead of the log; gives the error against it.

        Only for partitions without followers, behind a coordinator whose log has none: the open after a crash, which
        aborts what it finds there, is this node's.
        """
        name = message.transactional_id
        step = self._requests.joined(message, now, is_closed=name in self._changes or name in self._settlement)
        if isinstance(step, TransactionUpdate):
            self._go_ahead(name, step.states[-1], now)
            return None
        return step

    def _go_ahead(self, name: str, transaction: Transaction, now: Now) -> None:
        self._states.go_ahead(name, transaction)
        if self._write_down_tick is None:
            self._write_down_tick = now.tick + LAZY_MS

    def unsafe(self, message: object = None) -> Mapping[TopicPartition, int]:
        """Where markers end that have to be durable before this message, or (None) what is due, can be done."""
        if message is None:
            return self._endings.unsafe(None)
        if isinstance(message, EndTxnRequest | InitProducerIdRequest | PartitionsToAdd):
            return self._endings.unsafe(message.transactional_id or "")
        return {}

    def note_durable(self, ends: Mapping[TopicPartition, int]) -> None:
        """Up to where partitions are durable, of those that `unsafe` named."""
        self._endings.note_durable(ends)

    def _is_closed(self, name: str) -> bool:
        """True if no request about a transactional id can be answered well now."""
        return self._is_busy(name) or name in self._settlement

    def _is_busy(self, name: str) -> bool:
        """True if no record of a transactional id may be appended now."""
        return name in self._changes or bool(self._endings.unsafe(name))

    def open_partitions(self, message: EndTxnRequest) -> tuple[TopicPartition, ...]:
        """The partitions whose records have to be durable before this message commits them."""
        known = self._states.get(message.transactional_id)
        is_open = known is not None and known.state is TransactionState.ONGOING
        return known.partitions if known is not None and is_open and message.committed else ()

    @property
    def is_ahead(self) -> bool:
        """True if a transaction is open that is not in the log."""
        return any(one.state is TransactionState.ONGOING for one in self._states.unlogged.values())

    def take_up(self, predecessor: "TransactionCoordinator", now: Now) -> None:
        """Go on with the open transactions that a machine of the same log and process had not in the log."""
        for name, transaction in predecessor._states.unlogged.items():
            if transaction.state is TransactionState.ONGOING and name in self._states.logged:
                self._go_ahead(name, transaction, now)

    def write_down(self, now: Now) -> list[Effect]:
        """Bring the log up to date: nothing else will."""
        self._write_down_tick = now.tick
        return self.tick(now)

    def _ahead(self) -> Iterator[Change]:
        for name, known in list(self._states.unlogged.items()):
            if not self._is_busy(name):
                yield Change.of(name, TransactionUpdate((known,)))

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """When the next `tick` has something to do, in ticks."""
        due = self._endings.due_ms
        if self._states.logged:
            for tick in (self._timeouts_tick, self._expiry_tick, self._settle_tick, self._write_down_tick):
                if tick is not None and (due is None or tick < due):
                    due = tick
        return due

    def tick(self, now: Now) -> list[Effect]:
        """Try endings again, abort transactions that take too long, forget transactional ids that are not used."""
        effects: list[Effect] = []
        changes: list[Change] = []
        room = APPEND_BYTES
        names: set[str] = set()
        for change in self._due(effects, now):
            if change.transactional_id in names:
                continue
            names.add(change.transactional_id)
            changes.append(change)
            room -= change.size
            if room <= 0:
                break
        return [*effects, *self._carry_out(changes)]

    def expire(self, now: Now) -> list[Effect]:
        """Forget the transactional ids that are not used any more, now; see `tick`."""
        self._expiry_tick = now.tick
        return self.tick(now)

    def _due(self, markers: list[Effect], now: Now) -> Iterator[Change]:
        """The changes to log now, one by one. What the caller does not take is due again."""
        for name in self._endings.due(now.tick):
            ending = self._endings.get(name)
            if ending is not None and ending.left:
                self._endings.cancel_retry(name)
                markers.append(self._markers(name, self._states.logged[name], ending.left))
            else:
                yield self._completion(name, now)
        if self._settle_tick is not None and self._settle_tick <= now.tick:
            self._settle_tick = None
            yield from self._settled(now)
        if self._write_down_tick is not None and self._write_down_tick <= now.tick:
            yield from self._ahead()
            # What was passed over is of an id whose markers are not durable yet.
            is_left = any(map(self._is_busy, self._states.unlogged))
            self._write_down_tick = now.tick + LAZY_MS if is_left else None
        if self._timeouts_tick is not None and self._timeouts_tick <= now.tick:
            yield from self._timed_out(now)
            self._timeouts_tick = now.tick + self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        if self._expiry_tick is not None and self._expiry_tick <= now.tick:
            yield from self._expired(now)
            self._expiry_tick = now.tick + self._config.transaction_remove_expired_transaction_cleanup_interval_ms

    def _settled(self, now: Now) -> Iterator[Change]:
        for name in self._settlement:
            known = self._states.get(name)
            if known is not None and (self._is_busy(name) or known.state.is_prepared):
                continue
            try:
                step = self._settlement.step(name, self._new_producer_id, now.wall)
            except PylogError:  # there is no producer id to go on with
                self._settle_tick = now.tick + RETRY_MS
                continue
            if step is not None:
                yield Change.of(name, step, settles=True)

    def _timed_out(self, now: Now) -> Iterator[Change]:
        for name in self._timeouts.late(self._states.items(), now):
            known = self._states.get(name)
            if known is None or self._is_busy(name):
                continue
            try:
                step = rules.fence(known, self._new_producer_id, now.wall)
            except PylogError:  # there is no producer id to go on with: the next time
                continue
            yield Change.of(name, step)

    def _expired(self, now: Now) -> Iterator[Change]:
        for name, known in self._states.items():
            idle = not known.state.is_open and not self._is_busy(name)
            if idle and known.last_update_ms <= now.wall - self._config.transactional_id_expiration_ms:
                yield Change(name, (record_of(name, None),), None)
