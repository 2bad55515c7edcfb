"""Kill a leader and its follower under transactions, groups and partitions that are added; judge what is left.

    python -m crash.follow_history 300                so many kills
    python -m crash.follow_history 20 --seed 7        with other moments

The copy follows one topic, and the topics of coordinators come along. Some kills of the leader are for good: the
follower takes over by hand, by the lead of the topic alone, or with the topics of coordinators before or behind it.
The leader has written down, when it is dead, that the follower is in the ISR everywhere: a person would look at
`pylog topic describe` for that. With min.insync.replicas=1 a follower that lags leaves the ISR, and stops nothing.

    a record that was acknowledged          lies where that was said, once
    a transaction that was committed        is seen as a whole; one that was aborted is not; one of which the producer
                                            heard nothing is seen as a whole or not at all
    a position that was committed           is never told to be less, unless by a commit of which its client heard
                                            nothing: that may lie in a buffer, and come behind later ones, as with
                                            Kafka; in a transaction it goes by that
    in the end                              no transaction hangs, and both nodes have the same bytes
"""

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pylog
from crash.follow_history_node import TOPIC
from crash.follow_kill import ALIVE_SECONDS, PATIENCE_SECONDS, PROMOTED, Node
from crash.kills import command
from pylog import TopicPartition
from pylog.errors import PylogError
from pylog.protocol.messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from support.clients.values import until

TOPICS, PARTITIONS_MAX = 3, 6
ADDED = 0.1
"""How many rounds add a partition."""
ORDERS = (f"{TOPIC}", f"{TRANSACTIONS_TOPIC},{GROUPS_TOPIC},{TOPIC}", f"{TOPIC},{GROUPS_TOPIC},{TRANSACTIONS_TOPIC}")
"""The topics whose lead is taken, in this order."""
QUICK = {"request_timeout_ms": 2000, "delivery_timeout_ms": 30_000}
POSITION = TopicPartition(TOPIC, 0)


class HistoryNode(Node):
    """A node of this campaign."""

    module = "crash.follow_history_node"

    def counts(self, follower: "HistoryNode") -> bool:
        """Whether this leader has written down that a follower is in the ISR of every partition."""
        with suppress(PylogError), pylog.open(self.path, mode="read") as log:
            topics = log._node.image.topics
            states = [state for topic in topics.values() for state in topic.partitions.values()]
            return len(topics) == TOPICS and all(follower.number in state.isr for state in states)
        return False


