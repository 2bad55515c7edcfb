"""The requests of a loop's connections: from a frame to the answer in the outgoing queue.

    frame -> Connection.read -> a call -> answered at once, by the pool, or when the node's future is done
          -> pieces in the place of the request -> outgoing, in the order of the requests

A request with many elements is large: a pool of its own decodes it, answers it and encodes the response, one at a time,
so the loop's thread has its turn whenever it asks for it (`sys.setswitchinterval`). The same pool makes answers that
may be large where their requests are small. One that takes long, as it waits for a disk, lets the next one begin. A
pool that makes an answer encodes the response, too.

For the loop's thread, except what the pools call. An answer of another thread comes back by `Agenda.post`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from pylog.errors import Closed, InvalidRequest, PylogError
from pylog.metrics.histogram import Times
from pylog.protocol.schema import Piece, TooManyElements
from pylog.protocol.wire.framing import SIZE_BYTES
from pylog.runtime.agenda import Agenda
from pylog.runtime.clock import stopwatch_ns
from pylog.runtime.pool import Pool
from pylog.server.api.call import Fate, Framed, Later, Made, NoResponse, Outcome, Reply
from pylog.server.connection import Connection, Pending
from pylog.server.dispatch import ServedCall, read_head, refusal, response
from pylog.server.throttling import throttled
from pylog.transport import PendingAnswer

UNANSWERED = "a request of %s could not be answered"

CALLS_MAX, APPENDS_MAX = 4, 16
"""How many calls may wait at once, and how many appends besides them."""
LARGE_MAX, LARGE_PATIENCE_S = 4, 1.0
"""How many large requests are made at once, and how long one is made alone."""
ELEMENTS_AT_ONCE = 1000
"""How many elements a request may have that the loop's thread decodes. What has more is large."""
ELEMENT_BYTES = 1 << 10
"""How much memory an element takes until it is answered, at most in nearly all keys (decision 0029)."""
MEMORY_TIMES, MEMORY_BYTES = 16, 24 << 20
"""How much memory the elements of a request may take: so many times its size, or this where it is more."""
REQUEST_ELEMENTS_MAX = 1 << 16
"""How many elements a request may have whatever its size: each takes some microseconds."""
POLLS = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat"})
"""The keys whose answer may wait for an event. A stop does not wait for them."""

Intercept = Callable[[ServedCall], Fate | None]


@dataclass(slots=True)
class Counts:
    """The connections and requests of a server so far. The loop's thread counts, any thread reads."""

    connections: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    times: dict[str, Times] = field(default_factory=dict)
    """How long requests took, by the name of the API key."""

    def note_answer(self, name: str, begun_ns: int, size: int) -> None:
        """A request for this key was answered by so many bytes."""
        times = self.times.get(name)
        if times is None:
            times = self.times.setdefault(name, Times())
        times.add(stopwatch_ns() - begun_ns)
        self.bytes_out += size


class Sockets(Protocol):
    """The connections of a loop, as calls use them when a call ends, with an answer or without."""

    def go_on(self, connection: Connection) -> None:
        """Begin the requests that may begin, and send the answers that are there."""

    def refuse(self, connection: Connection, error: BaseException) -> None:
        """Close a connection that sends what cannot be served."""

    def close(self, connection: Connection) -> None:
        """Close a connection."""


