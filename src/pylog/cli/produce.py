"""`pylog produce TOPIC [FILE...]`: lines go in as records.

    one line                      ->  one record: its bytes without the line feed
    --key-separator SEP           ->  key SEP value, split at the first; a line without one is an error that names it
    an empty line                 ->  a record with an empty value

Bytes stay bytes: nothing is decoded. Memory stays bounded: a line may be as long as a record may
(`max.request.size`), and no more than `WAITING` records wait for their acknowledgement. The command ends when all
records are acknowledged; Ctrl-C stops reading, waits for what was sent, and says how much that was.
"""

import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, BinaryIO, Literal, Self

import click

from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.arguments import codec, headers, natural, separator
from pylog.cli.meter import Meter
from pylog.cli.opening import changing
from pylog.cli.output import is_terminal, plural, rate_text, say, size_text
from pylog.cli.params import argument, option
from pylog.cli.place import Place
from pylog.client.producer import Producer
from pylog.client_half import ClientHalf
from pylog.errors import RecordTooLarge, UnknownTopicOrPartition
from pylog.files import DiskFiles
from pylog.logdirs.foreign import require_directory
from pylog.record import RecordMetadata
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future

__all__ = ["command"]

WAITING = 10_000
LINE_BYTES = 1 << 20
"""The longest line: a producer's `max.request.size`."""
STDIN = "-"
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class _Brake:
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
        if self.is_reading or self._pulled:
            raise KeyboardInterrupt
        self._pulled = True

    def check(self) -> None:
        """Raises KeyboardInterrupt if it was asked for."""
        if self._pulled:
            raise KeyboardInterrupt


class _Count:
    """What went in."""

    def __init__(self) -> None:
        self.size = 0
        self.sent = 0
        self.acknowledged = 0
        self.waiting: deque[Future[RecordMetadata]] = deque()

    def add(self, future: Future[RecordMetadata]) -> None:
        self.sent += 1
        self.waiting.append(future)
        while len(self.waiting) > WAITING or (self.waiting and self.waiting[0].done()):
            self.settle()

    def settle(self) -> None:
        """Wait for the oldest record. Raises what became of it."""
        self.waiting.popleft().result()
        self.acknowledged += 1

    def settle_all(self) -> None:
        while self.waiting:
            self.settle()

    def settle_rest(self) -> None:
        """After an error: what became of the others, without raising anything. Every future must be done."""
        self.acknowledged += sum(future.exception() is None for future in self.waiting)
        self.waiting.clear()


@dataclass(frozen=True, slots=True)
class _Input:
    """Where records come from, and what each of them is."""

    topic: str
    sources: Sequence[str]
    key_separator: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    is_quiet: bool


@commands.command(
    "produce",
    short_help="append lines of files, or of standard input, as records",
    examples=(
        "pylog produce clicks access.log",
        "zcat access.log.gz | pylog produce clicks --key-separator ' ' --codec zstd",
        "pylog produce clicks access.log --bootstrap 127.0.0.1:9092",
        "tail -f app.log | pylog produce logs --headers host=web1,env=prod --flush interval",
    ),
)
@argument("topic", "TOPIC", "the topic; make one with `pylog topic create`", shell_complete=complete.topics)
@argument("files", "[FILE...]", "files to read, - for standard input (the default)", nargs=-1, type=click.Path())
@option(
    "--key-separator", "-K", type=separator, metavar="SEP",
    help="what stands between key and value in a line (\\t is a tab); without it records have no key",
)  # fmt: skip
@option("--headers", "-H", type=headers, default="", metavar="K=V,...", help="headers of every record")
@option(
    "--codec",
    "-z",
    "compression",
    type=codec,
    default="none",
    metavar="CODEC",
    help="none, gzip, snappy, lz4 or zstd (default: none)",
)
@option(
    "--partition", "-p", type=natural, metavar="N", help="the partition (default: by key, or wherever a batch is open)"
)
@option(
    "--acks", type=click.Choice(("all", "1", "0")), default="all",
    help="the replicas that must store a record before it counts (default: all)",
)  # fmt: skip
@option(
    "--flush", type=click.Choice(("sync", "interval", "none")),
    help="when records become durable: before they are acknowledged (sync, the default), every second, or when the "
    "system likes",
)  # fmt: skip
@option("--quiet", "-q", "is_quiet", is_flag=True, help="no progress and no summary")
def command(
    place: Place, topic: str, files: tuple[str, ...], compression: CompressionType, acks: str, flush: str | None,
    **given: Any,
) -> int:  # fmt: skip
    """Append lines as records: one a line, from files or standard input. Owns the log while it runs."""
    if place.servers is None:
        require_directory(DiskFiles(read_only=True), place.path)
    elif flush is not None:
        raise click.UsageError("--flush is for --log: a server has its own")
    wanted: int | Literal["all"] = "all" if acks == "all" else int(acks)
    source = _Input(topic, files or (STDIN,), **given)
    clock = SystemClock()
    started = clock.tick_ms()
    count = _Count()
    try:
        with changing(place, flush=flush) as log:
            _check_place(log, topic, source.partition)
            with log.producer(acks=wanted, compression_type=compression) as producer:
                with _Brake() as brake:
                    _send_all(source, producer, count, brake)
                brake.check()
    finally:
        # Also after an error or Ctrl-C: how much went in is what one needs to know then.
        if not source.is_quiet and (count.sent or sys.exc_info()[0] is None):
            _summary(topic, count, clock.tick_ms() - started)
    return 0


