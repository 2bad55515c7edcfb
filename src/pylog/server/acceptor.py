"""The listening socket of a loop. It takes a few connections in a turn, and pauses where no descriptors are left."""

import logging
import selectors
import socket
from collections.abc import Callable

from pylog.runtime.forking import undivided
from pylog.runtime.sockets import stop_listening

logger = logging.getLogger("pylog.server")

ACCEPTED_MAX = 64
"""How many connections are accepted in a turn, before the others have theirs."""
ACCEPT_PAUSE_MS = 100


class Acceptor:
    """Accepts connections and hands them to `connect`, with the address of the client. For the loop's thread.

    `later(ms, call)` has the loop call something after that time. `wait_ms` says how long the next one has to wait: a
    call that gives 0 counts as one.
    """

    def __init__(
        self, listening: socket.socket, selector: selectors.BaseSelector,
        connect: Callable[[socket.socket, str], None], later: Callable[[int, Callable[[], object]], None],
        wait_ms: Callable[[], int] = lambda: 0,
    ) -> None:  # fmt: skip
        self._listening = listening
        self._selector = selector
        self._connect = connect
        self._later = later
        self._wait_ms = wait_ms
        self._is_closed = False

    def resume(self) -> None:
        """Accept from now on."""
        if not self._is_closed and self._listening not in self._selector.get_map():
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def move(self, listening: socket.socket) -> None:
        """Accept at another socket from now on. The one before is closed."""
        if self._is_closed:
            stop_listening(listening)
            return
        self._pause()
        before, self._listening = self._listening, listening
        stop_listening(before)
        self.resume()

    def _pause(self) -> None:
        if self._listening in self._selector.get_map():
            self._selector.unregister(self._listening)

    def _pause_for(self, ms: int) -> None:
        self._pause()
        self._later(ms, self.resume)

    def _accept(self, events: int) -> None:
        for _ in range(ACCEPTED_MAX):
            if wait := self._wait_ms():
                self._pause_for(wait)
                return
            with undivided:
                if not self._accept_one():
                    return

    def _accept_one(self) -> bool:
        """Accept a connection; gives whether there may be more."""
        try:
            client, place = self._listening.accept()
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        except OSError as error:
            # No descriptors are left, say. Others may be closed meanwhile.
            logger.warning("a connection cannot be accepted now: %s", error)
            self._pause_for(ACCEPT_PAUSE_MS)
            return False
        # A client of a Unix socket has no address.
        host = place[0] if isinstance(place, tuple) else ""
        self._connect(client, host)
        return True

    def close(self) -> None:
        """Accept no more."""
        if not self._is_closed:
            self._is_closed = True
            self._pause()
            stop_listening(self._listening)

    def abandon(self) -> None:
        """Close the descriptor and nothing else, in a forked child."""
        self._listening.close()
