"""The way of a message to a node: the one seam between clients and nodes, and between nodes.

`send` gives a future at once: a transport never blocks its caller for an answer, and never raises what the node may
answer. An unreachable node is a failed future with a retriable error, and so is a silent one: every future is answered
in the end, and what was sent does not reach the node after that. Messages of one client reach a node in the order in
which they were sent, as far as that goes: of two commits of a partition the one that comes last counts.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from pylog.errors import NetworkError
from pylog.protocol.messages import Message, Session
from pylog.runtime.future import Future, failed

PendingAnswer: TypeAlias = Future[Any]
"""The future of an answer, a value of the class that goes with the class of the message."""
Handle = Callable[[Message, Session], PendingAnswer]
Route = Callable[[Any, Session], PendingAnswer]
"""Answers the messages of one class."""
ANY_NODE = -1
"""Any node of the cluster, or the coordinator that a message is for. As a leader's id: the partition has no leader."""


class Transport(Protocol):
    """The network as clients and followers see it.

    >>> transport = pylog.MemoryTransport()
    >>> other = pylog.open(":memory:", node_id=7, transport=transport)
    """

    def attach(self, node: int, handle: Handle) -> None:
        """From now on messages to `node` go to `handle`."""

    def detach(self, node: int) -> None:
        """The node is gone: messages to it fail."""

    def send(self, node: int, message: Message, session: Session) -> PendingAnswer:
        """Deliver `message`; the future is the node's answer, a value of the matching class in `message`."""

    def name(self, node: int) -> str:
        """A node as a message calls it: "node 1", or a process that has it."""

    def forget(self, session: Session) -> None:
        """A client is closed: it sends nothing more under this session."""

    def abandon(self) -> None:
        """Let go of everything in a forked child: what goes on is its parent's."""


class MemoryTransport:
    """Nodes of one process, called in the caller's thread; nothing is copied. Several logs may share one.

    >>> transport = pylog.MemoryTransport()
    >>> with pylog.open(":memory:", node_id=7, transport=transport) as first:
    ...     first.node_id
    7
    """

    def __init__(self) -> None:
        self._handles: dict[int, Handle] = {}

    def attach(self, node: int, handle: Handle) -> None:
        """Raises ValueError when another open node has that id."""
        if node in self._handles:
            raise ValueError(f"node {node} is attached to this transport already: give each log its own node_id")
        self._handles[node] = handle

    def detach(self, node: int) -> None:
        self._handles.pop(node, None)

    def send(self, node: int, message: Message, session: Session) -> PendingAnswer:
        handle = self._handles.get(node)
        if handle is None:
            return failed(NetworkError(f"node {node} is not attached to this transport: its log is closed"))
        return handle(message, session)

    def name(self, node: int) -> str:
        return f"node {node}"

    def forget(self, session: Session) -> None:
        pass

    def abandon(self) -> None:
        pass
