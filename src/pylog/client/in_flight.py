"""The fate of batches between queue and answer: which may go, their numbers, and the meaning of errors.

    queue -> take -> answered -> delivered | failed | again, after a while | split

A machine: events and the time in ticks go in, instructions come out; no thread, clock or socket. The batches of a
partition are in a lane, in order. Invariants of a lane:

- At most so many are in flight as may be. While one waits to be sent again, nothing newer goes; it goes when all before
  it are answered. With idempotence the order is kept whatever happens to requests and answers; for that a lane that
  begins sends its first batch alone, as a node takes any number from a producer that it does not know.
- A batch is closed when it is taken, and gets the next number of its lane, under the lane's producer id and epoch. A
  batch that is sent again bears the same number, unless the lane begins again.
- A batch that got a number and failed leaves a gap, for which the node would refuse all that come after it. While
  there is a gap, nothing new goes. A batch behind it that the node took closes it: then the node had what failed.
  Otherwise, when nothing is in flight and each that the node may have was tried, the lane begins again at 0 in the next
  epoch, and what waits is numbered again (KIP-360). A producer with transactions does that when its transaction ends.
- A batch that the node may have is never sent under another number: it fails where its lane begins again. (Kafka sends
  it, and it is there twice where the node has it and has forgotten so: after a restart a node has the last batch of
  each producer alone.)
- Lanes that have nothing to do with a gap stay in their epoch as long as something of theirs is not answered, and
  begin again in the present one with their next batch (KAFKA-12152). A lane is never forgotten, also when its topic
  seems gone.

A transport answers everything in the end, if only with RequestTimedOut, and what was sent does not arrive after that.
(Kafka: Sender, TransactionManager, TxnPartitionMap.)
"""

from collections import defaultdict

