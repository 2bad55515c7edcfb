"""Clients of the whole log: producers, readers in groups, and jobs that read, write and commit in one transaction.

Each takes turns. In a turn it makes calls of the real `Producer` and `Consumer`, which may wait, while the others go
on; it may be killed wherever it waits. What it has done, and was told, is in the history.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checker.history import Moved, Op, Outcome, Poll, Read, Send
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer import Producer
from pylog.config import ConsumerConfig, ProducerConfig
from pylog.errors import (
    Closed,
    CommitFailed,
    PylogError,
    RebalanceInProgress,
    TransactionAbortable,
)
from pylog.record import ConsumerGroupMetadata, ConsumerRecord, RecordMetadata, TopicPartition

from .stack_network import DEPTH_MAX, KilledError, Process, Wire, require

if TYPE_CHECKING:
    from .stack_world import Stack

PARTITIONS = 2
INPUT = [TopicPartition("in", number) for number in range(PARTITIONS)]
NODE = 1


def of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def polled(records: Iterable[ConsumerRecord]) -> Poll:
    return Poll(tuple(Read(of(one), one.offset, (of(one).topic, one.value)) for one in records))


class Client:
    """One that is there again after it was killed, as another process."""

    def __init__(self, stack: "Stack", name: str) -> None:
        self.stack, self.world, self.random = stack, stack.world, stack.world.random
        self.name = name
        self.lives = 0
        self.process: Process | None = None
        self.is_in_turn = False
        self.world.after(self.random.randint(0, 300), self.turn)

    @property
    def me(self) -> Process:
        assert self.process is not None
        return self.process

    def turn(self) -> None:
        """Do something, and then again after a while."""
        world = self.world
        if self.is_in_turn or world.depth >= DEPTH_MAX:
            world.after(self.random.randint(1, 50), self.turn)
            return
        if world.fails(world.rates.kill):
            self.kill()
        self.is_in_turn = True
        try:
            if self.process is None or not self.process.alive:
                self.lives += 1
                self.process = Process(world, f"{self.name}.{self.lives}")
                self.begin(Wire(self.stack.network, self.process))
            self.step()
        except KilledError:
            self.process = None
        finally:
            self.is_in_turn = False
        rest_ms = self.random.randint(1, 120 if world.is_faulty else 30)
        if world.fails(world.rates.pause):
            rest_ms = self.random.randint(500, 4_000)
        world.after(rest_ms, self.turn)

    def kill(self) -> None:
        if self.process is not None:
            self.process.alive = False

    def begin(self, wire: Wire) -> None:
        raise NotImplementedError

    def step(self) -> None:
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be done."""
        raise NotImplementedError


def producer_config(random: Any, **more: Any) -> ProducerConfig:
    return ProducerConfig.from_kafka({
        "linger_ms": random.choice((0, 0, 5, 30)),
        "batch_size": random.choice((100, 300, 16_384)),
        "delivery_timeout_ms": random.choice((400, 2_000, 30_000)),
        "request_timeout_ms": 300,
        "max_block_ms": 3_000,
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 300,
        "max_in_flight_requests_per_connection": random.choice((1, 2, 5)),
        "compression_type": random.choice(("none", "none", "lz4")),
        **more,
    })  # fmt: skip


@dataclass(slots=True)
class Entry:
    """A record that was sent outside of any transaction."""

    process: str
    partition: TopicPartition
    value: bytes
    start: int
    outcome: Outcome | None = None
    offset: int | None = None
    end: int = 0

    def op(self) -> Op:
        outcome = self.outcome or Outcome.UNKNOWN
        send = Send(self.partition, (self.partition.topic, self.value), self.offset)
        return Op(self.process, outcome, (send,), False, self.start, None, self.end)


def known(where: RecordMetadata | None) -> int | None:
    """Where a record lies, as far as its producer knows: a node that has forgotten its batch does not say."""
    return None if where is None or where.offset < 0 else where.offset


