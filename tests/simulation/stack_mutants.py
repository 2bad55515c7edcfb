"""Faults planted in the whole log, each of which its simulation has to find: else it proves nothing.

The numbers are those of the bugs that others had, in the order of the project's list; 0: not on it. Those that take a
rare meeting of events are not here. 60 (a fetch that has waited knows of no abort) is found by one seed in a hundred or
so; 63 and 64 (numbers of a producer) by many, and sooner by the simulation of a dispatch alone, as is 70, for which a
batch has to be in doubt behind one that failed. 74 (an old answer counts after a move) is for the tests of a consumer:
who seeks back was given before what it would skip then, so nobody misses it. That who was thrown out of a group passes
for nobody (72 in another form) is found by one seed in three hundred, and by a test of groups.
"""

from typing import Any

from pylog.broker.coordinator_host import CoordinatorHost, append_marker
from pylog.broker.guarantees import Guarantees
from pylog.client.transaction_manager import TransactionManager
from pylog.coordinator.group.offset_commit import Committing
from pylog.protocol.isolation import VisibleBatches

from .transaction_mutants import Mutant

_gives = VisibleBatches.gives


def _gives_nothing_after_an_abort(delivery: VisibleBatches, batch: Any) -> bool:
    aborting = set(delivery._aborting)
    gives = _gives(delivery, batch)
    delivery._aborting |= aborting
    return gives and not (batch.is_transactional and batch.producer_id in delivery._aborting)


def _marker_unheard(shard: Any, markers: Any) -> Any:
    with shard._lock:
        shard._writer()
        return append_marker(shard.leader, markers, shard._clock.wall_ms())


MUTANTS = [
    Mutant(65, "a transaction is committed without what has failed", TransactionManager, "batch_failed",
           lambda *_: None),
    Mutant(66, "an abort goes on behind its marker", VisibleBatches, "gives", _gives_nothing_after_an_abort),
    Mutant(68, "a marker is written, and the offsets are not there", CoordinatorHost, "append_marker", _marker_unheard),
    Mutant(72, "anybody commits for a group", Committing, "_checked", lambda committing, message: None),
    Mutant(0, "what coordinators say is not durable", Guarantees, "_sync", lambda *_: None),
]  # fmt: skip
