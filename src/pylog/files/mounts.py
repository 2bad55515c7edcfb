"""The kind of file system that a path lies on: a log needs a local one.

A network file system answers for a sync, a lock and a length of which only it knows the truth: another machine may hold
the same lock, and a server that restarts may undo an acknowledged sync. The kernel lists its mounts in
/proc/self/mountinfo, one on a line:

    36 35 98:0 /in/the/device /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw
    |  |  |    |              |                                | |
    id parent  root           where, with \\040 for a blank     | type: what matters here
       device                                                  ends the optional fields
"""

import os
import re
from typing import NamedTuple

from pylog.errors import StorageError

_MOUNTINFO = "/proc/self/mountinfo"
_NETWORK = frozenset(
    "9p acfs afs beegfs ceph cifs coda cvmfs davfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs panfs "
    "pvfs2 smb2 smb3 smbfs virtiofs wekafs".split()
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """The place where a file system is mounted, and its kind."""

    point: str
    kind: str


def mount_of(path: str, mountinfo: str) -> Mount | None:
    """The mount that the real path `path` lies in. Of several at one point the last covers the others."""
    found: Mount | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (found is None or len(point) >= len(found.point)):
            found = Mount(point, after.split(" ")[0])
    return found


def is_network(kind: str) -> bool:
    """Whether another machine, or a program, keeps this kind of file system. (`fuseblk` is a local device.)"""
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def mounts() -> str:
    """The text of /proc/self/mountinfo; nothing where the kernel does not say (another system, a sandbox)."""
    try:
        with open(_MOUNTINFO, encoding="utf-8", errors="surrogateescape") as source:
            return source.read()
    except OSError:
        return ""


def refuse_network(path: str, mountinfo: str | None = None) -> None:
    """Raise StorageError when `path`, or the directory it would be made in, lies on a network file system or on FUSE.

    `mountinfo`: by default that of `mounts`. Where it says nothing, everything is allowed.
    """
    mount = mount_of(os.path.realpath(path), mounts() if mountinfo is None else mountinfo)
    if mount is not None and is_network(mount.kind):
        raise StorageError(
            f"{path} lies on {mount.point}, a file system of type {mount.kind}: it is not local, so its locks and "
            "syncs prove nothing. Put the log on a local disk, or open it with "
            "config={'allow.network.file.systems': True} and without a guarantee that anything acknowledged survives"
        )
