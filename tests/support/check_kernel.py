"""What a kernel has to do: exactly what the pure one does, in results and in errors.

    from pylog.kernel import compiled

    def test_my_kernel():
        check_kernel(compiled, batches=files)

`check_kernel` makes its own input, and takes files of batches. The single checks take any input, so a test may draw it
from where it likes. Each is given a kernel, which is a module with the names of `pylog.kernel.pure`, and raises
AssertionError with what was different.
"""

import importlib
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from pylog.errors import CorruptBatch, OffsetOutOfRange
from pylog.kernel import CREATE_TIME, HEADER_BYTES, SLOT_BYTES, BatchScope, pure
from pylog.protocol.batch import Batch, encode
from pylog.protocol.compression import Codec
from tests.support.kernel_input import END, Row, damaged, rows_of

Outcome = Any

_SCOPE = BatchScope("topic", 3, 7, 0)
_COLUMNS = frozenset({"offset", "timestamp", "timestamp_type", "key", "value", "headers"})


def check_kernel(kernel: ModuleType, batches: Iterable[bytes] = (), *, rounds: int = 100, seed: int = 0) -> None:
    """Run every check on `rounds` random inputs, good and damaged, and on `batches`: buffers of whole batches.

    Raises AssertionError.
    """
    chance = random.Random(seed)
    for data in batches:
        reads_the_same(kernel, data)
        reads_the_same(kernel, damaged(chance, data))
    for _ in range(rounds):
        rows = rows_of(chance)
        makes_the_same_records(kernel, rows)
        encodes_the_same(kernel, rows, now_ms=chance.randrange(1 << 42), limit=chance.randrange(4000))
        publishes_the_same(kernel, [chance.choice((0, 7, -1, 1 << 32, END, 1 << 64)) for _ in range(11)])
        hashes_the_same(kernel, [key or b"" for _, key, _, _ in rows])
        if rows:
            data = bytes(encode(rows, now_ms=1, codec=chance.choice(list(Codec))).data)
            reads_the_same(kernel, data * 2)
            appends_the_same(kernel, [data, data[:HEADER_BYTES], data], room=chance.randrange(3 * len(data)))
            reads_the_same(kernel, damaged(chance, data))
            decodes_the_same(kernel, damaged(chance, data[HEADER_BYTES:]), len(rows), last_offset=len(rows) - 1)
        decodes_the_same(kernel, chance.randbytes(chance.randrange(60)), chance.randrange(-1, 4))


# --- records ----------------------------------------------------------------------------------------------------------


def makes_the_same_records(kernel: ModuleType, arguments: Iterable[tuple[Any, ...]]) -> None:
    """`Record(*given)` has the same fields, text and hash, is equal to the same, or is refused for the same reason."""
    for given in arguments:
        _same(f"Record{given!r}", *(_outcome(_facts, twin.Record, given) for twin in (pure, kernel)))


def _facts(kind: Any, given: tuple[Any, ...]) -> Outcome:
    record = kind(*given)
    fields = record.__reduce__()[1][1:]
    return fields, repr(record), hash(record), record == kind(*fields), record != kind(b"another"), record != fields


def _decoded(kernel: ModuleType, *stream: Any) -> Outcome:
    return _records(kernel.decode_records(*stream))


def _records(records: Sequence[Any]) -> Outcome:
    return [
        (r.topic, r.partition, r.leader_epoch, r.timestamp_type, *r.__reduce__()[1][1:], repr(r), hash(r))
        for r in records
    ]


# --- encoding ---------------------------------------------------------------------------------------------------------


def encodes_the_same(kernel: ModuleType, rows: Sequence[Row], *, now_ms: int, limit: int) -> None:
    """Rows, records and an open batch of `limit` bytes give the same bytes, sizes and refusals."""
    wanted = _outcome(pure.encode_records, rows, now_ms)
    _same("encode_records of rows", wanted, _outcome(kernel.encode_records, rows, now_ms))
    records = [kernel.Record(*row) for row in rows]
    _same("encode_records of records", wanted, _outcome(kernel.encode_records, iter(records), now_ms))
    _same("records that were read", *(_read_ones(twin, rows, now_ms) for twin in (pure, kernel)))
    _same("OpenBatch", *(_filled(twin.OpenBatch(limit), rows, now_ms) for twin in (pure, kernel)))
    parts = [_drained(twin.OpenBatch(1 << 31, 7), rows, now_ms) for twin in (pure, kernel)]
    _same("OpenBatch.drain", *parts)
    _same("OpenBatch in parts", pure.encode_records(rows, now_ms, 7)[0], b"".join(parts[1]))
    for value, key, _, headers in rows:
        _same("record_size_bound", *(twin.record_size_bound(value, key, headers) for twin in (pure, kernel)))