class Sender(Client):
    """An idempotent producer."""

    producer: Producer
    sent = 0

    def begin(self, wire: Wire) -> None:
        self.producer = Producer(wire, NODE, producer_config(self.random), self.me)

    def step(self) -> None:
        if not self.world.is_faulty:
            return
        for _ in range(self.random.randint(0, 3)):
            self.send(self.random.choice(INPUT))
        if self.random.random() < 0.1:
            try:
                self.producer.flush(self.random.choice((0.05, 1.0)))
            except TimeoutError:
                return

    def send(self, partition: TopicPartition) -> None:
        self.sent += 1
        entry = Entry(self.me.name, partition, f"{self.me.name}:{self.sent}".encode(), self.world.now_ms)

        def done(where: RecordMetadata | None, error: BaseException | None) -> None:
            entry.outcome = Outcome.UNKNOWN if where is None else Outcome.OK
            entry.offset = known(where)
            entry.end = self.world.now_ms

        try:
            self.producer.send(partition.topic, entry.value, partition=partition.partition, on_delivery=done)
        except PylogError:
            if self.random.random() < 0.5:
                self.kill()  # whatever it was: another one takes over
            return
        except BaseException:
            self.stack.entries.append(entry)
            raise
        self.stack.entries.append(entry)

    @property
    def is_done(self) -> bool:
        alive = self.process is not None and self.process.alive
        return not alive or all(
            entry.outcome is not None for entry in self.stack.entries if entry.process == self.me.name
        )


class Writing:
    """A transaction on its way: what was sent in it, and what became of it."""

    def __init__(self, client: Client, *first: Poll) -> None:
        self.client = client
        self.process = client.me.name
        self.first = first
        self.start = client.world.now_ms
        self.ending: int | None = None
        self.sends: list[list[Any]] = []

    def send(self, producer: Producer, partition: TopicPartition, value: bytes) -> None:
        one = [partition, (partition.topic, value), None]
        self.sends.append(one)

        def done(where: RecordMetadata | None, error: BaseException | None) -> None:
            one[2] = known(where)

        producer.send(partition.topic, value, partition=partition.partition, on_delivery=done)

    def ended(self, outcome: Outcome) -> None:
        now_ms = self.client.world.now_ms
        actions = (*self.first, *(Send(*one) for one in self.sends))
        ending = now_ms if self.ending is None else self.ending
        self.client.stack.history.append(Op(self.process, outcome, actions, True, self.start, ending, now_ms))


class Transactor(Client):
    """A transactional producer; whoever has the name next takes over."""

    producer: Producer | None = None
    sent = 0

    def begin(self, wire: Wire) -> None:
        self.producer = None
        self.wire = wire

    def made(self) -> Producer | None:
        if self.producer is None:
            config = producer_config(self.random, transactional_id=self.name, transaction_timeout_ms=1_500)
            try:
                self.producer = Producer(self.wire, NODE, config, self.me)
            except (PylogError, TimeoutError):
                return None
        return self.producer

    def step(self) -> None:
        producer = self.made() if self.world.is_faulty or self.producer is not None else None
        if producer is None or not self.world.is_faulty:
            return
        writing = Writing(self)
        self.transact(producer, writing, lambda: self.write(producer, writing))

    def write(self, producer: Producer, writing: Writing) -> bool:
        for _ in range(self.random.randint(1, 4)):
            self.sent += 1
            writing.send(producer, self.random.choice(INPUT), f"{self.me.name}:{self.sent}".encode())
            if self.random.random() < 0.3:
                self.me.wait(lambda: False, self.random.randint(1, 200))
        return self.random.random() < 0.75

    def transact(self, producer: Producer, writing: Writing, write: Callable[[], bool]) -> bool:
        """Begin, write, end; whether it was committed."""
        outcome = Outcome.FAILED
        try:
            producer.begin()
            if write():
                outcome = Outcome.UNKNOWN
                writing.ending = self.world.now_ms
                outcome = self.settle(producer)
            else:
                self.abort(producer)
        except TransactionAbortable:
            outcome = Outcome.FAILED
            self.abort(producer)
        except (PylogError, TimeoutError):
            self.producer = None
            self.kill()
        finally:
            writing.ended(outcome)
        return outcome is Outcome.OK

    def settle(self, producer: Producer) -> Outcome:
        for _ in range(5):
            try:
                producer.commit(self.random.choice((0.3, 3.0)))
            except TimeoutError:
                continue
            return Outcome.OK
        raise TimeoutError("it is not known whether it was committed")

    def abort(self, producer: Producer) -> None:
        try:
            producer.abort(3.0)
        except (PylogError, TimeoutError):
            self.producer = None
            self.kill()

    @property
    def is_done(self) -> bool:
        return not self.is_in_turn


