"""The node behind a server: its `handle`, its name in the cluster, and its topics by id."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from pylog.authorizer.standard import Authorizer, StandardAuthorizer, super_users_of
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from pylog.protocol.messages import ANONYMOUS, NO_ID, ApiRequest, DescribedQuorum, DescribeQuorum, Message, Session
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.operations import bits, supported
from pylog.runtime.clock import Clock
from pylog.server.client_log import ClientLog
from pylog.server.fetch_sessions import FetchSessions
from pylog.server.gate.gate import Gate
from pylog.server.listeners import ListenAddress, Place
from pylog.server.quotas import NO_QUOTAS, ClientQuotas
from pylog.transport import Handle

R = TypeVar("R")

NAMES_MAX = 10_000
NOWHERE = ListenAddress("", 0)


@dataclass(slots=True)
class ServedNode:
    """A node as its clients see it. What it leads and coordinates, its answers to Metadata tell."""

    handle: Handle
    node_id: int
    configs: DynamicBrokerConfig
    """What the node goes by now."""
    clock: Clock
    address: Place = NOWHERE
    """The address that clients are told to connect to."""
    authorizer: Authorizer | None = None
    """Decides what clients may do; None: everything."""
    admit: Handle = field(init=False)
    """`handle` for messages of clients: they get what they may have. The server's own go to `handle`."""
    quotas: ClientQuotas = NO_QUOTAS
    sessions: FetchSessions = field(init=False)
    log: ClientLog = field(init=False)
    _trusted: frozenset[str] = field(init=False)
    _gate: Gate | None = field(init=False, default=None)
    _names: dict[uuid.UUID, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Kafka has super users with an authorizer alone: without one every client is trusted.
        self._trusted = frozenset(super_users_of(self.config.super_users) or (ANONYMOUS,))
        self.admit = self.handle
        if self.authorizer is not None:
            self._gate = Gate(self.authorizer, self.handle)
            self.admit = self._gate.admit
        self.sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock)
        self.log = ClientLog(self.clock)

    @property
    def config(self) -> NodeConfig:
        """The config that the node was opened with."""
        return self.configs.given

    def but(self, **changes: Any) -> "ServedNode":
        """The same node with another `address` or `handle`: all else, fetch sessions too, is shared with it."""
        made = replace(self, **changes)
        made.sessions, made.log = self.sessions, self.log
        return made

    def nodes(self, found: MetadataResponse) -> dict[int, tuple[str, int]]:
        """Host and port of the nodes by its answer to Metadata: its own, and those of leaders elsewhere."""
        return {self.node_id: (self.address.host, self.address.port), **found.nodes}

    def trusts(self, session: Session) -> bool:
        """Whether a client may do what is between nodes (ClusterAction): the authorizer allows it, or without one
        `super.users` names it, or it is in the process of the node.
        """
        if self._gate is not None:
            return self.allows(session, AclOperation.CLUSTER_ACTION)
        if not session.principal:
            return True
        # User:ANONYMOUS there means clients without a name, not a user who is called so.
        return session.principal in self._trusted and session.is_proved == (session.principal != ANONYMOUS)

    @property
    def has_acls(self) -> bool:
        """Whether it goes by ACLs."""
        return isinstance(self.authorizer, StandardAuthorizer)

    def allows(
        self, session: Session, operation: AclOperation, kind: AclResourceType = AclResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:  # fmt: skip
        """Whether a client may do this with that resource."""
        return self._gate is None or self._gate.caller(session).may(operation, kind, name)

    def refused(
        self, session: Session, operation: AclOperation, kind: AclResourceType, names: Iterable[str]
    ) -> set[str]:  # fmt: skip
        """Those of the names with which a client may not do this."""
        return set() if self._gate is None else self._gate.caller(session).refused(operation, kind, names)

    def operations(self, session: Session, kind: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that a client may do with a resource, as bits."""
        return bits(supported(kind)) if self._gate is None else self._gate.caller(session).operations(kind, name)

    @overload
    def ask(self, message: ApiRequest[R], session: Session) -> R: ...
    @overload
    def ask(self, message: DescribeQuorum, session: Session) -> DescribedQuorum: ...
    def ask(self, message: Message, session: Session) -> object:
        """The answer to a message that never waits."""
        return self.handle(message, session).result()

    def name_topics(self, topics: list[Any], session: Session) -> None:
        """Give topics that a request names by their ids their names: "" where an id is not known."""
        names = self.names([topic.topic_id for topic in topics if topic.topic_id != NO_ID], session)
        for topic in topics:
            topic.name = names.get(topic.topic_id, "")

    def identify(self, topics: list[Any], session: Session) -> None:
        """Give topics that have names their ids, where there are such topics."""
        asked = MetadataRequest.of([topic.name for topic in topics], partitions_max=0)
        found: MetadataResponse = self.ask(asked, session)
        ids = {topic.name: topic.topic_id for topic in found.topics if topic.error is None}
        for topic in topics:
            topic.topic_id = ids.get(topic.name, NO_ID)

    def names(self, topic_ids: Iterable[uuid.UUID], session: Session) -> dict[uuid.UUID, str]:
        """The names of the topics with these ids. Unknown ids are left out."""
        asked = list(topic_ids)
        message = MetadataRequest.of([], asked, partitions_max=0)
        found: MetadataResponse = self.ask(message, session) if asked else MetadataResponse()
        return {topic.topic_id: topic.name or "" for topic in found.topics if topic.error is None}

    def id_of(self, topic: str, session: Session) -> uuid.UUID:
        """The id of the topic of this name, or NO_ID."""
        found: MetadataResponse = self.ask(MetadataRequest.of([topic], partitions_max=0), session)
        return NO_ID if found.topics[0].error is not None else found.topics[0].topic_id

    def known_name(self, topic_id: uuid.UUID, session: Session) -> str:
        """The name of a topic from memory; "" where the id is not known. It is for messages that carry the id: the
        node refuses an id that does not fit the name, and a name that is not there any more.
        """
        names = self._names
        name = names.get(topic_id)
        if name is None:
            name = self.names([topic_id], session).get(topic_id, "")
            if name:
                if len(names) >= NAMES_MAX:
                    names.clear()
                names[topic_id] = name
        return name
