"""The gate of a server: an authorizer, and the node behind it."""

from pylog.authorizer.standard import Authorizer
from pylog.errors import ClusterAuthorization
from pylog.protocol.messages import Message, Session
from pylog.server.gate.caller import Caller
from pylog.server.gate.table import RULES
from pylog.transport import Handle, PendingAnswer


class Gate:
    """The gate before one node. Thread-safe, if the authorizer is."""

    def __init__(self, authorizer: Authorizer, handle: Handle) -> None:
        self._authorizer, self._handle = authorizer, handle

    def caller(self, session: Session) -> Caller:
        """A client of the server."""
        return Caller(self._authorizer, self._handle, session)

    def admit(self, message: Message, session: Session) -> PendingAnswer:
        """The answer of the node to what it gets of a client's message, and the refusal of the rest."""
        rule = RULES.get(type(message))
        if rule is None:
            raise ClusterAuthorization(f"{type(message).__name__} has no rule")
        return rule(self.caller(session), message)
