"""The check that a directory is a log directory, before anything is read or made in it.

A log directory has `meta.properties`, or at least one folder that has a partition's name and files of a partition:
other programs call their folders `gtk-2`, too.
"""

from pylog.commitlog.segments import base_offsets
from pylog.errors import LogNotFound, ReadOnly, StorageError
from pylog.files import Files, join
from pylog.logdirs.log_directory import LOCK, META_PROPERTIES, SOCKET
from pylog.storage.checkpoint import PARTITION_METADATA
from pylog.storage.partition_dirs import folder_name, partition_folders

_IN_A_NEW_ONE = frozenset({LOCK, SOCKET, f"{META_PROPERTIES}.tmp", "lost+found"})


def require_directory(files: Files, path: str) -> None:
    """Raise LogNotFound unless `path` is a directory."""
    stat = files.stat(path)
    if stat is None:
        raise LogNotFound(f"{path}: there is no log directory; open it for writing first, or check the path")
    if not stat.is_dir:
        raise LogNotFound(f"{path}: this is a file, not a log directory")


def require_log(files: Files, path: str) -> None:
    """Raise LogNotFound unless `path` is a log directory: a reader never makes one."""
    require_directory(files, path)
    if not _is_log(files, path):
        raise LogNotFound(
            f"{path}: neither meta.properties nor a folder with a partition's files is here, so it is no log directory"
        )


def refuse_foreign(files: Files, path: str) -> None:
    """Raise StorageError where `path` is a directory with something in it and no log directory.

    A caller that must not mix a log with other things asks before it owns, and so makes, a log.
    """
    stat = files.stat(path)
    if stat is not None and stat.is_dir and set(files.list_dir(path)) - _IN_A_NEW_ONE and not _is_log(files, path):
        raise StorageError(
            f"{path} is not empty, and no log directory: give the directory of a log, an empty one, or one that is to "
            "be made"
        )


def _is_log(files: Files, path: str) -> bool:
    if files.stat(join(path, META_PROPERTIES)) is not None:
        return True
    keys = partition_folders(files, path, internal=True)
    return any(_is_partition(files, join(path, folder_name(*key))) for key in keys)


def _is_partition(files: Files, path: str) -> bool:
    """Whether a folder with the name of a partition has files of one: other programs have folders `gtk-2`, too."""
    try:
        return bool(base_offsets(files, path)) or files.stat(join(path, PARTITION_METADATA)) is not None
    except (LogNotFound, ReadOnly):
        return False
