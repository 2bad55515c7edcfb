"""A folder on a local disk, or behind a URI that pyarrow knows (hdfs, s3, gs), and its files by relative paths."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs, parquet

_UNFINISHED: Final = ".part"
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class Folder:
    """One folder. Pickled by its location: driver and executors have to see the same files there."""

    def __init__(self, location: str) -> None:
        """`location`: a path, made absolute, or a URI. Raises ValueError for one that pyarrow does not know."""
        self.location = location if "://" in location else str(Path(location).absolute())
        try:
            self._files, path = fs.FileSystem.from_uri(self.location)
        except (ValueError, NotImplementedError, OSError) as error:
            raise ValueError(f"'{location}' is no folder that can be opened: {error}") from error
        self._path = path.rstrip("/")

    def __reduce__(self) -> tuple[type["Folder"], tuple[str]]:
        return Folder, (self.location,)

    def __str__(self) -> str:
        return self.location

    def at(self, name: str) -> str:
        """The location of a file in it, as Spark and pyarrow take it."""
        return f"{self.location.rstrip('/')}/{name}"

    def names(self, below: str) -> list[str]:
        """The names of the files in a folder below, sorted; none where the folder is not there."""
        found = self._files.get_file_info(fs.FileSelector(f"{self._path}/{below}", allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.File)

    def folders(self, below: str) -> list[str]:
        """The names of the folders in a folder below, sorted; none where the folder is not there."""
        found = self._files.get_file_info(fs.FileSelector(f"{self._path}/{below}", allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None."""
        info = self._files.get_file_info(f"{self._path}/{name}")
        return int(info.size) if info.type == fs.FileType.File else None

    def changed_ns(self, below: str) -> int | None:
        """The newest time of change of the files in the folder `below`, in ns since 1970; None without files, or
        without times of them.
        """
        found = self._files.get_file_info(fs.FileSelector(f"{self._path}/{below}", allow_not_found=True))
        return max((info.mtime_ns for info in found if info.mtime_ns is not None), default=None)

    def read(self, name: str) -> bytes:
        """A small file. Raises OSError."""
        with self._files.open_input_stream(f"{self._path}/{name}") as file:
            return bytes(file.read())

    def write(self, name: str, data: bytes) -> None:
        """Write a small file, whole or not at all. Raises OSError."""
        self._make_parent(name)
        with self._files.open_output_stream(f"{self._path}/{name}{_UNFINISHED}") as file:
            file.write(data)
        self._files.move(f"{self._path}/{name}{_UNFINISHED}", f"{self._path}/{name}")

    def create(self, name: str, data: bytes) -> None:
        """Write a small file, whole or not at all, where no file is. Raises FileExistsError, OSError.

        Of two that do so at once one has the error, on a local disk that has links. Elsewhere both may write.
        """
        self._make_parent(name)
        unfinished, place = f"{self._path}/{name}.{uuid4().hex}{_UNFINISHED}", f"{self._path}/{name}"
        with self._files.open_output_stream(unfinished) as file:
            file.write(data)
        try:
            if not (isinstance(self._files, fs.LocalFileSystem) and _linked(unfinished, place)):
                if self.has(name):
                    raise FileExistsError(f"{self.at(name)} is there")
                self._files.move(unfinished, place)
        finally:
            if self._files.get_file_info(unfinished).type == fs.FileType.File:
                self._files.delete_file(unfinished)

    def move(self, name: str, to: str) -> None:
        """Move a file to a place in the same folder. Raises FileNotFoundError, OSError."""
        self._make_parent(to)
        self._files.move(f"{self._path}/{name}", f"{self._path}/{to}")

    def remove(self, below: str) -> None:
        """Remove a folder below and all that is in it, if it is there. Raises OSError."""
        if self._files.get_file_info(f"{self._path}/{below}").type == fs.FileType.Directory:
            self._files.delete_dir(f"{self._path}/{below}")

    def write_table(self, name: str, table: pa.Table, compression: str) -> int:
        """Write a Parquet file; gives its size in bytes. Raises OSError."""
        self._make_parent(name)
        parquet.write_table(table, f"{self._path}/{name}", filesystem=self._files, compression=compression)
        return int(self._files.get_file_info(f"{self._path}/{name}").size)

    def read_table(self, name: str) -> pa.Table:
        """A Parquet file, without columns that its path would add. Raises OSError, ArrowInvalid."""
        with self._files.open_input_file(f"{self._path}/{name}") as file:
            return parquet.ParquetFile(file).read()

    def batches(self, name: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a Parquet file, so many at a time. Raises OSError, ArrowInvalid."""
        with self._files.open_input_file(f"{self._path}/{name}") as file:
            yield from parquet.ParquetFile(file).iter_batches(rows)

    def _make_parent(self, name: str) -> None:
        below, _, _ = name.rpartition("/")
        self._files.create_dir(f"{self._path}/{below}" if below else self._path, recursive=True)


def _linked(path: str, place: str) -> bool:
    """Give a file a second name. False where the file system has no links. Raises FileExistsError, OSError."""
    try:
        Path(place).hardlink_to(path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True
