"""What the tests of old bugs share: a partition with short ways to write, read and open it again, and files that let
something happen in the middle of a call.
"""

from collections.abc import Callable
from uuid import UUID

from pylog.commitlog.partition_reader import ReadablePartition
from pylog.config import TopicConfig
from pylog.files import File, Files, MemoryFiles
from pylog.kernel import Record
from pylog.partition import Appended, Checkpoint, Partition
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.storage.producer_state import Producers

NOW = 1_700_000_000_000
DAY = 86_400_000
DIRECTORY = "log/t-0"
UNCLEAN = Checkpoint(clean=False)


class Log:
    """A partition in small segments; without followers, so its high watermark is its end, unless told otherwise."""

    def __init__(self, files: Files | None = None, *, replicated: bool = True, **config: object) -> None:
        self.files = files if files is not None else MemoryFiles()
        given = {"segment.bytes": 2000, "index.interval.bytes": 100, "file.delete.delay.ms": 0}
        given |= {name.replace("_", "."): value for name, value in config.items()}  # type: ignore[misc]
        self.config = TopicConfig.loaded({name: str(value) for name, value in given.items()})
        self.replicated = replicated
        self.partition = self.make()
        self.partition.create(UUID(int=7), NOW)

    def make(self) -> Partition:
        return Partition(self.files, DIRECTORY, "t", 0, self.config)

    def append(self, *values: str, key: bytes = b"k", epoch: int = 0, timestamp: int = NOW, **header: int) -> Appended:
        """One batch; `header`: producer_id, producer_epoch, base_sequence, transactional."""
        records = [Record(value.encode(), key, timestamp) for value in values]
        return self.put(encode(records, now_ms=NOW, **header), epoch=epoch)  # type: ignore[arg-type]

    def put(self, batch: Batch, *, epoch: int = 0, origin: Origin = Origin.CLIENT) -> Appended:
        appended = self.partition.append(batch, epoch=epoch, now_ms=NOW, origin=origin)
        if self.replicated:
            self.partition.advance_high_watermark(self.partition.next_offset)
        return appended

    def in_transaction(self, *values: str, producer_id: int, sequence: int, key: bytes = b"k") -> Appended:
        return self.append(
            *values, key=key, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    def end(self, producer_id: int, *, commit: bool) -> Appended:
        return self.put(marker(producer_id, commit=commit), origin=Origin.COORDINATOR)

    def fill(self, count: int, *, size: int = 100) -> list[str]:
        """So many batches of one record; several segments."""
        values = [f"{i} {'x' * size}" for i in range(count)]
        for value in values:
            self.append(value)
        return values

    def reopen(self, checkpoint: Checkpoint = UNCLEAN) -> Partition:
        """Without closing what was open, as after a crash."""
        self.partition = self.make()
        self.partition.open(checkpoint, NOW)
        return self.partition

    def batches(self, start: int | None = None) -> list[Batch]:
        found: list[Batch] = []
        offset = self.partition.start_offset if start is None else start
        while (piece := self.partition.read(offset, 1, upto=self.partition.next_offset)) is not None:
            found += split(piece.data, check_crc=True)
            offset = piece.next_offset
        return found

    def values(self, start: int | None = None) -> list[str]:
        records = [
            r for batch in self.batches(start) if not batch.is_control for r in batch.records("t", 0, start or 0)
        ]
        return [record.value.decode() for record in records if record.value is not None]

    def committed(self) -> list[str]:
        """What a read_committed consumer is given."""
        return committed(self.partition)

    def replayed(self) -> Producers:
        """What the log alone says of producers."""
        producers = Producers("t-0")
        producers.replay([(batch, batch.marker()) for batch in self.batches()])
        return producers


def committed(partition: ReadablePartition) -> list[str]:
    """What a partition gives to a read_committed consumer."""
    found: list[str] = []
    offset, stable = partition.start_offset, partition.last_stable_offset
    while True:
        piece, aborted = partition.read_stable(offset, 1, upto=stable)
        if piece is None:
            return found
        (batch,) = split(piece.data, check_crc=True)
        hidden = batch.is_transactional and any(
            txn.producer_id == batch.producer_id and txn.first_offset <= batch.base_offset < txn.last_offset
            for txn in aborted
        )
        if not hidden and not batch.is_control:
            found += [r.value.decode() for r in batch.records("t", 0) if r.value is not None]
        offset = piece.next_offset


def marker(producer_id: int, *, commit: bool, producer_epoch: int = 0) -> Batch:
    record = Record(bytes(6), bytes([0, 0, 0, commit]), NOW)
    return encode(
        [record], now_ms=NOW, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


class InterruptingFile:
    """A handle that lets something happen before some of its calls; everything else is the real one's."""

    def __init__(self, file: File, files: "InterruptingFiles") -> None:
        self._file = file
        self._files = files

    def __getattr__(self, name: str) -> object:
        self._files.before(name)
        return getattr(self._file, name)


class InterruptingFiles:
    """Files in which `action` happens before the `at`-th call of one of `names` since `begin`, once."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.calls = 0
        self._at = 0
        self._names: tuple[str, ...] = ()
        self._action: Callable[[], object] = lambda: None

    def begin(self, at: int, names: tuple[str, ...], action: Callable[[], object]) -> None:
        self.calls, self._at, self._names, self._action = 0, at, names, action

    def before(self, name: str) -> None:
        if name in self._names:
            self.calls += 1
            if self.calls == self._at:
                # Its own calls count for nothing.
                names, self._names = self._names, ()
                self._action()
                self._names = names

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        return InterruptingFile(self.inner.open(path, create=create, kept=kept), self)  # type: ignore[return-value]

    def __getattr__(self, name: str) -> object:
        self.before(name)
        return getattr(self.inner, name)


class ReadOnlyFiles(InterruptingFiles):
    """What another process sees of the same files."""

    read_only = True
