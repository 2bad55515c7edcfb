"""The connections of one client to a cluster, and the one thread that waits for them.

    send      any thread: while the network's thread sleeps the caller sends the request itself, by a connection that
              is ready; else the call goes to the agenda, which wakes the thread
    drive     a caller that waits for the one answer of a connection: it sleeps at the socket, and reads it
    work      the network's thread: what was posted, what is due, what sockets are ready for

What is known of the cluster is in `routes`, the connections are in `links`, and `dispatch` says which of these a call
goes to. All of it belongs to the thread that has the `turn`. A call ends in one of four ways: with the answer of a
node, with the error of its connection, with RequestTimedOut, or with Closed.
"""

import logging
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from time import monotonic

from pylog.client.network.address import Address
from pylog.client.network.call import READ_BY_CALLER, Call, NetworkFuture
from pylog.client.network.dialogue import Answered
from pylog.client.network.dispatch import Dispatch
from pylog.client.network.link import Link, LinkState
from pylog.client.network.links import Links
from pylog.client.network.lookout import Lookout
from pylog.client.network.routes import Routes
from pylog.client.network.selector import LinkSelector
from pylog.client.network.turn import NetworkTurn
from pylog.config.connection import ConnectionConfig
from pylog.errors import (
    Closed,
    NetworkError,
    PylogError,
    RequestTimedOut,
    ThreadsExhausted,
)
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages import Fetch, Session
from pylog.protocol.messages.topics import MetadataResponse
from pylog.runtime.agenda import Agenda
from pylog.runtime.clock import Clock
from pylog.runtime.signals import FIRM, SLICE, WholeLock, opened
from pylog.runtime.threads import started
from pylog.transport import Handle

__all__ = ["Network"]

logger = logging.getLogger("pylog.client")

CLOSE_MS = 1000
"""How long a close waits for the answers to what was sent."""


