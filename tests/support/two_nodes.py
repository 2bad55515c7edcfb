"""A cluster of two nodes over one log, whose leaders and coordinators move when a test says so.

Each node has a server of its own and answers for what it leads and coordinates alone, as nodes of a Kafka cluster do:
another one is NotLeaderOrFollower, or NotCoordinator. The records of both are those of one log in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import pylog
from pylog.client.network.call import coordinator_of
from pylog.errors import NotCoordinator, NotLeaderOrFollower, PylogError
from pylog.protocol.messages import Fetch, Fetched, FetchedPart, ProduceRequest, Session
from pylog.protocol.messages.api import PartitionsRequest
from pylog.protocol.messages.records import DeleteRecordsRequest, ListOffsetsRequest
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.wire.mapping import Body
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed
from pylog.server.api.call import Fate
from pylog.server.dispatch import ServedCall
from pylog.server.served_node import ServedNode
from pylog.server.server import Server

__all__ = ["TwoNodes"]

FIND_COORDINATOR = 10
OF_LEADERS: dict[type, Callable[[Any, PylogError], Any]] = {
    ProduceRequest: ProduceRequest.refused,
    Fetch: lambda message, error: Fetched([FetchedPart(p.topic, p.partition, error) for p in message.parts]),
    ListOffsetsRequest: ListOffsetsRequest.refused,
    DeleteRecordsRequest: DeleteRecordsRequest.refused,
}


class TwoNodes:
    """The nodes 1 and 2. `lead` and `coordinate` say which of them has a partition, or everything that is coordinated.

    `asked` has (node, class of the message) of each message that was answered by what it was for.
    """

    def __init__(self) -> None:
        self.log = pylog.open(":memory:")
        self.leaders: dict[TopicPartition, int] = {}
        self.coordinator = 1
        self.asked: list[tuple[int, type]] = []
        self.servers: dict[int, Server] = {}
        for node in (1, 2):
            self.start(node)

    def start(self, node: int, listen: str = "127.0.0.1:0") -> None:
        """Serve a node."""
        broker = self.log.broker
        served = _Node(broker.handle, node, broker.configs, SystemClock())
        served.cluster = self
        served.handle = served.answer
        self.servers[node] = Server(served, listen, intercept=self._intercept)

    def stop(self, node: int) -> None:
        """Take a node away; its address stays in what the other one tells."""
        self.servers[node].close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.bootstrap_servers for server in self.servers.values())

    def lead(self, node: int, *keys: TopicPartition) -> None:
        """Let a node lead partitions."""
        self.leaders.update(dict.fromkeys(keys, node))

    def brokers(self) -> list[Body]:
        found = {node: server.bootstrap_servers.rpartition(":") for node, server in self.servers.items()}
        return [{"nodeId": node, "host": host, "port": int(port)} for node, (host, _, port) in found.items()]

    def _intercept(self, call: ServedCall) -> Fate | None:
        if call.api.key != FIND_COORDINATOR or call.request is None:
            return None
        place = next(one for one in self.brokers() if one["nodeId"] == self.coordinator)
        keys = call.request.body["coordinatorKeys"]
        return Fate(lambda _: {"coordinators": [{"key": key, **place, "errorCode": 0} for key in keys]})

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@dataclass(slots=True)
class _Node(ServedNode):
    cluster: Any = None

    def answer(self, message: Any, session: Session) -> Future[Any]:
        cluster: TwoNodes = self.cluster
        broker = cluster.log.broker
        if isinstance(message, MetadataRequest):
            answer = broker.handle(message, session).result()
            broker_of = MetadataResponse.MetadataResponseBroker
            others = [
                broker_of(node_id=one["nodeId"], host=one["host"], port=one["port"])
                for one in cluster.brokers()
                if one["nodeId"] != self.node_id
            ]
            topics = [self._described(topic) for topic in answer.topics]
            return completed(replace(answer, brokers=others, topics=topics))
        refusal = self._refusal(message)
        if refusal is not None:
            return completed(refusal)
        cluster.asked.append((self.node_id, type(message)))
        return broker.handle(message, session)

    def _described(self, topic: Any) -> Any:
        leaders = self.cluster.leaders
        parts = [
            replace(part, leader_id=leaders.get(TopicPartition(topic.name, part.partition_index), 1))
            for part in topic.partitions
        ]
        return replace(topic, partitions=parts)

    def _refusal(self, message: Any) -> Any:
        cluster: TwoNodes = self.cluster
        refused = OF_LEADERS.get(type(message))
        if refused is not None and any(cluster.leaders.get(key, 1) != self.node_id for key in _partitions(message)):
            return refused(message, NotLeaderOrFollower("another node leads it"))
        if coordinator_of(message) is not None and cluster.coordinator != self.node_id:
            return message.refused(NotCoordinator("another node coordinates it"))
        return None


def _partitions(message: Any) -> list[TopicPartition]:
    if isinstance(message, PartitionsRequest):
        return message.partitions()
    if isinstance(message, ProduceRequest):
        return [TopicPartition(topic.name, part.index) for topic, part in message.pairs]
    return [TopicPartition(part.topic, part.partition) for part in message.parts]