@dataclass(slots=True)
class Grouped:
    """How the members of a group read."""

    name: str
    protocol: str
    isolation: str
    commits: str
    strategy: str
    is_job: bool = False


class Member(Client):
    """One of a group that reads the input, and notes what it was given."""

    consumer: Consumer
    polls: tuple[int, ...] = (1, 5, 500)
    """How many records a poll may give."""
    who: ConsumerGroupMetadata
    """As whom it was given partitions last."""

    def __init__(self, stack: "Stack", name: str, group: Grouped) -> None:
        super().__init__(stack, name)
        self.group = group
        self.instance = name if self.random.random() < 0.2 else None

    def begin(self, wire: Wire) -> None:
        config: dict[str, Any] = {
            "group_id": self.group.name, "group_protocol": self.group.protocol, "auto_offset_reset": "earliest",
            "isolation_level": self.group.isolation, "enable_auto_commit": self.group.commits == "auto",
            "auto_commit_interval_ms": 300, "max_poll_interval_ms": 3_000, "retry_backoff_ms": 50,
            "max_poll_records": self.random.choice(self.polls), "fetch_max_wait_ms": 100,
            "default_api_timeout_ms": 8_000, "client_id": self.me.name,
        }  # fmt: skip
        if self.group.protocol == "classic":
            config |= {
                "session_timeout_ms": 1_500, "heartbeat_interval_ms": 200,
                "partition_assignment_strategy": self.group.strategy,
            }  # fmt: skip
        if self.instance is not None:
            config["group_instance_id"] = self.instance
        self.consumer = Consumer(wire, NODE, ConsumerConfig.from_kafka(config), self.me)
        self.who = self.consumer.group_metadata()
        self.is_subscribed = False

    def subscribe(self) -> bool:
        if not self.is_subscribed:
            try:
                self.consumer.subscribe(["in"], listener=self)
            except PylogError:
                return False
            self.is_subscribed = True
        return True

    def moved(self, partitions: Iterable[TopicPartition]) -> None:
        now_ms = self.world.now_ms
        op = Op(self.me.name, Outcome.OK, (Moved(tuple(partitions)),), False, now_ms, None, now_ms)
        self.stack.history.append(op)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.moved(partitions)
        self.who = self.consumer.group_metadata()
        self.owns(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.moved(partitions)

    def owns(self, partitions: Iterable[TopicPartition]) -> None:
        """What was given in a generation, or epoch, is nobody else's in it."""
        who = self.who
        for partition in partitions:
            key = (self.group.name, who.generation_id, partition)
            # A static member that is back has another id, and its generation goes on.
            me = who.group_instance_id or who.member_id
            owner = self.stack.owners.setdefault(key, me)
            require(owner == me, f"{key} is {owner}'s and {me}'s")

    def poll(self) -> list[ConsumerRecord]:
        if not self.subscribe():
            return []
        try:
            records = self.consumer.poll(self.random.choice((0, 20, 200)))
        except PylogError as error:
            self.stack.troubles.append((self.world.now_ms, self.me.name, repr(error)))
            require(not isinstance(error, Closed), f"{error!r}")
            self.kill()
            return []
        self.owns({of(record) for record in records})
        return records

    def step(self) -> None:
        start = self.world.now_ms
        records = self.poll()
        if self.process is None or not self.process.alive:
            return
        if records and self.group.isolation == "read_committed":
            op = Op(self.me.name, Outcome.OK, (polled(records),), False, start, None, self.world.now_ms)
            self.stack.history.append(op)
        self.stack.seen.setdefault(self.group.name, set()).update((of(one), one.offset) for one in records)
        if self.group.commits == "sync" and self.random.random() < 0.4:
            self.commit()
        if self.group.commits == "auto" and self.world.fails(0.03):
            self.seek()
        if self.world.is_faulty and self.random.random() < 0.01:
            self.leave()

    def seek(self) -> None:
        """Go back a little, whatever is under way."""
        for key, position in self.positions_now.items():
            if position:
                self.consumer.seek(key, self.random.randint(max(0, position - 5), position))
                self.moved([key])

    @property
    def positions_now(self) -> dict[TopicPartition, int | None]:
        return {key: state.position for key, state in self.consumer._client.subscription.states.items()}

    def commit(self) -> None:
        consumer = self.consumer
        positions = self.positions_now
        try:
            consumer.commit()
        except (CommitFailed, RebalanceInProgress):
            return
        except PylogError as error:
            self.stack.troubles.append((self.world.now_ms, self.me.name, repr(error)))
            self.kill()
            return
        for key, position in positions.items():
            if position is not None:
                self.stack.note_committed(self.group.name, key, position)

    def leave(self) -> None:
        try:
            self.consumer.close(2_000)
        except (PylogError, TimeoutError) as error:
            self.stack.troubles.append((self.world.now_ms, self.me.name, repr(error)))
        self.kill()

    @property
    def positions(self) -> dict[TopicPartition, int | None]:
        alive = self.process is not None and self.process.alive and not self.is_in_turn
        return self.positions_now if alive else {}

    @property
    def is_done(self) -> bool:
        return not self.is_in_turn


class Job(Member, Transactor):
    """Reads, writes what it has read, and commits both in one transaction."""

    # Each may need a batch of its own, and a transaction has its timeout.
    polls = (1, 5, 20)

    def begin(self, wire: Wire) -> None:
        Transactor.begin(self, wire)
        Member.begin(self, wire)

    def step(self) -> None:
        producer = self.made()
        if producer is None:
            return
        records = self.poll()
        if not records or self.process is None or not self.process.alive:
            return
        self.stack.seen.setdefault(self.group.name, set()).update((of(one), one.offset) for one in records)
        writing = Writing(self, polled(records))
        if not self.transact(producer, writing, lambda: self.work(producer, writing, records)):
            self.rewind(records)

    def work(self, producer: Producer, writing: Writing, records: list[ConsumerRecord]) -> bool:
        if self.world.fails(0.05):
            # Perhaps for so long that others have its partitions by now.
            self.me.wait(lambda: False, self.random.randint(100, 5_000))
        for record in records:
            # Every attempt writes another value: the checker knows a writer by it.
            self.sent += 1
            value = b"%b@%b:%d" % (record.value, self.me.name.encode(), self.sent)
            writing.send(producer, TopicPartition("out", record.partition), value)
        ahead = {of(record): record.offset + 1 for record in records}
        producer.send_offsets(ahead, self.consumer.group_metadata(), 3.0)
        return not self.world.fails(0.1)

    def rewind(self, records: list[ConsumerRecord]) -> None:
        """What was not committed is read again."""
        if self.process is None or not self.process.alive:
            return
        first = {of(record): record.offset for record in reversed(records)}
        for key, offset in first.items():
            if key in self.consumer._client.subscription.states:
                self.consumer.seek(key, offset)
                self.moved([key])
