"""One client at the gate: what it may do, and the way to the node."""

import logging
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from pylog.authorizer.standard import Authorizer
from pylog.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from pylog.protocol.messages import ANONYMOUS, Session
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse, MetadataTopic
from pylog.protocol.operations import bits, supported
from pylog.transport import Handle, PendingAnswer

logger = logging.getLogger("pylog.server")

NOBODY_BY_NAME = "User:"
"""The principal of a user who is called ANONYMOUS: ACLs with that name mean the clients without one."""


class Caller:
    """One client at the gate."""

    __slots__ = ("_authorizer", "_handle", "host", "principal", "session")

    def __init__(self, authorizer: Authorizer, handle: Handle, session: Session) -> None:
        self._authorizer, self._handle, self.session = authorizer, handle, session
        principal = session.principal
        self.principal = NOBODY_BY_NAME if principal == ANONYMOUS and session.is_proved else principal
        self.host = session.host[1:]
        """A session has it behind a slash."""

    def may(self, operation: AclOperation, kind: AclResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether it may do this with that resource."""
        return self._allowed(self._authorizer.authorize, operation, kind, name)

    def may_any(self, operation: AclOperation, kind: AclResourceType) -> bool:
        """Whether it may do this with any resource of a type, as far as the authorizer can tell."""
        ask = getattr(self._authorizer, "authorize_any", None)
        return ask is not None and self._allowed(ask, operation, kind)

    def _allowed(self, ask: Callable[..., bool], operation: AclOperation, *resource: object) -> bool:
        """The decision of an authorizer. It may be anybody's code: one that raises allows nothing."""
        try:
            return bool(ask(self.principal, self.host, operation, *resource))
        except Exception:
            logger.exception("the authorizer could not say whether %s may %s", self.principal, operation.name)
            return False

    def refused(self, operation: AclOperation, kind: AclResourceType, names: Iterable[str]) -> set[str]:
        """Those of the names with which it may not do this.

        The empty name of a topic is that of an id which no topic has: the node answers that.
        """
        wanted = set(names) - {""} if kind == AclResourceType.TOPIC else set(names)
        return {name for name in wanted if not self.may(operation, kind, name)}

    def operations(self, kind: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that it may do with a resource, as bits."""
        return bits(one for one in supported(kind) if self.may(one, kind, name))

    def send(self, message: Any) -> PendingAnswer:
        """The answer of the node."""
        return self._handle(message, self.session)

    def topics(self, names: Iterable[str] = (), ids: Iterable[UUID] = ()) -> list[MetadataTopic]:
        """Those of these topics that there are. It is not for the client."""
        asked = MetadataRequest.of(names, ids, partitions_max=0)
        found: MetadataResponse = self._handle(asked, Session()).result() if asked.topics else MetadataResponse()
        return [topic for topic in found.topics if topic.error is None]

    def names(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        """The names of the topics with these ids. It is not for the client."""
        return {topic.topic_id: topic.name or "" for topic in self.topics(ids=ids)}
