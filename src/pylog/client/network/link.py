"""A connection to a node: a socket, the dialogue on it, and the calls that wait until it is ready.

    RESTING --its time has come--> CONNECTING --> (SECURING, TLS) --> TALKING          closed by an error, or idle

A link makes no second attempt: where it fails, its calls are told so, and the next call opens another one. All that is
here happens in the thread that has the turn, and nothing waits but the look-up of a name, and a caller that a socket is
lent to.
"""

import errno
import math
import os
import select
import selectors
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from threading import get_ident
from typing import Any

from pylog.client.network.address import Address
from pylog.client.network.call import Call
from pylog.client.network.dialogue import Answered, Dialogue, DialogueState, Pieces, silent_answer
from pylog.client.network.merging import are_worth_a_request, next_call
from pylog.client.network.mismatch import Step, likely_reason
from pylog.client.network.selector import PASSES_OVER, LinkSelector
from pylog.client.network.traffic import Traffic
from pylog.errors import NetworkError, PylogError
from pylog.protocol.messages import ProduceRequest
from pylog.runtime.outgoing import Buffer, Outgoing
from pylog.runtime.sockets import shut_down
from pylog.transport import PendingAnswer

__all__ = ["Link", "LinkState"]

READS_MAX = 16
"""How often a link is read in its turn: then the others have theirs."""
PLAIN_BYTES = 64 << 10
"""How much is joined to be encrypted at once."""
PRODUCES_MAX = 5
"""How many Produces of a connection are under way at once (Kafka: max.in.flight.requests.per.connection)."""
SESSION_SHARE = 0.9
"""How much of the time of a login is used."""
UNDER_WAY = {0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN}
STEPS = {DialogueState.VERSIONS: Step.VERSIONS, DialogueState.READY: Step.FIRST_REQUEST}
READ_AND_WRITE = selectors.EVENT_READ | selectors.EVENT_WRITE
AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LinkState(Enum):
    """The state of a link."""

    RESTING = "resting"
    CONNECTING = "connecting"
    SECURING = "securing"
    TALKING = "talking"


