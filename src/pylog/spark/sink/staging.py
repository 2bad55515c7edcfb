"""Where the batches of tasks lie until the driver commits them, out of sight of every reader.

In a log directory: files of `.pylog-staged`, one for each attempt of a task. A name says whose it is:

    .pylog-staged/<write>_<batch>_<unique>         <write>: the id of a query, or of a batch write

    size of the batch u32 | size of the name u16 | partition u32 | name of the topic | batch | the next one...

Behind servers: records of the topic `__pylog_spark_staged`. Their value is a batch, their key is

    unique (16 bytes) | partition u32 | name of the topic

Files that no driver commits (a task or driver was killed) are removed with the next commit of the query, or after a
week. The topic keeps records for a day.
"""

import struct
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from pylog.client_half import ClientHalf
from pylog.config import ProducerConfig
from pylog.errors import LogNotFound, StorageError
from pylog.files import DiskFiles, File, join
from pylog.logdirs.log_directory import STAGED
from pylog.record import RecordMetadata, TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future
from pylog.spark.sink.reach import producer_of

if TYPE_CHECKING:
    from pylog.config.typed import TopicOptions

STAGED_TOPIC: Final = "__pylog_spark_staged"
STAGED_PARTITIONS: Final = 8
STAGED_CONFIG: "Final[TopicOptions]" = {
    "retention.ms": 86_400_000,
    "segment.ms": 3_600_000,
    "max.message.bytes": 1 << 30,
}
LEFT_MS: Final = 7 * 86_400_000
"""How long a file is left that nobody has committed."""

_FRAME: Final = struct.Struct(">IHI")
_KEY: Final = struct.Struct(">16sI")
_ENVELOPE: Final = 1 << 10
"""Room for what a record has beside the batch in it."""


@dataclass(frozen=True, slots=True)
class Staged(WriterCommitMessage):
    """What one task has staged: where, and how much, so that it is taken whole or not at all."""

    write: str
    unique: str
    records: int
    batches: int
    size: int
    """In bytes."""
    place: tuple[int, int] = field(default=(0, 0))
    """Behind servers: the partition of the topic, and the offset of the first record."""


class Stage(Protocol):
    """Takes the batches of one attempt of a task."""

    def put(self, topic: str, partition: int, batch: bytearray) -> None:
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

    def put(self, topic: str, partition: int, batch: bytearray) -> None:
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
    """What tasks have staged in a log directory, for the driver."""

    def __init__(self, directory: str) -> None:
        self._files = DiskFiles()
        self._folder = join(directory, STAGED)

    def batches(self, staged: Staged) -> Iterator[tuple[str, int, bytes]]:
        """Topic, partition and bytes of each batch. Raises StorageError where the file is not what the task wrote."""
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
                raise _changed(staged, f"{count} batches", f"{staged.batches}")
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
            raise _changed(staged, f"{stat.size} bytes", f"{staged.size}")
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
        raise _changed(staged, "something else", f"a batch at position {position}")

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


class TopicStage:
    """Stages in a topic behind servers."""

    def __init__(self, log: "ClientHalf[Any]", config: ProducerConfig, write: str, task: int) -> None:
        self._write = write
        self._unique = uuid.uuid4()
        self._partition = task % STAGED_PARTITIONS
        self._batches = self._size = 0
        self._first: Future[RecordMetadata] | None = None
        log.create_topic(STAGED_TOPIC, STAGED_PARTITIONS, STAGED_CONFIG, exist_ok=True)
        self._producer = producer_of(log, replace(config, compression_type="none"), room=_ENVELOPE)

    def put(self, topic: str, partition: int, batch: bytearray) -> None:
        key = _KEY.pack(self._unique.bytes, partition) + topic.encode()
        future = self._producer.send(STAGED_TOPIC, bytes(batch), key, partition=self._partition)
        if not self._batches:
            self._first = future
        self._batches += 1
        self._size += len(batch)

    def done(self, records: int) -> Staged:
        # It raises where a batch was not delivered.
        self._producer.close()
        offset = 0 if self._first is None else self._first.result().offset
        return Staged(self._write, self._unique.hex, records, self._batches, self._size, (self._partition, offset))

    def discard(self) -> None:
        """Nothing: retention does it."""


class StagedRecords:
    """What tasks have staged behind servers, for the driver. Retention takes it away."""

    def __init__(self, log: "ClientHalf[Any]") -> None:
        self._log = log

    def batches(self, staged: Staged) -> Iterator[tuple[str, int, bytes]]:
        """Topic, partition and bytes of each batch. Raises StorageError where some are gone."""
        if not staged.batches:
            return
        number, offset = staged.place
        key, unique, count = TopicPartition(STAGED_TOPIC, number), bytes.fromhex(staged.unique), 0
        with self._log.consumer(auto_offset_reset="none", fetch_max_bytes=8 << 20) as consumer:
            consumer.assign([key])
            consumer.seek(key, offset)
            while count < staged.batches:
                records = consumer.poll(timeout_ms=30_000)
                if not records:
                    raise _changed(staged, f"{count} batches", f"{staged.batches}")
                for record in records:
                    if record.key is not None and record.key[:16] == unique and count < staged.batches:
                        count += 1
                        partition = _KEY.unpack_from(record.key)[1]
                        yield record.key[_KEY.size :].decode(), partition, record.value or b""

    def drop(self, some: Iterable[Staged]) -> None:
        """Nothing: retention does it."""

    def clean(self, write: str | None, batch_id: int, now_ms: int) -> None:
        """Nothing: retention does it."""


def now_ms() -> int:
    """The time, for `clean`."""
    return SystemClock().wall_ms()


def _file_name(write: str, batch_id: int | None, unique: str) -> str:
    return f"{write}_{'' if batch_id is None else batch_id}_{unique}"


def _changed(staged: Staged, found: str, wanted: str) -> StorageError:
    return StorageError(
        f"{staged.unique}: a task of Spark has staged {wanted}, and there is {found} now: let the query run again"
    )
