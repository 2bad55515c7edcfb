"""The consequences of the answer to a batch: its futures, the room in the buffer, its parts, the failures of others.

    deliver    the usual answer: the batch is there
    conclude   any other, as `in_flight` judges it
    give_up    takes back what nothing will answer; `fail` is owed to it
    fail       answers what has failed

Nothing is sent here: the sender looks at what may go next.
"""

from collections.abc import Iterable, Sequence

from pylog.client.accumulator import Accumulator
from pylog.client.cluster import Cluster, sole
from pylog.client.in_flight import InFlight
from pylog.client.in_flight_batch import BatchOutcome, InFlightBatch
from pylog.client.producer.completion import Completion, by_record
from pylog.client.producer.lifetime import Lifetime
from pylog.client.producer.load import Load, Sealer
from pylog.client.record_append import Part, ProducerBatch
from pylog.client.transaction_manager import TransactionManager
from pylog.errors import PylogError, UnknownTopicOrPartition
from pylog.protocol.messages import ProducedPart, ProduceResponse
from pylog.runtime.future import Future
from pylog.runtime.signals import FIRM


class Answers:
    """Does what follows from the answers of one producer's batches. Thread-safe."""

    def __init__(
        self, cluster: Cluster, accumulator: Accumulator, in_flight: InFlight, sealer: Sealer, lifetime: Lifetime,
        transaction_manager: TransactionManager | None,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._accumulator = accumulator
        self._in_flight = in_flight
        self._sealer = sealer
        self._lifetime = lifetime
        self._transaction_manager = transaction_manager
        self._completion = Completion(transactional=transaction_manager is not None)
        self.failures = self._completion.failures

    def deliver(self, batch: InFlightBatch, answer: Future[ProduceResponse]) -> bool:
        """Do what follows from the usual answer; False where it is another one: then nothing was done."""
        if batch.load.parts is not None:
            return False
        try:
            (topic,) = answer.result().responses
            (part,) = topic.partition_responses
        except BaseException:  # noqa: BLE001 - `conclude` looks at it
            return False
        lifetime = self._lifetime
        with lifetime.lock.inner:
            if part.error is not None or not self._in_flight.delivered(batch):
                return False
        time = part.log_append_time_ms
        self._completion.deliver(batch, part.base_offset, None if time < 0 else time)
        with lifetime.lock.inner:
            self._accumulator.release(batch.load.batch)
            if lifetime.waiting:
                lifetime.note_change()
        return True

    def conclude(self, batch: InFlightBatch, answer: Future[ProduceResponse]) -> BatchOutcome:
        """In a FIRM block: do what follows from an answer; gives what it means for the batch."""
        part: ProducedPart | None
        error: BaseException | None
        try:
            part = sole(answer.result().parts, f"{batch.key.topic}-{batch.key.partition}")
            error = part.error
        except BaseException as failure:  # noqa: BLE001 - it is for the futures
            part, error = None, failure
        if isinstance(error, PylogError):
            self._cluster.heard(batch.key, error)
        # The list of topics says itself that there is none such: that is no passing trouble of a node.
        final = part is None and isinstance(error, UnknownTopicOrPartition)
        now = self._lifetime.clock.tick_ms() if error is not None else 0
        with self._lifetime.lock.inner:
            outcome = self._in_flight.answered(batch, error, now, final=final)
        if outcome is BatchOutcome.DELIVERED:
            first = batch.load.first
            # A duplicate is delivered, too: where it lies is not known.
            if part is None or error is not None:
                self._answer(batch, Part(first))
            else:
                self._answer(batch, Part(first, part.base_offset, part.log_append_time))
        elif outcome is BatchOutcome.SPLIT:
            half, loads = self._sealer.halves(batch)
            with self._lifetime.lock:
                self._in_flight.split(batch, half, loads)
        if self._in_flight.has_failed:
            self.fail()
        return outcome

    def fail(self, also: Iterable[InFlightBatch] = ()) -> None:
        """Answer the futures of what has failed, and of `also`. A transaction that it belonged to has failed then, and
        with it everything that waits.
        """
        manager = self._transaction_manager
        with self._lifetime.lock:
            lost = [*self._in_flight.failed(), *also]
            if lost and manager is not None:
                manager.batch_failed(lost[0].error or PylogError("a batch failed"))
                if manager.error is not None:
                    lost += self.give_up(manager.error)
        for batch in lost:
            with FIRM:
                self._answer(batch, Part(batch.load.first, error=batch.error))

    def give_up(self, error: BaseException, *, in_flight: bool = False) -> list[InFlightBatch]:
        """With the lock held: take back what was not sent, and what is `in_flight`, if so wanted; `fail` is owed."""
        self._accumulator.hide()
        queued = [unsent(batch, error) for batch in self._accumulator.drop()]
        self._in_flight.give_up(error, in_flight=in_flight)
        return self._in_flight.failed() + queued

    def _answer(self, batch: InFlightBatch, answer: Part) -> None:
        """In a FIRM block: answer the futures of a batch; those of a batch in parts when this is the last of them."""
        whole_batch, parts = batch.load.batch, batch.load.parts
        answers: Sequence[Part] = [answer]
        if answer.error is not None:
            answers = by_record(answer, batch.count)
            self._in_flight.counts[batch.key].errors += batch.count
        if parts is not None:
            with self._lifetime.lock:
                if not parts.add(batch.count, list(answers)):
                    return
            answers = sorted(parts.answers, key=lambda one: one.first)
        try:
            self._completion.answer(whole_batch, answers)
        finally:
            with self._lifetime.lock.inner:
                self._accumulator.release(whole_batch)
                self._lifetime.note_change()


def unsent(batch: ProducerBatch, error: BaseException) -> InFlightBatch:
    """A batch that is given up before it was sent."""
    given_up = InFlightBatch(batch.key, Load(batch), batch.count, batch.due_ms)
    given_up.error = error
    return given_up
