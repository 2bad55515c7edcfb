"""Faults planted in the transaction coordinator, each of which the simulation has to find: else it proves nothing.

The numbers are those of the bugs that others had, in the order of the project's list: 56 a delayed end hits the next
transaction, 57 a late record leaves one hanging, 59 a timeout does not raise the epoch, 67 a new coordinator loses what
was confirmed, 69 a repeated end is not the same end. 58 (sequence numbers) and 68 (offsets) are not the coordinator's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pylog.coordinator.effects import Answer, Append, Effect, Now
from pylog.coordinator.transaction import rules
from pylog.coordinator.transaction.coordinator import TransactionCoordinator
from pylog.coordinator.transaction.records import read
from pylog.coordinator.transaction.rules import TransactionUpdate
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.errors import PylogError
from pylog.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, PartitionsToAdd

from .transaction_world import World


@dataclass(frozen=True, slots=True)
class Mutant:
    """One attribute of one place is something else for as long as it is tried."""

    number: int
    """0: not on the list."""
    name: str
    place: Any
    attribute: str
    planted: Any

    @contextmanager
    def plant(self) -> Iterator[None]:
        original = getattr(self.place, self.attribute)
        setattr(self.place, self.attribute, self.planted)
        try:
            yield
        finally:
            setattr(self.place, self.attribute, original)


_prepared, _fence, _end, _add, _init, _verify = (
    Transaction.prepared,
    rules.fence,
    rules.end,
    rules.add_partitions,
    rules.init,
    rules.verify,
)
_carry_out, _markers, _written = (
    TransactionCoordinator._carry_out,
    TransactionCoordinator._markers,
    TransactionCoordinator.markers_written,
)
_failed, _decide = TransactionCoordinator.append_failed, rules._decide


def _epoch_stays(known: Transaction, **how: Any) -> Transaction:
    return _prepared(known, **how)._replace(producer_epoch=known.producer_epoch)


def _any_epoch_ends(known: Transaction | None, message: EndTxnRequest, *more: Any) -> Any:
    return _end(known, replace(message, producer_epoch=known.producer_epoch) if known else message, *more)


def _elder_ends(known: Transaction | None, message: EndTxnRequest, *more: Any) -> Any:
    elder = (
        known is not None
        and known.state is TransactionState.ONGOING
        and known.producer_epoch == message.producer_epoch + 1
    )
    return _end(known, replace(message, producer_epoch=message.producer_epoch + 1) if elder else message, *more)


def _any_epoch_joins(known: Transaction | None, message: PartitionsToAdd, *more: Any) -> Any:
    return _add(known, replace(message, producer_epoch=known.producer_epoch) if known else message, *more)


def _one_partition_less(known: Transaction, **how: Any) -> Transaction:
    return _prepared(known, **how)._replace(partitions=known.partitions[1:])


def _answer_first(
    machine: TransactionCoordinator, changes: Any, answers: list[Answer] | None = None, **how: Any
) -> list[Effect]:
    return [*(answers or []), *_carry_out(machine, changes, **how)]


def _markers_first(machine: TransactionCoordinator, *what: Any, **how: Any) -> list[Effect]:
    return sorted(_carry_out(machine, *what, **how), key=lambda effect: isinstance(effect, Append))


def _state_first(machine: TransactionCoordinator, changes: Any, *answers: Any, **how: Any) -> list[Effect]:
    effects = _carry_out(machine, changes, *answers, **how)
    machine._states._logged.update(read(change.records[-1]) for change in changes)
    return effects


def _fence_without_epoch(known: Transaction, *more: Any) -> TransactionUpdate:
    return TransactionUpdate((_fence(known, *more).states[0]._replace(producer_epoch=known.producer_epoch),))


def _late_commit(known: Transaction | None, message: EndTxnRequest, *more: Any) -> Any:
    late = (
        known is not None
        and known.state is TransactionState.COMPLETE_ABORT
        and known.producer_epoch == message.producer_epoch + 1
    )
    return None if late else _end(known, message, *more)


def _markers_turned(machine: TransactionCoordinator, name: str, decided: Transaction, *left: Any) -> Any:
    effect = _markers(machine, name, decided, *left)
    turned = not machine._changes and machine._timeouts_tick is not None  # what a predecessor decided, at take-over
    return replace(effect, markers=effect.markers._replace(committed=False)) if turned else effect


def _first_is_all(machine: TransactionCoordinator, name: str, epoch: int, errors: Any, now: Now) -> list[Effect]:
    whole = dict.fromkeys(errors) if None in errors.values() else errors
    return _written(machine, name, epoch, whole, now)


def _never_undone(machine: TransactionCoordinator, append: Append, error: PylogError, now: Now) -> list[Effect]:
    return _failed(machine, replace(append, context=[]), error, now)


def _as_if_written(machine: TransactionCoordinator, append: Append, error: PylogError, now: Now) -> list[Effect]:
    _failed(machine, append, error, now)
    return list(append.answers)


def _never_repeated(known: Transaction | None, message: EndTxnRequest, *more: Any) -> Any:
    return _end(known, message, *more) or rules.unknown(message.transactional_id)


def _epoch_given_again(known: Transaction, message: InitProducerIdRequest, *more: Any) -> Any:
    step = _init(known, message, *more)
    if not isinstance(step, TransactionUpdate) or step.states[-1].state is not TransactionState.EMPTY:
        return step
    return TransactionUpdate((step.states[-1]._replace(producer_epoch=known.producer_epoch),), step.last_epoch)


def _open_one_left(known: Transaction, message: InitProducerIdRequest, *more: Any) -> Any:
    return _init(
        known._replace(state=TransactionState.EMPTY) if known.state is TransactionState.ONGOING else known,
        message,
        *more,
    )


def _any_epoch_inits(known: Transaction, message: InitProducerIdRequest, last: int, *more: Any) -> Any:
    given = message.producer_epoch >= 0
    return _init(known, replace(message, producer_epoch=known.producer_epoch) if given else message, last, *more)


def _decided_otherwise(known: Transaction, committed: bool, *more: Any) -> TransactionUpdate:
    return _decide(known, committed if len(known.partitions) < 2 else not committed, *more)


def _hold_only_appends(world: World, effects: list[Effect]) -> None:
    """The host gives an answer that comes without records at once."""
    if len(effects) == 1 and isinstance(effects[0], Append) and not effects[0].records:
        for answer in effects[0].answers:
            world.tickets.pop(answer.ticket)(answer.message)
    else:
        _carry(world, effects)


_carry = World.carry_out

MUTANTS = [
    Mutant(56, "an end keeps the epoch", Transaction, "prepared", _epoch_stays),
    Mutant(56, "an end of any epoch ends the transaction", rules, "end", _any_epoch_ends),
    Mutant(56, "an end of the last transaction ends this one", rules, "end", _elder_ends),
    Mutant(56, "the highest epoch is given", Transaction, "is_exhausted", False),
    Mutant(57, "partitions join with any epoch", rules, "add_partitions", _any_epoch_joins),
    Mutant(
        57, "every partition is said to have joined", rules, "verify", lambda _, said: dict.fromkeys(said.partitions())
    ),
    Mutant(57, "one partition gets no marker", Transaction, "prepared", _one_partition_less),
    Mutant(57, "an answer does not wait for its append", TransactionCoordinator, "_carry_out", _answer_first),
    Mutant(57, "an answer does not wait for appends before", World, "carry_out", _hold_only_appends),
    Mutant(57, "a new producer leaves the transaction open", rules, "init", _open_one_left),
    Mutant(59, "a timeout keeps the epoch", rules, "fence", _fence_without_epoch),
    Mutant(59, "a commit after the timeout is well", rules, "end", _late_commit),
    Mutant(59, "nothing times out", TransactionCoordinator, "_timed_out", lambda *_: iter(())),
    Mutant(67, "a new coordinator leaves what is decided", TransactionCoordinator, "take_over", lambda *_: []),
    Mutant(67, "a new coordinator aborts what is decided", TransactionCoordinator, "_markers", _markers_turned),
    Mutant(67, "markers do not wait for the decision", TransactionCoordinator, "_carry_out", _markers_first),
    Mutant(67, "the state changes before the log", TransactionCoordinator, "_carry_out", _state_first),
    Mutant(67, "one written marker counts for all", TransactionCoordinator, "markers_written", _first_is_all),
    Mutant(67, "what failed is never undone", TransactionCoordinator, "append_failed", _never_undone),
    Mutant(67, "what failed is answered as done", TransactionCoordinator, "append_failed", _as_if_written),
    Mutant(69, "a repeated end is refused", rules, "end", _never_repeated),
    Mutant(69, "a repeated end may be another one", rules, "_ends_otherwise", lambda *_: None),
    Mutant(0, "a new producer gets the epoch of its elder", rules, "init", _epoch_given_again),
    Mutant(0, "a higher epoch is given to who is fenced", rules, "init", _any_epoch_inits),
    Mutant(0, "the outcome is another one than asked", rules, "_decide", _decided_otherwise),
]
