"""One client: its frames, the answers that it is owed, and its outgoing bytes.

    socket -> framer -> frames -> a call each -> answers, in the order of the requests -> outgoing -> socket

A request begins when all requests before it are answered, so they take effect in their order. Only a Produce may begin
behind other Produces that still wait for a disk or for replicas, and a ShareAcknowledge behind a ShareFetch that waits
for records.

Backpressure: nothing is received from a client while one of its requests waits for its turn. Nothing is received, and
no request begins, while `UNSENT_BYTES` or more are on their way to it. No Produce begins behind `PIPELINED_BYTES` of
others.

A client that has ended its side of the connection still gets the answers that it is owed. A Fetch that waits for
records ends with its client: nobody would fetch on from there. So does what the node holds for it, a share session.
"""

import socket
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from pylog.errors import PylogError
from pylog.protocol.messages import ClientGone, Session
from pylog.protocol.schema import Piece
from pylog.protocol.wire.framing import Framer
from pylog.runtime.agenda import Appointment
from pylog.runtime.outgoing import Outgoing
from pylog.runtime.sockets import hang_up
from pylog.server.api.call import Fate, Later
from pylog.server.dispatch import ServedCall, may_end_poll, may_overlap, read_request
from pylog.server.prepared import PREPARED_MAX, PreparedProduce
from pylog.server.served_node import ServedNode
from pylog.transport import PendingAnswer

if TYPE_CHECKING:
    from pylog.server.authentication import Authentication
    from pylog.server.tls import TlsSocket

_NUMBERS = count(1)
UNSENT_BYTES = 1 << 20
RECORD_POLLS = frozenset({"Fetch", "ShareFetch"})
PIPELINED_MAX = 64
"""How many requests of a connection may be under way at once."""
PIPELINED_BYTES = 32 << 20
"""How many bytes the Produces under way may have before another one waits for its turn."""


@dataclass(slots=True, eq=False)
class Pending:
    """A request that has begun. `pieces` are its response, or None."""

    call: ServedCall
    held: int
    """How many bytes of its request are held until it is answered: those of records, or of a large one."""
    begun_ns: int
    pieces: list[Piece] | None = None
    size: int = 0
    fate: Fate | None = None
    answer: PendingAnswer | None = None
    """What its response waits for."""
    is_large: bool = False
    """Whether it is decoded and answered outside the loop's thread."""
    session: Session | None = None
    """Its client; None where nobody could tell."""
    frame_bytes: int = 0
    spent_ns: int = 0
    """How long threads were at it so far, where there are quotas."""
    throttle_ms: int = 0
    """How long its client is passed over, as a quota is used up."""


