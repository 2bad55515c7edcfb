"""The calls of a producer that wait until a coordinator has answered: transactions, from `begin` to `commit`.

`transaction_manager` says which call is allowed, what is said and what an answer means; it is asked under the
producer's lock. Here the messages go out, in the caller's thread, again and again until one is answered or the time
is up.
(Kafka: KafkaProducer, TransactionManager.)
"""

import threading
from collections.abc import Mapping
from typing import Any

from pylog.client.in_flight_batch import ProducerEpoch
from pylog.client.producer.sender import BatchSender, in_callback, logger
from pylog.client.transaction_manager import TransactionManager, TransactionManagerState, named, unusable
from pylog.config import ProducerConfig
from pylog.errors import Closed, InvalidTxnState, PylogError, TransactionAborted
from pylog.protocol.messages import OffsetCommitPart, OffsetsCommitted, ProducerIdGiven, TxnEnded, TxnOffsetCommit
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, checked_positions
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WHOLE, wait_at, whole
from pylog.transport import Transport


class TransactionalSender(BatchSender):
    """A producer's transactions, and what they need of the rest of it."""

    def __init__(self, transport: Transport, node: int, config: ProducerConfig, clock: Clock, *, direct: bool) -> None:
        super().__init__(transport, node, config, clock, direct=direct)
        self._closed = False
        self._closer: int | None = None
        """The thread that closes it."""
        # Again and again in one thread: the handler of a signal may close the log that waits here.
        self._ending = threading.RLock()
        """Held by the one call that waits for a coordinator."""

    @whole
    def begin(self) -> None:
        """See `Producer.begin`."""
        with self._lock:
            self._check_usable()
            self._transactions("begin()").begin()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """See `Producer.send_offsets`."""
        parts = [
            OffsetCommitPart(*key, at.offset, at.leader_epoch, at.metadata)
            for key, at in checked_positions(offsets).items()
        ]
        whose = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        if not isinstance(whose, ConsumerGroupMetadata):
            raise TypeError(
                f"group is {type(group).__name__}: give what the consumer's group_metadata() gives, or a str"
            )
        self.refuse_inside("send_offsets")
        deadline = self._deadline(timeout)
        with self._ending:
            with self._lock:
                self._check_usable()
                transacting = self._transactions("send_offsets()")
                message = transacting.offsets(parts, whose) if parts else None
            try:
                self._send_offsets(transacting, message, deadline)
            except BaseException as error:
                # Some of them may be taken: with these alone the transaction would be another one than was meant.
                self._fail_transaction(error)
                raise

    @whole
    def _fail_transaction(self, error: BaseException) -> None:
        """Only to abort is left, also for who would send to a batch that is open."""
        with self._lock:
            self._transactions("send()").batch_failed(error)
            self._accumulator.hide()

    @property
    def is_undone(self) -> bool:
        """Whether a transaction is open whose end was not begun."""
        transacting = self._transacting
        return transacting is not None and transacting.state in (
            TransactionManagerState.IN_TRANSACTION,
            TransactionManagerState.ABORTABLE_ERROR,
        )

    def _send_offsets(self, transacting: TransactionManager, message: TxnOffsetCommit | None, deadline: int) -> None:
        attempts = 0
        while message is not None:
            answer = self._ask("group", message.group_id, message, deadline, "have offsets taken")
            if isinstance(answer, PylogError):
                answer = OffsetsCommitted({TopicPartition(p.topic, p.partition): answer for p in message.parts})
            with self._lock:
                message = transacting.offsets_answered(message, answer)
                transacting.check()
            if message is not None:
                attempts += 1
                self._pause(attempts, deadline, "have offsets taken", next(filter(None, answer.errors.values())))

    def _transactions(self, call: str) -> TransactionManager:
        if self._transacting is None:
            raise InvalidTxnState(f"{call} needs transactions: make the producer with transactional_id=...")
        return self._transacting

    def end_transaction(self, timeout: float | None, *, is_commit: bool) -> None:
        """See `Producer.commit` and `Producer.abort`."""
        what = "commit" if is_commit else "abort"
        self.refuse_inside(what)
        deadline = self._deadline(timeout)
        with self._ending, WHOLE:
            with self._lock:
                self._check_usable()
                transacting = self._transactions(f"{what}()")
            self._end_begun(transacting, deadline, is_commit=is_commit)

    @whole
    def _end_begun(self, transacting: TransactionManager, deadline: int, *, is_commit: bool) -> None:
        with self._lock:
            # Nothing joins an open batch from here on.
            self._accumulator.hide()
            lost = []
            if is_commit:
                transacting.commit()
            else:
                error = transacting.error or TransactionAborted("its transaction was aborted before it was sent")
                transacting.abort()
                lost = self._give_up(error)
        self._tell_failed(lost)
        self._flush(deadline, "end the transaction")
        with self._lock:
            transacting.check()
        self._converse(transacting, deadline, "end the transaction")

    def _converse(self, transacting: TransactionManager, deadline: int, what: str) -> None:
        """Say to the coordinator what there is to say, until it has answered."""
        attempts = 0
        while True:
            with self._lock:
                message = transacting.request()
                if message is None:
                    self._dispatch.identify(ProducerEpoch(transacting.producer_id, transacting.epoch))
                    return
            answer = self._ask("transaction", transacting.transactional_id, message, deadline, what)
            if isinstance(answer, PylogError):
                answer = (
                    TxnEnded(answer)
                    if transacting.state is not TransactionManagerState.UNINITIALIZED
                    else ProducerIdGiven(answer)
                )
            with self._lock:
                again = transacting.answered(answer)
                transacting.check()
            if again:
                attempts += 1
                self._pause(attempts, deadline, what, answer.error)

    def _ask(self, kind: Any, key: str, message: Any, deadline: int, what: str) -> Any:
        """The coordinator's answer, or the error that came in its place. Raises TimeoutError."""
        left = (deadline - self._clock.tick_ms()) / 1000
        try:
            return self._cluster.send(self._cluster.coordinator(kind, key), message).result(max(left, 0))
        except TimeoutError:
            raise TimeoutError(f"could not {what} in time: the coordinator of {key!r} has not answered") from None
        except PylogError as error:
            return error

    def _pause(self, attempts: int, deadline: int, what: str, error: BaseException | None) -> None:
        """Wait before something is asked again. Raises TimeoutError."""
        until = self._clock.tick_ms() + self._dispatch.backoff_ms(attempts)
        if until > deadline:
            raise TimeoutError(f"could not {what} in time: {named(error)}") from error
        with self._lock:
            while (left_ms := until - self._clock.tick_ms()) > 0:
                if self._is_over:
                    raise Closed(f"this producer was closed before it could {what}: nobody is there to answer")
                wait_at(self._freed, left_ms / 1000)

    def _abort_open(self, timeout: float | None) -> None:
        transacting = self._transacting
        if transacting is None or not self.is_undone:
            return
        try:
            with self._ending:
                self._end_begun(transacting, self._deadline(timeout), is_commit=False)
        except (PylogError, TimeoutError) as error:
            logger.warning(
                "transactional id %r: the open transaction was not aborted, its coordinator will do that (%s)",
                transacting.transactional_id, error,
            )  # fmt: skip

    # --- what such a call needs -------------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed("this producer is closed")
        if self._fatal is not None:
            raise unusable(self._fatal) from self._fatal

    def refuse_inside(self, what: str) -> None:
        """Raise RuntimeError where a call that waits would wait for its own thread: in a callback of a record, and in
        the handler of a signal that has interrupted a send.
        """
        if in_callback():
            raise RuntimeError(f"{what} in a callback of a record would wait for that callback to end: do it outside")
        if threading.get_ident() in list(self._shippers.values()):
            raise RuntimeError(
                f"{what} in the handler of a signal would wait for the send that the signal has interrupted: raise "
                "there, and do it behind the send"
            )

    def _deadline(self, timeout: float | None) -> int:
        seconds = self.config.max_block_ms / 1000 if timeout is None else timeout
        return self._clock.tick_ms() + round(min(seconds, threading.TIMEOUT_MAX) * 1000)

    @whole
    def _flush(self, deadline: int | None, what: str) -> None:
        start = self._clock.tick_ms()
        unanswered = self._accumulator.unanswered
        with self._lock:
            ready = self._accumulator.close_due()
            waiting = set(unanswered)
        for key in ready:
            self._ship(key)
        with self._lock:
            while waiting := waiting & unanswered:
                now = self._clock.tick_ms()
                left = None if deadline is None else (deadline - now) / 1000
                if left is not None and left <= 0:
                    waited = (now - start) / 1000
                    raise TimeoutError(
                        f"could not {what} in time: {len(waiting)} batches are not answered after {waited:g} s"
                    )
                wait_at(self._freed, left)
