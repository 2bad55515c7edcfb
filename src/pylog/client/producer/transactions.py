"""The calls of a producer that wait until a coordinator has answered: transactions, from `begin` to `commit`.

`transaction_manager` says which call is allowed, what is said and what an answer means; it is asked under the
producer's lock. Here the messages go out, in the caller's thread, again and again until one is answered or the time
is up.
(Kafka: KafkaProducer, TransactionManager.)
"""

import threading
from collections.abc import Mapping
from typing import Any, Literal

from pylog.client.accumulator import Accumulator
from pylog.client.cluster import Cluster
from pylog.client.in_flight_batch import ProducerEpoch
from pylog.client.producer.completion import in_callback, logger
from pylog.client.producer.lifetime import Lifetime
from pylog.client.producer.sender import Sender
from pylog.client.transaction_manager import TransactionManager, TransactionManagerState, named
from pylog.errors import Closed, InvalidTxnState, PylogError, TransactionAborted
from pylog.protocol.messages import Message
from pylog.protocol.messages.offsets import TxnOffsetCommitRequest
from pylog.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, checked_positions
from pylog.runtime.signals import WHOLE, whole


class Transactions:
    """The transactions of one producer: `manager` decides, None where it has no transactional id."""

    def __init__(
        self, manager: TransactionManager | None, cluster: Cluster, lifetime: Lifetime, accumulator: Accumulator,
        sender: Sender,
    ) -> None:  # fmt: skip
        self._manager = manager
        self._cluster = cluster
        self._lifetime = lifetime
        self._accumulator = accumulator
        self._sender = sender
        self._make_lock()

    def _make_lock(self) -> None:
        # Again and again in one thread: the handler of a signal may close the log that waits here.
        self._ending = threading.RLock()
        """Held by the one call that waits for a coordinator."""

    def abandon(self) -> None:
        """Forget the lock in a forked child: a thread that does not exist here may hold it."""
        self._make_lock()

    def initialise(self) -> None:
        """With a transactional id, take it up. Raises what `Producer()` does, and TimeoutError."""
        if self._manager is not None:
            try:
                self._converse(self._manager, self._lifetime.deadline(None), "be initialised")
            except PylogError as error:
                # There is no producer yet that could be closed.
                raise self._manager.error or error from None

    def begin(self) -> None:
        """See `Producer.begin`."""
        with self._lifetime.lock:
            self._lifetime.check_usable()
            self._checked("begin()").begin()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """See `Producer.send_offsets`."""
        wanted = checked_positions(offsets)
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        if not isinstance(metadata, ConsumerGroupMetadata):
            raise TypeError(
                f"group is {type(group).__name__}: give what the consumer's group_metadata() gives, or a str"
            )
        refuse_inside(self._sender, "send_offsets")
        deadline = self._lifetime.deadline(timeout)
        with self._ending:
            with self._lifetime.lock:
                self._lifetime.check_usable()
                manager = self._checked("send_offsets()")
                message = manager.offsets(wanted, metadata) if wanted else None
            try:
                self._send_offsets(manager, message, deadline)
            except BaseException as error:
                # Some of them may be taken: with these alone the transaction would be another one than was meant.
                self._fail_transaction(error)
                raise

    def fail_open(self, error: BaseException) -> None:
        """Fail the transaction if one is open: a record of it was refused."""
        if self._manager is not None and self._manager.state is TransactionManagerState.IN_TRANSACTION:
            self._fail_transaction(error)

    @whole
    def _fail_transaction(self, error: BaseException) -> None:
        """Leave nothing but an abort, also for a thread that would send to an open batch."""
        with self._lifetime.lock:
            self._checked("send()").batch_failed(error)
            self._accumulator.hide()

    @property
    def is_undone(self) -> bool:
        """True while a transaction is open and its end has not begun."""
        manager = self._manager
        return manager is not None and manager.state in (
            TransactionManagerState.IN_TRANSACTION,
            TransactionManagerState.ABORTABLE_ERROR,
        )

    def _send_offsets(self, manager: TransactionManager, message: TxnOffsetCommitRequest | None, deadline: int) -> None:
        attempts = 0
        while message is not None:
            answer = self._ask("group", message.group_id, message, deadline, "have offsets taken")
            if isinstance(answer, PylogError):
                answer = message.refused(answer)
            reason = message.first_error(answer)
            with self._lifetime.lock:
                message = manager.offsets_answered(message, answer)
                manager.check()
            if message is not None:
                assert reason is not None, "it is sent again because of an error"
                attempts += 1
                self._pause(attempts, deadline, "have offsets taken", reason)

    def _checked(self, call: str) -> TransactionManager:
        if self._manager is None:
            raise InvalidTxnState(f"{call} needs transactions: make the producer with transactional_id=...")
        return self._manager

    def end_transaction(self, timeout: float | None, *, is_commit: bool) -> None:
        """See `Producer.commit` and `Producer.abort`."""
        what = "commit" if is_commit else "abort"
        refuse_inside(self._sender, what)
        deadline = self._lifetime.deadline(timeout)
        with self._ending, WHOLE:
            self._lifetime.check_usable()
            manager = self._checked(f"{what}()")
            self._end_begun(manager, deadline, is_commit=is_commit)

    def _end_begun(self, manager: TransactionManager, deadline: int, *, is_commit: bool) -> None:
        """In a WHOLE block, with `_ending` held: end the transaction."""
        with self._lifetime.lock:
            # Nothing joins an open batch from here on.
            self._accumulator.hide()
            lost = []
            if is_commit:
                manager.commit()
            else:
                error = manager.error or TransactionAborted("its transaction was aborted before it was sent")
                manager.abort()
                lost = self._sender.answers.give_up(error)
        if lost:
            self._sender.answers.fail(lost)
        self._sender.flush(deadline, "end the transaction")
        self._converse(manager, deadline, "end the transaction")

    def _converse(self, manager: TransactionManager, deadline: int, what: str) -> None:
        """Say to the coordinator what there is to say, until it has answered."""
        attempts = 0
        with self._lifetime.lock:
            message = self._to_say(manager)
        while message is not None:
            answer = self._ask("transaction", manager.transactional_id, message, deadline, what)
            if isinstance(answer, PylogError):
                answer = message.refused(answer)
            with self._lifetime.lock:
                again = manager.answered(answer)
                message = self._to_say(manager)
            if again:
                attempts += 1
                self._pause(attempts, deadline, what, answer.error)

    def _to_say(self, manager: TransactionManager) -> InitProducerIdRequest | EndTxnRequest | None:
        """With the lock held: the message to the coordinator; None: batches are numbered by what it has given."""
        manager.check()
        message = manager.request()
        if message is None:
            self._sender.identify(ProducerEpoch(manager.producer_id, manager.epoch))
        return message

    def _ask(self, kind: Literal["group", "transaction"], key: str, message: Message, deadline: int, what: str) -> Any:
        """The coordinator's answer, or the error that came in its place. Raises TimeoutError."""
        left = (deadline - self._lifetime.clock.tick_ms()) / 1000
        try:
            return self._cluster.send(self._cluster.coordinator(kind, key), message).result(max(left, 0))
        except TimeoutError:
            raise TimeoutError(
                f"could not {what} in time: the coordinator of {key!r} has not answered ({self._cluster.who} was asked)"
            ) from None
        except PylogError as error:
            return error

    def _pause(self, attempts: int, deadline: int, what: str, error: BaseException | None) -> None:
        """Wait before something is asked again. Raises TimeoutError."""
        until = self._lifetime.clock.tick_ms() + self._sender.backoff_ms(attempts)
        if until > deadline:
            raise TimeoutError(f"could not {what} in time: {named(error)}") from error
        with self._lifetime.lock:
            while (left_ms := until - self._lifetime.clock.tick_ms()) > 0:
                if self._lifetime.is_over:
                    raise Closed(f"this producer was closed before it could {what}: no answer comes any more")
                self._lifetime.wait(left_ms / 1000)

    def abort_open(self, timeout: float | None) -> None:
        """Abort a transaction that is open: the producer closes."""
        manager = self._manager
        if manager is None or not self.is_undone:
            return
        try:
            with self._ending, WHOLE:
                self._end_begun(manager, self._lifetime.deadline(timeout), is_commit=False)
        except (PylogError, TimeoutError) as error:
            logger.warning(
                "transactional id %r: the open transaction was not aborted, its coordinator will do that (%s)",
                manager.transactional_id, error, extra={"transactional_id": manager.transactional_id},
            )  # fmt: skip


def refuse_inside(sender: Sender, what: str) -> None:
    """Raise RuntimeError where a call that waits would wait for its own thread: in a callback of a record, and in the
    handler of a signal that has interrupted a send.
    """
    if in_callback():
        raise RuntimeError(f"{what} in a callback of a record would wait for that callback to end: do it outside")
    if sender.is_shipping_here:
        raise RuntimeError(
            f"{what} in the handler of a signal would wait for the send that the signal has interrupted: raise "
            "there, and do it behind the send"
        )
