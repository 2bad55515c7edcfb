"""The selector of a network: it may pass a socket over for a while, as a caller waits there."""

import select
import selectors
import socket
from typing import Any

__all__ = ["PASSES_OVER", "LinkSelector"]

PASSES_OVER = hasattr(selectors, "EpollSelector")
"""Whether this system's selector can do that."""


class LinkSelector(selectors.DefaultSelector):
    """A selector of the system's best kind, in which a socket keeps its place while it is passed over.

    `unregister` and `register` take ten times as long. The standard library's selector has no word for it, so this asks
    the `select.epoll` within.
    """

    _selector: Any

    def pass_over(self, one: socket.socket) -> None:
        """Tell nothing of a socket that is read from, until `resume`."""
        self._selector.modify(one, 0)

    def resume(self, one: socket.socket) -> None:
        """Tell again when it can be read from."""
        self._selector.modify(one, select.EPOLLIN)
