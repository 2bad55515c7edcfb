"""What is left of transactions after an unclean stop, and ending what no coordinator will end.

A transaction that is not decided does not outlive a crash: its beginning may not be in the log of its coordinator, and
records that were answered may be lost. With `flush="sync"` a decision is found with all its records. Where nothing was
synced, a power cut leaves each log at any age:

    the log has it open       it may lack records: the coordinator aborts it
    the partition is newer    its transaction is not known, or is over, or its epochs are beyond those of the log: the
                              coordinator aborts it, and gives the next producer an epoch beyond them
    the partition is older    its open transaction was ended, and the marker is gone: that is aborted, too
    no coordinator knows it   a marker aborts it in its partition

So after an open no transaction hangs. Partitions with followers are left alone. What partitions know of producers also
says which producer ids were given: none is given twice. In folders from elsewhere nothing is ended at their first open:
their coordinators may live elsewhere, too.
"""

import logging
from collections.abc import Callable, Iterator, Mapping

from pylog.broker.coordinator_host import CoordinatorHost
from pylog.broker.coordinators import TRANSACTIONS, Coordinators
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.transaction_markers import abort_of
from pylog.coordinator.transaction import Sighting, TransactionCoordinator
from pylog.errors import PylogError
from pylog.protocol.messages import TxnMarkers
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.runtime.future import Future
from pylog.storage.producer_state import ProducerEntry

logger = logging.getLogger("pylog")

WriteMarkers = Callable[[TxnMarkers], Future[Mapping[TopicPartition, PylogError | None]]]


def settle(node: ReplicaManager, shards: Coordinators, write_markers: WriteMarkers) -> None:
    """End what hangs, at an open after an unclean stop, or of folders from elsewhere.

    Raises DiskFull, DurabilityUnknown where known producer ids could not be reserved. What else keeps a transaction
    from being ended is logged, and is tried again where a coordinator knows of it.
    """
    seen = sightings(node)
    coordinators, all_are_there = _coordinators(shards)
    given = [one for _, machine in coordinators for one in machine.producer_ids()]
    node.changes.reserve_producer_ids(max([*seen, *given], default=-1) + 1)
    if node.has_adopted:
        return

    def may_lack(key: TopicPartition) -> bool:
        role = node.roles.held(*key)
        return not (isinstance(role, Leader) and role.has_followers)

    for shard, machine in coordinators:
        _hear(shard, machine, seen, may_lack)
        shards.note_due(shard)
    if all_are_there:
        claimed = {claim for _, machine in coordinators for claim in machine.claims()}
        for key, producer_id, entry in list(_producers(node)):
            if entry.current_txn_first_offset is not None and (producer_id, key) not in claimed:
                _abort(key, producer_id, entry, write_markers)


def sightings(node: ReplicaManager) -> dict[int, Sighting]:
    """What the partitions that this node alone has know of producers, by producer id."""
    seen: dict[int, Sighting] = {}
    for key, producer_id, entry in _producers(node):
        known = seen.get(producer_id, Sighting(-1, -1, {}))
        is_open = entry.current_txn_first_offset is not None
        seen[producer_id] = Sighting(
            max(known.epoch, entry.epoch),
            max(known.coordinator_epoch, entry.coordinator_epoch),
            {**known.open_in, key: entry.epoch} if is_open else known.open_in,
        )
    return seen


def _producers(node: ReplicaManager) -> Iterator[tuple[TopicPartition, int, ProducerEntry]]:
    for partition in node.kept():
        key = TopicPartition(partition.topic, partition.number)
        role = node.roles.held(*key)
        if isinstance(role, Leader) and not role.has_followers:
            for producer_id, entry in dict(partition.producers.entries()).items():
                yield key, producer_id, entry


def _coordinators(shards: Coordinators) -> tuple[list[tuple[CoordinatorHost, TransactionCoordinator]], bool]:
    """The coordinators that have ever written, and whether these are all: what one knows that cannot be read must not
    be taken for what none knows.
    """
    found, are_all = [], True
    for key in shards.written(TRANSACTIONS):
        try:
            shard = shards.at(key)
        except PylogError as error:
            logger.error("transactions that were left open cannot be ended: %s", error)
            are_all = False
            continue
        assert isinstance(shard.machine, TransactionCoordinator), "only these end transactions"
        found.append((shard, shard.machine))
    return found, are_all


def _hear(
    shard: CoordinatorHost, machine: TransactionCoordinator, seen: Mapping[int, Sighting],
    may_lack: Callable[[TopicPartition], bool],
) -> None:  # fmt: skip
    beyond = max((seen[one].coordinator_epoch for one in machine.producer_ids() if one in seen), default=-1)
    try:
        if beyond >= 0:
            shard.lead_from(beyond)
    except PylogError as error:
        logger.error("transactions that were left open cannot be ended now: %s", error)
    shard.hear_all(lambda now: machine.settle(seen, may_lack, now))


def _abort(key: TopicPartition, producer_id: int, entry: ProducerEntry, write_markers: WriteMarkers) -> None:
    name = f"{key.topic}-{key.partition}: the transaction of producer {producer_id}"
    logger.warning("%s from offset %s on is aborted: no coordinator knows of it", name, entry.current_txn_first_offset)
    error = write_markers(abort_of(producer_id, entry, key)).result()[key]
    if error is not None:
        logger.error("%s hangs: %s", name, error)