def _read_ones(twin: Any, rows: Sequence[Row], now_ms: int) -> Outcome:
    scope = BatchScope("t", 0, 0, CREATE_TIME)
    read = [
        twin.ConsumerRecord(7, -1 if timestamp is None else timestamp, key, value, tuple(headers), scope)
        for value, key, timestamp, headers in rows
    ]
    lists = (read, [*read, twin.Record(b"")], [*read, b""], [None])
    checked = [_outcome(twin.encode_records, some, now_ms, HEADER_BYTES, True) for some in lists]
    return checked, _outcome(twin.encode_records, read, now_ms)


def _filled(batch: Any, rows: Iterable[Row], now_ms: int) -> Outcome:
    said = []
    for value, key, timestamp, headers in rows:
        stamp = now_ms if timestamp is None else timestamp
        said.append(_outcome(batch.add, value, key, stamp, headers))
        said.append((batch.size, batch.count, batch.limit))
    return said, batch.close(), _outcome(batch.close), _outcome(batch.add, b"late", None, 0), _outcome(batch.drain)


def _drained(batch: Any, rows: Sequence[Row], now_ms: int) -> Outcome:
    """The stream in parts, which together are what it is at once."""
    parts = [batch.drain()]
    for index, (value, key, timestamp, headers) in enumerate(rows):
        batch.add(value, key, now_ms if timestamp is None else timestamp, headers)
        if index % 2:
            parts.append(batch.drain())
    return [*parts, batch.drain()]


# --- the end of a log -------------------------------------------------------------------------------------------------


class _File(list[bytes]):
    """A file of which each write is told apart."""

    def size(self) -> int:
        return sum(map(len, self))

    def write(self, position: int, data: bytes) -> None:
        if len(self) > 3:
            raise ValueError("full")
        self.append(bytes([position % 256]) + bytes(data))


class _Index:
    """What it is given, in a list; it is full when that has so many entries."""

    def __init__(self, entries: list[Outcome], capacity: int) -> None:
        self.entries = entries
        self.capacity = capacity

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= self.capacity

    def add(self, offset: int, position: int) -> None:
        self.entries.append((offset, position))

    maybe_add = add


def appends_the_same(kernel: ModuleType, batches: Sequence[bytes], *, room: int) -> None:
    """Batches, whatever their headers say, are let in or not, fit or not, and are written and noted the same."""
    _same("Tail", *(_appended(twin, batches, room) for twin in (pure, kernel)))


def _appended(twin: Any, batches: Sequence[bytes], room: int) -> Outcome:
    file = _File()
    entries: list[Outcome] = []
    said: list[Outcome] = []
    numbers = dict.fromkeys(("base_offset", "next_offset", "max_timestamp_offset", "unindexed_bytes"), 0)
    numbers |= {"max_timestamp": -1, "first_max_timestamp": -2, "index_interval_bytes": 80, "room": room}
    numbers["newest_in_room"] = END // 2

    tail = twin.Tail(0, 80)
    tail.offset_index, tail.time_index = _Index(entries, 3), _Index(entries, 9)
    for name, number in numbers.items():
        setattr(tail, name, number)
    for data in [*batches, *batches]:
        batch = twin.BatchHeader(bytearray(data))
        for batch.trusted in (False, True):
            said.append(
                [
                    twin.PlainRules(bytes_max=size, after_max_ms=10).admits(batch, now)
                    for size in (-1, room)
                    for now in (-1, 0, END)
                ]
            )
        said.append(_outcome(batch.stamp, tail.next_offset, 3))
        said.append((tail.takes_batch(batch), tail.takes(batch.size, batch.last_offset, batch.max_timestamp)))
        said.append(_outcome(tail.put, file, batch))
        said.append([getattr(tail, name) for name in numbers])
    done = [twin.Appended(*some) for some in ((1, 2), (1, 2, None, False), (1, 3, 5), (1, 2, 5, True))]
    return file, entries, said, [(repr(one), [one == other for other in done], one == (1, 2)) for one in done]


def publishes_the_same(kernel: ModuleType, numbers: Sequence[int]) -> None:
    """The same slots for the numbers of a state, or a refusal of what has no place; and the same numbers in slots."""
    _same("Slots", *(_shown(twin, numbers) for twin in (pure, kernel)))


