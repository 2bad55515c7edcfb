"""From a request and a transaction to a `TransactionUpdate`, None (it is so already), or the error against it.

Nothing here changes anything. Sources: Kafka's TransactionCoordinator; KIP-98 (fencing), KIP-360 (a producer that asks
for a higher epoch says which one it has), KIP-890 (every end raises the epoch, by which a repeated EndTxn is known).
"""

from dataclasses import dataclass

from pylog.coordinator.effects import NewProducerId
from pylog.coordinator.transaction.state import (
    CLIENT_VERSION,
    EPOCH_LAST,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from pylog.errors import (
    ConcurrentTransactions,
    InvalidPidMapping,
    InvalidRequest,
    InvalidTxnState,
    InvalidTxnTimeout,
    ProducerFenced,
    ProtocolError,
    TransactionAbortable,
)
from pylog.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, PartitionsToAdd
from pylog.record import TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionUpdate:
    """The changes to log in one batch; the last of the states is the one that counts."""

    states: tuple[Transaction, ...]
    last_epoch: int | None = None
    """The epoch of the producer that took this step, by which its repetition is known; None: as before."""


def valid_init(message: InitProducerIdRequest, timeout_max_ms: int) -> ProtocolError | None:
    """The error of an InitProducerId that does not depend on its transactional id."""
    fault = message.fault()
    if fault is not None:
        return fault
    if not message.transactional_id:
        return unknown(message.transactional_id)
    if not 0 < message.transaction_timeout_ms <= timeout_max_ms:
        return InvalidTxnTimeout(
            f"transaction.timeout.ms is {message.transaction_timeout_ms}: it has to be 1 to {timeout_max_ms} "
            "(transaction.max.timeout.ms of the node)"
        )
    return None


def init(
    known: Transaction, message: InitProducerIdRequest, last_epoch: int, new_producer_id: NewProducerId, wall_ms: int
) -> TransactionUpdate | ProtocolError:
    """A producer starts, or starts again: it gets a higher epoch, and the elders have none that is valid any more.

    Where a transaction is open, it is aborted first; the producer has to ask again. One that says its epoch aborts its
    own transaction alone: with Kafka also an elder that asks for a higher epoch aborts what its successor does.
    Raises what `new_producer_id` does.
    """
    name, epoch, timeout_ms = message.transactional_id, message.producer_epoch, message.transaction_timeout_ms
    expects = message.producer_id != NO_PRODUCER_ID
    current = (message.producer_id, epoch) == (known.producer_id, known.producer_epoch)
    if known.state.is_prepared:
        return in_progress(name)
    if expects and not current:
        if known.state is TransactionState.ONGOING or epoch != last_epoch or not _may_be(known, message):
            return _fenced(name, epoch, known)
        return TransactionUpdate((known.initialised(known.producer_id, known.producer_epoch, timeout_ms, wall_ms),))
    if known.state is TransactionState.ONGOING:
        return fence(known, new_producer_id, wall_ms)
    given = (new_producer_id(), 0) if known.is_exhausted else (known.producer_id, known.producer_epoch + 1)
    return TransactionUpdate((known.initialised(*given, timeout_ms, wall_ms),), epoch)


def _may_be(known: Transaction, message: InitProducerIdRequest) -> bool:
    """True if its producer id is the one that is known, or was it until its epochs were used up."""
    replaced = message.producer_id == known.previous_producer_id and message.producer_epoch >= EPOCH_LAST
    return message.producer_id == known.producer_id or replaced


def fence(known: Transaction, new_producer_id: NewProducerId, wall_ms: int) -> TransactionUpdate:
    """Abort an open transaction whose producer did not ask for it: what that does later has too low an epoch."""
    return _decide(known, False, new_producer_id, wall_ms)


def _decide(
    known: Transaction, committed: bool, new_producer_id: NewProducerId, wall_ms: int,
    version: int = CLIENT_VERSION,
) -> TransactionUpdate:  # fmt: skip
    rotates = known.is_exhausted and version >= CLIENT_VERSION
    next_id = new_producer_id() if rotates else NO_PRODUCER_ID
    prepared = known.prepared(committed=committed, next_producer_id=next_id, wall_ms=wall_ms, version=version)
    # Without partitions there are no markers to wait for: it is complete in the same batch.
    states = (prepared,) if prepared.partitions else (prepared, prepared.completed(wall_ms))
    return TransactionUpdate(states, known.producer_epoch)


def add_partitions(
    known: Transaction | None, message: PartitionsToAdd, wall_ms: int
) -> TransactionUpdate | ProtocolError | None:
    """Partitions join; None: they are all in it."""
    refused = _of_producer(known, message)
    if refused is not None or known is None:
        return refused
    partitions = message.partitions()
    if known.state is TransactionState.ONGOING and set(partitions) <= set(known.partitions):
        return None
    return TransactionUpdate((known.joined(tuple(partitions), wall_ms),)) if partitions else None


def verify(known: Transaction | None, message: PartitionsToAdd) -> dict[TopicPartition, ProtocolError | None]:
    """For each of the partitions, what keeps its records from being part of the transaction."""
    refused = _of_producer(known, message)
    if refused is not None or known is None:
        return dict.fromkeys(message.partitions(), refused)
    absent = TransactionAbortable(f"{message.transactional_id}: the partition did not join the transaction: abort it")
    joined = set(known.partitions)
    return {partition: None if partition in joined else absent for partition in message.partitions()}


def _of_producer(known: Transaction | None, message: PartitionsToAdd) -> ProtocolError | None:
    name = message.transactional_id
    if known is None or known.state.is_prepared:
        return unknown(name) if known is None else in_progress(name)
    if known.producer_id != message.producer_id:
        return _other_id(name, message.producer_id, known)
    return None if known.producer_epoch == message.producer_epoch else _fenced(name, message.producer_epoch, known)


def end(
    known: Transaction | None, message: EndTxnRequest, new_producer_id: NewProducerId, wall_ms: int
) -> TransactionUpdate | ProtocolError | None:
    """The transaction ends; None: it did so before, in this way, for the same request. Raises as `new_producer_id`."""
    name, epoch = message.transactional_id, message.producer_epoch
    if known is None or known.state.is_prepared:
        return unknown(name) if known is None else in_progress(name)
    rotated = _rotated(known, message)
    if known.producer_id != message.producer_id and not rotated:
        return _other_id(name, message.producer_id, known)
    ended = known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    raised = 1 if message.transaction_version >= CLIENT_VERSION else 0
    again = ended and (rotated or known.producer_epoch == epoch + raised)
    if not again and known.producer_epoch != epoch:
        return _fenced(name, epoch, known)
    if again:
        return (
            None
            if message.committed == (known.state is TransactionState.COMPLETE_COMMIT)
            else _ends_otherwise(message, known)
        )
    if known.state is not TransactionState.ONGOING and (message.committed or not raised):
        # A producer of version 2 may abort nothing, and gets another epoch.
        return _ends_otherwise(message, known)
    return _decide(known, message.committed, new_producer_id, wall_ms, message.transaction_version)


def _rotated(known: Transaction, message: EndTxnRequest) -> bool:
    """True if this end was the one that used the last epoch up, and gave the producer another id."""
    used_up = message.producer_epoch == EPOCH_LAST and known.producer_epoch == 0
    return used_up and known.previous_producer_id == message.producer_id != known.producer_id


def unknown(name: str | None) -> ProtocolError:
    """There is nothing of this transactional id; one without a character never has anything."""
    if not name:
        return InvalidRequest("a transactional id has at least one character: give the producer another one")
    return InvalidPidMapping(f"{name}: the transactional id is not known, or was forgotten: make a new producer")


def in_progress(name: str | None) -> ProtocolError:
    """The error of a call while the one before it is not done."""
    return ConcurrentTransactions(f"{name}: what came before is still being written: try again")


def _other_id(name: str, producer_id: int, known: Transaction) -> ProtocolError:
    return InvalidPidMapping(f"{name} has producer id {known.producer_id}, not {producer_id}: make a new producer")


def _fenced(name: str | None, epoch: int, known: Transaction) -> ProtocolError:
    return ProducerFenced(
        f"{name}: epoch {epoch} is not the current one, {known.producer_epoch} of producer id {known.producer_id}: "
        "another producer with this transactional id took over, or the transaction took too long"
    )


def _ends_otherwise(message: EndTxnRequest, known: Transaction) -> ProtocolError:
    asked = "committed" if message.committed else "aborted"
    if message.committed and known.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT):
        return InvalidTxnState(
            f"{message.transactional_id}: the transaction cannot be committed: it was aborted, as it took longer than "
            f"transaction.timeout.ms={known.timeout_ms}, as another producer with this transactional id took over, or "
            "as that was asked for"
        )
    return InvalidTxnState(f"{message.transactional_id}: a transaction in {known.state.title} cannot be {asked}")