class Connection:
    """The state of one connection. For the loop's thread."""

    __slots__ = (
        "address", "answers", "appointments", "authentication", "framer", "frames", "host", "is_closed", "is_ended",
        "is_exclusive", "mask", "mutes", "node", "number", "outgoing", "prepared", "prepares", "principal", "socket",
        "tls", "under_way", "used_ms",
    )  # fmt: skip

    def __init__(
        self, client: socket.socket, host: str, node: ServedNode, now_ms: int,
        authentication: "Authentication | None" = None, tls: "TlsSocket | None" = None,
    ) -> None:  # fmt: skip
        self.socket: socket.socket | TlsSocket = client if tls is None else tls
        self.tls = tls
        """The same where the connection is encrypted."""
        self.address = host
        """The address of the client; empty for one of a Unix socket."""
        self.host = f"/{host}"
        self.node = node
        """The node as clients of its listener see it."""
        self.principal: str | None = None
        """The name that the client has proved by its certificate; None: none."""
        self.authentication = authentication
        """None: its listener has no SASL."""
        limit = node.config.socket_request_max_bytes if authentication is None else authentication.frame_bytes_max
        self.framer = Framer(limit)
        self.frames: deque[bytearray] = deque()
        self.answers: deque[Pending] = deque()
        self.outgoing = Outgoing(has_tls=tls is not None)
        self.is_exclusive = False
        """Whether the last request that was begun has to be answered before the next one begins."""
        self.is_ended = False
        """Whether the client has ended its side: no more requests come."""
        self.is_closed = False
        self.mutes = 0
        """How many quotas the client is over: meanwhile nothing is received from it, and no request begins."""
        self.under_way = 0
        """How many bytes of records have begun to be appended and are not answered."""
        self.number = 0
        """Its number, once the node holds something for the client as long as the connection is there; else 0."""
        self.mask = 0
        self.used_ms = now_ms
        self.prepared: list[PreparedProduce] = []
        """Requests that it has sent before, the last one first."""
        self.prepares = True
        """Whether it prepares requests: not where somebody looks at each of them."""
        self.appointments: list[Appointment] = []
        """When it is looked at, to be closed."""

    @property
    def is_reading(self) -> bool:
        """Whether more may be received."""
        if self.is_ended or self.frames or self.mutes or self.outgoing.size >= UNSENT_BYTES:
            return False
        # TLS answers some records by itself.
        return self.tls is None or len(self.tls.unsent) < UNSENT_BYTES

    @property
    def may_begin(self) -> bool:
        """Whether the first of `frames` may begin."""
        if self.mutes or self.outgoing.size >= UNSENT_BYTES:
            return False
        if not self.answers:
            return True
        last = self.answers[-1]
        if last.call.api.name == "ShareFetch" and last.answer is not None:
            return may_end_poll(self.frames[0])
        return not (
            self.is_exclusive
            or len(self.answers) >= PIPELINED_MAX
            or self.under_way >= PIPELINED_BYTES
            or not may_overlap(self.frames[0])
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether it waits for the next request, and for nothing else."""
        is_busy = self.answers or self.frames or self.outgoing.size or self.mutes
        return not (is_busy or self.is_ended or self.tls is not None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed to the client."""
        return not (self.answers or self.frames or self.has_output)

    @property
    def owes_polls_alone(self) -> bool:
        """Whether nothing is owed to the client but records that may come."""
        return not (self.frames or self.has_output) and all(one.call.api.name in RECORD_POLLS for one in self.answers)

    @property
    def has_output(self) -> bool:
        """Whether something waits for the socket to take it."""
        return bool(self.outgoing.size or (self.tls is not None and self.tls.unsent))

    @property
    def has_input(self) -> bool:
        """Whether something was taken from the socket and not received."""
        return self.tls is not None and self.tls.pending

    @property
    def is_trusted(self) -> bool:
        """Whether the handshakes are done that its listener asks for."""
        is_secure = self.tls is None or self.tls.is_secure
        return is_secure and (self.authentication is None or self.authentication.is_done)

    @property
    def held(self) -> int:
        """The bytes of requests that are held."""
        return self.framer.held + sum(map(len, self.frames)) + self.under_way

    def read(self, frame: bytearray, elements_max: int) -> ServedCall:
        """Decode one request frame. Raises what `read_request` and `Authentication.read` raise."""
        call = self._read(frame, elements_max)
        if call.api.is_of_connection and call.request is not None:
            self.number = self.number or next(_NUMBERS)
            call.request.session.connection = self.number
        return call

    def _read(self, frame: bytearray, elements_max: int) -> ServedCall:
        if self.authentication is not None:
            return self.authentication.read(frame, elements_max)
        for one in self.prepared:
            call = None if self._is_counted(one.session) else one.read(frame)
            if call is not None:
                return call
        if self.tls is not None and self.principal is None:
            self.principal = self.tls.principal
        call = read_request(frame, self.host, self.principal, elements_max)
        if self.prepares and call.api.is_pipelined and call.request and not self._is_counted(call.request.session):
            made = PreparedProduce.of(frame, call, call.request)
            if made is not None:
                self.prepared = [made, *self.prepared[: PREPARED_MAX - 1]]
        return call

    def _is_counted(self, session: Session) -> bool:
        """Whether the Produces of a client count for a quota. What is prepared is not counted."""
        quotas = self.node.quotas
        return quotas.is_active and quotas.limits(session)

    def judged(self, fate: Fate | None) -> Fate | None:
        """The fate of the request that was just begun. A client that is refused sends nothing more."""
        if self.authentication is None:
            return fate
        self.framer.limit = self.authentication.frame_bytes_max
        if self.authentication.has_failed:
            self.frames.clear()
            self.is_ended = True
        return self.authentication.fate_of(fate)

    def log(self, level: int, message: str, *values: object, error: BaseException | None = None) -> None:
        """Log what happened with the client, whose host is the first value of the message (`ClientLog.say`)."""
        self.node.log.say(level, message, self.host, *values, error=error)

    def send(self) -> None:
        """Send what the socket takes. Raises as `Outgoing.send` does."""
        if self.outgoing.size:
            self.outgoing.send(self.socket)
        elif self.tls is not None:
            self.tls.flush()

    def begun(
        self, call: ServedCall, outcome: object, size: int, begun_ns: int, *, is_large: bool = False
    ) -> Pending:  # fmt: skip
        """Note that a request of `size` bytes has begun, and give the place of its answer. A large one is alone."""
        held = size if is_large or call.api.is_pipelined else 0
        pending = Pending(call, held, begun_ns, is_large=is_large, session=call.session, frame_bytes=size)
        self.answers.append(pending)
        self.under_way += pending.held
        self.is_exclusive = is_large or isinstance(outcome, Later) or not call.api.is_pipelined
        return pending

    def answered(self) -> None:
        """Move answers to the outgoing queue, in the order of the requests."""
        while self.answers and self.answers[0].pieces is not None:
            first = self.answers.popleft()
            self.under_way -= first.held
            self.outgoing.push(first.pieces or (), first.size)

    def close(self) -> None:
        """Close the socket and release the files."""
        self.is_closed = True
        self.framer.clear()
        self.frames.clear()
        for pending in self.answers:
            if pending.answer is not None:
                pending.answer.abandon()
        self.answers.clear()
        if self.number:
            with suppress(PylogError):  # the node is closed
                self.node.handle(ClientGone(self.number), Session())
        self.outgoing.close()
        if isinstance(self.socket, socket.socket):
            hang_up(self.socket)
        else:
            self.socket.close()

    def abandon(self) -> None:
        """Close the descriptor and nothing else, in a forked child."""
        if self.tls is None:
            self.socket.close()
        else:
            self.tls.abandon()
