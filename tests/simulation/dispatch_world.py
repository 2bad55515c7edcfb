"""A producer's batches in flight between queues of batches and a node that is not to be relied on, in simulated time.

    queues -> InFlight -> requests: lost, late, overtaken, doubled -> Node -> answers: lost, late, overtaken -> InFlight

The node keeps a log of each partition and Kafka's rule for producers: numbers follow one another within an epoch, the
last five batches are known again. It refuses some batches, restarts (then it may know the last batch alone), and loses
what it has not answered. A request that nobody answers is answered by the transport, with RequestTimedOut, and what was
sent does not arrive any more then. After a while everything heals.
"""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random

from pylog import errors
from pylog.client.in_flight import InFlight
from pylog.client.in_flight_batch import BatchOutcome, InFlightBatch, ProducerEpoch
from pylog.record import TopicPartition

REQUEST_TIMEOUT = 300
TROUBLE = 6_000
PATIENCE = 600_000
MASK = (1 << 31) - 1
PASSING = [
    errors.NotLeaderOrFollower,
    errors.LeaderNotAvailable,
    errors.NotEnoughReplicas,
    errors.NotEnoughReplicasAfterAppend,
    errors.RequestTimedOut,
]
AFTER_APPEND = (errors.NotEnoughReplicasAfterAppend, errors.RequestTimedOut, errors.UnknownServer)
FINAL = [errors.InvalidRecord, errors.PolicyViolation, errors.UnknownServer]


class Written:
    """A batch in a log."""

    def __init__(self, producer: ProducerEpoch, sequence: int, records: tuple[int, ...], offset: int) -> None:
        self.producer = producer
        self.first, self.last = sequence, (sequence + len(records) - 1) & MASK
        self.records = records
        self.offset = offset


class Log:
    """A partition as its leader has it."""

    def __init__(self, records_max: int) -> None:
        self.written: list[Written] = []
        self.durable = 0
        self.records_max = records_max
        self.known: dict[int, list[Written]] = {}

    @property
    def records(self) -> list[int]:
        return [record for batch in self.written for record in batch.records]

    def append(self, producer: ProducerEpoch, sequence: int, records: tuple[int, ...]) -> int:
        """Gives the base offset. Raises what a node answers."""
        if len(records) > self.records_max:
            raise errors.RecordTooLarge("too many")
        known = self.known.get(producer.producer_id, [])
        for batch in known:
            if (batch.producer, batch.first, len(batch.records)) == (producer, sequence, len(records)):
                assert batch.records == records, "another batch with the same number"
                return batch.offset
        if known:
            epoch = known[-1].producer.epoch
            if producer.epoch < epoch:
                raise errors.InvalidProducerEpoch("old")
            expected = (known[-1].last + 1) & MASK if producer.epoch == epoch else 0
            if sequence != expected:
                raise errors.OutOfOrderSequence(f"{sequence}, not {expected}")
        end = self.written[-1].offset + len(self.written[-1].records) if self.written else 0
        assert not end or self.written[-1].records[-1] < records[0], "out of order, or twice"
        written = Written(producer, sequence, records, end)
        self.written.append(written)
        self._know(written)
        return written.offset

    def _know(self, written: Written) -> None:
        known = self.known.get(written.producer.producer_id, [])
        same = [batch for batch in known if batch.producer == written.producer]
        self.known[written.producer.producer_id] = [*same[-4:], written]

    def restart(self, rng: Random) -> None:
        """Lose some of what was not durable; of producers the last batch is known at least."""
        self.durable = rng.randint(self.durable, len(self.written))
        del self.written[self.durable :]
        self.known = {}
        kept = rng.choice([1, 5])
        for written in self.written:
            self._know(written)
        self.known = {producer: batches[-kept:] for producer, batches in self.known.items()}