from pylog.client.in_flight_batch import SEQUENCE_MASK, BatchOutcome, InFlightBatch, ProducerEpoch, SendCounts
from pylog.client.lane import Lane
from pylog.errors import (
    DuplicateSequence,
    LeaderNotAvailable,
    NotEnoughReplicas,
    OutOfOrderSequence,
    PartitionFull,
    ProtocolError,
    RecordTooLarge,
    RequestTimedOut,
    UnknownProducerId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import ProduceResponse
from pylog.record import TopicPartition
from pylog.runtime.future import Future

EPOCH_MAX = (1 << 15) - 1
NOT_THERE = (
    OutOfOrderSequence, UnknownProducerId, UnknownTopicId, UnknownTopicOrPartition, LeaderNotAvailable,
    NotEnoughReplicas, RecordTooLarge,
)  # fmt: skip
"""After these a node has nothing of what was sent. After others it may have."""


class InFlight:
    """The lanes of one producer. Not thread-safe. `transactional`: a coordinator gives the producer id."""

    def __init__(
        self, *, idempotent: bool, transactional: bool = False, in_flight_max: int = 5, retries: int = SEQUENCE_MASK,
        backoff_ms: int = 100, backoff_max_ms: int = 1000,
    ) -> None:  # fmt: skip
        self.idempotent = idempotent
        self.producer: ProducerEpoch | None = None
        """The producer id and epoch of lanes that begin now; None while they are not known."""
        self._transactional = transactional
        self._in_flight_max = in_flight_max
        self._retries = retries
        self._backoff = (backoff_ms, backoff_max_ms)
        self._lanes: dict[TopicPartition, Lane] = {}
        self.busy: dict[TopicPartition, Lane] = {}
        """The lanes of which something is in flight, or waits to be sent again."""
        self.counts: defaultdict[TopicPartition, SendCounts] = defaultdict(SendCounts)
        self.has_failed = False
        """True while `failed` has something to give."""
        self._failed: list[InFlightBatch] = []
        self._expiry_ms: int | None = None
        self._asked = False
        self._ask_attempts = 0
        self._ask_at_ms = 0

    # --- the producer id -------------------------------------------------------------------------------------------

    @property
    def lacks_id(self) -> bool:
        """Whether a producer id is missing that has not been asked for: nothing can be sent before."""
        return self.idempotent and self.producer is None and not self._transactional and not self._asked

    def ask_id(self, tick_ms: int) -> bool:
        """Whether to ask for a producer id now; then the answer is owed to `identify` or `id_refused`."""
        self._asked = self.lacks_id and tick_ms >= self._ask_at_ms
        return self._asked

    def identify(self, producer: ProducerEpoch) -> None:
        """Number lanes that begin from now on by `producer`."""
        self.producer = producer
        self._asked, self._ask_attempts = False, 0
        for lane in self._lanes.values():
            self._resolve(lane)

    def id_refused(self, error: BaseException, tick_ms: int) -> bool:
        """There is no producer id now; gives whether to ask again, after a while."""
        self._asked = False
        self._ask_attempts += 1
        self._ask_at_ms = tick_ms + self.backoff_ms(self._ask_attempts)
        return may_pass(error)

    # --- sending ---------------------------------------------------------------------------------------------------

    def may_take(self, key: TopicPartition) -> bool | None:
        """Whether a batch that was never sent may go; None: no, as one waits to be sent again."""
        if self.idempotent and self.producer is None:
            return False
        lane = self._lanes.get(key)
        if lane is None:
            return True
        if lane.unanswered and not lane.in_flight:
            return None
        stale = self.idempotent and lane.producer != self.producer
        if not lane.unanswered and not lane.in_flight:
            return stale or lane.gap is None
        most = self._in_flight_max if lane.acked or not self.idempotent else 1
        return not stale and lane.gap is None and lane.in_flight == len(lane.unanswered) < most

    def oldest_answer(self, key: TopicPartition) -> Future[ProduceResponse] | None:
        """The answer that the oldest batch of a partition waits for, if it is awaited."""
        lane = self.busy.get(key)
        return lane.unanswered[0].answer if lane is not None and lane.unanswered else None

    def take(self, batch: InFlightBatch) -> None:
        """Number a batch that leaves its queue: it is in flight now."""
        lane = self._lanes.get(batch.key)
        if lane is None:
            lane = self._lanes[batch.key] = Lane(self.counts[batch.key])
        batch.counts = lane.counts
        if self.idempotent and not lane.unanswered and lane.producer != self.producer:
            lane.begin(self._present)
        if self.idempotent:
            batch.producer, batch.position = lane.producer, lane.next
            lane.next += batch.count
        batch.in_flight = True
        batch.was_first = not lane.unanswered
        lane.in_flight += 1
        lane.unanswered.append(batch)
        self.busy[batch.key] = lane
        if self._expiry_ms is None or batch.deadline_ms < self._expiry_ms:
            self._expiry_ms = batch.deadline_ms

    def next_again(self, key: TopicPartition, tick_ms: int, *, peek: bool = False) -> InFlightBatch | None:
        """The batch that is to be sent again now, which is in flight then (not if `peek`), or None."""
        lane = self.busy.get(key)
        if lane is None or lane.in_flight or not lane.unanswered or (self.idempotent and self.producer is None):
            return None
        batch = lane.to_send_again
        if batch.not_before_ms > tick_ms:
            return None
        if not peek:
            self._send(lane, batch)
        return batch

    @staticmethod
    def _send(lane: Lane, batch: InFlightBatch) -> None:
        batch.in_flight = True
        batch.was_first = lane.unanswered[0] is batch
        lane.in_flight += 1

    # --- answers ---------------------------------------------------------------------------------------------------

    def answered(
        self, batch: InFlightBatch, error: BaseException | None, tick_ms: int, *, final: bool = False
    ) -> BatchOutcome:  # fmt: skip
        """The meaning of an answer; `final`: whatever error it is, sending it again would not help."""
        if error is None and self.delivered(batch):
            return BatchOutcome.DELIVERED
        lane = self._lanes[batch.key]
        verdict = self._judge(batch, error, tick_ms, final=final)
        if verdict is BatchOutcome.SPLIT:
            return verdict
        batch.in_flight = False
        lane.in_flight -= 1
        if (error is None or verdict is BatchOutcome.DELIVERED) and batch.position >= 0:
            lane.acked = max(lane.acked, batch.position + batch.count)
        if verdict is BatchOutcome.DELIVERED:
            lane.unanswered.remove(batch)
        elif verdict is BatchOutcome.FAILED and error is not None:
            self._drop(lane, batch, error)
        elif verdict is BatchOutcome.AGAIN:
            batch.attempts += 1
            batch.refusal = error
            lane.counts.retries += batch.count
            batch.not_before_ms = tick_ms + self.backoff_ms(batch.attempts)
        self._resolve(lane)
        if not lane.unanswered and not lane.in_flight:
            self.busy.pop(batch.key, None)
        return verdict

    def delivered(self, batch: InFlightBatch) -> bool:
        """Take over the usual answer, a good one; False where something is left to be judged: then nothing was done."""
        lane = self._lanes[batch.key]
        if batch.error is not None or lane.gap is not None:
            return False
        batch.in_flight = False
        lane.in_flight -= 1
        lane.unanswered.remove(batch)
        end = batch.position + batch.count
        if batch.position >= 0 and end > lane.acked:
            lane.acked = end
        if not lane.unanswered and not lane.in_flight:
            del self.busy[batch.key]
        return True

    def failed(self) -> list[InFlightBatch]:
        """Give up the batches that have failed since the last call, each with its error."""
        failed, self._failed, self.has_failed = self._failed, [], False
        return failed

    def _judge(self, batch: InFlightBatch, error: BaseException | None, tick_ms: int, *, final: bool) -> BatchOutcome:
        if batch.error is not None:
            return BatchOutcome.LATE
        if error is None or isinstance(error, DuplicateSequence) or self._was_taken(batch, error):
            return BatchOutcome.DELIVERED
        batch.untold = not final and not isinstance(error, NOT_THERE)
        batch.doubtful |= batch.untold
        if isinstance(error, RecordTooLarge) and batch.count > 1:
            return BatchOutcome.SPLIT
        if final or batch.attempts >= self._retries or tick_ms >= batch.deadline_ms:
            return BatchOutcome.FAILED
        if self.idempotent and isinstance(error, OutOfOrderSequence | UnknownProducerId):
            return self._judge_order(batch)
        return BatchOutcome.AGAIN if may_pass(error) else BatchOutcome.FAILED

    def _was_taken(self, batch: InFlightBatch, error: BaseException) -> bool:
        """Whether the node has forgotten a batch that it has: it has taken one behind it, and takes them in order."""
        is_behind = batch.position + batch.count <= self._lanes[batch.key].acked
        return self.idempotent and is_behind and isinstance(error, OutOfOrderSequence)

    def _judge_order(self, batch: InFlightBatch) -> BatchOutcome:
        if batch.was_first:
            if self._transactional:
                return BatchOutcome.FAILED
            # All before it were taken or have failed, and the node is waiting for something else.
            self._lanes[batch.key].leave_gap(batch)
        return BatchOutcome.AGAIN

    def split(self, batch: InFlightBatch, first: int, loads: tuple[object, object]) -> None:
        """Two take the place and the numbers of one that was too large, the first of them with `first` records; not
        where it has failed meanwhile.
        """
        lane = self._lanes[batch.key]
        lane.in_flight -= 1
        if batch.error is None:
            at = lane.unanswered.index(batch)
            lane.unanswered[at : at + 1] = self._parts(batch, first, loads)
            batch.error = RecordTooLarge("it was split")
        self._resolve(lane)

    @staticmethod
    def _parts(batch: InFlightBatch, first: int, loads: tuple[object, object]) -> list[InFlightBatch]:
        counts = first, batch.count - first
        parts = [
            InFlightBatch(batch.key, load, count, batch.deadline_ms) for load, count in zip(loads, counts, strict=True)
        ]
        for part, before in zip(parts, (0, first), strict=True):
            part.producer = batch.producer
            part.counts = batch.counts
            part.doubtful = batch.doubtful
            part.position = batch.position + before if batch.position >= 0 else -1
        return parts

    def _drop(self, lane: Lane, batch: InFlightBatch, error: BaseException) -> None:
        batch.error = error
        self._failed.append(batch)
        self.has_failed = True
        lane.unanswered.remove(batch)
        if self.idempotent:
            lane.leave_gap(batch)

    def _resolve(self, lane: Lane) -> None:
        """Close the gap of a lane, if there is one and nothing in flight can say more of it."""
        if lane.in_flight or lane.gap is None or self._transactional or self.producer is None:
            return
        if lane.acked >= lane.gap:
            lane.gap = None
        elif not any(batch.untold for batch in lane.unanswered):
            self._begin_anew(lane)

    def _begin_anew(self, lane: Lane) -> None:
        for batch in [batch for batch in lane.unanswered if batch.doubtful]:
            self._drop(lane, batch, in_doubt(batch.key))
        if lane.producer == self.producer:
            producer_id, epoch = self.producer
            self.producer = ProducerEpoch(producer_id, epoch + 1) if epoch < EPOCH_MAX else None
        if self.producer is not None:
            lane.begin(self.producer)
            for batch in lane.unanswered:
                lane.number(batch)

    @property
    def _present(self) -> ProducerEpoch:
        assert self.producer is not None, "a batch is sent under a producer id"
        return self.producer

    # --- time, and the end -----------------------------------------------------------------------------------------

    def backoff_ms(self, attempts: int) -> int:
        """The time to wait after so many attempts."""
        first, most = self._backoff
        return min(first << min(attempts - 1, 62), most)

    @property
    def due_ms(self) -> int | None:
        """When the next `due` or `expire` has something to do, in ticks; maybe earlier, never later."""
        times = [] if self._expiry_ms is None else [self._expiry_ms]
        if self.lacks_id and self._ask_attempts:
            times.append(self._ask_at_ms)
        if self.producer is not None or not self.idempotent:
            waiting = [lane.to_send_again for lane in self.busy.values() if lane.unanswered and not lane.in_flight]
            times += [batch.not_before_ms for batch in waiting]
        return min(times, default=None)

    def due(self, tick_ms: int) -> list[TopicPartition]:
        """Where something is to be sent again now."""
        return [key for key in self.busy if self.next_again(key, tick_ms, peek=True) is not None]

    def expire(self, tick_ms: int, who: str) -> None:
        """Let fail what has waited too long, also what is in flight. `who` has not answered."""
        if self._expiry_ms is None or tick_ms < self._expiry_ms:
            return
        for lane in self.busy.values():
            for batch in [batch for batch in lane.unanswered if batch.deadline_ms <= tick_ms]:
                self._drop(lane, batch, overdue(batch.key, who, in_flight=batch.in_flight, refusal=batch.refusal))
            self._resolve(lane)
        self._expiry_ms = min(
            (batch.deadline_ms for lane in self.busy.values() for batch in lane.unanswered), default=None
        )

    def refusals(self) -> dict[TopicPartition, BaseException]:
        """The last refusal of each partition that has something to be sent again."""
        waiting = [batch for lane in self.busy.values() for batch in lane.unanswered]
        return {batch.key: batch.refusal for batch in waiting if batch.refusal is not None}

    def hurry(self) -> None:
        """Send nothing again that an error comes back for from now on: it fails with that."""
        self._retries = 0

    def give_up(self, error: BaseException, *, in_flight: bool) -> None:
        """Let fail what waits to be sent again, and what is `in_flight`, if so wanted."""
        for lane in self.busy.values():
            for batch in [batch for batch in lane.unanswered if in_flight or not batch.in_flight]:
                self._drop(lane, batch, error)
            self._resolve(lane)


def may_pass(error: BaseException) -> bool:
    """Whether the same may be sent again after an error. The sender hears of a full disk or queue at once."""
    return isinstance(error, ProtocolError) and error.retriable and not isinstance(error, PartitionFull)


def overdue(
    key: TopicPartition, who: str, *, in_flight: bool, refusal: BaseException | None = None
) -> RequestTimedOut:  # fmt: skip
    """The error of what was not delivered to a node within `delivery_timeout_ms`. `refusal`: the node's last one."""
    known = f"whether {who} has it is not known" if in_flight else f"it waited to be sent to {who.rstrip(',')}"
    remedy = "Raise that, or see why there is no answer"
    if refusal is not None:
        remedy = f"It was refused last with {type(refusal).__name__}: {refusal}"
    error = RequestTimedOut(f"{key.topic}-{key.partition}: not delivered within delivery_timeout_ms; {known}. {remedy}")
    error.__cause__ = refusal
    return error


def in_doubt(key: TopicPartition) -> OutOfOrderSequence:
    """The error of what the node may have, where nothing could tell any more."""
    return OutOfOrderSequence(
        f"{key.topic}-{key.partition}: a batch before this one is not there, or the node has forgotten its producer: "
        "whether it has this one is not known, and sending it again might store it twice. Read from the end to see"
    )
