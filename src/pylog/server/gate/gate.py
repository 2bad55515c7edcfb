"""The gate of a server: an authorizer, and the node behind it.

Most requests are like one before them: a Produce to a topic, or a Fetch of one partition, of the same client. Where the
authorizer remembers that it has allowed the operation, such a request goes on without its rule: two calls of Python in
place of eight.
"""

from collections.abc import Callable

from pylog.authorizer.standard import Authorizer, Question
from pylog.errors import ClusterAuthorization
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages import ANONYMOUS, Fetch, Message, ProduceRequest, Session
from pylog.server.gate.caller import Caller
from pylog.server.gate.table import RULES
from pylog.transport import Handle, PendingAnswer

READ, WRITE, TOPIC = AclOperation.READ, AclOperation.WRITE, AclResourceType.TOPIC


def _nothing(question: Question) -> bool:
    return False


class Gate:
    """The gate before one node. Thread-safe, if the authorizer is."""

    def __init__(self, authorizer: Authorizer, handle: Handle) -> None:
        self._authorizer, self._handle = authorizer, handle
        self._has_allowed: Callable[[Question], bool] = getattr(authorizer, "has_allowed", _nothing)

    def caller(self, session: Session) -> Caller:
        """A client of the server."""
        return Caller(self._authorizer, self._handle, session)

    def admit(self, message: Message, session: Session) -> PendingAnswer:
        """The answer of the node to what it gets of a client's message, and the refusal of the rest."""
        kind, principal = type(message), session.principal
        if principal != ANONYMOUS or not session.is_proved:
            # No call but one, as each Produce comes by here.
            if isinstance(message, ProduceRequest) and len(message.topic_data) == 1:
                name = message.topic_data[0].name
                is_plain = message.transactional_id is None
                if is_plain and self._has_allowed((principal, session.host[1:], WRITE, TOPIC, name)):
                    return self._handle(message, session)
            elif isinstance(message, Fetch) and len(message.parts) == 1:
                name = message.parts[0].topic
                if self._has_allowed((principal, session.host[1:], READ, TOPIC, name)):
                    return self._handle(message, session)
        rule = RULES.get(kind)
        if rule is None:
            raise ClusterAuthorization(f"{kind.__name__} has no rule")
        return rule(self.caller(session), message)
