"""Where the batches of tasks lie until the driver commits them, out of sight of every reader: in a log directory.

Files of `.pylog-staged`, one for each attempt of a task. A name says whose it is:

    .pylog-staged/<write>_<batch>_<unique>         <write>: the id of a query, or of a batch write

    size of the batch u32 | size of the name u16 | partition u32 | name of the topic | batch | the next one...

Files that no driver commits (a task or driver was killed) are removed with the next commit of the query, or after a
week. Behind servers it is `staged_topic`.
"""

import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from pylog.errors import LogNotFound, StorageError
from pylog.files import DiskFiles, File, join
from pylog.kernel.values import BytesLike
from pylog.logdirs.log_directory import STAGED
from pylog.runtime.clock import SystemClock

LEFT_MS: Final = 7 * 86_400_000
"""How long a file is left that nobody has committed."""

_FRAME: Final = struct.Struct(">IHI")


@dataclass(frozen=True, slots=True)
class Staged(WriterCommitMessage):
    """The records that one task has staged: where, and how much, so that it is taken whole or not at all."""

    write: str
    unique: str
    records: int
    batches: int
    size: int
    """In bytes."""
    checksum: int = field(default=0)
    """Of the rows of a stream (`content`)."""
    place: tuple[int, int] = field(default=(0, 0))
    """Behind servers: the partition of the topic, and the offset of the first record."""


class Stage(Protocol):
    """Takes the batches of one attempt of a task."""

    def put(self, topic: str, partition: int, batch: BytesLike) -> None:
        """Stage a batch."""

    def done(self, records: int) -> Staged:
        """All was put, `records` of them: give the message for the driver."""

    def discard(self) -> None:
        """The task has failed: take back what can be taken back."""


class FileStage:
    """Stages in a file of a log directory, which is made with the first batch. The file need not be durable: a driver
    that has not committed runs the batch again.
    """

    def __init__(self, directory: str, write: str, batch_id: int | None) -> None:
        self._files = DiskFiles()
        self._folder = join(directory, STAGED)
        self._write = write
        self._unique = _file_name(write, batch_id, uuid.uuid4().hex)
        self._file: File | None = None
        self._size = self._batches = 0

    def put(self, topic: str, partition: int, batch: BytesLike) -> None:
        if self._file is None:
            self._files.make_dir(self._folder)
            self._file = self._files.open(join(self._folder, self._unique), create=True)
        name = topic.encode()
        self._file.write(self._size, _FRAME.pack(len(batch), len(name), partition), name, batch)
        self._size += _FRAME.size + len(name) + len(batch)
        self._batches += 1

    def done(self, records: int) -> Staged:
        if self._file is not None:
            self._file.close()
        return Staged(self._write, self._unique, records, self._batches, self._size)

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            with suppress(StorageError):
                self._files.remove(join(self._folder, self._unique))


class StagedFiles:
    """The files that tasks have staged in a log directory, for the driver."""

    def __init__(self, directory: str) -> None:
        self._files = DiskFiles()
        self._folder = join(directory, STAGED)

    def batches(self, messages: Sequence[Staged]) -> Iterator[tuple[str, int, bytes]]:
        """Topic, partition and bytes of each batch, message after message. Raises StorageError where a file is not what
        its task wrote.
        """
        for staged in messages:
            yield from self._batches(staged)

    def _batches(self, staged: Staged) -> Iterator[tuple[str, int, bytes]]:
        if not staged.batches:
            return
        file = self._open(staged)
        try:
            position = count = 0
            while position < staged.size:
                topic, partition, batch, position = self._frame(file, staged, position)
                count += 1
                yield topic, partition, batch
            if count != staged.batches:
                raise changed(staged, f"{count} batches", f"{staged.batches}")
        finally:
            file.close()

    def _open(self, staged: Staged) -> File:
        path = join(self._folder, staged.unique)
        stat = self._files.stat(path)
        if stat is None:
            raise StorageError(
                f"{path}: what a task of Spark has staged is gone: the log directory has to be one and the same for "
                "the driver and all executors. Let the query run again"
            )
        if stat.size != staged.size:
            raise changed(staged, f"{stat.size} bytes", f"{staged.size}")
        return self._files.open(path)

    @staticmethod
    def _frame(file: File, staged: Staged, position: int) -> tuple[str, int, bytes, int]:
        head = file.read(position, _FRAME.size)
        if len(head) == _FRAME.size:
            size, name_size, partition = _FRAME.unpack(head)
            body = file.read(position + _FRAME.size, name_size + size)
            if len(body) == name_size + size:
                with suppress(UnicodeDecodeError):
                    return body[:name_size].decode(), partition, body[name_size:], position + _FRAME.size + len(body)
        raise changed(staged, "something else", f"a batch at position {position}")

    def drop(self, some: Iterable[Staged]) -> None:
        """Remove what was committed, or never will be."""
        for staged in some:
            if staged.batches:
                self._remove(staged.unique)

    def clean(self, write: str | None, batch_id: int, now_ms: int) -> None:
        """Remove what is left of the batches of a query up to `batch_id`, and of any write a week ago."""
        try:
            names = self._files.list_dir(self._folder)
        except LogNotFound:
            return
        for name in names:
            owner, _, rest = name.partition("_")
            number = rest.partition("_")[0]
            is_over = owner == write and number.isdecimal() and int(number) <= batch_id
            stat = None if is_over else self._files.stat(join(self._folder, name))
            if is_over or (stat is not None and stat.mtime_ms < now_ms - LEFT_MS):
                self._remove(name)

    def _remove(self, name: str) -> None:
        # Another driver may clean at the same time.
        with suppress(StorageError):
            self._files.remove(join(self._folder, name))


def now_ms() -> int:
    """The time, for `clean`."""
    return SystemClock().wall_ms()


def _file_name(write: str, batch_id: int | None, unique: str) -> str:
    return f"{write}_{'' if batch_id is None else batch_id}_{unique}"


def changed(staged: Staged, found: str, wanted: str) -> StorageError:
    """The error of a message whose batches are not what its task has staged."""
    return StorageError(
        f"{staged.unique}: a task of Spark has staged {wanted}, and there is {found} now: let the query run again"
    )
