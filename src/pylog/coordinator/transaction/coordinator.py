"""One partition of `__transaction_state` as a machine: requests, written markers and the time in, effects out.

    a Produce of a new partition
      -> join: ahead of the log             Ongoing, without a record
    InitProducerId, AddPartitionsToTxn, EndTxn
      -> rules: a step                      the transactional id is busy: ConcurrentTransactions to everybody else
      -> Append [state]                     replayed: that is the state now, and the id is free again
           answers                          when it is safe
      -> WriteMarkers                       behind a Prepare*, which is the commit point: nothing changes the outcome
           markers_written                  partitions that are done leave, the others are tried again
      -> ahead of the log                   Complete*, when none is left

The states are in `states`: those of the log, and the beginnings and completions that are ahead of it. A tick writes
these down (`LAZY_MS`), and so does the close.

Invariants: the logged states are the replay of the log, and change by nothing else. Of a transactional id one step is
on its way at a time, and none but Complete* from Prepare*. A list of effects has one Append at most, and markers behind
it are those of what it decides. Before an Append, the host makes durable what `unsafe` names. Two facts are neither in
the log nor made again, and only speed things up: the epoch that a producer had before its last step (a repeated
InitProducerId is fenced instead, as with Kafka), and the markers that are written already (they are written again).

An answer without an Append tells of what was replayed: the host holds it back until that is safe, too.

Sources: Kafka's TransactionCoordinator, TransactionStateManager, TransactionMarkerChannelManager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

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
from pylog.coordinator.transaction import report, rules
from pylog.coordinator.transaction.changes import Change, ended, refusal, unavailable
from pylog.coordinator.transaction.records import key_of, read, record_of
from pylog.coordinator.transaction.rules import Sighting, TransactionUpdate
from pylog.coordinator.transaction.state import NO_EPOCH, NO_PRODUCER_ID, Transaction, TransactionState
from pylog.coordinator.transaction.states import TransactionStates
from pylog.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidRequest,
    PylogError,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import (
    AddPartitionsToTxn,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    ListTransactions,
    PartitionsAdded,
    ProducerIdGiven,
    Session,
    TxnEnded,
    TxnMarkers,
)
from pylog.record import TopicPartition

GIVEN_BY_HOST = -1
"""The coordinator epoch of the markers: the epoch of the partition's leader when they are written."""
NOT_SEEN = Sighting(-1, -1, {})
"""No partition knows the producer."""
RETRY_MS = 100
RETRY_MAX_MS = 1000
LAZY_MS = 1000
"""How long a state may be ahead of the log."""
APPEND_BYTES = 256 << 10
"""How many bytes of records a tick makes one Append of; what is left is due at once."""


