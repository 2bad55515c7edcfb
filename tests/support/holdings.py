"""What a process holds that comes and goes: threads, descriptors, child processes, files in its temporary folder."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TASKS = Path("/proc/self/task")
FOREIGN = threading._DummyThread
"""A thread that a library has begun without Python, and that has asked for its name. It stays listed after its end."""


class Holding(NamedTuple):
    """One of these. It equals another one as long as it is the same thread, open file, process or file."""

    kind: str
    which: object

    def __str__(self) -> str:
        return f"the {self.kind} {self._name()}"

    def _name(self) -> object:
        which = self.which
        if isinstance(which, threading.Thread):
            return which.name
        # It may have gone meanwhile.
        with suppress(OSError):
            if isinstance(which, tuple):
                return f"{which[0]} of {os.readlink(f'/dev/fd/{which[0]}')}"
            if self.kind == "child process":
                command = Path(f"/proc/{which}/cmdline").read_bytes().replace(b"\0", b" ")
                return f"{which} ({command[:200].decode(errors='replace')})"
        return which


def holdings(folder: str) -> set[Holding]:
    """All of this process, and of `folder`, at this moment."""
    # One whose start was ended by a signal is listed for ever, and does not live.
    found = {Holding("thread", one) for one in threading.enumerate() if one.is_alive() and not isinstance(one, FOREIGN)}
    found |= {Holding("descriptor", one) for one in _descriptors()}
    found |= {Holding("child process", one) for one in _children()}
    found |= {Holding("temporary file", name) for name in os.listdir(folder)}
    return found


def _descriptors() -> Iterator[tuple[int, int, int]]:
    """Each open descriptor and the file behind it, because a number is given again."""
    for name in os.listdir("/dev/fd"):
        # The listing itself had one.
        with suppress(OSError):
            about = os.fstat(int(name))
            yield int(name), about.st_dev, about.st_ino


def _children() -> Iterator[int]:
    """Children that run, or that nobody has waited for; none where the system has no list of them."""
    if not TASKS.exists():
        return
    # Most tests have none, and one call tells.
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        for task in TASKS.iterdir():
            # A thread may have ended since.
            with suppress(OSError):
                yield from map(int, (task / "children").read_text().split())
