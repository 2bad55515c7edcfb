"""A transaction coordinator alone, in a world that is not kind to it: everything that happens is a function of a seed.

The coordinator is the class that runs in production. Around it are a log whose end is lost in a crash unless it was
synced, partitions that take records and markers as a leader does, a network that loses, doubles and delays, clocks that
jump, and producers (`transaction_clients`). After every event the world requires what must always hold; then it heals
(no fault happens any more), and requires that everything has come to an end.

Host: effects in their order; an answer, or markers, behind what is not synced wait for it, also where they do not come
from the same event.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pylog.config import NodeConfig
from pylog.coordinator.effects import Answer, Append, Effect, LogRecord, Now, WriteMarkers
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.coordinator.transaction.records import read, record_of
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.errors import (
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaStorage,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    PylogError,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import Session, TxnMarkers
from pylog.protocol.messages.transactions import PartitionsAdded
from pylog.record import TopicPartition
from support.messages import added, to_add

WALL = 1_700_000_000_000
FAULTY_MS = 6_000
HEALED_MS = 40_000
CONFIG = NodeConfig(
    transaction_max_timeout_ms=4_000,
    transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
    transaction_remove_expired_transaction_cleanup_interval_ms=2_000,
    transactional_id_expiration_ms=3_000,
)
SESSION = Session()


class ViolatedError(AssertionError):
    """What must always hold did not."""


def require(holds: bool, text: str) -> None:
    if not holds:
        raise ViolatedError(text)


@dataclass(slots=True)
class Rates:
    """How often what goes wrong; each seed has some of it, and not the rest."""

    drop: float = 0.0
    duplicate: float = 0.0
    slow: float = 0.0
    append: float = 0.0
    marker: float = 0.0
    no_id: float = 0.0
    crash: float = 0.0
    clock: float = 0.0
    unsynced: float = 0.0
    deletion: float = 0.0

    @classmethod
    def drawn(cls, random: Random) -> "Rates":
        most = (0.1, 0.3, 0.3, 0.2, 0.4, 0.2, 0.02, 0.02, 0.8, 0.003)
        return cls(*(random.choice((0.0, rate / 3, rate)) for rate in most))


@dataclass(slots=True)
class Open:
    """What a partition knows of a producer."""

    epoch: int
    coordinator_epoch: int = -1
    values: list[int] = field(default_factory=list)
    """Written in the transaction that is open here."""


@dataclass(slots=True)
class DataPartition:
    """Takes records and markers as a leader does (Kafka: ProducerAppendInfo), and notes what became of each record."""

    producers: dict[int, Open] = field(default_factory=dict)
    fates: dict[int, bool] = field(default_factory=dict)

    def write(self, producer_id: int, epoch: int, value: int) -> PylogError | None:
        known = self.producers.setdefault(producer_id, Open(epoch))
        if epoch < known.epoch:
            return InvalidProducerEpoch("too low")
        require(not known.values or epoch == known.epoch, "a transaction began in another one of its producer")
        known.epoch = epoch
        known.values.append(value)
        return None

    def mark(self, marker: TxnMarkers) -> PylogError | None:
        known = self.producers.setdefault(marker.producer_id, Open(marker.producer_epoch))
        if marker.coordinator_epoch < known.coordinator_epoch:
            return TransactionCoordinatorFenced("an older coordinator")
        if marker.producer_epoch < known.epoch or (known.values and marker.producer_epoch == known.epoch):
            return InvalidProducerEpoch("too low")
        if known.values:
            require(marker.producer_epoch == known.epoch + 1, "a marker ended another transaction than its own")
        self.fates.update(dict.fromkeys(known.values, marker.committed))
        self.producers[marker.producer_id] = Open(marker.producer_epoch, marker.coordinator_epoch)
        return None


class World:
    """One run: `run` plays it through, and raises ViolatedError."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rates = Rates.drawn(self.random)
        self.now_ms, self.wall_ms = 0, WALL
        self.events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.numbers = 0
        self.partitions = {TopicPartition("t", number): DataPartition() for number in range(3)}
        self.deleted: set[TopicPartition] = set()
        self.log: list[tuple[LogRecord, ...]] = []
        self.states: dict[str, Transaction] = {}
        """The replay of the log, made without the machine."""
        self.synced = 0
        self.held: deque[tuple[int, Answer | WriteMarkers]] = deque()
        self.tickets: dict[int, Callable[[Any], None]] = {}
        self.last_producer_id = 1000
        self.decided: dict[tuple[int, int], bool] = {}
        """By the producer id and epoch of the markers: whether the synced log commits."""
        self.lives = 0
        self.machine = self.fresh()

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(self.wall_ms + self.now_ms, self.now_ms)

    @property
    def is_faulty(self) -> bool:
        return self.now_ms < FAULTY_MS

    def fails(self, rate: float) -> bool:
        return self.is_faulty and self.random.random() < rate

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        self.numbers += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.numbers, action, arguments))

    def run(self) -> None:
        """Until everything has healed. A tick comes when it is due, or a little later."""
        self.after(0, self.take_over)
        while True:
            due = self.machine.due_ms
            tick_ms = FAULTY_MS + HEALED_MS if due is None else max(due, self.now_ms)
            if self.events and self.events[0][0] <= tick_ms:
                self.now_ms, _, action, arguments = heapq.heappop(self.events)
                action(*arguments)
            elif tick_ms < FAULTY_MS + HEALED_MS:
                self.now_ms = tick_ms
                self.carry_out(self.machine.tick(self.now))
            else:
                break
            self.check()
            self.misfortune()
        self.check_end()

    def misfortune(self) -> None:
        if self.fails(self.rates.crash):
            self.crash()
        if self.fails(self.rates.clock):
            self.wall_ms += self.random.choice((-3_000, -200, 200, 3_000))
        if self.fails(self.rates.deletion):
            self.deleted.add(self.random.choice(list(self.partitions)))

    # --- the host ----------------------------------------------------------------------------------------------------

    def fresh(self) -> TransactionCoordinator:
        self.lives += 1
        return TransactionCoordinator(0, CONFIG, new_producer_id=self.new_producer_id)

    def new_producer_id(self) -> int:
        if self.fails(self.rates.no_id):
            raise KafkaStorage("no producer ids")
        self.last_producer_id += 1
        return self.last_producer_id

    def logged(self, name: str, state: Transaction) -> None:
        """What was in the log before this run."""
        self.log.append((record_of(name, state),))
        self.synced += 1

    def take_over(self) -> None:
        self.states = {}
        for batch in self.log:
            for record in batch:
                self.machine.replay(record)
            self.note_states(batch)
        self.carry_out(self.machine.take_over(self.now))

    def note_states(self, batch: Sequence[LogRecord]) -> None:
        for record in batch:
            name, state = read(record)
            if state is None:
                self.states.pop(name)
            else:
                self.states[name] = state

    def crash(self) -> None:
        """Nobody was told of what was not synced, and some of it is gone."""
        del self.log[self.random.randint(self.synced, len(self.log)) :]
        self.note_decided(len(self.log))
        self.held.clear()
        self.tickets.clear()
        self.machine = self.fresh()
        self.take_over()

    def receive(self, message: Any, answered: Callable[[Any], None]) -> None:
        """A message has come; `answered` gets the answer, if there is one."""
        self.numbers += 1
        self.tickets[self.numbers] = answered
        self.carry_out(self.machine.handle(message, SESSION, self.numbers, self.now))

    def carry_out(self, effects: list[Effect]) -> None:
        require(sum(isinstance(effect, Append) for effect in effects) <= 1, "two appends in one list")
        for effect in effects:
            if not isinstance(effect, Append):
                self.held.append((len(self.log), effect))
            elif not effect.records:
                self.held.extend((effect.tells, answer) for answer in effect.answers)
            elif self.fails(self.rates.append):
                error = self.random.choice((NotEnoughReplicas, NotLeaderOrFollower, CoordinatorNotAvailable))("refused")
                self.carry_out(self.machine.append_failed(effect, error, self.now))
                break
            else:
                self.log.append(tuple(effect.records))
                self.machine.appended(effect, len(self.log))
                self.note_states(effect.records)
                self.held.extend((len(self.log), answer) for answer in effect.answers)
                delay_ms = self.random.randint(1, 200) if self.fails(self.rates.unsynced) else 0
                self.after(delay_ms, self.sync, len(self.log), self.lives)
        self.release()

    def sync(self, upto: int, life: int) -> None:
        if life == self.lives:
            self.note_decided(upto)
            self.release()

    def note_decided(self, upto: int) -> None:
        for batch in self.log[self.synced : upto]:
            for name, state in map(read, batch):
                if state is not None and state.state.is_prepared:
                    key, committed = (
                        (state.producer_id, state.producer_epoch),
                        state.state is TransactionState.PREPARE_COMMIT,
                    )
                    require(self.decided.setdefault(key, committed) == committed, f"{name} {key} was decided twice")
        self.synced = max(self.synced, upto)

    def release(self) -> None:
        while (due := next((one for one in self.held if one[0] <= self.synced), None)) is not None:
            self.held.remove(due)
            effect = due[1]
            if isinstance(effect, Answer):
                self.tickets.pop(effect.ticket)(effect.message)
            else:
                delay_ms = self.random.randint(1, 2_000) if self.fails(self.rates.slow) else 1
                self.after(delay_ms, self.write_markers, effect, self.lives)

    # --- partitions --------------------------------------------------------------------------------------------------

    def write_markers(self, effect: WriteMarkers, life: int) -> None:
        """Also for a coordinator that is dead by now. What is not done may be said to be, not the other way round."""
        markers = effect.markers._replace(coordinator_epoch=life)
        key = (markers.producer_id, markers.producer_epoch)
        require(self.decided.get(key) is markers.committed, f"markers of {key} without a decision that is in the log")
        require(bool(markers.partitions), "markers for no partition")
        errors: dict[TopicPartition, PylogError | None] = {}
        for partition in markers.partitions:
            if partition in self.deleted:
                errors[partition] = UnknownTopicOrPartition("deleted")
            elif self.fails(self.rates.marker):
                errors[partition] = NotLeaderOrFollower("not now")
            else:
                errors[partition] = self.partitions[partition].mark(markers)
                if self.fails(self.rates.marker):
                    errors[partition] = NotEnoughReplicas("written, but not everywhere")
        if life == self.lives:
            name, epoch = effect.transactional_id, markers.producer_epoch
            self.carry_out(self.machine.markers_written(name, epoch, errors, self.now))

    def write(
        self,
        name: str,
        partition: TopicPartition,
        identity: tuple[int, int],
        value: int,
        answered: Callable[[Any], None],
    ) -> None:
        """A leader asks the coordinator whether the partition joined, and appends a little later."""

        def verified(message: PartitionsAdded) -> None:
            error = added(message)[partition]
            if error is None:
                delay_ms = self.random.randint(1, 3_000) if self.fails(self.rates.slow) else 0
                self.after(delay_ms, self.append, partition, identity, value, answered)
            else:
                answered(error)

        self.receive(to_add(name, *identity, [partition], verify_only=True), verified)

    def append(
        self, partition: TopicPartition, identity: tuple[int, int], value: int, answered: Callable[[Any], None]
    ) -> None:
        if partition in self.deleted:
            answered(UnknownTopicOrPartition("deleted"))
        else:
            answered(self.partitions[partition].write(*identity, value))

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The machine's state is the replay of its log."""
        require(self.machine.transactions == self.states, "the state is not the replay of the log")

    def check_end(self) -> None:
        """Everything has ended, and nothing hangs."""
        for name, state in self.machine.transactions.items():
            require(not state.state.is_open, f"{name} stays in {state.state.title}")
        again = self.fresh()
        for record in (record for batch in self.log for record in batch):
            again.replay(record)
        require(again.transactions == self.machine.transactions, "another replay of the log says something else")
        for partition, data in self.partitions.items():
            for producer_id, known in data.producers.items():
                hangs = bool(known.values) and partition not in self.deleted
                require(not hangs, f"a transaction of {producer_id} hangs in {partition}")
