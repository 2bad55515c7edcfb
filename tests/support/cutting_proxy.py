"""A proxy between a client and a server that cuts connections after a random number of bytes, in either direction."""

import contextlib
import random
import selectors
import socket
import threading
from typing import Self

__all__ = ["CuttingProxy"]

CHUNK = 4096


class CuttingProxy:
    """Listens at `address`, and carries bytes to `target`. While `is_cutting`, a connection lives for `bytes_max`
    bytes at most in each direction; where it ends, a part of what was sent may have got through.
    """

    def __init__(self, target: str, seed: int, bytes_max: int) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._random = random.Random(seed)
        self._bytes_max = bytes_max
        self.is_cutting = False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: dict[socket.socket, socket.socket] = {}
        self._left: dict[socket.socket, int] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._bell, self._ringer = socket.socketpair()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="cutting-proxy")
        self._thread.start()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                one = key.fileobj
                assert isinstance(one, socket.socket)
                if one is self._bell:
                    return
                if one is self._listener:
                    self._accept()
                elif one in self._ends:
                    self._carry(one)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._target, timeout=240)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            self._ends[one] = other
            self._selector.register(one, selectors.EVENT_READ)
        self._left[near] = self._left[far] = self._random.randrange(1, self._bytes_max)

    def _carry(self, one: socket.socket) -> None:
        other = self._ends[one]
        with contextlib.suppress(OSError):
            data = one.recv(CHUNK)
            if self.is_cutting:
                data = data[: self._left[one]]
                self._left[one] -= len(data)
            if data:
                other.sendall(data)
            if data and (self._left[one] or not self.is_cutting):
                return
            self.cuts += 1
        self._end(one)

    def _end(self, one: socket.socket) -> None:
        for end in (one, self._ends.pop(one)):
            self._ends.pop(end, None)
            self._left.pop(end, None)
            self._selector.unregister(end)
            end.close()

    def close(self) -> None:
        self._ringer.send(b"\0")
        self._thread.join()
        for one in list(self._ends):
            if one in self._ends:
                self._end(one)
        for end in (self._listener, self._bell, self._ringer):
            end.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
