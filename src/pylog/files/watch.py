"""Two descriptors that a thread sleeps on: word from the kernel of a written file, and word from another thread.

    Watch   readable when a file in a directory was written: what a reader sleeps on until the owner publishes
    Waker   readable when `wake` was called: what ends that sleep early

Linux has inotify for the first. The C library offers it to every process; it costs the writer nothing and needs no
permission but to read. Other systems, and a system without watches to spare, give no word, and a reader looks by the
clock. A word is a hint: a look after it may find nothing new, and a write before the watch was made is not told.
"""

import os
from contextlib import suppress

from pylog.errors import StorageError
from pylog.runtime.signals import WholeLock

_MODIFY, _MOVED_TO = 0x002, 0x080
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_EVENTS_BYTES = 1 << 16


class Watch:
    """Readable (`fileno`) after a write into the directory; call `take` before the next look. Close it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The descriptor to wait at."""
        return self._descriptor

    def take(self) -> None:
        """Take the word that has come so far."""
        # Not `suppress`: its three calls of Python would stand between a record and its reader.
        try:  # noqa: SIM105
            os.read(self._descriptor, _EVENTS_BYTES)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def watch(path: str) -> Watch | None:
    """A watch of the files in the directory `path`; None where the system has none, or no descriptor to spare."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        descriptor = libc.inotify_init1(_FLAGS)
    except (AttributeError, ImportError, OSError, TypeError):
        return None
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(path), _MODIFY | _MOVED_TO) < 0:
        os.close(descriptor)
        return None
    return Watch(descriptor)


class Waker:
    """Readable (`fileno`) from `wake` until `take`. Thread-safe; `wake` is for handlers of signals, too.

    Raises StorageError where no descriptor is left.
    """

    def __init__(self) -> None:
        try:
            self._out, self._into = os.pipe()
        except OSError as error:
            raise StorageError(
                f"cannot make a pipe: {error.strerror}. Raise the limit of open files (ulimit -n)"
            ) from error
        os.set_blocking(self._out, False)
        os.set_blocking(self._into, False)
        # After `close` the numbers belong to other files.
        self._lock = WholeLock()
        self._closed = False

    def fileno(self) -> int:
        """The descriptor to wait at."""
        return self._out

    def wake(self) -> None:
        """End the sleep of now, or the next one."""
        with self._lock:
            if not self._closed:
                # A full pipe is readable already.
                with suppress(BlockingIOError):
                    os.write(self._into, b"\0")

    def take(self) -> None:
        """Forget the calls of `wake` so far."""
        with suppress(BlockingIOError):
            os.read(self._out, _EVENTS_BYTES)

    def begin_anew(self) -> None:
        """Forget in a forked child which thread of the parent was at it."""
        self._lock = WholeLock()

    def close(self) -> None:
        """Give the descriptors back, when no thread waits at them any more."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._out)
                os.close(self._into)