class World:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.now = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.order = count()
        self.keys = [TopicPartition("t", number) for number in range(rng.randint(1, 3))]
        self.logs = {key: Log(rng.choice([2, 6, 50])) for key in self.keys}
        self.queues: dict[TopicPartition, deque[tuple[int, ...]]] = {key: deque() for key in self.keys}
        self.in_flight_max = rng.choice([1, 2, 5])
        self.delivery_timeout = rng.choice([400, 1_500, 10_000])
        self.in_flight = InFlight(
            idempotent=True, in_flight_max=self.in_flight_max, retries=rng.choice([1, 3, MASK]),
            backoff_ms=rng.choice([0, 1, 20]), backoff_max_ms=100,
        )  # fmt: skip
        self.faults = {
            name: rng.choice([0, 0, 0.02, 0.1, 0.3])
            for name in ("drop", "silence", "refuse", "fail", "double", "delay")
        }
        self.ids = count(1)
        self.delivered: dict[int, tuple[TopicPartition, int | None]] = {}
        self.failed: dict[int, BaseException] = {}
        self.sent = 0
        self.given_ids = 0
        self.alive = 0  # how many times the node has restarted

    def at(self, delay: int, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.order), what))

    def happens(self, fault: str) -> bool:
        return self.now < TROUBLE and self.rng.random() < self.faults[fault]

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(self.rng.randint(20, 80)):
            self.at(self.rng.randrange(TROUBLE), self.fill)
        for _ in range(self.rng.choice([0, 1, 4])):
            self.at(self.rng.randrange(TROUBLE), self.restart)
        steps = 0
        while True:
            self.ship()
            steps += 1
            assert steps < 50_000, "it goes on for ever"
            due = self.in_flight.due_ms
            at = self.events[0][0] if self.events else None
            if due is not None and (at is None or due <= at):
                self.now = max(self.now, due)
                self.in_flight.expire(self.now, "node 1")
                self.take_failed()
            elif self.events:
                self.now, _, what = heapq.heappop(self.events)
                what()
            else:
                break
            assert self.now < TROUBLE + PATIENCE, "after the trouble it still waits"
        self.check_end()

    def fill(self) -> None:
        for _ in range(self.rng.randint(1, 6)):
            key = self.rng.choice(self.keys)
            records = tuple(next(self.ids) for _ in range(self.rng.randint(1, 8)))
            self.sent += len(records)
            self.queues[key].append(records)

    def ship(self) -> None:
        if self.in_flight.lacks_id and any(self.queues.values()) and self.in_flight.ask_id(self.now):
            self.at(self.rng.randint(0, 50), self.answer_id)
        for key in self.keys:
            while (batch := self.next(key)) is not None:
                self.send(batch)

    def next(self, key: TopicPartition) -> InFlightBatch | None:
        batch = self.in_flight.next_again(key, self.now)
        if batch is None and self.queues[key] and self.in_flight.may_take(key):
            records = self.queues[key].popleft()
            batch = InFlightBatch(key, records, len(records), self.now + self.delivery_timeout)
            self.in_flight.take(batch)
        return batch

    def answer_id(self) -> None:
        if self.happens("refuse"):
            assert self.in_flight.id_refused(errors.CoordinatorNotAvailable("later"), self.now)
        else:
            self.given_ids += 1
            # Near its end, so that an epoch runs out now and then.
            self.in_flight.identify(ProducerEpoch(self.given_ids, self.rng.choice([0, 32766])))
            self.take_failed()

    # --- the way there and back --------------------------------------------------------------------------------------

    def send(self, batch: InFlightBatch) -> None:
        wire = (batch.producer, batch.sequence, batch.load)
        # One for all copies of a request: a node that has taken one does not say of another that it has nothing.
        refusal = self.rng.choice(PASSING)("not now") if self.happens("refuse") else None
        if self.happens("fail"):
            refusal = self.rng.choice(FINAL)("no")
        answers: list[bool] = []
        alive = self.alive

        def conclude(error: BaseException | None, offset: int) -> None:
            if not answers:
                answers.append(True)
                self.conclude(batch, error, offset)

        def arrive(*, speaks: bool) -> None:
            if answers or alive != self.alive:
                return
            error, offset = self.handle(batch.key, *wire, refusal)
            if speaks and not self.happens("silence"):
                self.at(
                    self.rng.randint(20, 80),
                    lambda: alive == self.alive and self.speak(batch, conclude, error, offset),
                )

        delays = [self.rng.randint(0, 200 if self.happens("delay") else 10)]
        if self.happens("double"):
            delays.append(delays[0] + self.rng.randint(0, 15))
        if not self.happens("drop"):
            for index, delay in enumerate(delays):
                # The answer to the last of them is the one that comes: what was sent has all arrived then.
                self.at(delay, lambda index=index: arrive(speaks=index == len(delays) - 1))
        self.at(REQUEST_TIMEOUT, lambda: conclude(errors.RequestTimedOut("silence"), -1))

    def handle(
        self, key: TopicPartition, producer: ProducerEpoch, sequence: int, records: tuple[int, ...],
        refusal: BaseException | None,
    ) -> tuple[BaseException | None, int]:  # fmt: skip
        if refusal is not None and not isinstance(refusal, AFTER_APPEND):
            return refusal, -1
        try:
            offset = self.logs[key].append(producer, sequence, records)
        except errors.PylogError as error:
            return error, -1
        return (None, offset) if refusal is None else (refusal, -1)

    def speak(
        self, batch: InFlightBatch, conclude: Callable[[BaseException | None, int], None],
        error: BaseException | None, offset: int,
    ) -> None:  # fmt: skip
        log = self.logs[batch.key]
        log.durable = len(log.written)
        self.at(self.rng.randint(0, 100 if self.happens("delay") else 5), lambda: conclude(error, offset))

    def conclude(self, batch: InFlightBatch, error: BaseException | None, offset: int) -> None:
        verdict = self.in_flight.answered(batch, error, self.now)
        if verdict is BatchOutcome.DELIVERED:
            for index, record in enumerate(batch.load):
                assert record not in self.delivered and record not in self.failed
                # Of a batch that the node has forgotten it is known that it is there, not where.
                self.delivered[record] = (batch.key, offset + index if error is None else None)
        elif verdict is BatchOutcome.SPLIT:
            half = len(batch.load) // 2
            self.in_flight.split(batch, half, (batch.load[:half], batch.load[half:]))
        self.take_failed()

    def take_failed(self) -> None:
        for batch in self.in_flight.failed():
            assert batch.error is not None
            for record in batch.load:
                assert record not in self.delivered and record not in self.failed
                self.failed[record] = batch.error

    def restart(self) -> None:
        self.alive += 1
        for log in self.logs.values():
            log.restart(self.rng)

    # --- what holds --------------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        logs = {key: log.records for key, log in self.logs.items()}
        for record, (key, offset) in self.delivered.items():
            found = record in logs[key] if offset is None else logs[key][offset] == record
            assert found, f"record {record} is not where it was said to be"
        assert len(self.delivered) + len(self.failed) == self.sent, "not all were answered"
        for key in self.keys:
            assert self.in_flight.lacks_id or self.in_flight.may_take(key), f"nothing can be sent to {key} any more"
