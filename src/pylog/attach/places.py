"""Where the socket of an owner lies: in its log directory, or where that cannot be, in a directory of its user's.

The path of a Unix socket has 103 bytes at most, and not every file system has sockets. The owner writes down where it
listens (`notice`), so the others need not guess.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator

from pylog.attach.notice import Notice, read_notice
from pylog.errors import NoOwner, ReadOnly
from pylog.files import Files, join
from pylog.files.outside import place_of, runtime_dir
from pylog.files.processes import is_gone
from pylog.logdirs.log_directory import SOCKET
from pylog.runtime.signals import whole
from pylog.server.binding import SOCKET_PATH_BYTES_MAX, Bound, bind, bind_again
from pylog.server.listeners import UnixAddress

__all__ = ["find_owner", "is_open", "listening", "listening_again", "peer_of", "socket_path"]

ABSENT = (errno.ECONNREFUSED, errno.ENOENT)
DENIED = (errno.EACCES, errno.EPERM)


def listening(path: str) -> tuple[Bound, str]:
    """A socket that listens for the directory `path`, and where, from the directory on. Raises OSError: nowhere."""
    refused: OSError | None = None
    for place in _places(path):
        try:
            return bind(UnixAddress(socket_path(path, place))), place
        except OSError as error:
            refused = error
    assert refused is not None, "there is a place"
    raise refused


def listening_again(bound: Bound, place: str) -> Bound:
    """A socket at the same place, for one whose file is gone. Raises OSError: that cannot be, or a file lies there."""
    if place != SOCKET:
        # The directory may be gone as well: that of XDG_RUNTIME_DIR goes with the last session of its user.
        runtime_dir()
    return bind_again(bound)


def _places(path: str) -> Iterator[str]:
    if len(os.fsencode(join(path, SOCKET))) <= SOCKET_PATH_BYTES_MAX:
        yield SOCKET
    device, number = place_of(path)
    yield join(runtime_dir(), f"{device:x}-{number:x}.socket")


def socket_path(path: str, place: str) -> str:
    """The absolute path of a socket that is named from the directory `path` on."""
    return os.path.join(path, place)


def peer_of(connection: socket.socket) -> int:
    """The process that listens at the other end, as it is seen here; 0: it is not seen (another container, macOS)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)


def is_open(connection: socket.socket) -> bool:
    """Whether the other end of a connection, which says nothing, has not ended it. For any thread."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@whole
def find_owner(files: Files, path: str) -> tuple[Notice, socket.socket] | None:
    """The owner of the directory `path`, and a connection to it, which does not block; None: it does not exist yet,
    it does not listen, or too many wait for it.

    Raises NoOwner (it lets nobody in, and says why), ReadOnly (it is another user's), OSError (no descriptors),
    UnsupportedFormat, StorageError.
    """
    notice = read_notice(files, path)
    if notice is None:
        return None
    connection = _connect(path, notice)
    if connection is None:
        return None
    if is_gone(peer_of(connection) or os.getpid()):
        # A child of it that has its socket answers nothing.
        connection.close()
        return None
    try:
        # Another one may listen there since the notice was read. It empties the lock file before it listens.
        if read_notice(files, path) == notice:
            return notice, connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _connect(path: str, owner: Notice) -> socket.socket | None:
    if not owner.socket:
        raise NoOwner(f"{owner.who} lets no other process in: {owner.obstacle}")
    place = socket_path(path, owner.socket)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    try:
        made.connect(place)
    except OSError as error:
        made.close()
        if error.errno in (*ABSENT, errno.EAGAIN):
            return None
        if error.errno in DENIED:
            raise ReadOnly(
                f"cannot connect to {place}: {error.strerror}. The owner of the log is a process of another user: run "
                "both as the same user, or read with mode='read'"
            ) from error
        raise NoOwner(f"cannot connect to the owner of the log at {place}: {error.strerror or error}") from error
    return made
