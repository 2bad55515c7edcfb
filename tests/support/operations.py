"""What is done to files, as `crash` notes it down and `cuts` makes of it what a crash can leave."""

from typing import NamedTuple


class Written(NamedTuple):
    """Bytes of a file, in one call."""

    inode: int
    position: int
    buffers: tuple[bytes, ...]


class Cut(NamedTuple):
    """A file gets another length."""

    inode: int
    size: int


class Reserved(NamedTuple):
    """A file gets zeros up to `size`."""

    inode: int
    size: int


class Synced(NamedTuple):
    """Everything before, of one file."""

    inode: int


class Entry(NamedTuple):
    """What a name in a directory means from now on; None: nothing."""

    directory: int
    name: str
    inode: int | None
    is_dir: bool


class Named(NamedTuple):
    """Entries of directories that change together."""

    entries: tuple[Entry, ...]


class NamesSynced(NamedTuple):
    """Every entry of one directory."""

    directory: int


class Noted(NamedTuple):
    """A promise."""

    what: object


Operation = Written | Cut | Reserved | Synced | Named | NamesSynced | Noted
