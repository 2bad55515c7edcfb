"""Whether everything that was written to a file system is still there: also what was never synced.

A killed process loses nothing that it has written: the system has it. A power cut does, and so does a forced unmount,
or a disk that is pulled out. An incarnation names what has to be the same:

    the boot       /proc/sys/kernel/random/boot_id; macOS: kern.bootsessionuuid (kern.boottime follows the wall clock).
                   All containers of a host share it; another host has another one.
    the mount      a number that no other mount gets in the same boot (`_mount`)
    the file       device, inode and ctime: a copy, and a file that was restored, have another ctime

A remount without loss is another incarnation, too. That is on the safe side: what cannot be told counts as lost. One
thing is not told: a disk that a virtual machine is given back in an older state while it runs and has it mounted.
"""

import os
import sys
from contextlib import suppress

from pylog.files.mounts import mount_of, mounts

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_FIRST_PROCESS = "/proc/1/stat"
_START_TIME = 19
"""The index of a process's start among the fields behind its name, in /proc/<pid>/stat."""
_WITH_SYSFS = ("ext4", "xfs", "f2fs")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_MACOS_DATA = "/System/Volumes/Data"


def incarnation(path: str, mountinfo: str | None = None) -> str | None:
    """The incarnation of the file at `path`; None where it cannot be told. See `protocol.Files`.

    `mountinfo`: by default that of `mounts`.
    """
    with suppress(OSError, ValueError, IndexError):
        found = os.stat(path)
        text = mounts() if mountinfo is None else mountinfo
        boot, mount = _boot(), _mount(os.path.realpath(path), found.st_dev, text)
        if boot and mount:
            return f"{boot} {mount} {found.st_dev} {found.st_ino} {found.st_ctime_ns}"
    return None


def _boot() -> str:
    return _boot_of_macos() if sys.platform == "darwin" else _read(_BOOT_ID)


def _mount(path: str, device: int, mountinfo: str) -> str:
    """A text that tells the mount of a file system from all others of this boot; empty where nothing does.

    The numbers in mountinfo do not: the next mount gets the one that was freed last. The folder that the kernel makes
    in sysfs for a mounted file system does: its inode is never given again. A file system in memory is gone with its
    mount. The root of this system, or of this container, is mounted as long as its first process lives.
    """
    if sys.platform == "darwin":
        return "data" if os.stat(_MACOS_DATA).st_dev == device else ""
    mount = mount_of(path, mountinfo)
    if mount is None:
        return ""
    if mount.kind in _IN_MEMORY:
        return mount.kind
    if mount.kind in _WITH_SYSFS:
        name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
        return f"{mount.kind} {os.stat(f'/sys/fs/{mount.kind}/{name}').st_ino}"
    if mount.point == "/" and mount.kind in ("overlay", "btrfs", "zfs"):
        return f"root {_read(_FIRST_PROCESS).rpartition(')')[2].split()[_START_TIME]}"
    return ""


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as source:
        return source.read().strip()


def _boot_of_macos() -> str:  # pragma: no cover  (another system)
    import ctypes

    size = ctypes.c_size_t(64)
    text = ctypes.create_string_buffer(size.value)
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else text.value.decode("ascii", "replace")
