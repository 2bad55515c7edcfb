"""Steps that no fork comes in between: a child would have a descriptor that nothing in it knows of, and closes.

    with undivided:
        client = listening.accept()
        connections.add(client)

The system tells a peer that a process has ended when the last copy of a descriptor is closed, and gives a lock free
then. So what a process has open for others to see is known to a hook (`os.register_at_fork`) from its first moment, and
the hook closes it in the child. A fork waits for such steps: they are short, and do not fork.

A stray child was forked by other code than Python's: no hook has run there. All that it has is its parent's.
"""

import os

from pylog.runtime.signals import WholeLock

__all__ = ["is_stray", "undivided"]

undivided = WholeLock()

_known = [os.getpid()]
"""The process that the hooks know of."""


def is_stray() -> bool:
    """Whether this process was forked without the hooks: it must not end what its parent still uses."""
    return os.getpid() != _known[0]


def _forked() -> None:  # pragma: no cover - in a forked child
    _known[0] = os.getpid()


os.register_at_fork(before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release)
os.register_at_fork(after_in_child=_forked)
