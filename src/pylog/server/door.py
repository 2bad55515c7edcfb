"""A door: a listening socket, and what its clients have to do before they are served.

plain      nothing
TLS        a handshake, with a certificate of their own where that is asked for
SASL       an exchange by which they prove their names
"""

from typing import TYPE_CHECKING, NamedTuple

from pylog.server.binding import Bound
from pylog.server.connection import Connection
from pylog.server.served_node import ServedNode

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pylog.server.authentication import Sasl
    from pylog.server.tls import Certificates

__all__ = ["Door"]


class Door(NamedTuple):
    """The door of one listener. `node` is the node as its clients see it: with the address that they are told.
    `host_of` names the host of a client that has no address.
    """

    bound: Bound
    node: ServedNode
    certificates: "Certificates | None" = None
    sasl: "Sasl | None" = None
    host_of: "Callable[[socket.socket], str] | None" = None

    def connection(self, client: "socket.socket", host: str, now_ms: int) -> Connection:
        """A connection that was accepted here."""
        tls = None if self.certificates is None else self.certificates.wrap(client)
        authentication = None if self.sasl is None else self.sasl.authentication(host)
        made = Connection(client, host, self.node, now_ms, authentication, tls)
        if self.host_of is not None:
            made.host = self.host_of(client) or made.host
        return made
