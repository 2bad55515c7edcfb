"""Other processes of this system, as /proc tells of them (Linux; elsewhere nothing is known of any).

    attached process 4711 6c1f0a3e-4026531836-8812345
                     pid  boot     namespace  start

The name of a process stays true: a later process with the same pid has another start. It can be checked by any process
that sees the same pids, also after the one that wrote it down has ended.
"""

import errno
import os
import re

__all__ = ["RunningProcess", "can_watch", "has_ended", "heir_of", "is_gone", "lock_holders", "name_of"]

PROC = "/proc"
ATTACHED = "attached process "
BOOT_DIGITS = 8
STATE, THREADS, START = 0, 17, 19
"""Fields of /proc/PID/stat, counted from the one behind the name of the program."""
HEIR_LOOKS = 64
"""Where no heir was found, one of so many calls looks again."""
_TAKEN = re.compile(r"^lock:.*\bFLOCK\b.*?(\d+) [0-9a-f]+:[0-9a-f]+:\d+ ", re.MULTILINE)
_NAME = re.compile(rf"{ATTACHED}(\d+) ([0-9a-f]+)-(\d+)-(\d+)")

_heirs: dict[tuple[int, int], tuple[str, int]] = {}
"""The pid that `heir_of` found last, and how many calls since then found none, by the device and number of the file."""


def name_of(pid: int) -> str:
    """The name of a process that runs; empty where the system does not tell."""
    where, start = _here(), _start(pid)
    return f"{ATTACHED}{pid} {where[0]}-{where[1]}-{start}" if where is not None and start else ""


def has_ended(name: str) -> bool:
    """Whether a name is that of a process, and that process has ended; False where this cannot be known from here."""
    found, here = _NAME.fullmatch(name), _here()
    if found is None or here is None:
        return False
    pid, boot, namespace, start = found.groups()
    if boot != here[0]:
        return True
    return namespace == here[1] and _start(int(pid)) != start


def is_gone(pid: int) -> bool:
    """Whether no process of this namespace has that pid, or it has ended; False where the system does not tell."""
    return bool(_start(os.getpid())) and not _start(pid)


def heir_of(descriptor: int) -> int | None:
    """A process that has a lock (flock) on this open file which another one took, and that has ended: a child that was
    forked meanwhile. None: this user may see no such process, or it is not looked for again yet.
    """
    status = os.fstat(descriptor)
    file = status.st_dev, status.st_ino
    found, misses = _heirs.get(file, ("", 0))
    if misses % HEIR_LOOKS:
        # A look reads what /proc tells of each process, and an opener that waits asks every few milliseconds.
        _heirs[file] = "", misses + 1
        return None
    others = set(filter(str.isdigit, _names(PROC))) - {str(os.getpid())}
    # The one that was found last comes first: an opener that waits for its end asks often.
    heir = next((pid for pid in sorted(others, key=lambda pid: pid != found) if _keeps(pid, file)), "")
    _heirs[file] = heir, 0 if heir else misses + 1
    return int(heir) if heir else None


def lock_holders(status: os.stat_result) -> list[tuple[int, int]]:
    """The processes that have taken a lock (flock) on a file, each with its user; those that are seen from here."""
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open(f"{PROC}/locks") as file:
            taken = [fields for fields in map(str.split, file) if fields[1] == "FLOCK" and fields[5] == place]
        return [(int(pid), os.stat(f"{PROC}/{pid}").st_uid) for pid in {fields[4] for fields in taken}]
    except OSError:
        # One has ended meanwhile, or the system does not tell.
        return []


def _keeps(pid: str, file: tuple[int, int]) -> bool:
    for number in _names(f"{PROC}/{pid}/fd"):
        try:
            status = os.stat(f"{PROC}/{pid}/fd/{number}")
            if (status.st_dev, status.st_ino) == file and _is_left(f"{PROC}/{pid}/fdinfo/{number}"):
                return True
        except OSError:
            # It was closed meanwhile, or is another user's.
            continue
    return False


def _is_left(path: str) -> bool:
    """Whether an open file has a lock whose taker has ended."""
    with open(path) as file:
        taken = _TAKEN.search(file.read())
    # In a container the pid of a taker that has ended is 0.
    return taken is not None and is_gone(int(taken[1]))


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def can_watch() -> bool:
    """Whether the system has descriptors for processes (Linux)."""
    return hasattr(os, "pidfd_open")


class RunningProcess:
    """A process by a descriptor, which can be read from when the process ends, whichever way it does (pidfd).

    Raises OSError: it has ended, the system does not tell of it, or no descriptors are left.
    """

    __slots__ = ("_descriptor", "name")

    def __init__(self, pid: int) -> None:
        self.name = name_of(pid)
        self._descriptor = os.pidfd_open(pid)
        # The descriptor is of that process if it goes on.
        if not self.name or name_of(pid) != self.name:
            self.close()
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


def _here() -> tuple[str, str] | None:
    """The boot of the system, and the namespace of the pids that this process sees."""
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id") as file:
            boot = file.read(BOOT_DIGITS)
        return boot, str(os.stat(f"{PROC}/self/ns/pid").st_ino)
    except OSError:
        return None


def _start(pid: int) -> str:
    """When a process began, in ticks since the boot; empty: no such process runs, or it has ended and waits for its
    parent.
    """
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    # Other threads may go on where the first one has ended.
    is_over = fields[STATE] in (b"Z", b"X") and int(fields[THREADS]) <= 1
    return "" if is_over else fields[START].decode()
