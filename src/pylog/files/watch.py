"""A watch on a directory: the kernel wakes a reader when the owner writes a file in it.

Linux has inotify for it, which the C library offers to every process; it costs the writer nothing, and needs no
permission but to read. Elsewhere, and where the system has no more watches to give, there is no watch, and a waiting
reader has to poll. An event is a hint: a look after it may find nothing new, and writes before the watch was made cause
no event.
"""

import os

_MODIFY, _MOVED_TO = 0x002, 0x080
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_EVENTS_BYTES = 1 << 16


class Watch:
    """A descriptor (`fileno`) that is readable after a write; call `take` before the next look. Close it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The descriptor to wait at."""
        return self._descriptor

    def take(self) -> None:
        """Take the events so far."""
        # `suppress` would add three calls of Python between a record and its reader.
        try:  # noqa: SIM105
            os.read(self._descriptor, _EVENTS_BYTES)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def watch(path: str) -> Watch | None:
    """A watch of the files in the directory `path`; None where the system has none."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        descriptor = libc.inotify_init1(_FLAGS)
    except (AttributeError, OSError, TypeError):  # pragma: no cover  (another system)
        return None
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(path), _MODIFY | _MOVED_TO) < 0:
        os.close(descriptor)
        return None
    return Watch(descriptor)
