"""Transactions that are being verified: somebody asks their coordinator whether they have this partition.

Between the question and the append the transaction may end; without a guard the late append would open it again, and
nobody would ever end it (KAFKA-14402). So the first batch of a transaction has to show the guard that its question was
given, and every transactional batch or marker of the producer that gets into the log ends the guard, but not the late
marker of the transaction before.

While a question is open, the lowest sequence that was asked for goes first: were a later one written, the lower one
could never follow it (KAFKA-14920). (VerificationStateEntry, VerificationGuard; KIP-890, part 1.)
"""

from dataclasses import dataclass

from pylog.errors import OutOfOrderSequence
from pylog.kernel.format import NO_EPOCH
from pylog.storage.producer_state.state import ProducerEntry


@dataclass(eq=False, slots=True)
class Verification:
    """One open question. The object is the guard: it is known by its identity."""

    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    """The client speaks transaction version 2: a producer that is not known begins with sequence 0."""
    asked_ms: int


class Verifications:
    """The open questions of a partition, at most one a producer. `name` is for messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.open: dict[int, Verification] = {}
        """By producer id."""

    def start(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification:  # fmt: skip
        """The guard for a producer's question: the one that is open, or a new one."""
        found = self.open.get(producer_id)
        if found is None:
            found = self.open[producer_id] = Verification(sequence, epoch, supports_epoch_bump, now_ms)
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self.open

    def holds(self, producer_id: int, guard: Verification | None) -> bool:
        """Whether `guard` is the one of the producer's open question."""
        return guard is not None and self.open.get(producer_id) is guard

    def check_sequence(self, producer_id: int, known: ProducerEntry, sequence: int) -> None:
        """Raise OutOfOrderSequence for a batch that may not be the next while the producer's question is open."""
        found = self.open.get(producer_id)
        if found is None:
            return
        if found.supports_epoch_bump and sequence != 0 and not known.batches:
            raise OutOfOrderSequence(
                f"{self._name}: producer {producer_id} sent sequence {sequence}, and has to begin with 0: "
                "nothing is known of it here (KIP-890)"
            )
        if sequence > found.lowest_sequence:
            raise OutOfOrderSequence(
                f"{self._name}: producer {producer_id} sent sequence {sequence}, "
                f"and {found.lowest_sequence} is still being verified"
            )

    def end(self, producer_id: int, marker_epoch: int = NO_EPOCH) -> None:
        """The producer's transaction is known to be open, or a marker of this epoch says that it is over.

        In transaction version 2 a marker has the epoch of the next transaction: it ends the one before that, and the
        question of the next goes on (UnifiedLog.updateProducers).
        """
        found = self.open.get(producer_id)
        if found is None or (found.supports_epoch_bump and found.epoch == marker_epoch):
            return
        del self.open[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop the questions that were asked so long ago: they were given up."""
        for producer_id, found in list(self.open.items()):
            if now_ms - found.asked_ms >= expiration_ms:
                del self.open[producer_id]
