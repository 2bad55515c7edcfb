"""The one door to the disk: every call of `os`, `fcntl` and `mmap` on files is made in this package.

Two implementations of one protocol (`protocol`) pass one test suite:

    DiskFiles     a local file system; descriptors are opened on first use and kept in an LRU
    MemoryFiles   the same tree, offsets, errors and locks in memory: what `:memory:` and many tests run on

Read `protocol` first, then `disk`, `disk_file` and `descriptors`; `regular`, `syncing`, `lock`, `processes`, `mounts`,
`incarnation` and `watch` have one subject each, and so has `index_file`, the file of an index. Paths are strings joined
with "/". The type of a failure says what the caller can do about it:

    DiskFull          no room (ENOSPC, EDQUOT, EFBIG); a failed `File.write` left the file as it was
    ReadOnly          no permission or a read-only file system (EACCES, EPERM, EROFS), or `read_only=True`
    LogNotFound       something that must exist does not (ENOENT)
    DirectoryLocked   another process owns the directory
    StorageError      anything else: an I/O error, a file where a directory should be, a FIFO where a file should be

Durability is never implied: `File.sync` covers bytes and length, `sync_dir` covers names. Two calls include it and say
so: `make_dir` and `replace_file`. `refuse_network` rejects a file system that cannot promise durability.
"""

from pylog.files.disk import DiskFiles
from pylog.files.memory import MemoryFiles
from pylog.files.mounts import refuse_network
from pylog.files.protocol import SMALL_BYTES_MAX, DirectoryLock, File, Files, FileStat, join, replaced, too_large
from pylog.files.watch import Waker, Watch

__all__ = [
    "SMALL_BYTES_MAX",
    "DirectoryLock",
    "DiskFiles",
    "File",
    "FileStat",
    "Files",
    "MemoryFiles",
    "Waker",
    "Watch",
    "join",
    "refuse_network",
    "replaced",
    "too_large",
]  # fmt: skip
