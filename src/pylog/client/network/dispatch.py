"""Where a call goes: to a link of a node, to the look-up of its coordinator, or to the node of this process.

    a call for a node          fails with its connection: the client asks again, when it has looked for the leader
    one for a coordinator      is asked again where that has moved, until its time is up
    one for any node           goes to the next one, where it was not sent, or where asking twice does no harm

(Kafka: NetworkClient, NetworkClientUtils.)
"""

import logging
import ssl
from collections.abc import Callable
from functools import partial

from pylog.client.network.address import Address
from pylog.client.network.call import HARMLESS_TWICE, IDENTITY_REFUSED, LEADER_BOUND, Call
from pylog.client.network.coordinators import CoordinatorLookups
from pylog.client.network.link import Link
from pylog.client.network.links import Links
from pylog.client.network.routes import Routes
from pylog.config.connection import ConnectionConfig
from pylog.errors import Closed, LeaderNotAvailable, NetworkError, PylogError, SslAuthentication
from pylog.runtime.clock import Clock
from pylog.transport import ANY_NODE, Handle

__all__ = ["Dispatch"]

logger = logging.getLogger("pylog.client")


class Dispatch:
    """The calls of one network, on their way to a link. For its thread.

    `at` does something at a time; `open_link` opens a link that rests.
    """

    def __init__(
        self, routes: Routes, links: Links, config: ConnectionConfig, clock: Clock,
        at: Callable[[int, Callable[[], None]], None], open_link: Callable[[Link], None],
    ) -> None:  # fmt: skip
        self._routes = routes
        self._links = links
        self._config = config
        self._clock = clock
        self._at = at
        self._open_link = open_link
        self.coordinators = CoordinatorLookups(routes, config, clock, self.begin, at)
        self.given: dict[Link, None] = {}
        """The links that have got calls in this turn."""
        self.successor: Handle | None = None
        """Where all calls go instead: the node has come into this process."""
        self.is_over = False
        """Nothing is sent any more."""

    def ready_link(self, call: Call) -> Link | None:
        """The link that a call for a node goes by, if it is ready; None: `begin` says what becomes of the call."""
        if self.is_over or self.successor is not None or call.place is not None:
            return None
        address = self._routes.nodes.get(call.node)
        link = None if address is None else self._links.find(address, call)
        return link if link is not None and link.is_ready else None

    def begin(self, call: Call) -> None:
        """Send a call on its way, for the first time or again. It fails where there is no way."""
        try:
            self._route(call)
        except Exception as error:
            logger.exception("a call failed within")
            call.fail(NetworkError(f"it failed within: {error!r}"))

    def _route(self, call: Call) -> None:
        if call.future.done():
            return
        if self.is_over:
            call.fail(Closed("this log is closed: connect again"))
        elif self.successor is not None:
            call.hand_to(self.successor)
        elif call.place is not None:
            node = self._routes.coordinator(call.place)
            if node is None:
                self.coordinators.look_up(call.place, call)
            else:
                self._give_node(call, node)
        elif call.node == ANY_NODE and not isinstance(call.message, LEADER_BOUND):
            self._give_any(call)
        else:
            self._give_node(call, call.node)

    def _give_node(self, call: Call, node: int) -> None:
        address = self._routes.nodes.get(node)
        if address is None:
            # A node that is not in the list of nodes has been taken away, or there is no leader.
            call.fail(LeaderNotAvailable(f"node {node} is not there, or the partition has no leader for the moment"))
        else:
            self._give(call, address)

    def _give_any(self, call: Call) -> None:
        address = self._routes.any_node(call.tried)
        now = self._clock.tick_ms()
        if address is not None:
            self._give(call, address)
        elif self._routes.was_reached and now < call.deadline_ms:
            # The cluster was there, and is away: it may come back.
            call.tried.clear()
            self._at(now + self._config.reconnect_backoff_max_ms, partial(self.begin, call))
        else:
            call.fail(NetworkError(f"no node of the cluster can be reached: {self._routes.failures()}"))

    def _give(self, call: Call, address: Address) -> None:
        if self.successor is not None:
            call.hand_to(self.successor)
            return
        link = self._links.find(address, call)
        if link is None:
            now = self._clock.tick_ms()
            link = self._links.make(address, call, now)
            self._at(max(now, self._routes.rests_until_ms(address)), partial(self._open_link, link))
        link.give(call)
        self.given[link] = None

    def lost(self, link: Link, error: Exception) -> None:
        """A connection is gone: ask its calls elsewhere, or again, where that is right; the others fail."""
        is_final = isinstance(error, (*IDENTITY_REFUSED, ssl.SSLCertVerificationError))
        for call in link.in_flight:
            if isinstance(call.message, HARMLESS_TWICE) and call.node == ANY_NODE and call.place is None:
                self._try_next(call, link, error, is_final=is_final)
            else:
                call.fail(NetworkError(
                    f"the connection to {link.name} was lost: {error}; whether the node has had the "
                    f"{call.name} is not known"
                ))  # fmt: skip
        for call in link.waiting:
            self._try_next(call, link, error, is_final=is_final)

    def _try_next(self, call: Call, link: Link, error: Exception, *, is_final: bool) -> None:
        if self.successor is not None and not isinstance(call.message, LEADER_BOUND):
            call.hand_to(self.successor)
        elif is_final:
            call.fail(error if isinstance(error, PylogError) else SslAuthentication(f"{link.name}: {error}"))
        elif call.place is not None and self._clock.tick_ms() < call.deadline_ms:
            # It was not sent. The node was forgotten as a coordinator; it may be the one again.
            self._at(self._clock.tick_ms() + self.coordinators.backoff_ms(call), partial(self.begin, call))
        elif call.node == ANY_NODE and call.place is None and not isinstance(call.message, LEADER_BOUND):
            call.tried.add(link.address)
            self._give_any(call)
        else:
            call.fail(NetworkError(f"{link.name} cannot be reached: {error}"))
