"""A whole log in one thread, under everything that may happen to it: a function of a seed.

    play(seed)           the real broker over `CrashFiles`, the real clients (`stack_clients`), a network that loses,
                         doubles, delays and reorders (`stack_network`), crashes, kills, pauses, clocks that jump

The node crashes in the middle of an event: of what it has not synced any part is there, and none of the answers of that
event leaves it. What must always hold is looked at on the way; when `FAULTY_MS` are over nothing goes wrong any more,
and everything has to come to its end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from checker.anomalies import check, failures
from checker.history import Op, Outcome
from pylog.broker.broker import Broker
from pylog.broker.coordinator_host import CoordinatorHost, replay_log
from pylog.client.consumer.consumer import Consumer
from pylog.config import ConsumerConfig, NodeConfig
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.consumer_group import ConsumerGroup
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.protocol.messages import NewTopic, Session
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.record import ConsumerRecord, TopicPartition
from support.consumer_group_host import check_consumer_group, consumer_state
from support.group_host import check_group, logged
from tests.support.crash import CrashFiles

from .stack_clients import INPUT, NODE, PARTITIONS, Client, Entry, Grouped, Job, Member, Sender, Transactor, of, polled
from .stack_network import Network, Process, Wire, World, require

FAULTY_MS = 5_000
HEALED_MS = 60_000
REPLAY_EVERY = 100
OUTPUT = [TopicPartition("out", number) for number in range(PARTITIONS)]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let ids (uuid4) follow from the seed, too: their order decides who gets which partition."""
    before, os.urandom = os.urandom, Random(seed).randbytes
    try:
        yield
    finally:
        os.urandom = before


def play(seed: int) -> "Stack":
    """One run. Raises what has gone wrong."""
    with seeded(seed):
        stack = Stack(seed)
        stack.run()
        return stack


class NodeProcess(Process):
    """The node's: each of its events may be its last."""

    def __init__(self, stack: "Stack") -> None:
        super().__init__(stack.world, "node")
        self.stack = stack

    def enter(self, call: Any) -> None:
        if self.alive:
            self.stack.node_event(call)

    def wait(self, is_over: Any, timeout_ms: float | None) -> bool:
        require(False, "the node waits")
        return False


