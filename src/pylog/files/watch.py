"""Word from the kernel that a file in a directory was written: what a reader sleeps on until its owner publishes.

Linux has inotify for it, which the C library offers to every process; it takes nothing of the writer, and no permission
but to read. Elsewhere, and where the system has no more watches to give, there is no word, and who waits has to look.
It is a hint: a look after it may find nothing new, and what was written before the watch was made is not told.
"""

import os

_MODIFY, _MOVED_TO = 0x002, 0x080
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_EVENTS_BYTES = 1 << 16


class Watch:
    """Readable (`fileno`) when something was written; `take` before the next look. Close it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """What to wait at."""
        return self._descriptor

    def take(self) -> None:
        """Take what was told so far."""
        # Not `suppress`, three calls of Python more between a record and who waits for it.
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
