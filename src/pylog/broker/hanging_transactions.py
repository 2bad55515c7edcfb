"""Transactions after an unclean stop: what hangs is found and ended.

After a kill the system has all that was written, so an open transaction lacks nothing but its beginning in the log of
its coordinator: it goes on (`ReplicaManager.has_all_written`). A transaction that is not decided does not outlive a
power cut: records that were answered may be lost. With `flush="sync"` a decision is found with all its records. Where
nothing was synced, a power cut leaves each log at any age:

    the log has it open       it may lack records: the coordinator aborts it
    the partition is newer    its transaction is not known, or is over, or its epochs are beyond those of the log: the
                              coordinator aborts it, and gives the next producer an epoch beyond them
    the partition is older    its open transaction was ended, and the marker is gone: that is aborted, too
    no coordinator has it   a marker aborts it in its partition

So after an open no transaction hangs. Partitions with followers are left alone. The producers in the partitions also
tell which producer ids were given: none is given twice. In folders from elsewhere nothing is ended at their first open:
their coordinators may live elsewhere, too.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from pylog.broker.coordinator_host import CoordinatorHost
from pylog.broker.coordinators import TRANSACTIONS, Coordinators
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.transaction_markers import abort_of
from pylog.coordinator.effects import MarkerErrors
from pylog.errors import NotCoordinator, PylogError
from pylog.protocol.messages import TxnMarkers
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.runtime.future import Future
from pylog.storage.producer_state import ProducerEntry

if TYPE_CHECKING:
    from pylog.coordinator.transaction import Sighting, TransactionCoordinator

logger = logging.getLogger("pylog.broker")

WriteMarkers = Callable[[TxnMarkers], Future[MarkerErrors]]


def settle(replica_manager: ReplicaManager, coordinators: Coordinators, write_markers: WriteMarkers) -> bool:
    """End what hangs, at an open after an unclean stop, or of folders from elsewhere; False where a coordinator could
    not be heard.

    Raises DiskFull, DurabilityUnknown where known producer ids could not be reserved. What else keeps a transaction
    from being ended is logged, and is tried again where a coordinator has it.
    """
    known, all_are_there = _coordinators(coordinators)
    # Behind them: they have written the markers of what is decided.
    seen = sightings(replica_manager)
    given = [one for _, machine in known for one in machine.producer_ids()]
    replica_manager.cluster_changes.reserve_producer_ids(max([*seen, *given], default=-1) + 1)
    if replica_manager.has_adopted:
        return False
    has_all_written = replica_manager.has_all_written

    def may_lack(key: TopicPartition) -> bool:
        role = replica_manager.roles.held(*key)
        return not (isinstance(role, Leader) and role.has_followers)

    for host, machine in known:
        _hear(host, machine, seen, may_lack, has_all_written=has_all_written, may_have_begun=True)
        coordinators.note_due(host)
    if all_are_there:
        claimed = {claim for _, machine in known for claim in machine.claims()}
        for key, producer_id, entry in list(_producers(replica_manager)):
            if entry.current_txn_first_offset is not None and (producer_id, key) not in claimed:
                _abort(key, producer_id, entry, write_markers)
    return all_are_there


def settle_promoted(
    replica_manager: ReplicaManager, coordinators: Coordinators, write_markers: WriteMarkers,
    promoted: Mapping[TopicPartition, bool],
) -> None:  # fmt: skip
    """End what another leader has left open in partitions that this node leads since just now.

    A copy may lack records of a transaction that is not decided, and its producer may be gone with the leader: it is
    aborted. True in `promoted`: the copy counted, so all that was acknowledged is in it. What keeps a transaction from
    being ended is logged.
    """
    coordinators_too = any(key.topic == TRANSACTIONS for key in promoted)
    keys = [TopicPartition(one.topic, one.number) for one in replica_manager.kept()] if coordinators_too else promoted
    known, all_are_there = _coordinators(coordinators)
    # Behind them: they have written the markers of what is decided.
    seen = _sightings_of(_producers_in(replica_manager, keys))
    for host, machine in known:
        own = TopicPartition(TRANSACTIONS, machine.partition)
        _hear(host, machine, seen, lambda key, is_new=own in promoted: is_new or key in promoted,  # type: ignore[misc]
              has_all_written=False, may_have_begun=not promoted.get(own, True))  # fmt: skip
        coordinators.note_due(host)
    if all_are_there:
        claimed = {claim for _, machine in known for claim in machine.claims()}
        for key, producer_id, entry in list(_producers_in(replica_manager, keys)):
            if entry.current_txn_first_offset is not None and (producer_id, key) not in claimed:
                _abort(key, producer_id, entry, write_markers)


def _producers_in(
    replica_manager: ReplicaManager, keys: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, int, ProducerEntry]]:
    for key in keys:
        role = replica_manager.roles.held(*key)
        if isinstance(role, Leader):
            for producer_id, entry in dict(role.partition.producers.entries()).items():
                yield key, producer_id, entry


def sightings(replica_manager: ReplicaManager) -> "dict[int, Sighting]":
    """The producers of the partitions, by producer id; of the partitions that this node alone has."""
    return _sightings_of(_producers(replica_manager))


def _sightings_of(producers: Iterable[tuple[TopicPartition, int, ProducerEntry]]) -> "dict[int, Sighting]":
    from pylog.coordinator.transaction import Sighting

    seen: dict[int, Sighting] = {}
    for key, producer_id, entry in producers:
        known = seen.get(producer_id, Sighting(-1, -1, {}))
        is_open = entry.current_txn_first_offset is not None
        seen[producer_id] = Sighting(
            max(known.epoch, entry.epoch),
            max(known.coordinator_epoch, entry.coordinator_epoch),
            {**known.open_in, key: entry.epoch} if is_open else known.open_in,
        )
    return seen


def _producers(replica_manager: ReplicaManager) -> Iterator[tuple[TopicPartition, int, ProducerEntry]]:
    for partition in replica_manager.kept():
        key = TopicPartition(partition.topic, partition.number)
        role = replica_manager.roles.held(*key)
        if isinstance(role, Leader) and not role.has_followers:
            for producer_id, entry in dict(partition.producers.entries()).items():
                yield key, producer_id, entry


def _coordinators(coordinators: Coordinators) -> "tuple[list[tuple[CoordinatorHost, TransactionCoordinator]], bool]":
    """The coordinators that have ever written, and whether these are all: what one of them knows that cannot be read
    must not be taken for a transaction that none knows.
    """
    found, are_all = [], True
    for key in coordinators.written(TRANSACTIONS):
        try:
            host = coordinators.at(key)
        except NotCoordinator:
            # Its leader ends them, or this node does when it takes the lead.
            are_all = False
            continue
        except PylogError as error:
            logger.error("transactions that were left open cannot be ended: %s", error)
            are_all = False
            continue
        found.append((host, cast("TransactionCoordinator", host.machine)))
    return found, are_all


def _hear(
    host: CoordinatorHost, machine: "TransactionCoordinator", seen: "Mapping[int, Sighting]",
    may_lack: Callable[[TopicPartition], bool], *, has_all_written: bool, may_have_begun: bool,
) -> None:  # fmt: skip
    beyond = max((seen[one].coordinator_epoch for one in machine.producer_ids() if one in seen), default=-1)
    try:
        if beyond >= 0:
            host.lead_from(beyond)
    except PylogError as error:
        logger.error("transactions that were left open cannot be ended now: %s", error)
    host.hear_all(
        lambda now: machine.settle(seen, may_lack, now, has_all_written=has_all_written, may_have_begun=may_have_begun)
    )


def _abort(key: TopicPartition, producer_id: int, entry: ProducerEntry, write_markers: WriteMarkers) -> None:
    name = f"{key.topic}-{key.partition}: the transaction of producer {producer_id}"
    first = entry.current_txn_first_offset
    fields = {**key._asdict(), "offset": first, "producer_id": producer_id}
    logger.warning("%s from offset %s on is aborted: no coordinator has it", name, first, extra=fields)

    def written(done: Future[MarkerErrors]) -> None:
        error = done.result()[key]
        if error is not None:
            logger.error("%s hangs: %s", name, error, extra=fields)

    # Followers that count may come later than this.
    write_markers(abort_of(producer_id, entry, key)).add_done_callback(written)
