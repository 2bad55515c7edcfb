"""The processes that are attached to an owner: each is watched until it ends, whichever way it does.

The system tells of it by a descriptor of the process (pidfd). The end of a connection shows less: a process that goes
on connects again, and a child that was forked by a library holds the connections of a dead one open.

It has no lock. The server's thread alone adds an entry, before it asks the system to watch; the thread that waits takes
the entry out, after the system has told. Each of these steps is one operation on a dict or a set.
"""

import select
from collections.abc import Callable
from socket import socket

from pylog.attach.places import peer_of
from pylog.files.processes import RunningProcess, name_of

__all__ = ["Peers"]


class Peers:
    """`ended` is told the name of each process that ends. Raises OSError: no descriptors are left."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._watched: dict[int, RunningProcess] = {}
        """The processes, by their descriptors."""
        self._names: set[str] = set()
        self._events = select.epoll()

    def host_of(self, connection: socket) -> str:
        """The name of the process at the other end, which is watched from now on; empty where it cannot be."""
        pid = peer_of(connection)
        if pid == 0:
            return ""
        name = name_of(pid)
        if name in self._names:
            return name
        try:
            process = RunningProcess(pid)
        except OSError:
            return ""
        self._names.add(process.name)
        self._watched[process.fileno()] = process
        self._events.register(process, select.EPOLLIN)
        return process.name

    def fileno(self) -> int:
        """A descriptor to wait at: it can be read from when a process has ended."""
        return self._events.fileno()

    def tell(self) -> None:
        """Tell of each process that has ended."""
        for descriptor, _ in self._events.poll(0):
            process = self._watched.pop(descriptor)
            self._names.discard(process.name)
            self._events.unregister(process)
            process.close()
            self._ended(process.name)

    def close(self) -> None:
        """Close the descriptors, when no thread uses them any more. Also those of a forked child, which are copies."""
        self._events.close()
        for process in self._watched.values():
            process.close()
        self._watched.clear()
