"""Canaries: a file that takes the number of each descriptor that the log closes, at the moment it is closed.

    with Canaries(folder):
        ...                          logs are opened, used, closed, in any threads
    assert not touched(folder)

The system gives a number away again as soon as it is closed: to another file of the log, or of the program around it. A
call that still has the old number then writes there. Here the next file with that number is always a canary, so such a
write cannot go to a place where nobody sees it.

A process that is killed leaves its canary in the folder, so `touched` is for the parent as well. A second close of a
number is written into the canary, too. The newest numbers alone are held, or the process would run out of them.
"""

import errno
import os
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Self

CONTENT = b"A canary: no byte of this file may ever change.\n" * 100
HELD_MOST = 16


class Canaries:
    """The canary of this process, in `folder`: from `begin` on, until `end` or the end of the process.

    `held` is how many numbers it keeps at a time, beyond its own descriptor.
    """

    def __init__(self, folder: Path | str, held: int = HELD_MOST) -> None:
        self._path = Path(folder, f"canary-{os.getpid()}-{id(self):x}")
        self._most = held
        self._numbers: deque[int] = deque()
        self._lock = threading.RLock()  # a finalizer, or the handler of a signal, may close something meanwhile
        self.taken = 0
        """How many numbers it has had."""

    def begin(self) -> None:
        """Take each number that the log closes from now on."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(CONTENT)
        self._own = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._close = os.close
        os.close = self._take
        # A child is forked by a thread that has the lock, or it would have one that nobody gives back.
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._lock.release
        )

    def end(self) -> None:
        """Take none any more, and give back those that are held."""
        os.close = self._close
        with self._lock:
            for number in (*self._numbers, self._own):
                self._close(number)
            self._numbers.clear()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    def _take(self, number: int) -> None:
        caller = sys._getframe(1)
        if not caller.f_globals["__name__"].startswith("pylog."):
            self._close(number)
            return
        with self._lock:
            if number in self._numbers:
                self._tell(f"{caller.f_code.co_qualname} closes {number} once more\n")
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            os.fstat(number)
            # One call: no other thread gets the number in between.
            os.dup2(self._own, number, inheritable=False)
            self.taken += 1
            self._numbers.append(number)
            if len(self._numbers) > self._most:
                self._close(self._numbers.popleft())

    def _tell(self, what: str) -> None:
        with self._path.open("ab") as canary:
            canary.write(what.encode())


def touched(folder: Path | str) -> list[str]:
    """What has reached the canaries in a folder, in words; nothing if all is well."""
    found = []
    for path in sorted(Path(folder).glob("canary-*")):
        content = path.read_bytes()
        if content != CONTENT:
            at = next((at for at, byte in enumerate(CONTENT) if content[at : at + 1] != bytes([byte])), len(CONTENT))
            found.append(f"{path.name}: {len(content)} bytes of {len(CONTENT)}, at {at} {content[at : at + 120]!r}")
    return found