class Stack:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.network = Network(self.world, self.enter)
        self.history: list[Op] = []
        self.entries: list[Entry] = []
        self.owners: dict[tuple[str, int, TopicPartition], str] = {}
        self.seen: dict[str, set[tuple[TopicPartition, int]]] = {}
        """What the members of a group were given."""
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        """What a group was told to have committed."""
        self.troubles: list[tuple[int, str, str]] = []
        self.counts = {"events of the node": 0, "crashes": 0, "replays": 0}
        # Segments end when their indexes are full.
        index_bytes, interval_bytes = self.random.choice(((32, 100), (10 << 20, 4096)))
        self.config = NodeConfig.from_kafka({
            "offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2,
            "group.min.session.timeout.ms": 500, "group.consumer.session.timeout.ms": 1_500,
            "group.consumer.heartbeat.interval.ms": 200, "group.consumer.min.heartbeat.interval.ms": 200,
            "group.consumer.min.session.timeout.ms": 1_500,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
            "log.flush.offset.checkpoint.interval.ms": 1_000, "log.cleaner.backoff.ms": 700,
            "log.index.size.max.bytes": index_bytes, "log.index.interval.bytes": interval_bytes,
        })  # fmt: skip
        self.open(CrashFiles(None))
        topics = [NewTopic("in", PARTITIONS), NewTopic("out", PARTITIONS)]
        created = self.broker.handle(CreateTopicsRequest.of(topics), Session()).result(0)
        require([one.error for one in created.topics] == [None, None], f"{created}")
        self.clients = self.drawn()

    def drawn(self) -> list[Client]:
        clients: list[Client] = [Sender(self, f"sender{n}") for n in range(self.random.randint(1, 2))]
        clients += [Transactor(self, f"transactor{n}") for n in range(self.random.randint(1, 2))]
        choice = self.random.choice
        self.groups = []
        for name, members in (("readers", 3), ("job", 2)):
            is_job = name == "job"
            group = Grouped(
                name,
                choice(("classic", "consumer")),
                "read_committed" if is_job else choice(("read_committed", "read_committed", "read_uncommitted")),
                "none" if is_job else choice(("sync", "auto")),
                choice(("range", "roundrobin", "sticky", "cooperative-sticky")),
            )
            self.groups.append(group)
            kind = Job if is_job else Member
            clients += [kind(self, f"{name}{n}", group) for n in range(self.random.randint(1, members))]
        return clients

    # --- the node ----------------------------------------------------------------------------------------------------

    def open(self, files: CrashFiles) -> None:
        self.files = files
        self.node = NodeProcess(self)
        self.broker = Broker(
            files, ["log"], config=self.config, clock=self.node, transport=Wire(self.network, self.node),
            node_id=NODE, flush="sync",
        )  # fmt: skip
        require(not self.broker.quarantined, f"a crash was taken for damage: {self.broker.quarantined}")

    def enter(self, call: Any) -> None:
        """Let the node of now have an event."""
        self.node.enter(call)

    def node_event(self, call: Any) -> None:
        before = len(self.files.operations)
        self.counts["events of the node"] += 1
        call()
        if self.world.fails(self.world.rates.crash):
            self.crash(self.random.randint(before, len(self.files.operations)))
            return
        self.network.flush()
        if self.random.random() < 1 / REPLAY_EVERY:
            self.check()

    def crash(self, upto: int) -> None:
        """The power goes, and comes back; or the process was killed, when everything it has written is there."""
        self.counts["crashes"] += 1
        self.node.alive = False
        self.network.node_died()
        is_killed = self.random.random() < 0.3
        tree = self.files._files.tree() if is_killed else self.files.power_cut(self.random, upto)
        self.world.after(self.random.randint(1, 1_500), lambda: self.open(CrashFiles(None, tree)))

    # --- a run -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        world = self.world
        world.after(50, self.misfortune)
        world.wait(lambda: False, FAULTY_MS)
        world.is_faulty = False
        self.node.ahead_ms = 0
        done: list[bool] = []
        world.after(100, lambda: self.look(done))
        world.wait(lambda: bool(done), FAULTY_MS + HEALED_MS)
        require(done, f"it does not come to an end: {self.left()}")
        self.check()
        self.check_end()

    def misfortune(self) -> None:
        world = self.world
        if world.fails(world.rates.kill):
            self.random.choice(self.clients).kill()
        if world.fails(world.rates.jump):
            self.node.ahead_ms += self.random.choice((-3_600_000, -5_000, 5_000, 3_600_000))
        if world.is_faulty:
            world.after(50, self.misfortune)

    def look(self, done: list[bool]) -> None:
        if not self.left():
            done.append(True)
        self.world.after(100, lambda: self.look(done))

    def left(self) -> list[str]:
        """What has to happen yet."""
        if not self.node.alive:
            return ["the node is down"]
        left = [client.name for client in self.clients if not client.is_done]
        ends = {}
        for key in (*INPUT, *OUTPUT):
            partition = self.broker.partition(*key)
            ends[key] = partition.next_offset
            if partition.last_stable_offset != partition.next_offset:
                left.append(f"{key} is open at {partition.last_stable_offset}, and ends at {partition.next_offset}")
        for group in self.groups:
            at: dict[TopicPartition, int | None] = {}
            for client in self.clients:
                if isinstance(client, Member) and client.group is group:
                    at.update(client.positions)
            left += [f"{group.name} is at {at.get(key)} of {key}" for key in INPUT if at.get(key) != ends[key]]
        return left

    # --- what must hold ----------------------------------------------------------------------------------------------

    def note_committed(self, group: str, key: TopicPartition, position: int) -> None:
        """A commit was answered well."""
        before = self.committed.get((group, key), 0)
        require(position >= before, f"{group} has committed {before} for {key}, and now {position}")
        self.committed[group, key] = position

    def check(self) -> None:
        """What the coordinators are is what their logs say."""
        if not self.node.alive:
            return
        self.counts["replays"] += 1
        for shard in self.broker._coordinating._coordinators._hosts.values():
            self.check_shard(shard)

    def check_shard(self, shard: CoordinatorHost) -> None:
        partition, machine = shard.leader.partition, shard.machine
        key = TopicPartition(partition.topic, partition.number)
        again = self.broker._coordinating._coordinators._machine(key)
        replay_log(partition, again, partition.start_offset, partition.next_offset)
        if isinstance(machine, TransactionCoordinator):
            assert isinstance(again, TransactionCoordinator)
            require(machine.transactions == again.transactions, f"{key} is not what its log says")
            return
        assert isinstance(machine, GroupCoordinator) and isinstance(again, GroupCoordinator)
        for one, other in zip(states(machine), states(again), strict=True):
            require(one == other, f"{key} is not what its log says: {one} {other}")
        for group in machine._groups.values():
            if isinstance(group, ClassicGroup):
                check_group(group)
            elif isinstance(group, ConsumerGroup):
                check_consumer_group(group)
        for (name, of_partition), offset in self.committed.items():
            if name in machine._offsets._committed:
                kept = machine._offsets.of(name).get(of_partition)
                require(kept is not None and kept.offset >= offset, f"{name} had committed {offset}, and has {kept}")

    def check_end(self) -> None:
        visible = self.read_all()
        ops = [entry.op() for entry in self.entries]
        values = [(of(one), one.value) for one in visible]
        require(len(values) == len(set(values)), "a record is there twice")
        last = Op("last", Outcome.OK, (polled(visible),), False, self.world.now_ms, None, self.world.now_ms)
        found = failures(check([*ops, *self.history, last], complete=True))
        require(not found, "\n".join(f"{one.anomaly.name}: {one.what}" for one in found[:5]))
        for key in INPUT:
            copied = [original(one) for one in visible if of(one) == ("out", key.partition)]
            wanted = [one.value for one in visible if of(one) == key]
            require(copied == wanted, f"{key} was not copied as it is: {len(copied)} of {len(wanted)}")
        self.check_order(visible)
        places = {(of(one), one.offset) for one in visible if one.topic == "in"}
        for group in self.groups:
            passed = places - self.seen.get(group.name, set())
            require(not passed, f"{group.name} has never been given {sorted(passed)[:5]}")

    def check_order(self, visible: list[ConsumerRecord]) -> None:
        """What a sender has sent to a partition lies there in its order."""
        last: dict[tuple[str, TopicPartition], int] = {}
        for one in visible:
            who, _, number = original(one).decode().rpartition(":")
            before = last.get((who, of(one)), 0)
            require(int(number) > before, f"{one.value!r} lies behind number {before} in {of(one)}")
            last[who, of(one)] = int(number)

    def read_all(self) -> list[ConsumerRecord]:
        """Every record that was committed."""
        process = Process(self.world, "last")
        config = ConsumerConfig.from_kafka({"isolation_level": "read_committed", "auto_offset_reset": "earliest"})
        consumer = Consumer(Wire(self.network, process), NODE, config, process)
        keys = [*INPUT, *OUTPUT]
        consumer.assign(keys)
        ends = consumer.end_offsets(keys)
        records: list[ConsumerRecord] = []
        while any(consumer.position(key) < end for key, end in ends.items()):
            records += consumer.poll(500)
        return records


def original(record: ConsumerRecord) -> bytes:
    """What was written first, of a record that a job has written."""
    return (record.value or b"").partition(b"@")[0]


def states(machine: GroupCoordinator) -> tuple[Any, ...]:
    """All that is logged. Of an offset's place only the order counts, and compaction takes some away."""
    groups, committed, pending, opened = logged(machine)
    unplaced = {name: machine._offsets.of(name) for name in committed}
    waiting = {
        producer_id: {
            name: {key: placed.committed for key, placed in parts.items()} for name, parts in of_groups.items()
        }
        for producer_id, of_groups in pending.items()
    }
    return groups, unplaced, waiting, opened, consumer_state(machine)
