"""The completion of the futures of a batch: as one, record by record, or when the last part of it has come.

Futures are answered, and callbacks run, without the producer's lock, in the thread that brings the answer.
"""

import logging
import threading
from collections.abc import Sequence

from pylog.client.in_flight_batch import InFlightBatch
from pylog.client.producer.failures import UnseenFailures
from pylog.client.record_append import Part, ProducerBatch
from pylog.errors import BatchRefused, InvalidRecord, RefusedWithBatch

logger = logging.getLogger("pylog.client")

_answering = threading.local()
"""How many callbacks of records a thread is in, of all producers: these share the threads that bring answers."""


def in_callback() -> bool:
    """Whether this thread is in a callback of a record."""
    return getattr(_answering, "depth", 0) > 0


def by_record(answer: Part, count: int) -> list[Part]:
    """The answer for `count` records, in parts where their batch was refused for some of them: these get the error, and
    the others one that says so (KIP-467; Kafka: Sender.completeBatch).
    """
    error = answer.error
    if not isinstance(error, BatchRefused):
        return [answer]
    reasons = {one.index: one for one in error.record_errors if 0 <= one.index < count}
    if not reasons:
        return [answer]
    kind = type(error) if len(error.record_errors) == 1 else InvalidRecord
    good = RefusedWithBatch(f"the record is good, and others of its batch are refused: send it again ({error})")
    parts: list[Part] = []
    for index in range(count):
        reason = reasons.get(index)
        if reason is not None:
            parts.append(Part(answer.first + index, error=kind(reason.message, [reason])))
        elif index == 0 or index - 1 in reasons:
            parts.append(Part(answer.first + index, error=good))
    return parts


class Completion:
    """Answers the futures of one producer. `transactional`: the end of a transaction tells of its failures."""

    def __init__(self, *, transactional: bool) -> None:
        self.failures = UnseenFailures()
        self._transactional = transactional

    def deliver(self, batch: InFlightBatch, base_offset: int, log_append_time: int | None) -> None:
        """Answer a batch that was sent as one and is delivered; `base_offset` is -1 where no node was asked."""
        producer_batch: ProducerBatch = batch.load.batch
        outer: int = getattr(_answering, "depth", 0)
        _answering.depth = outer + 1
        try:
            producer_batch.delivery.complete(base_offset, log_append_time)
        except (Exception, SystemExit):  # noqa: BLE001 - it is logged
            _log_callback(producer_batch)
        finally:
            _answering.depth = outer

    def answer(self, batch: ProducerBatch, answers: Sequence[Part]) -> None:
        """Answer a batch in parts, or as one where there is one answer."""
        self._note_failures(batch, answers)
        outer = getattr(_answering, "depth", 0)
        _answering.depth = outer + 1
        try:
            (only, *others) = answers
            if others:
                batch.delivery.complete_parts(list(answers))
            elif only.error is not None:
                batch.delivery.fail(only.error)
            else:
                batch.delivery.complete(only.base_offset, only.log_append_time)
        except (Exception, SystemExit):  # noqa: BLE001 - it is logged
            _log_callback(batch)
        finally:
            _answering.depth = outer

    def _note_failures(self, batch: ProducerBatch, answers: Sequence[Part]) -> None:
        """Count what has failed, before a caller can look at it."""
        if self._transactional:
            return
        for answer, end in zip(answers, [*(one.first for one in answers[1:]), batch.count], strict=True):
            if answer.error is not None:
                batch.delivery.failures = self.failures
                self.failures.add(answer.error, end - answer.first)


def _log_callback(batch: ProducerBatch) -> None:
    # A callback of the user's. It runs in the thread that brought the answer, which has others to bring (as in Kafka).
    logger.exception("a callback of a record of %s-%d raised", *batch.key, extra=batch.key._asdict())
