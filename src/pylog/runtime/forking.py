"""Steps that no fork comes in between: a child would have a descriptor that nothing in it knows of, and closes.

    with undivided:
        client = listening.accept()
        connections.add(client)

The system tells a peer that a process has ended when the last copy of a descriptor is closed, and gives a lock free
then. So what a process has open for others to see is known to a hook (`os.register_at_fork`) from its first moment, and
the hook closes it in the child. A fork waits for such steps: they are short, and do not fork.
"""

import os

from pylog.runtime.signals import WholeLock

__all__ = ["undivided"]

undivided = WholeLock()

os.register_at_fork(before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release)
