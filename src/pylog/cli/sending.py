"""The sending half of `pylog produce`: pieces of its input become records, in transactions where that was asked for.

Memory stays bounded: a piece may be as long as a record may (`max.request.size`; one with JSON or a template longer, as
bytes are escaped there), and no more than `WAITING` records wait for their acknowledgement.
"""

import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import BinaryIO, Self

from pylog.cli.cutting import LINES, Cut, TableError
from pylog.cli.lines import Parser
from pylog.cli.meter import Meter
from pylog.cli.output import is_terminal, say
from pylog.client.producer import Producer
from pylog.errors import RecordTooLarge, UnknownTopicOrPartition
from pylog.files import DiskFiles
from pylog.record import RecordMetadata
from pylog.runtime.future import Future

__all__ = ["STDIN", "Brake", "Count", "Input", "commit_if_due", "named", "seen_through", "send_all", "total"]

WAITING = 10_000
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Input:
    """The sources of records, and the way from a piece to a record. `longest`: the most bytes of a piece.

    `key` is that of records without one of their own; with `is_null_empty` an empty value is null, a tombstone.
    """

    topic: str
    sources: Sequence[str]
    parse: Parser
    longest: int
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    transactional_id: str | None
    transaction_records: int | None
    is_quiet: bool
    key: bytes | None = None
    is_null_empty: bool = False
    cut: Cut = LINES


