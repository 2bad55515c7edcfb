"""A network between a follower and its leader that cuts, delays and swallows."""

import contextlib
import socket
import time

from support.cutting_proxy import CHUNK, CuttingProxy

__all__ = ["BadNetwork"]

DELAY_SECONDS_MAX = 0.02
SWALLOWED, DELAYED = 0.004, 0.03


class BadNetwork(CuttingProxy):
    """While `is_cutting`, a connection is cut after some bytes, what passes may be late, and a connection may fall
    silent: then its bytes are swallowed in both directions, and neither end is told.
    """

    def __init__(self, target: str, seed: int, bytes_max: int) -> None:
        self._silent: set[socket.socket] = set()
        self.swallowed = 0
        super().__init__(target, seed, bytes_max)

    def _carry(self, one: socket.socket) -> None:
        if self.is_cutting and one not in self._silent:
            chance = self._random.random()
            if chance < SWALLOWED:
                self._silent |= {one, self._ends[one]}
                self.swallowed += 1
            elif chance < DELAYED:
                time.sleep(self._random.uniform(0, DELAY_SECONDS_MAX))
        if one not in self._silent:
            super()._carry(one)
            return
        with contextlib.suppress(OSError):
            if one.recv(CHUNK):
                return
        self._silent -= {one, self._ends[one]}
        self._end(one)
