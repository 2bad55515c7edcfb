"""A transaction coordinator with a host that does at once what it is told, unless the test says otherwise."""

from collections.abc import Iterable
from typing import Any

from pylog.config import NodeConfig
from pylog.coordinator.effects import Answer, Append, Effect, MarkerErrors, Now, WriteMarkers
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.coordinator.transaction.records import record_of
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.errors import CoordinatorNotAvailable, PylogError
from pylog.protocol.messages import (
    Session,
    TxnMarkers,
)
from pylog.protocol.messages.transactions import EndTxnResponse, InitProducerIdResponse
from pylog.record import TopicPartition
from support.messages import added, end_txn, init_producer_id, to_add

T0 = 1_700_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = NodeConfig(transactional_id_expiration_ms=100_000)


class Desk:
    """Producer ids count up from 1001; `refuses` is what the log answers, `markers` are those not reported yet."""

    def __init__(self, *known: tuple[str, Transaction]) -> None:
        self.tick_ms = 0
        self.wall_ms = T0
        self.ids = 1000
        self.no_ids: PylogError | None = None
        self.refuses: PylogError | None = None
        self.log = [record_of(name, transaction) for name, transaction in known]
        self.appends: list[Append] = []
        self.markers: list[WriteMarkers] = []
        self.machine = TransactionCoordinator(3, CONFIG, new_producer_id=self.new_producer_id)
        for record in self.log:
            self.machine.replay(record)
        self.carry_out(self.machine.take_over(self.now))
        # The first look for what takes too long is due now.
        self.tick_ms += CONFIG.transaction_abort_timed_out_transaction_cleanup_interval_ms

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.tick_ms)

    def new_producer_id(self) -> int:
        if self.no_ids is not None:
            raise self.no_ids
        self.ids += 1
        return self.ids

    def carry_out(self, effects: Iterable[Effect]) -> dict[int, Any]:
        answers: list[Answer] = []
        for effect in effects:
            if isinstance(effect, Answer):
                answers.append(effect)
            elif isinstance(effect, WriteMarkers):
                self.markers.append(effect)
            elif self.refuses is not None:
                failed = self.machine.append_failed(effect, self.refuses, self.now)
                return {answer.ticket: answer.message for answer in failed if isinstance(answer, Answer)}
            else:
                self.append(effect)
                answers += effect.answers
        return {answer.ticket: answer.message for answer in answers}

    def append(self, append: Append) -> None:
        self.appends += [append] if append.records else []
        self.log += append.records
        self.machine.appended(append, len(self.log))
        again = TransactionCoordinator(3, CONFIG, new_producer_id=self.new_producer_id)
        for record in self.log:
            again.replay(record)
        assert self.machine.transactions == again.transactions, "the state is not the replay of the log"

    def ask(self, message: Any) -> Any:
        """What is answered; None: nothing yet."""
        return self.carry_out(self.machine.handle(message, Session(), 5, self.now)).get(5)

    def init(self, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> InitProducerIdResponse:
        answer = self.ask(init_producer_id("x", timeout_ms, producer_id, epoch))
        assert isinstance(answer, InitProducerIdResponse)
        return answer

    def join(self, producer_id: int, epoch: int, *partitions: TopicPartition, verify_only: bool = False) -> Any:
        """The error of all partitions, or each partition's where they differ."""
        errors = added(self.ask(to_add("x", producer_id, epoch, partitions, verify_only)))
        assert list(errors) == list(partitions)
        kinds = {partition: error and type(error) for partition, error in errors.items()}
        return kinds if len(set(kinds.values())) > 1 else next(iter(kinds.values()), None)

    def end(self, producer_id: int, epoch: int, *, committed: bool) -> EndTxnResponse:
        answer = self.ask(end_txn("x", producer_id, epoch, committed))
        assert isinstance(answer, EndTxnResponse)
        return answer

    def tick(self, after_ms: int) -> None:
        self.tick_ms += after_ms
        self.wall_ms += after_ms
        self.carry_out(self.machine.tick(self.now))

    def marked(self, errors: MarkerErrors | None = None) -> TxnMarkers:
        """The oldest markers are written, but for those with an error."""
        effect = self.markers.pop(0)
        every: MarkerErrors = {**dict.fromkeys(effect.markers.partitions), **(errors or {})}
        epoch = effect.markers.producer_epoch
        self.carry_out(self.machine.markers_written(effect.transactional_id, epoch, every, self.now))
        return effect.markers

    @property
    def x(self) -> Transaction:
        return self.machine.transactions["x"]

    @property
    def state(self) -> TransactionState:
        return self.x.state


def known(state: TransactionState, epoch: int = 4, **more: Any) -> tuple[str, Transaction]:
    """What is known of "x": producer id 50, and partition 0 where a transaction is open."""
    fields: dict[str, Any] = {
        "producer_id": 50,
        "producer_epoch": epoch,
        "timeout_ms": 60_000,
        "state": state,
        "partitions": (P0,) if state.is_open else (),
        "last_update_ms": T0,
        "start_ms": T0 if state is not TransactionState.EMPTY else -1,
        "previous_producer_id": 50,
        "client_version": 2,
    }
    return "x", Transaction(**{**fields, **more})


UNAVAILABLE = CoordinatorNotAvailable("no log now")
