"""A request on its way: the message, who sends it, until when it has to be answered, and the future of its answer."""

import logging
from collections import deque
from math import inf
from typing import Any, Protocol

from pylog.client.network.address import Address
from pylog.client.network.lookup import FindCoordinator
from pylog.client.network.prepared import PreparedQuestion
from pylog.errors import NetworkError, PylogError, SaslAuthentication, UnsupportedSaslMechanism
from pylog.protocol.messages import Fetch, Message, OfGroup, ProduceRequest, Session
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    group_of,
)
from pylog.protocol.messages.records import DeleteRecordsRequest, ListOffsetsRequest
from pylog.protocol.messages.share import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupDescribeRequest
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from pylog.protocol.wire.questions.question import Question
from pylog.runtime.clock import stopwatch_ns
from pylog.runtime.future import Future, LentSocket
from pylog.transport import Handle, PendingAnswer

__all__ = [
    "HARMLESS_TWICE", "IDENTITY_REFUSED", "LEADER_BOUND", "READ_BY_CALLER", "Call", "NetworkFuture", "coordinator_of",
    "lane_of", "patience_ms",
]  # fmt: skip

logger = logging.getLogger("pylog.client")

ANSWER_MS_SPARE = 1000
JOIN_MS_SPARE = 5000
FETCHING, MEMBERSHIP, ANYTHING = "fetching", "membership", "anything"
LEADER_BOUND = (
    ProduceRequest, Fetch, ShareFetchRequest, ShareAcknowledgeRequest,
    ListOffsetsRequest, DeleteRecordsRequest, DescribeProducersRequest, WriteTxnMarkersRequest,
)  # fmt: skip
READ_BY_CALLER: dict[type, float] = {ProduceRequest: inf, ShareFetchRequest: 0.01, ShareAcknowledgeRequest: 0.01}
"""The messages whose answers a waiting caller reads itself (decision 0037), and for how many seconds at most. A share
consumer waits for more than one thing: a `wakeup`, the end of its log.
"""
HARMLESS_TWICE = (
    MetadataRequest, FindCoordinator, ListGroupsRequest, ListTransactionsRequest, DescribeGroupsRequest,
    ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, DescribeTransactionsRequest,
)  # fmt: skip
"""What any node may be asked again when a connection was lost, as it changes nothing."""
IDENTITY_REFUSED = (SaslAuthentication, UnsupportedSaslMechanism)
"""Errors after which asking again is of no use: they are for the user."""


class Bringer(Protocol):
    """A network, as its futures see it."""

    @property
    def has_turn(self) -> bool:
        """Whether the caller's thread brings answers."""

    def drive(self, future: "NetworkFuture", timeout: float | None) -> None:
        """See `Future.drive`."""

    def lend(self, future: "NetworkFuture") -> LentSocket | None:
        """See `Future.lend`."""


class NetworkFuture(Future[Any]):
    """An answer that a network brings. The thread that brings answers must not wait for one."""

    __slots__ = ("_bringer", "drive_seconds", "link")

    def __init__(self, bringer: Bringer) -> None:
        # As `Future` does. A client adds a callback to each of them.
        self._done = False
        self._value = self._error = self._traceback = None
        self._callbacks = deque()
        self._bringer = bringer
        self.link: Any = None
        """The connection that its caller has sent the request by, and may read the answer from."""
        self.drive_seconds = 0.0
        """How long its caller reads at most: then it waits for other things, too."""

    def drive(self, timeout: float | None = None) -> None:
        """See `Future.drive`: receive the answer in this thread, where its connection has no other one to bring."""
        if self.link is not None:
            self._bringer.drive(self, timeout)

    def lend(self) -> LentSocket | None:
        """See `Future.lend`."""
        return None if self.link is None else self._bringer.lend(self)

    def _wait(self, timeout: float | None) -> None:
        if self._bringer.has_turn:
            raise RuntimeError(
                "this call waits for an answer in the thread that brings the answers, where it would wait for ever: "
                "it is in a callback of a record or of a commit. Do it outside of that"
            )
        super()._wait(timeout)


class Call:
    """One request, from `send` to its answer. `question` is None where the message is the request itself."""

    __slots__ = (
        "attempts", "begun_ns", "deadline_ms", "future", "is_silent", "message", "name", "node", "place", "prepared",
        "question", "session", "tried", "version",
    )  # fmt: skip

    def __init__(
        self, node: int, message: Any, question: Question | None, session: Session, future: PendingAnswer,
        deadline_ms: int,
    ) -> None:  # fmt: skip
        self.node = node
        self.message = message
        self.question = question
        self.name: str = message.api_name() if question is None else question.name
        """The name of the API key."""
        self.session = session
        self.future = future
        self.deadline_ms = deadline_ms
        self.begun_ns = stopwatch_ns()
        self.attempts = 0
        self.version = -1
        self.prepared: PreparedQuestion | None = None
        """What its answer is compared with."""
        self.tried: set[Address] = set()
        """The addresses that could not be reached, where any node would do."""
        self.place: tuple[str, str] | None = None if type(message) is ProduceRequest else coordinator_of(message)
        """The kind and the key of the coordinator that it is for."""
        self.is_silent = type(message) is ProduceRequest and message.acks == 0
        """Whether the node will not answer: then the bytes on their way are the answer."""

    def answer(self, value: object) -> None:
        """Answer it. What a callback raises is logged: the thread of the network has others to serve."""
        try:
            self.future.set_result(value)
        except Exception:
            logger.exception("a callback of the answer to a %s failed", self.name)

    def fail(self, error: BaseException) -> None:
        """Answer it with an error, unless it is answered already."""
        if self.future.done():
            return
        try:
            self.future.set_exception(error)
        except Exception:
            logger.exception("a callback of the failed %s failed", self.name)

    def hand_to(self, successor: Handle) -> None:
        """Let a node of this process answer it."""
        if isinstance(self.message, FindCoordinator):
            # The calls that waited for it were handed over before it.
            self.fail(NetworkError("the node is in this process now"))
            return
        try:
            successor(self.message, self.session).add_done_callback(self._take)
        except PylogError as error:
            self.fail(error)

    def _take(self, answer: PendingAnswer) -> None:
        error = answer.exception()
        if error is None:
            self.answer(answer.result())
        else:
            self.fail(error)


def coordinator_of(message: Message) -> tuple[str, str] | None:
    """The group or transaction that a message is about, as ("group", id) or ("transaction", id); None: it has none."""
    if isinstance(message, OfGroup):
        return "group", group_of(message)
    if isinstance(message, InitProducerIdRequest | EndTxnRequest) and message.transactional_id is not None:
        return "transaction", message.transactional_id
    return None


def lane_of(message: Message) -> str:
    """The connection, of those of one client to one node, that a message takes: a node answers the requests of a
    connection one after the other, and some wait for records, or for other members.
    """
    if type(message) is ProduceRequest:
        return ANYTHING
    if isinstance(message, Fetch | ShareFetchRequest | ShareAcknowledgeRequest):
        return FETCHING
    return MEMBERSHIP if isinstance(message, OfGroup) else ANYTHING


def patience_ms(message: Message, request_timeout_ms: int) -> int:
    """The time to wait for the answer to a message."""
    if isinstance(message, ProduceRequest):
        return message.timeout_ms + ANSWER_MS_SPARE
    if isinstance(message, Fetch | ShareFetchRequest):
        return message.max_wait_ms + request_timeout_ms
    if isinstance(message, JoinGroupRequest):
        return max(message.rebalance_timeout_ms + JOIN_MS_SPARE, request_timeout_ms)
    return request_timeout_ms