def _shown(twin: Any, numbers: Sequence[int]) -> Outcome:
    """What gets into the file, and which of it is refused; not in which words."""
    file = _File()
    slots = twin.Slots(file, 32, 7)
    said: list[Outcome] = []
    for some in ([number % (1 << 32) for number in numbers], numbers, numbers[:-1]):
        try:
            said.append(slots.show(tuple(some)))
        except struct.error:
            said.append("refused")
        said.append(slots.sequence)
    first, second = ([slot[1:] for slot in file] + [b""] * 2)[:2]
    torn = first[: len(first) // 2] + second[len(first) // 2 :]
    for one, other in ((first, second), (second, first), (first, torn), (torn, second), (first, first), (torn, b"")):
        said += [slots.newest(one.ljust(SLOT_BYTES, b"\0") + other[:size]) for size in (SLOT_BYTES, 8, 4)]
    return said, file


# --- reading ----------------------------------------------------------------------------------------------------------


def reads_the_same(kernel: ModuleType, data: bytes) -> None:
    """Any bytes: the same batches are found in them, the same records in these, the same reasons given for the rest."""
    for check_crc in (True, False):
        wanted, end, fault = pure.walk(data, check_crc=check_crc)
        found = kernel.walk(data, check_crc=check_crc)
        _same("walk", (list(wanted), end, fault), (list(found[0]), *found[1:]))
        _same("walk", list(wanted[1:]), list(found[0][1:]))
        _same("Spans", _asked(wanted), _asked(found[0]))
        for most in (1, 3, 1000):
            for first in (0, wanted[0].last_offset if wanted else 1):
                _same("take_records", *(_taken(twin, data, first, most, check_crc) for twin in (pure, kernel)))
    heads_the_same(kernel, data[:HEADER_BYTES])
    for span in wanted:
        heads_the_same(kernel, data[span.position : span.position + span.size])
        batch = Batch.parse(data, span.position)
        try:
            payload = bytes(batch.stream())
        except CorruptBatch:
            continue
        decodes_the_same(
            kernel, payload, batch.count, base_offset=batch.base_offset, last_offset=batch.last_offset,
            base_timestamp=batch.base_timestamp, append_timestamp=batch.append_timestamp,
        )  # fmt: skip


def _taken(kernel: ModuleType, data: bytes, first: int, most: int, check_crc: bool) -> Outcome:
    """What is taken until nothing more is plain, and what of what stands behind that."""
    said: list[Outcome] = []
    before, at = -1, 0
    while at != before or (len(said) == 1 and data):
        records, after, *ends = kernel.take_records(data, at, first, most, "topic", 3, check_crc)
        said.append((_records(records), after, ends))
        before, at = at, after if after > at or len(said) > 1 else min(HEADER_BYTES, len(data))
    return said


def heads_the_same(kernel: ModuleType, data: bytes) -> None:
    """Any bytes as a batch: the same fields, and the same bytes where fields are written back, others or those."""
    _same("BatchHeader", *(_outcome(_headed, twin, data) for twin in (pure, kernel)))


def _headed(kernel: ModuleType, data: bytes) -> Outcome:
    batch = kernel.BatchHeader(data)
    said = [_fields(batch)]
    batch.stamp(5, 9)
    said.append(_fields(batch))
    batch.write()
    said.append(_fields(batch))
    batch.attributes, batch.max_timestamp, batch.producer_id, batch.crc = 0x18, END, 1 << 40, 0
    batch.write()
    said.append(_outcome(batch.stamp, END - 1, -1))
    numbers = (7, -1, END, 0x13, 1 << 40, 3, END >> 32, 1 << 50, 4)
    begun = kernel.BatchHeader.begun(bytearray(data), *numbers)
    plain = kernel.BatchHeader.begun(bytearray(data), 1, 5, 6, 0)
    return said, _fields(batch), _fields(begun), _fields(plain), data


def _fields(batch: Any) -> Outcome:
    names = [name for name in pure.BatchHeader.__slots__ if name not in ("data", "last_offset")]
    return bytes(batch.data), [getattr(batch, name) for name in names], batch.last_offset % (1 << 64)


def _asked(spans: Any) -> Outcome:
    first, last = (spans[0].base_offset, spans[-1].last_offset) if spans else (0, 0)
    return (
        [list(spans.part(*ends)) for ends in ((0, 0), (0, 1), (1, 99), (2, 1))], spans.summary(),
        [spans.rising(expected, most) for expected in (0, first, last + 1) for most in (first, last - 1, last)],
        [spans.epochs(above) for above in (-1, 3)],
        spans.of_producers(),
        [spans.marks(first, 10, interval, passed, newest, 7) for interval in (0, 200) for passed in (0, 300)
         for newest in (-1, END)],
    )  # fmt: skip


def decodes_the_same(
    kernel: ModuleType,
    payload: bytes,
    count: int,
    *,
    base_offset: int = 0,
    last_offset: int = END,
    base_timestamp: int = 0,
    append_timestamp: int | None = None,
) -> None:
    """Any bytes as a record stream: the same records, columns and spans, or the same error."""
    for first in (0, min(base_offset + count // 2, END)):
        stream = (payload, count, base_offset, base_timestamp, append_timestamp, _SCOPE, first, last_offset)
        _same("decode_records", *(_outcome(_decoded, twin, *stream) for twin in (pure, kernel)))
        source = (payload, count, base_offset, last_offset, base_timestamp, append_timestamp)
        _same("decode_columns", *(_columns(twin, source, first) for twin in (pure, kernel)))
    filters_the_same(kernel, payload, count, base_offset, last_offset, base_timestamp, append_timestamp)


def checks_the_same(kernel: ModuleType, pieces: Sequence[bytes], count: int, base: int, record_max: int) -> None:
    """A stream that comes in pieces: the same records, and the same refusals, in the same words."""
    for limits in ((True, 0, 2000), (False, -END - 1, END)):
        given = (pieces, count, base, record_max, *limits)
        _same("StreamCheck", *(_outcome(_checked, twin, *given) for twin in (pure, kernel)))


def _checked(twin: Any, pieces: Sequence[bytes], *arguments: Any) -> Outcome:
    check, said = twin.StreamCheck(*arguments), []
    for piece in pieces:
        said.append(_outcome(check.feed, piece))
        said.append((check.count, check.newest, check.refused, check.is_untimely, check.faults))
    return said, _outcome(check.finish)


def _columns(kernel: ModuleType, source: tuple[Any, ...], first: int) -> Outcome:
    """The columns as lists; nothing where pyarrow is not installed."""
    try:
        decode_columns: Callable[..., Any] = importlib.import_module(f"{kernel.__name__}.columns").decode_columns
    except ModuleNotFoundError:
        return None
    return _outcome(_lists, decode_columns, source, first)


def _lists(decode_columns: Callable[..., Any], source: tuple[Any, ...], first: int) -> Outcome:
    columns = decode_columns([source, source], first, END, _COLUMNS)
    for array in columns.values():
        array.validate(full=True)
    return {name: (str(array.type), array.to_pylist()) for name, array in sorted(columns.items())}


def filters_the_same(kernel: ModuleType, payload: bytes, count: int, *batch: int | None) -> None:
    """The same spans, selections and streams of them, and judgements of a key table; `batch` as for `scan_records`."""
    wanted, found = (_outcome(twin.scan_records, payload, count, *batch) for twin in (pure, kernel))
    if not isinstance(wanted, pure.RecordSpans):
        _same("scan_records", wanted, found)
        return
    _same("scan_records", list(wanted), list(found))
    mask = bytes(at % 3 % 2 for at in range(count))
    sides = []
    for twin, spans in ((pure, wanted), (kernel, found)):
        table = twin.KeyTable(count // 2 + 2, count // 2)
        some = spans.select(mask)
        sides.append(
            (
                [table.put(some, min(spans[0][0] + 1, END) if count else 0), table.put(spans), len(table)],
                table.judge(spans, spans[-1][0] - 1 if count else 0),
                [list(some), len(some), spans.lacks_values, spans.max_timestamp if count else 0],
                [bytes(twin.keep_records(some, base)) for base in (0, -1, END, some[0][3] if some else 5)],
                _outcome(spans.select, b"") if count else None,
            )
        )
    _same("RecordSpans and KeyTable", *sides)


def hashes_the_same(kernel: ModuleType, keys: Iterable[bytes]) -> None:
    """`murmur2` of every key."""
    for key in keys:
        _same(f"murmur2({key!r})", pure.murmur2(key), kernel.murmur2(key))


# --- input and outcome ------------------------------------------------------------------------------------------------


def _outcome(call: Callable[..., Any], *arguments: Any) -> Outcome:
    """What a call gives, or what it raises; of a TypeError only that it does."""
    try:
        return call(*arguments)
    except TypeError:
        return "TypeError"
    except (CorruptBatch, OffsetOutOfRange, ValueError, OverflowError, struct.error) as error:
        return f"{type(error).__name__}: {error}"


def _same(what: str, wanted: Outcome, found: Outcome) -> None:
    if wanted != found:
        raise AssertionError(f"{what}: {found!r} instead of {wanted!r}")
