"""The connections of one client program: one for each node, client and lane, made with its first call.

A client is known by its session. When it has been closed, its connections end as soon as all is answered.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial

from pylog.client.network.address import Address
from pylog.client.network.call import Call, lane_of
from pylog.client.network.dialogue import Dialogue
from pylog.client.network.link import Link, LinkState
from pylog.client.network.selector import LinkSelector
from pylog.client.network.traffic import Traffic
from pylog.config.connection import ConnectionConfig
from pylog.protocol.messages import Fetch, Session
from pylog.protocol.messages.share import ShareFetchRequest
from pylog.protocol.sasl.exchange import sasl_client

__all__ = ["Links"]

BUFFER_BYTES = 256 << 10
LinkKey = tuple[Address, int, str]


class Links:
    """All links of a network. For its thread."""

    def __init__(
        self, config: ConnectionConfig, selector: LinkSelector, context: ssl.SSLContext | None,
        admits: Callable[[socket.socket], bool], name: Callable[[Address], str],
    ) -> None:  # fmt: skip
        self._config = config
        self.idle_ms = config.connections_max_idle_ms
        """How long a link is kept that is of no use."""
        self._selector = selector
        self._context = context
        self._admits = admits
        self._name = name
        self._buffer = bytearray(BUFFER_BYTES)
        self.traffic = Traffic()
        self._links: dict[LinkKey, Link] = {}
        self._sessions: dict[int, Session] = {}
        """The clients, by the identity of their sessions."""
        self.leaving: set[int] = set()
        """Those of the clients that are closed."""

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._links.values()))

    def __contains__(self, link: object) -> bool:
        return isinstance(link, Link) and self._links.get(link.key) is link

    def find(self, address: Address, call: Call) -> Link | None:
        """The link that a call to a node goes by, if there is one."""
        return self._links.get((address, id(call.session), lane_of(call.message)))

    def make(self, address: Address, call: Call, now_ms: int) -> Link:
        """A link for such calls, which is not opened yet."""
        self._sessions[id(call.session)] = call.session
        key = address, id(call.session), lane_of(call.message)
        secure = None if self._context is None else self._secure
        dialogue = self._dialogue(call.session)
        link = Link(
            key, address, dialogue, self._selector, self._buffer, secure, self._admits, now_ms, self.traffic, self._name
        )  # fmt: skip
        self._links[key] = link
        return link

    def _dialogue(self, session: Session) -> Dialogue:
        config = self._config
        login = None
        if config.uses_sasl:
            login = partial(sasl_client, config.sasl_mechanism, config.sasl_username or "", config.sasl_password or "")
        return Dialogue(session.client_id, config.receive_message_max_bytes, config.sasl_mechanism, login)

    def _secure(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        assert self._context is not None, "there is TLS"
        return self._context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)

    def let_go(self, link: Link) -> None:
        """Close a link."""
        del self._links[link.key]
        link.close()

    # --- clients that were closed ------------------------------------------------------------------------------------

    def leave(self, session: Session) -> None:
        """Let the links of a client end, which sends nothing more."""
        self.leaving.add(id(session))

    def end_left(self) -> list[Call]:
        """Close the links of clients that are closed, where what was asked is answered, or of no use to them any more:
        the calls of these.
        """
        unanswered: list[Call] = []
        for session in list(self.leaving):
            left = [link for link in self if link.key[1] == session]
            ended = [link for link in left if link.is_idle or _only_polls(link)]
            for link in ended:
                self.let_go(link)
                unanswered += link.calls
            if len(ended) == len(left):
                self.leaving.discard(session)
                self._sessions.pop(session, None)
        return unanswered

    # --- time --------------------------------------------------------------------------------------------------------

    def is_late(self, link: Link, now_ms: int) -> bool:
        """Whether a link should be connected by now."""
        return _is_opening(link) and now_ms >= self._opened_by_ms(link)

    def is_silent(self, link: Link, now_ms: int) -> bool:
        """Whether a link was of no use for so long that it is closed."""
        return link.is_idle and now_ms >= self._used_by_ms(link)

    def due_ms(self, link: Link) -> int | None:
        """When a link is to be looked at; None: not before something happens to it."""
        if link.is_ready:
            return self._used_by_ms(link) if link.is_idle else link.next_deadline_ms
        times = [] if link.next_deadline_ms is None else [link.next_deadline_ms]
        if _is_opening(link):
            times.append(self._opened_by_ms(link))
        return min(times, default=None)

    def next_ms(self) -> int | None:
        """When one of them is to be looked at."""
        return min((due for due in map(self.due_ms, self) if due is not None), default=None)

    def _used_by_ms(self, link: Link) -> int:
        return link.used_ms + self.idle_ms

    def _opened_by_ms(self, link: Link) -> int:
        return link.begun_ms + self._config.socket_connection_setup_timeout_ms

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> list[Call]:
        """Close all links: the calls that have no answer."""
        left = [call for link in self for call in link.calls]
        for link in self:
            self.let_go(link)
        return left

    def abandon(self) -> None:
        """Let go of all sockets in a forked child."""
        for link in self:
            link.abandon()
        self._links.clear()


def _only_polls(link: Link) -> bool:
    return bool(link.calls) and all(isinstance(call.message, Fetch | ShareFetchRequest) for call in link.calls)


def _is_opening(link: Link) -> bool:
    return not link.is_ready and link.state is not LinkState.RESTING