class Network:
    """The connections to a cluster. Thread-safe: `send`, `forget` and `close`. `admits` says of each connection, before
    anything is sent by it, whether it may be used. `name` calls a node at an address by its name, for a message.
    """

    def __init__(
        self, bootstrap: Sequence[Address], config: ConnectionConfig, clock: Clock, context: ssl.SSLContext | None,
        admits: Callable[[socket.socket], bool] = lambda connection: True, name: Callable[[Address], str] = str,
    ) -> None:  # fmt: skip
        self.routes = Routes(bootstrap, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, name)
        self._config = config
        self._clock = clock
        self._selector = LinkSelector()
        self._agenda = Agenda(clock, self._selector)
        self._links = Links(config, self._selector, context, admits, name)
        self._has_tls = context is not None
        self._unread: dict[Link, None] = {}
        """Those whose TLS holds bytes, of which no selector tells."""
        self._lookout = Lookout(self._agenda, self._links, partial(_do, self._look))
        self._dispatch = Dispatch(self.routes, self._links, config, clock, self._at, self._open)
        self._moved = self._dispatch.coordinators.has_moved
        self._is_closed = False
        self._ends_by_ms: int | None = None
        self._starting = WholeLock()
        self._turn = NetworkTurn()
        self._thread: threading.Thread | None = None

    # --- for any thread ----------------------------------------------------------------------------------------------

    @property
    def has_turn(self) -> bool:
        """Whether the caller's thread brings answers, and must not wait for one."""
        return self._turn.is_mine

    def future(self) -> NetworkFuture:
        """A future for an answer of this network."""
        return NetworkFuture(self)

    def send(self, call: Call) -> None:
        """Send a call: its future is completed in any case. After `close`, with Closed; where no thread can be had,
        with ThreadsExhausted.
        """
        with FIRM:
            if self._thread is not None and not self._agenda.posts and self._turn.take(0):
                try:
                    if self._send_at_once(call):
                        return
                finally:
                    self._turn.leave()
        try:
            self._post(partial(self._dispatch.begin, call))
        except ThreadsExhausted as error:
            call.fail(error)

    def _send_at_once(self, call: Call) -> bool:
        """Send a call from its caller's thread, if its connection is ready. What comes of it besides the bytes is left
        to the network's thread: the caller may hold locks that callbacks take.
        """
        link = self._dispatch.ready_link(call)
        if link is None:
            return False
        link.give(call)
        answers: list[Answered] = []
        error = self._use(link, 0, answers)
        if answers or error is not None:
            self._post(partial(self._conclude, link, answers, error))
        elif isinstance(call.future, NetworkFuture) and (seconds := READ_BY_CALLER.get(type(call.message))):
            call.future.drive_seconds, call.future.link = seconds, link
        return True

    def drive(self, future: NetworkFuture, timeout: float | None) -> None:
        """Receive an answer in the thread that waits for it, for up to `timeout` seconds. Where the network's thread is
        at work, or there are others to answer, that thread brings it: then this does nothing.
        """
        left, link = min(inf if timeout is None else timeout, future.drive_seconds), future.link
        deadline = monotonic() + left
        with FIRM:
            while left > 0:
                if not self._lend(link, future, future):
                    return
                try:
                    link.wait(min(left, SLICE))
                finally:
                    self._take_back(link, future, SLICE)
                if future.done():
                    return
                with opened():
                    # A handler of a signal strikes here, where the socket is not lent.
                    pass
                left = deadline - monotonic()

    def _lend(self, link: Link, future: NetworkFuture, borrower: object) -> bool:
        """In a FIRM block: lend the connection that brings an answer; `_take_back` is owed, if that may be."""
        if not self._turn.take(0):
            return False
        is_lent = link.lend(future, borrower)
        self._turn.leave()
        return is_lent

    def _take_back(self, link: Link, borrower: object, seconds: float) -> None:
        """In a FIRM block: take what has come by a connection that was lent; from now on the network's thread does so,
        also now where it is at work for longer than so many seconds.
        """
        if not self._turn.take(seconds):
            self._submit(lambda: link.take_back(borrower))
            return
        try:
            self._handle(link, selectors.EVENT_READ)
            if self._dispatch.given:
                self._send_given()
        finally:
            link.take_back(borrower)
            if self._ends_by_ms is not None or self._links.leaving:
                # The thread of the network waits for this one to be at rest.
                self._agenda.post(lambda: None)
            self._turn.leave()

    def lend(self, future: NetworkFuture) -> "LentLink | None":
        """See `Future.lend`."""
        lent = LentLink(future.link, self._take_back)
        with FIRM:
            return lent if self._lend(future.link, future, lent) else None

    def forget(self, session: Session) -> None:
        """The client of a session is closed: so are its connections, when what it has sent is answered."""
        if self._thread is not None:
            self._submit(lambda: self._links.leave(session))

    def later(self, ms: int, work: Callable[[], None]) -> None:
        """Do something in the thread of the network after a while. After `close`, at once."""
        self._submit(lambda: self._at(self._clock.tick_ms() + ms, work))

    def move(self, address: Address) -> None:
        """The one node behind a Unix socket listens elsewhere, or again."""
        self._submit(lambda: self.routes.move(address))

    @property
    def has_work(self) -> bool:
        """Whether something was put in, and waits for its turn."""
        return bool(self._agenda.posts)

    def retire(self, successor: Handle, is_over: Callable[[], bool]) -> None:
        """Send nothing any more: what was not sent, and all that comes, goes to the successor, in this order. What was
        sent and not answered fails with NetworkError, and what was to be produced after it: their client keeps the
        order. When all was passed on, the thread of the network asks `is_over`, again and again until that says so:
        then nothing comes any more.
        """
        self._submit(lambda: self._pass_all(successor, is_over))

    def _submit(self, work: Callable[[], None]) -> None:
        self._post(partial(_do, work))

    def _post(self, work: Callable[[], None]) -> None:
        if self._thread is None and not self._is_closed:
            with self._starting:
                if self._thread is None:
                    self._thread = started(self._run, "pylog-network")
                    # Where the interpreter ends there is none, and nothing is answered any more.
                    self._dispatch.is_over = self._thread is None
        self._agenda.post(work)
        if self._dispatch.is_over:
            # No thread is left that would do it.
            self._agenda.call_posted()

    def measure(self, found: Metrics) -> None:
        """Add the numbers of the connections."""
        self._links.traffic.measure(found, sum(link.is_ready for link in self._links))

    def hurry(self) -> bool:
        """Do nothing: the nodes go on without this client."""
        return False

    def close(self) -> None:
        """Wait a second at most for what was sent, answer the rest with Closed, and end. Again: nothing."""
        self._is_closed = True
        thread = self._thread
        if thread is None:
            self._end()
            return
        self._submit(self._begin_to_end)
        if not self.has_turn:
            thread.join()

    def abandon(self) -> None:
        """Let go of all sockets in a forked child: the connections, and what waits for answers, are its parent's."""
        self._starting, self._turn = WholeLock(), NetworkTurn()
        self._is_closed = self._dispatch.is_over = True
        self._thread = None
        self._links.abandon()
        self._dispatch.coordinators.take_all()
        self._agenda.abandon()
        self._selector.close()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._agenda.belongs_here()
        ready: list[tuple[selectors.SelectorKey, int]] = []
        self._turn.take()
        while self._ends_by_ms is None or not self._may_end():
            self._work(ready)
            seconds = self._sleep_seconds()
            self._turn.leave()
            ready = self._selector.select(seconds)
            self._turn.take()
        self._end()
        self._turn.leave()

    def _work(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, mask in ready:
            if not isinstance(key.data, Link):
                key.data(mask)
            elif key.data.is_lent:
                # It ends. Who waits at it hears of that, too.
                key.data.ignore()
            else:
                self._handle(key.data, mask)
        self._agenda.call_due(self._clock.tick_ms())
        while self._unread:
            link, _ = self._unread.popitem()
            self._handle(link, selectors.EVENT_READ)
        self._send_given()
        for call in self._links.end_left():
            call.fail(Closed("the consumer was closed"))

    def _send_given(self) -> None:
        """Send what was given to links in this turn: together, where there was much."""
        while self._dispatch.given:
            link, _ = self._dispatch.given.popitem()
            # Where it has failed since, its calls went elsewhere.
            self._handle(link, 0)

    def _sleep_seconds(self) -> float | None:
        if self._unread or (self._ends_by_ms is not None and self._may_end()):
            return 0
        return self._agenda.timeout

    def _at(self, due_ms: int, work: Callable[[], None]) -> None:
        if self._dispatch.is_over:
            work()
        else:
            self._agenda.at(due_ms, partial(_do, work))

    def _open(self, link: Link) -> None:
        if link.state is LinkState.RESTING and link in self._links:
            try:
                link.open(self._clock.tick_ms())
                self._lookout.watch(link)
            except OSError as error:
                self._fail(link, error)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _tell(self, answers: Sequence[Answered]) -> None:
        for call, answer, error, body in answers:
            if body is not None:
                self._links.traffic.note_answer(call)
            if isinstance(answer, MetadataResponse):
                self.routes.learn(answer.nodes)
            if call.future.done():
                continue
            if error is not None:
                call.fail(error)
            elif call.place is None or self._ends_by_ms is not None or not self._moved(call, answer):
                call.answer(answer)

    def _handle(self, link: Link, events: int) -> None:
        """Use a link, and give the answers that came by it, also where it broke: a node that ends answers what it has
        taken, and closes.
        """
        if link in self._links:
            answers: list[Answered] = []
            error = self._use(link, events, answers)
            self._tell(answers)
            if error is not None:
                self._fail(link, error)

    def _use(self, link: Link, events: int, answers: list[Answered]) -> Exception | None:
        """Do what a link is ready for, or send what waits for it (0): adds the answers that came; gives the error that
        has broken it.
        """
        try:
            now = self._clock.tick_ms()
            if not events:
                link.send_waiting(now, answers)
            else:
                link.handle(events, now, answers)
                if not link.was_reached and link.is_proven:
                    link.was_reached = True
                    self.routes.reached(link.address)
                if link.waiting:
                    self._dispatch.given[link] = None
                if self._has_tls and link.has_more:
                    self._unread[link] = None
            self._lookout.watch(link)
        except (OSError, PylogError) as raised:
            return raised
        except Exception as raised:
            # The other connections go on.
            logger.exception("a connection to %s failed within", link.address)
            return NetworkError(f"it failed within: {raised!r}")
        return None

    def _conclude(self, link: Link, answers: Sequence[Answered], error: Exception | None) -> None:
        self._tell(answers)
        if error is not None:
            self._fail(link, error)

    # --- the node comes into this process ----------------------------------------------------------------------------

    def _pass_all(self, successor: Handle, is_over: Callable[[], bool]) -> None:
        self._dispatch.successor = successor
        # What waits to be sent again is the oldest.
        self._agenda.call_early()
        for link in self._links:
            self._fail(link, NetworkError("the node is in this process now"))
        for call in self._dispatch.coordinators.take_all():
            self._dispatch.begin(call)
        self._come_to_an_end(is_over)

    def _come_to_an_end(self, is_over: Callable[[], bool]) -> None:
        if not is_over() and not self._dispatch.is_over:
            self._submit(lambda: self._come_to_an_end(is_over))

    # --- failures and time -------------------------------------------------------------------------------------------

    def _fail(self, link: Link, error: Exception) -> None:
        """A connection is broken, or was never made."""
        if link not in self._links:
            return
        if not self.routes.was_reached:
            error = link.explained(error)
        self._links.let_go(link)
        self.routes.failed(link.address, error, self._clock.tick_ms())
        self._dispatch.lost(link, error)

    def _look(self) -> None:
        """End what has taken too long, and close what is idle."""
        now = self._clock.tick_ms()
        for link in self._links:
            if link.next_deadline_ms is not None and now >= link.next_deadline_ms:
                self._end_late(link, now)
            if link in self._links and self._links.is_late(link, now):
                setup_ms = self._config.socket_connection_setup_timeout_ms
                self._fail(link, NetworkError(f"no connection within {setup_ms} ms"))
            elif link in self._links and self._links.is_silent(link, now):
                self._links.let_go(link)

    def _end_late(self, link: Link, now_ms: int) -> None:
        unsent, late = link.late(now_ms)
        for call in unsent:
            before = self.routes.last_error(link.address)
            why = "" if before is None else f": {before}"
            call.fail(RequestTimedOut(f"{link.name} was not reached in time to send it a {call.name}{why}"))
        self._tell(late)
        if late:
            # Its answer may come yet, and what was asked after it waits for that.
            self._fail(link, NetworkError("it has not answered in time"))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _begin_to_end(self) -> None:
        self._ends_by_ms = self._clock.tick_ms() + CLOSE_MS
        # The loop wakes by then.
        self._agenda.at(self._ends_by_ms, lambda: None)

    def _may_end(self) -> bool:
        if self._agenda.timeout == 0:
            return False
        assert self._ends_by_ms is not None, "it has begun to end"
        waits = any(
            not isinstance(call.message, Fetch)
            for link in self._links
            for call in (link.calls if link.is_ready else link.in_flight)
        )
        return not waits or self._clock.tick_ms() >= self._ends_by_ms

    def _end(self) -> None:
        self._dispatch.is_over = True
        left = [*self._dispatch.coordinators.take_all(), *self._links.close()]
        # What was to be asked again is not: it hears that this is closed.
        self._agenda.call_all()
        self._selector.close()
        self._agenda.close()
        for call in left:
            call.fail(Closed("this log is closed: connect again"))


class LentLink:
    """The socket of a connection, while a caller waits there. See `LentSocket`."""

    __slots__ = ("_link", "_take_back")

    def __init__(self, link: Link, take_back: Callable[[Link, object, float], None]) -> None:
        self._link, self._take_back = link, take_back

    def fileno(self) -> int:
        return self._link.fileno()

    def take_back(self) -> None:
        with FIRM:
            self._take_back(self._link, self, 0)


def _do(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        logger.exception("a step of the network failed")