class TransactionCoordinator:
    """An `effects.Coordinator` for one partition.

    The host has checked that partitions which join exist, gives each Append back by `replay` or `append_failed`, and
    each WriteMarkers by `markers_written`.
    """

    def __init__(self, partition: int, config: NodeConfig, *, new_producer_id: NewProducerId) -> None:
        self.partition = partition
        self._config = config
        self._new_producer_id = new_producer_id
        self._states = TransactionStates()
        self._changes: dict[str, Change] = {}
        self._last_epochs: dict[str, int] = {}
        self._retries: dict[str, int] = {}  # when the markers, or the completion, of an ending are tried again
        self._timeouts_tick: int | None = None
        self._expiry_tick: int | None = None
        self._seen: dict[tuple[str, int, int], int] = {}
        """When an open transaction was first looked at, in ticks: by name, epoch and start."""
        self._sightings: dict[str, Sighting] = {}
        self._settle_tick: int | None = None
        self._write_down_tick: int | None = None

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """The state of each transactional id in the log."""
        return self._states.logged

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: LogRecord, stamp: Stamp | None = None) -> None:
        """Take over a record of the log. Raises: UnsupportedFormat, CorruptBatch."""
        name, transaction = read(record)
        self._take(name, transaction)
        change = self._changes.get(name)
        if change is not None and change.records[-1] == record:
            self._finish(change)

    def appended(self, append: Append) -> None:
        """Take over an Append of its own, as `replay` does with each of its records."""
        for change in append.context:
            self._take(change.transactional_id, change.after)
            self._finish(change)

    def _take(self, name: str, transaction: Transaction | None) -> None:
        self._states.replay(name, transaction)
        if transaction is None:
            self._last_epochs.pop(name, None)
        if name not in self._states.endings:
            self._retries.pop(name, None)
        if name in self._sightings:
            self._settle_tick = 0

    def _finish(self, change: Change) -> None:
        name = change.transactional_id
        del self._changes[name]
        if change.last_epoch is not None:
            self._last_epochs[name] = change.last_epoch
        if change.settles:
            del self._sightings[name]

    def replay_marker(self, stamp: Stamp, *, committed: bool) -> None:
        """Do nothing: this log has no transactions of its own."""

    def take_over(self, now: Now) -> list[Effect]:
        """Begin to answer. Decided transactions are driven to their end; timeouts go on from the logged start."""
        # Not at once, as in Kafka: a process that only looks at a log is gone by then.
        self._timeouts_tick = now.tick + self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._expiry_tick = now.tick + self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        endings, logged = self._states.endings, self._states.logged
        self._retries = dict.fromkeys((name for name, ending in endings.items() if not ending.left), now.tick)
        return [self._markers(name, logged[name]) for name, ending in endings.items() if ending.left]

    def append_failed(self, append: Append, error: PylogError, now: Now) -> list[Effect]:
        """Undo an Append that was refused: its messages are answered with an error, and its endings are tried again."""
        for change in append.context:
            del self._changes[change.transactional_id]
            if self._is_ending(change.transactional_id):
                self._retry(change.transactional_id, now)
        if self._timeouts_tick is not None and self._expiry_tick is not None:
            self._timeouts_tick = max(self._timeouts_tick, now.tick + RETRY_MS)
            self._expiry_tick = max(self._expiry_tick, now.tick + RETRY_MS)
        if self._sightings:
            self._settle_tick = now.tick + RETRY_MS
        if self._states.unlogged:
            self._write_down_tick = now.tick + LAZY_MS
        refused = unavailable(error)
        return [Answer(answer.ticket, refusal(answer.message, refused)) for answer in append.answers]

    def settle(
        self, sightings: Mapping[int, Sighting], may_lack: Callable[[TopicPartition], bool], now: Now
    ) -> list[Effect]:
        """After an unclean stop: abort what partitions have of a producer of this log and it has not (by producer id),
        and every transaction that may lack records, also one of which nothing is left.

        One that is decided comes to its end first.
        """
        self._sightings = {}
        for name, known in self._states.items():
            seen = sightings.get(known.producer_id, NOT_SEEN)
            # Where none is open, one may have begun ahead of the log, and its records may be lost: a producer that has
            # outlived the stop must not go on with the rest of it.
            lacks = any(map(may_lack, known.partitions)) if known.partitions else not known.state.is_open
            if lacks or seen is not NOT_SEEN:
                self._sightings[name] = seen._replace(may_lack_records=lacks)
        self._settle_tick = now.tick
        return self.tick(now)

    def producer_ids(self) -> set[int]:
        """The producer ids that this log knows."""
        return {one for _, known in self._states.items() for one in (known.producer_id, known.next_producer_id)}

    def claims(self) -> set[tuple[int, TopicPartition]]:
        """(producer id, partition) of the open transactions that will be ended, after `settle`."""
        claimed = set()
        for name, known in self._states.items():
            if known.state.is_open:
                claimed |= {(known.producer_id, key) for key in known.partitions}
            if name in self._sightings and known.next_producer_id == NO_PRODUCER_ID:
                claimed |= {(known.producer_id, key) for key in self._sightings[name].open_in}
        return claimed

    # --- requests ----------------------------------------------------------------------------------------------------

    def handle(self, message: Any, session: Session, ticket: int, now: Now) -> list[Effect]:
        """Answer a message, at once or behind an Append. Raises TypeError: not a message of this coordinator."""
        match message:
            case EndTxn():
                return self._end(message, ticket, now)
            case InitProducerId():
                return self._init(message, ticket, now)
            case AddPartitionsToTxn():
                return self._add_partitions(message, ticket, now)
            case ListTransactions():
                return [Answer(ticket, report.listed(dict(self._states.items()), message, now.wall))]
            case DescribeTransactions():
                return [Answer(ticket, report.described(dict(self._states.items()), message))]
        raise TypeError(f"a transaction coordinator does not know {type(message).__name__}")

    def _init(self, message: InitProducerId, ticket: int, now: Now) -> list[Effect]:
        name = message.transactional_id or ""
        try:
            result = self._initialised(name, message, now)
        except PylogError as error:  # there is no producer id to give
            result = unavailable(error)
        if not isinstance(result, TransactionUpdate):
            return [Answer(ticket, ProducerIdGiven(self._explained(name, result)))]
        last = result.states[-1]
        if last.state is TransactionState.EMPTY:
            answer = ProducerIdGiven(None, last.producer_id, last.producer_epoch)
        else:
            answer = ProducerIdGiven(rules.in_progress(name))  # it is aborted first: the producer asks again
        return self._carry_out([self._change(name, result)], [Answer(ticket, answer)])

    def _initialised(self, name: str, message: InitProducerId, now: Now) -> TransactionUpdate | PylogError:
        wrong = rules.valid_init(message, self._config.transaction_max_timeout_ms)
        if wrong is not None or self._is_closed(name):
            return wrong or rules.in_progress(name)
        known = self._states.get(name)
        if known is not None:
            last_epoch = self._last_epochs.get(name, NO_EPOCH)
            return rules.init(known, message, last_epoch, self._new_producer_id, now.wall)
        try:
            key_of(name)
        except ValueError as error:
            return InvalidRequest(f"the transactional id cannot be written down: {error}")
        return TransactionUpdate(
            (Transaction.new(self._new_producer_id(), message.transaction_timeout_ms, now.wall),), NO_EPOCH
        )

    def _add_partitions(self, message: AddPartitionsToTxn, ticket: int, now: Now) -> list[Effect]:
        name = message.transactional_id
        known = self._states.get(name)
        if message.verify_only:
            return [Answer(ticket, PartitionsAdded({**rules.verify(known, message)}))]
        result = rules.in_progress(name) if self._is_closed(name) else rules.add_partitions(known, message, now.wall)
        if isinstance(result, TransactionUpdate):
            answer = PartitionsAdded(dict.fromkeys(message.partitions))
            return self._carry_out([self._change(name, result)], [Answer(ticket, answer)])
        answer = PartitionsAdded(dict.fromkeys(message.partitions, self._explained(name, result)))
        return [Answer(ticket, answer)]

    def _end(self, message: EndTxn, ticket: int, now: Now) -> list[Effect]:
        name = message.transactional_id
        known = self._states.get(name)
        result: TransactionUpdate | PylogError | None
        try:
            if self._is_closed(name):
                result = rules.in_progress(name)
            else:
                result = rules.end(known, message, self._new_producer_id, now.wall)
        except PylogError as error:  # there is no producer id to go on with
            result = unavailable(error)
        if isinstance(result, TransactionUpdate):
            known = result.states[0].completed(now.wall)
            # What was aborted counts nowhere, whether that is known after a crash or not.
            return self._carry_out(
                [self._change(name, result)], [Answer(ticket, ended(known))], is_lazy=not message.committed
            )
        if known is not None and result is None:  # it was this request that ended it
            return [Answer(ticket, ended(known))]
        return [Answer(ticket, TxnEnded(self._explained(name, result)))]

    def _explained(self, name: str, error: PylogError | None) -> PylogError | None:
        """The same, with what keeps the transaction before from coming to its end."""
        ending = self._states.endings.get(name)
        if not isinstance(error, ConcurrentTransactions) or ending is None or ending.error is None:
            return error
        return ConcurrentTransactions(f"{error} (a partition refuses what ends it: {ending.error})")

    # --- steps -------------------------------------------------------------------------------------------------------

    def _change(self, name: str, step: TransactionUpdate) -> Change:
        return Change(name, tuple(record_of(name, state) for state in step.states), step.states[-1], step.last_epoch)

    def _carry_out(
        self, changes: list[Change], answers: list[Answer] | None = None, *, is_lazy: bool = False
    ) -> list[Effect]:
        """One Append of them all, and behind it the markers of those that decide a transaction."""
        if not changes:
            return []
        self._changes.update((change.transactional_id, change) for change in changes)
        records = [record for change in changes for record in change.records]
        effects: list[Effect] = [Append(records, answers or [], is_lazy=is_lazy, context=changes)]
        for change in changes:
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
        """The outcome of a WriteMarkers, for each of its partitions. One that is not there any more needs no marker,
        and neither does one that knows a later epoch: the transaction is over there, or was lost with a power cut.

        `unsafe` says where markers end that are to be seen and may not be durable: the completion is written down
        later. None: the markers are as safe as they get.
        """
        ending = self._states.endings.get(transactional_id)
        known = self._states.logged.get(transactional_id)
        if ending is None or known is None or known.producer_epoch != producer_epoch:
            return []  # of a transaction that has ended since
        if not self._is_ending(transactional_id):
            return []
        for partition, error in errors.items():
            if error is None or isinstance(error, UnknownTopicOrPartition | InvalidProducerEpoch):
                ending.left.discard(partition)
            else:
                ending.error = error
        if unsafe:
            ending.unsafe |= unsafe
        if ending.left:
            if transactional_id not in self._retries:
                self._retry(transactional_id, now)
        elif unsafe is not None or ending.unsafe:
            self._retries.pop(transactional_id, None)
            self._go_ahead(transactional_id, known.completed(now.wall), now)
        elif transactional_id not in self._changes:
            return self._carry_out([self._completion(transactional_id, now)])
        return []

    def _is_ending(self, name: str) -> bool:
        """Whether a transaction is decided, and not known to be complete."""
        return name in self._states.endings and name not in self._states.unlogged

    def _completion(self, name: str, now: Now) -> Change:
        self._retries.pop(name, None)
        return self._change(name, TransactionUpdate((self._states.logged[name].completed(now.wall),)))

    def _retry(self, name: str, now: Now) -> None:
        ending = self._states.endings[name]
        self._retries[name] = now.tick + min(RETRY_MS << min(ending.failures, 10), RETRY_MAX_MS)
        ending.failures += 1

    # --- ahead of the log --------------------------------------------------------------------------------------------

    def join(self, message: AddPartitionsToTxn, now: Now) -> PylogError | None:
        """Let partitions join ahead of the log; gives the error against it.

        Only for partitions without followers, behind a coordinator whose log has none: the open after a crash, which
        aborts what it finds there, is this node's.
        """
        name = message.transactional_id
        if name in self._changes or name in self._sightings:
            return rules.in_progress(name)
        step = rules.add_partitions(self._states.get(name), message, now.wall)
        if isinstance(step, TransactionUpdate):
            self._go_ahead(name, step.states[-1], now)
            return None
        return self._explained(name, step)

    def _go_ahead(self, name: str, transaction: Transaction, now: Now) -> None:
        self._states.go_ahead(name, transaction)
        if self._write_down_tick is None:
            self._write_down_tick = now.tick + LAZY_MS

    def unsafe(self, message: object = None) -> Mapping[TopicPartition, int]:
        """Where markers end that have to be durable before this message, or (None) what is due, can be done."""
        if message is None:
            return self._states.unsafe(None)
        if isinstance(message, EndTxn | InitProducerId | AddPartitionsToTxn):
            return self._states.unsafe(message.transactional_id or "")
        return {}

    def note_durable(self, ends: Mapping[TopicPartition, int]) -> None:
        """Up to where partitions are durable, of those that `unsafe` named."""
        self._states.note_durable(ends)

    def _is_closed(self, name: str) -> bool:
        """Whether no request about a transactional id can be answered well now."""
        return self._is_busy(name) or name in self._sightings

    def _is_busy(self, name: str) -> bool:
        """Whether no record of a transactional id may be appended now."""
        return name in self._changes or bool(self._states.unsafe(name))

    def open_partitions(self, message: EndTxn) -> tuple[TopicPartition, ...]:
        """The partitions whose records have to be durable before this message commits them."""
        known = self._states.get(message.transactional_id)
        is_open = known is not None and known.state is TransactionState.ONGOING
        return known.partitions if known is not None and is_open and message.committed else ()

    @property
    def is_ahead(self) -> bool:
        """Whether a transaction is open that is not in the log."""
        return any(one.state is TransactionState.ONGOING for one in self._states.unlogged.values())

    def take_up(self, predecessor: "TransactionCoordinator", now: Now) -> None:
        """Go on with the open transactions that a machine of the same log and process had not in the log."""
        for name, transaction in predecessor._states.unlogged.items():
            if transaction.state is TransactionState.ONGOING and name in self._states:
                self._go_ahead(name, transaction, now)

    def write_down(self, now: Now) -> list[Effect]:
        """Bring the log up to date: nothing else will."""
        self._write_down_tick = now.tick
        return self.tick(now)

    def _ahead(self) -> Iterator[Change]:
        for name, known in list(self._states.unlogged.items()):
            if not self._is_busy(name):
                yield self._change(name, TransactionUpdate((known,)))

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """When the next `tick` has something to do, in ticks."""
        due = min(self._retries.values()) if self._retries else None
        if self._states:
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

    def _due(self, markers: list[Effect], now: Now) -> Iterator[Change]:
        """The changes to log now, one by one. What the caller does not take is due again."""
        for name in [name for name, tick in self._retries.items() if tick <= now.tick]:
            left = self._states.endings[name].left
            if left:
                del self._retries[name]
                markers.append(self._markers(name, self._states.logged[name], left))
            else:
                yield self._completion(name, now)
        if self._settle_tick is not None and self._settle_tick <= now.tick:
            self._settle_tick = None
            yield from self._settled(now)
        if self._write_down_tick is not None and self._write_down_tick <= now.tick:
            yield from self._ahead()
            self._write_down_tick = None
        if self._timeouts_tick is not None and self._timeouts_tick <= now.tick:
            yield from self._timed_out(now)
            self._timeouts_tick = now.tick + self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        if self._expiry_tick is not None and self._expiry_tick <= now.tick:
            yield from self._expired(now)
            self._expiry_tick = now.tick + self._config.transaction_remove_expired_transaction_cleanup_interval_ms

    def _settled(self, now: Now) -> Iterator[Change]:
        for name, seen in list(self._sightings.items()):
            known = self._states.get(name)
            if known is not None and (self._is_busy(name) or known.state.is_prepared):
                continue
            try:
                step = None if known is None else rules.overtaken(known, seen, self._new_producer_id, now.wall)
            except PylogError:  # there is no producer id to go on with
                self._settle_tick = now.tick + RETRY_MS
                continue
            if step is None:
                del self._sightings[name]
            else:
                yield replace(self._change(name, step), settles=True)

    def _timed_out(self, now: Now) -> Iterator[Change]:
        for name in self._late(now):
            known = self._states.get(name)
            if known is None or self._is_busy(name):
                continue
            try:
                step = rules.fence(known, self._new_producer_id, now.wall)
            except PylogError:  # there is no producer id to go on with: the next time
                continue
            yield self._change(name, step)

    def _late(self, now: Now) -> list[str]:
        """The open transactions that take too long: by the wall clock, as it stands in the log, or, where that was set
        back, by the time that went by since they were first looked at here. (Kafka would wait as long.)
        """
        before, self._seen = self._seen, {}
        late = []
        for name, known in self._states.items():
            if known.state is not TransactionState.ONGOING:
                continue
            key = (name, known.producer_epoch, known.start_ms)
            since = self._seen[key] = before.get(key, now.tick)
            if known.timeout_ms < max(now.wall - known.start_ms, now.tick - since):
                late.append(name)
        return late

    def _expired(self, now: Now) -> Iterator[Change]:
        for name, known in self._states.items():
            idle = not known.state.is_open and not self._is_busy(name)
            if idle and known.last_update_ms <= now.wall - self._config.transactional_id_expiration_ms:
                yield Change(name, (record_of(name, None),), None)
