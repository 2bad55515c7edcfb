"""The turn at a network: the thread that has it, and no other, looks at connections and changes them.

The thread of the network has it but where it sleeps. Then a caller may take it: it sends its request itself, and reads
the answer that it waits for.
"""

from threading import Lock, get_ident

__all__ = ["NetworkTurn"]


class NetworkTurn:
    """A lock that knows the thread that has it. Take it in a block in which signals wait."""

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None

    @property
    def is_mine(self) -> bool:
        """Whether the caller's thread has it."""
        return self._owner == get_ident()

    def take(self, seconds: float = -1) -> bool:
        """Take it, if it comes free within so many seconds (-1: whenever that is); gives whether it did."""
        if not (self._lock.acquire(timeout=seconds) if seconds else self._lock.acquire(blocking=False)):
            return False
        self._owner = get_ident()
        return True

    def leave(self) -> None:
        """Let others have it."""
        self._owner = None
        self._lock.release()