class Client:
    """A thread that does one thing again and again until it is ended, and takes every error for an unknown fate."""

    def __init__(self, addresses: list[str], seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = pylog.connect(addresses, request_timeout_ms=2000)
        self.errors: Counter[str] = Counter()
        self.strange: list[BaseException] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.step()
            except (PylogError, TimeoutError) as error:
                self.errors[type(error).__name__] += 1
            except BaseException as error:
                self.strange.append(error)
                raise
            self._ended.wait(0.01)

    def step(self) -> None:
        raise NotImplementedError

    def partition(self) -> int:
        return self.chance.randrange(len(self.log.topic(TOPIC)))

    def end(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), f"{type(self).__name__} hangs"
        self.log.close()


class PlainWriter(Client):
    """It appends with acks=all, and notes where records lie that were acknowledged."""

    def __init__(self, addresses: list[str], seed: int) -> None:
        super().__init__(addresses, seed)
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self._count = 0
        self._producer = self.log.producer(acks="all", **QUICK)

    def step(self) -> None:
        partition, value = self.partition(), b"plain %d" % self._count
        self._count += 1
        offset = self._producer.send(TOPIC, value, partition=partition).result(60).offset
        self.acknowledged[value] = partition, offset


class TransactionWriter(Client):
    """It writes transactions, with a position in some, and notes how each of them ended."""

    def __init__(self, addresses: list[str], seed: int, name: str) -> None:
        super().__init__(addresses, seed)
        self.name = name
        self.sent: dict[int, set[bytes]] = {}
        self.outcomes: dict[int, bool | None] = {}
        """True: committed; False: aborted; None: not known."""
        self.positions: set[int] = set()
        self._count = 0
        self._producer: pylog.Producer | None = None

    @staticmethod
    def name_of(outcome: bool | None) -> str:
        return {True: "committed", False: "aborted", None: "of unknown fate"}[outcome]

    def step(self) -> None:
        if self._producer is None:
            self._producer = self.log.producer(
                transactional_id=self.name, transaction_timeout_ms=5000, max_block_ms=20_000, **QUICK
            )
        number, self._count = self._count, self._count + 1
        try:
            self._write(self._producer, number)
        except (PylogError, TimeoutError):
            producer, self._producer = self._producer, None
            with suppress(PylogError, TimeoutError):
                producer.close(0)
            raise

    def _write(self, producer: "pylog.Producer", number: int) -> None:
        # What is not said to be over is not known.
        self.sent[number], self.outcomes[number] = set(), None
        producer.begin()
        for part in range(self.chance.randrange(1, 4)):
            value = b"%s %d %d" % (self.name.encode(), number, part)
            self.sent[number].add(value)
            producer.send(TOPIC, value, partition=self.partition())
        if self.chance.random() < 0.5:
            self.positions.add(number)
            producer.send_offsets({POSITION: number}, pylog.ConsumerGroupMetadata(self.name))
        if self.chance.random() < 0.2:
            producer.abort(20)
            self.outcomes[number] = False
        else:
            producer.commit(20)
            self.outcomes[number] = True


class Committer(Client):
    """It commits positions that rise, and reads them."""

    def __init__(self, addresses: list[str], seed: int) -> None:
        super().__init__(addresses, seed)
        self.floor = -1
        self.sent = -1
        self.unheard: set[int] = set()
        self.wrong: list[str] = []
        self._consumer = self.log.consumer(
            group_id="g", enable_auto_commit=False, default_api_timeout_ms=3000, auto_offset_reset="earliest"
        )
        self._consumer.assign([POSITION])

    def step(self) -> None:
        if self.chance.random() < 0.5:
            self.sent += 1
            self.unheard.add(self.sent)
            self._consumer.commit({POSITION: self.sent})
            self.unheard.discard(self.sent)
            self.floor = self.sent
        found = position(self.log, "g")
        if not self.allows(found):
            self.wrong.append(f"the position is {found}, behind a commit of {self.floor}, before one of {self.sent}")

    def allows(self, found: int) -> bool:
        """Whether the group may be at this position now."""
        return self.floor <= found <= self.sent or found in self.unheard


def position(log: "pylog.Log | pylog.ConnectedLog", group: str) -> int:
    found = log.admin.committed(group).get(POSITION)
    return -1 if found is None else found.offset


def run(kills: int, seed: int = 0) -> str:
    """Kill so often. Gives what has happened. Raises AssertionError."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="pylog-follow-history-") as folder, ExitStack() as closing:
        nodes = [HistoryNode(number, Path(folder), seed + number) for number in (1, 2)]
        for node in nodes:
            closing.callback(node.network.close)
            closing.callback(node.kill)
        leader, follower = nodes
        leader.start("lead", follower)
        leader.wait()
        follower.start("follow", leader)
        follower.wait()
        addresses = [node.clients for node in nodes]
        plain, committer = PlainWriter(addresses, seed), Committer(addresses, seed)
        transactions = [TransactionWriter(addresses, seed + number, f"tx{number}") for number in range(2)]
        clients: list[Client] = [plain, committer, *transactions]
        for client in clients:
            client.start()
        told: Counter[str] = Counter()
        until(lambda: leader.counts(follower), patience=PATIENCE_SECONDS)
        leader, follower = _killed(leader, follower, kills, chance, plain.log, told)
        for node in nodes:
            node.network.is_cutting = False
        for client in clients:
            client.end()
        strange = [error for client in clients for error in client.strange]
        assert not strange, strange
        assert not committer.wrong, committer.wrong[:3]
        told["cuts"], told["silences"] = (sum(getattr(n.network, k) for n in nodes) for k in ("cuts", "swallowed"))
        _check(leader, follower, plain, committer, transactions, told)
        told += sum((client.errors for client in clients), Counter())
    return ", ".join(f"{count} {what}" for what, count in told.items())


def _killed(
    leader: HistoryNode, follower: HistoryNode, kills: int, chance: random.Random,
    log: "pylog.ConnectedLog", told: Counter[str],
) -> tuple[HistoryNode, HistoryNode]:  # fmt: skip
    made = 0
    while made < kills:
        for node in (leader, follower):
            node.network.is_cutting = True
        time.sleep(chance.uniform(0.05, 2 * ALIVE_SECONDS))
        if chance.random() < ADDED and (count := len(log.topic(TOPIC))) < PARTITIONS_MAX:
            with suppress(PylogError, TimeoutError):
                log.create_partitions(TOPIC, count + 1)
                told["partitions added"] += 1
        victims = chance.choice([[leader], [follower], [leader, follower]])
        for victim in victims:
            victim.kill()
        made += len(victims)
        # Behind the kill: a leader that lives may take the follower out of the ISR, and acknowledge without it.
        is_for_good = leader in victims and chance.random() < 2 * PROMOTED and leader.counts(follower)
        if is_for_good:
            told["promotions"] += 1
            follower.kill()
            leader, follower = follower, leader
            leader.start(f"promote:{chance.choice(ORDERS)}", follower)
            leader.wait()
            follower.start("follow", leader)
            follower.wait()
            continue
        for victim in victims:
            victim.start("lead" if victim is leader else "follow", follower if victim is leader else leader)
        for victim in victims:
            victim.wait()
    return leader, follower


def _check(
    leader: HistoryNode, follower: HistoryNode, plain: PlainWriter, committer: Committer,
    transactions: list[TransactionWriter], told: Counter[str],
) -> None:  # fmt: skip
    _until(lambda: _ends(leader) == _ends(follower), lambda: f"{_ends(leader)} and {_ends(follower)} stay apart")
    for node in (leader, follower):
        node.kill()
    # Before anything is opened: a leader that was killed writes markers of its last transactions again.
    assert _logs(leader) == _logs(follower), "the logs differ"
    for node in (leader, follower):
        with pylog.open(node.path, node_id=node.number) as log:
            assert not log.recovered and not log.quarantined, f"node {node.number}: {log.recovered} {log.quarantined}"
            views = list(log.topic(TOPIC))
            _check_records(views, plain, transactions, told)
            if node is leader:
                told["partitions"] = len(views)
                _check_positions(log, committer, transactions, told)
    told.update(writer.name_of(outcome) for writer in transactions for outcome in writer.outcomes.values())


def _logs(node: HistoryNode) -> dict[str, bytes]:
    """The bytes of each partition of the topic."""
    folders = sorted(node.path.glob(f"{TOPIC}-*"))
    return {one.name: b"".join(path.read_bytes() for path in sorted(one.glob("*.log"))) for one in folders}


def _until(what: Callable[[], bool], why: Callable[[], str]) -> None:
    try:
        until(what, patience=PATIENCE_SECONDS)
    except AssertionError:
        raise AssertionError(why()) from None


def _ends(node: HistoryNode) -> list[int]:
    """The end of each partition as another process sees it; nothing is hidden, and no transaction hangs."""
    with pylog.open(node.path, mode="read") as log:
        views = list(log.topic(TOPIC))
        ends = [view.next_offset for view in views]
        shown = all(view.next_offset == view.high_watermark == view.last_stable_offset for view in views)
    return ends if shown else [-node.number]


def _check_records(
    views: "list[pylog.PartitionView]", plain: PlainWriter, transactions: list[TransactionWriter], told: Counter[str]
) -> None:
    seen: Counter[bytes] = Counter()
    places: dict[bytes, tuple[int, int]] = {}
    for view in views:
        for record in view.records(isolation_level="read_committed"):
            seen[record.value or b""] += 1
            places[record.value or b""] = view.partition, record.offset
    twice = [value for value, count in seen.items() if count > 1]
    assert not twice, f"records are there twice: {twice[:3]}"
    # Of a batch that a node has forgotten, and has, the producer is not told the offset (-1).
    acknowledged = plain.acknowledged.items()
    wrong = {
        value: at
        for value, at in acknowledged
        if places.get(value, (-1, -2)) != at and (at[1] >= 0 or value not in places)
    }
    assert not wrong, f"{len(wrong)} acknowledged records are not where that was said: {list(wrong.items())[:3]}"
    told["records acknowledged"] = len(plain.acknowledged)
    for writer in transactions:
        for number, outcome in writer.outcomes.items():
            there = writer.sent[number] & seen.keys()
            name = f"transaction {number} of {writer.name}"
            assert outcome is not True or there == writer.sent[number], f"{name} was committed, and is torn: {there}"
            assert outcome is not False or not there, f"{name} was aborted, and is seen: {there}"
            assert not there or there == writer.sent[number], f"{name} is torn: {there} of {writer.sent[number]}"


def _check_positions(
    log: pylog.Log, committer: Committer, transactions: list[TransactionWriter], told: Counter[str]
) -> None:
    found = position(log, "g")
    assert committer.allows(found), f"the group is at {found}: {committer.floor}, {committer.sent}"
    told["positions committed"] = committer.floor + 1
    for writer in transactions:
        at = position(log, writer.name)
        sure = max((number for number in writer.positions if writer.outcomes[number] is True), default=-1)
        assert at >= sure, f"the group of {writer.name} is at {at}, and {sure} was committed in a transaction"
        assert at < 0 or writer.outcomes[at] is not False, f"the group of {writer.name} is at {at}, which was aborted"


if __name__ == "__main__":
    sys.exit(command("Kill a leader and its follower under transactions, groups and partitions that are added.", run))