def _check_place(log: ClientHalf[Any], topic: str, partition: int | None) -> None:
    if topic not in log.topics(internal=True):
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}: make it with `pylog topic create {topic}`, or see `pylog topic list`"
        )
    partitions = len(log.topic(topic))
    if partition is not None and partition >= partitions:
        raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {partition}: it has {partitions}, from 0 on")


def _send_all(source: _Input, producer: Producer, count: _Count, brake: _Brake) -> None:
    is_typed = STDIN in source.sources and is_terminal(sys.stdin)
    if is_typed and not source.is_quiet:
        say("one line is one record; Ctrl-D ends it")
    try:
        with Meter(source.topic, _total(source.sources), is_shown=not source.is_quiet and not is_typed) as meter:
            for path in source.sources:
                name = "standard input" if path == STDIN else path
                for number, line in _lines(path, name, count, brake):
                    key, value = _split(line, source.key_separator, name, number)
                    try:
                        future = producer.send(
                            source.topic, value, key, partition=source.partition, headers=source.headers
                        )
                    except RecordTooLarge as error:
                        raise RecordTooLarge(f"{name}, line {number}: {error}") from error
                    count.add(future)
                    meter.update(count.size, count.sent)
                    brake.check()
            producer.flush()
            count.settle_all()
    except BaseException:
        # What was sent before the bad line, or before Ctrl-C, is as good as any other record: see it through.
        producer.flush()
        count.settle_rest()
        raise


def _total(sources: Sequence[str]) -> int | None:
    """The bytes of all sources; None when one of them is a stream."""
    if STDIN in sources:
        return None
    files = DiskFiles(read_only=True)
    sizes = [stat.size if (stat := files.stat(name)) is not None else 0 for name in sources]
    return sum(sizes) or None


def _lines(source: str, name: str, count: _Count, brake: _Brake) -> Iterator[tuple[int, bytes]]:
    if source == STDIN:
        if sys.stdin is None:
            raise ValueError("stdin is closed: give records there, or name files")
        yield from _numbered(sys.stdin.buffer, name, count, brake)
        return
    with open(source, "rb") as stream:
        yield from _numbered(stream, name, count, brake)


def _numbered(stream: BinaryIO, name: str, count: _Count, brake: _Brake) -> Iterator[tuple[int, bytes]]:
    number = 0
    while True:
        brake.is_reading = True
        line = stream.readline(LINE_BYTES + 1)
        brake.is_reading = False
        if not line:
            return
        number += 1
        count.size += len(line)
        if len(line) > LINE_BYTES and not line.endswith(b"\n"):
            raise RecordTooLarge(
                f"{name}, line {number}: it is longer than {size_text(LINE_BYTES)}, the most a record may have"
            )
        yield number, line.removesuffix(b"\n")


def _split(line: bytes, key_separator: bytes | None, name: str, number: int) -> tuple[bytes | None, bytes]:
    if key_separator is None:
        return None, line
    key, found, value = line.partition(key_separator)
    if not found:
        raise ValueError(
            f"{name}, line {number}: it has no key separator {key_separator.decode(errors='replace')!r}; "
            "the lines before it were appended: mend the line and go on from there"
        )
    return key, value


def _summary(topic: str, count: _Count, elapsed_ms: int) -> None:
    failed = count.sent - count.acknowledged
    missing = f"; {plural(failed, 'record')} sent and not acknowledged" if failed else ""
    say(
        f"appended {plural(count.acknowledged, 'record')} ({size_text(count.size)}) to {topic} "
        f"in {elapsed_ms / 1000:.1f} s, {rate_text(count.acknowledged, elapsed_ms)}{missing}"
    )
