"""After an unclean stop: what partitions have of the producers of a log, held against what the log has.

A `Sighting` has the facts about one producer in the partitions of a node. What is decided comes to its end first. Then:

    all that was written is there     a beginning was ahead of the log, and partitions have it: it goes on
    a power cut came in between       every transaction that may lack records is aborted
    either                            what partitions have of another epoch is aborted
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from pylog.coordinator.effects import NewProducerId
from pylog.coordinator.transaction import rules
from pylog.coordinator.transaction.rules import TransactionUpdate
from pylog.coordinator.transaction.state import CLIENT_VERSION, NO_PRODUCER_ID, Transaction, TransactionState
from pylog.coordinator.transaction.states import TransactionStates
from pylog.record import TopicPartition


class Sighting(NamedTuple):
    """The facts about one producer in the partitions of a node."""

    epoch: int
    """The highest that any of them knows."""
    coordinator_epoch: int
    """The same of its markers, or -1."""
    open_in: Mapping[TopicPartition, int]
    """Where a transaction of it is open, and in which epoch."""
    may_lack_records: bool = False
    """True where records of its transaction may be lost: a Produce in one is answered before they, and the beginning of
    the transaction, are durable.
    """


NOT_SEEN = Sighting(-1, -1, {})
"""No partition has the producer."""


class Settlement:
    """The transactional ids that wait for their abort. Not thread-safe."""

    def __init__(self, states: TransactionStates) -> None:
        self._states = states
        self._sightings: dict[str, Sighting] = {}
        self._has_all_written = False

    def begin(
        self, seen: Mapping[int, Sighting], may_lack: Callable[[TopicPartition], bool], *, has_all_written: bool,
        may_have_begun: bool,
    ) -> None:  # fmt: skip
        """Take over the facts in partitions, by producer id, and which of them may lack records, unless none does.

        `may_have_begun`: whether a transaction may have begun of which this log does not know.
        """
        self._sightings = {}
        self._has_all_written = has_all_written
        for name, known in self._states.items():
            sighting = seen.get(known.producer_id, NOT_SEEN)
            # Where none is open, one may have begun ahead of the log, and its records may be lost: a producer that has
            # outlived the stop must not go on with the rest of it.
            has_begun = may_have_begun and not known.state.is_open
            lacks = any(map(may_lack, known.partitions)) if known.partitions else has_begun
            lacks = lacks and not has_all_written
            if lacks or sighting is not NOT_SEEN:
                open_in = {key: epoch for key, epoch in sighting.open_in.items() if not _is_ending(known, key, epoch)}
                self._sightings[name] = sighting._replace(open_in=open_in, may_lack_records=lacks)

    def __contains__(self, name: str) -> bool:
        return name in self._sightings

    def __bool__(self) -> bool:
        return bool(self._sightings)

    def __iter__(self) -> Iterator[str]:
        """The ids, from a copy."""
        return iter(list(self._sightings))

    def claims(self) -> set[tuple[int, TopicPartition]]:
        """(producer id, partition) of the open transactions that will be ended."""
        claimed = set()
        for name, known in self._states.items():
            if known.state.is_open:
                claimed |= {(known.producer_id, key) for key in known.partitions}
            if name in self._sightings and known.next_producer_id == NO_PRODUCER_ID:
                claimed |= {(known.producer_id, key) for key in self._sightings[name].open_in}
        return claimed

    def step(self, name: str, new_producer_id: NewProducerId, wall_ms: int) -> TransactionUpdate | None:
        """The step that settles an id that is not decided; None: nothing hangs. Raises what `new_producer_id` does."""
        known = self._states.get(name)
        seen, step = self._sightings[name], None
        if known is not None and self._has_all_written:
            step = resumed(known, seen, wall_ms)
        if known is not None and step is None:
            step = overtaken(known, seen, new_producer_id, wall_ms)
        if step is None:
            self.settled(name)
        return step

    def settled(self, name: str) -> None:
        """Note that nothing of an id hangs any more."""
        del self._sightings[name]


def _is_ending(known: Transaction, key: TopicPartition, epoch: int) -> bool:
    """True if what a partition has open in this epoch is ended by markers that are still to be written."""
    is_before = epoch < known.producer_epoch or known.client_version < CLIENT_VERSION
    return known.state.is_prepared and key in known.partitions and is_before


def _strange(known: Transaction, seen: Sighting) -> tuple[TopicPartition, ...]:
    """The partitions that have a transaction open of which this log does not know, or knows as over."""
    open_now = set(known.partitions) if known.state is TransactionState.ONGOING else set()
    return tuple(
        sorted(key for key, epoch in seen.open_in.items() if key not in open_now or epoch != known.producer_epoch)
    )


def resumed(known: Transaction, seen: Sighting, wall_ms: int) -> TransactionUpdate | None:
    """Let partitions that have joined ahead of the log be in it. None: no partition has joined, or one has another
    epoch.
    """
    strange = _strange(known, seen)
    if not strange or any(seen.open_in[key] != known.producer_epoch for key in strange):
        return None
    return TransactionUpdate((known.joined(strange, wall_ms),))


def overtaken(
    known: Transaction, seen: Sighting, new_producer_id: NewProducerId, wall_ms: int
) -> TransactionUpdate | None:
    """Abort what its partitions have of a producer and this log has not, or has as over: after a crash, partitions may
    be newer than the log of their coordinator, or older. Abort a transaction that may lack records, too.

    The next epoch is beyond all that they have seen. None: they agree. Not for a transaction that is decided.
    """
    strange = _strange(known, seen)
    if not strange and not seen.may_lack_records and seen.epoch <= known.producer_epoch:
        return None
    newest = known._replace(producer_epoch=max(known.producer_epoch, seen.epoch))
    return rules.fence(newest.joined(strange, wall_ms) if strange else newest, new_producer_id, wall_ms)
