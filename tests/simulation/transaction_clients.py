"""Producers of a `World`: honest ones that follow the protocol, whatever they are answered, and what they became:
elders that a newer one fenced, and that go on sending for a while.

What they must be able to rely on is required here: a transaction that was answered as committed is committed in every
partition, one that was answered as aborted in none; who was fenced never succeeds again.
"""

from collections.abc import Callable
from typing import Any

from pylog.coordinator.transaction.state import EPOCH_LAST, Transaction, TransactionState
from pylog.errors import (
    InvalidPidMapping,
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    PylogError,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    PartitionsAdded,
)
from pylog.record import TopicPartition
from support.messages import added, end_txn, init_producer_id, to_add

from .transaction_world import FAULTY_MS, WALL, World, require

Identity = tuple[int, int]
NOBODY: Identity = (-1, -1)


class Clients(World):
    """The producers of a world, and what they were promised."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.values: dict[int, tuple[Identity, TopicPartition]] = {}
        """Each record that a partition acknowledged: in which transaction, where."""
        self.floors: dict[str, Identity] = {}
        """The latest that a producer was given: what is lower is fenced."""
        self.fenced: dict[str, set[Identity]] = {}
        self.promised: dict[Identity, bool] = {}
        self.committed = 0
        for name in ("a", "b")[: self.random.randint(1, 2)]:
            self.fenced[name] = set()
            self.floors[name] = NOBODY
            if self.random.random() < 0.3:
                self.logged(name, self.old(self.random.randint(EPOCH_LAST - 6, EPOCH_LAST)))
            for _ in range(self.random.randint(1, 3)):
                self.after(self.random.randint(0, 2_000), Producer(self, name).start)

    def old(self, epoch: int) -> Transaction:
        """What a long life left: few epochs, perhaps in the middle of a transaction."""
        self.last_producer_id += 1
        state = self.random.choice(
            (
                TransactionState.EMPTY,
                TransactionState.ONGOING,
                TransactionState.PREPARE_COMMIT,
                TransactionState.COMPLETE_ABORT,
            )
        )
        partitions = tuple(self.partitions)[:2] if state.is_open else ()
        raised = epoch + 1 if state is TransactionState.PREPARE_COMMIT else epoch
        old = Transaction(
            producer_id=self.last_producer_id,
            producer_epoch=raised,
            timeout_ms=1_000,
            state=state,
            partitions=partitions,
            last_update_ms=WALL,
            start_ms=WALL,
            client_version=2,
        )
        for number, partition in enumerate(partitions):
            self.partitions[partition].write(old.producer_id, epoch, -1 - number)
        if state is TransactionState.PREPARE_COMMIT:
            self.decided[old.producer_id, raised] = True
        return old

    def ask(self, name: str, message: Any, answered: Callable[[Any], None]) -> None:
        """Over the network: it may come never, twice, or late, and so may the answer."""
        identity = (message.producer_id, message.producer_epoch)

        def arrive() -> None:
            # Who was fenced for its time-out may have a higher epoch, as long as nobody else took over (KIP-588).
            starts = isinstance(message, InitProducerIdRequest)
            below = identity < self.floors[name] or (not starts and identity in self.fenced[name])
            done = isinstance(message, EndTxnRequest) and self.is_done(name, identity, message.committed)
            before = self.states.get(name)
            self.receive(message, lambda answer: self.answer(name, message, identity, (below, done), answer, answered))
            after = self.states.get(name)
            aborts = before is not None and before.state is TransactionState.ONGOING and before is not after
            require(not (below and aborts) or identity == NOBODY, f"{identity} of {name} is fenced, and aborts another")

        if not self.fails(self.rates.drop):
            self.after(self.latency(), arrive)
        if self.fails(self.rates.duplicate):
            self.after(self.latency(), arrive)

    def latency(self) -> int:
        return self.random.randint(1, 3_000) if self.fails(self.rates.slow) else self.random.randint(1, 10)

    def answer(
        self,
        name: str,
        message: Any,
        identity: Identity,
        before: tuple[bool, bool],
        answer: Any,
        answered: Callable[[Any], None],
    ) -> None:
        """It was answered, and what was promised by that counts from now on, whether the answer comes or not."""
        below, done = before
        if isinstance(answer, InitProducerIdResponse) and answer.error is None:
            self.given(name, (answer.producer_id, answer.producer_epoch), below, is_new=identity == NOBODY)
        if isinstance(answer, PartitionsAdded):
            errors = added(answer)
            joined = [partition for partition, error in errors.items() if error is None]
            require(not (below and joined), f"{identity} of {name} is fenced, and {joined} joined")
            if any(isinstance(error, ProducerFenced) for error in errors.values()):
                self.fence(name, identity)
        if isinstance(answer, EndTxnResponse):
            repeated = answer.error is None or answer.error.retriable or not done
            require(repeated, f"{identity} of {name} ended, and is told {answer.error!r} when it asks again")
            self.ended(name, message, identity, below, answer)
        if not self.fails(self.rates.drop):
            self.after(self.latency(), answered, answer)

    def given(self, name: str, given: Identity, below: bool, *, is_new: bool) -> None:
        """Who starts gets more than all before. Who asks again may get the same; who was fenced, nothing else."""
        floor = self.floors[name]
        require(given[1] <= EPOCH_LAST, "a producer got the highest epoch")
        require(given > floor or (not is_new and given == floor), f"{given} was given again, after {floor}")
        forgotten = given[0] > floor[0] and given[1] == 0
        require(is_new or not below or given == floor or forgotten, f"a fenced producer of {name} got {given}")
        self.floors[name] = given

    def ended(self, name: str, message: EndTxnRequest, identity: Identity, below: bool, answer: EndTxnResponse) -> None:
        if answer.error is None:
            decided = self.decided.get((identity[0], identity[1] + 1))
            require(decided is message.committed, f"{identity} of {name} was answered, and is not decided so")
            require(not below, f"{identity} of {name} is fenced, and ended a transaction")
            require(answer.producer_epoch <= EPOCH_LAST, "a producer got the highest epoch")
            require(self.promised.setdefault(identity, message.committed) == message.committed, "promised both")
        elif isinstance(answer.error, ProducerFenced):
            self.fence(name, identity)

    def fence(self, name: str, identity: Identity) -> None:
        """It was told so. Where its transaction has ended, it may still ask how."""
        if (identity[0], identity[1] + 1) not in self.decided:
            self.fenced[name].add(identity)

    def is_done(self, name: str, identity: Identity, committed: bool) -> bool:
        """Whether this end is what the last thing was that happened to the transactional id."""
        state = self.states.get(name)
        if state is None or state.state is not (
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        ):
            return False
        producer_id, epoch = identity
        if epoch == EPOCH_LAST:
            return (state.previous_producer_id, state.producer_epoch) == (
                producer_id,
                0,
            ) and state.producer_id != producer_id
        return (state.producer_id, state.producer_epoch) == (producer_id, epoch + 1)

    def check_end(self) -> None:
        """What was promised came true."""
        super().check_end()
        for value, (identity, partition) in self.values.items():
            if partition in self.deleted:
                continue
            decided = self.decided.get((identity[0], identity[1] + 1))
            fate = self.partitions[partition].fates.get(value)
            require(fate is not None and fate is decided, f"record {value} of {identity} is {fate}, decided: {decided}")
            require(self.promised.get(identity, fate) is fate, f"record {value} of {identity} was promised otherwise")
            self.committed += fate is True


class Producer:
    """A producer that transacts some times; each `step` waits for one answer, and is sent again when none comes."""

    def __init__(self, world: Clients, name: str) -> None:
        self.world = world
        self.name = name
        self.identity = NOBODY
        self.left = world.random.randint(1, 4)
        self.timeout_ms = world.random.choice((300, 1_000, 4_000))
        self.waits = 0

    def send(self, message: Any, answered: Callable[[Any], None]) -> None:
        """Until it is answered, or everything heals: then producers die where they are."""
        world = self.world
        self.waits += 1
        step = self.waits

        def got(answer: Any) -> None:
            if self.waits == step:
                self.waits += 1
                answered(answer)

        def again() -> None:
            if self.waits == step and world.now_ms < FAULTY_MS:
                world.ask(self.name, message, got)
                world.after(world.random.randint(200, 1_000), again)

        again()

    def later(self, action: Callable[[], None]) -> None:
        random = self.world.random
        self.world.after(random.randint(500, 3_000) if random.random() < 0.1 else random.randint(1, 30), action)

    def start(self) -> None:
        self.init(NOBODY)

    def init(self, expects: Identity) -> None:
        self.send(
            init_producer_id(self.name, self.timeout_ms, *expects), lambda answer: self.initialised(answer, expects)
        )

    def initialised(self, answer: InitProducerIdResponse, expects: Identity) -> None:
        if answer.error is None:
            self.identity = (answer.producer_id, answer.producer_epoch)
            self.later(self.begin)
        elif answer.error.retriable:
            self.later(lambda: self.init(expects))
        # else it was fenced, and gives up

    def begin(self) -> None:
        if self.left:
            self.left -= 1
            random = self.world.random
            self.join(
                random.sample(sorted(self.world.partitions), random.randint(0, 3)), committed=random.random() < 0.7
            )

    def join(self, partitions: list[TopicPartition], *, committed: bool) -> None:
        if not partitions:
            self.end(committed)
            return
        message = to_add(self.name, *self.identity, partitions[:1])

        def joined(answer: PartitionsAdded) -> None:
            (error,) = added(answer).values()
            if error is None:
                self.write(partitions, committed=committed)
            elif error.retriable:
                self.later(lambda: self.join(partitions, committed=committed))
            else:
                self.refused(error)

        self.send(message, joined)

    def write(self, partitions: list[TopicPartition], *, committed: bool) -> None:
        world, identity, partition = self.world, self.identity, partitions[0]
        world.numbers += 1
        value = world.numbers

        def written(error: PylogError | None) -> None:
            if error is None:
                world.values[value] = (identity, partition)
            if error is None or isinstance(error, UnknownTopicOrPartition):
                self.later(lambda: self.join(partitions[1:], committed=committed))
            elif error.retriable or isinstance(error, TransactionAbortable):
                self.later(lambda: self.join(partitions[1:], committed=False))
            else:
                self.refused(error)

        world.after(world.latency(), world.write, self.name, partition, identity, value, written)

    def end(self, committed: bool) -> None:
        def ended(answer: EndTxnResponse) -> None:
            if answer.error is None:
                self.identity = (answer.producer_id, answer.producer_epoch)
                self.later(self.begin)
            elif answer.error.retriable:
                self.later(lambda: self.end(committed))
            else:
                self.refused(answer.error)

        self.send(end_txn(self.name, *self.identity, committed), ended)

    def refused(self, error: PylogError) -> None:
        """Ask for a higher epoch, start anew, or go on as if nothing were."""
        expected = (ProducerFenced, InvalidPidMapping, InvalidProducerEpoch, InvalidTxnState, TransactionAbortable)
        require(isinstance(error, expected), f"{self.identity} of {self.name} got {error!r}")
        choice = self.world.random.random()
        if choice < 0.4:
            self.later(lambda: self.init(self.identity))
        elif choice < 0.6:
            self.later(self.start)
        elif choice < 0.7:
            self.later(self.begin)
        elif choice < 0.85:
            self.write(self.world.random.sample(sorted(self.world.partitions), 1), committed=True)
        else:
            self.later(lambda: self.end(self.world.random.random() < 0.5))