def elements_max(frame_bytes: int) -> int:
    """The most elements that a request of this size may have in all of its arrays."""
    return min(max(MEMORY_TIMES * frame_bytes, MEMORY_BYTES) // ELEMENT_BYTES, REQUEST_ELEMENTS_MAX)


class Calls:
    """Begins requests and takes their answers. `intercept` sees each call before it takes effect."""

    def __init__(self, sockets: Sockets, agenda: Agenda, counts: Counts, intercept: Intercept | None) -> None:
        self._sockets = sockets
        self._agenda = agenda
        self._counts = counts
        self._intercept = intercept
        self._unhurried: PendingAnswer | None = None
        """The last answer of this turn that waits for a sync, or for followers."""
        self._calls, self._appends = Pool("pylog-server-calls", CALLS_MAX), Pool("pylog-server-appends", APPENDS_MAX)
        self._large = Pool("pylog-server-large", LARGE_MAX, LARGE_PATIENCE_S)
        """Other clients share the interpreter with one large request, however many there are, unless one takes long."""

    def start(self) -> None:
        """Have threads for what is not done in the loop's. Raises ThreadsExhausted."""
        for pool in self._pools:
            pool.begin()

    def begin(self, connection: Connection, frame: bytearray) -> None:
        """Begin a request."""
        begun_ns = stopwatch_ns()
        try:
            try:
                call = connection.read(frame, ELEMENTS_AT_ONCE)
            except TooManyElements:
                if not connection.is_trusted:
                    raise
                self._begin_large(connection, frame)
                return
            outcome, fate = self._outcome(connection, call, may_wait=False)
        except PylogError as error:
            self._sockets.refuse(connection, error)
            return
        except Exception as error:  # noqa: BLE001
            self._fail(connection, error)
            return
        counts = self._counts
        counts.requests += 1
        counts.bytes_in += SIZE_BYTES + len(frame)
        if isinstance(outcome, Framed) and connection.authentication is None and not connection.answers:
            size = len(outcome.data)
            connection.outgoing.push((outcome.data,), size)
            counts.note_answer(call.api.name, begun_ns, size)
            return
        pending = connection.begun(call, outcome, len(frame), begun_ns)
        if connection.node.quotas.is_active:
            pending.spent_ns = stopwatch_ns() - begun_ns
        pending.fate = connection.judged(fate)
        self._take(connection, pending, outcome)

    def _outcome(self, connection: Connection, call: ServedCall, *, may_wait: bool) -> tuple[Outcome, Fate | None]:
        """Answer a request, at once where this thread may wait or the answer does not."""
        fate = self._intercept(call) if self._intercept is not None else None
        answer = call.answer if fate is None or fate.answer is None else fate.answer
        node = connection.node
        if may_wait or not call.api.may_wait:
            return answer(node), fate
        return Later(lambda: answer(node), is_long=call.api.is_long), fate

    def _begin_large(self, connection: Connection, frame: bytearray) -> None:
        pending = connection.begun(read_head(frame), None, len(frame), stopwatch_ns(), is_large=True)
        self._counts.requests += 1
        self._counts.bytes_in += SIZE_BYTES + len(frame)
        self._large.submit(partial(self._call_large, connection, pending, frame))

    def _call_large(self, connection: Connection, pending: Pending, frame: bytearray) -> None:
        """In the thread of large requests."""
        begun_ns = stopwatch_ns()
        try:
            outcome = self._outcome_of_large(connection, pending, frame)
        except PylogError as error:
            self._agenda.post(partial(self._refuse_late, connection, error))
        except Exception as error:  # noqa: BLE001
            self._agenda.post(partial(self._fail, connection, error))
        else:
            pending.spent_ns += stopwatch_ns() - begun_ns
            self._make(connection, pending, outcome)

    def _outcome_of_large(self, connection: Connection, pending: Pending, frame: bytearray) -> Outcome:
        try:
            call = connection.read(frame, elements_max(len(frame)))
        except TooManyElements as error:
            told = refusal(pending.call, InvalidRequest(str(error)))
            if told is None:
                raise
            return told
        # What was decoded is only held as long as the outcome needs it.
        pending.call, pending.session = call._replace(request=None), call.session
        outcome, pending.fate = self._outcome(connection, call, may_wait=True)
        return outcome

    def _refuse_late(self, connection: Connection, error: PylogError) -> None:
        if not connection.is_closed:
            self._sockets.refuse(connection, error)

    def hurry(self) -> None:
        """All sockets that were ready had their turn: let what was appended by them be synced, together."""
        answer, self._unhurried = self._unhurried, None
        if answer is not None and not answer.done():
            # The thread that is woken for one group looks at the others, too.
            answer.hurry()

    @property
    def _pools(self) -> tuple[Pool, ...]:
        return self._calls, self._appends, self._large

    @property
    def queue_size(self) -> int:
        """The number of requests that wait for a thread, or are in one."""
        return sum(pool.unfinished for pool in self._pools)

    def close(self) -> None:
        """Let the threads end when all submitted calls are done."""
        for pool in self._pools:
            pool.close()

    def _call_later(self, connection: Connection, pending: Pending, later: Later) -> None:
        """In a thread of a pool."""
        begun_ns = stopwatch_ns()
        try:
            outcome = later.call()
        except Exception as error:  # noqa: BLE001
            self._agenda.post(partial(self._fail, connection, error))
        else:
            pending.spent_ns += stopwatch_ns() - begun_ns
            self._make(connection, pending, outcome)

    def _make(self, connection: Connection, pending: Pending, outcome: Outcome) -> None:
        """In a thread of a pool: encode the response, where the outcome waits for nothing more."""
        if isinstance(outcome, Later) or (isinstance(outcome, Reply) and not outcome.answer.done()):
            self._agenda.post(partial(self._take_late, connection, pending, outcome))
            return
        try:
            made = self._judged(connection, pending, outcome)
            given = made, *response(pending.call, made, is_large=True)
        except Exception as error:  # noqa: BLE001
            self._agenda.post(partial(self._fail, connection, error))
        else:
            self._agenda.post(partial(self._give_late, connection, pending, *given))

    def _take_late(self, connection: Connection, pending: Pending, outcome: Outcome) -> None:
        self._take(connection, pending, outcome)
        if not connection.is_closed:
            if isinstance(outcome, Reply) and pending.call.api.is_pipelined and not pending.is_large:
                # The call of the pool was all that the next request had to wait for.
                connection.is_exclusive = False
            self._sockets.go_on(connection)

    def _take(self, connection: Connection, pending: Pending, outcome: Outcome) -> None:
        if connection.is_closed:
            return
        if isinstance(outcome, Later):
            pool = self._large if outcome.is_long else self._appends if outcome.is_append else self._calls
            pool.submit(partial(self._call_later, connection, pending, outcome))
        elif not isinstance(outcome, Reply) or outcome.answer.done():
            self._answer(connection, pending, outcome)
        else:
            pending.answer = outcome.answer
            outcome.answer.add_done_callback(
                lambda _: self._agenda.post(partial(self._answered, connection, pending, outcome))
            )
            if pending.call.api.is_pipelined:
                self._unhurried = outcome.answer

    def _answered(self, connection: Connection, pending: Pending, reply: Reply) -> None:
        if connection.is_closed:
            return
        self._answer(connection, pending, reply)
        if not connection.is_closed:
            self._sockets.go_on(connection)

    def _answer(self, connection: Connection, pending: Pending, outcome: Made | Reply) -> None:
        """Make the response of an outcome that waits for nothing more."""
        if pending.is_large:
            self._large.submit(partial(self._make, connection, pending, outcome))
            return
        try:
            made = self._judged(connection, pending, outcome)
            pieces, size = response(pending.call, made)
        except Exception as error:  # noqa: BLE001
            self._fail(connection, error)
            return
        self._give(connection, pending, made, pieces, size)

    @staticmethod
    def _judged(connection: Connection, pending: Pending, outcome: Made | Reply) -> Made:
        """The body of an outcome, with the throttle time of its client."""
        quotas = connection.node.quotas
        if not quotas.is_active:
            return body_of(outcome) if isinstance(outcome, Reply) else outcome
        begun_ns = stopwatch_ns()
        made = body_of(outcome) if isinstance(outcome, Reply) else outcome
        pending.spent_ns += stopwatch_ns() - begun_ns
        made, pending.throttle_ms = throttled(quotas, pending, made)
        return made

    def _mute(self, connection: Connection, ms: int) -> None:
        """Pass over a client for so long (KIP-219)."""
        connection.mutes += 1
        self._agenda.later(ms, partial(self._unmute, connection))

    def _unmute(self, connection: Connection) -> None:
        connection.mutes -= 1
        if not connection.is_closed:
            self._sockets.go_on(connection)

    def _give_late(self, connection: Connection, pending: Pending, made: Made, pieces: list[Piece], size: int) -> None:
        if connection.is_closed:
            return
        self._give(connection, pending, made, pieces, size)
        if not connection.is_closed:
            self._sockets.go_on(connection)

    def _give(self, connection: Connection, pending: Pending, made: Made, pieces: list[Piece], size: int) -> None:
        pending.pieces, pending.size = pieces, size
        if pending.throttle_ms:
            self._mute(connection, pending.throttle_ms)
        self._counts.note_answer(pending.call.api.name, pending.begun_ns, size)
        if isinstance(made, NoResponse) and made.error is not None:
            self._sockets.refuse(connection, made.error)
        elif pending.fate is not None:
            self._meet(connection, pending, pending.fate)
        else:
            connection.answered()

    def _meet(self, connection: Connection, pending: Pending, fate: Fate) -> None:
        """Let an answer come late, or never. A request without one (acks=0) has nothing to lose but its connection."""
        pending.fate = None
        if fate.ends_connection:
            self._sockets.close(connection)
        elif not pending.pieces:
            connection.answered()
        elif fate.is_lost:
            pending.pieces = None
        elif fate.delay_ms is not None:
            pieces, pending.pieces = pending.pieces, None
            self._agenda.later(fate.delay_ms, partial(self._answer_late, connection, pending, pieces))
        else:
            connection.answered()

    def _answer_late(self, connection: Connection, pending: Pending, pieces: list[Piece] | None) -> None:
        pending.pieces = pieces
        if not connection.is_closed:
            connection.answered()
            self._sockets.go_on(connection)

    def _fail(self, connection: Connection, error: BaseException) -> None:
        """Close a connection whose request has no answer."""
        if connection.is_closed:
            return
        if not isinstance(error, Closed):
            connection.log(logging.ERROR, UNANSWERED, error=error)
        self._sockets.close(connection)


def body_of(reply: Reply) -> Made:
    """The body of a reply whose answer is there. Raises Closed, and errors that are not of pylog."""
    error = reply.answer.exception()
    if error is None:
        return reply.body(reply.answer.result())
    if isinstance(error, PylogError) and not isinstance(error, Closed):
        return reply.refused(error)
    raise error
