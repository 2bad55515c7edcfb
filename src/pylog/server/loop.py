"""One thread that waits for all sockets, and for the answers that other threads bring.

    turn   wait for sockets, deadlines and posts
           accept; receive once from each socket that has something; begin the requests that are whole, for a slice
           of time
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
from functools import partial

from pylog.errors import PylogError, SaslAuthentication, ThreadsExhausted
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.runtime.agenda import Agenda
from pylog.runtime.clock import stopwatch_ns
from pylog.runtime.threads import started
from pylog.server.acceptor import Acceptor
from pylog.server.admission import Admission
from pylog.server.calls import POLLS, Calls, Counts, Intercept
from pylog.server.connection import Connection
from pylog.server.door import Door

logger = logging.getLogger("pylog.server")

READ_BYTES = 256 << 10
CLOSED = "the connection of %s is closed: %s"
GRACE_MS = 900
"""How long a stop waits for answers that are owed."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
SLICE_NS = 2_000_000
"""How long requests of one connection are begun in a turn, before others have theirs."""
HANDSHAKE_MS = 10_000
"""How long a client may take for its handshakes: TLS, and SASL."""


class Loop:
    """Serves the connections that come by its doors until `stop`."""

    def __init__(self, doors: Sequence[Door], intercept: Intercept | None = None) -> None:
        node = doors[0].node
        self.counts = Counts()
        self._config = node.config
        self._clock = node.clock
        self._selector = selectors.DefaultSelector()
        self._agenda = Agenda(node.clock, self._selector)
        self._prepares = intercept is None
        self._calls = Calls(self, self._agenda, self.counts, intercept)
        self._admission = Admission(node.configs)
        self._acceptors = [
            Acceptor(
                door.bound.socket, self._selector, partial(self._connect, door), self._agenda.later,
                lambda: self._admission.wait_ms(self._clock.tick_ms()),
            )
            for door in doors
        ]  # fmt: skip
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._connections: set[Connection] = set()
        self._starved: set[Connection] = set()
        """Connections that are not read from, as the memory for requests is used up."""
        self._unfinished: set[Connection] = set()
        """Connections with work that no selector tells of: requests that wait for another turn, bytes that TLS has."""
        self._now_ms = node.clock.tick_ms()
        """When this turn began."""
        self._stops_at: int | None = None
        self._thread: threading.Thread | None = None

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now. From any thread."""
        counts = self.counts
        found.add(table.CONNECTION_COUNT, len(self._connections))
        found.add(table.CONNECTIONS, counts.connections)
        found.add(table.SERVER_BYTES_IN, counts.bytes_in)
        found.add(table.SERVER_BYTES_OUT, counts.bytes_out)
        found.add(table.REQUEST_QUEUE_SIZE, self._calls.queue_size)
        for request, times in list(counts.times.items()):
            histogram = times.histogram
            found.add(table.REQUESTS, histogram.count, request=request)
            found.add(table.REQUEST_TIMES, histogram, request=request)

    def start(self) -> None:
        """Begin to serve. Raises ThreadsExhausted: the doors are as before then, and the loop is of no use."""
        for acceptor in self._acceptors:
            acceptor.resume()
        try:
            self._calls.start()
            self._thread = started(self._run, "pylog-server")
        except ThreadsExhausted:
            for one in (self._calls, self._agenda, self._selector):
                one.close()
            raise

    def move(self, listening: socket.socket) -> None:
        """Accept at another socket from now on, in the place of that of the first door. From any thread."""
        self._agenda.post(partial(self._acceptors[0].move, listening))

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
            connection.abandon()
        for acceptor in self._acceptors:
            acceptor.abandon()
        self._agenda.abandon()
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
                self.close(connection)
            for acceptor in self._acceptors:
                acceptor.close()
            for one in (self._calls, self._agenda, self._selector):
                one.close()

    def _turn(self) -> None:
        ready = self._selector.select(0 if self._unfinished else self._agenda.timeout)
        self._now_ms = self._clock.tick_ms()
        for key, events in ready:
            key.data(events)
        self._agenda.call_due(self._now_ms)
        if self._unfinished:
            unfinished, self._unfinished = self._unfinished, set()
            for connection in unfinished:
                self._ready(connection, READ if connection.is_reading else 0)
        self._calls.hurry()
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
                self.go_on(connection)

    def _begin_kill(self) -> None:
        self._stops_at = self._clock.tick_ms()

    def _is_over(self) -> bool:
        if self._stops_at is None:
            return False
        return not self._connections or self._clock.tick_ms() >= self._stops_at

    def _is_owed(self, connection: Connection) -> bool:
        """Whether a stop waits for the answers of a client: not for those of polls and of requests behind them."""
        if connection.has_output or not connection.answers:
            return not connection.is_idle
        return all(pending.call.api.name not in POLLS for pending in connection.answers)

    # --- one connection ----------------------------------------------------------------------------------------------

    def _connect(self, door: Door, client: socket.socket, host: str) -> None:
        refused = self._admission.enter(host)
        if refused is not None:
            door.node.log.say(logging.WARNING, "a connection from %s is refused: there are %s of them", host, refused)
            client.close()
            return
        config, now = self._config, self._clock.tick_ms()
        try:
            client.setblocking(False)
            if client.family != socket.AF_UNIX:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection = door.connection(client, host, now)
            connection.prepares = self._prepares
            held_ms = door.node.quotas.connection_ms(host) if host else 0
            if held_ms:
                # One that is refused at once would come again at once.
                connection.mutes = 1
            else:
                self._selector.register(client, READ, partial(self._ready, connection))
        except OSError as error:
            self._admission.leave(host)
            door.node.log.say(logging.INFO, "a connection from %s ended as it began: %s", host, error)
            client.close()
            return
        self._connections.add(connection)
        self.counts.connections += 1
        if held_ms:
            self._meet(connection, now + held_ms, self.close)
            return
        connection.mask = READ
        if config.connections_max_idle_ms >= 0:
            self._meet(connection, now + config.connections_max_idle_ms, self._check_idle)
        if not connection.is_trusted:
            self._meet(connection, now + HANDSHAKE_MS, self._check_trusted)

    def _meet(self, connection: Connection, tick_ms: int, check: Callable[[Connection], None]) -> None:
        """Have a connection checked at that time, unless it is closed before."""
        ahead = [one for one in connection.appointments if one.call is not None]
        connection.appointments = [*ahead, self._agenda.at(tick_ms, partial(check, connection))]

    def _check_trusted(self, connection: Connection) -> None:
        if not connection.is_trusted:
            self.refuse(connection, SaslAuthentication(f"its handshakes took more than {HANDSHAKE_MS} ms"))

    def _check_idle(self, connection: Connection) -> None:
        now, allowed = self._clock.tick_ms(), self._config.connections_max_idle_ms
        if connection.answers and not connection.is_ended:
            connection.used_ms = now
        if now - connection.used_ms >= allowed:
            self.close(connection)
        else:
            self._meet(connection, connection.used_ms + allowed, self._check_idle)

    def _ready(self, connection: Connection, events: int) -> None:
        if events & WRITE and not connection.is_closed:
            self._send(connection)
        if events & READ and not connection.is_closed:
            self._receive(connection)
        if not connection.is_closed:
            self.go_on(connection)

    def _receive(self, connection: Connection) -> None:
        framer = connection.framer
        target = framer.target()
        try:
            received = connection.socket.recv_into(self._buffer if target is None else target)
        except BlockingIOError:
            return
        except OSError as error:
            if connection.tls is not None and not connection.tls.is_secure:
                connection.log(logging.WARNING, "a client at %s could not begin TLS: %s", error)
            elif isinstance(error, ConnectionAbortedError):
                connection.log(logging.INFO, CLOSED, error)
            self.close(connection)
            return
        finally:
            if target is not None:
                target.release()
        if received == 0:
            connection.is_ended = True
            return
        connection.used_ms = self._now_ms
        if target is not None:
            frame = framer.filled(received)
            connection.frames.extend([frame] if frame is not None else [])
            return
        try:
            connection.frames.extend(framer.feed(self._buffer[:received]))
        except PylogError as error:
            self.refuse(connection, error)

    def refuse(self, connection: Connection, error: BaseException) -> None:
        """Close a connection that sends what cannot be served."""
        connection.log(logging.INFO, CLOSED, error)
        self.close(connection)

    def go_on(self, connection: Connection) -> None:
        """Begin the requests that may begin, and send the answers that are there."""
        ends_ns = 0
        while connection.frames and connection.may_begin:
            self._calls.begin(connection, connection.frames.popleft())
            if connection.frames:
                now_ns = stopwatch_ns()
                ends_ns = ends_ns or now_ns + SLICE_NS
                if now_ns >= ends_ns:
                    break
        if not connection.is_closed and connection.has_output:
            self._send(connection)
        if not connection.is_closed:
            is_over = self._stops_at is not None and not self._is_owed(connection)
            if is_over or (connection.is_ended and connection.owes_polls_alone):
                self.close(connection)
            else:
                self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        if connection.mask == READ and connection.is_at_rest and self._stops_at is None and self._has_room(connection):
            return
        may_read = connection.is_reading and self._stops_at is None
        if may_read and not self._has_room(connection):
            self._starved.add(connection)
            may_read = False
        if (connection.frames and connection.may_begin) or (may_read and connection.has_input):
            self._unfinished.add(connection)
        mask = (READ if may_read else 0) | (WRITE if connection.has_output else 0)
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

    def _send(self, connection: Connection) -> None:
        try:
            connection.send()
            connection.used_ms = self._now_ms
        except BlockingIOError:
            return
        except (OSError, PylogError) as error:
            self.refuse(connection, error)

    def close(self, connection: Connection) -> None:
        """Close a connection."""
        if connection.is_closed:
            return
        if connection.mask:
            self._selector.unregister(connection.socket)
        for appointment in connection.appointments:
            self._agenda.cancel(appointment)
        self._admission.leave(connection.address)
        connection.close()
        # A child that is forked before this closes it once more.
        self._connections.discard(connection)