class Link:
    """One connection, known to its thread by `key`. `buffer` is shared by all links of the thread."""

    def __init__(
        self, key: object, address: Address, dialogue: Dialogue, selector: LinkSelector, buffer: bytearray,
        secure: Callable[[socket.socket, str], ssl.SSLSocket] | None, admits: Callable[[socket.socket], bool],
        now_ms: int, traffic: Traffic, name: Callable[[Address], str] = str,
    ) -> None:  # fmt: skip
        self.key: Any = key
        self.address = address
        self.state = LinkState.RESTING
        self.is_ready = False
        """Whether calls go out at once."""
        self.waiting: deque[Call] = deque()
        """Calls that go out when it is ready."""
        self.used_ms = now_ms
        self.begun_ms = now_ms
        self.was_reached = False
        """Whether it is noted that it is proven."""
        self._session_ends_ms: float | None = None
        self.next_deadline_ms: int | None = None
        """When to look for calls whose time is up: no later than the first of these."""
        self._traffic = traffic
        self._dialogue = dialogue
        self._selector = selector
        self._buffer = memoryview(buffer)
        self._secure = secure
        self._admits = admits
        self._name = name
        self._socket: socket.socket | None = None
        self._events = 0
        self._out = Outgoing(has_tls=secure is not None)
        self._lent: socket.socket | None = None
        """The socket, while a caller waits at it."""
        self._lent_in: int | None = None
        """The thread of that caller."""
        self._borrower: object = None
        """What stands for the caller."""
        self._poll = select.poll()
        self._places: deque[tuple[socket.AddressFamily, tuple[object, ...] | str]] = deque()

    # --- its state ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The node at the other end, for a message."""
        return self._name(self.address)

    @property
    def is_proven(self) -> bool:
        """True once the node has answered a request other than ApiVersions, which a listener answers before a login. A
        Unix socket has no login: there a connection that is ready is enough.
        """
        return self._dialogue.was_answered or (self.is_ready and self.address.is_unix)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and nothing is awaited."""
        return not self.waiting and self._dialogue.is_quiet and not self._out.size

    @property
    def in_flight(self) -> list[Call]:
        """The calls that were sent and are not answered."""
        return self._dialogue.awaited

    @property
    def calls(self) -> list[Call]:
        """All calls that are not answered, those in flight first."""
        return [*self.in_flight, *self.waiting]

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """Begin to connect. Raises OSError (the name is not known, ...)."""
        self.begun_ms = self.used_ms = now_ms
        self._traffic.connections += 1
        if self.address.is_unix:
            self._places.append((socket.AF_UNIX, self.address.path))
        else:
            found = socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
            self._places.extend((family, place) for family, _, _, _, place in found)
        self._connect()

    def _connect(self) -> None:
        family, place = self._places.popleft()
        self._drop_socket()
        made = self._socket = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        if family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = made.connect_ex(place)
        # A Unix socket connects at once; "again" means that too many wait there.
        if code not in UNDER_WAY or (code and family == socket.AF_UNIX):
            self._refused(code)
            return
        self.state = LinkState.CONNECTING
        self._watch(selectors.EVENT_WRITE)

    def _refused(self, code: int) -> None:
        """Go to the next place of a name; raises OSError behind the last one."""
        if not self._places:
            raise OSError(code, os.strerror(code))
        self._connect()

    def _connected(self) -> None:
        assert self._socket is not None, "it is connecting"
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refused(code)
            return
        if not self._admits(self._socket):
            raise NetworkError("another process listens there than the one that was to be reached")
        if self._secure is None:
            self._talk()
            return
        self._selector.unregister(self._socket)
        self._events = 0
        self._socket = self._secure(self._socket, self.address.host)
        self.state = LinkState.SECURING
        self._shake_hands()

    def _shake_hands(self) -> None:
        assert isinstance(self._socket, ssl.SSLSocket), "it is securing"
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(selectors.EVENT_WRITE)
        else:
            self._talk()

    def _talk(self) -> None:
        assert self._socket is not None, "it is connected"
        self.state = LinkState.TALKING
        self._poll.register(self._socket, select.POLLIN)
        self._put(self._dialogue.begin())
        self._flush()

    # --- calls -------------------------------------------------------------------------------------------------------

    def give(self, call: Call) -> None:
        """Let a call wait for `send_waiting`."""
        if self.next_deadline_ms is None or call.deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = call.deadline_ms
        self.waiting.append(call)

    def send_waiting(self, now_ms: int, answers: list[Answered]) -> None:
        """Send what waits, if it is ready; adds the answers that are known at once. Raises OSError: the answers that
        were added before hold.
        """
        if not self.is_ready or not self.waiting:
            return
        self.used_ms = now_ms
        if self._session_ends_ms is not None and now_ms >= self._session_ends_ms:
            self._session_ends_ms = None
            self.begun_ms = now_ms
            self._put(self._dialogue.log_in())
            self.is_ready = False
            self._flush()
            return
        while self.waiting and (not self._dialogue.unanswered or not self._is_full()):
            call = self.waiting.popleft() if len(self.waiting) == 1 else next_call(self.waiting)
            try:
                self._put(self._dialogue.request(call))
            except PylogError as error:
                answers.append(Answered(call, None, self._named(error)))
                continue
            except ValueError as error:
                answers.append(Answered(call, None, NetworkError(f"it does not fit into a request: {error}")))
                continue
            if call.is_silent:
                answers.append(silent_answer(call))
        self._flush()

    def _is_full(self) -> bool:
        """Whether the next call is a Produce that has to wait, and others join it.

        A node answers one Produce of a connection after the other. So little is won by a small one behind another, and
        much by one that is larger by then (Nagle).
        """
        if not isinstance(self.waiting[0].message, ProduceRequest):
            return False
        under_way = sum(isinstance(call.message, ProduceRequest) for call in self._dialogue.awaited)
        return under_way >= PRODUCES_MAX or (under_way > 0 and not are_worth_a_request(self.waiting))

    def _named(self, error: PylogError) -> PylogError:
        return type(error)(f"{self.name}: {error}")

    # --- bytes -------------------------------------------------------------------------------------------------------

    def handle(self, events: int, now_ms: int, answers: list[Answered]) -> None:
        """Do what the socket is ready for; adds the answers that came. Raises OSError, PylogError: it is broken.

        What was added before holds.
        """
        self.used_ms = now_ms
        if self.state is LinkState.CONNECTING:
            self._connected()
            return
        if self.state is LinkState.SECURING:
            self._shake_hands()
            return
        was_ready = self.is_ready
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ:
            self._read(answers)
        if not was_ready and self.is_ready and self._dialogue.session_ms > 0:
            self._session_ends_ms = now_ms + self._dialogue.session_ms * SESSION_SHARE

    def _read(self, answers: list[Answered]) -> None:
        assert self._socket is not None, "it is talking"
        for _ in range(READS_MAX):
            if not self._receive(self._socket, answers):
                break
        if self._out.size:
            self._flush()

    def _receive(self, source: socket.socket, answers: list[Answered]) -> bool:
        """Receive once; gives whether there may be more. No view of the frame is left, which could not grow then."""
        target = self._dialogue.framer.target()
        place = self._buffer if target is None else target
        try:
            count = source.recv_into(place)
        except AGAIN:
            return False
        if not count:
            raise ConnectionResetError("the node has closed the connection")
        self._traffic.bytes_in += count
        found, pieces = self._dialogue.feed(place[:count]) if target is None else self._dialogue.filled(count)
        self.is_ready = self._dialogue.state is DialogueState.READY
        answers += found
        if pieces:
            self._put(pieces)
        return count == len(place) or isinstance(source, ssl.SSLSocket)

    @property
    def has_more(self) -> bool:
        """Whether TLS holds bytes, which no selector tells of."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.pending())

    def _put(self, pieces: Pieces) -> None:
        size = sum(map(len, pieces))
        self._traffic.bytes_out += size
        self._out.push(pieces, size)

    def _flush(self) -> None:
        assert self._socket is not None, "it is talking"
        target = self._socket
        self._out.send(_Encrypting(target) if isinstance(target, ssl.SSLSocket) else target)
        events = READ_AND_WRITE if self._out.size else selectors.EVENT_READ
        if events != self._events:
            self._watch(events)

    def _watch(self, events: int) -> None:
        if events == self._events or self._lent is not None:
            return
        assert self._socket is not None, "there is a socket"
        if self._events:
            self._selector.modify(self._socket, events, self)
        else:
            self._selector.register(self._socket, events, self)
        self._events = events

    # --- a caller that waits for its answer --------------------------------------------------------------------------

    def lend(self, answer: PendingAnswer, borrower: object) -> bool:
        """Let the caller that waits for an answer `wait` at the socket, if it is the only answer to come, and nothing
        is to go. The thread of the network does not hear of the socket until `take_back` by the same borrower. Gives
        whether it may.

        In a thread whose loop has the socket, and which waits in a call now, that call gets it.
        """
        if (
            not PASSES_OVER or self._events != selectors.EVENT_READ or self._secure is not None
            or (self._lent is not None and self._lent_in != get_ident())
            or self.waiting or not self._dialogue.awaits_alone(answer)
        ):  # fmt: skip
            return False
        assert self._socket is not None, "it is talking"
        self._lent, self._lent_in, self._borrower = self._socket, get_ident(), borrower
        self._selector.pass_over(self._lent)
        return True

    @property
    def is_lent(self) -> bool:
        """Whether a caller waits at the socket."""
        return self._lent is not None

    def fileno(self) -> int:
        """The descriptor of the socket that is lent."""
        assert self._lent is not None, "it is lent"
        return self._lent.fileno()

    def ignore(self) -> None:
        """Let the selector forget of the socket that is lent: it tells of its end even while it is passed over."""
        if self._socket is not None and self._events:
            self._selector.unregister(self._socket)
            self._events = 0

    def wait(self, seconds: float) -> None:
        """Wait until the socket has something to read, for so long at most. For the caller that it is lent to."""
        self._poll.poll(math.ceil(seconds * 1000))

    def take_back(self, borrower: object) -> None:
        """Have the thread of the network read the socket again, unless another caller has got it since."""
        if self._lent is None or self._borrower is not borrower:
            return
        lent, self._lent, self._borrower = self._lent, None, None
        if self._socket is None:
            lent.close()
            return
        if self._events:
            self._selector.resume(lent)
        if self._out.size or not self._events:
            self._watch(READ_AND_WRITE if self._out.size else selectors.EVENT_READ)

    # --- the end -----------------------------------------------------------------------------------------------------

    def late(self, now_ms: int) -> tuple[list[Call], list[Answered]]:
        """The calls that waited too long to be sent; and those in flight whose time is up, after which the link is of
        no use.
        """
        unsent = [call for call in self.waiting if call.deadline_ms <= now_ms]
        for call in unsent:
            self.waiting.remove(call)
        late = self._dialogue.late(now_ms, self.name)
        self.next_deadline_ms = min((call.deadline_ms for call in self.calls), default=None)
        return unsent, late

    def explained(self, error: Exception) -> Exception:
        """The error that has ended it, with the likely reason where the listener and this client speak differently."""
        step = Step.TLS if self.state is LinkState.SECURING else None
        if self.state is LinkState.TALKING and not self.is_proven:
            step = STEPS.get(self._dialogue.state)
        if step is None:
            return error
        reason = likely_reason(step, error, has_tls=self._secure is not None, has_login=self._dialogue.has_login)
        return error if reason is None else NetworkError(f"{error}: {reason}")

    def close(self) -> None:
        """Close the socket."""
        self._drop_socket()
        self._out.close()

    def abandon(self) -> None:
        """Close the descriptor in a forked child, which shares the selector with its parent: nothing else."""
        for one in (self._socket, self._lent):
            if one is not None:
                one.close()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            if self._events:
                self._selector.unregister(self._socket)
                self._events = 0
            # Who waits at it is woken by that, and its number stays taken until then.
            shut_down(self._socket)
            if self._lent is None:
                self._socket.close()
            self._socket = None


class _Encrypting:
    """A socket with TLS, as `Outgoing` needs it."""

    def __init__(self, target: ssl.SSLSocket) -> None:
        self._target = target

    def fileno(self) -> int:
        return self._target.fileno()

    def sendmsg(self, buffers: Sequence[Buffer], ancillary: tuple[()] = (), flags: int = 0, /) -> int:
        """Send what the first buffers have, about `PLAIN_BYTES`. What is sent again begins with the same bytes."""
        taken, size = [], 0
        for buffer in buffers:
            taken.append(buffer)
            size += len(buffer)
            if size >= PLAIN_BYTES:
                break
        try:
            return self._target.send(taken[0] if len(taken) == 1 else b"".join(taken))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
