"""A node and its transactional producers, over files that a test lays out or cuts."""

from typing import Any

import pylog
from pylog import errors
from pylog.broker.broker import Broker
from pylog.client.admin.admin import Admin
from pylog.client.cluster import Cluster
from pylog.config import NodeConfig
from pylog.files import Files, MemoryFiles
from pylog.handles.views import TopicView
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.record import TopicPartition
from pylog.testing import SimClock
from support.killed import killed_at_last
from support.messages import Offset, commit_errors, end_txn, fetched, init_producer_id, offset_fetch, txn_offset_commit

Tree = dict[str, bytes | None]

SESSION = Session("tester")
NOW = 1_700_000_000_000
CONFIG = NodeConfig(transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1)
KEYS = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Node:
    """A node over a tree, or over other files, and what is said to it."""

    def __init__(
        self, tree: Tree | None = None, *, flush: str = "none", files: Files | None = None, boot: str | None = None
    ) -> None:
        self.clock = clock = SimClock(NOW, 0)
        self.files = MemoryFiles(clock, tree, boot=boot)
        transport = pylog.MemoryTransport()
        broker = Broker(
            files or self.files, ["log"], config=CONFIG, clock=clock, transport=transport, node_id=None, flush=flush
        )
        self.broker = killed_at_last(broker)
        self.admin = Admin(Cluster(transport, self.broker.node_id, "admin"))

    def ask(self, message: Any) -> Any:
        return self.broker.handle(message, SESSION).result(10)

    def produce(self, key: TopicPartition, batch: Any, name: str | None = None) -> int:
        (part,) = self.ask(ProduceRequest.of(*key, batch, transactional_id=name)).parts
        if part.error is not None:
            raise part.error
        base_offset: int = part.base_offset
        return base_offset

    def unstable(self) -> list[tuple[int, TopicPartition]]:
        """(producer id, partition) of what is open."""
        offsets = [TopicPartition("__consumer_offsets", 0)] if "__consumer_offsets" in self.broker.image.topics else []
        found = self.admin.describe_producers(KEYS + offsets)
        return [
            (one.producer_id, key) for key, some in found.items() for one in some if one.current_txn_start_offset >= 0
        ]


class Client:
    """A transactional producer."""

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.name = node, name
        given = node.ask(init_producer_id(name))
        if isinstance(given.error, errors.ConcurrentTransactions):
            # It has aborted what its predecessor has left.
            given = node.ask(init_producer_id(name))
        assert given.error is None, given.error
        self.id, self.epoch = given.producer_id, given.producer_epoch
        self.sent: dict[TopicPartition, int] = {}

    def send(self, value: bytes, *keys: TopicPartition) -> dict[TopicPartition, int]:
        offsets = {}
        for key in keys:
            batch = encode(
                [(value, None, NOW, ())], now_ms=NOW, producer_id=self.id, producer_epoch=self.epoch,
                base_sequence=self.sent.get(key, 0), transactional=True,
            )  # fmt: skip
            offsets[key] = self.node.produce(key, batch, self.name)
            self.sent[key] = self.sent.get(key, 0) + 1
        return offsets

    def commit_offset(self, offset: int) -> None:
        part = Offset("t", 0, offset)
        answer = self.node.ask(txn_offset_commit(self.name, "g", self.id, self.epoch, [part]))
        assert commit_errors(answer) == {KEYS[0]: None}

    def end(self, *, committed: bool) -> None:
        ended = self.node.ask(end_txn(self.name, self.id, self.epoch, committed))
        assert ended.error is None, ended.error
        self.id, self.epoch, self.sent = ended.producer_id, ended.producer_epoch, {}


def committed(node: Node, key: TopicPartition) -> set[bytes | None]:
    view = TopicView(node.broker, key.topic, SimClock(NOW, 0))[key.partition]
    return {record.value for record in view.records(isolation_level="read_committed")}


def committed_offset(node: Node) -> int:
    """The offset of the group for the first partition; -1: none."""
    (part,) = fetched(node.ask(offset_fetch("g", KEYS[:1], require_stable=True)))
    assert part.error is None
    offset: int = part.offset
    return offset