class Brake:
    """Ctrl-C where it does no harm: between two records, or while waiting for input. A second one stops at once.

    An interrupt in the middle of a write would leave the log in doubt of that write, and latch the partition.
    """

    def __init__(self) -> None:
        self.is_reading = False
        self._pulled = False
        self._before: object = None

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:
            # Leave it alone where it is ignored (a job in the background) or has another handler.
            signal.signal(signal.SIGINT, self._pull)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _pull(self, number: int, frame: FrameType | None) -> None:
        is_second, self._pulled = self._pulled, True
        if self.is_reading or is_second:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt if it was asked for."""
        if self._pulled:
            raise KeyboardInterrupt

    def open(self, path: str) -> BinaryIO:
        """Open a source. A FIFO may wait there for its writer. Raises OSError, KeyboardInterrupt."""
        self.is_reading = True
        try:
            self.check()
            return open(path, "rb")
        finally:
            self.is_reading = False


class Count:
    """The number of records that were sent and acknowledged. In a transaction only committed records count.

    `size` is how many bytes the keys, values and headers of acknowledged records have; None where that is not known, as
    some batches of a table failed. `read` is how many bytes of input were read, `aborted` how many records were in a
    transaction that was given up, if one was.
    """

    def __init__(self) -> None:
        self.read = 0
        self.size: int | None = 0
        self.sent = 0
        self.acknowledged = 0
        self.aborted: int | None = None
        self._landed_bytes = 0
        self._table_bytes = 0
        self._committed = 0
        self._committed_size: int | None = 0
        self._waiting: deque[tuple[Future[RecordMetadata], int, int]] = deque()

    def add(self, future: Future[RecordMetadata], size: int, records: int = 1) -> None:
        """Records of so many bytes were sent, in one batch. Waits for the oldest where many wait."""
        self.sent += records
        self._waiting.append((future, size, records))
        while len(self._waiting) > WAITING or (self._waiting and self._waiting[0][0].done()):
            self._settle()

    def add_bytes(self, size: int) -> None:
        """Rows of so many bytes are in batches that were added, or will be: no batch has a size of its own."""
        self._table_bytes += size

    def _settle(self) -> None:
        """Wait for the oldest record. Raises what became of it."""
        future, size, records = self._waiting.popleft()
        future.result()
        self.acknowledged += records
        self._landed_bytes += size

    def settle_all(self) -> None:
        """Wait for all records; they count now. Raises what became of the first that failed."""
        while self._waiting:
            self._settle()
        self._measure()
        self._committed, self._committed_size = self.acknowledged, self.size

    def settle_rest(self) -> None:
        """After an error: what became of the others, without raising anything. Every future must be done."""
        for future, size, records in self._waiting:
            if future.exception() is None:
                self.acknowledged += records
                self._landed_bytes += size
        self._waiting.clear()
        self._measure()

    def _measure(self) -> None:
        is_known = self.acknowledged == self.sent or not self._table_bytes
        self.size = self._landed_bytes + self._table_bytes if is_known else None

    def give_up(self) -> None:
        """The open transaction is aborted: what was sent in it counts for nothing."""
        self._waiting.clear()
        self.aborted = self.sent - self._committed
        self.sent = self.acknowledged = self._committed
        self.size = self._committed_size


def send_all(source: Input, producer: Producer, count: Count, brake: Brake) -> None:
    """Send every piece. Raises OSError (a file), ValueError (a piece), RecordTooLarge, KeyboardInterrupt, and what
    became of records; what was sent before is in the log then, except for a transaction that was open.
    """
    is_typed = STDIN in source.sources and is_terminal(sys.stdin)
    if is_typed and not source.is_quiet:
        say("one line is one record; Ctrl-D ends it" if source.cut is LINES else "Ctrl-D ends the input")
    is_shown = not source.is_quiet and not is_typed
    with (
        Meter(source.topic, total(source.sources), is_shown=is_shown) as meter,
        seen_through(source, producer, count),
    ):
        for name, number, piece in _pieces(source, count, brake):
            try:
                future, size = _send(source, producer, piece)
            except (RecordTooLarge, UnknownTopicOrPartition, ValueError) as error:
                raise named(error, f"{name}, {source.cut.noun} {number}", source.cut.noun, source, count) from error
            count.add(future, size)
            if source.transaction_records is not None:
                commit_if_due(source.transaction_records, producer, count)
            meter.update(count.read, count.sent)
            brake.check()


def commit_if_due(records: int, producer: Producer, count: Count) -> None:
    """End the transaction, and begin the next one, where it has so many records. Raises what a commit does."""
    if count.sent % records == 0:
        producer.commit()
        count.settle_all()
        producer.begin()


@contextmanager
def seen_through(source: Input, producer: Producer, count: Count) -> Iterator[None]:
    """Let what was sent become durable; after an error, or Ctrl-C, too, unless it is in a transaction."""
    is_transactional = source.transactional_id is not None
    if is_transactional:
        producer.begin()
    try:
        yield
        if is_transactional:
            producer.commit()
        producer.flush()
        count.settle_all()
    except BaseException:
        if is_transactional:
            count.give_up()
            producer.abort()
        else:
            # What was sent before the bad line, or before Ctrl-C, is as good as any other record: see it through.
            producer.flush()
            count.settle_rest()
        raise


def named(error: Exception, where: str, noun: str, source: Input, count: Count) -> Exception:
    """The error, with the piece that it is about; `noun`: what a piece is."""
    if isinstance(error, RecordTooLarge):
        return RecordTooLarge(f"{where}: {error}")
    before = f"the {noun}s before it were appended: correct the {noun} and go on from there"
    if not count.sent:
        before = "nothing was appended"
    if source.transactional_id is not None:
        before = "the open transaction was aborted"
    return ValueError(f"{where}: {error}; {before}")


def _send(source: Input, producer: Producer, piece: object) -> tuple[Future[RecordMetadata], int]:
    """Send the record of a piece; its future, and how many bytes it has."""
    value, key, partition, timestamp_ms, headers = source.parse(piece)
    if key is None:
        key = source.key
    if source.is_null_empty and not value:
        value = None
    headers = (*headers, *source.headers) if headers else source.headers
    future = producer.send(
        source.topic,
        value,
        key,
        partition=partition if source.partition is None else source.partition,
        timestamp_ms=timestamp_ms,
        headers=headers,
    )
    size = len(value or b"") + len(key or b"")
    if headers:
        size += sum(len(name.encode()) + len(one or b"") for name, one in headers)
    return future, size


def total(sources: Sequence[str]) -> int | None:
    """The bytes of all sources; None when one of them is a stream."""
    if STDIN in sources:
        return None
    files = DiskFiles(read_only=True)
    sizes = [stat.size if (stat := files.stat(name)) is not None else 0 for name in sources]
    return sum(sizes) or None


def _pieces(source: Input, count: Count, brake: Brake) -> Iterator[tuple[str, int, object]]:
    """The pieces of all sources: source, number, piece."""
    for path in source.sources:
        if path != STDIN:
            with brake.open(path) as stream:
                yield from _numbered(stream, path, source, count, brake)
            continue
        if sys.stdin is None:
            raise ValueError("stdin is closed: give records there, or name files")
        yield from _numbered(sys.stdin.buffer, "standard input", source, count, brake)


def _numbered(
    stream: BinaryIO, name: str, source: Input, count: Count, brake: Brake
) -> Iterator[tuple[str, int, object]]:
    number, pieces = 0, source.cut.pieces(stream, source.longest)
    while True:
        brake.is_reading = True
        # What was asked for before would not end the wait for input.
        brake.check()
        try:
            piece, size = next(pieces, (None, 0))
        except (RecordTooLarge, ValueError) as error:
            where = name if isinstance(error, TableError) else f"{name}, {source.cut.noun} {number + 1}"
            raise named(error, where, source.cut.noun, source, count) from error
        finally:
            brake.is_reading = False
        if piece is None:
            return
        number += 1
        count.read += size
        yield name, number, piece
