"""One thread that waits for all sockets, and for the answers that other threads bring.

    turn   wait for sockets, deadlines and posts
           accept; receive once from each socket that has something; begin the requests that are whole
           take the answers that were posted; send what the sockets take

Other threads only post to the agenda. Each connection has one deadline there. At its deadline a silent connection is
closed, and the deadline of another one moves.

Invariant: all work of a connection is done in this thread. A call that may wait is made in the pool, and its answer
comes back by `post`.
"""

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pylog.errors import Closed, PylogError
from pylog.runtime.worker import started
from pylog.server.acceptor import Acceptor
from pylog.server.agenda import Agenda
from pylog.server.api.call import Fate, Later, NoResponse, Outcome, Reply
from pylog.server.connection import Connection, Pending
from pylog.server.dispatch import Call, read_request, response
from pylog.server.pool import Pool
from pylog.server.served_node import ServedNode

logger = logging.getLogger("pylog")

READ_BYTES = 256 << 10
GRACE_MS = 900
"""How long a stop waits for answers that are owed."""
CALLS_MAX, APPENDS_MAX = 4, 16
"""How many calls may wait at once, and how many appends besides them."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@dataclass(slots=True)
class Counts:
    """The connections and requests of a server so far."""

    connections: int = 0
    requests: int = 0


class Loop:
    """Serves the connections of listening sockets until `stop`. Each socket has the node as its clients see it: with
    the address that they are told to connect to.
    """

    def __init__(
        self,
        listening: Sequence[tuple[socket.socket, ServedNode]],
        intercept: Callable[[Call], Fate | None] | None = None,
    ) -> None:
        node = listening[0][1]
        self.counts = Counts()
        self._config = node.config
        self._intercept = intercept
        self._clock = node.clock
        self._calls, self._appends = Pool("calls", CALLS_MAX), Pool("appends", APPENDS_MAX)
        self._selector = selectors.DefaultSelector()
        self._agenda = Agenda(node.clock, self._selector)
        self._acceptors = [
            Acceptor(one, self._selector, partial(self._connect, served), self._agenda.later)
            for one, served in listening
        ]
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._connections: set[Connection] = set()
        self._starved: set[Connection] = set()
        """Connections that are not read from, as the memory for requests is used up."""
        self._stops_at: int | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to serve."""
        for acceptor in self._acceptors:
            acceptor.resume()
        self._thread = started(self._run, "pylog-server")

    def stop(self) -> None:
        """Accept no more, answer the requests that were received, close every connection, and end the thread."""
        self._end(self._begin_stop)

    def kill(self) -> None:
        """Close every connection, whatever is owed, and end the thread."""
        self._end(self._begin_kill)

    def _end(self, begin: Callable[[], None]) -> None:
        self._agenda.post(begin)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> None:
        """Close the descriptors and nothing else: those of a forked child are copies."""
        for connection in self._connections:
            connection.socket.close()
        for acceptor in self._acceptors:
            acceptor.abandon()
        self._agenda.close()
        self._selector.close()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._agenda.belongs_here()
        try:
            while not self._is_over():
                self._turn()
        except Exception:
            logger.exception("the server's loop failed: the server is closed")
        finally:
            for connection in list(self._connections):
                self._close(connection)
            for acceptor in self._acceptors:
                acceptor.close()
            for one in (self._calls, self._appends, self._agenda, self._selector):
                one.close()

    def _turn(self) -> None:
        for key, events in self._selector.select(self._agenda.timeout):
            key.data(events)
        self._agenda.call_due()
        if self._starved:
            starved, self._starved = self._starved, set()
            for connection in starved - {one for one in starved if one.is_closed}:
                self._watch(connection)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _begin_stop(self) -> None:
        if self._stops_at is not None:
            return
        self._stops_at = self._clock.tick_ms() + GRACE_MS
        self._agenda.at(self._stops_at, lambda: None)
        for acceptor in self._acceptors:
            acceptor.close()
        for connection in list(self._connections):
            if connection.is_reading:
                # The bytes in the socket were sent before the stop.
                self._receive(connection)
            if not connection.is_closed:
                self._go_on(connection)

    def _begin_kill(self) -> None:
        self._stops_at = self._clock.tick_ms()

    def _is_over(self) -> bool:
        if self._stops_at is None:
            return False
        return not self._connections or self._clock.tick_ms() >= self._stops_at

    def _is_owed(self, connection: Connection) -> bool:
        """Whether a stop waits for the answers of a client: not for those of polls and of requests behind them."""
        if connection.outgoing.size or not connection.answers:
            return not connection.is_idle
        return all(pending.call.api.name not in _POLLS for pending in connection.answers)

    # --- one connection ----------------------------------------------------------------------------------------------

    def _connect(self, node: ServedNode, client: socket.socket, host: str) -> None:
        if len(self._connections) >= self._config.max_connections:
            logger.warning("a connection from %s is refused: there are max.connections of them", host)
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        config, now = self._config, self._clock.tick_ms()
        connection = Connection(client, f"/{host}", node, now)
        self._connections.add(connection)
        self.counts.connections += 1
        connection.mask = READ
        self._selector.register(client, READ, partial(self._ready, connection))
        if config.connections_max_idle_ms >= 0:
            self._agenda.at(now + config.connections_max_idle_ms, partial(self._check_idle, connection))

    def _check_idle(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        now, allowed = self._clock.tick_ms(), self._config.connections_max_idle_ms
        if connection.answers and not connection.is_ended:
            connection.used_ms = now
        if now - connection.used_ms >= allowed:
            self._close(connection)
        else:
            self._agenda.at(connection.used_ms + allowed, partial(self._check_idle, connection))

    def _ready(self, connection: Connection, events: int) -> None:
        if events & WRITE and not connection.is_closed:
            self._send(connection)
        if events & READ and not connection.is_closed:
            self._receive(connection)
        if not connection.is_closed:
            self._go_on(connection)

    def _receive(self, connection: Connection) -> None:
        framer = connection.framer
        target = framer.target()
        try:
            received = connection.socket.recv_into(self._buffer if target is None else target)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        finally:
            if target is not None:
                target.release()
        if received == 0:
            connection.is_ended = True
            return
        connection.used_ms = self._clock.tick_ms()
        if target is not None:
            frame = framer.filled(received)
            connection.frames.extend([frame] if frame is not None else [])
            return
        try:
            connection.frames.extend(framer.feed(self._buffer[:received]))
        except PylogError as error:
            self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: BaseException) -> None:
        logger.info("the connection of %s is closed: %s", connection.host, error)
        self._close(connection)

    def _go_on(self, connection: Connection) -> None:
        """Begin the requests that may begin, and send the answers that are there."""
        while not connection.is_closed and (frame := connection.next_frame()) is not None:
            self._begin(connection, frame)
        if not connection.is_closed and connection.outgoing.size:
            self._send(connection)
        if not connection.is_closed:
            is_over = self._stops_at is not None and not self._is_owed(connection)
            if is_over or (connection.is_ended and connection.is_idle):
                self._close(connection)
            else:
                self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        may_read = connection.is_reading and self._stops_at is None
        if may_read and not self._has_room(connection):
            self._starved.add(connection)
            may_read = False
        mask = (READ if may_read else 0) | (WRITE if connection.outgoing.size else 0)
        if mask == connection.mask:
            return
        if not mask:
            self._selector.unregister(connection.socket)
        elif not connection.mask:
            self._selector.register(connection.socket, mask, partial(self._ready, connection))
        else:
            self._selector.modify(connection.socket, mask, partial(self._ready, connection))
        connection.mask = mask

    def _has_room(self, connection: Connection) -> bool:
        """Whether the memory for requests has room: a frame that has begun is received to its end."""
        limit = self._config.queued_max_request_bytes
        return limit < 0 or connection.framer.is_inside or sum(one.held for one in self._connections) < limit

    def _begin(self, connection: Connection, frame: bytearray) -> None:
        try:
            call = read_request(frame, connection.host)
            fate = self._intercept(call) if self._intercept is not None else None
            answer = call.answer if fate is None or fate.answer is None else fate.answer
            node = connection.node
            outcome = Later(lambda: answer(node)) if call.api.may_wait else answer(node)
        except PylogError as error:
            self._refuse(connection, error)
            return
        except Exception:
            logger.exception("a request of %s could not be answered", connection.host)
            self._close(connection)
            return
        self.counts.requests += 1
        pending = connection.begun(call, outcome, len(frame))
        pending.fate = fate
        if isinstance(outcome, Later):
            pool = self._appends if outcome.is_append else self._calls
            pool.submit(partial(self._call_later, connection, pending, outcome))
        else:
            self._take(connection, pending, outcome)

    def _call_later(self, connection: Connection, pending: Pending, later: Later) -> None:
        """In a thread of the pool."""
        try:
            outcome: Outcome | BaseException = later.call()
        except Exception as error:  # noqa: BLE001
            outcome = error
        self._agenda.post(partial(self._take_late, connection, pending, outcome))

    def _take_late(self, connection: Connection, pending: Pending, outcome: "Outcome | BaseException") -> None:
        if isinstance(outcome, BaseException):
            self._fail(connection, outcome)
            return
        self._take(connection, pending, outcome)
        if not connection.is_closed:
            self._go_on(connection)

    def _take(self, connection: Connection, pending: Pending, outcome: Outcome) -> None:
        if connection.is_closed:
            return
        if not isinstance(outcome, Reply):
            assert not isinstance(outcome, Later), "what waits in the pool has an answer"
            self._answer(connection, pending, lambda: outcome)
        elif outcome.answer.done():
            self._answer(connection, pending, partial(body_of, outcome))
        else:
            outcome.answer.add_done_callback(
                lambda _: self._agenda.post(partial(self._answered, connection, pending, outcome))
            )

    def _answered(self, connection: Connection, pending: Pending, reply: Reply) -> None:
        if connection.is_closed:
            return
        self._answer(connection, pending, partial(body_of, reply))
        if not connection.is_closed:
            self._go_on(connection)

    def _answer(self, connection: Connection, pending: Pending, body: Callable[[], Any]) -> None:
        try:
            made = body()
            pending.pieces, pending.size = response(pending.call, made)
        except Exception as error:  # noqa: BLE001
            self._fail(connection, error)
            return
        if isinstance(made, NoResponse) and made.error is not None:
            self._refuse(connection, made.error)
        elif pending.fate is not None:
            self._meet(connection, pending, pending.fate)
        else:
            connection.answered()

    def _meet(self, connection: Connection, pending: Pending, fate: Fate) -> None:
        """Let an answer come late, or never. A request without one (acks=0) has nothing to lose but its connection."""
        pending.fate = None
        if fate.ends_connection:
            self._close(connection)
        elif not pending.pieces:
            connection.answered()
        elif fate.is_lost:
            pending.pieces = None
        elif fate.delay_ms is not None:
            pieces, pending.pieces = pending.pieces, None
            self._agenda.later(fate.delay_ms, partial(self._answer_late, connection, pending, pieces))
        else:
            connection.answered()

    def _answer_late(self, connection: Connection, pending: Pending, pieces: list[Any] | None) -> None:
        pending.pieces = pieces
        if not connection.is_closed:
            connection.answered()
            self._go_on(connection)

    def _fail(self, connection: Connection, error: BaseException) -> None:
        """Close a connection whose request has no answer."""
        if connection.is_closed:
            return
        if not isinstance(error, Closed):
            logger.error("a request of %s could not be answered", connection.host, exc_info=error)
        self._close(connection)

    def _send(self, connection: Connection) -> None:
        try:
            connection.outgoing.send(connection.socket)
        except (OSError, PylogError) as error:
            self._refuse(connection, error)

    def _close(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        if connection.mask:
            self._selector.unregister(connection.socket)
        self._connections.discard(connection)
        connection.close()


_POLLS = frozenset({"Fetch", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat"})
"""The keys whose answer may wait for an event. A stop does not wait for them."""


def body_of(reply: Reply) -> Any:
    """The body of a reply whose answer is there. Raises Closed, and errors that are not of pylog."""
    error = reply.answer.exception()
    if error is None:
        return reply.body(reply.answer.result())
    if isinstance(error, PylogError) and not isinstance(error, Closed):
        return reply.refused(error)
    raise error
