"""The transport of clients whose nodes are elsewhere: a message becomes the requests that it takes.

    most messages                       one request, to a node, a coordinator or any node
    ListGroups, ListTransactions,       one to each node, and the answers together
    DescribeLogDirs
    DescribeGroups, DeleteGroups,       one to the coordinator of each
    ConsumerGroupDescribe,
    DescribeTransactions
    DescribeConfigs,                    of a broker: to that one
    IncrementalAlterConfigs
    CreateTopics, CreatePartitions      one, and then Metadata until what was made has leaders
    Metadata                            again and again, where it may make topics (`allow.auto.create.topics`)

A client keeps what it knows: the transport has no state but its network.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, overload

from pylog.client.network.address import parse_all
from pylog.client.network.call import Call, NetworkFuture, patience_ms
from pylog.client.network.network import Network
from pylog.client.network.tls import client_context
from pylog.config.connection import ConnectionConfig
from pylog.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import (
    ApiRequest,
    Message,
    ResourceType,
    Session,
)
from pylog.protocol.messages.api import AllNodesRequest, NamesRequest, TopicResult
from pylog.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
)
from pylog.protocol.messages.share import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from pylog.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeLogDirsRequest,
    MetadataRequest,
    MetadataResponse,
)
from pylog.protocol.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from pylog.protocol.wire.questions.table import QUESTIONS
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed, gathered
from pylog.transport import ANY_NODE, Handle, PendingAnswer, Route

__all__ = ["NetworkTransport", "reached"]

R = TypeVar("R")
S = TypeVar("S")
Described = TypeVar("Described", DescribeGroupsResponse, ConsumerGroupDescribeResponse, ShareGroupDescribeResponse)
CREATION_MS = 5000
"""How long to wait for a topic that a server makes by itself, or does not."""
NOT_MADE_MS = 60_000
"""How long a topic that did not appear in time is not waited for again: a server does not say that it makes none."""
Resource = DescribeConfigsRequest.DescribeConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
LOOK_MS = 20
"""How soon to look again for leaders of what was made."""


def reached(
    bootstrap_servers: str | Sequence[str], configs: Mapping[str, object], clock: Clock
) -> tuple[str, Network, "NetworkTransport"]:
    """A cluster by its addresses: their text, the network, and the transport over it. Nothing is connected yet.

    Raises InvalidConfig, ValueError (no address).
    """
    addresses, settings = parse_all(bootstrap_servers), ConnectionConfig.from_kafka(configs)
    network = Network(addresses, settings, clock, client_context(settings))
    return ",".join(map(str, addresses)), network, NetworkTransport(network, settings, clock)


class NetworkTransport:
    """Messages to the nodes of a cluster. Thread-safe."""

    def __init__(self, network: Network, config: ConnectionConfig, clock: Clock) -> None:
        self._network = network
        self._config = config
        self._clock = clock
        self._not_made: dict[str, int] = {}
        """Until when topics are not waited for that no server has made. For the thread of the network."""
        self._compositions: dict[type, Route] = {
            ListGroupsRequest: self._everywhere,
            ListTransactionsRequest: self._everywhere,
            DescribeLogDirsRequest: self._everywhere,
            DescribeGroupsRequest: self._describe_groups,
            ConsumerGroupDescribeRequest: self._describe_groups,
            ShareGroupDescribeRequest: self._describe_groups,
            DeleteGroupsRequest: partial(self._by_names, "group"),
            DescribeTransactionsRequest: partial(self._by_names, "transaction"),
            DescribeConfigsRequest: self._describe_configs,
            IncrementalAlterConfigsRequest: self._alter_configs,
            CreateTopicsRequest: self._create_topics,
            CreatePartitionsRequest: self._create_partitions,
        }

    def attach(self, node: int, handle: Handle) -> None:
        """Raises ValueError: nodes are reached by a network, and are not in it."""
        raise ValueError("a node cannot be attached to a network: serve its log")

    def detach(self, node: int) -> None:
        """Do nothing: there was no node."""

    def send(self, node: int, message: Message, session: Session) -> PendingAnswer:
        """See `Transport`."""
        composition = self._compositions.get(type(message))
        if isinstance(message, MetadataRequest) and self._creates(message):
            composition = self._metadata
        if composition is None:
            return self._ask(node, message, session)
        # The answers of the parts are brought by the network's thread, which must not wait for the whole.
        whole = self._network.future()
        composition(message, session).add_done_callback(partial(_pass_on, whole))
        return whole

    def _creates(self, message: MetadataRequest) -> bool:
        return bool(message.topics) and (message.allow_auto_topic_creation or self._config.allow_auto_create_topics)

    def name(self, node: int) -> str:
        """See `Transport`. The last errors of nodes that cannot be reached are in it: they may be why none answers."""
        who, failures = "the cluster" if node == ANY_NODE else f"node {node}", self._network.routes.failures()
        return f"{who} (last error: {failures})" if failures else who

    def forget(self, session: Session) -> None:
        """See `Transport`."""
        self._network.forget(session)

    def abandon(self) -> None:
        """See `Transport`."""
        self._network.abandon()

    # --- one request -------------------------------------------------------------------------------------------------

    @overload
    def _ask(
        self, node: int, message: ApiRequest[R], session: Session, place: tuple[str, str] | None = None
    ) -> Future[R]: ...
    @overload
    def _ask(self, node: int, message: Message, session: Session) -> PendingAnswer: ...
    def _ask(
        self, node: int, message: Message, session: Session, place: tuple[str, str] | None = None
    ) -> PendingAnswer:
        answer = NetworkFuture(self._network)
        asked = QUESTIONS.get(type(message))
        if asked is None and not isinstance(message, ApiRequest):
            answer.set_exception(InvalidRequest(f"a {type(message).__name__} cannot be sent by a network"))
            return answer
        deadline = self._clock.tick_ms() + patience_ms(message, self._config.request_timeout_ms)
        call = Call(node, message, asked, session, answer, deadline)
        call.place = place or call.place
        self._network.send(call)
        return answer

    # --- several -----------------------------------------------------------------------------------------------------

    def _everywhere(self, message: AllNodesRequest[R], session: Session) -> Future[R]:
        def ask_all(_: MetadataResponse) -> Future[R]:
            nodes = sorted(self._network.routes.nodes)
            return gathered([self._ask(node, message, session) for node in nodes], message.joined)

        return self._then(self._ask(ANY_NODE, MetadataRequest.of([]), session), ask_all)

    def _by_names(self, kind: str, message: NamesRequest[R], session: Session) -> Future[R]:
        asked = [self._ask(ANY_NODE, message.only([name]), session, place=(kind, name)) for name in message.names]
        return gathered(asked, message.joined)

    def _describe_groups(self, message: NamesRequest[Described], session: Session) -> Future[Described]:
        def located(answer: Described) -> Future[Described]:
            for group in answer.groups:
                node = self._network.routes.coordinator(("group", group.group_id))
                group.coordinator = group.coordinator if node is None else node
            return completed(answer)

        return self._then(self._by_names("group", message, session), located)

    def _describe_configs(self, message: DescribeConfigsRequest, session: Session) -> Future[DescribeConfigsResponse]:
        def ask(node: int) -> Future[DescribeConfigsResponse]:
            named = [replace(one, resource_name=str(node)) if _is_any_broker(one) else one for one in message.resources]
            return self._ask(node, replace(message, resources=named), session)

        return self._at_broker(message.resources, ask, session)

    def _alter_configs(
        self, message: IncrementalAlterConfigsRequest, session: Session
    ) -> Future[IncrementalAlterConfigsResponse]:
        return self._at_broker(message.resources, lambda node: self._ask(node, message, session), session)

    def _at_broker(
        self, resources: Sequence[Resource], ask: Callable[[int], Future[R]], session: Session
    ) -> Future[R]:  # fmt: skip
        """Ask the broker that is named: its configs are for itself to tell and to change."""
        named = [one for one in resources if one.resource_type == ResourceType.BROKER and one.resource_name]
        if not named:
            return ask(ANY_NODE)

        def look(_: MetadataResponse) -> Future[R]:
            is_any = _is_any_broker(named[0])
            return ask(min(self._network.routes.nodes) if is_any else int(named[0].resource_name))

        return self._then(self._ask(ANY_NODE, MetadataRequest.of([]), session), look)

    def _metadata(self, message: MetadataRequest, session: Session) -> Future[MetadataResponse]:
        """Topics, made where they are missing. Kafka answers UnknownTopicOrPartition first, and has the topic a moment
        later.
        """
        whole, deadline = self._network.future(), self._clock.tick_ms() + CREATION_MS
        asked = replace(message, allow_auto_topic_creation=True)

        def ask() -> None:
            self._ask(ANY_NODE, asked, session).add_done_callback(check)

        def check(answer: Future[MetadataResponse]) -> None:
            now = self._clock.tick_ms()
            missing = [
                topic.name or ""
                for topic in (answer.result().topics if answer.exception() is None else ())
                if isinstance(topic.error, UnknownTopicOrPartition | LeaderNotAvailable)
            ]
            if now >= deadline:
                self._not_made = {name: due for name, due in self._not_made.items() if due > now}
                self._not_made |= dict.fromkeys(missing, now + NOT_MADE_MS)
            if any(self._not_made.get(name, 0) <= now for name in missing):
                self._network.later(LOOK_MS, ask)
            else:
                _pass_on(whole, answer)

        ask()
        return whole

    def _create_topics(self, message: CreateTopicsRequest, session: Session) -> Future[CreateTopicsResponse]:
        wanted = {} if message.validate_only else {topic.name: 1 for topic in message.topics}
        return self._made(self._ask(ANY_NODE, message, session), lambda found: found.topics, wanted, session)

    def _create_partitions(
        self, message: CreatePartitionsRequest, session: Session
    ) -> Future[CreatePartitionsResponse]:
        wanted = {} if message.validate_only else {topic.name: topic.count for topic in message.topics}
        return self._made(self._ask(ANY_NODE, message, session), lambda found: found.results, wanted, session)

    def _made(
        self, answer: Future[R], results: Callable[[R], Sequence[TopicResult]], wanted: dict[str, int], session: Session
    ) -> Future[R]:  # fmt: skip
        """Wait, in the answer, until each topic that was made has leaders for so many partitions."""
        deadline = self._clock.tick_ms() + self._config.request_timeout_ms

        def look(changed: R) -> Future[R]:
            whole = self._network.future()
            left = {one.name: wanted[one.name] for one in results(changed) if one.error is None and one.name in wanted}

            def ask() -> None:
                self._ask(ANY_NODE, MetadataRequest.of(left), session).add_done_callback(check)

            def check(found: Future[MetadataResponse]) -> None:
                is_there = found.exception() is not None or _has_leaders(found.result(), left)
                if not left or is_there or self._clock.tick_ms() >= deadline:
                    whole.set_result(changed)
                else:
                    self._network.later(LOOK_MS, ask)

            if left:
                ask()
            else:
                whole.set_result(changed)
            return whole

        return self._then(answer, look)

    def _then(self, first: Future[R], following: Callable[[R], Future[S]]) -> Future[S]:
        """The answer of what follows from the first answer."""
        whole = self._network.future()

        def go_on(answer: Future[R]) -> None:
            if answer.exception() is not None:
                _pass_on(whole, answer)
            else:
                following(answer.result()).add_done_callback(partial(_pass_on, whole))

        first.add_done_callback(go_on)
        return whole


def _is_any_broker(resource: Resource) -> bool:
    """True for the broker -1: it stands for the broker with the lowest id."""
    return resource.resource_type == ResourceType.BROKER and resource.resource_name == str(ANY_NODE)


def _pass_on(whole: Future[R], answer: Future[R]) -> None:
    error = answer.exception()
    if error is None:
        whole.set_result(answer.result())
    else:
        whole.set_exception(error)


def _has_leaders(found: MetadataResponse, wanted: dict[str, int]) -> bool:
    return all(
        topic.error is None
        and len(topic.partitions) >= wanted[topic.name or ""]
        and all(part.leader_id >= 0 for part in topic.partitions)
        for topic in found.named(list(wanted))
    )
